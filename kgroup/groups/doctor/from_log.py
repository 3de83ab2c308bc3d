"""Extracts settings, commits, rebalances and restarts from a group's records in ``__consumer_offsets``. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kgroup.groups.doctor.snapshot import (
    MemberRestart,
    Rebalance,
    RebalanceHistory,
)
from kgroup.groups.history.lost_members import lost_member
from kgroup.groups.history.roster import roster_change
from kgroup.groups.history.summary import GroupHistory, HistoryQuery, group_history
from kgroup.groups.timeline.steps import DEPARTURES, Cause, HistoryStep, PresentMember, SignatureKind, StepKind
from kgroup.model.group_log import CommitWritten, Event, ScannedRange
from kgroup.model.migration_facts import holds_group
from kgroup.model.topic_partition import TopicPartition, shared_tp


class DoctorLogFacts(msgspec.Struct, frozen=True):
    """The part of ``GroupSnapshot`` that comes from the log and that only the doctor needs."""

    topic_ids: Mapping[TopicPartition, str]
    history: RebalanceHistory


def from_log(events: Sequence[Event], reach: ScannedRange, group: str, query: HistoryQuery) -> DoctorLogFacts:
    """The facts in ``events``, which must be in log order; rebalances and restarts since ``query.since_ms``."""
    return DoctorLogFacts(_topic_ids(events), history_of(group_history(group, events, reach, query)))


def _topic_ids(events: Sequence[Event]) -> dict[TopicPartition, str]:
    """The topic id in the newest commit of each partition, of those that have one."""
    newest = {
        shared_tp(event.topic, event.partition): event.topic_id
        for event in events
        if isinstance(event, CommitWritten) and event.offset is not None and event.counts
    }
    return {tp: topic_id for tp, topic_id in newest.items() if topic_id is not None}


def history_of(full_history: GroupHistory) -> RebalanceHistory:
    """The rebalances and restarts of a history, from ``since_ms`` or the start of the scanned range."""
    since_ms, reach = full_history.span.since_ms, full_history.reach
    if not reach.to_log_start:
        since_ms = max(since_ms, full_history.span.now_ms if reach.oldest_ms is None else reach.oldest_ms)
    before = () if full_history.before is None else (full_history.before,)
    steps = (*before, *full_history.steps)
    own = frozenset(m.name for step in steps for m in step.members if holds_group(m.member_id, m.instance_id))
    return RebalanceHistory(
        since_ms,
        tuple(_rebalances(full_history, own)),
        tuple(restart for restart in _restarts(steps, since_ms) if restart.member not in own),
        full_history.suspects,
        full_history.runs,
        full_history.slow_polls,
        lost_member(steps, full_history.span.now_ms),
        roster_change(steps),
    )


def _rebalances(full_history: GroupHistory, own: frozenset[str]) -> Iterator[Rebalance]:
    """The rebalances without those that only kgroup's ``own`` members caused: they join while the group is Empty."""
    planned = _planned_steps(full_history, own)
    for step in full_history.steps:
        if step.never_completed and not _held(step, own):
            yield Rebalance(step.at_ms, count=step.never_completed)
        if step.kind is not StepKind.REBALANCE or step.causes == {Cause.FOLLOW_UP}:
            continue
        named, causers = _causers(step), _causers(step, own)
        if causers or not named:
            yield Rebalance(
                step.at_ms, step.standstill_ms, step.moved_needlessly, causers, rollout=step.log_offset in planned
            )


