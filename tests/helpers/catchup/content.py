"""A gap with all that a log can hold, and what independent readers find of it in its copies."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kgroup.model.topic_partition import TopicPartition
from tests.helpers.json_bytes import as_bytes
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Spans = Mapping[TopicPartition, tuple[int, int]]
Header = tuple[str, bytes | None]
Found = dict[tuple[str, int, int], bytes]
"""A digest of each record, by topic, partition and offset."""

PARTITIONS = 8
_LARGE = 1_048_000
_WIDE = {"max.message.bytes": "3000000"}
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.0",
    "max.compaction.lag.ms": "50",
    "delete.retention.ms": "3600000",  # tombstones stay
}
_KEYS = 20
_HEADERS: tuple[list[Header] | None, ...] = (
    None,
    None,
    [("trace", b"1")],
    [("again", b"1"), ("again", b"2"), ("again", None)],
    [("null", None)],
    [("empty", b""), ("\u00fc", b"\xff\x00")],
    [],
)


@dataclass(frozen=True)
class Gap:
    """A crashed group, and the topics that it read; ``target`` is one that takes all of them."""

    group: str
    topics: tuple[str, ...]
    target: str


@contextmanager
def everything(world: KafkaWorld, name: Callable[[str], str], records: int) -> Iterator[Gap]:
    """So many records over 8 partitions, in transactions that were committed, aborted, or left open while the block
    runs; beside them a compacted topic with holes, and one that gives records its own time.
    """
    orders = world.topic(name("orders"), PARTITIONS, _WIDE)
    state = world.topic(name("state"), 1, _COMPACTED)
    events = world.topic(name("events"), 2, {"message.timestamp.type": "LogAppendTime"})
    target, group = world.topic(name("copy"), PARTITIONS, _WIDE), name("svc")
    _compacted(world, state)
    plain = _producer(world)
    for number in range(records // 20):
        plain.produce(events, *_content(number), partition=number % 2, headers=_HEADERS[number % 7])
    assert plain.flush(60) == 0
    _transactions(world, orders, name("writer"), records)
    world.commit(
        group,
        {**{(orders, p): 3 + p for p in range(PARTITIONS)}, (state, 0): 1, (events, 0): 2, (events, 1): 0},
    )
    hanging = _producer(world, **{"transactional.id": name("hangs"), "transaction.timeout.ms": 900_000})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(orders, b"never committed", partition=PARTITIONS - 1)
    assert hanging.flush(30) == 0
    world.produce(orders, 5, PARTITIONS - 1)  # behind it, so that they are not of the gap
    try:
        yield Gap(group, (orders, state, events), target)
    finally:
        with suppress(KafkaException):
            hanging.abort_transaction(30)


def _producer(world: KafkaWorld, **more: Any) -> Producer:
    usual = {"bootstrap.servers": world.bootstrap, "linger.ms": 5, "message.max.bytes": 3_000_000, "log_level": 0}
    return Producer({**usual, "queue.buffering.max.messages": 1_000_000, **more})


def _content(number: int) -> tuple[bytes | None, bytes | None]:
    """(value, key): each of both is missing now and then, or empty, or no text."""
    value = None if number % 11 == 0 else b"" if number % 13 == 0 else b"%d-\xff\x00" % number
    key = None if number % 5 == 0 else b"" if number % 17 == 0 else b"k%d" % (number % 97)
    return value, key


def _transactions(world: KafkaWorld, topic: str, writer: str, records: int) -> None:
    """Each partition has as many; a fifth of its transactions is aborted, and a tenth of its records is in none."""
    chance, now_ms = random.Random(6), round(time.time() * 1000)
    producers = [_producer(world, **{"transactional.id": writer}), _producer(world)]
    transactional, plain = producers
    transactional.init_transactions(30)
    each, size = records // PARTITIONS, max(50, records // PARTITIONS // 40)
    for begun in range(0, each, size):
        number_of = begun // size
        is_plain = number_of % 10 == 9
        if not is_plain:
            transactional.begin_transaction()
        producer = plain if is_plain else transactional
        for partition in range(PARTITIONS):
            for number in range(begun, min(begun + size, each)):
                value, key = _content(number * PARTITIONS + partition)
                timestamp = now_ms - chance.randrange(3_600_000)  # in no order
                headers = _HEADERS[chance.randrange(len(_HEADERS))]
                producer.produce(topic, value, key, partition, headers=headers, timestamp=timestamp)
                if number % 5_000 == 0:
                    producer.poll(0)
        if number_of % 10 == 1:
            producer.produce(topic, chance.randbytes(_LARGE), b"large", number_of % PARTITIONS)
        assert producer.flush(120) == 0
        if not is_plain:
            (transactional.abort_transaction if number_of % 5 == 2 else transactional.commit_transaction)(60)


def _compacted(world: KafkaWorld, topic: str) -> None:
    """Of each key the newest is left, one of them a tombstone, when this returns."""
    plain = _producer(world)
    for number in range(10 * _KEYS):
        value = None if number == 10 * _KEYS - 7 else b"%d" % number
        plain.produce(topic, value, b"k%d" % (number % _KEYS))
        if number % _KEYS == 0:
            assert plain.flush(30) == 0
    assert plain.flush(30) == 0

    def is_done() -> bool:
        plain.produce(topic, b"new", b"segment")  # an active segment is not compacted
        plain.flush(30)
        return len(read(world, {TopicPartition(topic, 0): (0, 10 * _KEYS)})) == _KEYS

    wait_for(is_done, f"compaction of {topic}", 60)


def digest(
    key: bytes | None, value: bytes | None, headers: Iterable[Header], timestamp_ms: int, kind: int | None = None
) -> bytes:
    """Of a whole record; ``kind`` is 0 for its own time and 1 for the broker's, None where that is not kept."""
    return blake2b(repr((key, value, list(headers), timestamp_ms, kind)).encode(), digest_size=12).digest()


