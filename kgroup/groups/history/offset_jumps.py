"""The jumps of a group's committed offsets: back and forward, their authors, the nearest rebalance. Pure.

A commit record does not name its author. While the group has members, the coordinator refuses plain commits of other
clients. But any member may commit any partition, as one that has just lost it does: the owner is the author for certain
only as the one member, in no transaction. A plain commit to an Empty group is by no member: a reset, or a consumer with
``assign()``, which commits again and again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kgroup.groups.commit_tags import CatchupCommitTag, is_plan_id
from kgroup.groups.next_commands import undo_move
from kgroup.groups.passed_over import PassedOver
from kgroup.groups.repeated_falls import Writers, hops, repeated_falls
from kgroup.groups.thresholds import ONE_REQUEST_MS
from kgroup.groups.timeline.steps import HistoryStep, StepKind
from kgroup.groups.timeline.track import OwnedCommit
from kgroup.model.group_log import CommitWritten, RebalanceProtocol, TransactionEnd
from kgroup.model.groups import LoggedCommit
from kgroup.model.migration_facts import holds_group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from kgroup.support.json_types import Count, EpochMs, ExplainedEnum, Offset

_AGAIN_AND_AGAIN = 3
_TIMES_FASTER = 10
_SMALLEST_JUMP = 1_000
_GAPS_TO_COMPARE = 4
_BESIDE_MS = 60_000


class CommitMove(ExplainedEnum):
    """How a commit differs from progress."""

    BACK = "back", "below the commit before"
    ALTERNATING = "alternating", "below the commit before and back there, again and again; the newest of these falls"
    FORWARD = "forward", "far above the commit before"
    RESET = "reset", "by kgroup, or while the group was Empty"
    DELETED = "deleted", "deleted or expired"


class CommitAuthor(ExplainedEnum):
    """Who made a commit."""

    MEMBER = "member", "the only member of the group"
    A_MEMBER = "a-member", "any member, or a producer for it; author_name is the owner of the partition then"
    NO_MEMBER = "no-member", "another client, while the group was Empty"
    TRANSACTION = "transaction", "a producer, while no member had the partition"
    KGROUP = "kgroup", "kgroup: its mark is in the commit, or the change is in this machine's journal"
    UNKNOWN = "unknown", "unknown"


class JumpedPartition(msgspec.Struct, frozen=True):
    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    old_offset: Annotated[Offset | None, "The offset before; null without a commit."]
    new_offset: Annotated[Offset | None, "The offset after; null if it was deleted."]
    log_start_offset: Annotated[
        Offset | None, "The log start, if the records below it may have been passed over; null for another jump."
    ] = None


class Alternation(msgspec.Struct, frozen=True):
    writers: Annotated[Writers, "Who commits back and forth."]
    fall_count: Annotated[Count, "How often the offset fell back."]
    first_fall_at_ms: Annotated[EpochMs, "When it first did."]
    first_low_offset: Annotated[Offset, "Where it first fell to."]
    last_low_offset: Annotated[Offset, "Where it last fell to."]
    first_high_offset: Annotated[Offset, "Where it first fell from."]
    last_high_offset: Annotated[Offset, "Where it last fell from."]


class OffsetJump(msgspec.Struct, frozen=True):
    """Commits by one author, within a second, that were not ordinary progress."""

    at_ms: int
    log_offset: int
    move: CommitMove
    by: CommitAuthor
    who: str | None
    """The name of the only member or the owner, a producer id, the catch-up or change of kgroup; None if unknown."""
    moved: int | None
    """The sum of new - old over the partitions with both offsets known, None if there are none."""
    step: int | None
    """The number of the generation or epoch."""
    empty_since_ms: int | None
    """None unless the group was Empty."""
    rebalance_distance_ms: int | None
    """The time since the nearest rebalance (negative: until it), None if it is over a minute."""
    partitions: tuple[JumpedPartition, ...]
    is_first_record: bool = False
    """Whether there was no group before it."""
    is_of_old_topic: bool = False
    """Whether the offset before is of a topic that was deleted, and is there again: an undo of it is refused."""
    is_of_streams: bool = False
    """Whether the group is a streams group, of which kgroup changes nothing."""
    is_cancelled: bool = False
    """Whether the catch-up that released the group has moved it back since: nothing is left to undo."""
    alternation: Alternation | None = None
    """None unless its move is ALTERNATING, of one partition."""
    passed: tuple[PassedOver, ...] = ()
    """The partitions whose records may never have been read, as they were deleted."""


def undo_jump(group: str, jump: OffsetJump, closed: Container[str] = frozenset()) -> Hint | None:
    """The command that undoes a jump: ``undo --as-of``, or ``catchup cancel`` for the release of a catch-up.

    ``closed`` are catch-ups that are known to be finished, so that they cannot be cancelled. None for a move that a
    catch-up made back, for streams groups, for changes in the journal (``undo`` has their ids), for offsets that
    alternate, for a time outside the calendar, where there was no group before, where the topic was another one, where
    the catch-up was cancelled, and where the records before were deleted. Nor for the only member's own move back: it
    reads again on purpose, or gives back what it has not processed, as Java's consumer protocol does, and an undo would
    skip that.
    """
    is_past = jump.is_first_record or jump.is_of_old_topic or jump.is_cancelled or jump.passed or jump.is_of_streams
    is_own = jump.move is CommitMove.BACK and jump.by is CommitAuthor.MEMBER
    if is_past or is_own or jump.move is CommitMove.ALTERNATING:
        return None
    if jump.who in closed and jump.moved is not None and jump.moved > 0:
        return undo_move(group, jump.at_ms)
    if jump.by is not CommitAuthor.KGROUP:
        return undo_move(group, jump.at_ms)
    if jump.who is None or not is_plan_id(jump.who) or (jump.moved is not None and jump.moved < 0):
        return None
    return Hint("{}", ("catchup", "cancel", jump.who))


class CommitReport(msgspec.Struct, frozen=True):
    jumps: tuple[OffsetJump, ...]
    aborted: int
    """Commits of aborted transactions."""
    open: int
    """Commits of open transactions."""


class _UnusualCommit(msgspec.Struct, frozen=True):
    """A commit that is not ordinary progress, before those of one request are joined."""

    commit: CommitWritten
    move: CommitMove
    by: CommitAuthor
    who: str | None
    old: int | None
    alternation: Alternation | None = None
    is_of_old_topic: bool = False
    passed: PassedOver | None = None


def commits_of(
    commits: Sequence[OwnedCommit],
    steps: Sequence[HistoryStep],
    since_ms: int,
    until_ms: int,
    *,
    change: Callable[[CommitWritten], str | None],
    begins_empty: bool,
    first_offset: int | None,
    passed: Collection[PassedOver] = (),
) -> CommitReport:
    """The commits of a span of time; ``commits`` has earlier ones too, to detect the first jump of the span.

    ``change`` returns the id of the change in the journal that made a commit, None if there is none.
    ``begins_empty`` is whether the group had no members before the first step: it never had any, or not for so long.
    ``first_offset`` is the log offset of the group's first record, None if it is unknown. ``passed`` are leaps from
    below the log starts, by any client.
    """
    counted = [one for one in commits if one.commit.counts]
    context = _Context(steps, counted, change, begins_empty=begins_empty)
    passed_at = {one.leap.log_offset: one for one in passed}
    by_partition: dict[TopicPartition, list[OwnedCommit]] = {}
    for one in counted:
        by_partition.setdefault(TopicPartition(one.commit.topic, one.commit.partition), []).append(one)
    jumps: list[_UnusualCommit] = []
    for _, of_partition in sorted(by_partition.items()):
        found = list(_unusual_commits(of_partition, context, passed_at))
        unusual = _alternations(found, of_partition, context, until_ms)
        unusual = _told_from_old_topic(unusual, of_partition)
        jumps += [jump for jump in unusual if since_ms <= jump.commit.at_ms <= until_ms]
    inside = [one.commit.ending for one in commits if since_ms <= one.commit.at_ms <= until_ms]
    return CommitReport(
        _without_cancelled(tuple(_join_requests(jumps, context, first_offset))),
        inside.count(TransactionEnd.ABORTED),
        inside.count(TransactionEnd.OPEN),
    )


class _Context:
    """The group's steps, to find the one during which a commit happened."""

    def __init__(
        self,
        steps: Sequence[HistoryStep],
        commits: Iterable[OwnedCommit],
        change: Callable[[CommitWritten], str | None],
        *,
        begins_empty: bool,
    ) -> None:
        self._steps = steps
        self._begins_empty = begins_empty
        self._offsets = [step.log_offset for step in steps]
        self._change = change
        self._by_nobody = Counter(
            (self.index_of(one.commit.log_offset), one.commit.tp)
            for one in commits
            if one.commit.offset is not None and change(one.commit) is None and self._is_empty(one.commit.log_offset)
        )

    def index_of(self, log_offset: int) -> int:
        """Index of the step that was current at this log offset; -1 before the first."""
        return bisect_right(self._offsets, log_offset) - 1

    def step_of(self, log_offset: int) -> HistoryStep | None:
        index = self.index_of(log_offset)
        return self._steps[index] if index >= 0 else None

    def _is_empty(self, log_offset: int) -> bool:
        step = self.step_of(log_offset)
        return self._begins_empty if step is None else step.kind is StepKind.EMPTY

    def _has_one_member(self, log_offset: int) -> bool:
        step = self.step_of(log_offset)
        members = () if step is None else step.members
        return sum(not holds_group(each.member_id, each.instance_id) for each in members) == 1

    def is_repeated(self, commit: CommitWritten) -> bool:
        """Whether no member commits this partition again and again, as a consumer with ``assign()`` does.

        Changes of kgroup do not count.
        """
        return self._by_nobody[self.index_of(commit.log_offset), commit.tp] >= _AGAIN_AND_AGAIN

    def author(self, one: OwnedCommit) -> tuple[CommitAuthor, str | None]:
        commit = one.commit
        if (tag := CatchupCommitTag.of(commit.metadata)) is not None:
            return CommitAuthor.KGROUP, tag.plan_id
        if one.owner is not None:
            alone = commit.producer_id is None and self._has_one_member(commit.log_offset)
            return (CommitAuthor.MEMBER if alone else CommitAuthor.A_MEMBER), one.owner
        if commit.producer_id is not None:
            return CommitAuthor.TRANSACTION, str(commit.producer_id)
        if (change := self._change(commit)) is not None:
            return CommitAuthor.KGROUP, change
        return (CommitAuthor.NO_MEMBER if self._is_empty(commit.log_offset) else CommitAuthor.UNKNOWN), None

    def is_by_tool(self, commit: CommitWritten, by: CommitAuthor) -> bool:
        """Whether kgroup committed it, or once another client that is no member."""
        return by is CommitAuthor.KGROUP or (by is CommitAuthor.NO_MEMBER and not self.is_repeated(commit))

    def deletion_author(self, commit: CommitWritten) -> tuple[CommitAuthor, str | None]:
        """The author of an offset's deletion. No member can delete one."""
        change = self._change(commit)
        return (CommitAuthor.UNKNOWN if change is None else CommitAuthor.KGROUP), change

    def ms_from_rebalance(self, at_ms: int, log_offset: int) -> int | None:
        """Time in ms since the nearest rebalance, negative if it came later; None if none is within a minute."""
        index = self.index_of(log_offset)
        near = [
            at_ms - step.at_ms
            for step in self._steps[max(0, index) : index + 2]
            if step.kind is StepKind.REBALANCE and abs(at_ms - step.at_ms) <= _BESIDE_MS
        ]
        return min(near, key=abs, default=None)


