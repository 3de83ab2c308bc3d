"""What kgroup reads about a cluster and a group's past before a migration, as values; nothing is decided here.

Any field may be None: it could not be read. ``unread`` has the reason under the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kgroup.model.groups import Member
from kgroup.model.topic_partition import PartitionValue, TopicPartition

OWN_MEMBER_PREFIX = "kgroup-migrate-"
"""Prefix of the ids of the members with which a conversion joins groups; consumers have random ids."""

CATCHUP_INSTANCE_ID = "kgroup-catchup"
"""The static instance id of every catch-up run's member; a later run finds the earlier run's member by it."""

SESSION_CONFIG, HEARTBEAT_CONFIG = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
"""A group's dynamic configs: after which silence a consumer member is fenced, and how often it sends heartbeats."""


def is_own_member(member: Member) -> bool:
    """Whether ``member`` was left behind by a kgroup conversion that was killed before the member could leave."""
    return member.member_id.startswith(OWN_MEMBER_PREFIX)


def holds_group(member_id: str, instance_id: str | None) -> bool:
    """Whether kgroup joined as this member, to change an Empty group while no consumer can join; it reads nothing."""
    return member_id.startswith(OWN_MEMBER_PREFIX) or instance_id == CATCHUP_INSTANCE_ID


class ConfigBounds(msgspec.Struct, frozen=True):
    """The broker's value of a setting, and the bounds of a group's own value, all in ms."""

    default_ms: int
    min_ms: int
    max_ms: int


def group_setting_ms(configs: Mapping[str, str] | None, config: str, bounds: ConfigBounds | None) -> int | None:
    """The group's own value, otherwise the broker's default; None if one that applies is unknown."""
    if configs is None:
        return None
    own = configs.get(config, "")
    return int(own) if own.isdecimal() else bounds.default_ms if bounds else None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What a coordinator reports about itself. The maximum sizes count members."""

    serves_consumer: bool | None = None
    """Whether it offers the consumer protocol now: it answers ConsumerGroupDescribe (API 69) for a group that does
    not exist, instead of rejecting the request as unsupported."""
    group_version: int | None = None
    """The finalized feature (0: off)."""
    streams_version: int | None = None
    """The finalized feature of streams groups (0: off)."""
    rebalance_protocols: tuple[str, ...] | None = None
    """``group.coordinator.rebalance.protocols``."""
    heartbeat_version: int | None = None
    """The highest offered version of ConsumerGroupHeartbeat (API 68), None if it is not offered."""
    release: str | None = None
    """The minor release ("4.3"), derived from the highest supported ``metadata.version``; the patch level cannot be
    read."""
    kraft: bool | None = None
    """Whether the broker reports that feature: brokers with ZooKeeper, and those before 3.3, do not."""
    policy: str | None = None
    """``group.consumer.migration.policy`` in upper case."""
    assignors: tuple[str, ...] | None = None
    """The names in ``group.consumer.assignors``."""
    consumer_max_size: int | None = None
    classic_max_size: int | None = None
    session: ConfigBounds | None = None
    heartbeat: ConfigBounds | None = None
    classic_session: ConfigBounds | None = None
    offsets_retention_ms: int | None = None
    transaction_max_ms: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


class PastMember(msgspec.Struct, frozen=True):
    """A member of a classic group's last generation, from ``__consumer_offsets``.

    ``rack`` is None if the member has none, or its subscription could not be decoded. ``carries_user_data`` is whether
    its *assignment* has user data, which prevents an online upgrade (user data in the subscription does not).
    """

    instance_id: str | None
    session_timeout_ms: int
    rack: str | None
    carries_user_data: bool


class GroupPast(msgspec.Struct, frozen=True):
    """The past of a group, from ``__consumer_offsets``."""

    members: tuple[PastMember, ...] = ()
    """Of the newest generation with members; empty if none was found."""
    assignor: str | None = None
    """Of the newest generation with members."""
    emptied_at_ms: int | None = None
    """The time of the record that made the group Empty, None if the group is not Empty."""
    commits_ms: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    """The time of each current commit's record."""
    pending: tuple[TopicPartition, ...] = ()
    """Partitions with a commit in an open transaction. Only the log shows one that is the first commit of its
    partition."""
    hidden: tuple[TopicPartition, ...] = ()
    """Partitions with a commit in the log that the broker omits, because this user may not DESCRIBE the topic."""
    complete: bool = False
    """Whether the scan went back far enough for all fields but ``hidden``."""
    searched: bool = False
    """Whether the scan reached the start of the log, so that ``hidden`` is complete too."""
    topic_ids: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """The id that the topic of each commit had then, as text (written since Kafka 4.1)."""


class OpenTransaction(PartitionValue, msgspec.Struct, frozen=True):
    """A transaction that is open in a partition (DescribeProducers, KIP-664).

    ``start_offset`` is the offset of its first record, ``last_ms`` the time of its last record by the producer's clock.
    ``transactional_id`` and ``began_ms`` (the broker's clock) come from the transaction coordinator; None if it does
    not know the transaction or could not be asked. ``known`` is whether the coordinator has the transaction as ongoing
    in this partition; None if it could not be asked.
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


class PrincipalWithoutDescribe(msgspec.Struct, frozen=True):
    """A principal with READ on the group but without DESCRIBE on ``topics`` of the group, which KIP-848 requires."""

    principal: str
    topics: tuple[str, ...]


class Access(msgspec.Struct, frozen=True):
    """The result of the ACL check. ``authorizer`` is False if the cluster has none: every principal has all rights."""

    authorizer: bool
    blind: tuple[PrincipalWithoutDescribe, ...] = ()
