"""Offsets of a group that were committed in a transaction which is still open. Pure.

Until it ends, the coordinator answers a consumer that asks for its position there with UNSTABLE_OFFSET_COMMIT
(KIP-447), so that a member that starts waits. Each transaction holds offsets for a moment; a minute is unusual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.thresholds import LONG_TRANSACTION
from kgroup.model.group_log import CommitWritten
from kgroup.model.migration_facts import OpenTransaction
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import short_time
from kgroup.support.units import plural


class OpenCommit(msgspec.Struct, frozen=True):
    """The newest such commit of a partition, of one producer.

    ``at_ms`` is the time of its first one there. ``transaction`` is that of the producer in ``__consumer_offsets``,
    None if it was not read.
    """

    tp: TopicPartition
    offset: int
    producer_id: int
    at_ms: int
    transaction: OpenTransaction | None = None

    @property
    def since_ms(self) -> int:
        """When the transaction began, at the latest."""
        known = None if self.transaction is None else self.transaction.began_ms
        return self.at_ms if known is None else min(known, self.at_ms)


def open_commits(commits: Iterable[CommitWritten]) -> tuple[OpenCommit, ...]:
    """The commits, which must all be in open transactions, oldest first."""
    newest: dict[tuple[TopicPartition, int | None], OpenCommit] = {}
    for commit in commits:
        if commit.offset is None or commit.producer_id is None:
            continue
        key = commit.tp, commit.producer_id
        at_ms = newest[key].at_ms if key in newest else commit.at_ms
        newest[key] = OpenCommit(commit.tp, commit.offset, commit.producer_id, at_ms)
    return tuple(newest.values())


def with_transactions(
    commits: Sequence[OpenCommit], transactions: Iterable[OpenTransaction], now_ms: int
) -> tuple[OpenCommit, ...]:
    """Those that are held for a minute, oldest first, with the open transactions of ``__consumer_offsets``."""
    by_producer: Mapping[int, OpenTransaction] = {each.producer_id: each for each in transactions}
    dated = (replace(each, transaction=by_producer.get(each.producer_id)) for each in commits)
    held = (each for each in dated if now_ms - each.since_ms >= LONG_TRANSACTION.value)
    return tuple(sorted(held, key=lambda each: each.since_ms))


def open_commits_words(held: Sequence[OpenCommit], now_ms: int) -> str:
    """``orders:0: an open transaction of pay-tx (producer 4711) has committed offset 81 since 15:02:10Z: ...``."""
    first = held[0]
    named = None if first.transaction is None else first.transaction.transactional_id
    whose = f"producer {first.producer_id}" if named is None else f"{named} (producer {first.producer_id})"
    more = f" and offsets of {plural(len(held) - 1, 'more partition')}" if len(held) > 1 else ""
    return (
        f"{first.tp}: an open transaction of {whose} holds offset {first.offset}{more} since "
        f"{short_time(first.since_ms, now_ms)}: a member that starts gets no position there until it ends"
    )
