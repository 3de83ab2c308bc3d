"""What the steps of both protocols share: member names, evidence from commits, owners of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.groups.history.evidence import CommitEvidence
from kgroup.groups.history.model import Cause, Reason
from kgroup.groups.history.ownership import Ownership
from kgroup.model.group_log import RebalanceProtocol


@dataclass(frozen=True, slots=True)
class ProtocolSwitch:
    """A group that has just switched to protocol ``to``; ``members`` is member id -> instance id before the switch."""

    to: RebalanceProtocol
    members: Mapping[str, str | None]

    @property
    def cause(self) -> Cause:
        """UPGRADED to the consumer protocol, or DOWNGRADED to the classic one."""
        return Cause.UPGRADED if self.to is RebalanceProtocol.CONSUMER else Cause.DOWNGRADED


@dataclass(slots=True)
class TimelineContext:
    """The context of one group; ``session_ms`` is the session timeout of consumer members, None if unknown."""

    names: Mapping[str, str]
    evidence: CommitEvidence
    session_ms: int | None
    ownership: Ownership = field(default_factory=Ownership)

    def name(self, member_id: str) -> str:
        """The member's name, or its id if it has none."""
        return self.names.get(member_id, member_id)

    def named(self, member_ids: Iterable[str]) -> tuple[str, ...]:
        """The names of members, sorted, each once."""
        return tuple(sorted({self.name(member_id) for member_id in member_ids}))


def reasons(
    world: TimelineContext, by_cause: Mapping[Cause, Iterable[str]], inferred: frozenset[Cause] = frozenset()
) -> tuple[Reason, ...]:
    """The causes with the names of their members, in the order of the causes."""
    return tuple(Reason(cause, world.named(by_cause[cause]), cause in inferred) for cause in Cause if cause in by_cause)
