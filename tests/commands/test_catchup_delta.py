"""``--to-spark delta`` into a real table, with a PySpark that Delta is made for: each group of chunks once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from kgroup.sandbox.cluster import cache_directory
from kgroup.sandbox.manifest import sandbox_manifest
from kgroup.support.file_lock import exclusive_lock
from tests.helpers.catchup import killed_before_ledger
from tests.helpers.catchup.catchups import Crash
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.java import fetched, manifest_of
from tests.helpers.places import DATA, ROOT

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]

PYSPARK = "4.1.0"
_WITHIN_S = 300.0
_DELTA = (
    "--conf=spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "--conf=spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)


@pytest.fixture(scope="module")
def older_pyspark() -> Path:
    """The directory of a PySpark, which is installed once."""
    home = cache_directory() / f"pyspark-{PYSPARK}"
    with exclusive_lock(home.with_suffix(".lock"), QuietReporter().event, "another process of the tests"):
        if not (done := home / "complete").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(home)]
            subprocess.run([*pip, f"pyspark=={PYSPARK}"], check=True)
            done.touch()
    return home


@pytest.fixture(scope="module")
def delta() -> tuple[str, ...]:
    """Options for Spark with Delta."""
    wanted = manifest_of(DATA / "delta_jars.txt")
    jars = wanted.paths(fetched(wanted, cache_directory() / "delta", sandbox_manifest()))
    return (f"--conf=spark.jars={','.join(map(str, jars))}", *_DELTA)


def actions(table: Path, kind: str) -> list[dict[str, object]]:
    """What the table's log has of this kind."""
    logs = sorted((table / "_delta_log").glob("*.json"))
    rows = (json.loads(line) for log in logs for line in log.read_text().splitlines())
    return [row[kind] for row in rows if kind in row]


def places(table: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    assert not actions(table, "remove")
    files = [parquet.read_table(table / str(row["path"])) for row in actions(table, "add")]
    return sorted((row["partition"], row["offset"]) for file in files for row in file.to_pylist())


def test_a_group_that_the_table_has_is_not_written_again(
    kgroup: CommandLine, crashed: Crash, tmp_path: Path, older_pyspark: Path, delta: tuple[str, ...]
) -> None:
    """kgroup is killed after the write, before the ledger has it. The resume asks Delta to write the same group."""
    table = tmp_path / "table"
    spark = ("--master", "local[2]", *delta)

    def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, "catchup", *words, "--execute"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
            env=os.environ | {"PYTHONPATH": str(older_pyspark)},
        )

    sink = ("--to-spark", "delta", "--option", f"path={table}")
    killed = run(killed_before_ledger.__name__, "start", crashed.group, *sink, *spark)
    assert killed.returncode == -9, killed.stderr
    gap = [(0, offset) for offset in range(70, 120)] + [(1, offset) for offset in range(20, 50)]
    assert places(table) == gap
    (before,) = kgroup("catchup", "list", "-o", "json").data
    (before,) = kgroup("catchup", "show", before["plan_id"], "-o", "json").data
    assert before["totals"]["undelivered_offset_count"] == 80

    done = run("kgroup", "resume", str(before["plan_id"]), *spark)

    assert (done.returncode, "VERIFIED" in done.stdout) == (0, True), done.stderr
    assert places(table) == gap
    assert {(row["appId"], row["version"]) for row in actions(table, "txn")} == {(before["plan_id"], 0)}
    (shown,) = kgroup("catchup", "show", before["plan_id"], "-o", "json").data
    totals = shown["totals"]
    assert (totals["delivered_count"], totals["possible_duplicate_count"]) == (80, 0)
