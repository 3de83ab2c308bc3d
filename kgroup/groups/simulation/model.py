"""Input and result of a simulation: groups, changes (also as typed), standstills."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated

import msgspec

from kgroup.groups.assignors import CLIENT_SIDE, SERVER_SIDE, Assignor
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber
from kgroup.support.errors import UsageError
from kgroup.support.json_types import Count, ExplainedEnum

SERVER_DEFAULT = "uniform"
"""The assignor of a consumer group whose members ask for none (first of group.consumer.assignors by default)."""


def known_assignors(protocol: str) -> Mapping[str, Assignor]:
    """Kafka's own assignors of a protocol, by name: the broker's for consumer, the clients' for classic."""
    return SERVER_SIDE if protocol == "consumer" else CLIENT_SIDE


class RebalanceStyle(Enum):
    """How a group rebalances: which members stop, and how often."""

    EAGER = "eager"
    """All members revoke all partitions before they join, also with sticky: it only decides what they get back."""
    COOPERATIVE = "cooperative"
    """Partitions that move are revoked after a first rebalance and assigned by a second (KIP-429)."""
    CONSUMER = "consumer"
    """One target assignment per epoch; only partitions that move are revoked, without a barrier (KIP-848)."""


class SimulatedGroup(msgspec.Struct, frozen=True):
    """A group that is not rebalancing; ``protocol`` is classic or consumer.

    ``owned`` of each member is its assignment, for the consumer protocol the target: each partition has one owner.
    Members are in the order of the group's description. Raises UsageError for an assignor that is not one of Kafka's.
    """

    protocol: str
    assignor: str
    members: tuple[Subscriber, ...]
    topics: tuple[AssignorTopic, ...]

    def __post_init__(self) -> None:
        known = known_assignors(self.protocol)
        if self.assignor not in known:
            raise UsageError(
                f"the {self.protocol} protocol has no assignor {self.assignor} that could be simulated",
                hint=f"choose one of: {', '.join(known)}",
            )

    @property
    def assign(self) -> Assignor:
        return known_assignors(self.protocol)[self.assignor]

    @property
    def style(self) -> RebalanceStyle:
        if self.protocol == "consumer":
            return RebalanceStyle.CONSUMER
        return RebalanceStyle.COOPERATIVE if self.assignor == "cooperative-sticky" else RebalanceStyle.EAGER


class RestartStrategy(Enum):
    """A rolling restart: with the members as they are, as if all were static, or as if none were."""

    AS_THEY_ARE = "as they are"
    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupChange(msgspec.Struct, frozen=True):
    """The change of a group, in this order: add partitions, remove, add, kill members, restart all.

    All added members join at the same time, and all removed ones leave at the same time. A killed member (kill -9) is
    replaced at once; only its session timeout shows that it is dead. ``leaving`` has the member or instance ids to
    remove. Without it, ``remove`` members are taken from the end of the order (of app-0 to app-9: app-9 first).
    ``more_partitions`` are added to each topic of ``grown``, None: to all topics.
    """

    add: int = 0
    remove: int = 0
    kill: int = 0
    leaving: tuple[str, ...] = ()
    more_partitions: int = 0
    grown: tuple[str, ...] | None = None
    restart: RestartStrategy | None = None

    @property
    def makes_up_ids(self) -> bool:
        """Whether members join whose ids cannot be known beforehand."""
        return self.add > 0 or self.kill > 0 or self.restart is not None


class SimulationTiming(msgspec.Struct, frozen=True):
    """Durations in seconds that do not follow from the assignor; the result is only as good as these values.

    ``restart_s``: from closing a member until it joins again. ``session_timeout_s``: after this time an absent static
    member is removed (default 45 s, of the client or, for the consumer protocol, of the broker). ``rebalance_s``: a
    classic rebalance, from the first revocation to the new assignments. Every member must notice it (a heartbeat, 3 s
    by default) and finish its processing; measure it where you can. ``handover_s`` (consumer protocol): until the new
    owner of a free partition learns of it, at most one heartbeat (5 s by default).
    """

    restart_s: float = 30
    session_timeout_s: float = 45
    rebalance_s: float = 3
    handover_s: float = 5


class StandstillCause(ExplainedEnum):
    """Why partitions are not read."""

    REBALANCE = "rebalance", "a classic rebalance"
    HANDOVER = "handover", "a handover in a consumer group"
    AWAY = "away", "a static member is away"
    DEAD = "dead", "a killed member whose session has not ended"
    EMPTY = "empty", "the group has no members"


class Standstill(msgspec.Struct, frozen=True):
    """Partitions of these members that no member reads for some seconds."""

    members: tuple[str, ...]
    partitions: int
    seconds: float
    cause: StandstillCause


class Stops(msgspec.Struct, frozen=True):
    """Standstills of one cause and length: how many times, and the fewest and most partitions of one of them."""

    cause: StandstillCause
    seconds: float
    times: int
    fewest: int
    most: int


