"""Snapshots for the doctor's rules: a healthy group and cluster, and how to make them ill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from kgroup.groups.doctor.finding import Severity
from kgroup.groups.doctor.snapshot import (
    ClusterSnapshot,
    GroupSnapshot,
    RebalanceHistory,
    TopicDetails,
)
from kgroup.groups.lag.evidence import FirstUnread, LogPoint, MemberFacts, PartitionEvidence
from kgroup.groups.migration.check import MigrationPath, Readiness, ReadinessResult
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LoggedCommit, LogRange, Member, Partition
from kgroup.model.migration_facts import BrokerFacts, ConfigBounds
from kgroup.model.topic_partition import PartitionReplicas, TopicPartition
from tests.helpers.cases import described

NOW = 1_800_000_000_000
S, M, H, D = 1_000, 60_000, 3_600_000, 86_400_000
UNKNOWN: Literal["unknown"] = "unknown"
PARTLY: Literal["partly"] = "partly"
EARLY: Literal["early"] = "early"
Expected = Severity | Literal["unknown", "partly", "early"] | None
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


@dataclass(frozen=True)
class Case:
    """A snapshot, and what a rule says of it: a severity, nothing, or that it could not look, in part, or not yet."""

    rule: str
    name: str
    snapshot: GroupSnapshot | ClusterSnapshot
    expected: Expected
    said: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def member(name: str, *partitions: int, **other: Any) -> Member:
    return described.member(f"{name}-id", *partitions, **({"client_id": name} | other))


def partition(
    number: int, committed: int | None = 1000, start: int = 0, end: int = 1000, topic: str = "orders", **other: Any
) -> Partition:
    commit = None if committed is None else Commit(committed, other.pop("epoch", 4), "")
    given: dict[str, Any] = {"log": LogRange(start, end), "owner": None, "error": None}
    return Partition(TopicPartition(topic, number), commit, **(given | other))


def group(members: Sequence[Member] | None, partitions: Sequence[Partition], **other: Any) -> Group:
    owners = {(t.topic, n): m for m in members or () for t in m.assignment or () for n in t.partitions}
    given = {
        "state": "Stable" if members else "Empty",
        "assignor": "cooperative-sticky" if members else None,
    }
    rows = [replace(p, owner=owners.get((p.topic, p.partition))) for p in partitions]
    return described.group(rows, members, **(given | other))


def commits(*offsets: int, every_ms: int = 5 * S, until_ms: int = NOW - S) -> tuple[LoggedCommit, ...]:
    """Commits of these offsets, the last one at ``until_ms``."""
    first = until_ms - every_ms * (len(offsets) - 1)
    return tuple(logged(offset, first + every_ms * at) for at, offset in enumerate(offsets))


def logged(offset: int, at_ms: int, *, by_tool: bool = False) -> LoggedCommit:
    """A commit of ``orders:0``; the rules do not look at its partition, nor at its place in the log."""
    return LoggedCommit("orders", 0, offset, None, at_ms, 0, "", by_tool)


def log(
    last_stable: int | None = 1000,
    records: int | None = 6000,
    epoch: int | None = 4,
    *,
    end: int = 1000,
    unread: bool | None = None,
    unread_offset: int = 1000,
    unread_since_ms: int | None = None,
) -> PartitionEvidence:
    """A log up to ``end`` with so many records in ten minutes, and whether one is known to be unread."""
    ends = () if records is None else (LogPoint(NOW - 10 * M, end - records), LogPoint(NOW - M, end - records // 10))
    return PartitionEvidence(
        ends=ends,
        first_unread=None if unread is None else FirstUnread(unread_offset if unread else None, unread_since_ms),
        last_stable=last_stable,
        leader_epoch=epoch,
    )


A, B = member("enrich-0", 0, 1, 2), member("enrich-1", 3, 4, 5)
PARTITIONS = tuple(partition(number) for number in range(6))
KEYS = tuple(TopicPartition("orders", number) for number in range(6))
BROKER = BrokerFacts(
    session=ConfigBounds(45_000, 45_000, 60_000),
    heartbeat=ConfigBounds(5_000, 5_000, 15_000),
    offsets_retention_ms=7 * D,
)
HEALTHY = GroupSnapshot(
    group=group((A, B), PARTITIONS),
    now_ms=NOW,
    settings={m.member_id: MemberFacts(300_000, 45_000) for m in (A, B)},
    commits={key: commits(900, 950, 1000) for key in KEYS},
    topic_ids=dict.fromkeys(KEYS, "id-1"),
    commits_since_ms=NOW - H,
    logs={key: log() for key in KEYS},
    topics={"orders": TopicDetails(6, "id-1")},
    gone=frozenset(),
    history=RebalanceHistory(NOW - H),
    broker=BROKER,
    configs={},
    transactions=(),
    transaction_max_ms=15 * M,
    readiness=Readiness("orders-enrich", (), ReadinessResult.WARNING, MigrationPath.ROLLING, "static members"),
    bootstrap="b1:9092",
)
EMPTY = replace(HEALTHY, group=group((), PARTITIONS), emptied_at_ms=NOW - D, settings={}, commits={
    key: commits(900, 1000, until_ms=NOW - D - S) for key in KEYS
})  # fmt: skip
CLUSTER = ClusterSnapshot(
    now_ms=NOW,
    offsets_topic=tuple(PartitionReplicas(n, 1 + n % 3, (1, 2, 3), (1, 2, 3)) for n in range(50)),
    min_in_sync=2,
    groups_by_coordinator={1: 40, 2: 41, 3: 39},
    brokers=3,
    transactions=(),
    transaction_max_ms=15 * M,
    bootstrap="b1:9092",
)


def shown(snapshot: GroupSnapshot, **read: Any) -> GroupSnapshot:
    """The snapshot with this in the evidence that ``lag`` reads."""
    return replace(snapshot, read=replace(snapshot.read, **read))


def having(
    members: Sequence[Member] | None, partitions: Sequence[Partition] = PARTITIONS, **other: Any
) -> GroupSnapshot:
    """The healthy snapshot with another group."""
    return replace(HEALTHY, group=group(members, partitions, **other))


def consumer(members: Sequence[Member], **other: Any) -> GroupSnapshot:
    """The same as a group of the consumer protocol; its members bring no session of their own."""
    snapshot = having(members, type="consumer", assignor="uniform", generation=None, group_epoch=7, assignment_epoch=7)
    settings = {m.member_id: MemberFacts(300_000, None) for m in members}
    return replace(snapshot, settings=settings, **other)
