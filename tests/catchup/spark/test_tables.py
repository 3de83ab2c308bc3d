"""Tables that remember what they have: Delta and Iceberg, killed between their commit and the ledger's.

Their newest jars on Maven are for Spark 4.1, so these tests run with that PySpark, which is installed once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kgroup.sandbox.ivy import ivy_settings
from kgroup.settings import paths
from kgroup.support.clock import utc_ms
from kgroup.support.file_lock import exclusive_lock
from tests.helpers.catchup import table_job
from tests.helpers.catchup.catchups import own_ledger, plan_id
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page
from tests.helpers.places import ROOT
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

pytestmark = [pytest.mark.soak, pytest.mark.programs("bash", "dirname")]

Name = Callable[[str], str]

PYSPARK = "4.1.1"
PARTITIONS, RECORDS = 12, 20
EVERYTHING = [[partition, offset] for partition in range(PARTITIONS) for offset in range(RECORDS)]
DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.1.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


@pytest.fixture(scope="module")
def pyspark() -> Path:
    """The directory of that PySpark."""
    home = paths.cache_dir() / "tests" / f"pyspark-{PYSPARK}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(home.with_suffix(".lock"), QuietReporter().event, "another process of the tests"):
        if not home.exists():
            made = Path(f"{home}.new")  # it may be half filled by a process that was killed
            shutil.rmtree(made, ignore_errors=True)
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(made), f"pyspark=={PYSPARK}"]
            subprocess.run(words, check=True, stdout=sys.stderr)
            made.rename(home)
    return home


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, name: Name, pyspark: Path, bystander: str) -> None:
    own_ledger(monkeypatch, name("ledger"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(pyspark), str(ROOT))))


@pytest.fixture
def group(world: KafkaWorld, name: Name) -> str:
    """A group with a gap of 12 chunks."""
    topic = world.topic(name("orders"), PARTITIONS)
    for partition in range(PARTITIONS):
        world.produce(topic, RECORDS, partition)
    world.commit(name("svc"), {(topic, partition): 0 for partition in range(PARTITIONS)})
    return name("svc")


def settings(conf: Mapping[str, str]) -> dict[str, str]:
    file = ivy_settings(os.environ).file
    return {**conf, **({} if file is None else {"spark.jars.ivySettings": str(file)})}


def spark(conf: Mapping[str, str], **work: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", table_job.__name__, json.dumps(settings(conf)), json.dumps(work)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)


def rows(conf: Mapping[str, str], form: str, table: str, columns: str = "partition offset") -> list[Any]:
    done = spark(conf, format=form, read=table, columns=columns)
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(done.stdout))


def killed_and_resumed(
    kgroup: CommandLine, group: str, conf: Mapping[str, str], to: tuple[str, ...], commits: Callable[[], int]
) -> dict[str, Any]:
    """Kill a replay as soon as the table has the second of its three groups, and resume it; the totals."""
    spark_words = [word for item in settings(conf).items() for word in ("--conf", "=".join(item))]
    master = ("--master", "local[1]", *spark_words, "--execute")
    with running("catchup", "start", group, *to, *master) as process:
        process.says("RELEASED", 300)
        before = commits()
        wait_for(lambda: commits() >= before + 2 or None, "two groups committed", 300)
        process.process.send_signal(signal.SIGKILL)
        process.process.wait(30)
        plan = re.findall(r"cu-[2-9a-z]{4}", "\n".join(process.lines))[0]
    kgroup("catchup", "resume", plan, *master)
    (row,) = kgroup("catchup", "show", plan, "-o", "json").data
    totals: dict[str, Any] = row["totals"]
    return totals


def test_delta_has_each_group_once(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    table = tmp_path / "gap"

    def commits() -> int:
        return len(list(table.glob("_delta_log/*.json")))

    to = ("--to-spark", "delta", "--option", f"path={table}")
    totals = killed_and_resumed(kgroup, group, DELTA, to, commits)

    assert rows(DELTA, "delta", str(table)) == EVERYTHING
    assert (totals["verified"], totals["delivered_count"], totals["possible_duplicate_count"]) == (True, 240, 0)


def test_iceberg_has_each_group_once(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    conf = {**ICEBERG, "spark.sql.catalog.lake.warehouse": str(tmp_path)}
    columns = "body string, partition int, offset bigint"
    made = spark(conf, sql=f"create table lake.db.gap ({columns}) using iceberg")
    assert made.returncode == 0, made.stderr

    def commits() -> int:
        return len(list(tmp_path.glob("db/gap/metadata/snap-*.avro")))

    select = ("--select", "cast(value as string) as body, partition, offset")
    to = ("--to-spark", "iceberg", "--option", "path=lake.db.gap", *select)
    totals = killed_and_resumed(kgroup, group, conf, to, commits)

    assert rows(conf, "iceberg", "lake.db.gap") == EVERYTHING
    assert (totals["verified"], totals["delivered_count"], totals["possible_duplicate_count"]) == (True, 240, 0)


def test_delta_in_a_session_of_its_user(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    plan, table = plan_id(kgroup("catchup", "start", group, "--release-only", "--execute")), str(tmp_path / "gap")

    killed = spark(DELTA, plan=plan, to=table, killed_at="1")
    went_on = spark(DELTA, plan=plan, to=table)

    assert (killed.returncode, went_on.returncode) == (-9, 0), killed.stderr + went_on.stderr
    assert rows(DELTA, "delta", table) == EVERYTHING
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["totals"]["verified"]


def test_the_merge_of_the_manual(
    kgroup: CommandLine, world: KafkaWorld, bootstrap: str, group: str, name: Name, tmp_path: Path
) -> None:
    topic, table = world.topic(name("keyed"), 1), tmp_path / "orders"
    for value in range(40):
        world.produce_at(topic, 0, [utc_ms()], b"k%d" % (value % 7), b"%d" % value)
    group = name("merging")
    world.commit(group, {(topic, 0): 0})
    plan = plan_id(kgroup("catchup", "start", group, "--release-only", "--execute"))
    code = "".join(re.findall(r"<!-- (?:merge) -->\n```python\n(.*?)```", page("catchup/notebook.md"), re.S))
    code += f'\nfrom kgroup.spark import gap\ngap(spark, "{plan}", "{bootstrap}").for_each(merge)\n'

    sql = f"create table orders (id string, body string) using delta location '{table}'"
    done = spark(DELTA, sql=sql, code=code)

    assert done.returncode == 0, done.stderr
    assert rows(DELTA, "delta", str(table), "id body") == [
        [f"k{n}", str(35 + n if n < 5 else 28 + n)] for n in range(7)
    ]
