"""Makes the class data archive: a small job in a JVM, which writes its loaded classes when it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from kgroup.catchup.spark import archive
from kgroup.catchup.spark.ready import DriverSetup, check
from kgroup.catchup.spark.session import QUICK, DriverSession
from kgroup.catchup.spark.settings import SparkSettings

_KEPT = 3
"""How many archives are kept. They are large, and those of older versions are not used again."""

_WRITTEN_WITHIN_S = 180.0


def make(ready: DriverSetup) -> Path | None:
    """Make the archive unless it exists or another process is making it; None on any failure."""
    made = archive.path(ready)
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with (made.parent / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if made.exists():
                return made
            for leftover in made.parent.glob("making-*"):  # of a process that was killed: this one holds the lock
                leftover.unlink()
            aside = made.with_name(f"making-{made.name}")
            _rehearse(ready, aside)
            aside.with_suffix(".json").replace(made.with_suffix(".json"))
            aside.replace(made)
            _remove_old(made.parent)
            return made
    except Exception:  # the archive only makes starts quicker
        return None


def _rehearse(ready: DriverSetup, aside: Path) -> None:
    """Do what every replay does with Spark, without Kafka."""
    flags = (*QUICK, *archive.making(aside))
    with DriverSession(SparkSettings("local[1]", app="kgroup rehearsal"), ready, jvm_options=flags) as session:
        context = session.context()
        context.parallelize([], 2).mapPartitionsWithIndex(_nothing).collect()
        java = context._jvm.java.lang
        environment = {name: java.System.getenv(name) for name in archive.ENVIRONMENT}
        archive.note(
            aside,
            list(java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
            flags,
            java.System.getProperty("java.class.path"),
            {name: value for name, value in environment.items() if value},
        )
        session.close(wait_s=_WRITTEN_WITHIN_S)


def _nothing(index: int, _: Any) -> list[int]:
    return [index]


def _remove_old(directory: Path) -> None:
    found = sorted(directory.glob("*.jsa"), key=lambda made: made.stat().st_mtime, reverse=True)
    for old in found[_KEPT:]:
        archive.remove(old)


def main() -> None:
    """Make the archive for this environment, at the lowest CPU priority."""
    os.nice(19)
    make(check(SparkSettings("local[1]"), timeout_s=30))


if __name__ == "__main__":
    main()
