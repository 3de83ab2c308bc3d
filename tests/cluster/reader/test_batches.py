"""Ranges read by batches on a real broker: all of each, one after the other through one client."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from confluent_kafka import Producer

from kgroup.catchup.sinks.formats import HashingFile, writer
from kgroup.catchup.worker import arrow
from kgroup.cluster.reader.batches import Batch, BatchReader
from kgroup.model.json_lines import json_line
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.support.errors import NotFound, Refused, Unreachable
from tests.helpers.catchup.replays import hurried_at_the_end, producer
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
TIMEOUT_S = 15.0


@pytest.fixture
def reader(bootstrap: str) -> Iterator[BatchReader]:
    with BatchReader({"bootstrap.servers": bootstrap, "log_level": "0"}, timeout_s=TIMEOUT_S) as reader:
        yield reader


@pytest.fixture
def log(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("orders"), partitions=2)


def read(reader: BatchReader, topic: str, partition: int, start: int, end: int) -> list[int]:
    """The offsets; that the last position is the end, and none goes back, is checked."""
    found, position = [], start
    for item in reader.batches(topic, partition, start, end):
        assert isinstance(item, Batch)
        assert position <= item.position <= end
        position = item.position
        found += item.offsets()
        assert not found or found[-1] < position
    assert position == max(start, end)
    return found


def transaction(writer: Producer, topic: str, count: int, *, commit: bool) -> None:
    writer.begin_transaction()
    for _ in range(count):
        writer.produce(topic, b"x", partition=0)
    assert writer.flush(30) == 0
    (writer.commit_transaction if commit else writer.abort_transaction)(30)


def test_ranges_one_after_the_other_and_across(reader: BatchReader, world: KafkaWorld, log: str) -> None:
    world.produce(log, 5000)
    world.produce(log, 300, partition=1)

    assert read(reader, log, 0, 0, 1500) == list(range(1500))
    assert read(reader, log, 0, 1500, 1501) == [1500]
    assert read(reader, log, 0, 1501, 1501) == []
    assert read(reader, log, 0, 1501, 5000) == list(range(1501, 5000))
    assert read(reader, log, 1, 100, 300) == list(range(100, 300))
    assert read(reader, log, 0, 10, 20) == list(range(10, 20))
    assert read(reader, log, 0, 4000, 5000) == list(range(4000, 5000))


@pytest.mark.soak
def test_wherever_it_jumps_and_leaves_it_begins_where_it_was_told_to(
    reader: BatchReader, world: KafkaWorld, log: str
) -> None:
    world.produce(log, 20_000, value=b"x" * 200)
    chance = random.Random(7)
    for _ in range(60):
        start = chance.randrange(0, 19_000)
        found: list[int] = []
        end, left = start + chance.choice([1, 50, 1000]), False
        for item in reader.batches(log, 0, start, end):
            assert isinstance(item, Batch)
            found += item.offsets()
            if left := chance.random() < 0.3:
                break
        assert found == list(range(start, start + len(found) if left else end))


@pytest.mark.soak
def test_all_around_control_records_and_aborted_ones(reader: BatchReader, bootstrap: str, log: str, name: Name) -> None:
    """0-2 committed (3), 4-6 aborted (7), 8-9 committed (10), 11-12 aborted (13): every range, every next one."""
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    for count, commit in ((3, True), (3, False), (2, True), (2, False)):
        transaction(writer, log, count, commit=commit)
    there = {0, 1, 2, 8, 9}

    for start in range(0, 14, 2):
        for middle in range(start, 15, 3):
            assert read(reader, log, 0, start, middle) == [n for n in range(start, middle) if n in there]
            assert read(reader, log, 0, middle, 14) == [n for n in range(middle, 14) if n in there]


@pytest.mark.soak
def test_ranges_that_are_fetched_at_once_are_read_as_one_by_one(
    reader: BatchReader, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    """Of partition p: 10 + p records, and p % 3: plain, an aborted transaction at the end, the first 5 deleted."""
    topic, partitions = world.topic(name("many"), partitions=24), range(24)
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    for partition in partitions:
        world.produce(topic, 10 + partition, partition=partition)
        if partition % 3 == 1:
            writer.begin_transaction()
            writer.produce(topic, b"x", partition=partition)
            assert writer.flush(30) == 0
            writer.abort_transaction(30)
        elif partition % 3 == 2:
            world.delete_records(topic, partition, 5)
    ends = [10 + partition + 2 * (partition % 3 == 1) for partition in partitions]

    reader.fetch_ahead([OffsetRange(topic, partition, 0, ends[partition]) for partition in partitions])
    found: dict[int, list[int]] = {partition: [] for partition in partitions}
    lost = []
    for partition in partitions:
        for item in reader.batches(topic, partition, 0, ends[partition]):
            if isinstance(item, LostOffsets):
                lost.append((partition, item.start, item.end))
            else:
                found[partition] += item.offsets()
        if partition == 16:
            assert read(reader, topic, partition, 8, 9) == [8], "a range that was not fetched, in between"

    assert lost == [(partition, 0, 5) for partition in partitions if partition % 3 == 2]
    assert found == {p: list(range(5 if p % 3 == 2 else 0, 10 + p)) for p in partitions}


@pytest.mark.soak
def test_more_than_may_be_kept_is_fetched_in_its_turn(reader: BatchReader, world: KafkaWorld, name: Name) -> None:
    topic, partitions = world.topic(name("large"), partitions=16), range(16)
    for partition in partitions:
        world.produce(topic, 5, partition=partition, value=b"x" * 900_000)

    reader.fetch_ahead([OffsetRange(topic, partition, 0, 5) for partition in partitions])

    assert [read(reader, topic, partition, 0, 5) for partition in partitions] == [list(range(5))] * 16


def test_after_the_end_of_the_log_comes_what_was_written_since(
    reader: BatchReader, world: KafkaWorld, bootstrap: str, log: str, name: Name
) -> None:
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    transaction(writer, log, 3, commit=False)
    assert read(reader, log, 0, 0, 2) == []
    assert read(reader, log, 0, 2, 4) == []
    world.produce(log, 3)

    assert read(reader, log, 0, 4, 6) == [4, 5]
    assert read(reader, log, 0, 6, 7) == [6]


def test_what_is_gone_is_told_exactly(reader: BatchReader, world: KafkaWorld, log: str) -> None:
    world.produce(log, 30)
    world.delete_records(log, 0, 20)

    items = list(reader.batches(log, 0, 5, 30))
    (gone,) = [item for item in items if isinstance(item, LostOffsets)]
    assert (gone.start, gone.end) == (5, 20)
    assert [offset for item in items if isinstance(item, Batch) for offset in item.offsets()] == list(range(20, 30))
    (whole,) = [item for item in reader.batches(log, 0, 5, 15) if isinstance(item, LostOffsets)]
    assert (whole.start, whole.end) == (5, 15)
    assert read(reader, log, 0, 25, 30) == list(range(25, 30))
    world.delete_records(log, 0, 30)
    (all_of_it,) = [item for item in reader.batches(log, 0, 0, 30) if isinstance(item, LostOffsets)]
    assert (all_of_it.start, all_of_it.end) == (0, 30)


def test_what_is_not_there_is_named(reader: BatchReader, world: KafkaWorld, log: str, name: Name) -> None:
    for topic, partition in ((name("nowhere"), 0), (log, 7)):
        with pytest.raises(NotFound):
            list(reader.batches(topic, partition, 0, 1))


def test_a_log_that_ends_before_is_named(reader: BatchReader, world: KafkaWorld, log: str) -> None:
    world.produce(log, 5)
    with hurried_at_the_end(), pytest.raises(Refused) as caught:
        read(reader, log, 0, 0, 9)
    assert caught.value.code == "beyond-log-end"


def test_a_start_behind_the_end_is_named(reader: BatchReader, world: KafkaWorld, log: str) -> None:
    world.produce(log, 5)
    with pytest.raises(Refused) as caught:
        read(reader, log, 0, 7, 9)
    assert caught.value.code == "beyond-log-end"


def test_no_broker_is_named() -> None:
    with (
        BatchReader({"bootstrap.servers": "127.0.0.1:9", "log_level": "0"}, timeout_s=0.5) as reader,
        pytest.raises(Unreachable),
    ):
        list(reader.batches("orders", 0, 0, 1))


def test_an_idle_reader_hands_on_empty_batches(reader: BatchReader, bootstrap: str, log: str, name: Name) -> None:
    """So that whoever has a transaction open can end it in time."""
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(log, b"open", partition=0)
    assert writer.flush(30) == 0
    empty: list[Batch | LostOffsets] = []
    with hurried_at_the_end(items=4), pytest.raises(Refused) as caught:
        empty.extend(reader.batches(log, 0, 0, 1))
    assert len(empty) > 3
    assert all(isinstance(item, Batch) and not len(item) for item in empty)
    assert caught.value.code == "open-transaction"
    writer.abort_transaction(30)


def test_parts_of_a_batch_have_their_own_positions(reader: BatchReader, world: KafkaWorld, log: str) -> None:
    world.produce(log, 100)
    batch = max(reader.batches(log, 0, 0, 100), key=lambda item: len(item) if isinstance(item, Batch) else 0)
    assert isinstance(batch, Batch)
    half = len(batch) // 2
    first, rest = batch.part(0, half), batch.part(half, len(batch))

    assert (len(first), first.position) == (half, rest.offsets()[0])
    assert rest.position == batch.position
    assert first.offsets() + rest.offsets() == batch.offsets()
    assert first.size() + rest.size() == batch.size()
    assert batch.part(0, 0).position == batch.offsets()[0]
    assert batch.part(0, 1000) is batch


SHAPES: list[tuple[Any, Any, Any]] = [
    (b"k", b"v", None),
    (None, b"v", [("a", b"1"), ("a", None)]),
    (b"", None, [("\u00fc", b"")]),
    (None, None, None),
]


@pytest.mark.parametrize("rows", [SHAPES, SHAPES[:1] * 5, []])
def test_batches_as_arrow_and_as_lines(
    reader: BatchReader, bootstrap: str, world: KafkaWorld, log: str, rows: list[tuple[Any, Any, Any]]
) -> None:
    plain = producer(bootstrap)
    for key, value, headers in rows:
        plain.produce(log, value, key, 1, headers=headers, timestamp=1_700_000_000_123)
    assert plain.flush(30) == 0

    batches = [arrow.record_batch(item) for item in reader.batches(log, 1, 0, len(rows)) if isinstance(item, Batch)]

    found = [row for batch in batches for row in batch.to_pylist()]
    for item in reader.batches(log, 1, 0, len(rows)):
        assert isinstance(item, Batch)
        written = BytesIO()
        with writer(HashingFile(written), {"format": "json"}) as lines:
            assert lines.add(item) == len(item)
        assert written.getvalue() == b"".join(map(json_line, item.records()))
    assert all(batch.schema.equals(arrow.schema()) for batch in batches)
    assert all(batch.validate(full=True) is None for batch in batches)
    assert [(row["key"], row["value"], row["offset"]) for row in found] == [
        (key, value, offset) for offset, (key, value, _) in enumerate(rows)
    ]
    assert [
        None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]] for row in found
    ] == [headers for _, _, headers in rows]
    assert all(row["topic"] == log and row["partition"] == 1 and row["timestampType"] == 0 for row in found)
    assert all(row["timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00" for row in found)


def test_the_broker_s_own_times_say_so(reader: BatchReader, world: KafkaWorld, bootstrap: str, name: Name) -> None:
    topic = world.topic(name("by-arrival"), config={"message.timestamp.type": "LogAppendTime"})
    world.produce_at(topic, 0, [1_000])

    rows = [
        row
        for item in reader.batches(topic, 0, 0, 1)
        if isinstance(item, Batch)
        for row in arrow.record_batch(item).to_pylist()
    ]

    assert rows[0]["timestampType"] == 1
    assert rows[0]["timestamp"].year > 2020
    assert rows[0]["headers"] is None
