"""Extracts evidence from a group's records in ``__consumer_offsets``: commits, age of the state, members, churn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.groups.history.lost_members import LostMember, lost_member
from kgroup.groups.history.roster import RosterChange
from kgroup.groups.history.runs import Run, runs_of
from kgroup.groups.history.slow_polls import SlowPolls, slow_polls
from kgroup.groups.lag.evidence import GroupChurn, MemberFacts
from kgroup.groups.lag.open_commits import OpenCommit, open_commits
from kgroup.groups.member_labels import topics_of_some
from kgroup.groups.offset_resets import OffsetReset, offset_resets
from kgroup.groups.shared_instances import SharedInstance, shared_instances
from kgroup.groups.timeline.fold import GroupTimeline
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationWritten,
    GroupDeleted,
    MemberWritten,
    ScannedRange,
    TransactionEnd,
)
from kgroup.model.groups import Group, LoggedCommit
from kgroup.model.migration_facts import holds_group
from kgroup.model.topic_partition import TopicPartition, shared_tp

_TAG = "kgroup "
_OF_MEMBERS = (GenerationWritten, EpochWritten, MemberWritten, GroupDeleted)
_MOMENTS, _MOMENTS_OF_A_CONSUMER = 3, 2
_REBALANCES = 2
"""Of fewer nothing follows: neither a crash loop, nor a member that is lost."""
_MOMENT_MS = 1000


class LagLogFacts(msgspec.Struct, frozen=True):
    """The part of ``LagEvidence`` that comes from the log, with the same field names.

    ``read_since_ms`` applies to every partition. ``state_since_ms`` is None if the log does not show it: a rebalance
    in progress has no record of its start, and the state may be older than the scanned range. A group is Empty since
    its last consumer left; the broker counts from ``emptied_record_ms``, None for other groups. ``emptied_ms`` are all
    the times, of an Empty group. ``generation`` is the newest of a classic group, None without one since the group was
    deleted.
    """

    commits: Mapping[TopicPartition, tuple[LoggedCommit, ...]]
    read_since_ms: int | None
    state_since_ms: int | None
    emptied_record_ms: int | None
    emptied_ms: tuple[int, ...]
    members: Mapping[str, MemberFacts]
    churn: GroupChurn | None
    crash_loops: tuple[CrashLoop, ...]
    runs: tuple[Run, ...]
    slow_polls: SlowPolls | None
    generation: GenerationWritten | None
    shared_instances: tuple[SharedInstance, ...]
    resets: tuple[OffsetReset, ...]
    lost: LostMember | None
    roster: RosterChange | None
    of_some: frozenset[str]
    open_commits: tuple[OpenCommit, ...]


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
    None: crash loops, runs, slow polls, a lost member and the roster are left out.
    """
    commits: defaultdict[TopicPartition, list[LoggedCommit]] = defaultdict(list)
    timeline, by_tool = _timeline(events, reach, is_empty=group.is_empty)
    others: list[Event] = []
    opened: list[CommitWritten] = []
    # Nearly all events are commits: they must cost little, here and below.
    for event in events:
        if not isinstance(event, CommitWritten):
            others.append(event)
            continue
        if not event.counts:
            if event.ending is TransactionEnd.OPEN:
                opened.append(event)
            continue
        topic, number, offset, log_offset = event.topic, event.partition, event.offset, event.log_offset
        tp = shared_tp(topic, number)
        if offset is None:
            commits.pop(tp, None)
        else:
            if log_offset in by_tool:
                who = event.leader_epoch, event.at_ms, log_offset, event.metadata
                commits[tp].append(LoggedCommit(topic, number, offset, *who, by_tool=True))
            else:
                commits[tp].append(LoggedCommit(topic, number, offset, None, event.at_ms, log_offset))
    loops, runs, slow, lost, roster = _of_members(events, others, reach, group, now_ms, topic_names)
    return LagLogFacts(
        commits={tp: tuple(of_partition) for tp, of_partition in commits.items()},
        read_since_ms=whole_since(events, reach),
        state_since_ms=timeline.state_since_ms(group),
        emptied_record_ms=timeline.emptied_record_ms(group) if group.is_empty else None,
        emptied_ms=tuple(_emptied_ms(others)) if group.is_empty else (),
        members=_members(timeline),
        churn=_churn(events, now_ms),
        crash_loops=loops,
        runs=runs,
        slow_polls=slow,
        generation=timeline.classic,
        shared_instances=shared_instances((one for one in others if isinstance(one, GenerationWritten)), now_ms),
        resets=offset_resets(commits, now_ms, _topic_ids(events)) if by_tool and not group.is_simple else (),
        lost=lost,
        roster=roster,
        of_some=topics_of_some(others),
        open_commits=open_commits(opened),
    )


def _topic_ids(events: Sequence[Event]) -> dict[int, str]:
    """The topic id of each commit that has one, by its log offset."""
    return {
        event.log_offset: event.topic_id
        for event in events
        if isinstance(event, CommitWritten) and event.topic_id is not None
    }


