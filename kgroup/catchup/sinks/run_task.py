"""What runs in a worker: one task of a plan, from the progress in the ledger to its end.

Importable with confluent-kafka and msgspec alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self

from kgroup.catchup.sinks import command, files, handlers, python, topic
from kgroup.catchup.worker.dead_letter_reader import DeadLetterReader
from kgroup.catchup.worker.rack import in_own_rack
from kgroup.catchup.worker.task_control import TaskControl
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_run import TaskReader, TaskRun
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.cluster.reader.batches import BatchReader
from kgroup.groups.catchup.dead_letters import TO_SOURCE, Redrive
from kgroup.support.errors import UsageError


class FollowingReader(TaskReader, Protocol):
    """A reader that keeps what is not committed."""

    def follow(self, run: TaskRun) -> None:
        """Read the committed positions from this run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def run_task(
    spec: TaskSpec, filtered: FollowingReader | None = None, stop: Callable[[], bool] = lambda: False
) -> TaskResult:
    """Deliver a task's chunks and commit their progress, until all are delivered.

    It first takes the task's transactional id, which ends an earlier attempt, and checks that its runner is still the
    plan's. ``filtered`` replaces the reader if not all records are wanted. When the runner ends, or ``stop`` returns
    True, which is called every 0.1 s, records under way are committed and the result is ``interrupted``.
    Offsets below the log start are counted as lost, and reading continues after them. A record that was refused for
    good stops its partition. Raises Refused with code ``superseded``, and errors of reading (``BatchReader.batches``),
    of the ledger (``TaskLedger``), of a handler that cannot run at all (``handler-missing``, ``handler-timeout``) and
    of files (``file``, ``disk-full``).
    """
    deliver = _WAYS.get(spec.sink)
    if deliver is None:
        raise UsageError(f"unknown sink {spec.sink!r}")
    reading: AbstractContextManager[TaskReader] = filtered or BatchReader(
        in_own_rack(spec.config), timeout_s=spec.timeout_s
    )
    with (
        TaskLedger(spec.config, spec.work, timeout_s=spec.timeout_s) as ledger,
        reading as reader,
        TaskControl(spec, ledger) as control,
    ):
        redrive = Redrive.decode(spec.options)
        if redrive is not None:
            reader = DeadLetterReader(reader, redrive, spec.sink)
        run = TaskRun(spec, ledger, reader, control, stop)
        if filtered is not None:
            filtered.follow(run)
        deliver(run)
        return run.result()


_WAYS: dict[str, Callable[[TaskRun], None]] = {
    "topic": topic.deliver,
    TO_SOURCE: topic.deliver,
    "files": files.deliver,
    "command": lambda run: handlers.deliver(run, command.handlers(run.spec)),
    "python": lambda run: handlers.deliver(run, python.handlers(run.spec)),
}
