"""A standalone Spark cluster on this machine, from the PySpark wheel alone, whose Python does not have kgroup."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgroup.catchup.spark.ready import DriverSetup
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.sandbox import ports
from tests.helpers.waiting import wait_for

_HAVE = ("pyspark", "py4j", "confluent_kafka", "msgspec")
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    """Its address, the directories of its workers' applications, and the Python of its machines."""

    master: str
    work: tuple[Path, ...]
    python: Path

    def settings(self, **conf: str) -> SparkSettings:
        """Of a session on it: small and quick executors."""
        quick = {
            "spark.pyspark.python": str(self.python),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(_FLAGS[:2]),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        return SparkSettings(self.master, conf=tuple((quick | conf).items()))

    def executors(self) -> list[int]:
        """Of the processes that run tasks; each belongs to a worker."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (entry / "cmdline").read_text(errors="replace").split("\0")
                inside = (entry / "cwd").readlink()
            except OSError:
                continue
            if any(work in inside.parents for work in self.work) and any("ExecutorBackend" in a for a in arguments):
                found.append(int(entry.name))
        return found


def python_without_kgroup(directory: Path) -> Path:
    """A command like ``python`` that finds only what a worker needs: no site-packages, and not this directory."""
    packages = directory / "packages"
    packages.mkdir()
    for name in _HAVE:
        found = importlib.util.find_spec(name)
        assert found
        assert found.submodule_search_locations
        source = Path(found.submodule_search_locations[0])
        (packages / name).symlink_to(source)
        for libraries in source.parent.glob(f"{name}.libs"):  # what its wheel brought
            (packages / libraries.name).symlink_to(libraries)
    command = directory / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    command.chmod(0o755)
    return command


@contextmanager
def running_cluster(ready: DriverSetup, directory: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and its workers, with one core each; gone when the block ends, their executors too."""
    started: list[subprocess.Popen[bytes]] = []
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment |= {"SPARK_HOME": str(ready.home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    java = [str(ready.java.executable), *_FLAGS, "-cp", f"{ready.home}/jars/*"]
    port, page = ports.choose(2)

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as output:
            started.append(
                subprocess.Popen(
                    [*java, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    cwd=directory,
                )
            )
        return log

    try:
        start(
            "master", f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)
        )
        work = tuple(directory / f"work-{number}" for number in range(workers))
        worker = (f"{_DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "512m")
        logs = [start(one.name, *worker, "-d", str(one), f"spark://127.0.0.1:{port}") for one in work]
        for log in logs:
            wait_for(lambda log=log: "registered with master" in log.read_text(), f"{log.name} registered", 180.0)  # type: ignore[misc]
        yield Cluster(f"spark://127.0.0.1:{port}", work, python_without_kgroup(directory))
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(20)
