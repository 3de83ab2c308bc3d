"""The requests of a member that holds a group exclusively, in both group protocols."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from kgroup.cluster.membership.conversion import ConsumerGroupHeartbeatRequest
from kgroup.model.topic_partition import TopicPartition

INSTANCE_ID = "kgroup-catchup"
"""The static instance id of every catch-up run's member; a later run finds the earlier run's member by it."""

CONSUMER = "consumer"

_JOINS, _LEAVES = 0, -1
"""Member epochs of ConsumerGroupHeartbeat."""
_REBALANCE_TIMEOUT_MS = 60_000
"""How long a joining member waits for us at most: longer than a transaction of the ledger takes."""
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""A classic member without one of these assignors could not join, and most clients treat that as fatal."""
_REASON = "held by kgroup catchup"
_NO_USER_DATA = struct.pack(">i", -1)


@dataclass(frozen=True, slots=True)
class Membership:
    """Our membership in a group of type ``kind``, and the partitions we want; ``epoch`` is generation or member epoch.

    Requests are built for each try: a request object keeps the API version of the broker it was sent to first.
    """

    group: str
    kind: str
    partitions: frozenset[TopicPartition]
    member_id: str = ""
    epoch: int = 0

    def enter(self) -> Any:
        """Join a consumer group, with a member id that we generated."""
        return self._consumer_beat(_JOINS)

    def join(self, session_ms: int) -> Any:
        """Join a classic group; the broker assigns a static member its member id at once."""
        metadata = _subscription(_topics(self.partitions))
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id="",
            group_instance_id=INSTANCE_ID,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in _ASSIGNORS],
            reason=_REASON,
            min_version=5,
        )

    def sync(self, protocol_name: str) -> Any:
        """Assign the partitions to ourselves, as the leader of a classic group."""
        given = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=self.member_id, assignment=_assignment(self.partitions)
        )
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=INSTANCE_ID,
            protocol_type="consumer",
            protocol_name=protocol_name,
            assignments=[given],
            min_version=3,
        )

    def beat(self) -> Any:
        """A heartbeat."""
        if self.kind == CONSUMER:
            return self._consumer_beat(self.epoch)
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=INSTANCE_ID,
            min_version=3,
        )

    def leave(self) -> Any:
        """Leave the group; a static member leaves for good."""
        if self.kind == CONSUMER:
            return self._consumer_beat(_LEAVES)
        return leave_request(self.group, self.member_id)

    def _consumer_beat(self, epoch: int) -> Any:
        """The owned partitions are sent only on joining, so that we release none when another member waits for them."""
        joins = epoch == _JOINS
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=INSTANCE_ID,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=_topics(self.partitions) if joins else None,
            topic_partitions=[] if joins else None,
        )


def leave_request(group: str, member_id: str = "") -> Any:
    """Remove our member; without a member id, whatever member has our instance id. For both types of groups."""
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=INSTANCE_ID, reason=_REASON)
    return LeaveGroupRequest(group_id=group, members=[member], min_version=3)


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({topic for topic, _ in partitions})


def _subscription(topics: Iterable[str]) -> bytes:
    """ConsumerProtocolSubscription, version 0."""
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
