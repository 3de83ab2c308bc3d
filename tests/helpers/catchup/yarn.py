"""A YARN on this machine (``MiniYarn.java``), whose containers are real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgroup.catchup.spark.ready import DriverSetup
from kgroup.sandbox.cluster import cache_directory
from kgroup.sandbox.manifest import sandbox_manifest
from tests.helpers.java import fetched, manifest_of
from tests.helpers.places import DATA
from tests.helpers.waiting import wait_for

_SITE = "yarn-site.xml"


@contextmanager
def yarn(ready: DriverSetup, directory: Path) -> Iterator[Path]:
    """The configuration of Hadoop's clients, in ``directory``; the containers work below it, and end with the block."""
    needed = manifest_of(DATA / "yarn_jars.txt")
    version = next(each.revision for each in needed.artifacts if each.module == "hadoop-client-minicluster")
    jars = needed.paths(fetched(needed, cache_directory() / f"hadoop-{version}", sandbox_manifest()))
    class_path = ":".join(map(str, (*jars, f"{ready.home}/jars/*")))
    java = [str(ready.java.executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", class_path]
    log = directory / "yarn.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, str(DATA / "MiniYarn.java"), str(directory)],
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

        wait_for(is_ready, "YARN", 180.0)
        yield directory / _SITE
    finally:
        try:
            process.communicate(timeout=60)  # it ends with its input
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
