"""Spark's side of catch-up: a context that starts quickly, tasks that carry their secrets themselves, live progress.

pyspark is imported inside functions alone. What runs in Spark's workers is ``in_worker``.
"""
