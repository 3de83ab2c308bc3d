"""The input of the rules: a group or the cluster at one moment, and the past as far as the log still has it.

A field that is None could not be read; ``unread`` has the reason under the field's name. Times are ms since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kgroup.groups.history.lost_members import LostMember
from kgroup.groups.history.roster import RosterChange
from kgroup.groups.history.runs import Run
from kgroup.groups.history.slow_polls import SlowPolls
from kgroup.groups.lag.evidence import EvidenceSource, LagEvidence, MemberFacts, PartitionEvidence
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag
from kgroup.groups.member_labels import unsubscribed_topics
from kgroup.groups.migration.check import Readiness
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.facts import crash_loops_in
from kgroup.groups.verdict.large_gap import LargeGap, large_gap
from kgroup.groups.verdict.shape import Shape, shape_of
from kgroup.model.groups import Group, LoggedCommit
from kgroup.model.migration_facts import BrokerFacts
from kgroup.model.migration_facts import OpenTransaction as OpenTransaction
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.topic_partition import PartitionReplicas, TopicPartition

NO_COMMITS = "the commits in __consumer_offsets were not read"


_NOTHING = PartitionEvidence()


class TopicDetails(msgspec.Struct, frozen=True):
    """A topic that exists. ``id`` is text, as in ``GroupSnapshot``."""

    partitions: int
    id: str | None = None


class Rebalance(msgspec.Struct, frozen=True):
    """A generation of a classic group, or an epoch of a consumer group.

    ``standstill_ms`` is how long the group did not work: of a classic group before it, of a consumer group after it.
    ``taken`` is the number of partitions that moved although their owner stayed. Both are None if unknown. ``causers``
    are the members that joined or left. ``rollout`` is whether it belongs to a deployment (every instance restarted
    once) or to a start, a stop or a change of size, and so does not count for a storm. ``count`` is the number of
    generations: those that did not complete have no record, and are one entry however many they are.
    """

    at_ms: int
    standstill_ms: int | None = None
    taken: int | None = None
    causers: tuple[str, ...] = ()
    rollout: bool = False
    count: int = 1


class MemberRestart(msgspec.Struct, frozen=True):
    """A member that left and came back ``away_ms`` later; None: it came back before the group noticed.

    ``instance_id`` is None for a dynamic member.
    """

    member: str
    instance_id: str | None
    away_ms: int | None


class RebalanceHistory(msgspec.Struct, frozen=True):
    """Rebalances and restarts, oldest first, since ``since_ms``: the log was read back to that time.

    ``crash_loops`` are suspected: whether their records are unread, the log of the group does not show. ``runs`` and
    ``slow_polls`` are of the whole log that was read. ``lost`` is the last member that went in silence.
    """

    since_ms: int
    rebalances: tuple[Rebalance, ...] = ()
    restarts: tuple[MemberRestart, ...] = ()
    crash_loops: tuple[CrashLoop, ...] = ()
    runs: tuple[Run, ...] = ()
    slow_polls: SlowPolls | None = None
    lost: LostMember | None = None
    roster: RosterChange | None = None


class GroupSnapshot(msgspec.Struct, frozen=True, dict=True):
    """All facts about one group.

    ``group`` has the members, and a row for every partition that is assigned or committed, and for every other
    partition of a topic that the group commits to. ``settings`` are by member id. ``commits`` are the present commits
    with their history since ``commits_since_ms``, oldest first, none without any. ``logs`` are as ``lag`` reads them,
    without commits. ``held_since_ms`` is the time of the record at the last stable offset, where no coordinator knows
    when its transaction began. ``topic_ids`` are those in the newest commits, as text (written since Kafka 4.1).
    ``topics`` are the existing topics. ``gone`` are topics of commits and subscriptions that certainly do not exist. A
    topic that this user may not DESCRIBE is in neither.
    ``state_topics`` hold state of the group (``GROUP-...-changelog``). ``configs`` are the group's dynamic configs.
    ``emptied_at_ms`` is when it became Empty for the broker, ``state_since_ms`` since when it is in its state, which is
    earlier if kgroup has held it since. ``transactions`` are the open ones on its partitions, ``transaction_max_ms`` is
    ``transaction.max.timeout.ms``. ``readiness`` is for a migration to the consumer protocol. ``pending`` are its
    catch-ups that are not finished. ``bootstrap`` is the bootstrap server, for commands.
    """

    group: Group
    now_ms: int
    settings: Mapping[str, MemberFacts] | None = None
    commits: Mapping[TopicPartition, tuple[LoggedCommit, ...]] | None = None
    topic_ids: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    commits_since_ms: int | None = None
    logs: Mapping[TopicPartition, PartitionEvidence] = msgspec.field(default_factory=dict)
    held_since_ms: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    topics: Mapping[str, TopicDetails] | None = None
    gone: frozenset[str] | None = None
    state_topics: tuple[str, ...] = ()
    history: RebalanceHistory | None = None
    broker: BrokerFacts = msgspec.field(default_factory=BrokerFacts)
    configs: Mapping[str, str] | None = None
    emptied_at_ms: int | None = None
    state_since_ms: int | None = None
    transactions: tuple[OpenTransaction, ...] | None = None
    transaction_max_ms: int | None = None
    readiness: Readiness | None = None
    pending: tuple[PendingCatchup, ...] | None = ()
    read: LagEvidence = LagEvidence(now_ms=0)
    """The evidence as ``lag`` reads it; the other fields take its place where they have more."""
    bootstrap: str | None = None
    unread: Mapping[str, str] = msgspec.field(default_factory=dict)

    @cached_property
    def unsubscribed(self) -> frozenset[str]:
        """The topics with commits that no member of the running group subscribes to: they are not read on purpose."""
        return unsubscribed_topics(self.group)

    @cached_property
    def lag(self) -> GroupLag:
        """The measured lag, as ``lag`` and ``describe`` measure it."""
        return measure_lag(self.group, self.evidence)

    @cached_property
    def shape(self) -> Shape:
        """The shape of the lag, as ``describe`` shows it."""
        return shape_of(self.lag)

    @cached_property
    def gap(self) -> LargeGap | None:
        """The group's gap if it is large, as ``describe`` finds it."""
        return large_gap(self.lag, self.evidence)

    @cached_property
    def crash_loops(self) -> tuple[CrashLoop, ...]:
        """The crash loops whose record is unread, and was before the owners went."""
        return crash_loops_in(self.lag, self.evidence)

    @cached_property
    def evidence(self) -> LagEvidence:
        """The part of the snapshot that shows the lag."""
        since_ms = self.emptied_at_ms if self.state_since_ms is None and self.group.is_empty else self.state_since_ms
        logs, commits, read_since_ms = self.logs, self.commits or {}, self.commits_since_ms
        return replace(
            self.read,
            now_ms=self.now_ms,
            partitions={
                (tp := p.tp): replace(logs.get(tp, _NOTHING), commits=commits.get(tp, ()), read_since_ms=read_since_ms)
                for p in self.group.partitions
            },
            state_since_ms=since_ms,
            members=self.settings or {},
            crash_loops=self.history.crash_loops if self.history else (),
            runs=self.history.runs if self.history else (),
            slow_polls=self.history.slow_polls if self.history else None,
            lost=self.history.lost if self.history else None,
            roster=self.history.roster if self.history else None,
            unknown={EvidenceSource.COMMITS: self.why("commits", NO_COMMITS)} if self.commits is None else {},
        )

    @cached_property
    def arrivals(self) -> Mapping[TopicPartition, float]:
        """Offsets per second, markers of transactions included, that were written in ``RATE_SPAN``, where known."""
        known = ((p.tp, p.log, self.logs.get(p.tp, _NOTHING).ends) for p in self.group.partitions)
        return {
            tp: 1000 * (log.end - ends[0].end) / (self.now_ms - ends[0].timestamp_ms)
            for tp, log, ends in known
            if log is not None and ends
        }

    @cached_property
    def last_commit_ms(self) -> int | None:
        """The time of the newest known commit; None without one."""
        return max([c.timestamp_ms for each in (self.commits or {}).values() for c in each], default=None)

    def why(self, name: str, otherwise: str) -> str:
        """The reason why a field is None: that of the reader, or ``otherwise`` if it gave none."""
        return self.unread.get(name) or self.broker.unread.get(name) or otherwise


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """Facts that affect every group.

    ``min_in_sync`` is ``min.insync.replicas`` of ``__consumer_offsets``. ``groups_by_coordinator`` has every broker
    that is up, with 0 for one that coordinates no group. ``brokers`` is the number of brokers. ``transactions`` are
    the open ones in ``__consumer_offsets``.
    """

    now_ms: int
    offsets_topic: tuple[PartitionReplicas, ...] | None = None
    min_in_sync: int | None = None
    groups_by_coordinator: Mapping[int, int] | None = None
    brokers: int | None = None
    transactions: tuple[OpenTransaction, ...] | None = None
    transaction_max_ms: int | None = None
    bootstrap: str | None = None
    unread: Mapping[str, str] = msgspec.field(default_factory=dict)

    def why(self, name: str, otherwise: str) -> str:
        """The reason why a field is None: that of the reader, or ``otherwise`` if it gave none."""
        return self.unread.get(name) or otherwise
