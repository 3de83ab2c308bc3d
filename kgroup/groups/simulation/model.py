"""What is simulated, and what comes out: groups, changes, standstills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kgroup.groups.assignors import CLIENT_SIDE, SERVER_SIDE, Assignor
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber
from kgroup.support.errors import UsageError

SERVER_DEFAULT = "uniform"
"""What a consumer group uses where nobody asked for anything (group.consumer.assignors)."""


def known_assignors(protocol: str) -> Mapping[str, Assignor]:
    """The assignors that Kafka comes with, by name: those of a consumer group, or of the clients of a classic one."""
    return SERVER_SIDE if protocol == "consumer" else CLIENT_SIDE


class Style(Enum):
    """How a group rebalances: who stops, and how often."""

    EAGER = "eager"
    """Everybody revokes everything before joining, under sticky too: stickiness decides only what comes back."""
    COOPERATIVE = "cooperative"
    """What moves is revoked after a first rebalance and placed by a second (KIP-429)."""
    CONSUMER = "consumer"
    """One target assignment an epoch; only what moves is revoked, with no barrier (KIP-848)."""


@dataclass(frozen=True, slots=True)
class SimulatedGroup:
    """A group at rest: ``protocol`` is classic or consumer, ``owned`` of each member its present assignment.

    (For the consumer protocol its target assignment: each partition once.) Members in the order in which the group
    lists them. An assignor that Kafka does not come with cannot be simulated: UsageError.
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
                hint=f"one of {', '.join(known)}",
            )

    @property
    def assign(self) -> Assignor:
        """Its assignor, as a function."""
        return known_assignors(self.protocol)[self.assignor]

    @property
    def style(self) -> Style:
        """How it rebalances."""
        if self.protocol == "consumer":
            return Style.CONSUMER
        return Style.COOPERATIVE if self.assignor == "cooperative-sticky" else Style.EAGER


class RestartStrategy(Enum):
    """Every member restarted in turn: as they are, or as if all were static members, or none."""

    AS_THEY_ARE = "as they are"
    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What is done to the group, in this order: partitions, members removed, added, killed, all restarted.

    Members that are added come at once, and those removed go at once; of those that are killed (kill -9) each is
    replaced at once, and only its session timeout tells that it is dead. ``leaving`` names them, by member or instance
    id; else ``remove`` are taken from the end of the order of members (of instances app-0 to app-9: app-9 first).
    ``more_partitions`` are added to each topic of ``grown``, by default to all.
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
        """Whether members come whose ids nobody can know beforehand."""
        return self.add > 0 or self.kill > 0 or self.restart is not None


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations that no assignor decides; the result is as good as they are.

    ``restart_s``: from closing a member until it joins again. ``session_timeout_s``: after which an absent static
    member is removed (45 s by default, of the client or, for the consumer protocol, of the broker). ``rebalance_s``:
    a classic rebalance, from the first revocation to the new assignments: until every member has heard of it (a
    heartbeat, 3 s by default) and has come back from processing; measure it where you can. ``handover_s``: consumer
    protocol, until a free partition's new owner hears of it: a heartbeat (5 s by default) at most.
    """

    restart_s: float = 30
    session_timeout_s: float = 45
    rebalance_s: float = 3
    handover_s: float = 5


@dataclass(frozen=True, slots=True)
class Standstill:
    """Partitions that nobody reads for a while: of these members, so many, for so long, and why.

    ``cause``: ``rebalance`` (classic), ``handover`` (consumer protocol), ``away`` (their static member is gone and
    expected back), ``dead`` (their member was killed, and its session still runs), ``empty`` (nobody else is there).
    """

    members: tuple[str, ...]
    partitions: int
    seconds: float
    cause: str


@dataclass(frozen=True, slots=True)
class Stops:
    """Standstills of one cause and length: how many there are, of how many partitions the least and the largest."""

    cause: str
    seconds: float
    times: int
    fewest: int
    most: int


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """One thing that happened to the group: ``join``, ``leave``, ``expire``, ``away``, ``kill`` or ``grow``.

    ``moved`` partitions changed their owner; ``taken`` of them although their owner stayed; ``needless`` of those
    beyond what balance asks for, that is, more than the sticky assignor would have taken in the same place.
    """

    what: str
    members: tuple[str, ...]
    rebalances: int
    moved: int
    taken: int
    needless: int
    standstills: tuple[Standstill, ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly partitions lie: members, those without any, fewest and most a member has."""

    members: int
    idle: int
    fewest: int
    most: int

    @classmethod
    def of(cls, assigned: Assigned) -> Balance:
        """That of an assignment; all zero without members."""
        sizes = [len(partitions) for partitions in assigned.values()]
        return cls(len(sizes), sizes.count(0), min(sizes, default=0), max(sizes, default=0))


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a change would do.

    Assignments go by member ids as they were at the beginning: a restarted member keeps its name here, though Kafka
    gives it a new one; members that were added have made-up ids. ``settled`` is False where the cooperative assignor
    had not come to rest after many rebalances. ``instance_ids`` are those of the members that are there afterwards.
    """

    before: Assigned
    after: Assigned
    steps: tuple[SimulationStep, ...]
    settled: bool
    instance_ids: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def balance_before(self) -> Balance:
        """How evenly partitions lay."""
        return Balance.of(self.before)

    @property
    def balance_after(self) -> Balance:
        """How evenly they lie in the end."""
        return Balance.of(self.after)

    @property
    def rebalances(self) -> int:
        """Generations of a classic group, epochs of a consumer group."""
        return sum(step.rebalances for step in self.steps)

    @property
    def moved(self) -> int:
        """Partitions that changed their owner, as often as they did: the cost in state that is built anew."""
        return sum(step.moved for step in self.steps)

    @property
    def taken(self) -> int:
        """Those of them whose owner stayed."""
        return sum(step.taken for step in self.steps)

    @property
    def needless(self) -> int:
        """Those of them that balance did not ask for."""
        return sum(step.needless for step in self.steps)

    @property
    def standstills(self) -> tuple[Standstill, ...]:
        """All, in the order in which they come."""
        return tuple(standstill for step in self.steps for standstill in step.standstills)

    @property
    def stops(self) -> tuple[Stops, ...]:
        """The same, gathered: ``48 for 8 s, 24 times``; in the order in which each kind came first."""
        alike: dict[tuple[str, float], list[int]] = {}
        for standstill in self.standstills:
            alike.setdefault((standstill.cause, standstill.seconds), []).append(standstill.partitions)
        return tuple(
            Stops(cause, seconds, len(sizes), min(sizes), max(sizes)) for (cause, seconds), sizes in alike.items()
        )

    @property
    def partition_seconds(self) -> float:
        """How long partitions stand still, added up: the one number to compare two ways by."""
        return sum(standstill.partitions * standstill.seconds for standstill in self.standstills)
