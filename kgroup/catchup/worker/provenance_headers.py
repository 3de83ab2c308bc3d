"""The headers by which a record that kgroup delivered can be traced back. Pure."""

from __future__ import annotations

from kgroup.cluster.transactions import Row
from kgroup.model.records import ConsumerRecord

PLAN = "kgroup.plan"
SOURCE = "kgroup.source"
MAYBE_PROCESSED = "kgroup.maybe-processed"
ERROR = "kgroup.error"
ATTEMPTS = "kgroup.attempts"

Header = tuple[str, bytes | str | None]

_LONGEST_ERROR = 1000


def source(topic: str, partition: int, offset: int) -> str:
    """``orders:0:71``: where a record lay."""
    return f"{topic}:{partition}:{offset}"


def dead_letter(
    topic: str, plan_id: str, record: ConsumerRecord, attempts: int, error: str, maybe_processed: bool
) -> Row:
    """The record as the dead-letter topic gets it: as it was, with what became of it in its headers."""
    headers: list[Header] = [
        *record.headers,
        (PLAN, plan_id),
        (SOURCE, source(record.topic, record.partition, record.offset)),
        (ERROR, error[:_LONGEST_ERROR]),
        (ATTEMPTS, str(attempts)),
    ]
    if maybe_processed:
        headers.append((MAYBE_PROCESSED, "true"))
    return topic, record.value, record.key, -1, max(0, record.timestamp_ms or 0), headers
