"""A standalone Spark cluster on this machine, from the PySpark wheel alone, whose Python does not have kgroup."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Sequence
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
        return executors_in(*self.work)


def executors_in(*places: Path) -> list[int]:
    """Spark's executors, of any cluster, that work in these directories."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_text(errors="replace").split("\0")
            inside = (entry / "cwd").readlink()
        except OSError:
            continue
        is_java = Path(arguments[0]).name == "java"  # YARN starts it by a shell that has the same words
        if (
            is_java
            and any(place in inside.parents for place in places)
            and any("ExecutorBackend" in a for a in arguments)
        ):
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


def archived_python(directory: Path) -> Path:
    """An archive of a Python with what a worker needs, for ``spark.archives``: a virtual environment with packages."""
    environment = directory / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in _HAVE[2:]:
        found = importlib.util.find_spec(name)
        assert found
        assert found.submodule_search_locations
        source = Path(found.submodule_search_locations[0])
        for each in (source, *source.parent.glob(f"{name}.libs")):
            shutil.copytree(each, packages / each.name)
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(environment, ".")
    return archive


def on_another_disk(*hidden: Path) -> list[str]:
    """The words before a command for which these directories are empty, as on a machine that does not have them."""
    script = "".join(f"mount -t tmpfs none '{path}' && " for path in hidden)
    return ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", f'{script}exec "$@"', "sh"]


@contextmanager
def running_cluster(
    ready: DriverSetup, directory: Path, workers: int = 2, before_worker: Sequence[str] = ()
) -> Iterator[Cluster]:
    """A master and its workers, with one core each; gone when the block ends, their executors too."""
    started: list[subprocess.Popen[bytes]] = []
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment |= {"SPARK_HOME": str(ready.home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    java = [str(ready.java.executable), *_FLAGS, "-cp", f"{ready.home}/jars/*"]
    port, page = ports.choose(2)

    def start(name: str, *arguments: str, before: Sequence[str] = ()) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as output:
            started.append(
                subprocess.Popen(
                    [*before, *java, *arguments],
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
        address = f"spark://127.0.0.1:{port}"
        logs = [start(one.name, *worker, "-d", str(one), address, before=before_worker) for one in work]
        for log in logs:
            wait_for(lambda log=log: "registered with master" in log.read_text(), f"{log.name} registered", 180.0)  # type: ignore[misc]
        yield Cluster(f"spark://127.0.0.1:{port}", work, python_without_kgroup(directory))
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(20)
