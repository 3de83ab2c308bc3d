"""For whom a classic group's rebalance waits, as far as one reading shows it. Pure.

What brokers do (measured, Kafka 4): PreparingRebalance ends when all members have joined again, or after the largest
rebalance timeout of them (Java: max.poll.interval.ms); then dynamic members that did not join are removed, static ones
stay. CompletingRebalance waits for the leader's assignment until the leader's session ends, or for the largest
rebalance timeout, whichever is earlier. A leader that joined again stays the leader. No answer shows who has joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.member_labels import labels
from kgroup.groups.thresholds import COMMIT_DISTANCE, COMMIT_PAUSES, COMMIT_WINDOW, FEW_COMMITS, LEAST_SILENCE
from kgroup.model.group_log import GenerationWritten
from kgroup.model.groups import Group, Member, is_of_consumers
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time


class RebalanceWait(msgspec.Struct, frozen=True):
    """What a rebalance waits for, in words; ``leader`` is the one member that holds it up, None if not known.

    ``since_ms`` is the time of the last commit.
    """

    words: str
    since_ms: int
    leader: Member | None = None


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
        return RebalanceWait(
            f"{no_commit}: the rebalance waits until all members join again{at_most}; which have not is not known",
            last_ms,
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
            )
    return RebalanceWait(
        f"{no_commit}: the rebalance waits for the assignment by its leader{at_most}; which member leads is not known",
        last_ms,
    )


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
