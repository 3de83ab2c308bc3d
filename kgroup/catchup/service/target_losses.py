"""Whether the target topic of ``--to-topic`` still has what was delivered to it, and what has to be delivered again.

The transaction that delivers proves that a record was written, not that it is still there: the topic may be deleted,
recreated, or lose its oldest records while the replay runs. So the topic's id and its log end offsets are frozen in the
plan's delivery before the first record, and compared before anything is verified. Neither ever returns to what it was:
the id of a topic that was deleted is not used again, and a log start never moves back. So this one comparison finds
whatever happened since the first record; those that are made while a replay runs only end it early. Where they differ,
the headers of the records that are left say which ones are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgroup.catchup.buckets import begun
from kgroup.catchup.delivered import delivered_to
from kgroup.catchup.model import Chunk, ChunkProgress, Delivery, Place, PlanSnapshot, TargetTopic
from kgroup.catchup.worker import provenance_headers
from kgroup.cluster.reader.batches import Batch, BatchReader
from kgroup.cluster.snapshot import Cluster
from kgroup.model.records import OffsetRange, merged
from kgroup.support.errors import KgroupError, NotFound

MOST_KEPT = 20_000
"""How many ranges of offsets the progress of one chunk may list: it has to fit into a record of the ledger."""

_TIMEOUT_OF_SCAN_S = 60.0

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TopicNow:
    """The target topic now: its id and, by partition number, where its logs start and end."""

    id: str | None
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def frozen(self) -> TargetTopic:
        """For a delivery that has not delivered anything yet."""
        return TargetTopic(self.id, self.ends)


def read_target(cluster: Cluster, topic: str) -> TopicNow | None:
    """The topic now; None where it does not exist. Raises what could not be read."""
    layout = cluster.layouts([topic])[topic]
    if isinstance(layout, NotFound):
        return None
    if isinstance(layout, KgroupError):
        raise _named(topic, layout)
    places = [(topic, number) for number in sorted(layout.leaders)]
    starts, ends = [], []
    positions = cluster.positions({topic: layout}, places)
    for place in places:
        found = positions[place]
        if isinstance(found, KgroupError):
            raise _named(f"{topic}:{place[1]}", found)
        starts.append(found.range.start)
        ends.append(found.range.end)
    return TopicNow(layout.id, tuple(starts), tuple(ends))


def _named(name: str, error: KgroupError) -> KgroupError:
    return type(error)(f"{name} {error.message}", details=error.details, hint=error.hint, code=error.code)


def difference(topic: str, before: TargetTopic, now: TopicNow | None) -> str | None:
    """Why records that were delivered may be gone; None: the topic is the same, and has them all.

    That its log start passed records that were there before the replay does not count.
    """
    if now is None:
        return f"{topic} was deleted"
    shorter = any(end < had for end, had in zip(now.ends, before.ends, strict=False))
    if now.id != before.id or len(now.ends) < len(before.ends) or shorter:
        return f"{topic} was deleted and created again"
    ends = (*before.ends, *[0] * (len(now.ends) - len(before.ends)))
    for number, (start, end) in enumerate(zip(now.starts, ends, strict=True)):
        if start > end:
            return f"records of {topic} were deleted: the log start of {topic}:{number} moved to {start}"
    return None


@dataclass(slots=True)
class DeliveredRanges:
    """The source offsets of the plan's records that the target topic has, as ranges, and how many they are."""

    spans: dict[Place, list[Span]] = field(default_factory=dict)
    records: int = 0

    def add(self, plan_id: str, batch: Batch) -> None:
        """Take in the records of a batch that this plan has delivered."""
        for headers in batch.headers():
            # The last ones count: a record that was replayed before has those of the other plan too.
            own = dict(headers or ())
            if _text(own.get(provenance_headers.PLAN)) != plan_id:
                continue
            topic, partition, offset = _text(own.get(provenance_headers.SOURCE)).rsplit(":", 2)
            spans, at = self.spans.setdefault((topic, int(partition)), []), int(offset)
            if spans and spans[-1][1] == at:
                spans[-1] = (spans[-1][0], at + 1)
            else:
                spans.append((at, at + 1))
            self.records += 1

    def within(self, chunk: Chunk) -> list[Span]:
        """Those of a chunk, in order, each offset in one range alone."""
        ranges = (OffsetRange(chunk.topic, chunk.partition, *span) for span in self._sorted(chunk))
        return [(row.start, row.end) for row in merged(ranges)]

    def _sorted(self, chunk: Chunk) -> Iterable[Span]:
        spans = self.spans.get((chunk.topic, chunk.partition), [])
        return ((max(start, chunk.start), min(end, chunk.end)) for start, end in spans)


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def find_delivered(config: Mapping[str, Any], topic: str, now: TopicNow, plan_id: str) -> DeliveredRanges:
    """Read all of the target topic. Raises Refused [open-transaction] where a part of it is hidden, and as reading."""
    found = DeliveredRanges()
    with BatchReader(config, timeout_s=_TIMEOUT_OF_SCAN_S) as reader:
        for number, (start, end) in enumerate(zip(now.starts, now.ends, strict=True)):
            for item in reader.batches(topic, number, start, end):
                if isinstance(item, Batch):
                    found.add(plan_id, item)
    return found


