"""Reading a million commits of `__consumer_offsets`, in its 50 partitions, against a plain consume loop.

The commits are made through the group coordinator, a fifth of them in one busy partition. Ours is
``Cluster.group_logs``, connected: from the question to the events. The peer is confluent-kafka's ``consume()`` of the
same partitions, each message's error, key and value looked at, from ``assign`` to the last one. One group's history out
of a partition is what ``history GROUP`` reads; every group's is the worst that can be asked for.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.snapshot import Cluster
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Hold, Measurement, of_rates
from tests.benchmarks.replaying import FOR_REPLAYS, broker
from tests.helpers.clusters import connected

PARTITIONS = 50
BUSY = 0
TOPIC = "bench"
COMMITTED = 200
"""Partitions of the topic that is committed to, all in one request."""

COMMITS = 10
"""How often each group commits."""

AT_ONCE = 100
"""Groups that commit at the same time."""

TIMEOUT_S = 600
HOLD = Hold(at_least=0.4)
TINY = {"records": 10_000, "runs": 1}


def measurements(records: int = 1_000_000, runs: int = 3, bootstrap: str = "") -> Iterator[Measurement]:
    """``records`` are commits in all; ``bootstrap`` is a broker that runs: commits are made where it has none."""
    gc.set_threshold(100_000, 50, 100)  # as the command line has it, for both
    started = broker({**FOR_REPLAYS, "offsets.topic.num.partitions": str(PARTITIONS)})
    with nullcontext(bootstrap) if bootstrap else started as address:
        groups = groups_for(records)
        if not _topic_is_there(address):
            commit(address, groups)
        logs = _logs(address)
        by_partition: dict[int, list[str]] = {}
        for group in groups:
            by_partition.setdefault(partition_of(group, PARTITIONS), []).append(group)
        one_each = [names[0] for names in by_partition.values()]
        cases: dict[str, tuple[list[str], Iterable[int]]] = {
            "one group out of a busy partition": (by_partition[BUSY][:1], [BUSY]),
            f"one group out of each of {PARTITIONS} partitions": (one_each, logs),
            "every group of the busy partition": (by_partition[BUSY], [BUSY]),
            f"every group of {PARTITIONS} partitions": (groups, logs),
        }
        for title, (names, numbers) in cases.items():
            yield _compare(address, title, names, {number: logs[number] for number in numbers}, runs)


def groups_for(records: int) -> list[str]:
    """Names of groups that make so many records: a fifth of them in the busy partition, the others evenly spread."""
    groups = records // (COMMITTED * COMMITS)
    left = Counter({number: max(1, groups * 4 // 5 // (PARTITIONS - 1)) for number in range(PARTITIONS)})
    left[BUSY] = max(1, groups // 5)
    found: list[str] = []
    for number in itertools.count():
        name = f"bench-{number:05d}"
        partition = partition_of(name, PARTITIONS)
        if left[partition] > 0:
            left[partition] -= 1
            found.append(name)
            if left.total() == 0:
                break
    return found


def commit(bootstrap: str, groups: Sequence[str]) -> None:
    """Let each group commit all partitions of the topic, again and again."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, COMMITTED, 1)])[TOPIC].result(60)
    for turn in range(COMMITS):
        for first in range(0, len(groups), AT_ONCE):
            places = [ClientPartition(TOPIC, number, turn * 1_000 + number) for number in range(COMMITTED)]
            _commit_once(admin, groups[first : first + AT_ONCE], places)


def _commit_once(admin: AdminClient, groups: Iterable[str], places: list[ClientPartition]) -> None:
    """Until all have: the coordinators of a new cluster need a moment."""
    left, until = list(groups), time.monotonic() + TIMEOUT_S
    while left:
        answers = [
            (name, future)
            for name in left
            for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, places)]).values()
        ]
        left = []
        for name, future in answers:
            try:
                if any(place.error for place in future.result(60).topic_partitions):
                    left.append(name)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                left.append(name)


def _topic_is_there(bootstrap: str) -> bool:
    return TOPIC in AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=30).topics


def _consumer(bootstrap: str) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    return Consumer({**settings, "isolation.level": "read_uncommitted"})


def _logs(bootstrap: str) -> dict[int, tuple[int, int]]:
    """[start, end) of each partition."""
    consumer = _consumer(bootstrap)
    try:
        return {n: consumer.get_watermark_offsets(ClientPartition(OFFSETS_TOPIC, n), 30) for n in range(PARTITIONS)}
    finally:
        consumer.close()


def _compare(
    bootstrap: str, title: str, groups: Sequence[str], logs: Mapping[int, tuple[int, int]], runs: int
) -> Measurement:
    total = sum(end - start for start, end in logs.values())
    with connected(bootstrap) as cluster:
        ours, peer = turns(runs, lambda: _ours(cluster, groups), lambda: _peer(bootstrap, logs, total))
    return of_rates(f"{title}, {total:,} records", total, ours, peer, HOLD)


def _ours(cluster: Cluster, groups: Sequence[str]) -> float:
    began = time.perf_counter()
    logs = cluster.group_logs(dict.fromkeys(groups), TIMEOUT_S)
    took_s = time.perf_counter() - began
    events = sum(len(log.events) for log in logs.logs.values())
    assert events >= len(groups) * COMMITTED * COMMITS, f"{events} events of {len(groups)} groups; {logs.unread}"
    return took_s


def _peer(bootstrap: str, logs: Mapping[int, tuple[int, int]], total: int) -> float:
    consumer = _consumer(bootstrap)
    began = time.perf_counter()
    consumer.assign([ClientPartition(OFFSETS_TOPIC, number, start) for number, (start, _) in logs.items()])
    seen = 0
    while seen < total:
        for message in consumer.consume(1_000, 30):
            assert message.error() is None, message.error()
            assert message.key() is not None
            assert message.value() is not None
            seen += 1
    took_s = time.perf_counter() - began
    consumer.close()
    return took_s
