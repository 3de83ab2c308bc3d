"""The bare requests that turn an Empty group into the other type, and nothing beside: no commit, no look, no proof."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest

from kgroup.cluster.coordinator import schemas
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP = 68, 11
_NOT_READY = (14, 15, 16)


if TYPE_CHECKING:
    ConsumerGroupHeartbeatRequest: Any  # indexed by version, which a class that mypy knows nothing of can't be
else:

    class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=schemas):
        """A member of the consumer protocol that joins (epoch 0), goes on, or leaves (-1)."""

    class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=schemas):
        """Its answer."""


def heartbeat_request(group: str, member_id: str, epoch: int, *topics: str) -> Any:
    """A ConsumerGroupHeartbeat; epoch 0 joins, -1 leaves."""
    return ConsumerGroupHeartbeatRequest[1](
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=list(topics),
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=[],
    )


def join_request(group: str) -> Any:
    """The first JoinGroup of a classic member that subscribes to nothing."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
    return JoinGroupRequest[9](
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
        reason=None,
    )


def heartbeat(world: KafkaWorld, group: str, member_id: str, epoch: int) -> Any:
    """One ConsumerGroupHeartbeat of a member that subscribes to nothing; the answer, which is no error."""

    def sent() -> Any:
        answer = world._to_coordinator(
            group,
            heartbeat_request(group, member_id, epoch),
        )
        return None if answer.error_code in _NOT_READY else answer

    answer = wait_for(sent, f"a heartbeat in {group}")
    assert answer.error_code == 0, answer
    return answer


def hold(world: KafkaWorld, group: str) -> str:
    """A member of the consumer protocol that joins and is never heard of again; returns its id."""
    member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    heartbeat(world, group, member_id, 0)
    return member_id


def to_consumer(world: KafkaWorld, *groups: str) -> None:
    """Join as a member of the consumer protocol, and leave."""
    for group in groups:
        heartbeat(world, group, hold(world, group), -1)
    listed = world.groups()
    assert {listed[group] for group in groups} == {("consumer", "empty")}


def to_classic(world: KafkaWorld, group: str) -> None:
    """Ask to join as a classic member, and take that back."""
    answer = world._to_coordinator(group, join_request(group))
    assert answer.error_code == 79, answer  # MEMBER_ID_REQUIRED
    pending = LeaveGroupRequest.MemberIdentity(member_id=answer.member_id, group_instance_id=None, reason=None)
    left = world._to_coordinator(group, LeaveGroupRequest[5](group_id=group, members=[pending]))
    assert left.error_code == 0, left
    assert world.groups()[group] == ("classic", "empty")
