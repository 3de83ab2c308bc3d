"""The requests of kgroup's own members, in both group protocols.

They are built for each try: a request object keeps the API version of the broker it was sent to first.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from kgroup.cluster.coordinator import schemas
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.model.topic_partition import TopicPartition

CONSUMER = "consumer"

JOINS, LEAVES = 0, -1
"""Member epochs of ConsumerGroupHeartbeat."""
_REBALANCE_TIMEOUT_MS = 60_000
"""How long a joining member waits for us at most: longer than a transaction of the ledger takes."""
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""A classic member without one of these assignors could not join, and most clients treat that as fatal."""
_REASON = "held by kgroup catchup"
_NO_USER_DATA = struct.pack(">i", -1)


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 68 (KIP-848)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 68."""


class Membership(msgspec.Struct, frozen=True):
    """Our exclusive membership in a group of type ``kind``, with the partitions to be assigned to us.

    ``epoch`` is the generation or the member epoch.
    """

    group: str
    kind: str
    partitions: frozenset[TopicPartition]
    member_id: str = ""
    epoch: int = 0

    def consumer_join_request(self) -> Any:
        """Join a consumer group, with a member id that we generated."""
        return self._consumer_heartbeat(JOINS)

    def classic_join_request(self, session_timeout_ms: int) -> Any:
        """Join a classic group; the broker assigns a static member its member id at once."""
        protocols = dict.fromkeys(_ASSIGNORS, protocol_subscription(_topics(self.partitions)))
        return join_request(
            self.group, protocols, session_timeout_ms, _REBALANCE_TIMEOUT_MS, CATCHUP_INSTANCE_ID, reason=_REASON
        )

    def sync_request(self, protocol_name: str) -> Any:
        """Assign the partitions to ourselves, as the leader of a classic group."""
        given = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=self.member_id, assignment=_assignment(self.partitions)
        )
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=CATCHUP_INSTANCE_ID,
            protocol_type="consumer",
            protocol_name=protocol_name,
            assignments=[given],
            min_version=3,
        )

    def heartbeat_request(self) -> Any:
        if self.kind == CONSUMER:
            return self._consumer_heartbeat(self.epoch)
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=CATCHUP_INSTANCE_ID,
            min_version=3,
        )

    def leave_request(self) -> Any:
        """Leave the group; a static member leaves for good."""
        if self.kind == CONSUMER:
            return self._consumer_heartbeat(LEAVES)
        return leave_request(self.group, self.member_id, CATCHUP_INSTANCE_ID, reason=_REASON)

    def remove_request(self) -> Any:
        """Remove any member that has our instance id, whatever its member id. For both types of groups."""
        return leave_request(self.group, "", CATCHUP_INSTANCE_ID, reason=_REASON)

    def _consumer_heartbeat(self, epoch: int) -> Any:
        return consumer_heartbeat_request(
            self.group, self.member_id, epoch, _REBALANCE_TIMEOUT_MS, CATCHUP_INSTANCE_ID, _topics(self.partitions)
        )


def consumer_heartbeat_request(
    group: str,
    member_id: str,
    epoch: int,
    rebalance_timeout_ms: int = -1,
    instance_id: str | None = None,
    topics: Sequence[str] = (),
) -> Any:
    """A ConsumerGroupHeartbeat, which also joins (epoch ``JOINS``) and leaves (``LEAVES``).

    Timeout, topics and owned partitions are sent only on joining. So we release no partition when another member waits
    for it. In version 0, the only one some proxies support, the broker generates the member id, but accepts ours too.
    """
    joins = epoch == JOINS
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rebalance_timeout_ms=rebalance_timeout_ms if joins else -1,
        subscribed_topic_names=list(topics) if joins else None,
        topic_partitions=[] if joins else None,
    )


def join_request(
    group: str,
    protocols: Mapping[str, bytes],
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    instance_id: str | None = None,
    *,
    reason: str,
) -> Any:
    """A JoinGroup by a new member; ``protocols`` has the subscription for each assignor."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in protocols.items()
        ],
        reason=reason,
        min_version=4 if instance_id is None else 5,
    )


def leave_request(group: str, member_id: str, instance_id: str | None = None, *, reason: str) -> Any:
    """A LeaveGroup; without a member id it removes whatever member has the instance id. For both types of groups."""
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
    return LeaveGroupRequest(group_id=group, members=[member], min_version=3)


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({topic for topic, _ in partitions})


def protocol_subscription(topics: Iterable[str]) -> bytes:
    """ConsumerProtocolSubscription, version 0, without user data."""
    named = [_text(topic) for topic in topics]
    return struct.pack(">hi", 0, len(named)) + b"".join(named) + _NO_USER_DATA


def _assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """ConsumerProtocolAssignment, version 0. With it the partitions count as taken for consumer members, too."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        by_topic[topic].append(number)
    rows = [
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in by_topic.items()
    ]
    return struct.pack(">hi", 0, len(rows)) + b"".join(rows) + _NO_USER_DATA


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded
