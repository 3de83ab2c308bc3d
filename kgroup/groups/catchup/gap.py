"""The gap of a group: the offsets from its commits to the frozen ends, by partition. Pure.

A partition that cannot or need not be moved is a row with its reason. Nothing is guessed; all losses are listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.catchup.gap_request import GapRequest, Missing
from kgroup.groups.catchup.model import ExplainedRange, GapRange, ReleasePoint
from kgroup.groups.lag.evidence import Retention
from kgroup.groups.lag.rates import UnreadPart, first_deletion
from kgroup.groups.reset_targets import NO_COMMIT, TopicChoice
from kgroup.model.commit import Commit
from kgroup.model.groups import Group
from kgroup.model.kafka_tools import find_hanging
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.json_types import Count
from kgroup.support.units import plural

ABOVE_LOG_END = refusal_code(
    "above-log-end",
    "catchup start",
    "The committed offset of a partition is above the log end.",
    "Use kgroup reset. --partial skips the partition.",
)
HANGING_TRANSACTION = refusal_code(
    "hanging-transaction",
    "catchup start",
    "A transaction that does not end holds back the last stable offset.",
    "End that transaction. --partial skips the partition.",
)


class PartitionLog(msgspec.Struct, frozen=True):
    """What was read about one partition's log.

    - ``start`` is the log start offset, ``last_stable`` the last stable offset (ListOffsets, read_committed).
    - ``last_stable_epoch`` is the leader epoch of ``last_stable``, None if the broker gave none.
    - ``high_watermark`` is the log end (ListOffsets, read_uncommitted).
    - ``topic_id`` is None on brokers without topic ids.
    - ``retention`` is None if it could not be read.
    - ``size`` is the bytes of the whole log, None if unknown.
    - ``oldest_ms`` is the time of the first record of the gap. To learn where that record is, plan once without it.
    - ``growth_per_s`` is the offsets written per second, None if unknown.
    - ``skip_to`` and ``until`` are the offsets of the first records since ``--skip-before`` and ``--until``. None:
      there is none, or the option is not given.
    """

    start: int
    last_stable: int
    last_stable_epoch: int | None
    high_watermark: int
    topic_id: str | None = None
    retention: Retention | None = None
    size: int | None = None
    oldest_ms: int | None = None
    growth_per_s: float | None = None
    skip_to: int | None = None
    until: int | None = None

    @property
    def bytes_per_offset(self) -> float | None:
        """The average over the log; None if the size is unknown or the log is empty."""
        offsets = self.high_watermark - self.start
        return None if self.size is None or offsets <= 0 else self.size / offsets


class LastCommit(msgspec.Struct, frozen=True):
    """When a partition was last committed, and the rate of the commits before in offsets/s (None: unknown)."""

    at_ms: int
    rate_per_s: float | None = None


class LastActivity(msgspec.Struct, frozen=True):
    """What ``__consumer_offsets`` shows about the last minutes of a crashed consumer.

    ``stopped_ms`` is when its last member left or was fenced, and processed nothing more; None if unknown.
    ``log_end_then`` is, by partition, the log end offset at that time (ListOffsets by timestamp): no record from there
    on was processed.
    """

    stopped_ms: int | None = None
    commits: Mapping[TopicPartition, LastCommit] = msgspec.field(default_factory=dict)
    log_end_then: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)


class NotMoved(msgspec.Struct, frozen=True):
    """A partition that is not moved.

    ``code`` is ``hanging-transaction``, ``nothing-to-do`` or ``left``. If the plan cannot be executed, it is
    ``no-commit``, ``above-log-end``, ``not-found`` or ``unread``, or ``hanging-transaction`` for a named range.
    """

    topic: Annotated[str, "The topic."]
    partition: Annotated[Count | None, "The partition; null for the whole topic."]
    code: Annotated[str, "A stable code."]
    reason: Annotated[str, "The reason, for people."]
    is_error: Annotated[bool, "Whether it prevents the plan."] = False
    hint: Annotated[str | None, "A command, or what to do next."] = None

    @property
    def name(self) -> str:
        """``orders:7``, or the topic's name."""
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"


