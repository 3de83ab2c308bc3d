"""Whether the target topic of ``--to-topic`` still has the delivered records, and which of them are gone.

A committed transaction shows that a record was written, not that it is still there. The topic may be deleted or
recreated, or lose its oldest records during the replay. So the topic's id and log end offsets are frozen in the plan's
delivery before the first record, and compared before anything is verified. Neither ever returns to an old value: a
deleted topic's id is not reused, and a log start offset never moves back. So one comparison finds every loss since the
first record. If they differ, the headers of the remaining records show which ones are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kgroup.catchup.worker import provenance_headers
from kgroup.cluster.reader.batches import Batch, BatchReader
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import Chunk, ChunkProgress, PlanSnapshot, TargetTopic
from kgroup.model.records import OffsetRange, merged
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound

_TIMEOUT_OF_SCAN_S = 60.0

Span = tuple[int, int]


class TargetBounds(msgspec.Struct, frozen=True):
    """The target topic now: its id, and the log start and end offsets by partition number."""

    id: str | None
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def frozen(self) -> TargetTopic:
        """For a delivery that has not delivered any record yet."""
        return TargetTopic(self.id, self.ends)


def read_target(cluster: Cluster, topic: str) -> TargetBounds | None:
    """The topic now; None if it does not exist. Raises if it could not be read."""
    layout = cluster.layouts([topic])[topic]
    if isinstance(layout, NotFound):
        return None
    if isinstance(layout, KgroupError):
        raise _named(topic, layout)
    partitions = [TopicPartition(topic, number) for number in sorted(layout.leaders)]
    starts, ends = [], []
    positions = cluster.positions({topic: layout}, partitions)
    for tp in partitions:
        found = positions[tp]
        if isinstance(found, KgroupError):
            raise _named(f"{topic}:{tp.partition}", found)
        starts.append(found.range.start)
        ends.append(found.range.end)
    return TargetBounds(layout.id, tuple(starts), tuple(ends))


def _named(name: str, error: KgroupError) -> KgroupError:
    return type(error)(f"{name} {error.message}", details=error.details, hint=error.hint, code=error.code)


def difference(topic: str, before: TargetTopic, now: TargetBounds | None) -> str | None:
    """Why delivered records may be gone; None: the topic is the same and still has them all.

    Records that were in the topic before the replay do not count.
    """
    if now is None:
        return f"{topic} was deleted"
    shorter = any(end < had for end, had in zip(now.ends, before.ends, strict=False))
    if now.id != before.id or len(now.ends) < len(before.ends) or shorter:
        return f"{topic} was deleted and recreated"
    ends = (*before.ends, *[0] * (len(now.ends) - len(before.ends)))
    for number, (start, end) in enumerate(zip(now.starts, ends, strict=True)):
        if start > end:
            return f"records of {topic} were deleted: the log start of {topic}:{number} moved to {start}"
    return None


@dataclass(slots=True)
class DeliveredRanges:
    """The source offsets, as ranges, of the plan's records that the target topic has, and the number of records."""

    spans: dict[TopicPartition, list[Span]] = field(default_factory=dict)
    records: int = 0

    def add(self, plan_id: str, batch: Batch) -> None:
        """Add the records of a batch that this plan has delivered."""
        for headers in batch.headers():
            # The last ones count: a record that was replayed before also has the headers of the other plan.
            own = dict(headers or ())
            if _text(own.get(provenance_headers.PLAN)) != plan_id:
                continue
            topic, partition, offset = _text(own.get(provenance_headers.SOURCE)).rsplit(":", 2)
            spans, at = self.spans.setdefault(TopicPartition(topic, int(partition)), []), int(offset)
            if spans and spans[-1][1] == at:
                spans[-1] = (spans[-1][0], at + 1)
            else:
                spans.append((at, at + 1))
            self.records += 1

    def within(self, chunk: Chunk) -> list[Span]:
        """The ranges within a chunk, in order and without overlaps."""
        ranges = (OffsetRange(chunk.topic, chunk.partition, *span) for span in self._sorted(chunk))
        return [(row.start, row.end) for row in merged(ranges)]

    def _sorted(self, chunk: Chunk) -> Iterable[Span]:
        spans = self.spans.get(chunk.tp, [])
        return ((max(start, chunk.start), min(end, chunk.end)) for start, end in spans)


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def find_delivered(config: Mapping[str, Any], topic: str, now: TargetBounds, plan_id: str) -> DeliveredRanges:
    """Read the whole target topic. Raises as reading, and Refused [open-transaction] if a part is hidden."""
    found = DeliveredRanges()
    with BatchReader(config, timeout_s=_TIMEOUT_OF_SCAN_S) as reader:
        for number, (start, end) in enumerate(zip(now.starts, now.ends, strict=True)):
            for item in reader.batches(topic, number, start, end):
                if isinstance(item, Batch):
                    found.add(plan_id, item)
    return found


class TargetLoss(msgspec.Struct, frozen=True):
    """What the target topic has lost, and why: the source offsets ``gone``, with ``records`` records."""

    why: str
    gone: tuple[OffsetRange, ...]
    records: int


def has_delivered(ledgered: PlanSnapshot) -> bool:
    """Whether the ledger shows that records were delivered to the target topic."""
    return any(map(_delivered, ledgered.progress.values()))


def find_loss(
    ledgered: PlanSnapshot, found: DeliveredRanges, now: TargetBounds | None, why: str, *, keeps_partitions: bool
) -> TargetLoss:
    """What is gone. Pure.

    ``keeps_partitions``: the records of a source partition are in one target partition, so that a loss is the beginning
    of a chunk. Otherwise offsets without a record (control records, compaction) are indistinguishable from lost
    records, and ``gone`` may contain some.
    """
    before = None if ledgered.delivery is None else ledgered.delivery.target
    is_same = now is not None and before is not None and now.id == before.id
    gone: list[OffsetRange] = []
    records = 0
    for chunk in ledgered.plan.chunks:
        known = ledgered.progress.get(chunk.number)
        there = found.within(chunk)
        missing = 0 if known is None else _delivered(known) - sum(end - start for start, end in there)
        if missing <= 0:
            continue
        top = delivered_to(chunk, ledgered.progress)
        if there and is_same and keeps_partitions:
            there = [(there[0][0], top)]
        gone += [OffsetRange(chunk.topic, chunk.partition, *span) for span in _without(chunk.start, top, there)]
        records += missing
    return TargetLoss(why, tuple(merged(gone)), records)


def _delivered(known: ChunkProgress) -> int:
    return known.records - known.filtered - known.dead


def _without(start: int, end: int, spans: Sequence[Span]) -> Iterable[Span]:
    for low, high in spans:
        if start < low:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end