def _unusual_commits(
    commits: Sequence[OwnedCommit], context: _Context, passed_at: Mapping[int, PassedOver]
) -> Iterator[_UnusualCommit]:
    limit = _fastest(commits)
    before: CommitWritten | None = None
    for one in commits:
        commit = one.commit
        by, who = context.author(one)
        old = None if before is None or before.offset is None else before.offset
        if commit.offset is None:
            if before is not None and before.offset is not None:
                # Of a partition that a member has, only the deletion of the topic deletes the offset.
                author, gone = context.deletion_author(commit), one.owner is not None
                yield _UnusualCommit(commit, CommitMove.DELETED, *author, old, is_of_old_topic=gone)
        elif context.is_by_tool(commit, by):
            if commit.offset != old:  # the same offset again is no jump: a migration commits it before it converts
                yield _UnusualCommit(commit, CommitMove.RESET, by, who, old)
        elif before is not None and old is not None:
            if commit.offset < old:
                yield _UnusualCommit(commit, CommitMove.BACK, by, who, old)
            elif (passed := passed_at.get(commit.log_offset)) is not None:
                yield _UnusualCommit(commit, CommitMove.FORWARD, by, who, old, passed=passed)
            elif limit is not None and _is_leap(commit.offset - old, commit.at_ms - before.at_ms, limit):
                yield _UnusualCommit(commit, CommitMove.FORWARD, by, who, old)
        before = commit