@dataclass(frozen=True, slots=True)
class TargetLoss:
    """What the target topic has lost.

    ``gone`` are the source offsets, which hold ``records`` records. ``values`` are what the ledger must have so that
    they are delivered again. ``blocked`` is why they cannot be; then nothing may be verified.
    """

    why: str
    gone: tuple[OffsetRange, ...]
    records: int
    values: tuple[Delivery | ChunkProgress, ...]
    exists: bool
    blocked: str | None = None


def has_delivered(ledgered: PlanSnapshot) -> bool:
    """Whether the ledger says that anything is in the target topic."""
    return any(_delivered(one) or one.kept for one in ledgered.progress.values())


def find_loss(
    ledgered: PlanSnapshot,
    found: DeliveredRanges,
    now: TopicNow | None,
    why: str,
    *,
    keeps_partitions: bool,
    compacted: bool,
) -> TargetLoss:
    """What is gone, and how the ledger has to change. Pure.

    ``keeps_partitions``: the records of a source partition lie in one partition of the target, so that what is gone is
    the beginning of a chunk. Else offsets without a record (control records, compaction) cannot be told from a record
    that is gone, and ``gone`` may hold some.
    """
    delivery = ledgered.delivery
    assert delivery is not None
    same = now is not None and delivery.target is not None and now.id == delivery.target.id
    target = replace(delivery, target=None if now is None else _frozen_again(delivery.target if same else None, now))
    if delivery.buckets:
        return _of_buckets(ledgered, found, now, why, target)
    gone: list[OffsetRange] = []
    values: list[Delivery | ChunkProgress] = []
    records, largest = 0, 0
    for chunk in ledgered.plan.chunks:
        known = ledgered.progress.get(chunk.number)
        if known is None or not (_delivered(known) or known.kept):
            continue
        there = found.within(chunk)
        missing = _delivered(known) - sum(end - start for start, end in there)
        if missing <= 0 and not known.kept:
            continue
        top = max([delivered_to(chunk, ledgered.progress), *(end for _, end in known.kept)])
        if there and same and keeps_partitions and not known.again:
            there = [(there[0][0], top)]
        gone += [OffsetRange(chunk.topic, chunk.partition, *span) for span in _without(chunk.start, top, there)]
        records += max(0, missing)
        largest = max(largest, len(there))
        values.append(_anew(known, chunk.start, known.again + max(0, missing), tuple(there)))
    blocked = None
    if gone and compacted and found.records:
        blocked = "the topic is compacted: an older record would come after a newer one of its key"
    elif largest > MOST_KEPT:
        blocked = "the records that are left lie scattered between those that are gone"
    return TargetLoss(why, tuple(merged(gone)), records, (target, *values), now is not None, blocked)


def _of_buckets(
    ledgered: PlanSnapshot, found: DeliveredRanges, now: TopicNow | None, why: str, target: Delivery
) -> TargetLoss:
    """With buckets of keys, all of them are delivered again or none: which offsets are whose is not in the ledger."""
    plan = ledgered.plan
    own = [ledgered.progress[number] for number in begun(plan, ledgered.progress)]
    missing = sum(map(_delivered, own)) - found.records
    if missing <= 0:
        return TargetLoss(why, (), 0, (target,), now is not None)
    values = (_anew(one, 0, one.again + _delivered(one), ()) for one in own)
    gone = merged(OffsetRange(*item.place, item.start, item.end) for item in plan.ranges)
    blocked = "with --latest-per-key, a part of what was delivered cannot be delivered again" if found.records else None
    return TargetLoss(why, tuple(gone), missing, (target, *values), now is not None, blocked)


def _anew(known: ChunkProgress, start: int, again: int, kept: tuple[Span, ...]) -> ChunkProgress:
    return ChunkProgress(known.chunk, start, 0, 0, 0, 0, known.at_ms, known.epoch, again=again, kept=kept)


def _delivered(known: ChunkProgress) -> int:
    return known.records - known.filtered - known.dead


def _frozen_again(before: TargetTopic | None, now: TopicNow) -> TargetTopic:
    """What is there lies above the log start; in a partition that lost nothing, above where it began."""
    had = () if before is None else before.ends
    return TargetTopic(now.id, tuple(map(max, now.starts, (*had, *[0] * (len(now.starts) - len(had))))))


def _without(start: int, end: int, spans: Sequence[Span]) -> Iterable[Span]:
    for low, high in spans:
        if start < low:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end
