"""Code that runs in Spark's workers, for one task of a plan. It imports from an allow list only."""