def _alternations(
    unusual: Sequence[_UnusualCommit], commits: Sequence[OwnedCommit], context: _Context, until_ms: int
) -> Iterator[_UnusualCommit]:
    """The unusual commits of a partition but hops; the newest until ``until_ms`` stands for all falls that repeat."""
    if not any(one.move is CommitMove.BACK for one in unusual):
        yield from unusual
        return
    logged = []
    for one in commits:
        commit, (by, _) = one.commit, context.author(one)
        if commit.at_ms <= until_ms:
            by_tool = commit.offset is None or context.is_by_tool(commit, by)
            offset = commit.offset or 0
            logged.append(LoggedCommit(*commit.tp, offset, None, commit.at_ms, commit.log_offset, by_tool=by_tool))
    newest: dict[int, Alternation] = {}
    others: set[int] = set()
    for falls in repeated_falls(logged):
        *earlier, last = (logged[index].log_offset for index in falls.indices)
        others.update(earlier)
        began_ms = logged[falls.indices[0]].timestamp_ms
        lows, highs = falls.lows, falls.highs
        newest[last] = Alternation(falls.writers, len(lows), began_ms, lows[0], lows[-1], highs[0], highs[-1])
    others.update(logged[hop.back].log_offset for hop in hops(logged))
    for jump in unusual:
        if (alternation := newest.get(jump.commit.log_offset)) is not None:
            yield replace(jump, move=CommitMove.ALTERNATING, alternation=alternation)
        elif jump.commit.log_offset not in others:
            yield jump


