"""Decisions about groups: functions from snapshots to values, without a client and without a clock."""