def _planned_steps(full_history: GroupHistory, own: frozenset[str]) -> frozenset[int]:
    """The log offsets of steps that do not count for a rebalance storm: rollouts, scaling, start and stop of the group.

    Scaling: members join and stay, or leave and stay away. Ten members that start one by one cause ten epochs.
    A group is stopped before kgroup's ``own`` member holds it, and started afterwards, as often as that happens.
    """
    steps = full_history.steps
    offsets = {
        step.log_offset
        for signature in full_history.signatures
        if signature.kind is SignatureKind.ROLLOUT
        for step in steps
        if signature.first <= step.log_offset <= signature.last
    }
    joined = Counter(name for step in steps for name in _named(step, frozenset({Cause.JOIN})))
    went = Counter(name for step in steps for name in _named(step, DEPARTURES))
    offsets.update(_next_to_holds(steps, own, frozenset({Cause.JOIN})))
    offsets.update(_next_to_holds(reversed(steps), own, DEPARTURES))
    starting = full_history.before is None or full_history.before.kind is not StepKind.REBALANCE
    for step in steps:
        starting = (starting and _has_only(step, frozenset({Cause.JOIN}))) or step.kind is not StepKind.REBALANCE
        causers = _causers(step)
        coming = starting and all(joined[name] == 1 for name in causers)
        steady = not any(joined[name] and went[name] for name in causers)
        if _has_only(step, DEPARTURES | {Cause.JOIN}) and (steady or coming):
            offsets.add(step.log_offset)
    stopping = False
    for step in reversed(steps):
        stopping = (stopping and _has_only(step, DEPARTURES)) or step.kind is StepKind.EMPTY
        if stopping and all(went[name] == 1 for name in _causers(step)):
            offsets.add(step.log_offset)
    return frozenset({*offsets, *_under_way([step for step in steps if step.log_offset not in offsets])})


def _under_way(steps: Sequence[HistoryStep]) -> Iterator[int]:
    """The log offsets of a rollout that may not be over: no more members have left than there are, each of them once.

    Each leaves by itself: one whose session ended is a finding. A loop of processes with ever new names has more.
    """
    went = Counter(name for step in steps for name in _named(step, DEPARTURES))
    left = Counter(name for step in steps for name in _named(step, frozenset({Cause.LEAVE})))
    most = max((len(step.members) for step in steps), default=0)
    if went == left and max(went.values(), default=0) == 1 and went.total() <= most:
        yield from (step.log_offset for step in steps if _has_only(step, frozenset({Cause.LEAVE, Cause.JOIN})))


def _next_to_holds(steps: Iterable[HistoryStep], own: frozenset[str], causes: frozenset[Cause]) -> Iterator[int]:
    """The log offsets of the rebalances next to a hold of one of ``own``, as long as they have ``causes`` only."""
    near = begun = False
    for step in steps:
        if _held(step, own):
            near, begun = True, False
        elif near and step.kind is StepKind.REBALANCE and _has_only(step, causes):
            begun = True
            yield step.log_offset
        else:
            near = near and step.kind is StepKind.EMPTY and not begun


def _held(step: HistoryStep, own: frozenset[str]) -> bool:
    return any(present.name in own for present in step.members)


def _has_only(step: HistoryStep, causes: frozenset[Cause]) -> bool:
    return bool(step.reasons) and step.causes - _WITH_OTHERS <= causes


_WITH_OTHERS = frozenset({Cause.FOLLOW_UP, Cause.LEADER_GONE})
"""The causes that come after, or stand beside, one that says what happened."""


def _named(step: HistoryStep, causes: frozenset[Cause]) -> tuple[str, ...]:
    return tuple(name for reason in step.reasons if reason.cause in causes for name in reason.members)


def _causers(step: HistoryStep, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return tuple(name for name in _named(step, DEPARTURES | {Cause.JOIN}) if name not in without)


def _restarts(steps: Sequence[HistoryStep], since_ms: int) -> Iterator[MemberRestart]:
    """Members, by name, that left and came back with another member id."""
    last: dict[str, PresentMember] = {}
    gone_ms: dict[str, int] = {}
    for step in steps:
        if step.kind is StepKind.DELETED:
            last, gone_ms = {}, {}
            continue
        present_members = {present.name: present for present in step.members if not present.away}
        for name, old in last.items():
            if name not in present_members and name not in gone_ms:
                away = any(present.name == name for present in step.members)
                expired = name in _named(step, frozenset({Cause.SESSION_EXPIRED})) or old.instance_id is not None
                # A static member that stops sends no LeaveGroup: the group notices it when its session ends.
                gone_ms[name] = step.at_ms - ((old.session_ms or 0) if expired and not away else 0)
        for name, new in present_members.items():
            before = last.get(name)
            if before is not None and before.member_id != new.member_id and step.at_ms >= since_ms:
                went_ms = gone_ms.get(name)
                yield MemberRestart(name, new.instance_id, None if went_ms is None else step.at_ms - went_ms)
            gone_ms.pop(name, None)
            last[name] = new
