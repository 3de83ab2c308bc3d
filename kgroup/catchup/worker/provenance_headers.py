"""Headers that link a record delivered by kgroup to its source. Pure."""

from __future__ import annotations

from kgroup.cluster.transactions import Row
from kgroup.groups.catchup.dead_letters import ATTEMPTS, ERROR
from kgroup.groups.catchup.dead_letters import PLAN as PLAN
from kgroup.groups.catchup.dead_letters import SOURCE as SOURCE
from kgroup.model.records import ConsumerRecord

MAYBE_PROCESSED = "kgroup.maybe-processed"

Header = tuple[str, bytes | str | None]

_LONGEST_ERROR = 1000


def source(topic: str, partition: int, offset: int) -> str:
    """The source as a header value: ``orders:0:71`` is topic, partition and offset."""
    return f"{topic}:{partition}:{offset}"


def dead_letter(
    topic: str, plan_id: str, record: ConsumerRecord, attempts: int, error: str, maybe_processed: bool
) -> Row:
    """The row for the dead-letter topic: the record unchanged, with its error and attempts in additional headers."""
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
