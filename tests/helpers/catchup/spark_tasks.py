"""Tasks for tests of Spark: they need no Kafka."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import kgroup
from kgroup.groups.catchup.model import Chunk
from kgroup.support.errors import Refused


@dataclass(frozen=True, slots=True)
class Task:
    """What stands for a TaskSpec; ``directory`` is where test and worker leave signs for each other."""

    number: int
    chunks: tuple[Chunk, ...]
    directory: str = ""
    secret: str = field(default="", repr=False)


def task(number: int, directory: Path | str = "", *, secret: str = "", topic: str = "orders") -> Task:
    """A task of two chunks with ten offsets each, of the partition that has its number."""
    chunks = tuple(Chunk(topic, number, 10 * i, 10 * i + 10, 2 * number + i) for i in range(2))
    return Task(number, chunks, str(directory), secret)


def counting(spec: Task) -> tuple[int, int]:
    """Its number, and offsets of all its chunks."""
    return spec.number, sum(chunk.end - chunk.start for chunk in spec.chunks)


def failing(spec: Task) -> int:
    """Task 1 is refused and task 2 has a bug."""
    leave(spec, "began")
    if spec.number == 1:
        raise Refused("task 1 of p7: too late", code="superseded", details=("it was",), hint="resume")
    return 1 // (2 - spec.number)


def waiting(spec: Task) -> str:
    """Waits for the sign ``go``, or ``stop``."""
    leave(spec, "began", str(os.getpid()))
    while not sign(spec, "stop").exists():
        if sign(spec, "go").exists():
            return "went"
        time.sleep(0.01)
    leave(spec, "stopped")
    return "stopped"


def deaf(spec: Task) -> None:
    """Never ends."""
    leave(spec, "began", str(os.getpid()))
    threading.Event().wait()


def where(spec: Task) -> tuple[str, bool]:
    """Where kgroup comes from in a worker, and whether the tests could be imported there."""
    return kgroup.__file__, importlib.util.find_spec("tests") is not None


def worker_imports(spec: Task) -> list[str]:
    """What the real task imports, in a worker."""
    importlib.import_module("kgroup.catchup.sinks.run_task")
    return sorted(name for name in ("kafka", "pyarrow", "pandas", "rich", "typer", "yaml") if name in sys.modules)


def dying(spec: Task) -> None:
    """Its process ends, each time."""
    os.kill(os.getpid(), 9)


def sign(spec: Task, name: str) -> Path:
    """The file of a sign, of one task."""
    return Path(spec.directory) / f"{spec.number}-{name}"


def leave(spec: Task, name: str, text: str = "") -> None:
    """Leave a sign, whole; each attempt adds a line."""
    with sign(spec, name).open("a") as file:
        file.write(f"{text}\n")


def pids(spec: Task) -> list[int]:
    """Of the processes that began the task, in their order."""
    file = sign(spec, "began")
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []
