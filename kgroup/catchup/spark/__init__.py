"""Spark's side of catch-up: a context that starts quickly, tasks that carry their secrets, and live progress.

pyspark is imported only inside functions. What runs in Spark's workers is ``in_worker``.
"""
