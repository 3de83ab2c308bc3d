"""One group before one migration: what the checks are asked about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.rules import MigrationRules
from kgroup.groups.migration.versions import parse_version
from kgroup.model.groups import Group, Member
from kgroup.model.migration_facts import BrokerFacts, GroupPast, PastMember

FIRST_RELEASE = (4, 0)
"""The first broker release whose consumer protocol is not an early access."""


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence, what is wanted and the tables; what several checks derive from them."""

    evidence: MigrationEvidence
    wanted: MigrationRequest
    rules: MigrationRules

    @property
    def group(self) -> Group:
        """The group as it is now."""
        return self.evidence.group

    @property
    def broker(self) -> BrokerFacts:
        """What its coordinator says of itself."""
        return self.evidence.broker

    @property
    def past(self) -> GroupPast | None:
        """What ``__consumer_offsets`` tells of it."""
        return self.evidence.past

    @property
    def to_consumer(self) -> bool:
        """Whether it is to move to the consumer protocol."""
        return self.wanted.target == "consumer"

    @property
    def empty(self) -> bool:
        """Whether nobody is a member."""
        return self.group.is_empty

    @property
    def live(self) -> bool:
        """Whether somebody is."""
        return not self.empty

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, none where they may not be seen."""
        return self.group.members or ()

    @property
    def classic_left(self) -> tuple[Member, ...]:
        """Members of the classic protocol in a group of the consumer type: a rollout that is under way."""
        if self.group.type != "consumer":
            return ()
        return tuple(member for member in self.members if member.protocol == "classic")

    @property
    def arrived(self) -> bool:
        """Whether the group is of the wanted type, and nobody in it speaks the other protocol.

        One whose members may not be seen may have some left, unless it is Empty.
        """
        if self.group.type != self.wanted.target:
            return False
        return self.group.type == "classic" or self.empty or (self.group.members is not None and not self.classic_left)

    @property
    def rolls_out(self) -> bool:
        """Whether a rollout to the consumer protocol is under way, as far as can be seen."""
        return self.to_consumer and self.group.type == "consumer" and self.live

    @property
    def instances(self) -> tuple[str, ...] | None:
        """The instance ids of its static members, now or else last; None where neither can be told."""
        if self.members:
            return _distinct(member.instance_id for member in self.members)
        return self._of_past(member.instance_id for member in self._last)

    @property
    def racks(self) -> tuple[str, ...] | None:
        """The racks of its members; None where it can't be told. A classic group shows them only while Stable."""
        now = _distinct(member.rack for member in self.members)
        return now or self._of_past(member.rack for member in self._last)

    @property
    def _last(self) -> tuple[PastMember, ...]:
        return self.past.members if self.past else ()

    def _of_past(self, values: Iterable[str | None]) -> tuple[str, ...] | None:
        """None where no generation was found, unless nothing more can be there."""
        known = self.past is not None and (bool(self.past.members) or self.past.complete)
        return _distinct(values) if known else None

    @property
    def assignor(self) -> str | None:
        """What its members use, or used last; None where neither can be told."""
        return self.group.assignor or (self.past.assignor if self.past else None)

    @property
    def release(self) -> tuple[int, ...] | None:
        """The brokers' minor release; None where it is not known."""
        version = parse_version(self.broker.release) if self.broker.release else None
        return version[:2] if version else None

    def why(self, *fields: str) -> str:
        """`` (no DESCRIBE ...)``: why a field of the evidence or of the brokers is None, "" where nobody said."""
        reasons = (self.evidence.unread.get(field) or self.broker.unread.get(field) for field in fields)
        return next((f" ({reason})" for reason in reasons if reason), "")


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))
