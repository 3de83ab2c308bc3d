"""``kgroup.spark.gap`` in sessions of real PySpark: what is not done comes again, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import venv
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kgroup.sandbox.cluster import cache_directory
from kgroup.sandbox.manifest import sandbox_manifest
from kgroup.spark import ChunkGroup, gap
from kgroup.support.errors import Refused, UsageError
from kgroup.support.user import whoami
from tests.helpers.catchup import session_job
from tests.helpers.catchup.catchups import Crash, crash, own_ledger, released
from tests.helpers.catchup.spark_in_process import spark_in_process
from tests.helpers.command_line import CommandLine
from tests.helpers.java import fetched, manifest_of
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page
from tests.helpers.places import DATA, ROOT
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_in_process("local[2]") as spark:
        yield spark


@pytest.fixture
def crashed(world: KafkaWorld, name: Name, bystander: str, monkeypatch: pytest.MonkeyPatch) -> Crash:
    own_ledger(monkeypatch, name("ledger"))
    return crash(world, name("orders"), name("svc"))


def shown(kgroup: CommandLine, plan: str) -> dict[str, Any]:
    (row,) = kgroup("catchup", "show", plan, "-o", "json").data
    return row


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows)


GAP = [(0, offset) for offset in range(70, 120)] + [(1, offset) for offset in range(20, 50)]


@pytest.mark.soak
def test_each_group_is_delivered_and_the_plan_verified(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash, tmp_path: Path
) -> None:
    plan, seen = released(kgroup, crashed), list[tuple[int, list[str], bool, str]]()

    def write(df: DataFrame, chunk: ChunkGroup) -> None:
        seen.append((chunk.number, [str(row) for row in chunk.ranges], chunk.may_repeat, shown(kgroup, plan)["phase"]))
        df.write.mode("append").parquet(str(tmp_path / "out"))

    proof = gap(spark, plan, chunks=1).for_each(write)

    ranges = [f"{crashed.topic}:0 [70, 120)", f"{crashed.topic}:1 [20, 50)"]
    assert seen == [(0, ranges[:1], False, "replaying"), (1, ranges[1:], False, "replaying")]
    assert (proof.complete, proof.delivered, proof.totals().possible_duplicate_count) == (True, 80, 0)
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert rows.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert places(rows.collect()) == GAP
    row = shown(kgroup, plan)
    assert (row["state"], row["sink"], row["destination"], row["totals"]["verified"]) == (
        "done",
        "session",
        "session",
        True,
    )
    again = gap(spark, plan)
    assert (list(again), again.verification is not None and again.verification.complete) == ([], True)


@pytest.mark.soak
def test_what_is_not_done_comes_again(kgroup: CommandLine, spark: SparkSession, crashed: Crash, tmp_path: Path) -> None:
    plan = released(kgroup, crashed)
    with pytest.raises(ZeroDivisionError):
        gap(spark, plan, chunks=1).for_each(lambda df, chunk: df.count() / (1 - chunk.number))
    assert shown(kgroup, plan)["phase"] == "stopped"

    refused = kgroup("catchup", "resume", plan, "--execute", exit_code=6)
    assert "kgroup.spark.gap" in refused.stderr
    assert "[own-session]" in refused.stderr
    kgroup("catchup", "resume", plan, "--to-topic", crashed.topic, "--execute", exit_code=6)
    throttled = kgroup("catchup", "throttle", plan, "5MiB/s", "--execute", exit_code=2)
    assert f"{plan} is delivered in a Spark session of its user's own" in throttled.stderr

    left = gap(spark, plan, chunks=7)
    with pytest.raises(UsageError, match="group 1 is not done"):
        list(left)
    for chunk in left:
        assert (chunk.number, chunk.may_repeat, chunk.txn) == (1, True, {"txnAppId": plan, "txnVersion": "1"})
        assert places(chunk.df.collect()) == GAP[50:]
        chunk.done()
    assert left.verification is not None
    assert left.verification.totals().possible_duplicate_count == 30  # of its third attempt


@pytest.mark.soak
def test_several_chunks_in_one_task_of_the_writers(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash, tmp_path: Path
) -> None:
    """One file of a group: ``coalesce`` is what notebooks do."""
    plan, out = released(kgroup, crashed), tmp_path / "out"

    proof = gap(spark, plan, chunks=8).for_each(lambda df, chunk: df.coalesce(1).write.parquet(str(out)))

    assert (proof.complete, proof.delivered) == (True, 80)
    assert (places(spark.read.parquet(str(out)).collect()), len(list(out.glob("*.parquet")))) == (GAP, 1)


@pytest.mark.soak
def test_records_that_spark_has_not_read_are_not_done(kgroup: CommandLine, spark: SparkSession, crashed: Crash) -> None:
    plan = released(kgroup, crashed)

    def no_save(df: DataFrame, chunk: ChunkGroup) -> None:
        df.write.format("delta").options(**chunk.txn)

    for function, repeated in ((no_save, 0), (no_save, 0), (lambda df, _: df.limit(3).collect(), 80)):
        with pytest.raises(Refused) as raised:
            gap(spark, plan).for_each(function)
        assert raised.value.code == "not-read"
        totals = shown(kgroup, plan)["totals"]
        assert (totals["undelivered_offset_count"], totals["possible_duplicate_count"]) == (80, repeated)
    done = gap(spark, plan).for_each(no_save)  # as with a table that has it, which kgroup cannot know
    assert (done.complete, done.totals().possible_duplicate_count) == (True, 80)


@pytest.mark.soak
def test_another_run_takes_the_plan_over(kgroup: CommandLine, spark: SparkSession, crashed: Crash) -> None:
    plan = released(kgroup, crashed)

    def overtaken(df: DataFrame, chunk: ChunkGroup) -> None:
        df.count()
        gap(spark, plan, take_over=True).for_each(lambda df, _: df.count())

    with pytest.raises(Refused) as raised:
        gap(spark, plan, chunks=1).for_each(overtaken)

    error = raised.value
    assert (error.code, shown(kgroup, plan)["totals"]["verified"]) == ("superseded", True)
    assert f"another cell or program has taken over {plan}: {whoami()} took it over at" in error.message
    assert "and it is done now. This run writes no more to the ledger" in error.message
    assert error.hint == f"end the Spark job of this run; kgroup catchup show {plan} shows the other one"
    assert "offsets" not in "".join((error.message, *error.details, error.hint))


@pytest.mark.soak
def test_a_run_that_was_stopped_is_told_how_to_continue(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash
) -> None:
    plan = released(kgroup, crashed)

    def stopped(df: DataFrame, chunk: ChunkGroup) -> None:
        df.count()
        kgroup("catchup", "stop", plan, "--execute")

    with pytest.raises(Refused, match=f"{plan} was stopped by {whoami()} at") as raised:
        gap(spark, plan).for_each(stopped)

    error = raised.value
    assert (error.code, shown(kgroup, plan)["phase"]) == ("superseded", "stopped")
    assert error.hint == "run this code again to continue: it begins with the group that is not done"


@pytest.mark.soak
def test_a_run_at_work_is_waited_for(kgroup: CommandLine, spark: SparkSession, crashed: Crash) -> None:
    """A cell that is run again while its first run still writes: both would write the group."""
    plan, ended = released(kgroup, crashed), list[Any]()
    second = threading.Thread(
        target=lambda: ended.append(gap(spark, plan).for_each(lambda df, _: pytest.fail("the first run delivers it")))
    )

    def write(df: DataFrame, chunk: ChunkGroup) -> None:
        df.count()
        second.start()
        waits = "waiting for another run to end"
        wait_for(lambda: any(waits in str(each.message) for each in warned), "the second run waits")

    with warnings.catch_warnings(record=True) as warned:  # of all threads
        warnings.simplefilter("always")
        gap(spark, plan).for_each(write)
        second.join(60)

    assert [(proof.complete, proof.totals().possible_duplicate_count) for proof in ended] == [(True, 0)]


@pytest.mark.soak
def test_a_plan_that_is_delivered_elsewhere_is_an_error(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash, tmp_path: Path
) -> None:
    plan = released(kgroup, crashed)
    kgroup("catchup", "resume", plan, "--to-files", str(tmp_path / "gap"), "--execute")

    with pytest.raises(Refused, match=f"{plan} is done: it was delivered to files") as raised:
        gap(spark, plan).for_each(lambda df, _: df.count())

    assert raised.value.code == "sink-set"


def test_settings_are_no_address(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="settings go into properties"):
        gap(spark, "cu-7f3a", {"bootstrap.servers": "b:1"})  # type: ignore[arg-type]


def test_lost_records_are_an_error(kgroup: CommandLine, world: KafkaWorld, spark: SparkSession, crashed: Crash) -> None:
    plan = released(kgroup, crashed)
    world.delete_records(crashed.topic, 0, 78)

    for _ in range(2):  # also of the plan that is closed
        with pytest.raises(Refused, match=rf"not delivered: {crashed.topic}:0 \[70, 78\)") as raised:
            gap(spark, plan).for_each(lambda df, _: df.count())
        assert raised.value.code == "not-complete"


def job(
    plan: str, out: Path, killed_at: int, *jars: str, python: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", session_job.__name__, plan, str(out), str(killed_at), *jars]
    env = os.environ | {"PYSPARK_PYTHON": str(python)}
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300, env=env)


@pytest.mark.programs("bash", "dirname")
def test_killed_after_a_write_before_the_ledger(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash, tmp_path: Path
) -> None:
    plan, out = released(kgroup, crashed), tmp_path / "out"

    killed = job(plan, out, 1)
    went_on = job(plan, out, -1)

    assert (killed.returncode, killed.stdout.splitlines()) == (-9, ["0 False", "1 False"]), killed.stderr
    assert went_on.stdout.splitlines() == ["1 True", "True 80 30"], went_on.stderr
    rows = spark.read.parquet(str(out)).collect()
    assert places(rows) == sorted(GAP + GAP[50:])
    assert shown(kgroup, plan)["totals"]["verified"]


@pytest.fixture(scope="session")
def kafka_source() -> str:
    """The jars of Spark's Kafka source."""
    wanted = manifest_of(DATA / "spark_kafka_jars.txt")
    jars = fetched(wanted, cache_directory() / "spark-kafka", sandbox_manifest())
    return ",".join(map(str, wanted.paths(jars)))


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python for workers that has pyarrow, and no other package of kgroup's."""
    home = tmp_path_factory.mktemp("workers") / "venv"
    venv.create(home, with_pip=True)
    subprocess.run([home / "bin" / "pip", "install", "--quiet", "pyarrow"], check=True)
    return home / "bin" / "python"


