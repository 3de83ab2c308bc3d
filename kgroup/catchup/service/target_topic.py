"""The target topic of a replay: whether it still has the delivered records, and which of them are gone.

A committed transaction shows that a record was written, not that it is still there. The topic may be deleted or
recreated, or lose its oldest records during the replay. So the topic's id and log end offsets are frozen in the plan's
delivery before the first record, and compared before anything is verified. Neither ever returns to an old value: a
deleted topic's id is not reused, and a log start offset never moves back. So one comparison finds every loss since the
first record. If they differ, the headers of the remaining records show which ones are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.delivery import delivery_words
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.replay import DEAD_LETTERS
from kgroup.catchup.service.show import commands
from kgroup.catchup.sinks.topic import keeps_partitions
from kgroup.catchup.worker import provenance_headers
from kgroup.cluster.reader.batches import Batch, BatchReader
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topics import TopicLayout
from kgroup.groups.catchup.dead_letters import REDRIVE
from kgroup.groups.catchup.delivered import delivered_to, undelivered
from kgroup.groups.catchup.model import ChunkProgress, Delivery, PlanSnapshot, TargetTopic
from kgroup.groups.catchup.unrecorded_releases import range_words
from kgroup.model.groups import RowError
from kgroup.model.records import OffsetRange, merged, without
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, KgroupError, NotFound
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_NAMED = 3
_MOST_RANGES = 100
_TIMEOUT_OF_SCAN_S = 60.0
_UNKNOWN = "the ledger does not have the earlier log end offsets of the topic"


def target_of(delivery: Delivery | None) -> str | None:
    """The name of the target topic; None for other sinks."""
    return delivery.options.get("topic") if delivery is not None and delivery.sink == "topic" else None


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
        log = positions[tp]
        if isinstance(log, KgroupError):
            raise _named(f"{topic}:{tp.partition}", log)
        starts.append(log.range.start)
        ends.append(log.range.end)
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


class TargetLoss(msgspec.Struct, frozen=True):
    """What the target topic has lost, and why: the source offsets ``gone``, with ``records`` records."""

    why: str
    gone: tuple[OffsetRange, ...]
    records: int


def find_delivered(
    config: Mapping[str, Any], topic: str, now: TargetBounds, plan_id: str
) -> dict[TopicPartition, list[OffsetRange]]:
    """The source offsets of the plan's records that the whole topic has, in its order; a record may be there twice.

    Raises as reading, and Refused [open-transaction] if a part is hidden.
    """
    delivered: dict[TopicPartition, list[OffsetRange]] = {}
    with BatchReader(config, timeout_s=_TIMEOUT_OF_SCAN_S) as reader:
        for number, (start, end) in enumerate(zip(now.starts, now.ends, strict=True)):
            for item in reader.batches(topic, number, start, end):
                for tp, offset in _sources(item, plan_id) if isinstance(item, Batch) else ():
                    rows = delivered.setdefault(tp, [])
                    first = rows.pop().start if rows and rows[-1].end == offset else offset
                    rows.append(OffsetRange(*tp, first, offset + 1))
    return delivered


def _sources(batch: Batch, plan_id: str) -> Iterator[tuple[TopicPartition, int]]:
    """Where the batch's records that this plan has delivered come from."""
    for headers in batch.headers():
        # The last ones count: a record that was replayed before also has the headers of the other plan.
        own = dict(headers or ())
        if _text(own.get(provenance_headers.PLAN)) == plan_id:
            topic, partition, offset = _text(own.get(provenance_headers.SOURCE)).rsplit(":", 2)
            yield TopicPartition(topic, int(partition)), int(offset)


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def find_loss(
    ledgered: PlanSnapshot, copies: Mapping[TopicPartition, list[OffsetRange]], why: str, *, only_beginnings: bool
) -> TargetLoss:
    """What is gone, if ``found`` is what is left. Pure.

    ``only_beginnings``: the records of a source partition are in one target partition, so that a loss is the beginning
    of a chunk. Otherwise offsets without a record (control records, compaction) are indistinguishable from lost
    records, and ``gone`` may contain some.
    """
    gone: list[OffsetRange] = []
    records = 0
    for chunk in ledgered.plan.chunks:
        delivered = OffsetRange(*chunk.tp, chunk.start, delivered_to(chunk, ledgered.progress))
        there = merged(
            OffsetRange(*chunk.tp, max(row.start, chunk.start), min(row.end, chunk.end))
            for row in copies.get(chunk.tp, ())
        )
        missing = _delivered(ledgered.progress.get(chunk.number)) - sum(row.offsets for row in there)
        if missing > 0:
            if there and only_beginnings:
                there = [OffsetRange(*chunk.tp, there[0].start, delivered.end)]
            gone += without(delivered, there)
            records += missing
    return TargetLoss(why, tuple(merged(gone)), records)


def _delivered(known: ChunkProgress | None) -> int:
    return 0 if known is None else known.records - known.filtered - known.dead


