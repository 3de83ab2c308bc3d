"""What the checks of a migration look at: the group, its past, the brokers, the clients, what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kgroup.model.groups import Group
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast, TopicPartition

Protocol = Literal["classic", "consumer"]


@dataclass(frozen=True, slots=True)
class ApplicationClient:
    """What an application uses, as ``--client`` said: it can't be read from outside. ``java``, ``4.3.1``."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """What the user asked for: the protocol, and the group's own timeouts (None: left as they are).

    ``accepted`` are the refusals that ``--accept`` passes; ``foreign-owner`` passes what a name alone suggests.
    """

    target: Protocol
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    accepted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MigrationEvidence:
    """All that is known of one group.

    ``group`` is as it is now, with its commits. ``kind`` is its type as the listing has it (``share`` and ``streams``
    groups have no members and commits here). ``configs`` are the dynamic configs of the group, by name
    (``consumer.session.timeout.ms``). ``pending`` are partitions that an open transaction is about to commit anew.
    ``may_hide`` is whether the broker may keep topics from this user, without a word.
    ``configured`` are the assignors that the application's own configuration names.
    ``gone`` are topics of the commits that do not exist any more. ``unread`` says why a field is None.
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