@pytest.mark.soak
@pytest.mark.programs("bash", "dirname")
def test_read_by_sparks_kafka_source(
    kgroup: CommandLine,
    world: KafkaWorld,
    spark: SparkSession,
    crashed: Crash,
    tmp_path: Path,
    kafka_source: str,
    bare_python: Path,
) -> None:
    """Killed between its write and the ledger; with offsets that are no records, and some that are gone."""
    world.produce_in_transaction(crashed.topic, 10, 0)
    world.produce_in_transaction(crashed.topic, 10, 1, abort=True)
    world.produce(crashed.topic, 5, 1)
    plan, out = released(kgroup, crashed), tmp_path / "out"
    world.delete_records(crashed.topic, 1, 24)

    killed = job(plan, out, 1, kafka_source, python=bare_python)
    went_on = job(plan, out, -1, kafka_source, python=bare_python)

    assert (killed.returncode, killed.stdout.splitlines()) == (-9, ["0 False", "1 False"]), killed.stderr
    assert (went_on.returncode, went_on.stdout.splitlines()) == (1, ["1 True"])
    assert f"not delivered: {crashed.topic}:1 [20, 24)" in went_on.stderr
    # Offset 130 of partition 0 is the marker of a transaction; 50 to 60 of partition 1 were aborted.
    first = [(0, offset) for offset in range(70, 130)]
    second = [(1, offset) for offset in (*range(24, 50), *range(61, 66))]
    assert places(spark.read.parquet(str(out)).collect()) == first + sorted(second + second)
    totals = shown(kgroup, plan)["totals"]
    # Possible duplicates are counted by offsets before a write: [20, 66).
    assert (totals["delivered_count"], totals["possible_duplicate_count"], totals["lost_offset_count"]) == (91, 46, 4)


