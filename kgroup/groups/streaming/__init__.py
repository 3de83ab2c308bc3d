"""Streaming queries of Spark, from their checkpoints: what they have read, and what that shows. Pure."""
