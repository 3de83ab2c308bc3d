"""Spark SQL on the way of records, on one real session: which are wanted, into every kind of sink, exactly counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kgroup.catchup.sinks.files import write_manifest
from kgroup.catchup.spark import to_spark
from kgroup.catchup.spark.driver import on_sql
from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.spark.sql_job import filtered
from kgroup.catchup.spark.where import check as check_where
from kgroup.catchup.worker.task_spec import TaskSpec, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import ChunkProgress
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.model.records import LostOffsets
from kgroup.support.errors import KgroupError, NotFound, Refused, UsageError
from tests.catchup.sinks.test_topic import SHAPES, produce_shapes
from tests.helpers.catchup.plans import NOW_MS
from tests.helpers.catchup.replays import Replay, producer, replay, seen, sources
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.catchup.spark_kills import END, PARTITIONS, Killer, source_topic, workers_of
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
NUMBER = "cast(cast(value as string) as int)"


@pytest.fixture(scope="module")
def session() -> Iterator[DriverSession]:
    settings = SparkSettings("local[2]", heavy=True)
    with DriverSession(settings, check(settings, timeout_s=10)) as session:
        yield session


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("offset %% 3", "PARSE_SYNTAX_ERROR"),
        ("nope = 3", "`nope` cannot be resolved"),
        ("_chunk = 3", "`_chunk` cannot be resolved"),
        ("offset", "is not a boolean"),
        ("count(*) > 1", "INVALID_WHERE_CONDITION"),
        ("true) or (true", "PARSE_SYNTAX_ERROR"),
        ("rand() < 0.1", "must be deterministic"),
        ("timestamp > now() - interval 1 day", "must not depend on the current time"),
        ("timestamp >= timestamp 'yesterday'", "must not depend on the current time"),
        ("offset in (select 1)", "reads a table"),
        (" ", "requires a condition"),
    ],
)
def test_conditions_that_are_none(
    session: DriverSession, sql: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        session.call(on_sql, check_where, sql)

    assert said in raised.value.message
    assert raised.value.hint
    whole = "".join((raised.value.message, *raised.value.details, *capfd.readouterr()))
    assert not [word for word in ("\tat ", "SQLSTATE", "Filter (", "Traceback") if word in whole]


@pytest.mark.parametrize(
    "sql", ["key = 'eu'", "array_contains(transform(headers, h -> h.key), 'x')", "timestamp >= '2026-11-01 12:00:00'"]
)
def test_conditions_that_are_some(session: DriverSession, sql: str) -> None:
    session.call(on_sql, check_where, sql)


def work(session: DriverSession, plan: Replay, sql: str, *tasks: TaskSpec, watching: JobListeners | None = None) -> Any:
    return run(session, tasks, watching, run_tasks=filtered(tasks, sql, plan.progress()))


@pytest.mark.soak
def test_exactly_once_in_order_though_workers_die(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    source, target = source_topic(world, bootstrap, name), world.topic(name("copy"), partitions=PARTITIONS)
    spans = [(source, p, END * part // 4, END * (part + 1) // 4) for p in range(PARTITIONS) for part in range(4)]
    killer = Killer(lambda: workers_of([jvm_of(session)]), kills=2)
    with replay(bootstrap, name("ledger"), spans, [range(4), range(4, 8)]) as plan:
        rate, bounds = RateLimit(records_per_s=400), TransactionBounds(records=100)
        tasks = [plan.spec("topic", {"topic": target}, number, rate=rate, bounds=bounds) for number in range(2)]

        answers = work(
            session, plan, f"{NUMBER} % 3 = 0", *tasks, watching=JobListeners(killer.tell, ledger=plan.progress)
        )

        assert [(answer.task, answer.failure) for answer in answers] == [(0, None), (1, None)]
        proof = plan.proof(*(answer.result for answer in answers))
    assert killer.done == 2
    visible, found = seen(bootstrap, source), seen(bootstrap, target)
    expected = [one for one in visible if int(one.value or b"") % 3 == 0]
    assert sources(found) == [f"{source}:{one.partition}:{one.offset}" for one in expected]
    assert [one.value for one in found] == [one.value for one in expected]
    assert (proof.complete, proof.records, proof.delivered) == (True, len(visible), len(expected))
    assert proof.totals().filtered_count == len(visible) - len(expected)


@pytest.mark.soak
def test_every_shape_of_a_record_and_a_chunk_of_which_nothing_is_wanted(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    source, target = (world.topic(name(topic), 2, {"retention.ms": "-1"}) for topic in ("orders", "copy"))  # old times
    produce_shapes(bootstrap, source)
    world.produce(source, 20)
    spans = [(source, 0, 0, 10), (source, 0, 10, 20), (source, 1, 0, len(SHAPES))]
    files = {"dir": str(tmp_path), "format": "json"}
    with replay(bootstrap, name("ledger"), spans, [[0, 1], [2]]) as plan:
        wanted = "partition = 1 or offset >= 15"
        tasks = [plan.spec("topic", {"topic": target}, number) for number in range(2)]
        copied = work(session, plan, wanted, *tasks)
        assert plan.proof(*(answer.result for answer in copied)).complete
        counts = {number: (one.records, one.filtered, one.delivered_to) for number, one in plan.progress().items()}
    with replay(bootstrap, name("ledger-2"), spans, [[0, 1], [2]]) as plan:
        work(session, plan, wanted, *(plan.spec("files", files, number) for number in range(2)))
        found = plan.runner.read()
        assert {number: (one.records, one.filtered) for number, one in found.progress.items()} == {
            number: count[:2] for number, count in counts.items()
        }
        manifest = json.loads(write_manifest(files, found.plan, found.progress).read_bytes())

    assert counts == {0: (10, 10, 10), 1: (10, 5, 20), 2: (len(SHAPES), 0, len(SHAPES))}
    assert [(row["records"], row["filtered"]) for row in manifest["files"]] == [(0, 10), (5, 5), (len(SHAPES), 0)]
    copies = seen(bootstrap, target)
    assert [one.offset for one in copies if one.partition == 0] == list(range(5))
    assert [(one.key, one.value, list(one.own) or None, one.timestamp_ms) for one in copies if one.partition == 1] == [
        (key, value, headers, timestamp_ms) for key, value, headers, timestamp_ms in SHAPES
    ]


@pytest.mark.soak
def test_stopped_and_gone_on_with_by_a_handler(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    source, got = world.topic(name("orders"), partitions=1), tmp_path / "got"
    world.produce(source, 600)
    command = {"command": f"cat >> {got}", "ack": "exit"}
    totals: list[ProgressTotals] = []
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 400), (source, 0, 400, 600)]) as plan:
        slow = plan.spec("command", command, rate=RateLimit(records_per_s=40))

        def stop() -> bool:
            if totals[-1].records > 100:
                plan.runner.heartbeat(SIGNED_OFF)
            return totals[-1].records > 100

        watching = JobListeners(totals.append, stop, plan.progress)

        (first,) = work(session, plan, "offset % 2 = 0", slow, watching=watching)

        assert (first.failure, first.result.interrupted, first.result.finished) == (None, True, False)
        assert 0 < sum(one.records for one in plan.progress().values()) < 600
        plan.runner.heartbeat(NOW_MS)
        (second,) = work(session, plan, "offset % 2 = 0", plan.spec("command", command))
        assert second.result.finished
        proof = plan.proof(second.result)
    handed = [json.loads(line)["offset"] for line in got.read_text().splitlines()]
    assert sorted(set(handed)) == list(range(0, 600, 2))
    assert len(handed) - 300 <= proof.partitions[0].may_repeat
    assert (proof.complete, proof.records, proof.delivered) == (True, 600, 300)


@pytest.mark.soak
def test_a_record_that_the_condition_can_not_take(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    source, target = world.topic(name("orders")), world.topic(name("copy"))
    writer = producer(bootstrap)
    for number in range(20):
        writer.produce(source, b"no number" if number == 15 else b"%d" % number, None, 0)
    writer.flush(10)
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 20)]) as plan:
        with pytest.raises(KgroupError) as raised:
            work(session, plan, f"{NUMBER} > 3", plan.spec("topic", {"topic": target}))
        assert raised.value.code == "sql", (raised.value.message, raised.value.details)
        assert "CAST_INVALID_INPUT" in raised.value.details[0]
        assert "\tat " not in "".join(raised.value.details)

        (answer,) = work(session, plan, f"try_{NUMBER} > 3", plan.spec("topic", {"topic": target}))
        assert plan.proof(answer.result).complete
    assert [one.value for one in seen(bootstrap, target)] == [b"%d" % n for n in (*range(4, 15), *range(16, 20))]


@pytest.mark.soak
def test_what_the_log_start_has_passed_and_what_is_not_there(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    source, target = world.topic(name("orders")), world.topic(name("copy"))
    world.produce(source, 20)
    world.delete_records(source, 0, 8)
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 10), (source, 0, 10, 20)]) as plan:
        (answer,) = work(session, plan, "offset % 2 = 1", plan.spec("topic", {"topic": target}))
        found = plan.progress()
    assert answer.result.finished
    assert [(one.start, one.end) for one in found[0].lost] == [(0, 8)]
    assert {number: (one.records, one.filtered) for number, one in found.items()} == {0: (2, 1), 1: (10, 5)}
    assert isinstance(found[0].lost[0], LostOffsets)

    with replay(bootstrap, name("ledger-2"), [(name("nosuch"), 0, 0, 10)]) as plan:
        (answer,) = work(session, plan, "true", plan.spec("topic", {"topic": target}))
    assert answer.failure is not None
    assert answer.failure.kind == NotFound.__name__


@pytest.mark.soak
def test_a_writer_of_spark_gets_all_of_it_and_is_counted(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    source = world.topic(name("orders"), partitions=2)
    for partition in range(2):
        world.produce(source, 30, partition)
    options = {"format": "parquet", "option.path": str(tmp_path / "out")}
    session.call(on_sql, to_spark.rehearse, options)
    with replay(
        bootstrap, name("ledger"), [(source, 0, 0, 20), (source, 0, 20, 30), (source, 1, 0, 30)], [[0, 1], [2]]
    ) as plan:
        groups = [plan.spec("spark", options, number) for number in range(2)]
        recorded: list[tuple[int, ...]] = []

        def record(rows: Iterable[ChunkProgress]) -> None:
            plan.runner.write(*rows)
            recorded.append(tuple(plan.progress()[number].may_repeat for number in sorted(plan.progress())))

        written = to_spark.written(groups, "offset >= 25", plan.progress(), record)
        answers = run(session, to_spark.by_chunk(groups, plan.progress()), run_tasks=written)
        assert recorded == [(20, 10), (0, 0), (0, 0, 30), (0, 0, 0)]
        proof = plan.proof(*(answer.result for answer in answers))

    rows = parquet.read_table(tmp_path / "out")
    assert rows.column_names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    assert sorted((row["partition"], row["offset"]) for row in rows.to_pylist()) == [
        (p, n) for p in (0, 1) for n in range(25, 30)
    ]
    assert (proof.complete, proof.records, proof.delivered) == (True, 60, 10)
    assert sum(one.may_repeat for one in proof.partitions) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "nosuch"}, "nosuch"),
        ({"format": "csv", "option.path": "/nowhere"}, "headers"),
        ({"format": "parquet"}, "path"),
        ({"format": "json", "option.path": "/proc/nowhere/x"}, "Mkdirs failed"),
    ],
)
def test_writers_that_take_nothing(session: DriverSession, options: dict[str, str], said: str) -> None:
    with pytest.raises(Refused) as raised:
        session.call(on_sql, to_spark.rehearse, options)

    assert (raised.value.code, said in raised.value.message) == ("sink", True)
    assert "\tat " not in "".join((raised.value.message, *raised.value.details))


SELECT = "cast(value as string) as body, partition, offset"


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("nope", "`nope` cannot be resolved"),
        ("count(*)", "must make one row of each record"),
        ("distinct partition", "must make one row of each record"),
        ("id from range(3) --", "must make one row of each record"),
    ],
)
def test_columns_that_are_none(session: DriverSession, select: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        session.call(on_sql, to_spark.rehearse, {"format": "noop", "select": select})

    assert said in raised.value.message


@pytest.mark.soak
def test_columns_for_a_writer_that_takes_no_headers(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    source = world.topic(name("orders"))
    world.produce(source, 20, value=b"hello")
    url = f"jdbc:derby:{tmp_path}/gap;create=true"
    options = {"format": "jdbc", "option.url": url, "option.dbtable": "gap"}
    with pytest.raises(Refused, match="JDBC"):
        session.call(on_sql, to_spark.rehearse, options)
    options |= {"select": SELECT}
    session.call(on_sql, to_spark.rehearse, options)
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 12), (source, 0, 12, 20)], [[0], [1]]) as plan:
        groups = [plan.spec("spark", options, number) for number in range(2)]
        written = to_spark.written(groups, "offset % 2 = 0", plan.progress(), lambda rows: plan.runner.write(*rows))
        answers = run(session, to_spark.by_chunk(groups, plan.progress()), run_tasks=written)
        proof = plan.proof(*(answer.result for answer in answers))

    assert sorted(
        session.call(
            lambda driver: [
                tuple(row) for row in driver.sql().read.format("jdbc").options(url=url, dbtable="gap").load().collect()
            ]
        )
    ) == [("hello", 0, offset) for offset in range(0, 20, 2)]
    assert (proof.complete, proof.records, proof.delivered) == (True, 20, 10)