def check_target_topic(engine: CatchupEngine, config: Mapping[str, Any], runner: Runner) -> TargetLoss | None:
    """Freeze the target topic before the first record; later, return what it has lost since. None: nothing.

    No other run may work on the plan, and its tasks must have ended. Raises what reading the target topic or the ledger
    raises: a topic that could not be read is not verified.
    """
    delivery = runner.snapshot.delivery
    topic = target_of(delivery)
    if topic is None or delivery is None:
        return None
    now, before = read_target(engine.cluster, topic), delivery.target
    why = _UNKNOWN if before is None else difference(topic, before, now)
    if why is None:
        return None
    if not any(map(_delivered, runner.snapshot.progress.values())):
        if now is not None:
            runner.write(replace(delivery, target=now.frozen()))
        return None
    # Open transactions of abandoned workers must be decided before counting.
    engine.ledger.fence_tasks(runner.plan_id, (task.number for task in delivery.tasks))
    loss = _loss(engine, config, runner.read(), topic, why)
    return loss if loss.gone else None


def freeze_dead_letters(engine: CatchupEngine, runner: Runner) -> None:
    """Freeze the dead-letter topic in the ledger before the first dead letter. Raises what reading it raises."""
    delivery = runner.snapshot.delivery
    name = delivery.options.get(DEAD_LETTERS) if delivery is not None else None
    if delivery is None or name is None or name in delivery.dead_letters:
        return
    if (now := read_target(engine.cluster, name)) is not None:
        runner.write(replace(delivery, dead_letters={**delivery.dead_letters, name: now.frozen()}))


def missing_dead_letters(engine: CatchupEngine, config: Mapping[str, Any], snapshot: PlanSnapshot) -> str | None:
    """A sentence about the plan's dead letters that are gone from their topics; None: all are there.

    They cannot be delivered again: only the run that rejected them had them.
    """
    dead = sum(
        snapshot.progress[chunk.number].dead for chunk in snapshot.plan.chunks if chunk.number in snapshot.progress
    )
    before = snapshot.delivery.dead_letters if snapshot.delivery is not None else {}
    now = {name: read_target(engine.cluster, name) for name in before} if dead else {}
    changes = [why for name, topic in now.items() if (why := difference(name, before[name], topic)) is not None]
    if not changes:
        return None
    plan_id = snapshot.plan.id
    there = (find_delivered(config, name, topic, plan_id) for name, topic in now.items() if topic is not None)
    left = sum(row.offsets for copies in there for rows in copies.values() for row in rows)
    return None if left >= dead else f"missing dead letters: {dead - left} of {dead} ({', '.join(changes)})"


def _loss(engine: CatchupEngine, config: Mapping[str, Any], snapshot: PlanSnapshot, topic: str, why: str) -> TargetLoss:
    delivery, now = snapshot.delivery, read_target(engine.cluster, topic)
    assert delivery is not None
    if now is None:
        return find_loss(snapshot, {}, why, only_beginnings=False)
    engine.reporter.note(f"{why}: kgroup reads {topic} to find which copies it still has")
    layouts = engine.cluster.layouts({item.topic for item in snapshot.plan.ranges})
    most = max((len(item.leaders) for item in layouts.values() if isinstance(item, TopicLayout)), default=0)
    keeps = keeps_partitions(delivery.options.get("partitions", ""), most, len(now.ends))
    is_same = delivery.target is not None and delivery.target.id == now.id  # else it may have had fewer partitions
    there = find_delivered(config, topic, now, snapshot.plan.id)
    return find_loss(snapshot, there, why, only_beginnings=keeps and is_same and REDRIVE not in delivery.options)


def report_loss(reporter: Reporter, snapshot: PlanSnapshot, loss: TargetLoss) -> None:
    """Report the loss as an event."""
    what = f"{plural(loss.records, 'record')} from {target_of(snapshot.delivery)}: {first_ranges(loss.gone)}"
    reporter.event("GONE", f"{snapshot.plan.id}  {what}: {loss.why}")


def first_ranges(rows: tuple[OffsetRange, ...]) -> str:
    """The first ranges, and how many more there are."""
    more = f" and {plural(len(rows) - _NAMED, 'more range')}" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED])) + more


def loss_errors(snapshot: PlanSnapshot, loss: TargetLoss) -> tuple[RowError, ...]:
    """A row for each range that is gone; the first has what to do next."""
    topic, hint = target_of(snapshot.delivery), recovery_hint(snapshot, loss)
    return tuple(
        RowError(
            "gone-from-target",
            f"[{row.start}, {row.end}) was delivered to {topic}, which no longer has it: {loss.why}",
            snapshot.plan.group,
            row.topic,
            row.partition,
            hint=hint if row is loss.gone[0] else None,
            exit_code=ExitCode.CHECK_FAILED,
        )
        for row in loss.gone
    )


def recovery_hint(snapshot: PlanSnapshot, loss: TargetLoss) -> str:
    """The commands that close the plan, and deliver the lost and the undelivered records with another one."""
    assert snapshot.delivery is not None
    rows = merged((*loss.gone, *undelivered(snapshot.plan, snapshot.progress)))
    if len(rows) > _MOST_RANGES:
        by_partition = groupby(rows, key=lambda row: (row.topic, row.partition))
        spans = ((tp, list(some)) for tp, some in by_partition)
        rows = [OffsetRange(*tp, some[0].start, some[-1].end) for tp, some in spans]
    other = replace(snapshot.delivery, options={**snapshot.delivery.options, "topic": "OTHER"})
    words = ("catchup", "start", *range_words(rows), *delivery_words(other), "--execute")
    return (
        "close the plan, and deliver the missing and the undelivered records to another topic:  "
        f"{commands(snapshot).abandon};  {Hint('{}', words)}"
    )
