"""Copying to a topic on a real broker: exactly once, every shape of a record kept, whatever the log is like."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.sinks.run_task import run_task
from kgroup.catchup.spark.filtered_reader import FilteredReader
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.catchup.worker.task_spec import TransactionBounds
from kgroup.cluster.reader.batches import Batch
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import Order, PlanState
from kgroup.model.records import LostOffsets
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused, UsageError
from tests.catchup.spark.test_filtered_reader import batch, rows
from tests.helpers.catchup import handler_functions
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.catchup.replays import Replay, hurried_at_the_end, producer, seen, sources
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Make = Callable[..., Replay]


@pytest.fixture
def target(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("copy"), partitions=2)


@pytest.fixture
def eager_cleaner(bootstrap: str) -> Iterator[None]:
    """The broker looks for what to compact all the time."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def every_ms(value: str | None) -> None:
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("log.cleaner.backoff.ms", value or "", incremental_operation=kind)
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([broker])[broker].result(30)

    every_ms("50")
    yield
    every_ms(None)


SHAPES: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]] = [
    (b"k", b"v", None, 1_700_000_000_001),
    (None, b"no key", None, 1_700_000_000_002),
    (b"tombstone", None, None, 1_700_000_000_003),
    (None, None, None, 1_700_000_000_004),
    (b"", b"", None, 1_700_000_000_005),
    (
        b"h",
        b"v",
        [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b""), ("\u00fc", b"\xff\x00")],
        1_600_000_000_000,
    ),
    (b"\xff\xfe", bytes(range(256)), [("only", None)], 1),
    (b"large", b"x" * 900_000, None, 1_700_000_000_006),
]


def produce_shapes(bootstrap: str, topic: str) -> None:
    plain = producer(bootstrap)
    for key, value, headers, timestamp_ms in SHAPES:
        plain.produce(topic, value, key, 1, headers=headers, timestamp=timestamp_ms)
    assert plain.flush(30) == 0


def test_every_shape_of_a_record_arrives_as_it_was(make: Make, bootstrap: str, source: str, target: str) -> None:
    produce_shapes(bootstrap, source)
    plan = make((source, 1, 0, len(SHAPES)))

    result = plan.run("topic", {"topic": target})

    found = seen(bootstrap, target)
    assert [(one.partition, one.key, one.value, list(one.own) or None, one.timestamp_ms) for one in found] == [
        (1, *shape) for shape in SHAPES
    ]
    assert sources(found) == [f"{source}:1:{offset}" for offset in range(len(SHAPES))]
    assert {one.header("kgroup.plan") for one in found} == {plan.runner.plan_id}
    assert result.finished
    assert not result.interrupted
    assert plan.proof(result).complete
    (progress,) = result.progress
    assert (progress.records, progress.may_repeat) == (len(SHAPES), 0)
    assert progress.size == sum(len(key or b"") + len(value or b"") for key, value, _, _ in SHAPES)


def test_what_may_have_been_handled_already_says_so(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 10)
    plan = make((source, 0, 2, 5), (source, 0, 5, 10))

    plan.run("topic", {"topic": target}, maybe_processed={TopicPartition(source, 0): 6, TopicPartition(source, 1): 9})

    found = seen(bootstrap, target)
    assert [one.header("kgroup.maybe-processed") for one in found] == ["true"] * 4 + [None] * 4


