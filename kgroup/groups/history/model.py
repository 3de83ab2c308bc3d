"""What a history consists of: steps, reasons, who was there; totals; signatures. What can't be told is None."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kgroup.model.group_log import Partitions, RebalanceProtocol


class Cause(StrEnum):
    """Why a generation or an epoch began.

    GONE: a member went, and the log does not tell how. FOLLOW_UP: the second half of a cooperative rebalance, which
    gives out what the first took back. UNKNOWN: nothing that is in the log differs.
    """

    JOIN = "join"
    LEAVE = "leave"
    SESSION_EXPIRED = "session-expired"
    POLL_EXCEEDED = "poll-interval-exceeded"
    GONE = "gone"
    STATIC_REPLACED = "static-member-replaced"
    SUBSCRIPTION = "subscription-changed"
    PARTITIONS = "partitions-changed"
    LEADER_GONE = "leader-gone"
    FOLLOW_UP = "cooperative-follow-up"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    RECREATED = "recreated"
    UNKNOWN = "unknown"


WENT = frozenset({Cause.LEAVE, Cause.SESSION_EXPIRED, Cause.POLL_EXCEEDED, Cause.GONE})
"""The ways in which a member goes."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A cause and the members (by name) that it concerns.

    ``inferred``: concluded from times rather than written in the log (session expired, poll interval exceeded).
    """

    cause: Cause
    members: tuple[str, ...] = ()
    inferred: bool = False


class StepKind(StrEnum):
    """What a step is. REWRITTEN: no rebalance, a static member came back under a new member id."""

    REBALANCE = "rebalance"
    EMPTY = "empty"
    REWRITTEN = "rewritten"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Present:
    """A member during a step; ``name`` is its lane, the same for one that comes back.

    ``partitions`` (its target, in a consumer group) is None where unknown; ``other`` is whether they are other ones
    than the lane had when it was last there, None where either is unknown. ``away``: a static member that left for a
    moment and whose place is kept. ``session_ms`` is its session timeout, ``poll_ms`` its rebalance timeout
    (max.poll.interval.ms in Java).
    """

    name: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Partitions | None
    other: bool | None
    away: bool = False
    session_ms: int | None = None
    poll_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A generation (classic) or an epoch (consumer) of a group.

    ``at_ms`` is when it was written: a classic generation when its assignment was known, an epoch when it began.
    ``lasted_ms`` is until the next step, None of the newest. ``took_ms``: consumer, from the epoch until every member
    had what it shall have; classic, at least so long (from the end of the joining to the assignment; how long members
    took to join is not in the log), with ``joined_ms`` the end of the joining. ``quiet_ms``: classic, from the last
    commit before it until ``at_ms``, None where there was none since the step before, or records are missing.
    ``completed`` is False for an epoch that was overtaken by the next before all members had got there, None where that
    can't be told (yet).

    ``never_completed`` generations before it were begun and not finished: they left a gap in the numbers; None where
    compaction may have made it. ``moved`` partitions have another owner than they had last; ``moved_needlessly`` of
    them although their owner stayed. None where no earlier owner, or not every assignment, is known.
    ``returned`` are static members that came back to the same partitions.
    """

    protocol: RebalanceProtocol
    number: int
    kind: StepKind
    log_offset: int
    at_ms: int
    reasons: tuple[Reason, ...]
    leader: str | None
    assignor: str | None
    members: tuple[Present, ...]
    moved: int | None
    moved_needlessly: int | None
    never_completed: int | None = 0
    returned: tuple[str, ...] = ()
    took_ms: int | None = None
    joined_ms: int | None = None
    quiet_ms: int | None = None
    lasted_ms: int | None = None
    completed: bool | None = None

    @property
    def rebalances(self) -> int:
        """How many rebalances it stands for: itself, and those known to have come to nothing before it."""
        return (self.kind is StepKind.REBALANCE) + (self.never_completed or 0)

    @property
    def causes(self) -> frozenset[Cause]:
        """The causes alone."""
        return frozenset(reason.cause for reason in self.reasons)


class SignatureKind(StrEnum):
    """Courses of events that have a name.

    ROLLOUT: every instance was replaced once within minutes. CRASH_LOOP: so were all, again and again. NEVER_SYNCED: a
    rebalance that stood still for exactly a session timeout, as it does for a member that began to join and was never
    heard of again; named where it was in the generation that came to nothing.
    """

    ROLLOUT = "rollout"
    CRASH_LOOP = "crash-loop"
    NEVER_SYNCED = "never-synced"


@dataclass(frozen=True, slots=True)
class Signature:
    """A course of events that was recognised, from step to step (by ``log_offset``, both included)."""

    kind: SignatureKind
    from_ms: int
    to_ms: int
    first: int
    last: int
    rebalances: int
    members: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Blamed:
    """How often a member (by name) joined or went, and in how many rebalances that was."""

    name: str
    joined: int
    went: int
    rebalances: int


@dataclass(frozen=True, slots=True)
class HistoryTotals:
    """Sums over the steps of a span of time.

    ``per_hour`` is None for a span of no length. ``longest_took_ms`` and ``quiet_ms`` (of all rebalances) are None
    where nothing is known. ``moved`` counts what is known; ``moved_unknown`` is of how many rebalances it is not.
    ``median_gap_ms`` is between rebalances that follow each other, None below two gaps.
    """

    rebalances: int
    never_completed: int
    overtaken: int
    per_hour: float | None
    longest_took_ms: int | None
    longest_quiet_ms: int | None
    quiet_ms: int | None
    moved: int
    moved_needlessly: int
    moved_unknown: int
    returned: int
    median_gap_ms: int | None
    last_ms: int | None
    by_cause: tuple[tuple[Cause, int], ...]
    by_member: tuple[Blamed, ...]