def _members(timeline: GroupTimeline) -> dict[str, MemberFacts]:
    classic = () if timeline.classic is None else timeline.classic.members
    members = {m.member_id: MemberFacts(m.rebalance_timeout_ms, m.session_timeout_ms) for m in classic}
    for member_id, details in timeline.details.items():
        members[member_id] = MemberFacts(details.rebalance_timeout_ms, details.classic_session_ms)
    return members


def commits_by_tool(events: Sequence[Event], reach: ScannedRange, *, is_empty: bool) -> Collection[int]:
    """The log offsets of the commits that no consumer made; ``is_empty`` is whether the group is Empty now."""
    return _timeline(events, reach, is_empty=is_empty)[1]


def _timeline(events: Sequence[Event], reach: ScannedRange, *, is_empty: bool) -> tuple[GroupTimeline, Collection[int]]:
    """(the timeline, log offsets of commits that no consumer made: kgroup's own, and those to the Empty group).

    A consumer with ``assign()`` commits while the group is Empty too, but again and again. Where the members are not
    known that a group had before the range, it was Empty since the newest record of members if it is Empty now.
    """
    timeline = GroupTimeline(members_known=reach.complete)
    found: set[int] = set()
    alone: defaultdict[tuple[str, int], list[CommitWritten]] = defaultdict(list)
    maybe_empty = timeline.empty or is_empty
    for event in events:
        if isinstance(event, CommitWritten):
            if event.offset is None or event.producer_id is not None or event.ending is not TransactionEnd.PLAIN:
                continue
            if event.metadata and event.metadata.startswith(_TAG) and CatchupCommitTag.of(event.metadata) is not None:
                found.add(event.log_offset)
                timeline.add(event)
            elif maybe_empty:
                alone[event.topic, event.partition].append(event)
            continue
        if alone and isinstance(event, _OF_MEMBERS):
            found |= _single_commits(alone) if timeline.empty else set()
            alone.clear()
        timeline.add(event)
        maybe_empty = not timeline.consumers and (timeline.members_known or is_empty)
    return timeline, found | _single_commits(alone)


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


def _emptied_ms(events: Iterable[Event]) -> Iterator[int]:
    """When the last consumer left, each time; kgroup's own member is none."""
    here: set[str] = set()
    for event in events:
        before = bool(here)
        if isinstance(event, GenerationWritten):
            here = {one.member_id for one in event.members if not holds_group(one.member_id, one.instance_id)}
        elif isinstance(event, MemberWritten):
            if event.details is None:
                here.discard(event.member_id)
            elif not holds_group(event.member_id, event.details.instance_id):
                here.add(event.member_id)
        elif isinstance(event, GroupDeleted):
            here, before = set(), False
        if before and not here:
            yield event.at_ms


def whole_since(events: Sequence[Event], reach: ScannedRange) -> int | None:
    """The time from which on no commit is missing: of the oldest record, or the first after compaction; or None."""
    if reach.whole_from is None:
        return None
    if reach.whole_from <= reach.start:
        return reach.oldest_ms
    return next((event.at_ms for event in events if event.log_offset >= reach.whole_from), None)


def _churn(events: Sequence[Event], now_ms: int) -> GroupChurn | None:
    """The generations with members, or the group epochs, since the last commit; None if no commit was read."""
    starts = [now_ms]
    for event in reversed(events):
        if isinstance(event, CommitWritten):
            if event.counts:
                lasted = [later - earlier for later, earlier in pairwise(starts)]
                return GroupChurn(len(lasted), max((0, *lasted)))
        elif isinstance(event, EpochWritten) or (isinstance(event, GenerationWritten) and event.members):
            starts.append(event.at_ms)
    return None


def _of_members(
    events: Sequence[Event],
    others: Sequence[Event],
    reach: ScannedRange,
    group: Group,
    now_ms: int,
    topic_names: Mapping[str, str] | None,
) -> tuple[tuple[CrashLoop, ...], tuple[Run, ...], SlowPolls | None, LostMember | None, RosterChange | None]:
    if topic_names is None:
        return (), (), None, None, None
    rebalances = sum(isinstance(event, GenerationWritten | EpochWritten) for event in others)
    if not group.is_empty and rebalances < _REBALANCES:
        return (), (), None, None, None
    # Imported here: nearly all groups hardly ever rebalance.
    from kgroup.groups.history.crash_loops import crash_loops
    from kgroup.groups.history.roster import roster_change
    from kgroup.groups.timeline.track import track_group

    tracked = track_group(events, reach, commits=False)
    written = [event for event in events if isinstance(event, CommitWritten)]
    return (
        crash_loops(tracked.steps, written, now_ms, topic_names),
        runs_of(tracked.steps),
        slow_polls(tracked.steps, written, now_ms, topic_names),
        lost_member(tracked.steps, now_ms),
        roster_change(tracked.steps),
    )