@pytest.mark.soak
def test_the_code_of_the_manual(
    kgroup: CommandLine, spark: SparkSession, crashed: Crash, bootstrap: str, tmp_path: Path
) -> None:
    """A group that is written again replaces itself."""
    plan, lake = released(kgroup, crashed), tmp_path / "gap"
    whole, loop = (
        re.findall(rf"<!-- {name} -->\n```python\n(.*?)```", page("catchup/notebook.md"), re.S)[0]
        .replace("/lake/gap", str(lake))
        .replace("cu-7f3a", plan)
        .replace("broker:9092", bootstrap)
        for name in ("gap", "loop")
    )

    def write(df: DataFrame, chunk: ChunkGroup) -> None:
        df.write.parquet(f"{lake}/{chunk.plan}/{chunk.number}")
        raise RuntimeError("after its write")

    with pytest.raises(RuntimeError, match="after its write") as kept:  # with its frames, as a notebook keeps them
        exec(loop, {"spark": spark, "gap": gap, "write": write})
    assert (shown(kgroup, plan)["phase"], kept.tb is None) == ("stopped", False)
    assert places(spark.read.parquet(f"{lake}/{plan}/*").collect()) == GAP
    exec(whole, {"spark": spark})

    assert places(spark.read.parquet(f"{lake}/{plan}/*").collect()) == GAP
    assert shown(kgroup, plan)["totals"]["verified"]
