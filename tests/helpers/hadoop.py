"""Hadoop on this machine: a YARN whose containers are real processes, and an HDFS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from kgroup.catchup.spark.ready import DriverSetup
from kgroup.sandbox.cluster import cache_directory
from kgroup.sandbox.manifest import sandbox_manifest
from tests.helpers.java import fetched, manifest_of
from tests.helpers.places import DATA
from tests.helpers.waiting import wait_for


@contextmanager
def yarn(ready: DriverSetup, directory: Path) -> Iterator[Path]:
    """The configuration of Hadoop's clients, in ``directory``; the containers work below it, and end with the block."""
    with _running("MiniYarn", ready, directory):
        yield directory / "yarn-site.xml"


@contextmanager
def hdfs(ready: DriverSetup, directory: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The URI of an HDFS and its process; its files are below ``directory``."""
    with _running("MiniHdfs", ready, directory) as process:
        (uri,) = (each.text for each in ElementTree.parse(directory / "core-site.xml").iter("value"))
        assert uri is not None
        yield uri, process


@contextmanager
def _running(program: str, ready: DriverSetup, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of tests/data that stores in ``directory``, prints READY, and ends with its input."""
    needed = manifest_of(DATA / "hadoop_jars.txt")
    version = next(each.revision for each in needed.artifacts if each.module == "hadoop-client-minicluster")
    jars = needed.paths(fetched(needed, cache_directory() / f"hadoop-{version}", sandbox_manifest()))
    class_path = ":".join(map(str, (*jars, f"{ready.home}/jars/*")))
    java = [str(ready.java.executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", class_path]
    log = directory / f"{program}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, str(DATA / f"{program}.java"), str(directory)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=directory,
        )
    try:

        def is_ready() -> bool:
            text = log.read_text(encoding="utf-8", errors="replace")
            assert process.poll() is None, text[-4000:]
            return "READY" in text

        wait_for(is_ready, program, 180.0)
        yield process
    finally:
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
