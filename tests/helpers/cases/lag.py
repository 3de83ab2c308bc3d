"""Groups and evidence for the tests of lag and verdict, built from a line a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    FirstUnread,
    LagEvidence,
    LogPoint,
    PartitionEvidence,
    Retention,
    Sibling,
)
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LoggedCommit, LogRange, Member, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases import described

NOW = 1_795_225_000_000  # 2026-11-21T01:36:40Z
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
HALF_DAY = Retention(12 * HOUR)


def at(ago_ms: float, offset: int, partition: int = 0, topic: str = "orders") -> LoggedCommit:
    """A commit so long ago; its place in the log follows its time."""
    when = NOW - round(ago_ms)
    return LoggedCommit(topic, partition, offset, 4, when, when)


def steady(
    committed: int, rate: float, last_ago_ms: int, pause_ms: int = 5 * SECOND, times: int = 12
) -> list[LoggedCommit]:
    """Commits in a rhythm, oldest first, the last at ``committed``; ``rate`` is what is read a second."""
    step = rate * pause_ms / 1000
    return [at(last_ago_ms + n * pause_ms, committed - round(n * step)) for n in reversed(range(times))]


def member(member_id: str, host: str = "10.0.3.4", partitions: Sequence[int] = ()) -> Member:
    assignment = (TopicPartitions("orders", tuple(partitions)),)
    return Member(member_id, None, member_id, host, None, None, "classic", ("orders",), None, assignment, None)


@dataclass(frozen=True)
class Part:
    """A partition with all that is known of it; rates are records a second.

    ``stop_ago`` is how long ago the last commit was, and since then nothing is read; ``age`` is that of the first
    unread record, None: worked out from the rates. ``ended_ago`` is how long ago the last record arrived.
    """

    number: int
    lag: int | None
    incoming: float = 100.0
    outgoing: float = 100.0
    last_ago: int = 2 * SECOND
    age: int | None = None
    owner: Member | None = None
    topic: str = "orders"
    leader: int | None = None
    retention: Retention | None = HALF_DAY
    committed: int = 10_000_000
    log_start: int = 0
    error: str | None = None
    commits: tuple[LoggedCommit, ...] | None = None
    last_stable: int | None = None
    transaction: BlockingTransaction | None = None
    timed: bool = True
    ended_ago: int = 0
    past_ends: tuple[LogPoint, ...] = ()

    @property
    def partition(self) -> Partition:
        log = None if self.lag is None else LogRange(self.log_start, self.committed + self.lag)
        commit = Commit(self.committed, None, "")
        return Partition(TopicPartition(self.topic, self.number), commit, log, self.owner, self.error)

    @property
    def evidence(self) -> PartitionEvidence:
        lag = self.lag or 0
        commits = self.commits
        if commits is None:
            commits = tuple(
                replace(c, topic=self.topic, partition=self.number)
                for c in steady(self.committed, self.outgoing, self.last_ago)
            )
        end = self.committed + lag
        age = self.age if self.age is not None else round(lag * 1000 / self.incoming) if self.incoming else 0
        past = LogPoint(NOW - 10 * MINUTE, round(end - self.incoming * 600))
        return PartitionEvidence(
            commits=commits,
            read_since_ms=NOW - HOUR,
            ends=(past, LogPoint(NOW - self.ended_ago, end)),
            past_ends=self.past_ends,
            first_unread=FirstUnread(max(self.committed, self.log_start), NOW - age) if self.timed and lag else None,
            last_stable=self.last_stable,
            open_transaction=self.transaction,
            retention=self.retention,
            leader=self.leader,
        )


def group(parts: Iterable[Part], members: Sequence[Member] | None = None, state: str = "Stable", **other: Any) -> Group:
    found = list(parts)
    if members is None:
        members = list({p.owner.member_id: p.owner for p in found if p.owner}.values())
    return described.group([p.partition for p in found], members, state=state, **other)


def evidence(parts: Iterable[Part], **other: Any) -> LagEvidence:
    return LagEvidence(now_ms=NOW, partitions={TopicPartition(p.topic, p.number): p.evidence for p in parts}, **other)


def sibling(
    name: str,
    lag: int | None,
    topic: str = "orders",
    last_ago: int | None = 2 * SECOND,
    age: int | None = None,
    *,
    is_empty: bool = False,
) -> Sibling:
    last_ms = None if last_ago is None else NOW - last_ago
    return Sibling(name, topic, lag, last_ms, None if age is None else NOW - age, is_empty)
