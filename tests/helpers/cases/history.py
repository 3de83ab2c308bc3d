"""A group's log, written event by event as a broker would: ``log.at(12).generation(2, member("a", 0, 1))``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgroup.groups.history.summary import GroupHistory, HistoryQuery, group_history
from kgroup.groups.timeline.steps import HistoryStep, Reason
from kgroup.groups.timeline.track import TrackedGroup, track_group
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    RebalanceProtocol,
    ScannedRange,
    ShareStates,
    ShareStatesWritten,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import TopicPartition

T0 = 1_795_230_000_000
"""2026-11-21T03:00:00Z."""

TOPIC = "orders"


def of(*numbers: int, topic: str = TOPIC) -> Partitions:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def tasks(*names: str) -> Partitions:
    """``tasks("0_3")``: partition 3 of subtopology 0."""
    return frozenset(
        TopicPartition(subtopology, int(number)) for subtopology, _, number in (n.partition("_") for n in names)
    )


def member(member_id: str, *numbers: int, **other: Any) -> GenerationMember:
    """A member with these partitions of ``orders``; its client id is its member id up to the first slash."""
    given: dict[str, Any] = {
        "instance_id": None,
        "client_id": member_id.partition("/")[0],
        "host": "10.0.3.2",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 300_000,
        "topics": frozenset({TOPIC}),
        "partitions": of(*numbers),
    }
    return GenerationMember(member_id=member_id, **(given | other))


class Log:
    """Events with ascending offsets; ``at`` sets the time of those that follow, in seconds since T0."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now_ms = T0
        self.offset = 100

    def at(self, seconds: float) -> Log:
        self.now_ms = T0 + round(seconds * 1000)
        return self

    def _place(self) -> tuple[int, int]:
        self.offset += 1
        return self.offset, self.now_ms

    def _add(self, event: Event) -> Log:
        self.events.append(event)
        return self

    def generation(
        self,
        number: int,
        *members: GenerationMember,
        leader: str | None = None,
        assignor: str = "range",
        joined: float | None = 0.0,
    ) -> Log:
        """``joined`` seconds before now the joining had ended; None: not stored."""
        first = members[0].member_id if members else None
        joined_ms = None if joined is None else self.now_ms - round(joined * 1000)
        return self._add(
            GenerationWritten(
                *self._place(), number, "consumer", assignor if members else None, leader or first, joined_ms, members
            )
        )

    def gone(self, protocol: RebalanceProtocol) -> Log:
        return self._add(GroupDeleted(*self._place(), protocol))

    def commit(self, number: int, offset: int | None, topic: str = TOPIC, **other: Any) -> Log:
        given: dict[str, Any] = {"metadata": "", "topic_id": None, "producer_id": None, "ending": TransactionEnd.PLAIN}
        return self._add(CommitWritten(*self._place(), topic, number, offset, **(given | other)))

    def commits(self, numbers: Iterable[int], start: float, stop: float, every: float = 1.0, pace: int = 100) -> Log:
        """Regular commits of these partitions, ``pace`` records each; offsets follow from the time."""
        at = start
        while at <= stop:
            self.at(at)
            for number in numbers:
                self.commit(number, round(at / every) * pace)
            at += every
        return self

    def unreadable(self) -> Log:
        return self._add(Unreadable(*self._place(), "broken"))

    def epoch(self, number: int, topics_hash: int | None = 7, **other: Any) -> Log:
        return self._add(EpochWritten(*self._place(), number, topics_hash, **other))

    def share_epoch(self, number: int, topics_hash: int | None = 7) -> Log:
        return self.epoch(number, topics_hash, protocol=RebalanceProtocol.SHARE)

    def streams_epoch(self, number: int, topics_hash: int | None = 7, standbys: int | None = 0) -> Log:
        settings = None if standbys is None else (("num.standby.replicas", str(standbys)),)
        return self.epoch(number, topics_hash, protocol=RebalanceProtocol.STREAMS, settings=settings)

    def states(self, initializing: Partitions, initialized: Partitions, *deleting: str) -> Log:
        return self._add(
            ShareStatesWritten(*self._place(), ShareStates(initializing, initialized, frozenset(deleting)))
        )

    def no_states(self) -> Log:
        return self._add(ShareStatesWritten(*self._place(), None))

    def topology(self, epoch: int, **reads: str) -> Log:
        """``orders="0"``: subtopology 0 reads it."""
        ids = sorted(set(reads.values()))
        parts = (Subtopology(one, tuple(topic for topic in reads if reads[topic] == one)) for one in ids)
        topology = Topology(epoch, tuple(parts))
        return self._add(TopologyWritten(*self._place(), topology))

    def task_target(self, epoch: int, **members: tuple[Partitions, Partitions]) -> Log:
        """Active and standby tasks by member."""
        for member_id, (active, standby) in members.items():
            self._add(TargetWritten(*self._place(), member_id, active, SpareTasks(standby)))
        return self._add(TargetEpochWritten(*self._place(), epoch))

    def runs(self, member_id: str, epoch: int, active: Partitions, standby: Partitions = frozenset()) -> Log:
        """A streams member has these tasks."""
        assignment = MemberAssignment(epoch, True, active, frozenset(), SpareTasks(standby))
        return self._add(MemberAssignmentWritten(*self._place(), member_id, assignment))

    def member(self, member_id: str, **other: Any) -> Log:
        given: dict[str, Any] = {
            "instance_id": None,
            "client_id": member_id.partition("/")[0],
            "host": "10.0.3.2",
            "topics": frozenset({TOPIC}),
            "pattern": None,
            "rebalance_timeout_ms": 300_000,
            "classic_session_ms": None,
        }
        return self._add(MemberWritten(*self._place(), member_id, MemberDetails(**(given | other))))

    def target(self, epoch: int, **members: Partitions) -> Log:
        for member_id, partitions in members.items():
            self._add(TargetWritten(*self._place(), member_id, partitions))
        return self._add(TargetEpochWritten(*self._place(), epoch))

    def target_only(self, member_id: str, partitions: Partitions | None) -> Log:
        return self._add(TargetWritten(*self._place(), member_id, partitions))

    def has(
        self, member_id: str, epoch: int, *numbers: int, stable: bool = True, pending: Partitions = frozenset()
    ) -> Log:
        return self._add(
            MemberAssignmentWritten(*self._place(), member_id, MemberAssignment(epoch, stable, of(*numbers), pending))
        )

    def left(self, member_id: str) -> Log:
        """The tombstones of a member of a consumer group, as they are written: 8, 7, 5."""
        self._add(MemberAssignmentWritten(*self._place(), member_id, None))
        self._add(TargetWritten(*self._place(), member_id, None))
        return self._add(MemberWritten(*self._place(), member_id, None))

    def reach(self, **other: Any) -> ScannedRange:
        given: dict[str, Any] = {
            "start": 0,
            "end": self.offset + 1,
            "oldest_ms": T0 - 3_600_000,
            "whole_from": 0,
            "to_log_start": False,
        }
        return ScannedRange(**(given | other))

    def track(self, session_ms: int | None = None, **reach: Any) -> TrackedGroup:
        return track_group(self.events, self.reach(**reach), session_ms)

    def steps(self, session_ms: int | None = None, **reach: Any) -> tuple[HistoryStep, ...]:
        return self.track(session_ms, **reach).steps

    def history(self, since: float = 0, until: float = 3600, now: float | None = None, **other: Any) -> GroupHistory:
        """Of these seconds after T0; ``now`` is the end of the span unless it is given."""
        reach = self.reach(**other.pop("reach", {}))
        given = T0 + round((until if now is None else now) * 1000)
        asked = HistoryQuery(T0 + round(since * 1000), T0 + round(until * 1000), given, **other)
        return group_history("g", self.events, reach, asked)


def why(step: HistoryStep) -> dict[str, tuple[str, ...]]:
    """The causes of a step and the members each concerns."""
    return {reason.cause.value: reason.members for reason in step.reasons}


def inferred(step: HistoryStep) -> list[Reason]:
    return [reason for reason in step.reasons if reason.inferred]
