"""The parts of a history: steps with their reasons and members, totals, signatures. Unknown values are None."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from kgroup.model.group_log import Partitions, RebalanceProtocol
from kgroup.model.topic_partition import PartitionValue


class Cause(StrEnum):
    """Why a generation or an epoch began.

    GONE: a member is gone and the log does not show how. FOLLOW_UP: the second half of a cooperative rebalance, which
    assigns what the first half revoked. UNKNOWN: the log shows no difference.
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


DEPARTURES = frozenset({Cause.LEAVE, Cause.SESSION_EXPIRED, Cause.POLL_EXCEEDED, Cause.GONE})
"""The causes that mean that a member is gone."""


class Reason(msgspec.Struct, frozen=True):
    """A cause and the names of the members that it affects.

    ``inferred``: concluded from timing, not written in the log (session expired, poll interval exceeded).
    """

    cause: Cause
    members: tuple[str, ...] = ()
    inferred: bool = False


class StepKind(StrEnum):
    """The kind of a step. REWRITTEN: no rebalance; a static member came back with a new member id."""

    REBALANCE = "rebalance"
    EMPTY = "empty"
    REWRITTEN = "rewritten"
    DELETED = "deleted"


class PresentMember(msgspec.Struct, frozen=True):
    """A member during a step; ``name`` stays the same if the member restarts.

    ``partitions`` (in a consumer group the target) is None if unknown. ``other`` is whether they differ from the
    last known ones of the same name, None if either is unknown. ``away``: a static member left for a moment and keeps
    its partitions. ``session_ms`` is the session, ``poll_ms`` the rebalance timeout (Java: max.poll.interval.ms).
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


class HistoryStep(msgspec.Struct, frozen=True):
    """A generation (classic) or an epoch (consumer) of a group.

    ``at_ms`` is when the record was written: for a generation when its assignment was known, for an epoch at its
    start. ``lasted_ms`` is the time until the next step, None for the newest. ``took_ms`` in a consumer group is the
    time from the epoch until every member had its target. In a classic group it is a lower bound: from
    ``joined_ms``, the end of the joining, to the assignment; the log does not show how long the joining took.
    ``quiet_ms`` (classic) is the time from the last commit until ``at_ms``, None if there was no commit since the
    previous step or records are missing. ``completed`` is False for an epoch that the next one replaced before all
    members reached it, None if that is unknown (yet).

    ``never_completed`` is the number of generations that began before this one and did not finish: they left a gap
    in the numbers. It is None if compaction may have made the gap. ``moved`` is how many partitions changed their
    owner, ``moved_needlessly`` how many of these although the old owner stayed. Both are None if no earlier owner,
    or not every assignment, is known. ``returned`` are static members that came back to the same partitions.
    """

    protocol: RebalanceProtocol
    number: int
    kind: StepKind
    log_offset: int
    at_ms: int
    reasons: tuple[Reason, ...]
    leader: str | None
    assignor: str | None
    members: tuple[PresentMember, ...]
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
        """How many rebalances this step counts for: itself, if it is one, and those before it that never completed."""
        return (self.kind is StepKind.REBALANCE) + (self.never_completed or 0)

    @property
    def causes(self) -> frozenset[Cause]:
        """The causes alone."""
        return frozenset(reason.cause for reason in self.reasons)


class SignatureKind(StrEnum):
    """Known patterns of rebalances.

    ROLLOUT: every instance was replaced once within minutes. CRASH_LOOP: every instance was replaced again and again.
    NEVER_SYNCED: a rebalance waited for exactly a session timeout, as it does for a member that began to join and
    then fell silent. The member is named if it was in the generation before.
    """

    ROLLOUT = "rollout"
    CRASH_LOOP = "crash-loop"
    NEVER_SYNCED = "never-synced"


class Signature(msgspec.Struct, frozen=True):
    """A recognised pattern; ``first`` and ``last`` are the ``log_offset`` of its steps, both included."""

    kind: SignatureKind
    from_ms: int
    to_ms: int
    first: int
    last: int
    rebalances: int
    members: tuple[str, ...]
    text: str


LOOP = 3
"""So many attempts that end in the same way are a crash loop."""


class OwnerGone(msgspec.Struct, frozen=True):
    """An owner of the partition that is gone since the step at ``log_offset``.

    Owners with the same ``attempt`` count once: an orderly rollout replaces several of them.
    """

    at_ms: int
    log_offset: int
    attempt: int
    name: str


class CrashLoop(PartitionValue, msgspec.Struct, frozen=True):
    """A partition at which members come and go without a commit past ``offset``, and its owners that are gone.

    ``offset`` is None if the log that was read has no commit of the partition.
    """

    topic: str
    partition: int
    offset: int | None
    gone: tuple[OwnerGone, ...]

    def since(self, unread_ms: int | None) -> CrashLoop | None:
        """The loop at a record that was written at ``unread_ms``; None if too few owners went after that.

        An owner of a partition without unread records has nothing to commit. None: the record is older than all.
        """
        gone = self.gone if unread_ms is None else tuple(one for one in self.gone if one.at_ms > unread_ms)
        return None if len({one.attempt for one in gone}) < LOOP else replace(self, gone=gone)

    @property
    def least_since_ms(self) -> int:
        """The time before which the record at the offset must have been written: so many owners went after it."""
        attempts = {one.attempt: one.at_ms for one in self.gone}
        return sorted(attempts.values())[-LOOP]


class MemberCounts(msgspec.Struct, frozen=True):
    """How often a member (by name) joined or went, and how many rebalances it caused."""

    name: str
    joined: int
    went: int
    rebalances: int


class HistoryTotals(msgspec.Struct, frozen=True):
    """Sums over the steps of a span of time.

    ``per_hour`` is None for a span of no length. ``longest_took_ms``, ``longest_quiet_ms`` and ``quiet_ms`` (the sum
    over all rebalances) are None if nothing is known. ``moved`` is the known part; ``moved_unknown`` is the number
    of rebalances whose moves are unknown. ``median_gap_ms`` is between consecutive rebalances, None below two gaps.
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
    by_member: tuple[MemberCounts, ...]