def read(world: KafkaWorld, spans: Spans, *, kind: bool = False) -> Found:
    """What is committed of these offsets, by a plain consumer."""
    found: Found = {}
    for message in _messages(world, spans):
        where = (str(message.topic()), int(message.partition()), int(message.offset()))
        start, end = spans[TopicPartition(*where[:2])]
        if start <= where[2] < end:
            type_, timestamp_ms = message.timestamp()
            found[where] = digest(
                message.key(), message.value(), message.headers() or (), timestamp_ms, type_ - 1 if kind else None
            )
    return found


def _messages(world: KafkaWorld, spans: Spans) -> Iterator[Message]:
    """All that is committed from each start to the end of the log; whoever asks takes what is below its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.assign([ClientPartition(*place, start) for place, (start, _) in spans.items()])
        left = set(spans)
        until = time.monotonic() + 300
        while left:
            assert time.monotonic() < until, f"nothing more of {left}"
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    yield message
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


@dataclass(frozen=True)
class Copies:
    """A copy in a topic: what it holds by its source, and in which order a partition's records stand."""

    found: Found
    times: int
    plans: frozenset[bytes | None]
    moved: int
    disordered: int


def copied_whole(world: KafkaWorld, topic: str) -> Copies:
    """All of a target; without the headers that kgroup adds, a record is what it was."""
    found: Found = {}
    times, moved, disordered, plans = 0, 0, 0, set()
    newest: dict[tuple[str, int, int], int] = {}
    for message in _messages(world, {TopicPartition(topic, partition): (0, 0) for partition in range(PARTITIONS)}):
        headers = message.headers() or []
        own = [one for one in headers if not one[0].startswith("kgroup.")]
        added = {one[0]: one[1] for one in headers[len(own) :]}
        source, partition, offset = added["kgroup.source"].decode().rsplit(":", 2)
        plans.add(added["kgroup.plan"])
        where = (source, int(partition), int(offset))
        found[where] = digest(message.key(), message.value(), own, message.timestamp()[1])
        times += 1
        moved += message.partition() != where[1]
        order = (*where[:2], message.partition())
        disordered += newest.get(order, -1) >= where[2]
        newest[order] = where[2]
    return Copies(found, times, frozenset(plans), moved, disordered)


def in_json(directory: Path) -> tuple[Found, int]:
    """What the files of a plan hold, and how many lines."""

    found, number = Found(), 0
    for path in _files(directory, "json"):
        with path.open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                headers = [(one["key"], as_bytes(one["value"])) for one in row["headers"]]
                where = (row["topic"], row["partition"], row["offset"])
                found[where] = digest(as_bytes(row["key"]), as_bytes(row["value"]), headers, row["timestamp_ms"])
                number += 1
    return found, number


def in_parquet(directory: Path) -> tuple[Found, int]:
    """What the files of a plan hold, and how many rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    found, number = Found(), 0
    for path in _files(directory, "parquet"):
        for batch in parquet.ParquetFile(path).iter_batches(20_000):
            micros = batch.column("timestamp").cast(pa.int64()).to_pylist()
            for row, micro in zip(batch.to_pylist(), micros, strict=True):
                headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
                where = (row["topic"], row["partition"], row["offset"])
                found[where] = digest(row["key"], row["value"], headers, micro // 1000, row["timestampType"])
                number += 1
    return found, number


def _files(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.rglob(f"*.{suffix}") if path.name[0] not in "_.")
