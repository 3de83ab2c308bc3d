"""Which records of a share group ``kgroup peek`` shows: on their last attempt, archived, or retried. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

from kgroup.model.groups import LogRange
from kgroup.model.records import ConsumerRecord
from kgroup.model.share_deliveries import DeliveryBatch, DeliveryState, PartitionDeliveries
from kgroup.support.json_types import Count, ExplainedEnum, Offset

_SAME_READ = 100
"""Offsets between two batches that are read with them: another read costs more."""


class DeliveryKind(ExplainedEnum):
    """Why a record of a share group is shown."""

    LAST_ATTEMPT = "last-attempt", "it is archived if its next delivery fails"
    ARCHIVED = "archived", "it is not delivered again"
    RETRIED = "retried", "it was delivered and came back"


class DeliveryDocument(msgspec.Struct, frozen=True):
    """How often a record of a share group was delivered, and what became of it."""

    offset: Annotated[Offset, "The offset of the record."]
    kind: Annotated[DeliveryKind, "Why it is shown."]
    delivery_state: Annotated[DeliveryState, "Its state."]
    delivery_count: Annotated[Count, "How often it was delivered."]


DeadLetteredRecords = frozenset[tuple[str, int, int]]
"""(topic, partition, offset) of records that are in a dead-letter topic."""


class PeekedDeliveries(msgspec.Struct, frozen=True):
    """The deliveries of a partition, and the delivery limit of its group; None if it is not known."""

    state: PartitionDeliveries
    limit: int | None

    @property
    def batches(self) -> tuple[DeliveryBatch, ...]:
        """Those whose records are shown."""
        return tuple(each for each in self.state.batches if self.kind(each) is not None)

    def kind(self, batch: DeliveryBatch) -> DeliveryKind | None:
        if batch.is_archived:
            return DeliveryKind.ARCHIVED
        if not batch.is_retried:
            return None
        return DeliveryKind.LAST_ATTEMPT if batch.is_last_attempt(self.limit) else DeliveryKind.RETRIED

    @property
    def last_attempts(self) -> int:
        return self.state.last_attempts(self.limit) or 0

    def ranges(self, log: LogRange) -> list[LogRange]:
        """What to read of the log, the newest first."""
        ranges: list[LogRange] = []
        for batch in self.batches:
            first, end = max(batch.first, log.start), min(batch.last + 1, log.end)
            if first >= end:
                continue
            if ranges and first - ranges[-1].end <= _SAME_READ:
                first = ranges.pop().start
            ranges.append(LogRange(first, end))
        return ranges[::-1]

    def of(self, records: Iterable[ConsumerRecord]) -> Iterator[DeliveryDocument]:
        """The deliveries of those of the records that are to be shown, which are in the order of their offsets."""
        batches = iter(self.batches)
        batch = next(batches, None)
        for record in records:
            while batch is not None and batch.last < record.offset:
                batch = next(batches, None)
            if batch is not None and batch.first <= record.offset and (kind := self.kind(batch)):
                yield DeliveryDocument(record.offset, kind, batch.state, batch.count)


def newest_of_each_kind(
    records: Sequence[ConsumerRecord], deliveries: PeekedDeliveries, count: int
) -> tuple[ConsumerRecord, ...]:
    """Of each kind the last ``count`` records, in the order of their offsets."""
    known = list(deliveries.of(records))
    kept = {each.offset for kind in DeliveryKind for each in [each for each in known if each.kind is kind][-count:]}
    return tuple(record for record in records if record.offset in kept)


_TOPIC, _PARTITION, _OFFSET, _GROUP = (f"__dlq.errors.{name}" for name in ("topic", "partition", "offset", "group"))


def dead_letter_of(record: ConsumerRecord, group: str) -> tuple[str, int, int] | None:
    """(topic, partition, offset) of the record that a dead letter of this group is about; None for any other one."""
    texts = {name: raw.decode(errors="replace") for name, raw in record.headers if raw is not None}
    if texts.get(_GROUP) != group or _TOPIC not in texts:
        return None
    try:
        return texts[_TOPIC], int(texts[_PARTITION]), int(texts[_OFFSET])
    except (KeyError, ValueError):
        return None