class SimulationStep(msgspec.Struct, frozen=True):
    """One event of the group: ``join``, ``leave``, ``expire``, ``away``, ``kill``, ``grow`` or ``switch``.

    ``moved`` partitions changed their owner, ``taken`` of them although their owner stayed. ``needless`` of those were
    not needed for balance: the sticky assignor would have taken fewer from members that stay.
    """

    what: str
    members: tuple[str, ...]
    rebalances: int
    moved: int
    taken: int
    needless: int
    standstills: tuple[Standstill, ...]


class Balance(msgspec.Struct, frozen=True):
    """How even an assignment is."""

    member_count: Annotated[Count, "Number of members."]
    idle_member_count: Annotated[Count, "Members without a partition."]
    fewest_partition_count: Annotated[Count, "The fewest partitions of a member."]
    most_partition_count: Annotated[Count, "The most partitions of a member."]

    @classmethod
    def of(cls, assigned: Assigned) -> Balance:
        """The balance of an assignment; all zero without members."""
        sizes = [len(partitions) for partitions in assigned.values()]
        return cls(len(sizes), sizes.count(0), min(sizes, default=0), max(sizes, default=0))


class Simulation(msgspec.Struct, frozen=True):
    """The effect of a change.

    Assignments use the member ids from the start: a restarted member keeps its id here, though Kafka gives it a new
    one. Added members have invented ids. ``settled`` is False if the cooperative assignor had not settled after 20
    rounds. ``instance_ids`` are those of the members at the end.
    """

    before: Assigned
    after: Assigned
    steps: tuple[SimulationStep, ...]
    settled: bool
    instance_ids: Mapping[str, str | None] = msgspec.field(default_factory=dict)

    @property
    def balance_before(self) -> Balance:
        return Balance.of(self.before)

    @property
    def balance_after(self) -> Balance:
        return Balance.of(self.after)

    @property
    def rebalances(self) -> int:
        """Number of generations of a classic group, or of epochs of a consumer group."""
        return sum(step.rebalances for step in self.steps)

    @property
    def moved(self) -> int:
        """How often partitions changed their owner: each time the new owner has to rebuild its state."""
        return sum(step.moved for step in self.steps)

    @property
    def taken(self) -> int:
        """How often partitions moved although their owner stayed."""
        return sum(step.taken for step in self.steps)

    @property
    def needless(self) -> int:
        """How many of these moves balance did not need."""
        return sum(step.needless for step in self.steps)

    @property
    def standstills(self) -> tuple[Standstill, ...]:
        return tuple(standstill for step in self.steps for standstill in step.standstills)

    @property
    def stops(self) -> tuple[Stops, ...]:
        """The standstills by cause and length, like ``48 for 8 s, 24 times``, in order of their first occurrence."""
        alike: dict[tuple[StandstillCause, float], list[int]] = {}
        for standstill in self.standstills:
            alike.setdefault((standstill.cause, standstill.seconds), []).append(standstill.partitions)
        return tuple(
            Stops(cause, seconds, len(sizes), min(sizes), max(sizes)) for (cause, seconds), sizes in alike.items()
        )

    @property
    def partition_seconds(self) -> float:
        """Sum of standstill time over all partitions, in seconds: one number to compare two scenarios."""
        return sum(standstill.partitions * standstill.seconds for standstill in self.standstills)


_MOST_PARTITIONS = 10_000
_GROWTH = r"(?:(?P<topic>[^=]+)=)?\+(?P<number>[0-9]{1,9})"


def parse_removed(values: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """A number of members (0 if names are given) and names; raises UsageError for both at once, and for 0."""
    numbers = [text for text in values if re.fullmatch(r"[0-9]{1,9}", text)]
    if numbers and len(values) > 1:
        raise UsageError(
            f"--remove {numbers[0]} and another --remove are mutually exclusive: give one number, or names"
        )
    if numbers:
        if not int(numbers[0]):
            raise UsageError("--remove must be at least 1")
        return int(numbers[0]), ()
    if any(re.fullmatch(r"-[0-9]+", text) for text in values):
        raise UsageError(f"--remove {values[0]}: not a number of members and not a name")
    return 0, tuple(values)


def parse_growth(values: Sequence[str]) -> tuple[int, tuple[str, ...] | None]:
    """The number of new partitions per topic, and the topics (None: all); raises UsageError for another form."""
    if not values:
        return 0, None
    parts = []
    for text in values:
        parsed = re.fullmatch(_GROWTH, text)
        if parsed is None or not int(parsed["number"]):
            raise UsageError(f"--partitions {text}: write how many partitions to add: +6, or orders=+6")
        if int(parsed["number"]) > _MOST_PARTITIONS:
            raise UsageError(f"--partitions {text}: more than {_MOST_PARTITIONS}")
        parts.append((parsed["topic"], int(parsed["number"])))
    if len(parts) > 1 and None in [topic for topic, _ in parts]:
        raise UsageError(f"--partitions +{parts[0][1]} is for each topic, so no other --partitions is possible")
    if len({number for _, number in parts}) > 1:
        raise UsageError("--partitions must have the same number for all topics; simulate others separately")
    topics = tuple(dict.fromkeys(topic for topic, _ in parts if topic is not None))
    return parts[0][1], topics or None
