"""Open transactions: which producer holds back a last stable offset, and whether a coordinator still knows it.

The method is that of ``kafka-transactions.sh find-hanging`` (KIP-664). The partitions' leaders name the producers.
Then all brokers, as transaction coordinators, are asked for these producers. A coordinator silently omits
transactions that this user may not DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest

from kgroup.cluster.broker_errors import NO_LEADER, NONE, UNKNOWN_TOPIC_OR_PARTITION, topic_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.topics import TopicLayout
from kgroup.model.migration_facts import OpenTransaction
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

Found = dict[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]

_NO_LEADER = min(NO_LEADER)


async def open_transactions(
    client: CoordinatorClient,
    layouts: Mapping[str, TopicLayout | KgroupError],
    partitions: Iterable[TopicPartition],
    *,
    sees_all: bool = False,
) -> Found:
    """The open transactions of each partition, oldest first; an error if it could not be read (it needs READ).

    ``sees_all`` means that no transactional id is hidden from this user. Only then does a transaction that no
    coordinator shows count as unknown to all of them (``known`` False, otherwise None).
    """
    found = await _of_partitions(client, layouts, sorted(set(partitions)))
    producers = {one.producer_id for row in found.values() if not isinstance(row, KgroupError) for one in row}
    if not producers:
        return found
    told, all_heard = await _of_coordinators(client, sorted(producers))
    sure = sees_all and all_heard
    return {
        tp: row if isinstance(row, KgroupError) else tuple(_judged(one, told, sure=sure) for one in row)
        for tp, row in found.items()
    }


async def _of_partitions(
    client: CoordinatorClient, layouts: Mapping[str, TopicLayout | KgroupError], partitions: Sequence[TopicPartition]
) -> Found:
    found: Found = {}
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic, number in partitions:
        layout = layouts.get(topic)
        if isinstance(layout, KgroupError):
            found[TopicPartition(topic, number)] = layout
        elif layout is None or number not in layout.leaders:
            found[TopicPartition(topic, number)] = topic_error(UNKNOWN_TOPIC_OR_PARTITION, topic)
        elif (leader := layout.leaders[number]) is None:
            found[TopicPartition(topic, number)] = topic_error(_NO_LEADER, topic)
        else:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
    answers = await client.send_all([(leader, _request(topics)) for leader, topics in by_leader.items()])
    for (leader, topics), answer in zip(by_leader.items(), answers, strict=True):
        if isinstance(answer, BaseException):
            failure = client.failure(answer, leader)
            found |= {TopicPartition(topic, number): failure for topic, numbers in topics.items() for number in numbers}
        else:
            found |= dict(_rows(answer))
    return found


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
                    *tp, one.producer_id, one.producer_epoch, one.current_txn_start_offset, one.last_timestamp
                )
                for one in row.active_producers
                if one.current_txn_start_offset >= 0
            ]
            yield tp, tuple(sorted(opened, key=lambda one: one.start_offset))


@dataclass(frozen=True, slots=True)
class _Told:
    """A coordinator's facts about a producer. ``partitions`` None: the coordinator did not describe its transaction."""

    transactional_id: str
    began_ms: int | None
    places: frozenset[TopicPartition] | None


async def _of_coordinators(client: CoordinatorClient, producers: Sequence[int]) -> tuple[dict[int, _Told], bool]:
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
    told = {of: _Told(name, None, None) for named in ids.values() for name, of in named.items()}
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
                told[row.producer_id] = _Told(row.transactional_id, began if began >= 0 else None, partitions)
    return told, heard


def _judged(one: OpenTransaction, told: Mapping[int, _Told], *, sure: bool) -> OpenTransaction:
    """The transaction, completed with its coordinator's facts."""
    answer = told.get(one.producer_id)
    if answer is None:
        return replace(one, known=False if sure else None)
    known = None if answer.places is None else (one.topic, one.partition) in answer.places
    return replace(
        one,
        known=known,
        transactional_id=answer.transactional_id,
        began_ms=answer.began_ms if known else None,
    )
