"""What the rules look at: a group, or the cluster, at one moment, with as much of the past as the log still tells.

None is "could not be read", and why not is in ``unread`` under the field's name. Times are ms since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.groups.migration.check import Readiness
from kgroup.model.groups import Group
from kgroup.model.migration_facts import BrokerFacts
from kgroup.model.migration_facts import OpenTransaction as OpenTransaction

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What a member told the coordinator, as ``__consumer_offsets`` holds it (GroupMetadata, or record type 5).

    ``rebalance_timeout_ms`` is its max.poll.interval.ms. ``session_timeout_ms`` is None for members of the consumer
    protocol, whose session the broker decides.
    """

    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """A commit: the offset, and the broker's clock when it came."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """Commits of one partition, oldest first, as far back as the log holds them.

    ``topic_id`` is the newest commit's, as text (Kafka 4.1 and later write it), None where it holds none.
    """

    points: tuple[CommitPoint, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Production:
    """Records (offsets) that came in the last ``span_ms``; what transactions add for themselves is counted too."""

    records: int
    span_ms: int

    @property
    def per_second(self) -> float:
        """Records a second."""
        return 1000 * self.records / self.span_ms if self.span_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class LogDetails:
    """What is known of a partition's log beside its range.

    ``last_stable`` is the last stable offset, ``held_since_ms`` the time of the record that stands there (None: none
    stands there, or unknown). ``leader_epoch`` is the leader's (ListOffsets, latest). ``unread`` is whether a
    record lies between the group's commit and the log's end, where what transactions leave is a lag that nobody can
    read, and ``unread_since_ms`` the time of the first; None: not looked at, or it has none.
    """

    last_stable: int | None = None
    held_since_ms: int | None = None
    production: Production | None = None
    leader_epoch: int | None = None
    unread: bool | None = None
    unread_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic that exists; ``id`` as text, as in Commits. ``cleanup`` is ``cleanup.policy``, its words."""

    partitions: int
    id: str | None = None
    cleanup: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A completed generation of a classic group, or an epoch of a consumer group.

    ``took_ms`` is how long it took, ``taken`` how many partitions moved although their owner stayed; None where that
    can't be told. ``causers`` are the members that joined or left. ``rollout`` says that it is part of a run in which
    every instance went once, or of a start, a stop or a change of size: a deployment, no storm.
    """

    at_ms: int
    took_ms: int | None = None
    taken: int | None = None
    causers: tuple[str, ...] = ()
    rollout: bool = False


@dataclass(frozen=True, slots=True)
class MemberRestart:
    """A member that went and came back ``away_ms`` later, None: before the group had noticed.

    ``instance_id`` is None for a dynamic member.
    """

    member: str
    instance_id: str | None
    away_ms: int | None


@dataclass(frozen=True, slots=True)
class RebalanceHistory:
    """Rebalances and restarts, oldest first, since ``since_ms``: so far back the log was read."""

    since_ms: int
    rebalances: tuple[Rebalance, ...] = ()
    restarts: tuple[MemberRestart, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """All that is known of one group.

    ``group`` has the members, and a row for every partition that is assigned or committed, and for every other
    partition of a topic that the group commits to. ``settings`` are by member id. ``commits`` hold the standing commits
    with their history since ``commits_since_ms``. ``topics`` are those that exist, ``gone`` those of commits and
    subscriptions that certainly do not: one that this user may not DESCRIBE is in neither. ``state_topics`` are topics
    that hold state of the group (``GROUP-...-changelog``). ``configs`` are the group's dynamic configs.
    ``emptied_at_ms`` is when it became Empty. ``transactions`` are the open ones in its partitions,
    ``transaction_max_ms`` is ``transaction.max.timeout.ms``. ``readiness`` is that for the consumer protocol.
    ``bootstrap`` is how the cluster was reached, for commands.
    """

    group: Group
    now_ms: int
    settings: Mapping[str, MemberSettings] | None = None
    commits: Mapping[TopicPartition, CommitSeries] | None = None
    commits_since_ms: int | None = None
    logs: Mapping[TopicPartition, LogDetails] = field(default_factory=dict)
    topics: Mapping[str, TopicDetails] | None = None
    gone: frozenset[str] | None = None
    state_topics: tuple[str, ...] = ()
    history: RebalanceHistory | None = None
    broker: BrokerFacts = field(default_factory=BrokerFacts)
    configs: Mapping[str, str] | None = None
    emptied_at_ms: int | None = None
    transactions: tuple[OpenTransaction, ...] | None = None
    transaction_max_ms: int | None = None
    readiness: Readiness | None = None
    bootstrap: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    def why(self, name: str, otherwise: str) -> str:
        """Why a field is None: what the reader said, or ``otherwise`` where it said nothing."""
        return self.unread.get(name) or self.broker.unread.get(name) or otherwise


@dataclass(frozen=True, slots=True)
class OffsetsPartition:
    """A partition of ``__consumer_offsets``; ``leader`` is None where it has none. Broker ids."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What concerns every group.

    ``min_in_sync`` is ``min.insync.replicas`` of ``__consumer_offsets``. ``groups_by_coordinator`` has every broker
    that is up, with 0 for one that coordinates nothing; ``brokers`` is how many there are. ``transactions`` are those
    open in ``__consumer_offsets``.
    """

    now_ms: int
    offsets_topic: tuple[OffsetsPartition, ...] | None = None
    min_in_sync: int | None = None
    groups_by_coordinator: Mapping[int, int] | None = None
    brokers: int | None = None
    transactions: tuple[OpenTransaction, ...] | None = None
    transaction_max_ms: int | None = None
    bootstrap: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    def why(self, name: str, otherwise: str) -> str:
        """Why a field is None: what the reader said, or ``otherwise`` where it said nothing."""
        return self.unread.get(name) or otherwise
