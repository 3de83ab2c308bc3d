"""Which records of a topic are the newest of their key."""

from __future__ import annotations

from tests.helpers.catchup.replays import Seen


def newest(records: list[Seen], *, topic: str) -> set[str]:
    """Where the newest record of each key of a topic lies, by the rule alone; all without a key."""
    by_partition = {(record.partition, record.key): record for record in records if record.key is not None}
    by_key: dict[bytes, Seen] = {}
    for record in by_partition.values():
        assert record.key is not None
        other = by_key.get(record.key)
        if other is None or (other.timestamp_ms, other.partition) < (record.timestamp_ms, record.partition):
            by_key[record.key] = record
    wanted = [*by_key.values(), *(record for record in records if record.key is None)]
    return {f"{topic}:{record.partition}:{record.offset}" for record in wanted}