def _told_from_old_topic(unusual: Iterable[_UnusualCommit], commits: Sequence[OwnedCommit]) -> Iterator[_UnusualCommit]:
    """Those before which the partition was of another topic than at its newest commit, marked as such (Kafka 4.1)."""
    ids = [(one.commit.log_offset, one.commit.topic_id) for one in commits if one.commit.topic_id is not None]
    for jump in unusual:
        before = next((of for log_offset, of in reversed(ids) if log_offset < jump.commit.log_offset), None)
        other = before is not None and before != ids[-1][1]
        yield replace(jump, is_of_old_topic=other or jump.is_of_old_topic)


def _fastest(commits: Sequence[OwnedCommit]) -> tuple[float, float] | None:
    """The highest and second highest rate between two commits, in records per ms; None below four gaps."""
    rates = sorted(
        (later.commit.offset - earlier.commit.offset) / max(1, later.commit.at_ms - earlier.commit.at_ms)
        for earlier, later in pairwise(commits)
        if earlier.commit.offset is not None
        and later.commit.offset is not None
        and later.commit.offset >= earlier.commit.offset
    )
    return (rates[-1], rates[-2]) if len(rates) >= _GAPS_TO_COMPARE else None


def _is_leap(records: int, elapsed_ms: int, limit: tuple[float, float]) -> bool:
    """Whether a step is at least 1,000 records and more than ten times as fast as any other of this partition."""
    rate = records / max(1, elapsed_ms)
    fastest, second = limit
    return records >= _SMALLEST_JUMP and rate >= fastest and rate > _TIMES_FASTER * second


