"""What runs in Spark's Python workers: one task with its secrets. Needs no pyspark.

A task that fails returns its error. If it raised it, Spark would retry the task, and the cause would be lost in a Java
stack. So Spark retries only tasks whose process died.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.worker.failure import Failure, failure_of

TaskWork = Callable[[Any], Any]
"""Runs a task: ``spec -> result``."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The result of a task, or its failure.

    Both are None if it had to be killed: the ledger has what it did.
    """

    task: int
    result: Any = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class TaskParcel:
    """What is sent to the workers: of each task the packed pair of its work and itself; each unpacks only its own.

    Its ``repr`` shows no contents.
    """

    packed: tuple[bytes, ...]
    numbers: tuple[int, ...]

    def __repr__(self) -> str:
        return f"TaskParcel({len(self.packed)} tasks)"


def replay(spec: Any) -> Any:
    """The ``TaskWork`` of a catch-up: read the task's chunks and deliver them."""
    from kgroup.catchup.sinks.run_task import run_task

    return run_task(spec)


def work_partition(parcel: TaskParcel, partition: int, instead: TaskWork | None = None) -> list[TaskAnswer]:
    """Run the task of this Spark partition: its own work, or another one ``instead``."""
    number = parcel.numbers[partition]
    try:
        work, spec = pickle.loads(zlib.decompress(parcel.packed[partition]))
        return [TaskAnswer(number, (instead or work)(spec))]
    except Exception as error:
        return [TaskAnswer(number, failure=failure_of(error))]
