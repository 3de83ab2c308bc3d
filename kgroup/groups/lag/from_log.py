"""Extracts evidence from a group's records in ``__consumer_offsets``: commits, age of the state, members, churn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.groups.history.model import LOOP, CrashLoop
from kgroup.groups.lag.evidence import GroupChurn, MemberFacts
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignmentWritten,
    MemberWritten,
    ScannedRange,
    TargetEpochWritten,
    TransactionEnd,
)
from kgroup.model.groups import Group, LoggedCommit
from kgroup.model.migration_facts import holds_group
from kgroup.model.topic_partition import TopicPartition, shared_tp

_PLAIN, _COMMITTED = TransactionEnd.PLAIN, TransactionEnd.COMMITTED
"""Compared by ``is``: the hash of a member of an enum takes longer than the rest of a round."""
_TAG = "kgroup "
_MOMENTS, _MOMENTS_OF_A_CONSUMER = 3, 2
_MOMENT_MS = 1000


class LagLogFacts(msgspec.Struct, frozen=True):
    """The part of ``LagEvidence`` that comes from the log, with the same field names.

    ``read_since_ms`` applies to every partition. ``state_since_ms`` is None if the log does not show it: a rebalance
    in progress has no record of its start, and the state may be older than the scanned range. A group is Empty since
    its last consumer left; ``emptied_record_ms`` is what the broker counts from. ``generation`` is the newest of a
    classic group, None without one since the group was deleted.
    """

    commits: Mapping[TopicPartition, tuple[LoggedCommit, ...]]
    read_since_ms: int | None
    state_since_ms: int | None
    members: Mapping[str, MemberFacts]
    churn: GroupChurn | None
    crash_loops: tuple[CrashLoop, ...]
    generation: GenerationWritten | None


def from_log(
    events: Sequence[Event],
    reach: ScannedRange,
    group: Group,
    now_ms: int,
    topic_names: Mapping[str, str] | None = None,
) -> LagLogFacts:
    """The evidence in a group's events, which must be in log order.

    A deleted commit also removes the earlier commits of its partition. Commits in aborted or open transactions do not
    count. Commits by a tool are marked. ``topic_names`` has the names of topics that assignments identify by id;
    None: crash loops are left out.
    """
    commits: defaultdict[TopicPartition, list[LoggedCommit]] = defaultdict(list)
    members: dict[str, MemberFacts] = {}
    generation = None
    # Nearly all events are commits: they must cost little, here and below.
    others = [event for event in events if not isinstance(event, CommitWritten)]
    by_tool = _tool_commits(events, others, reach, group)
    for event in events:
        if isinstance(event, CommitWritten):
            if not _counts(event):
                continue
            topic, number, offset, log_offset = event.topic, event.partition, event.offset, event.log_offset
            tp = shared_tp(topic, number)
            if offset is None:
                commits.pop(tp, None)
            else:
                by_a_tool = log_offset in by_tool
                commits[tp].append(LoggedCommit(topic, number, offset, None, event.at_ms, log_offset, "", by_a_tool))
            continue
        match event:
            case GenerationWritten():
                generation = event
                members = {
                    m.member_id: MemberFacts(m.rebalance_timeout_ms, m.session_timeout_ms) for m in event.members
                }
            case MemberWritten(member_id=member_id, details=None):
                members.pop(member_id, None)
            case MemberWritten(member_id=member_id, details=details) if details is not None:
                members[member_id] = MemberFacts(details.rebalance_timeout_ms, details.classic_session_ms)
            case GroupDeleted():
                generation = None
                members.clear()
            case _:
                pass
    return LagLogFacts(
        commits={tp: tuple(of_partition) for tp, of_partition in commits.items()},
        read_since_ms=whole_since(events, reach),
        state_since_ms=_state_since(events, group) if others else None,
        members=members,
        churn=_churn(events, others, now_ms),
        crash_loops=() if topic_names is None else _crash_loops(events, others, reach, now_ms, topic_names),
        generation=generation,
    )


def _counts(commit: CommitWritten) -> bool:
    return commit.ending is _PLAIN or commit.ending is _COMMITTED


def _tool_commits(
    events: Sequence[Event], others: Sequence[Event], reach: ScannedRange, group: Group
) -> Collection[int]:
    """The log offsets of commits that no consumer made: kgroup's own, and those to the group while it was Empty.

    ``others`` are the events that are no commits.

    A consumer with ``assign()`` commits while the group is Empty too, but again and again. Before the first record of
    members the group was Empty if the log was read from its start, or if the group is Empty and has no such record. The
    members that a consumer group had before the range are not known, so there only its present Empty state counts.
    """
    found: set[int] = set()
    alone: defaultdict[tuple[str, int], list[CommitWritten]] = defaultdict(list)
    emptied_by = _emptied_by(others) if group.is_empty else None
    empty = reach.complete or (group.is_empty and emptied_by is None)
    for event in events:
        if isinstance(event, CommitWritten):
            if event.offset is None or event.producer_id is not None or event.ending is not _PLAIN:
                continue
            if event.metadata and event.metadata.startswith(_TAG) and CatchupCommitTag.of(event.metadata) is not None:
                found.add(event.log_offset)
            elif empty:
                alone[event.topic, event.partition].append(event)
            continue
        match event:
            case GenerationWritten(members=here):
                empty = not here
                found |= _single_commits(alone)
                alone.clear()
            case MemberWritten(details=details) if details is not None:
                empty = False
                found |= _single_commits(alone)
                alone.clear()
            case GroupDeleted():
                empty = True
            case _:
                pass
        if event is emptied_by:
            empty = True
    return found | _single_commits(alone)


def _emptied_by(others: Sequence[Event]) -> Event | None:
    """The record that made an Empty group Empty; None: it is older than all events."""
    kinds = (GenerationWritten, EpochWritten, MemberWritten, GroupDeleted)
    return next((event for event in reversed(others) if isinstance(event, kinds)), None)


def _single_commits(alone: Mapping[tuple[str, int], Sequence[CommitWritten]]) -> set[int]:
    """The commits to an Empty group that are not those of a consumer with ``assign()``: too few since the last rewind.

    A consumer shows by three commits, or by two with a leader epoch, which administrators do not send.
    """
    single: set[int] = set()
    for commits in alone.values():
        if len(commits) == 1:
            single.add(commits[0].log_offset)
            continue
        went_back = [n for n in range(1, len(commits)) if (commits[n].offset or 0) < (commits[n - 1].offset or 0)]
        recent = commits[went_back[-1] :] if went_back else commits
        moments = len({commit.at_ms // _MOMENT_MS for commit in recent})
        by_consumers = len({c.at_ms // _MOMENT_MS for c in recent if c.leader_epoch is not None})
        if moments < _MOMENTS and by_consumers < _MOMENTS_OF_A_CONSUMER:
            single.update(commit.log_offset for commit in commits)
    return single


def whole_since(events: Sequence[Event], reach: ScannedRange) -> int | None:
    """The time from which on no commit is missing: of the oldest record, or the first after compaction; or None."""
    if reach.whole_from is None:
        return None
    if reach.whole_from <= reach.start:
        return reach.oldest_ms
    return next((event.at_ms for event in events if event.log_offset >= reach.whole_from), None)


def _state_since(events: Sequence[Event], group: Group) -> int | None:
    """Since when the group is in its state: the time of the newest record that can have caused it; None if not known.

    A classic group is Stable since the record of its generation. A consumer group is Assigning or Reconciling since its
    last group epoch, and Stable since the last record of any of its members' assignments. A group is Empty since its
    last consumer left.
    """
    if group.is_empty:
        return _emptied_ms(events)
    for event in reversed(events):
        if isinstance(event, CommitWritten):
            continue
        match event:
            case GenerationWritten(members=members) if group.type == "classic":
                return event.at_ms if members and group.state == "Stable" else None
            case EpochWritten() if group.type == "consumer":
                return event.at_ms if group.state in ("Assigning", "Reconciling") else None
            case MemberAssignmentWritten() | TargetEpochWritten() if (
                group.type == "consumer" and group.state == "Stable"
            ):
                return event.at_ms
            case GroupDeleted():
                return None
            case _:
                pass
    return None


def emptied_record_ms(events: Sequence[Event], group: Group) -> int | None:
    """The time of the record from which the broker counts how long an Empty group is Empty, None if it is not known.

    It is later than the last consumer's departure if kgroup's own member has held the group since.
    """
    for event in reversed(events):
        match event:
            case CommitWritten():
                pass
            case GenerationWritten(members=members) if group.type == "classic":
                return None if members else event.at_ms
            case EpochWritten() if group.type == "consumer":
                return event.at_ms
            case GroupDeleted():
                return None
            case _:
                pass
    return None


def _emptied_ms(events: Sequence[Event]) -> int | None:
    """Since when an Empty group has no consumer; None if the log does not show it."""
    consumers = _Consumers()
    for event in events:
        if isinstance(event, CommitWritten):
            if consumers.there is None and event.metadata.startswith(_TAG):
                consumers.there = frozenset()  # kgroup holds the group
            continue
        match event:
            case GenerationWritten(members=members):
                consumers.generation(event.at_ms, members)
            case MemberWritten(member_id=member_id, details=None):
                consumers.left(event.at_ms, member_id)
            case MemberWritten(member_id=member_id, details=details) if details is not None:
                consumers.joined(event.at_ms, member_id, details.instance_id)
            case EpochWritten() if consumers.there is None:
                consumers.since_ms = event.at_ms
            case GroupDeleted():
                consumers.deleted(event.at_ms)
            case _:
                pass
    return None if consumers.there else consumers.since_ms


class _Consumers:
    """The consumers of a group from record to record, and since when there are none.

    kgroup's own member, which holds the group for a release or a conversion, is no consumer. A conversion deletes the
    records of the group's old type, and writes those of the new one at the same time.
    """

    def __init__(self) -> None:
        self.there: frozenset[str] | None = None
        """None: not known yet."""
        self.since_ms: int | None = None
        self._before: tuple[int, int | None] | None = None

    def generation(self, at_ms: int, members: Sequence[GenerationMember]) -> None:
        """A classic generation."""
        here = frozenset(m.member_id for m in members if not holds_group(m.member_id, m.instance_id))
        if here:
            self.since_ms = None
        elif self.there or (self.there is None and not members):
            self.since_ms = at_ms
        else:
            self._converted(at_ms)
        self.there = here

    def joined(self, at_ms: int, member_id: str, instance_id: str | None) -> None:
        """A member of the consumer protocol joined or changed."""
        if holds_group(member_id, instance_id):
            self.there = self.there or frozenset()
            self._converted(at_ms)
        else:
            self.since_ms, self.there = None, (self.there or frozenset()) | {member_id}

    def left(self, at_ms: int, member_id: str) -> None:
        """A member of the consumer protocol left."""
        if self.there == frozenset({member_id}):
            self.since_ms = at_ms
        self.there = None if self.there is None else self.there - {member_id}

    def deleted(self, at_ms: int) -> None:
        """The group was deleted, or is converted."""
        self._before = at_ms, self.since_ms
        self.since_ms, self.there = None, frozenset()

    def _converted(self, at_ms: int) -> None:
        if self._before is not None and self._before[0] == at_ms:
            self.since_ms = self._before[1]
        self._before = None


def _churn(events: Sequence[Event], others: Sequence[Event], now_ms: int) -> GroupChurn | None:
    """The generations with members, or the group epochs, since the last commit; None if no commit was read."""
    commits = (event for event in events if isinstance(event, CommitWritten) and _counts(event))
    if not others:
        return None if next(commits, None) is None else GroupChurn(0, 0)
    last = max((commit.at_ms for commit in commits), default=None)
    if last is None:
        return None
    starts = [
        event.at_ms
        for event in others
        if event.at_ms > last
        and (isinstance(event, EpochWritten) or (isinstance(event, GenerationWritten) and event.members))
    ]
    lasted = [later - earlier for earlier, later in pairwise([*starts, now_ms])]
    return GroupChurn(len(starts), max(0, *lasted) if lasted else 0)


def _crash_loops(
    events: Sequence[Event],
    others: Sequence[Event],
    reach: ScannedRange,
    now_ms: int,
    topic_names: Mapping[str, str],
) -> tuple[CrashLoop, ...]:
    if sum(isinstance(event, GenerationWritten | EpochWritten) for event in others) < LOOP:
        return ()
    # Imported here: nearly all groups hardly ever rebalance.
    from kgroup.groups.history.crash_loops import crash_loops
    from kgroup.groups.history.track import track_group

    tracked = track_group(events, reach, commits=False)
    written = (event for event in events if isinstance(event, CommitWritten))
    return crash_loops(tracked.steps, written, now_ms, topic_names)
