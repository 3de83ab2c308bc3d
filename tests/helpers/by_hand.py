"""Members made of single requests, for what no client at hand does: any assignor's name, any userData, any session.

They heartbeat only when they are told to: a classic one is gone when its session ends, or when it leaves.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

from tests.helpers.conversion import heartbeat_request
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

MEMBER_ID_REQUIRED = 79
INCONSISTENT_GROUP_PROTOCOL = 23
GROUP_ID_NOT_FOUND = 69
_UNKNOWN_MEMBER_ID = 25
_NOT_YET = (14, 15, 16)  # the coordinator is loading, not there, moved

SESSION_MS = 15_000
"""What the shared broker gives to consumer groups, so that nothing changes for the members of a group."""

_REBALANCE_MS = 60_000


@dataclass(frozen=True)
class ClassicMember:
    """A member of generation ``generation``, that can leave."""

    world: KafkaWorld
    group: str
    member_id: str
    generation: int
    instance: str | None = None

    def heartbeat(self) -> None:
        """Stay for another session."""
        beat = HeartbeatRequest[4](
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        answer = self.world._to_coordinator(self.group, beat)
        assert answer.error_code == 0, answer

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit as a member of its generation."""
        one = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        of_topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[one])
        request = OffsetCommitRequest[7](
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[of_topic],
        )
        answer = self.world._to_coordinator(self.group, request)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def join_again(self, topic: str, session_ms: int) -> None:
        """Answer a rebalance with JoinGroup, and send nothing after that: it is as dead as if it were killed then."""
        subscription = _subscription([topic])
        joined = joined_as(
            self.world, self.group, subscription, ("range",), session_ms, self.instance, member_id=self.member_id
        )
        assert (joined.error_code, joined.leader) == (0, self.member_id), joined

    def leave(self) -> None:
        """As a client that is shut down does."""
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None, reason=None)
        left = self.world._to_coordinator(self.group, LeaveGroupRequest[5](group_id=self.group, members=[identity]))
        assert left.error_code == 0, left


def join(
    world: KafkaWorld,
    group: str,
    assigned: Mapping[str, Sequence[int]],
    *,
    assignors: Sequence[str] = ("range",),
    session_ms: int = SESSION_MS,
    instance: str | None = None,
    subscription_data: bytes | None = None,
    rack: str | None = None,
    assignment_data: bytes | None = None,
) -> ClassicMember:
    """The first and only classic member of a group, with these partitions by topic; the group is Stable then."""
    subscription = _subscription(list(assigned), subscription_data, rack)
    assignment = struct.pack(">hi", 0, len(assigned))
    for topic, partitions in assigned.items():
        assignment += _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)

    def stable() -> ClassicMember | None:
        """None where its session has ended between both requests, on a machine that stood still."""
        joined = joined_as(world, group, subscription, assignors, session_ms, instance)
        assert joined.error_code == 0, joined
        given = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=assignment + _bytes(assignment_data)
        )
        synced = world._to_coordinator(
            group,
            SyncGroupRequest[5](
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=[given],
            ),
        )
        if synced.error_code == _UNKNOWN_MEMBER_ID:
            return None
        assert synced.error_code == 0, synced
        return ClassicMember(world, group, joined.member_id, joined.generation_id, instance)

    return wait_for(stable, f"a member of {group}")


def joined_as(
    world: KafkaWorld,
    group: str,
    subscription: bytes,
    assignors: Sequence[str] = ("range",),
    session_ms: int = SESSION_MS,
    instance: str | None = None,
    protocol_type: str = "consumer",
    member_id: str = "",
) -> Any:
    """The broker's answer to a classic member's JoinGroup, the second one where the first gives the member id."""
    member = member_id

    def answer() -> Any:
        return world._to_coordinator(
            group,
            JoinGroupRequest[9](
                group_id=group,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=_REBALANCE_MS,
                member_id=member,
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocols=[
                    JoinGroupRequest.JoinGroupRequestProtocol(name=assignor, metadata=subscription)
                    for assignor in assignors
                ],
                reason=None,
            ),
        )

    first = answer()
    if first.error_code != MEMBER_ID_REQUIRED:
        return first
    member = first.member_id
    return answer()


def join_only(world: KafkaWorld, group: str, topic: str, session_ms: int) -> None:
    """One more classic member, which sends nothing after its JoinGroup: as dead as one killed before SyncGroup."""
    joined = joined_as(world, group, _subscription([topic]), session_ms=session_ms)
    assert joined.error_code == 0, joined


def first_classic_join(world: KafkaWorld, group: str, topic: str) -> int:
    """The error of a classic member's first JoinGroup: 79 is a welcome, which gives it an id."""
    answer = world._to_coordinator(
        group,
        JoinGroupRequest[9](
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_subscription([topic]))],
            reason=None,
        ),
    )
    if answer.error_code == MEMBER_ID_REQUIRED:
        ClassicMember(world, group, answer.member_id, 0).leave()
    return int(answer.error_code)


def heartbeat(world: KafkaWorld, group: str, member_id: str, epoch: int, *topics: str) -> int:
    """A ConsumerGroupHeartbeat (KIP-848) and its error code; epoch 0 joins, -1 leaves."""

    def answered() -> tuple[int] | None:
        answer = world._to_coordinator(
            group,
            heartbeat_request(group, member_id, epoch, *topics),
        )
        return None if answer.error_code in _NOT_YET else (answer.error_code,)

    return wait_for(answered, f"heartbeat in {group}")[0]


def _subscription(topics: Sequence[str], user_data: bytes | None = None, rack: str | None = None) -> bytes:
    """Version 3: it owns nothing, of no generation."""
    named = struct.pack(">hi", 3, len(topics)) + b"".join(map(_text, topics))
    return (
        named + _bytes(user_data) + struct.pack(">ii", 0, -1) + (struct.pack(">h", -1) if rack is None else _text(rack))
    )


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def _bytes(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