def test_a_position_is_committed_though_nothing_was_wanted(
    make: Make, world: KafkaWorld, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all that was read would be kept for another try."""
    world.produce(source, 10)
    plan = make((source, 0, 0, 10))
    (chunk,) = plan.chunks
    found = [{**one, "topic": source, "_chunk": chunk.number} for one in rows(4, 0, 6)]
    spec = plan.spec("topic", {"topic": target}, bounds=TransactionBounds(seconds=0))
    reader = FilteredReader((batch(*found),), (chunk,), spec.config, timeout_s=15, again=True)

    with pytest.raises(KgroupError, match="ended before"):
        run_task(spec, reader)

    (progress,) = plan.progress().values()
    assert (progress.delivered_to, progress.records, progress.filtered) == (6, 6, 6)


@pytest.mark.parametrize(
    ("targets", "options", "kept"),
    [
        (2, {}, True),
        (3, {}, True),
        (1, {}, False),
        (3, {"partitions": "key"}, False),
        (2, {"partitions": "keep"}, True),
    ],
)
def test_a_record_stays_in_its_partition_where_the_target_has_as_many(
    make: Make,
    world: KafkaWorld,
    bootstrap: str,
    source: str,
    name: Name,
    targets: int,
    options: dict[str, str],
    kept: bool,
) -> None:
    """Else it goes where its key would go."""
    copy = world.topic(name("copy"), partitions=targets)
    plain = producer(bootstrap, partitioner="murmur2_random")
    for number in range(60):
        plain.produce(source, b"v", b"%d" % number, partition=1)
    assert plain.flush(30) == 0
    by_key = world.topic(name("by-key"), partitions=targets)
    for number in range(60):
        plain.produce(by_key, b"v", b"%d" % number)
    assert plain.flush(30) == 0
    plan = make((source, 1, 0, 60))

    plan.run("topic", {"topic": copy, **options})

    found = {one.key: one.partition for one in seen(bootstrap, copy)}
    expected = {one.key: 1 if kept else one.partition for one in seen(bootstrap, by_key)}
    assert found == expected


def test_times_can_be_those_of_the_copy(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce_at(source, 0, [1_000, 2_000])
    plan = make((source, 0, 0, 2))

    plan.run("topic", {"topic": target, "timestamps": "now"})

    assert all(one.timestamp_ms > 1_700_000_000_000 for one in seen(bootstrap, target))


def transaction(producer: Producer, topic: str, count: int, *, commit: bool, partition: int = 0) -> None:
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def test_aborted_transactions_are_passed_over_wherever_chunks_end(
    make: Make, bootstrap: str, source: str, target: str, name: Name
) -> None:
    """0-9 committed (10 control), 11-15 aborted (16), 17-19 committed (20), 21-26 aborted (27)."""
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    for count, commit in ((10, True), (5, False), (3, True), (6, False)):
        transaction(writer, source, count, commit=commit)
    plan = make((source, 0, 0, 4), (source, 0, 4, 13), (source, 0, 13, 16), (source, 0, 16, 20), (source, 0, 20, 28))

    result = plan.run("topic", {"topic": target})

    assert sources(seen(bootstrap, target)) == [f"{source}:0:{n}" for n in (*range(10), *range(17, 20))]
    assert [progress.records for progress in result.progress] == [4, 6, 0, 3, 0]
    assert plan.proof(result).complete


def test_an_open_transaction_below_the_end_is_waited_for_so_long_and_then_named(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str, name: Name
) -> None:
    world.produce(source, 3)
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(source, b"open", partition=0)
    assert writer.flush(30) == 0
    world.produce(source, 2)
    plan = make((source, 0, 0, 6))

    with hurried_at_the_end(), pytest.raises(Refused) as caught:
        plan.run("topic", {"topic": target})
    assert caught.value.code == "open-transaction"
    writer.commit_transaction(30)
    result = plan.run("topic", {"topic": target})

    assert sources(seen(bootstrap, target)) == [f"{source}:0:{n}" for n in range(6)]
    assert plan.proof(result).complete


@pytest.mark.soak
def test_compacted_holes_are_no_loss(
    make: Make, world: KafkaWorld, bootstrap: str, name: Name, target: str, eager_cleaner: None
) -> None:
    policy = {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.0",
        "max.compaction.lag.ms": "50",
        "delete.retention.ms": "0",
    }
    log = world.topic(name("compacted"), config=policy)
    plain = producer(bootstrap)
    for number in range(40):
        plain.produce(log, b"%d" % number, b"k%d" % (number % 3))
        plain.flush(30)

    def left() -> list[int]:
        plain.produce(log, b"new", b"segment")
        plain.flush(30)
        return [one.offset for one in seen(bootstrap, log) if one.offset < 40]

    expected = [37, 38, 39]  # what is left in the end: fewer passes of the cleaner leave more
    wait_for(lambda: left() == expected, "compaction", 60)
    plan = make((log, 0, 0, 12), (log, 0, 12, 39), (log, 0, 39, 40))

    result = plan.run("topic", {"topic": target})

    assert sources(seen(bootstrap, target)) == [f"{log}:0:{offset}" for offset in expected]
    assert plan.proof(result).complete


def test_what_retention_took_is_lost_exactly_and_the_rest_goes_on(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 30)
    world.delete_records(source, 0, 17)
    plan = make((source, 0, 0, 10), (source, 0, 10, 20), (source, 0, 20, 30))

    result = plan.run("topic", {"topic": target})

    why = "the log start had passed them: it was 17"
    assert [progress.lost for progress in result.progress] == [
        (LostOffsets(0, 10, why),),
        (LostOffsets(10, 17, why),),
        (),
    ]
    assert sources(seen(bootstrap, target)) == [f"{source}:0:{n}" for n in range(17, 30)]
    assert result.finished
    proof = plan.proof(result)
    assert not proof.complete
    assert [(lost.start, lost.end) for lost in proof.lost] == [(0, 17)]


def test_the_log_start_overtakes_in_the_middle(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    """What the client had fetched by then is delivered; what it had not is lost, and nothing is in neither."""
    world.produce(source, 3000, value=b"x" * 20_000)
    plan = make((source, 0, 0, 3000))
    config = {"bootstrap.servers": bootstrap, "queued.max.messages.kbytes": 1024, "fetch.message.max.bytes": 200_000}
    stop_at = iter([True])

    def overtaken() -> bool:
        if plan.records() > 300 and next(stop_at, False):
            world.delete_records(source, 0, 2500)
        return False

    result = plan.run("topic", {"topic": target}, overtaken, config=config, rate=RateLimit(records_per_s=1500))

    (progress,) = result.progress
    (lost,) = progress.lost
    assert lost.end == 2500
    assert lost.start > 0
    expected = [f"{source}:0:{n}" for n in (*range(lost.start), *range(2500, 3000))]
    assert sources(seen(bootstrap, target)) == expected
    assert progress.records == len(expected)


def test_a_log_that_ends_too_early_is_named(make: Make, world: KafkaWorld, source: str, target: str) -> None:
    world.produce(source, 5)
    plan = make((source, 0, 0, 9))

    with hurried_at_the_end(), pytest.raises(Refused) as caught:
        plan.run("topic", {"topic": target})

    assert caught.value.code == "beyond-log-end"
    assert plan.progress() == {}


@pytest.mark.soak
@pytest.mark.parametrize(
    "bounds", [TransactionBounds(records=7), TransactionBounds(size=150), TransactionBounds(seconds=0.0)]
)
def test_transactions_end_at_their_bounds(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str, bounds: TransactionBounds
) -> None:
    world.produce(source, 100, value=b"x" * 30)
    plan = make((source, 0, 0, 50), (source, 0, 50, 100))

    result = plan.run("topic", {"topic": target}, bounds=bounds, rate=RateLimit(records_per_s=80))

    found = seen(bootstrap, target)
    assert len(found) == 100
    transactions = found[-1].offset + 1 - 100  # each leaves a control record, but for the last one
    assert transactions >= 4
    assert plan.proof(result).complete


def test_chunks_share_a_transaction(make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str) -> None:
    world.produce(source, 30)
    plan = make(*((source, 0, start, start + 3) for start in range(0, 30, 3)))

    plan.run("topic", {"topic": target})

    assert [one.offset for one in seen(bootstrap, target)] == list(range(30))


def test_stopped_it_keeps_what_it_has_and_goes_on_from_there(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 2000)
    plan = make((source, 0, 0, 900), (source, 0, 900, 2000))

    first = plan.run(
        "topic",
        {"topic": target},
        lambda: plan.records() >= 300,
        rate=RateLimit(records_per_s=1000),
    )
    assert first.interrupted
    assert not first.finished
    assert 300 <= sum(progress.records for progress in plan.progress().values()) < 1200
    second = plan.run("topic", {"topic": target})

    assert second.finished
    assert sources(seen(bootstrap, target)) == [f"{source}:0:{n}" for n in range(2000)]
    assert plan.proof(first, second).complete
    (start,) = {one.start for one in second.counted if one.start not in (0, 900)}
    assert start == first.progress[-1].delivered_to


def test_a_finished_task_does_nothing_again(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 5)
    plan = make((source, 0, 0, 5))
    plan.run("topic", {"topic": target})

    again = plan.run("topic", {"topic": target})

    assert again.finished
    assert again.counted == ()
    assert len(seen(bootstrap, target)) == 5


def test_a_worker_of_an_earlier_runner_delivers_nothing(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 5)
    plan = make((source, 0, 0, 5))
    spec = plan.spec("topic", {"topic": target})
    plan.ledger.take_over(plan.runner.plan_id, who=ME, now_ms=NOW_MS).close()

    from kgroup.catchup.sinks.run_task import run_task

    with pytest.raises(Refused) as caught:
        run_task(spec)

    assert caught.value.code == "superseded"
    assert seen(bootstrap, target) == []


def test_a_runner_that_takes_over_in_the_middle_shuts_the_worker_out(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str
) -> None:
    world.produce(source, 1000)
    plan = make((source, 0, 0, 1000))
    taken: list[bool] = []

    def stop() -> bool:
        if plan.records() and not taken:
            taken.append(True)
            plan.ledger.take_over(plan.runner.plan_id, who=ME, now_ms=NOW_MS).close()
        return False

    with pytest.raises(Refused) as caught:
        plan.run("topic", {"topic": target}, stop, rate=RateLimit(records_per_s=2000))

    assert caught.value.code == "superseded"
    assert seen(bootstrap, target) == []
    assert len(seen(bootstrap, target, "read_uncommitted")) > 0


@pytest.mark.soak
def test_a_record_that_the_target_refuses_stops_its_partition_and_no_other(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name
) -> None:
    small = world.topic(name("small"), partitions=2, config={"max.message.bytes": "2000"})
    world.produce(source, 40)
    world.produce_at(source, 0, [1_700_000_000_000], value=os.urandom(10_000))
    world.produce(source, 40)
    world.produce(source, 20, partition=1)
    plan = make((source, 0, 0, 81), (source, 1, 0, 20))

    result = plan.run("topic", {"topic": small}, order=Order.NONE)

    (stopped,) = result.stopped
    assert (stopped.partition, stopped.offset) == (0, 40)
    assert "too large" in stopped.why
    assert not result.finished
    assert [progress.delivered_to for progress in result.progress] == [40, 20]
    assert sources(seen(bootstrap, small)) == [f"{source}:0:{n}" for n in range(40)] + [
        f"{source}:1:{n}" for n in range(20)
    ]


def test_a_target_of_small_batches_gets_small_ones(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name
) -> None:
    small = world.topic(name("small"), config={"max.message.bytes": "3000"})
    for _ in range(40):
        world.produce(source, 5, value=os.urandom(500))
    plan = make((source, 0, 0, 200))

    result = plan.run("topic", {"topic": small})

    assert result.finished
    assert [one.header("kgroup.source") for one in seen(bootstrap, small)] == [f"{source}:0:{n}" for n in range(200)]


@pytest.mark.soak
def test_a_record_that_the_target_refuses_goes_to_the_dead_letters(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name
) -> None:
    """A compacted topic takes no record without a key."""
    compacted = world.topic(name("compacted"), config={"cleanup.policy": "compact"})
    dead = world.topic(name("dead"))
    plain = producer(bootstrap)
    for number in range(50):
        plain.produce(source, b"%d" % number, None if number in (7, 31) else b"k%d" % number, 0, headers=[("h", b"1")])
    assert plain.flush(30) == 0
    plan = make((source, 0, 0, 50))

    result = plan.run("topic", {"topic": compacted}, dead_letters=dead, maybe_processed={TopicPartition(source, 0): 10})

    assert result.finished
    assert sources(seen(bootstrap, compacted)) == [f"{source}:0:{n}" for n in range(50) if n not in (7, 31)]
    letters = seen(bootstrap, dead)
    assert sources(letters) == [f"{source}:0:7", f"{source}:0:31"]
    assert [(one.key, one.value, one.own) for one in letters] == [
        (None, b"7", (("h", b"1"),)),
        (None, b"31", (("h", b"1"),)),
    ]
    assert "rejected" in (letters[0].header("kgroup.error") or "")
    assert int(letters[0].header("kgroup.attempts") or 0) >= 1
    assert [one.header("kgroup.maybe-processed") for one in letters] == ["true", None]
    (progress,) = result.progress
    assert (progress.records, progress.dead) == (50, 2)
    proof = plan.proof(result)
    assert proof.complete
    assert proof.delivered == 48


def test_what_the_dead_letters_refuse_too_stops_its_partition(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name
) -> None:
    config = {"cleanup.policy": "compact"}
    compacted, dead = world.topic(name("compacted"), config=config), world.topic(name("dead"), config=config)
    world.produce(source, 1)
    plan = make((source, 0, 0, 1))

    result = plan.run("topic", {"topic": compacted}, dead_letters=dead)

    (stopped,) = result.stopped
    assert "dead-letter topic" in stopped.why
    assert plan.proof(result).undelivered


def test_a_topic_that_is_not_there_is_not_made(make: Make, world: KafkaWorld, source: str, name: Name) -> None:
    world.produce(source, 1)
    plan = make((source, 0, 0, 1))

    with pytest.raises(KgroupError) as caught:
        plan.run("topic", {"topic": name("nowhere")})
    assert caught.value.code == "unknown-topic"
    with pytest.raises(UsageError):
        plan.run("topic", {})
    with pytest.raises(UsageError):
        plan.run("topic", {"topic": source, "timestamps": "never"})


@pytest.mark.soak
def test_a_rate_is_kept(make: Make, world: KafkaWorld, bootstrap: str, source: str, target: str) -> None:
    world.produce(source, 300)
    plan = make((source, 0, 0, 300))

    began = time.monotonic()
    plan.run("topic", {"topic": target}, rate=RateLimit(records_per_s=100))
    took_s = time.monotonic() - began

    assert 2.5 <= took_s < 30  # the last quarter of a second is not waited for
    assert len(seen(bootstrap, target)) == 300


@pytest.mark.parametrize("sink", ["topic", "python"])
def test_a_record_that_is_lost_between_reader_and_sink_is_disputed(
    make: Make, world: KafkaWorld, source: str, target: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof compares what was read with what the sink took, which are counted apart."""
    world.produce(source, 20)
    pieces = TaskRun._pieces

    def losing(run: TaskRun, batch: Batch, most: Any) -> Iterator[Batch]:
        for piece in pieces(run, batch, most):
            yield Batch(piece.topic, piece.partition, piece._messages[:-1], piece.position)

    monkeypatch.setattr(TaskRun, "_pieces", losing)
    handler_functions.refused.clear()
    plan = make((source, 0, 0, 20))
    options = {"topic": target} if sink == "topic" else {"function": "tests.helpers.catchup.handler_functions:keep"}

    result = plan.run(sink, options)

    (counted,) = result.counted
    assert counted.visible == 20 > counted.delivered
    proof = plan.proof(result)
    assert not proof.complete
    (sentence,) = proof.partitions[0].contradictions
    assert sentence.startswith("[0, 20): 20 records were read, but 1")
    # The next run has nothing to count any more: the ledger says it.
    engine = CatchupEngine(cast(Any, None), plan.ledger, ME, lambda: NOW_MS)
    engine.finish(plan.runner, proof)
    later = plan.proof()
    assert plan.runner.read().state.state is PlanState.RELEASED
    assert not later.complete
    assert sentence in later.contradictions[0]
    engine.finish(plan.runner, later)
    assert plan.runner.read().state.state is PlanState.RELEASED
