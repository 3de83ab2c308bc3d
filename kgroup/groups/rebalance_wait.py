"""For whom a classic group's rebalance waits, as far as one reading shows it. Pure.

What brokers do (measured, Kafka 4): PreparingRebalance ends when all members have joined again, or after the largest
rebalance timeout of them (Java: max.poll.interval.ms); then dynamic members that did not join are removed, static ones
stay. CompletingRebalance waits for the leader's assignment until the leader's session ends, or for the largest
rebalance timeout, whichever is earlier. A leader that joined again stays the leader. No answer shows who has joined.
But a member that hangs or is dead has stopped committing before the others, which hear of the rebalance within a
heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.lag.evidence import LagEvidence, PartitionEvidence
from kgroup.groups.member_labels import labels
from kgroup.groups.thresholds import (
    COMMIT_DISTANCE,
    COMMIT_PAUSES,
    COMMIT_WINDOW,
    DEFAULT_HEARTBEAT,
    FEW_COMMITS,
    HEARTBEATS,
    LEAST_SILENCE,
)
from kgroup.model.group_log import GenerationMember, GenerationWritten
from kgroup.model.groups import Group, Member, is_of_consumers
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time


class RebalanceWait(msgspec.Struct, frozen=True):
    """What a rebalance waits for, in words; ``member`` is the one that holds it up, None if that is not certain.

    ``since_ms`` is the time of the last commit. ``suspect`` is a member that probably holds it up, None: unknown.
    """

    words: str
    since_ms: int
    member: Member | None = None
    suspect: Member | None = None


def rebalance_wait(group: Group, evidence: LagEvidence) -> RebalanceWait | None:
    """The wait of a rebalance that takes unusually long; None if it may have just begun, or nothing shows how long.

    The group has unread records, and no member has committed for longer than the pauses between the last commits.
    """
    generation, now_ms = evidence.generation, evidence.now_ms
    if group.type != "classic" or not is_of_consumers(group.protocol_type) or not group.is_rebalancing:
        return None
    if not group.members or not group.totals.lag or generation is None:
        return None
    last_ms = _silent_since_ms(evidence)
    if last_ms is None:
        return None
    no_commit = f"no commit since {short_time(last_ms, now_ms)}"
    timeouts = [m.rebalance_timeout_ms for m in generation.members if m.rebalance_timeout_ms is not None]
    known = {m.member_id: m.rebalance_timeout_ms for m in generation.members}
    listed = [known.get(member.member_id) for member in group.members]
    longest = max((ms for ms in listed if ms is not None), default=None) if None not in listed else None
    at_most = "" if longest is None else f", for at most {format_duration(longest / 1000)}"
    if group.state == "PreparingRebalance":
        joining = f"{no_commit}: the rebalance waits until all members join again{at_most}"
        silent = _silent_before_others(group, generation, evidence)
        if silent is None:
            return RebalanceWait(f"{joining}; which have not is not known", last_ms)
        return RebalanceWait(
            f"{joining}; {silent.words(labels(group), now_ms)}", last_ms, silent.gone(now_ms), silent.member
        )
    if group.state != "CompletingRebalance":
        return None
    leader = next((m for m in group.members if m.member_id == generation.leader), None)
    session_ms = next((m.session_timeout_ms for m in generation.members if m.member_id == generation.leader), None)
    if leader is not None and session_ms is not None and timeouts:
        ends_ms = min(session_ms, longest or session_ms)
        joined = leader.instance_id is None or now_ms - _first_silent_ms(generation, evidence, last_ms) < min(timeouts)
        # After that a dead leader had been removed, unless the members took long to join again.
        if joined and now_ms - last_ms <= ends_ms:
            name = labels(group)[leader.member_id]
            return RebalanceWait(
                f"{no_commit}: the rebalance waits for the assignment by its leader {name}, for at most "
                f"{format_duration(ends_ms / 1000)} if that is dead",
                last_ms,
                leader,
                leader,
            )
    return RebalanceWait(
        f"{no_commit}: the rebalance waits for the assignment by its leader{at_most}; which member leads is not known",
        last_ms,
    )


class _Silent(msgspec.Struct, frozen=True):
    """A member that stopped committing at ``since_ms``, ``before_ms`` before all others."""

    member: Member
    since_ms: int
    before_ms: int
    session_ms: int | None

    def words(self, names: Mapping[str, str], now_ms: int) -> str:
        since, before = short_time(self.since_ms, now_ms), format_duration(self.before_ms // 1000)
        is_alive = self.session_ms is not None and now_ms - self.since_ms > self.session_ms
        what = "so it hangs, as its session would have ended" if is_alive else "so it hangs or is dead"
        until = ""
        if self.gone(now_ms) is not None and self.session_ms is not None:
            until = f"; if it is dead, its session ends at about {short_time(self.since_ms + self.session_ms, now_ms)}"
        return (
            f"probably {names[self.member.member_id]} has not: it stopped committing at {since}, {before} before the "
            f"others, {what}{until}"
        )

    def gone(self, now_ms: int) -> Member | None:
        """A static one that may be dead: the silence is longer than any heartbeat interval, and its session may last.

        A dynamic one that is dead is removed when its session ends; one that lives is not to be removed.
        """
        if self.member.instance_id is None or self.session_ms is None:
            return None
        is_sure = self.before_ms >= self.session_ms // HEARTBEATS.value
        return self.member if is_sure and now_ms - self.since_ms <= self.session_ms else None


def _silent_before_others(group: Group, generation: GenerationWritten, evidence: LagEvidence) -> _Silent | None:
    """The member that stopped committing earlier than the others by more than a heartbeat, while it had records."""
    listed = {member.member_id: member for member in group.members or ()}
    last: list[tuple[int, GenerationMember]] = []
    for each in generation.members:
        if each.member_id not in listed or not each.partitions:
            continue
        newest = max(_commit_times(each.partitions, evidence), default=None)
        if newest is None:
            return None
        last.append((newest, each))
    if len(last) < 2:
        return None
    (since_ms, first), (next_ms, _), *_ = sorted(last, key=lambda pair: pair[0])
    known = [evidence.partitions[tp] for tp in first.partitions or () if tp in evidence.partitions]
    unread = [p.first_unread.timestamp_ms for p in known if p.first_unread and p.first_unread.timestamp_ms is not None]
    least_ms = max(DEFAULT_HEARTBEAT.value, COMMIT_PAUSES.value * _pause_ms(known))
    if next_ms - since_ms <= least_ms or not unread or min(unread) > next_ms - least_ms:
        return None
    return _Silent(listed[first.member_id], since_ms, next_ms - since_ms, first.session_timeout_ms)


def _pause_ms(known: Sequence[PartitionEvidence]) -> int:
    """The longest of the last pauses between commits of these partitions."""
    pauses = (pairwise(c.timestamp_ms for c in each.commits[-COMMIT_WINDOW.value :]) for each in known)
    return max((later - earlier for each in pauses for earlier, later in each), default=0)


def _silent_since_ms(evidence: LagEvidence) -> int | None:
    """The time of the last commit, if the members have been silent for unusually long since."""
    found = sorted(_commit_times(evidence.partitions, evidence))
    of_each_second = {time_ms // COMMIT_DISTANCE.value: time_ms for time_ms in found}
    times = list(of_each_second.values())[-COMMIT_WINDOW.value :]
    if len(times) < FEW_COMMITS.value:
        return None
    pause = max(later - earlier for earlier, later in pairwise(times))
    silence = evidence.now_ms - times[-1]
    return times[-1] if silence > max(LEAST_SILENCE.value, COMMIT_PAUSES.value * pause) else None


def _first_silent_ms(generation: GenerationWritten, evidence: LagEvidence, last_ms: int) -> int:
    """When the first member went silent: the rebalance began about then, or later."""
    each = (max(_commit_times(m.partitions or (), evidence), default=last_ms) for m in generation.members)
    return min(each, default=last_ms)


def _commit_times(partitions: Iterable[TopicPartition], evidence: LagEvidence) -> Iterable[int]:
    for tp in partitions:
        for commit in evidence.partitions[tp].commits if tp in evidence.partitions else ():
            if not commit.by_tool:
                yield commit.timestamp_ms
