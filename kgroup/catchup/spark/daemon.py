"""The process of a local master that forks its Python workers: PySpark's own daemon, with what tasks import.

Spark puts zips of PySpark first in the path of its workers, and Python does not cache compiled code from a zip: it took
0.5 s to compile it at each start (Spark 4.3). The same PySpark is installed on this machine, already compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from kgroup.settings.environment import variable


def without_zips(path: Sequence[str], home: Path) -> list[str]:
    """Python's path without Spark's zips and jars, if the PySpark that is left is that of ``home``; else all of it.

    A ``SPARK_HOME`` of the user's has another PySpark, which may be another version.
    """
    left = [entry for entry in path if Path(entry).parent not in (home / "python" / "lib", home / "jars")]
    spec = PathFinder.find_spec("pyspark", left)
    is_same = spec is not None and spec.origin is not None and Path(spec.origin).parent == home
    return left if is_same and PathFinder.find_spec("py4j", left) is not None else list(path)


def main() -> None:
    """Run PySpark's daemon until Spark ends it."""
    if home := variable("SPARK_HOME"):
        sys.path[:] = without_zips(sys.path, Path(home))
    from pyspark.daemon import manager

    # Once, and not in each worker. What is missing is reported by the task that needs it.
    with suppress(ImportError):
        import kgroup.catchup.sinks.run_task
        import kgroup.catchup.spark.in_worker  # noqa: F401
    manager()


if __name__ == "__main__":
    main()
