"""The input of the migration checks: the group, its past, the brokers, the clients, and the user's request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from kgroup.groups.migration.known_versions import MigrationRules, parse_version
from kgroup.model.groups import Group, Member
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast, PastMember
from kgroup.model.topic_partition import TopicPartition

Protocol = Literal["classic", "consumer"]


class ApplicationClient(msgspec.Struct, frozen=True):
    """The client of an application, from ``--client`` because brokers do not report it: ``java``, ``4.4.0``."""

    name: str
    version: str


class MigrationRequest(msgspec.Struct, frozen=True):
    """The user's request: the target protocol, and the group's own timeouts (None: unchanged).

    ``accepted`` are the codes of ``--accept``; ``foreign-owner`` accepts an owner that only the group's name suggests.
    """

    target: Protocol
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    accepted: frozenset[str] = frozenset()


class MigrationEvidence(msgspec.Struct, frozen=True):
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
    unread: Mapping[str, str] = msgspec.field(default_factory=dict)


FIRST_RELEASE = (4, 0)
"""The first broker release whose consumer protocol is not early access."""


class MigrationCase(msgspec.Struct, frozen=True):
    """The evidence, the user's request and the rules, with values that several checks derive from them."""

    evidence: MigrationEvidence
    request: MigrationRequest
    rules: MigrationRules

    @property
    def group(self) -> Group:
        return self.evidence.group

    @property
    def broker(self) -> BrokerFacts:
        """Facts about the group's coordinator."""
        return self.evidence.broker

    @property
    def past(self) -> GroupPast | None:
        """The group's past from ``__consumer_offsets``; None if it was not read."""
        return self.evidence.past

    @property
    def to_consumer(self) -> bool:
        return self.request.target == "consumer"

    @property
    def empty(self) -> bool:
        return self.group.is_empty

    @property
    def live(self) -> bool:
        return not self.empty

    @property
    def members(self) -> tuple[Member, ...]:
        """The group's members; empty if this user may not see them."""
        return self.group.members or ()

    @property
    def classic_left(self) -> tuple[Member, ...]:
        """Members on the classic protocol in a group of the consumer type: a rollout is under way."""
        if self.group.type != "consumer":
            return ()
        return tuple(member for member in self.members if member.protocol == "classic")

    @property
    def arrived(self) -> bool:
        """Whether the group has the wanted type and no member speaks the other protocol.

        If this user may not see the members of a consumer group, it is False unless the group is Empty.
        """
        if self.group.type != self.request.target:
            return False
        return self.group.type == "classic" or self.empty or (self.group.members is not None and not self.classic_left)

    @property
    def rolls_out(self) -> bool:
        """Whether the target is the consumer protocol, and the group has that type and members already."""
        return self.to_consumer and self.group.type == "consumer" and self.live

    @property
    def instances(self) -> tuple[str, ...] | None:
        """Instance ids of the static members, or of the last generation's if there are no members; None if unknown."""
        if self.members:
            return _distinct(member.instance_id for member in self.members)
        return self._of_past(member.instance_id for member in self._last)

    @property
    def racks(self) -> tuple[str, ...] | None:
        """The members' racks, else the last generation's; None if unknown. Classic groups show them only if Stable."""
        now = _distinct(member.rack for member in self.members)
        return now or self._of_past(member.rack for member in self._last)

    @property
    def _last(self) -> tuple[PastMember, ...]:
        return self.past.members if self.past else ()

    def _of_past(self, values: Iterable[str | None]) -> tuple[str, ...] | None:
        """The values of the last generation; None if none was found and the log was not read completely."""
        known = self.past is not None and (bool(self.past.members) or self.past.complete)
        return _distinct(values) if known else None

    @property
    def assignor(self) -> str | None:
        """The assignor that the members use, or used last; None if unknown."""
        return self.group.assignor or (self.past.assignor if self.past else None)

    @property
    def release(self) -> tuple[int, ...] | None:
        """The brokers' minor release, like (4, 3); None if unknown."""
        version = parse_version(self.broker.release) if self.broker.release else None
        return version[:2] if version else None

    def why(self, *fields: str) -> str:
        """`` (no DESCRIBE ...)``: the reason why one of these fields is None; "" if there is none."""
        reasons = (self.evidence.unread.get(field) or self.broker.unread.get(field) for field in fields)
        return next((f" ({reason})" for reason in reasons if reason), "")


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))
