"""A class data archive for Spark's JVM: a start takes 4 s of CPU instead of 6, with a query 7 s instead of 19.

It is made once per PySpark and Java (35 s of CPU), in pytest's cache. Java ignores an archive that is missing or that
does not fit.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgroup.catchup.spark.driver import Driver
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings

_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUICK = "-XX:TieredStopAtLevel=1 -Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java's second compiler costs a test more than it gains."""


@contextmanager
def archive_in(directory: Path) -> Iterator[None]:
    """Every start of Spark uses the archive. Unless it exists, it is made beside the tests of the first process."""
    archive = directory / "spark.jsa"
    os.environ[_OPTIONS] = f"-XX:SharedArchiveFile={archive} {_QUICK}"
    with (directory / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield
            return
        if archive.exists() and archive.stat().st_mtime > _changed():
            yield
            return
        made = directory / "making.jsa"
        made.unlink(missing_ok=True)
        making = os.environ | {_OPTIONS: f"-XX:ArchiveClassesAtExit={made} {_QUICK}"}
        with subprocess.Popen([sys.executable, "-m", __name__, str(made), str(archive)], env=making) as process:
            yield
        assert process.returncode == 0


def _changed() -> float:
    """When Java or the directory of PySpark's jars last changed, in seconds since 1970."""
    ready = check(SparkSettings("local[1]"), timeout_s=30)
    return max(path.stat().st_mtime for path in (ready.java.executable.resolve(), ready.home / "jars"))


def _load(driver: Driver, directory: str) -> None:
    driver.context.parallelize([0], 1).map(abs).collect()
    rows = driver.sql().range(10).where("id % 2 = 0")
    rows.mapInPandas(lambda batches: batches, rows.schema).write.parquet(f"{directory}/rows")


def main() -> None:
    """Load the classes that replays need: run a job and a query with Python in it, and write a file."""
    settings = SparkSettings("local[1]", heavy=True)
    with DriverSession(settings, check(settings, timeout_s=30)) as session, tempfile.TemporaryDirectory() as directory:
        session.call(_load, directory)
        session.close(wait_s=120)
    made, archive = map(Path, sys.argv[1:])
    if made.exists():  # on a busy machine Java may be ended before it has written it: the next run tries again
        made.replace(archive)


if __name__ == "__main__":
    main()