class Gap(msgspec.Struct, frozen=True):
    """The frozen gap; all rows are sorted by topic and partition.

    ``group`` is None if ranges were named. A range may be empty. Then there is nothing to replay, and the group's
    commit is moved to the range's end: with no commit and ``--missing latest``, or if everything up to the end is gone
    or abandoned. ``abandoned`` is skipped by the user's choice. ``already_deleted`` was below the log start offset.
    """

    group: str | None
    group_type: str | None
    ranges: tuple[GapRange, ...]
    abandoned: tuple[ExplainedRange, ...]
    already_deleted: tuple[ExplainedRange, ...]
    not_moved: tuple[NotMoved, ...]
    release_point: ReleasePoint = ReleasePoint.LOG_END

    @property
    def offsets(self) -> int:
        return sum(item.offsets for item in self.ranges)

    @property
    def records(self) -> int | None:
        """Records to be replayed, estimated; None if it is unknown for one partition."""
        return total(item.records for item in self.ranges)

    @property
    def size(self) -> int | None:
        """Bytes to be replayed, estimated; None if it is unknown for one partition."""
        return total(item.size for item in self.ranges)

    @property
    def errors(self) -> tuple[NotMoved, ...]:
        """The rows that prevent the execution of the whole plan, unless ``--partial`` is given."""
        return tuple(row for row in self.not_moved if row.is_error)

    @property
    def skips(self) -> bool:
        """Whether ``--skip-before`` gives something up, which requires ``--accept skip``."""
        return any(row.reason == SKIPPED for row in self.abandoned)


SKIPPED = "--skip-before"
"""The ``reason`` of offsets that are given up by that option."""

UNREAD = "no commit, and --missing latest"
"""The ``reason`` of offsets of a partition that the group never read."""


class GapInput(msgspec.Struct, frozen=True):
    """A gap and what it was computed from; ``notes`` are about unreadable parts.

    ``faults`` are why the logs of partitions could not be read.
    """

    gap: Gap
    logs: Mapping[TopicPartition, PartitionLog]
    work: LastActivity
    notes: tuple[str, ...] = ()
    faults: Mapping[TopicPartition, KgroupError] = msgspec.field(default_factory=dict)

    @property
    def growth_per_s(self) -> float:
        """Offsets per second written to the partitions of the gap; partitions with an unknown rate are left out."""
        facts = (self.logs.get(item.tp) for item in self.gap.ranges)
        return sum(log.growth_per_s or 0.0 for log in facts if log is not None)


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one of the counts is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def plan_gap(
    group: Group | None,
    logs: Mapping[TopicPartition, PartitionLog],
    request: GapRequest,
    work: LastActivity,
    now_ms: int,
) -> Gap:
    """The gap of ``group``, or of the named ranges (then ``group`` is ignored and may be None).

    ``logs`` has every partition of every topic that the group reads, and those of named ranges; a missing one could not
    be read. Example (KIP-333): commit 70 and last stable offset 120 give the range [70, 120).
    """
    rows = _Rows()
    if request.ranges or group is None:
        for wanted in request.ranges:
            rows.named(wanted, logs.get(wanted.tp), now_ms)
        return rows.gap(None, None, ReleasePoint.LOG_END)
    commits = {p.tp: p.commit for p in group.partitions}
    unread = {p.tp: p.error for p in group.partitions if p.error is not None}
    for tp in rows.select(request.topics, commits.keys() | logs.keys()):
        log = logs.get(tp)
        if log is None or tp in unread:
            why = unread.get(tp, "its log could not be read")
            rows.stays(tp, "unread", why, error=True)
        else:
            rows.partition(tp, commits.get(tp), log, request, work, now_ms)
    release_point = ReleasePoint.LOG_END if request.until_ms is None else ReleasePoint.UNTIL
    return rows.gap(group.name, group.type, release_point)


