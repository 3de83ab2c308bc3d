"""Finds a Java that can run Kafka: ``JAVA_HOME`` first, then ``PATH``; and which of our options it can take."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from kgroup.support.errors import Refused, refusal_code

NO_JAVA = refusal_code("no-java", "catchup", "There is no Java 17 or newer.", "Install Java, or set JAVA_HOME.")

OLDEST = 17
"""Kafka 4's brokers need Java 17 (KIP-1013)."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ASKING_TIMEOUT_S = 20
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


class Java(msgspec.Struct, frozen=True):
    """A Java executable, its major version, and the full output of ``java -version``."""

    executable: Path
    major: int
    description: str


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that is new enough. Raises Refused [no-java], with the places that were searched."""
    tried: list[str] = []
    for place, executable in _candidates(environment):
        if executable is None:
            tried.append(place)
            continue
        java = _ask(executable)
        if java is None:
            tried.append(f"{place}: {executable} does not print its version")
        elif java.major < OLDEST:
            tried.append(f"{place}: {executable} is Java {java.major}, too old")
        else:
            return java
    raise Refused(
        f"the sandbox needs Java {OLDEST} or newer",
        code=NO_JAVA,
        details=tuple(tried),
        hint=f"Install one (Debian: openjdk-{OLDEST}-jre-headless), or set JAVA_HOME.",
    )


def with_one_collector(options: Sequence[str], environment: Mapping[str, str], *others: str) -> tuple[str, ...]:
    """``options`` of ours, without the garbage collector if the user chose one: Java does not start with two.

    The user's options are in the variables that Java reads, and in ``others``.
    """
    of_user = " ".join([*(environment.get(name, "") for name in _OPTION_VARIABLES), *others])
    if not _COLLECTOR.search(of_user):
        return tuple(options)
    return tuple(option for option in options if not _COLLECTOR.fullmatch(option))


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """The places to search, each with its executable; None, with a text that explains it, if it has none."""
    home = environment.get("JAVA_HOME")
    if not home:
        yield "JAVA_HOME is not set", None
    elif os.access(in_home := Path(home) / "bin" / "java", os.X_OK):
        yield "JAVA_HOME", in_home
    else:
        yield f"JAVA_HOME={home} has no bin/java", None
    path = environment.get("PATH", "")
    executable = shutil.which("java", path=path)
    yield ("PATH", Path(executable)) if executable else (f"no java in PATH={path}", None)


def _ask(executable: Path) -> Java | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_ASKING_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = answer.stderr + answer.stdout
    version = _VERSION.search(output)
    return Java(executable, int(version[1]), output) if version and answer.returncode == 0 else None