def _join_requests(
    unusual: Iterable[_UnusualCommit], context: _Context, first_offset: int | None
) -> Iterator[OffsetJump]:
    """Join the commits of one request: those with the same author and kind within a second.

    A request commits a partition once, and its commits are written together, so no rebalance is between them.
    ``first_offset`` is the log offset of the group's first record, None if it is unknown.
    """
    gathered: list[dict[TopicPartition, _UnusualCommit]] = []
    newest: dict[tuple[object, ...], dict[TopicPartition, _UnusualCommit]] = {}
    for one in sorted(unusual, key=lambda one: one.commit.log_offset):
        alone = one.commit.tp if one.move is CommitMove.ALTERNATING else None
        key = one.move, one.by, one.who, context.index_of(one.commit.log_offset), alone
        batch = newest.get(key)
        if batch is None or one.commit.tp in batch or not _is_soon(next(iter(batch.values())), one):
            batch = newest[key] = {}
            gathered.append(batch)
        batch[one.commit.tp] = one
    for batch in gathered:
        yield _jump(tuple(batch.values()), context, first_offset)


def _without_cancelled(jumps: Sequence[OffsetJump]) -> tuple[OffsetJump, ...]:
    """The releases of catch-ups that moved the group back later are marked as such."""
    back = {jump.who: jump.at_ms for jump in jumps if _is_catchup(jump) and jump.moved is not None and jump.moved < 0}
    return tuple(
        replace(jump, is_cancelled=True) if _is_catchup(jump) and back.get(jump.who, 0) > jump.at_ms else jump
        for jump in jumps
    )


def _is_catchup(jump: OffsetJump) -> bool:
    return jump.by is CommitAuthor.KGROUP and jump.who is not None and is_plan_id(jump.who)


def _is_soon(first: _UnusualCommit, one: _UnusualCommit) -> bool:
    return 0 <= one.commit.at_ms - first.commit.at_ms <= ONE_REQUEST_MS


def _jump(batch: Sequence[_UnusualCommit], context: _Context, first_offset: int | None) -> OffsetJump:
    first = batch[0]
    at_ms, log_offset = first.commit.at_ms, first.commit.log_offset
    step = context.step_of(log_offset)
    moved = [one.commit.offset - one.old for one in batch if one.commit.offset is not None and one.old is not None]
    return OffsetJump(
        at_ms,
        log_offset,
        first.move,
        first.by,
        first.who,
        sum(moved) if moved else None,
        None if step is None else step.number,
        step.at_ms if step is not None and step.kind is StepKind.EMPTY else None,
        context.ms_from_rebalance(at_ms, log_offset),
        tuple(
            JumpedPartition(
                *one.commit.tp, one.old, one.commit.offset, None if one.passed is None else one.passed.log_start
            )
            for one in batch
        ),
        is_first_record=log_offset == first_offset,
        alternation=first.alternation,
        is_of_old_topic=all(one.is_of_old_topic for one in batch),
        is_of_streams=step is not None and step.protocol is RebalanceProtocol.STREAMS,
        passed=tuple(one.passed for one in batch if one.passed is not None),
    )
