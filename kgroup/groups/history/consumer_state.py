"""The state of a consumer group between two records: changes that have no epoch yet, and the current epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroup.groups.history.departures import Departure
from kgroup.groups.history.model import Cause, StepKind
from kgroup.groups.history.ownership import Moves
from kgroup.model.group_log import EpochWritten, MemberDetails, Partitions


@dataclass(slots=True)
class Changes:
    """What has changed since the last epoch."""

    at_ms: int = 0
    joined: list[str] = field(default_factory=list)
    gone: dict[str, Departure] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    subscribed: list[str] = field(default_factory=list)
    pattern: bool = False

    @property
    def any(self) -> bool:
        """Whether anything has changed that can cause an epoch."""
        return bool(self.joined or self.gone or self.replaced or self.subscribed or self.pattern)


@dataclass(frozen=True, slots=True)
class ObservedMember:
    """A member at one moment."""

    member_id: str
    details: MemberDetails
    partitions: Partitions | None
    away: bool


@dataclass(slots=True)
class Open:
    """The current epoch as far as it was read; ``waiting`` are members that have not reached it yet."""

    record: EpochWritten
    kind: StepKind
    causes: dict[Cause, list[str]]
    inferred: set[Cause]
    moves: Moves | None = None
    target: bool = False
    waiting: set[str] = field(default_factory=set)
    settled_ms: int | None = None
    returned: tuple[str, ...] = ()
