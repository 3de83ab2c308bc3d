"""What runs in a worker: one task of a plan, from what the ledger says is delivered to its end.

Importable with confluent-kafka alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self

from kgroup.catchup.sinks import command, files, handlers, python, topic
from kgroup.catchup.worker.chunk_counts import ChunkCount
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.catchup.worker.task_run import TaskReader, TaskRun
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.cluster.reader.batches import BatchReader
from kgroup.support.errors import UsageError


class Sifter(TaskReader, Protocol):
    """A reader behind a filter. ``follow`` tells it what is committed by then, so that it need not keep it."""

    def follow(self, run: TaskRun) -> None:
        """Ask this run what is committed."""

    def sift(self, count: ChunkCount) -> ChunkCount:
        """A count with what was filtered out up to its position."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def run_task(
    spec: TaskSpec, tell: Callable[[TaskProgress], None], stop: Callable[[], bool], sifter: Sifter | None = None
) -> TaskResult:
    """Work through a task's chunks and write down how far they are, until all are delivered.

    It takes the task's transactional id first, so that an earlier attempt ends, and checks that the runner which sent
    it is still the plan's. ``tell`` is called while it runs; ``stop`` is asked every 0.1 s: where it says so, what is
    under way is committed, and the result says that it was interrupted. ``sifter`` is what it reads with where not all
    records are wanted. What the log start has passed is counted as
    lost, and reading goes on behind it; a record that was refused for good stops its partition. Raises Refused with
    code ``superseded``, the errors of reading (``BatchReader.batches``) and of the ledger (``TaskLedger``), those of a
    handler that can't run at all (``handler-missing``, ``handler-timeout``), and of files (``file``, ``disk-full``).
    """
    deliver = _WAYS.get(spec.sink)
    if deliver is None:
        raise UsageError(f"a worker knows no sink {spec.sink!r}")
    reading: AbstractContextManager[TaskReader] = sifter or BatchReader(spec.config, timeout_s=spec.timeout_s)
    with TaskLedger(spec.config, spec.work, timeout_s=spec.timeout_s) as ledger, reading as reader:
        if sifter is None:
            run = TaskRun(spec, ledger, reader, tell, stop)
        else:
            run = TaskRun(spec, ledger, reader, tell, stop, sifter.sift)
            sifter.follow(run)
        deliver(run)
        return run.result()


_WAYS: dict[str, Callable[[TaskRun], None]] = {
    "topic": topic.deliver,
    "files": files.deliver,
    "command": lambda run: handlers.deliver(run, command.handlers(run.spec)),
    "python": lambda run: handlers.deliver(run, python.handlers(run.spec)),
}
