"""The input of the migration checks: the group, its past, the brokers, the clients, and the user's request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kgroup.model.groups import Group
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast
from kgroup.model.topic_partition import TopicPartition

Protocol = Literal["classic", "consumer"]


@dataclass(frozen=True, slots=True)
class ApplicationClient:
    """The client of an application, from ``--client`` because brokers do not report it: ``java``, ``4.3.1``."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """The user's request: the target protocol, and the group's own timeouts (None: unchanged).

    ``accepted`` are the codes of ``--accept``; ``foreign-owner`` accepts an owner that only the group's name suggests.
    """

    target: Protocol
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    accepted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MigrationEvidence:
    """All known facts about one group.

    ``group`` is its present state with its commits. ``kind`` is its type from the listing (``share`` and ``streams``
    groups have no members and commits here). ``configs`` are the group's dynamic configs, by name
    (``consumer.session.timeout.ms``). ``pending`` are partitions for which an open transaction has offsets to commit.
    ``may_hide`` is whether the broker may silently omit topics for this user, None if unknown. ``configured`` are the
    assignors in the application's own configuration. ``gone`` are topics with commits that no longer exist.
    ``unread`` has, by field name, the reason why a field is None.
    """

    group: Group
    kind: str
    broker: BrokerFacts
    past: GroupPast | None
    configs: Mapping[str, str] | None
    access: Access | None
    now_ms: int
    pending: tuple[TopicPartition, ...] = ()
    gone: tuple[str, ...] = ()
    clients: tuple[ApplicationClient, ...] = ()
    configured: tuple[str, ...] = ()
    may_hide: bool | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
