"""Open transactions: which producer holds back a last stable offset, and whether a coordinator still knows it.

The method is that of ``kafka-transactions.sh find-hanging`` (KIP-664). The partitions' leaders name the producers.
Then all brokers, as transaction coordinators, are asked for these producers. A coordinator silently omits
transactions that this user may not DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from msgspec.structs import replace

from kgroup.cluster.broker_errors import NO_LEADER, NONE, topic_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.topics import Layouts, leader_of
from kgroup.model.migration_facts import OpenTransaction
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

OpenTransactions = dict[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]

_NO_LEADER = min(NO_LEADER)


async def open_transactions(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition], *, all_ids_visible: bool = False
) -> OpenTransactions:
    """The open transactions of each partition, oldest first; an error if it could not be read (it needs READ).

    ``all_ids_visible`` means that no transactional id is hidden from this user. Only then does a transaction that no
    coordinator shows count as unknown to all of them (``known`` False, otherwise None).
    """
    transactions = await _of_partitions(client, layouts, sorted(set(partitions)))
    producers = {
        transaction.producer_id
        for row in transactions.values()
        if not isinstance(row, KgroupError)
        for transaction in row
    }
    if not producers:
        return transactions
    facts_of, all_heard = await _of_coordinators(client, sorted(producers))
    complete = all_ids_visible and all_heard
    return {
        tp: row
        if isinstance(row, KgroupError)
        else tuple(_with_facts(transaction, facts_of, complete=complete) for transaction in row)
        for tp, row in transactions.items()
    }


async def _of_partitions(
    client: CoordinatorClient, layouts: Layouts, partitions: Sequence[TopicPartition]
) -> OpenTransactions:
    transactions: OpenTransactions = {}
    by_leader: dict[int, dict[str, list[int]]] = {}
    for tp in partitions:
        leader = leader_of(layouts, tp)
        if isinstance(leader, KgroupError):
            transactions[tp] = leader
        elif leader is None:
            transactions[tp] = topic_error(_NO_LEADER, tp.topic)
        else:
            by_leader.setdefault(leader, {}).setdefault(tp.topic, []).append(tp.partition)
    answers = await client.send_all([(leader, _request(topics)) for leader, topics in by_leader.items()])
    for (leader, topics), answer in zip(by_leader.items(), answers, strict=True):
        if isinstance(answer, BaseException):
            failure = client.failure(answer, leader)
            transactions |= {
                TopicPartition(topic, number): failure for topic, numbers in topics.items() for number in numbers
            }
        else:
            transactions |= dict(_rows(answer))
    return transactions


def _request(topics: Mapping[str, list[int]]) -> Any:
    row = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(topics=[row(name=name, partition_indexes=rows) for name, rows in topics.items()])


def _rows(answer: Any) -> Iterator[tuple[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]]:
    for topic in answer.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            if row.error_code != NONE:
                yield tp, topic_error(row.error_code, topic.name, operation="Read")
                continue
            opened = [
                OpenTransaction(
                    *tp,
                    transaction.producer_id,
                    transaction.producer_epoch,
                    transaction.current_txn_start_offset,
                    transaction.last_timestamp,
                )
                for transaction in row.active_producers
                if transaction.current_txn_start_offset >= 0
            ]
            yield tp, tuple(sorted(opened, key=lambda transaction: transaction.start_offset))


class _CoordinatorFacts(msgspec.Struct, frozen=True):
    """A coordinator's facts about a producer. ``partitions`` None: the coordinator did not describe its transaction."""

    transactional_id: str
    began_ms: int | None
    partitions: frozenset[TopicPartition] | None


async def _of_coordinators(
    client: CoordinatorClient, producers: Sequence[int]
) -> tuple[dict[int, _CoordinatorFacts], bool]:
    """(facts by producer id, whether every broker answered)."""
    nodes = sorted(client.brokers)
    listing = ListTransactionsRequest(state_filters=[], producer_id_filters=list(producers), max_version=0)
    answers = await client.send_all([(node, listing) for node in nodes])
    heard, ids = True, dict[int, dict[str, int]]()
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, BaseException) or answer.error_code != NONE:
            heard = False
            continue
        for row in answer.transaction_states:
            ids.setdefault(node, {})[row.transactional_id] = row.producer_id
    facts_of = {of: _CoordinatorFacts(name, None, None) for named in ids.values() for name, of in named.items()}
    described = await client.send_all(
        [(node, DescribeTransactionsRequest(transactional_ids=list(named))) for node, named in ids.items()]
    )
    for answer in described:
        for row in () if isinstance(answer, BaseException) else answer.transaction_states:
            if row.error_code == NONE:
                partitions = frozenset(
                    TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions
                )
                began = row.transaction_start_time_ms
                facts_of[row.producer_id] = _CoordinatorFacts(
                    row.transactional_id, began if began >= 0 else None, partitions
                )
    return facts_of, heard


def _with_facts(
    transaction: OpenTransaction, facts_of: Mapping[int, _CoordinatorFacts], *, complete: bool
) -> OpenTransaction:
    """The transaction, completed with its coordinator's facts."""
    answer = facts_of.get(transaction.producer_id)
    if answer is None:
        return replace(transaction, known=False if complete else None)
    known = None if answer.partitions is None else (transaction.topic, transaction.partition) in answer.partitions
    return replace(
        transaction,
        known=known,
        transactional_id=answer.transactional_id,
        began_ms=answer.began_ms if known else None,
    )
