"""Catching up after a crash: the group starts at the log end, and the gap is replayed in parallel (after KIP-333).

``groups.catchup`` decides, without input or output; this package reads, writes and starts Spark.
"""
