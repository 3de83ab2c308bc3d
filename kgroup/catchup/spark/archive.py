"""A class data archive (CDS) for the driver's JVM, made once per Java and PySpark, and how that JVM was started.

Making it takes some 10 s and 70 MB; it saves a second at every start. A failure only costs that second.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kgroup.catchup.spark.ready import DriverSetup
from kgroup.settings.paths import cache_dir

_FORMAT = 1
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
ENVIRONMENT = ("SPARK_SCALA_VERSION", "SPARK_ENV_LOADED", "SPARK_CONF_DIR", "PYTHONHASHSEED")
"""Variables that spark-submit sets for the JVM."""

_SHAPES_THE_COMMAND = (
    "SPARK_",
    "_SPARK_",
    "PYSPARK_SUBMIT_ARGS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "JDK_JAVA_OPTIONS",
)
_MAKERS: list[subprocess.Popen[bytes]] = []
"""Background processes that make an archive; they outlive this one. Python warns about dropped ones."""

_HARMLESS = ("SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")


@dataclass(frozen=True, slots=True)
class Recorded:
    """How spark-submit started the JVM that made the archive: options, class path, environment variables."""

    options: tuple[str, ...]
    class_path: str
    environment: dict[str, str]


def key(ready: DriverSetup) -> str:
    """The archive's key: an archive fits one build of Java and the same jars (HotSpot compares sizes and times)."""
    said = hashlib.sha256(f"{_FORMAT}\n{ready.java.executable.resolve()}\n{ready.java.description}\n".encode())
    for jar in ready.jars:
        status = jar.stat()
        said.update(f"{jar}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return said.hexdigest()[:20]


def path(ready: DriverSetup) -> Path:
    """Where the archive of this Java and these jars is, or would be."""
    return cache_dir() / "spark" / f"{key(ready)}.jsa"


def options(archive: Path) -> tuple[str, ...]:
    """Java options that use the archive. Java silently ignores one that does not fit."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET)


def making(archive: Path) -> tuple[str, ...]:
    """Java options that make the archive when the JVM ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIET)


def recorded(archive: Path) -> Recorded | None:
    """What ``note`` recorded for the archive; None if it cannot be read."""
    try:
        found = json.loads(archive.with_suffix(".json").read_text(encoding="utf-8"))
        return Recorded(tuple(found["options"]), found["class_path"], dict(found["environment"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def may_start_directly(ready: DriverSetup, conf: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether spark-submit would run the same command as for the archive: the user set nothing that it reads."""
    shaped = any(name.startswith(_SHAPES_THE_COMMAND) and name not in _HARMLESS for name in environment)
    configured = any((ready.home / "conf").glob("*"))
    return not shaped and not configured and not any(named.startswith("spark.driver.") for named in conf)


def remove(archive: Path) -> None:
    """Remove an archive with which Java does not start."""
    for part in (archive, archive.with_suffix(".json")):
        with suppress(OSError):
            part.unlink()


def note(
    archive: Path, options: Sequence[str], added: Sequence[str], class_path: str, environment: Mapping[str, str]
) -> None:
    """Record how the JVM that makes ``archive`` was started, without our own options ``added``."""
    kept = [option for option in options if option not in added]
    named = {name: environment[name] for name in ENVIRONMENT if name in environment}
    archive.with_suffix(".json").write_text(
        json.dumps({"options": kept, "class_path": class_path, "environment": named}), encoding="utf-8"
    )


def make_in_background(ready: DriverSetup) -> bool:
    """Start a process that makes the archive and outlives this one; whether it was started."""
    command = [sys.executable, "-m", "kgroup.catchup.spark.rehearsal"]
    try:
        archive = path(ready)
        archive.parent.mkdir(parents=True, exist_ok=True)
        if archive.exists() or not os.access(archive.parent, os.W_OK):
            return False
        maker = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=Path(__file__).parents[3],  # so that a package that is not installed is found
        )
        _MAKERS.append(maker)
    except OSError:
        return False
    return True
