"""When the first unread record of a partition was written: batches of all kinds, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Producer
from kafka.codec import has_lz4, has_snappy, has_zstd

from kgroup.cluster.snapshot import Cluster
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
START_MS = 1_700_000_000_000


def produce(bootstrap: str, topic: str, count: int, size: int = 1, partition: int = 0, **settings: object) -> None:
    """One batch of records, a second apart from START_MS on."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 200, "batch.num.messages": count, **dotted})
    if "transactional_id" in settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"x" * size, partition=partition, timestamp=START_MS + number * 1000)
    assert producer.flush(30) == 0
    if "transactional_id" in settings:
        producer.commit_transaction(30)


def times(
    cluster: Cluster, ranges: Mapping[TopicPartition, LogRange]
) -> dict[TopicPartition, int | KgroupError | None]:
    answers = cluster.first_timestamps(cluster.layouts({tp.topic for tp in ranges}), ranges.items())
    return {tp: at_ms for (tp, _), at_ms in answers.items()}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, world: KafkaWorld, cluster: Cluster, name: Name, codec: str) -> None:
    """A batch that kgroup's dependencies cannot unpack tells the time of its first record."""
    unpacked = {"none": True, "gzip": True, "snappy": has_snappy(), "lz4": has_lz4(), "zstd": has_zstd()}[codec]
    topic = world.topic(name("orders"), partitions=2)
    produce(bootstrap, topic, 10, size=200, compression_type=codec)
    for position in (0, 4, 9):
        told = times(cluster, {TopicPartition(topic, 0): LogRange(position, 10)})[TopicPartition(topic, 0)]
        exact = START_MS + position * 1000
        assert told == (exact if unpacked else START_MS)


def test_broker_time(bootstrap: str, world: KafkaWorld, cluster: Cluster, name: Name) -> None:
    topic = world.topic(name("orders"), config={"message.timestamp.type": "LogAppendTime"})
    for codec in ("none", "zstd"):
        produce(bootstrap, topic, 2, size=200, compression_type=codec)
    for position in (0, 2):
        told = times(cluster, {TopicPartition(topic, 0): LogRange(position, 4)})[TopicPartition(topic, 0)]
        assert isinstance(told, int)
        assert abs(told - time.time() * 1000) < 60_000


def test_large_first_records(bootstrap: str, world: KafkaWorld, cluster: Cluster, name: Name) -> None:
    """A broker gives nothing of a batch that is longer than what was asked for: those are asked for alone."""
    topic = world.topic(name("orders"), partitions=4)
    for partition in range(4):
        produce(bootstrap, topic, 1, size=300_000, partition=partition)
    wanted = {TopicPartition(topic, partition): LogRange(0, 1) for partition in range(4)}
    assert times(cluster, wanted) == dict.fromkeys(wanted, START_MS)


def test_transaction_markers_are_no_records(bootstrap: str, world: KafkaWorld, cluster: Cluster, name: Name) -> None:
    topic = world.topic(name("orders"))
    for _ in range(2):
        produce(bootstrap, topic, 3, transactional_id=name("tx"))
    wait_for(lambda: world.end(topic) == 8, "the last marker, which is written behind the answer")
    ranges = {7: None, 3: START_MS, 2: START_MS + 2000}
    for position, expected in ranges.items():
        told = times(cluster, {TopicPartition(topic, 0): LogRange(position, 8)})
        assert told == {(topic, 0): expected}


def test_what_cannot_be_read(world: KafkaWorld, cluster: Cluster, name: Name) -> None:
    topic, absent = world.topic(name("orders")), name("absent")
    world.produce(topic, 3)
    told = times(
        cluster,
        {
            TopicPartition(topic, 0): LogRange(0, 3),
            TopicPartition(topic, 7): LogRange(0, 3),
            TopicPartition(absent, 0): LogRange(0, 3),
        },
    )
    assert isinstance(told[TopicPartition(topic, 0)], int)
    assert isinstance(told[TopicPartition(topic, 7)], KgroupError)
    assert isinstance(told[TopicPartition(absent, 0)], KgroupError)
    # The log has moved on: no record at that position any more.
    world.delete_records(topic, 0, 2)
    assert isinstance(times(cluster, {TopicPartition(topic, 0): LogRange(0, 3)})[TopicPartition(topic, 0)], KgroupError)
    assert times(cluster, {}) == {}
