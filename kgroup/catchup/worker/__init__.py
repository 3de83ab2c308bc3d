"""What runs inside Spark's workers: one task of a plan; imports an allow list only."""
