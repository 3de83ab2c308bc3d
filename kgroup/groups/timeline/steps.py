"""The parts of a history: steps with their reasons and members, totals, signatures. Unknown values are None."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import field
from msgspec.structs import replace

from kgroup.model.group_log import Partitions, RebalanceProtocol, SpareTasks
from kgroup.model.topic_partition import PartitionValue
from kgroup.support.json_types import Count, ExplainedEnum, Instant, Ms


class Cause(ExplainedEnum):
    """Why a generation or an epoch began."""

    JOIN = "join", "a member joined"
    LEAVE = "leave", "a member left"
    SESSION_EXPIRED = "session-expired", "a member was silent for its session timeout"
    POLL_EXCEEDED = "poll-interval-exceeded", "a member did not poll within max.poll.interval.ms"
    GONE = "gone", "a member is gone and the log does not show how"
    STATIC_REPLACED = "static-member-replaced", "another process took the instance id"
    SUBSCRIPTION = "subscription-changed", "a member subscribed to other topics"
    PARTITIONS = "partitions-changed", "a topic got partitions, or was created or deleted"
    LEADER_GONE = "leader-gone", "the leader left"
    FOLLOW_UP = "cooperative-follow-up", "the second half of a cooperative rebalance"
    TOPOLOGY = "topology-changed", "a Kafka Streams application has another topology"
    SETTINGS = (
        "settings-changed",
        "the settings of a streams group's assignment changed, as the number of standby tasks",
    )
    INITIALIZED = (
        "offsets-initialized",
        "partitions of a share group got their first start offsets; nothing else changed",
    )
    UPGRADED = "upgraded", "the group is a consumer or streams group now"
    DOWNGRADED = "downgraded", "the group is a classic group now"
    RECREATED = "recreated", "the group was deleted and created again"
    UNKNOWN = "unknown", "the log shows no difference"


DEPARTURES = frozenset({Cause.LEAVE, Cause.SESSION_EXPIRED, Cause.POLL_EXCEEDED, Cause.GONE})
"""The causes that mean that a member is gone."""


class Reason(msgspec.Struct, frozen=True):
    """A cause and the names of the members that it affects."""

    cause: Annotated[Cause, "The cause."]
    members: Annotated[tuple[str, ...], "Names of the members."] = ()
    inferred: Annotated[bool, "Whether it is concluded from timing."] = False


class StepKind(ExplainedEnum):
    """The kind of a step."""

    REBALANCE = "rebalance", "a rebalance"
    EMPTY = "empty", "the last member left"
    REWRITTEN = "rewritten", "no rebalance; a static member came back with a new member id"
    DELETED = "deleted", "the group was deleted"


class PresentMember(msgspec.Struct, frozen=True):
    """A member during a step."""

    name: str
    """Stays the same if the member restarts."""
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Partitions | None
    """The target where there are epochs; the active tasks of a streams group; None if unknown."""
    other: bool | None
    """Whether the partitions differ from the last known ones of the same name; None if either is unknown."""
    away: bool = False
    """A static member left for a moment and keeps its partitions."""
    session_ms: int | None = None
    poll_ms: int | None = None
    """The rebalance timeout (Java: max.poll.interval.ms)."""
    spares: SpareTasks | None = None
    """None unless it is of a streams group."""


class HistoryStep(msgspec.Struct, frozen=True):
    """A generation (classic) or an epoch (all others) of a group."""

    protocol: RebalanceProtocol
    number: int
    kind: StepKind
    log_offset: int
    at_ms: int
    """When the record was written: for a generation when its assignment was known, for an epoch at its start."""
    reasons: tuple[Reason, ...] = ()
    leader: str | None = None
    assignor: str | None = None
    members: tuple[PresentMember, ...] = ()
    moved: int | None = None
    """Partitions (tasks) that changed their owner; None if no earlier owner, or not every assignment, is known, and of
    a share group: there several members share a partition."""
    moved_needlessly: int | None = None
    """How many of these although the old owner stayed."""
    promoted: int | None = None
    """Tasks of a streams group that moved to a member that had them as standby or warm-up tasks; None for others."""
    never_completed: int | None = 0
    """Generations that began before this one and did not finish: they left a gap in the numbers. None if compaction may
    have made the gap."""
    returned: tuple[str, ...] = ()
    """Static members that came back to the same partitions."""
    took_ms: int | None = None
    """From the epoch until every member had its target. Classic: from ``joined_ms`` to the assignment, which
    is a lower bound, since the log does not show how long the joining took."""
    joined_ms: int | None = None
    """The end of the joining (classic)."""
    quiet_ms: int | None = None
    """From the last commit until ``at_ms`` (classic); None if there was none since the previous step, or records are
    missing."""
    idle_ms: int | None = None
    """The same, and if there was no commit since the previous step: the time since that step. None if that is longer
    than a member may poll nothing, so that there was nothing to commit."""
    lasted_ms: int | None = None
    """The time until the next step, None for the newest."""
    completed: bool | None = None
    """False for an epoch that the next one replaced before all members reached it; None if that is unknown (yet)."""

    @property
    def standstill_ms(self) -> int | None:
        """How long the group did not work, of ``history`` and ``doctor``: the log does not show a classic joining."""
        return self.idle_ms if self.protocol is RebalanceProtocol.CLASSIC else self.took_ms

    @property
    def rebalances(self) -> int:
        """How many rebalances this step counts for: itself, if it is one, and those before it that never completed."""
        return (self.kind is StepKind.REBALANCE) + (self.never_completed or 0)

    @property
    def causes(self) -> frozenset[Cause]:
        return frozenset(reason.cause for reason in self.reasons)


class SignatureKind(ExplainedEnum):
    """Known patterns of rebalances."""

    ROLLOUT = "rollout", "every instance was replaced once within minutes"
    CRASH_LOOP = "crash-loop", "members came and went at an unread record, and none got past it, or past more than one"
    RESTARTS = "restarts", "every instance was replaced again and again: a crash loop, or planned stops"
    NEVER_SYNCED = "never-synced", "a rebalance waited for exactly a session timeout, as for a silent member"


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

CREEPING_LOOP = 5
"""So many are one if the offset moved between them, by a record at a time."""


class OwnerGone(msgspec.Struct, frozen=True):
    """An owner of the partition that is gone since the step at ``log_offset``."""

    at_ms: int
    log_offset: int
    attempt: int
    """Owners with the same one count once: an orderly rollout replaces several of them."""
    name: str
    came_ms: int | None = None
    """When its first generation or epoch was written."""
    waited_ms: int | None = None
    """How long it may have been dead before it was removed: its session, 0 if it left; None if unknown."""


class CrashLoop(PartitionValue, msgspec.Struct, frozen=True):
    """A partition at which members come and go without a commit past ``offset``, and its owners that are gone."""

    topic: str
    partition: int
    offset: int | None
    """None if the log that was read has no commit of the partition."""
    gone: tuple[OwnerGone, ...]
    crept: int = 0
    """How far the offset moved meanwhile: at most one record from one owner to the next."""
    uncommitted_ms: int | None = None
    """How long the longest life was at most, if no member committed anything in them: they may be too short for it."""

    @property
    def _least(self) -> int:
        return CREEPING_LOOP if self.crept else LOOP

    def is_at(self, committed: int) -> bool:
        """Whether the loop is at this committed offset; one that creeps may have moved since its log was read."""
        return self.offset is None or 0 <= committed - self.offset <= (1 if self.crept else 0)

    def since(self, unread_ms: int | None) -> CrashLoop | None:
        """The loop at a record that was written at ``unread_ms``; None if too few owners went after that.

        An owner of a partition without unread records has nothing to commit. None: the record is older than all.
        """
        gone = self.gone if unread_ms is None else tuple(one for one in self.gone if one.at_ms > unread_ms)
        return None if len({one.attempt for one in gone}) < self._least else replace(self, gone=gone)

    @property
    def least_since_ms(self) -> int:
        """It is a loop if the record at ``offset`` was written before this time: then enough of them ended after it."""
        attempts = {one.attempt: one.at_ms for one in self.gone}
        return sorted(attempts.values())[-self._least]


class CauseCount(msgspec.Struct, frozen=True):
    cause: Annotated[Cause, "The cause."]
    steps: Annotated[Count, "Number of steps."] = field(name="step_count")


class MemberCounts(msgspec.Struct, frozen=True):
    """How often a member (by name) joined or went, and how many rebalances it caused."""

    name: Annotated[str, "The member's name."]
    joined: Annotated[Count, "How often it joined."] = field(name="joined_count")
    went: Annotated[Count, "How often it left."] = field(name="left_count")
    rebalances: Annotated[Count, "Rebalances that it caused."] = field(name="rebalance_count")


class HistoryTotals(msgspec.Struct, frozen=True):
    """Sums over the steps of a span of time."""

    rebalances: Annotated[Count, "Rebalances."] = field(name="rebalance_count")
    never_completed: Annotated[Count, "Generations that began and did not complete."] = field(
        name="never_completed_count"
    )
    overtaken: Annotated[Count, "Epochs that the next one replaced before all members reached it."] = field(
        name="overtaken_count"
    )
    per_hour: Annotated[float | None, "Rebalances per hour; null for a span of no length."] = field(
        name="rebalances_per_hour"
    )
    longest_took_ms: Annotated[Ms | None, "The longest rebalance."]
    longest_quiet_ms: Annotated[
        Ms | None,
        "The longest time without a commit before a rebalance of a classic group, also if nothing was ever committed.",
    ]
    quiet_ms: Annotated[Ms | None, "The sum of these times."]
    moved: Annotated[Count, "Partitions that changed their member."] = field(name="moved_count")
    moved_needlessly: Annotated[Count, "Those of them whose member stayed."] = field(name="moved_needlessly_count")
    moved_unknown: Annotated[Count, "Rebalances whose moves are unknown."] = field(name="moved_unknown_count")
    returned: Annotated[Count, "Static members that returned to the same partitions."] = field(name="returned_count")
    median_gap_ms: Annotated[Ms | None, "The median time between rebalances; null below two gaps."]
    last_rebalance_at: Annotated[Instant | None, "The last rebalance."]
    by_cause: Annotated[tuple[CauseCount, ...], "Steps by cause."] = field(name="causes")
    by_member: Annotated[tuple[MemberCounts, ...], "Steps by member."] = field(name="members")
