"""What is read of a cluster and of a group's past before a migration; everything may be unknown.

None is "could not be read"; why not is in ``unread`` under the field's name. Nothing here is decided yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.model.groups import Member

TopicPartition = tuple[str, int]

OWN_MEMBER_PREFIX = "kgroup-migrate-"
"""How the ids of the members begin with which a conversion enters groups: consumers have random ids."""

SESSION_CONFIG, HEARTBEAT_CONFIG = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
"""The dynamic configs of a group by which its consumer members are taken for dead, and tell that they live."""


def is_own_member(member: Member) -> bool:
    """Whether a conversion left it in its group: it was killed before the member could leave."""
    return member.member_id.startswith(OWN_MEMBER_PREFIX)


@dataclass(frozen=True, slots=True)
class ConfigBounds:
    """A setting's value in force and what a group's own may be, in ms."""

    default_ms: int
    min_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What a coordinator says of itself.

    ``serves_consumer`` is whether the new protocol is offered now: ConsumerGroupDescribe (API 69) about a group that
    does not exist is answered rather than refused as unsupported. ``group_version`` is the finalized feature (0: off),
    ``rebalance_protocols`` is ``group.coordinator.rebalance.protocols``. ``heartbeat_version`` is the highest version
    of ConsumerGroupHeartbeat (API 68) that is offered, None where it is not offered at all. ``release`` is the broker's
    minor release as its highest supported ``metadata.version`` tells ("4.3"); the patch level can't be read. ``kraft``
    is whether it names that feature at all: brokers on ZooKeeper, and those before 3.3, do not.
    ``policy`` is ``group.consumer.migration.policy`` in upper case, ``assignors`` are the names of
    ``group.consumer.assignors``. Sizes are members.
    """

    serves_consumer: bool | None = None
    group_version: int | None = None
    rebalance_protocols: tuple[str, ...] | None = None
    heartbeat_version: int | None = None
    release: str | None = None
    kraft: bool | None = None
    policy: str | None = None
    assignors: tuple[str, ...] | None = None
    consumer_max_size: int | None = None
    classic_max_size: int | None = None
    session: ConfigBounds | None = None
    heartbeat: ConfigBounds | None = None
    classic_session: ConfigBounds | None = None
    offsets_retention_ms: int | None = None
    transaction_max_ms: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastMember:
    """A member of a classic group's last generation, as ``__consumer_offsets`` holds it.

    ``rack`` is None where it has none, or its subscription could not be decoded. ``carries_user_data`` is whether its
    *assignment* does, which keeps the broker from an online upgrade (the subscription's does not matter).
    """

    instance_id: str | None
    session_timeout_ms: int
    rack: str | None
    carries_user_data: bool


@dataclass(frozen=True, slots=True)
class GroupPast:
    """What ``__consumer_offsets`` tells of a group.

    ``members`` are those of the newest generation that had some, ``assignor`` is its; empty and None where none is
    found. ``emptied_at_ms`` is the time of the record that made the group Empty, None where it is not.
    ``commits_ms`` is when each standing commit was made, ``topic_ids`` the id that its topic had then, as text (Kafka
    4.1 and later write it).
    ``pending`` are those of a transaction whose end the log does not hold: the only trace of one that is the first of
    its partition. ``hidden`` are commits that stand in the log and that the broker did not show: this user may not
    DESCRIBE the topic.
    ``complete`` is whether the log was read far enough to say that nothing else is there of all but those;
    ``searched`` whether it was read to its start, so that none is hidden.
    """

    members: tuple[PastMember, ...] = ()
    assignor: str | None = None
    emptied_at_ms: int | None = None
    commits_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    pending: tuple[TopicPartition, ...] = ()
    hidden: tuple[TopicPartition, ...] = ()
    complete: bool = False
    searched: bool = False
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition (DescribeProducers, KIP-664).

    ``start_offset`` is its first record's, ``last_ms`` the time of its last one, by its producer's clock.
    ``transactional_id`` and ``began_ms`` (the broker's clock) are what its coordinator tells, None where it knows
    nothing of it or could not be asked. ``known`` is whether the coordinator knows it as under way in this partition;
    None where that could not be asked.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_ms: int
    known: bool | None = None
    transactional_id: str | None = None
    began_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BlindPrincipal:
    """A principal whose ACLs let it read the group, but not describe these topics of it (KIP-848 needs that)."""

    principal: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """What the ACLs say; ``authorizer`` is False where the cluster has none, so that everybody may do everything."""

    authorizer: bool
    blind: tuple[BlindPrincipal, ...] = ()