class _Rows:
    """Collects the rows of a gap, partition by partition."""

    def __init__(self) -> None:
        self._ranges: list[GapRange] = []
        self._abandoned: list[ExplainedRange] = []
        self._already_deleted: list[ExplainedRange] = []
        self._stay: list[NotMoved] = []

    def gap(self, group: str | None, group_type: str | None, release_point: ReleasePoint) -> Gap:
        return Gap(
            group,
            group_type,
            tuple(self._ranges),
            tuple(self._abandoned),
            tuple(self._already_deleted),
            tuple(self._stay),
            release_point,
        )

    def stays(self, tp: TopicPartition, code: str, why: str, *, error: bool = False, hint: str | None = None) -> None:
        self._stay.append(NotMoved(*tp, code, why, error, hint))

    def select(self, topics: Sequence[TopicChoice], known: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
        """The selected partitions, in order; a named one that does not exist becomes a row."""
        there = sorted(known)
        if not topics:
            yield from there
            return
        for choice in sorted(topics, key=lambda one: one.topic):
            of_topic = [tp for tp in there if tp.topic == choice.topic]
            if not of_topic:
                why = "the group has no commit on it, and the topic does not exist"
                self._stay.append(NotMoved(choice.topic, None, "not-found", why, is_error=True))
            elif choice.partitions is None:
                yield from of_topic
            else:
                numbers = {number for _, number in of_topic}
                for number in choice.partitions:
                    if number in numbers:
                        yield TopicPartition(choice.topic, number)
                    else:
                        self.stays(
                            TopicPartition(choice.topic, number),
                            "not-found",
                            "the partition does not exist",
                            error=True,
                        )

    def partition(
        self,
        tp: TopicPartition,
        commit: Commit | None,
        log: PartitionLog,
        request: GapRequest,
        work: LastActivity,
        now_ms: int,
    ) -> None:
        """Add one partition of the group."""
        end = log.last_stable
        cut_off = log.until is not None and log.until < end
        if cut_off and log.until is not None:
            end = log.until
        if commit is None:
            if request.missing is None or request.missing is Missing.LEAVE:
                self._without_commit(tp, log, request.missing)
                return
            base = log.start if request.missing is Missing.EARLIEST else max(log.start, end)
        elif commit.offset > log.high_watermark:
            why = f"the committed offset {commit.offset} is above the log end {log.high_watermark}"
            what = "the log was truncated, or the topic recreated. Check the topic, then set a valid offset:  {}"
            hint = Hint(what, ("reset", "GROUP", "--only", "out-of-range"))
            self.stays(tp, ABOVE_LOG_END, why, error=True, hint=hint)
            return
        else:
            base = max(commit.offset, log.start)
        latest = commit is None and request.missing is Missing.LATEST
        moves = latest or not (_hangs(log, end) or (commit is not None and commit.offset == base))
        if end < base or (end == base and not moves):
            self._nothing(tp, commit, log, end, cut_off=cut_off)
            return
        if commit is not None and commit.offset < log.start:
            self._already_deleted.append(ExplainedRange(*tp, commit.offset, log.start, _passed(log)))
        if latest and log.start < end:
            self._abandoned.append(ExplainedRange(*tp, log.start, end, UNREAD))
        start = base
        if request.skip_before_ms is not None:
            start = min(end if log.skip_to is None else max(base, log.skip_to), end)
            if start > base:
                self._abandoned.append(ExplainedRange(*tp, base, start, SKIPPED))
        maybe = None if commit is None else _maybe_processed(tp, commit, start, end, work)
        self._ranges.append(_row(tp, start, end, commit, log, maybe, now_ms, cut_off=cut_off))

    def _without_commit(self, tp: TopicPartition, log: PartitionLog, missing: Missing | None) -> None:
        if missing is Missing.LEAVE:
            self.stays(tp, "left", "it has no commit, and --missing is leave")
            return
        why = f"the group has no commit on it; its log is [{log.start}, {log.high_watermark})"
        hint = "choose where it starts: --missing earliest, latest or leave"
        self.stays(tp, NO_COMMIT, why, error=True, hint=hint)

    def _nothing(
        self, tp: TopicPartition, commit: Commit | None, log: PartitionLog, end: int, *, cut_off: bool
    ) -> None:
        at = f"its committed offset {commit.offset}" if commit else f"its log start {log.start}"
        if cut_off:
            self.stays(tp, "nothing-to-do", f"--until is offset {end}, which is not above {at}")
        elif _hangs(log, end):
            self.stays(tp, HANGING_TRANSACTION, f"{_hidden(log)}; it is not moved", hint=_until_it_ends(tp))
        else:
            self.stays(tp, "nothing-to-do", f"there is no record above {at}")

    def named(self, wanted: OffsetRange, log: PartitionLog | None, now_ms: int) -> None:
        """Add a named range: no group is moved, so only offsets that exist can be read."""
        tp = wanted.tp
        if log is None:
            self.stays(tp, "unread", "its log could not be read", error=True)
        elif wanted.end > log.high_watermark:
            why = f"[{wanted.start}, {wanted.end}) ends above the log end {log.high_watermark}"
            self.stays(tp, ABOVE_LOG_END, why, error=True)
        elif wanted.end > log.last_stable:
            why = f"[{wanted.start}, {wanted.end}) cannot be read to its end: {_hidden(log)}"
            self.stays(tp, HANGING_TRANSACTION, why, error=True, hint=_until_it_ends(tp))
        else:
            start = min(max(wanted.start, log.start), wanted.end)
            if start > wanted.start:
                self._already_deleted.append(ExplainedRange(*tp, wanted.start, start, _passed(log)))
            if start == wanted.end:
                self.stays(tp, "nothing-to-do", f"no record of {wanted} is left: {_passed(log)}")
            else:
                self._ranges.append(_row(tp, start, wanted.end, None, log, None, now_ms, cut_off=True))


def _until_it_ends(tp: TopicPartition) -> str:
    return f"wait until the transaction ends, or find a hanging one:  {find_hanging(*tp)}"


def _hangs(log: PartitionLog, end: int) -> bool:
    """Whether an open transaction keeps the end below the log end."""
    return end == log.last_stable < log.high_watermark


def _hidden(log: PartitionLog) -> str:
    hidden = plural(log.high_watermark - log.last_stable, "offset")
    return f"an open transaction holds the last stable offset at {log.last_stable}, {hidden} below the log end"


def _passed(log: PartitionLog) -> str:
    return f"the log starts at {log.start}"


def _row(
    tp: TopicPartition,
    start: int,
    end: int,
    before: Commit | None,
    log: PartitionLog,
    maybe: int | None,
    now_ms: int,
    *,
    cut_off: bool,
) -> GapRange:
    offsets = end - start
    compacted = log.retention is not None and log.retention.compacted  # its log has holes
    each = log.bytes_per_offset if offsets else 0.0
    return GapRange(
        *tp,
        start,
        end,
        before,
        # The epoch of an offset below the last stable one is unknown, and a wrong one would look like truncation.
        None if cut_off else log.last_stable_epoch,
        log.topic_id,
        maybe,
        None if offsets and compacted else offsets,
        None if each is None else round(offsets * each),
        log.oldest_ms if offsets else None,
        _deadline(log, start, now_ms) if offsets else None,
    )


def _deadline(log: PartitionLog, start: int, now_ms: int) -> int | None:
    """When retention may delete the record at ``start``: by its age, or because of the size written after it."""
    if log.retention is None:
        return None
    end = log.high_watermark
    unread = UnreadPart(end - start, end - log.start, log.oldest_ms, log.growth_per_s)
    deletion = first_deletion(log.retention, unread, now_ms)
    return None if deletion is None else deletion[0]


def _maybe_processed(tp: TopicPartition, commit: Commit, start: int, end: int, work: LastActivity) -> int | None:
    """The offset below which records may have been processed, after the last commit and before the consumer stopped.

    It assumes the rate of the last commits, up to the log end when the consumer stopped; without a rate, that log end.
    """
    last, there = work.commits.get(tp), work.log_end_then.get(tp)
    reached = there
    if last is not None and last.rate_per_s is not None and work.stopped_ms is not None:
        seconds = max(0, work.stopped_ms - last.at_ms) / 1000
        by_rate = commit.offset + math.ceil(last.rate_per_s * seconds)
        reached = by_rate if there is None else min(by_rate, there)
    return None if reached is None else min(max(reached, start), end)
