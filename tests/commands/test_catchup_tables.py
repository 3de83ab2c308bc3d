"""``--to-spark`` into real tables, with a PySpark that they are made for: each group of chunks once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
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
_GAP = [(0, offset) for offset in range(70, 120)] + [(1, offset) for offset in range(20, 50)]
_CREATE = """
import json, sys
from pyspark.sql import SparkSession
from kgroup.catchup.spark.source import ddl
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config(map=json.loads(sys.argv[1])).getOrCreate()
spark.sql(f"CREATE TABLE lake.db.gap ({ddl()}) USING iceberg")
"""


@dataclass(frozen=True)
class Delta:
    """A table that the first write creates."""

    home: Path
    format = "delta"

    @property
    def path(self) -> str:
        return str(self.home)

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.jars": jars("delta"),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }

    def create(self, pyspark: Mapping[str, str]) -> None:
        """The first write does."""

    def files(self) -> list[Path]:
        """Those of which the table is made."""
        assert not self._log("remove")
        return [self.home / str(row["path"]) for row in self._log("add")]

    def writes(self, plan: str) -> int:
        """How many commits of the table remember the plan."""
        return sum(row["appId"] == plan for row in self._log("txn"))

    def _log(self, kind: str) -> list[dict[str, object]]:
        logs = sorted((self.home / "_delta_log").glob("*.json"))
        rows = (json.loads(line) for log in logs for line in log.read_text().splitlines())
        return [row[kind] for row in rows if kind in row]


@dataclass(frozen=True)
class Iceberg:
    """A table in a catalog of files; it exists before."""

    home: Path
    format = "iceberg"
    path = "lake.db.gap"

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.jars": jars("iceberg"),
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(self.home),
        }

    def create(self, pyspark: Mapping[str, str]) -> None:
        """As its owner does."""
        words = [sys.executable, "-c", _CREATE, json.dumps(self.conf)]
        subprocess.run(words, cwd=ROOT, check=True, timeout=_WITHIN_S, env=os.environ | pyspark)

    def files(self) -> list[Path]:
        """Nothing is deleted, so these are all that were written."""
        return list((self.home / "db/gap/data").glob("*.parquet"))

    def writes(self, plan: str) -> int:
        """How many snapshots of the table remember the plan."""
        newest = max((self.home / "db/gap/metadata").glob("v*.json"), key=lambda file: int(file.name[1:].split(".")[0]))
        snapshots = json.loads(newest.read_text())["snapshots"]
        return sum(one["summary"].get("kgroup-plan") == plan for one in snapshots)


def jars(names: str) -> str:
    """The jars of a table, which are fetched once."""
    wanted = manifest_of(DATA / f"{names}_jars.txt")
    return ",".join(map(str, wanted.paths(fetched(wanted, cache_directory() / names, sandbox_manifest()))))


@pytest.fixture(scope="module")
def pyspark() -> Mapping[str, str]:
    """The variable that chooses this PySpark, which is installed once."""
    home = cache_directory() / f"pyspark-{PYSPARK}"
    with exclusive_lock(home.with_suffix(".lock"), QuietReporter().event, "another process of the tests"):
        if not (done := home / "complete").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(home)]
            subprocess.run([*pip, f"pyspark=={PYSPARK}"], check=True)
            done.touch()
    return {"PYTHONPATH": str(home)}


def places(table: Delta | Iceberg) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    rows = (row for file in table.files() for row in parquet.read_table(file).to_pylist())
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.mark.parametrize("kind", [Delta, pytest.param(Iceberg, marks=pytest.mark.programs("bash", "dirname"))])
def test_a_group_that_the_table_has_is_not_written_again(
    kgroup: CommandLine, crashed: Crash, tmp_path: Path, pyspark: Mapping[str, str], kind: type[Delta | Iceberg]
) -> None:
    """kgroup is killed after the write, before the ledger has it. The resume comes to the same group again."""
    table = kind(tmp_path / "table")
    table.create(pyspark)
    spark = ("--master", "local[2]", *(f"--conf={key}={value}" for key, value in table.conf.items()))

    def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, "catchup", *words, *spark, "--execute"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
            env=os.environ | pyspark,
        )

    sink = ("--to-spark", table.format, "--option", f"path={table.path}")
    killed = run(killed_before_ledger.__name__, "start", crashed.group, *sink)
    assert killed.returncode == -9, killed.stderr
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    plan = str(listed["plan_id"])
    (before,) = kgroup("catchup", "show", plan, "-o", "json").data
    assert (places(table), before["totals"]["undelivered_offset_count"]) == (_GAP, 80)

    done = run("kgroup", "resume", plan)

    assert (done.returncode, "VERIFIED" in done.stdout) == (0, True), done.stderr
    assert (places(table), table.writes(plan)) == (_GAP, 1)
    (shown,) = kgroup("catchup", "show", plan, "-o", "json").data
    totals = shown["totals"]
    assert (totals["delivered_count"], totals["possible_duplicate_count"]) == (80, 0)
