"""A class data archive for the driver's JVM, made once per Java and PySpark, and how that JVM was started.

It takes some 10 s and 70 MB to make, and saves a second at every start. Whatever goes wrong with it only costs that.
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
"""What spark-submit sets for the JVM."""

_SHAPES_THE_COMMAND = (
    "SPARK_",
    "_SPARK_",
    "PYSPARK_SUBMIT_ARGS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "JDK_JAVA_OPTIONS",
)
_MAKERS: list[subprocess.Popen[bytes]] = []
"""Those that make one: they outlive this process, and Python takes one that is dropped for forgotten."""

_HARMLESS = ("SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")


@dataclass(frozen=True, slots=True)
class Recorded:
    """How spark-submit started the JVM that made the archive: its options, class path, and variables."""

    options: tuple[str, ...]
    class_path: str
    environment: dict[str, str]


def key(ready: DriverSetup) -> str:
    """Of an archive: it fits no other build of Java, and no other jars (HotSpot compares their sizes and times)."""
    said = hashlib.sha256(f"{_FORMAT}\n{ready.java.executable.resolve()}\n{ready.java.description}\n".encode())
    for jar in ready.jars:
        status = jar.stat()
        said.update(f"{jar}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return said.hexdigest()[:20]


def path(ready: DriverSetup) -> Path:
    """Where the archive of this Java and these jars is, or would be."""
    return cache_dir() / "spark" / f"{key(ready)}.jsa"


def options(archive: Path) -> tuple[str, ...]:
    """Java's options that use it; one that does not fit is passed over in silence."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET)


def making(archive: Path) -> tuple[str, ...]:
    """Java's options that make it when the JVM ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIET)


def recorded(archive: Path) -> Recorded | None:
    """What was noted when it was made; None where that can't be read."""
    try:
        found = json.loads(archive.with_suffix(".json").read_text(encoding="utf-8"))
        return Recorded(tuple(found["options"]), found["class_path"], dict(found["environment"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def may_start_directly(ready: DriverSetup, conf: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether spark-submit would run what it ran for the archive: nobody has said anything that it looks at."""
    shaped = any(name.startswith(_SHAPES_THE_COMMAND) and name not in _HARMLESS for name in environment)
    configured = any((ready.home / "conf").glob("*"))
    return not shaped and not configured and not any(named.startswith("spark.driver.") for named in conf)


def forget(archive: Path) -> None:
    """Remove one that nothing starts with."""
    for part in (archive, archive.with_suffix(".json")):
        with suppress(OSError):
            part.unlink()


def note(
    archive: Path, options: Sequence[str], added: Sequence[str], class_path: str, environment: Mapping[str, str]
) -> None:
    """Write down how the JVM was started whose end makes ``archive``; ``added`` are the options of our own."""
    kept = [option for option in options if option not in added]
    named = {name: environment[name] for name in ENVIRONMENT if name in environment}
    archive.with_suffix(".json").write_text(
        json.dumps({"options": kept, "class_path": class_path, "environment": named}), encoding="utf-8"
    )


def make_in_background(ready: DriverSetup) -> bool:
    """Let a process of its own make the archive, which outlives this one; whether it was started."""
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
            cwd=Path(__file__).parents[3],  # where the package is, for one that is not installed
        )
        _MAKERS.append(maker)
    except OSError:
        return False
    return True
