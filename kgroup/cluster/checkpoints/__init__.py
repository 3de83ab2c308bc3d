"""Streaming queries of Spark, read from their checkpoints as groups are read from their coordinators."""
