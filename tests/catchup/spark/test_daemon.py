"""Which PySpark the workers of a local master import, and from where."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from kgroup.catchup.spark.daemon import without_zips
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings

HOME = Path(pyspark.__file__).parent
INSTALLED = str(HOME.parent)


def _zips(home: Path) -> list[str]:
    lib = home / "python" / "lib"
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(home / "jars" / "spark-core_2.13.jar")]


def test_zips_are_left_out_where_the_same_pyspark_is_installed() -> None:
    assert without_zips(["/here", *_zips(HOME), "/own.zip", INSTALLED], HOME) == ["/here", "/own.zip", INSTALLED]


@pytest.mark.parametrize(
    ("home", "installed"),
    [(Path("/opt/spark"), [INSTALLED]), (HOME, [])],
    ids=["another SPARK_HOME", "a Python without PySpark"],
)
def test_any_other_path_is_kept(home: Path, installed: list[str]) -> None:
    path = [*_zips(home), *installed]

    assert without_zips(path, home) == path


@pytest.mark.soak
def test_workers_import_pyspark_compiled_and_begin_with_what_tasks_import() -> None:
    def look(_: object) -> tuple[str, bool]:
        import sys

        return sys.modules["pyspark"].__file__ or "", "kgroup.catchup.sinks.run_task" in sys.modules

    settings = SparkSettings("local[1]")
    with DriverSession(settings, check(settings, timeout_s=5)) as session:
        found = session.call(lambda driver: driver.context.parallelize([1], 1).map(look).collect())

    assert found == [(str(HOME / "__init__.py"), True)]
