"""The newest record of each key, on one real session: which it is, each delivered once, and exactly counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.newest_per_key import newest_per_key, parts_of
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.spark.source import SourceRange
from kgroup.catchup.worker.task_spec import TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Delivery, Order, Task
from kgroup.support.errors import NotFound
from tests.helpers.catchup.latest import newest
from tests.helpers.catchup.plans import gap_range, make_plan
from tests.helpers.catchup.replays import Replay, producer, replay, seen, sources
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
SPANS = ((0, 0, 100), (0, 100, 240), (1, 0, 90), (1, 90, 240))
TASKS = ([0, 3], [2], [1])


@pytest.fixture(scope="module")
def session() -> Iterator[DriverSession]:
    settings = SparkSettings("local[2]", heavy=True)
    with DriverSession(settings, check(settings, timeout_s=10)) as session:
        yield session


@pytest.fixture
def source(world: KafkaWorld, bootstrap: str, name: Name) -> str:
    """240 records on each of two partitions, of 30 keys and without; times are in another order than offsets."""
    topic, writer, dice = world.topic(name("orders"), 2, {"retention.ms": "-1"}), producer(bootstrap), random.Random(1)
    for partition in range(2):
        for number in range(240):
            key = None if number % 20 == 7 else b"k%d" % dice.randrange(30)
            value = None if number % 13 == 3 else b"%d/%d" % (partition, number)
            writer.produce(topic, value, key, partition, timestamp=1_700_000_000_000 + dice.randrange(50))
    writer.flush(10)
    return topic


def deliver(
    session: DriverSession,
    plan: Replay,
    sink: str,
    options: dict[str, str],
    *,
    where: str | None = None,
    numbers: Sequence[int] = range(len(TASKS)),
    watching: JobListeners | None = None,
    **more: Any,
) -> Any:
    """Run these tasks of a plan."""
    delivery = Delivery(sink, Order.NONE, plan.tasks, options)
    specs = [plan.spec(sink, options, number, order=Order.NONE, **more) for number in numbers]
    return run(session, specs, watching, run_tasks=newest_per_key(plan.runner.read(), delivery, specs, where))


@pytest.mark.parametrize("where", [None, "value is not null and (partition = 0 or offset < 200)"])
def test_each_is_delivered_once_and_counted(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, source: str, where: str | None
) -> None:
    target, records = world.topic(name("copy"), 2), seen(bootstrap, source)
    if where is not None:
        records = [one for one in records if one.value is not None and (one.partition == 0 or one.offset < 200)]
    with replay(bootstrap, name("ledger"), [(source, *span) for span in SPANS], TASKS) as plan:
        answers = deliver(session, plan, "topic", {"topic": target}, where=where)
        proof = plan.proof(*(answer.result for answer in answers))

    assert sorted((answer.task, answer.failure) for answer in answers) == [(0, None), (1, None), (2, None)]
    wanted, found = newest(records, topic=source), sources(seen(bootstrap, target))
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert (proof.complete, proof.records, proof.delivered) == (True, 480, len(wanted))
    assert proof.totals().filtered_count == 480 - len(wanted)


def test_stopped_and_gone_on_with_no_older_record_follows_a_newer_one(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, source: str
) -> None:
    """The second run reads again what is delivered: otherwise the newest of what is left would be delivered too."""
    target, totals = world.topic(name("copy"), 2), list[ProgressTotals]()
    to = {"topic": target}
    wanted = newest(seen(bootstrap, source), topic=source)
    with replay(bootstrap, name("ledger"), [(source, *span) for span in SPANS], TASKS) as plan:
        watching = JobListeners(totals.append, stop=lambda: bool(totals) and totals[-1].records > 60)
        rate, bounds = RateLimit(records_per_s=4), TransactionBounds(records=5)
        stopped = deliver(session, plan, "topic", to, watching=watching, rate=rate, bounds=bounds)
        before = plan.progress()
        assert not all(answer.result is not None and answer.result.finished for answer in stopped)
        assert 0 < sum(one.records for one in before.values()) < 480
        left = [number for number, chunks in enumerate(TASKS) if not _finished(before, chunks)]

        answers = deliver(session, plan, "topic", to, numbers=left)
        proof = plan.proof(*(answer.result for answer in answers))

    found = sources(seen(bootstrap, target))
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert (proof.complete, proof.records, proof.delivered) == (True, 480, len(wanted))


def _finished(progress: dict[int, ChunkProgress], chunks: Sequence[int]) -> bool:
    return all(number in progress and progress[number].delivered_to == SPANS[number][2] for number in chunks)


def test_of_a_gap_that_is_not_read_whole_nothing_is_delivered(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, source: str
) -> None:
    target, nowhere = world.topic(name("copy"), 2), name("nosuch")
    spans = [(source, *SPANS[0]), (nowhere, 0, 0, 10)]
    with replay(bootstrap, name("ledger"), spans, [[0], [1]]) as plan:
        answers = deliver(session, plan, "topic", {"topic": target}, numbers=range(2))
        stopped = deliver(
            session, plan, "topic", {"topic": target}, numbers=range(2), watching=JobListeners(stop=lambda: True)
        )
        assert plan.progress() == {}

    assert [answer.failure.kind for answer in answers if answer.failure is not None] == [NotFound.__name__]
    assert [answer.result for answer in stopped if answer.result is not None] == []
    assert seen(bootstrap, target) == []


def test_what_the_log_start_has_passed_is_lost_where_it_was_not_delivered(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, source: str
) -> None:
    target = world.topic(name("copy"), 2)
    records = [one for one in seen(bootstrap, source) if one.partition == 1 or one.offset >= 120]
    world.delete_records(source, 0, 120)
    done = ChunkProgress(0, 100, 100, 60, 0, 0, 0, 0)
    with replay(bootstrap, name("ledger"), [(source, *span) for span in SPANS], TASKS) as plan:
        plan.runner.write(replace(done, epoch=plan.runner.epoch.number))

        answers = deliver(session, plan, "topic", {"topic": target})

        found = plan.progress()
        proof = plan.proof(*(answer.result for answer in answers if answer.result is not None))
    assert [(row.partition, row.start, row.end) for row in proof.lost] == [(0, 100, 120)]
    assert {number: one.records for number, one in found.items()} == {0: 100, 1: 120, 2: 90, 3: 150}
    assert set(sources(seen(bootstrap, target))) == newest(records, topic=source)


def test_what_is_delivered_is_read_without_a_chunk() -> None:
    plan = make_plan(gap_range(0, 0, 30), chunks=tuple(Chunk("orders", 0, 10 * n, 10 * n + 10, n) for n in range(3)))
    delivery = Delivery("topic", Order.NONE, (Task(0, (0, 2)), Task(1, (1,))), {})
    progress = {1: ChunkProgress(1, 14, 4, 0, 0, 0, 0, 0), 2: ChunkProgress(2, 30, 10, 0, 0, 0, 0, 0)}

    assert parts_of(plan, delivery, progress) == (
        (SourceRange("orders", 0, 0, 10, 0), SourceRange("orders", 0, 20, 30)),
        (SourceRange("orders", 0, 10, 14), SourceRange("orders", 0, 14, 20, 1)),
    )
