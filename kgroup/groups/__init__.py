"""Decisions about groups: pure functions from snapshots to values, without a Kafka client and without a clock."""
