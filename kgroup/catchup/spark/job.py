"""Run tasks on Spark: one partition per task, progress from the ledger, and a stop that lets tasks commit."""

from __future__ import annotations

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kgroup.catchup.spark.driver import Driver
from kgroup.catchup.spark.failures import explain, was_cancelled
from kgroup.catchup.spark.in_worker import TaskAnswer, TaskParcel, TaskWork, replay, work_partition
from kgroup.catchup.spark.progress import ProgressBoard, ProgressTotals
from kgroup.catchup.spark.running_job import Note, running_job
from kgroup.catchup.spark.session import DriverSession, SparkFailed
from kgroup.catchup.worker.task_spec import TaskResult
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.support.errors import KgroupError

LOOK_EVERY_S = 0.25
GRACE_S = 10.0
"""How long tasks may take to end after they are asked to; then Spark kills them."""

_CANCELLED_WITHIN_S = 15.0
_TASKS_A_PARCEL = 50


JobNote = Callable[[Any], Any]
"""Answers what a job asks from Spark's driver; it gets a ``Note`` at least."""

TaskRunner = Callable[[DriverSession, JobNote], Iterable[TaskAnswer]]
"""Runs a job with ``DriverSession.call``; returns the answers of its tasks in their order."""


class TaskEnvelope(Protocol):
    """A task as it is sent to workers: it can be pickled, and its repr shows no secret."""

    @property
    def number(self) -> int:
        """The task's number in its plan."""

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks to read, in this order."""


class JobListeners(msgspec.Struct, frozen=True):
    """Callbacks of a running job. All are optional, and called on the caller's thread, four times a second.

    ``on_progress`` gets the progress. ``stop`` returns whether to end early. ``ledger`` returns each chunk's progress
    in the ledger. ``note`` gets messages for the user. ``interrupt`` is called once, after ctrl-C or an error: it asks
    the tasks to end, and returns whether they can know it.
    """

    on_progress: Callable[[ProgressTotals], None] | None = None
    stop: Callable[[], bool] | None = None
    ledger: Callable[[], Mapping[int, ChunkProgress]] | None = None
    note: Callable[[str], None] | None = None
    interrupt: Callable[[], bool] | None = None


def run(
    session: DriverSession,
    tasks: Sequence[TaskEnvelope],
    watching: JobListeners | None = None,
    *,
    work: TaskWork = replay,
    run_tasks: TaskRunner | None = None,
    grace_s: float = GRACE_S,
) -> tuple[TaskAnswer, ...]:
    """Run each task in a Spark worker, and return their answers in the same order.

    ``run_tasks`` runs them in its own kind of job instead of ``work``; it is called on another thread. Spark retries a
    task only if its process died. A task's own error is in its answer, and the other tasks continue. If ``stop``
    returns True, and on ctrl-C and SIGTERM (which are raised again), the tasks may end within ``grace_s``.
    Raises what ``session.started`` raises; KgroupError with code ``spark-job`` if a task's process died repeatedly, and
    with ``spark-gone`` if the JVM died; Refused with code ``spark-workers`` if the workers lack something. After any of
    these the ledger has what was delivered.
    """
    if not tasks:
        return ()
    watching = watching or JobListeners()
    session.started()
    ledger = watching.ledger() if watching.ledger else {}
    board = ProgressBoard({task.number: task.chunks for task in tasks}, ledger, now_s=time.monotonic())
    numbers = tuple(task.number for task in tasks)
    if run_tasks is None:
        parcels = _parcels(tasks, work)
        job = _Job(session, numbers, lambda session, asked: session.call(collected, parcels, asked=asked))
    else:
        job = _Job(session, numbers, run_tasks)
    job.start()
    return _followed(job, board, watching, grace_s)


def _parcels(tasks: Sequence[TaskEnvelope], work: TaskWork) -> tuple[TaskParcel, ...]:
    """Pack tasks into parcels: a worker gets its task's whole parcel, so one parcel for all would be too large."""
    from pyspark import cloudpickle

    # cloudpickle, since plain pickle cannot send what is defined in a script.
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    packed = tuple(zlib.compress(dumps((work, task)), level=1) for task in tasks)
    numbers = tuple(task.number for task in tasks)
    cuts = [slice(at, at + _TASKS_A_PARCEL) for at in range(0, len(tasks), _TASKS_A_PARCEL)]
    return tuple(TaskParcel(packed[cut], numbers[cut]) for cut in cuts)


def _followed(job: _Job, board: ProgressBoard, watching: JobListeners, grace_s: float) -> tuple[TaskAnswer, ...]:
    try:
        while not job.done.wait(LOOK_EVERY_S):
            _show(board, watching, job)
            if watching.stop and watching.stop():
                job.end(grace_s)
                break
    except BaseException:
        try:
            asked = watching.interrupt is not None and watching.interrupt()
        except BaseException:  # a second ctrl-C
            job.cancel()
            raise
        job.end(grace_s if asked else 0)
        raise
    answers = job.answers()
    for answer in answers:
        if isinstance(answer.result, TaskResult):  # newer than what was read of the ledger
            board.ledger({one.chunk: one for one in answer.result.progress})
    if watching.on_progress:
        watching.on_progress(board.totals(time.monotonic()))
    return answers


def _show(board: ProgressBoard, watching: JobListeners, job: _Job) -> None:
    if watching.ledger:
        board.ledger(watching.ledger())
    if watching.on_progress:
        watching.on_progress(board.totals(time.monotonic()))
    if (note := job.take_note()) is not None and watching.note:
        watching.note(note)


class _Job:
    """Spark's job on its own thread, so that the main thread can handle signals."""

    def __init__(self, session: DriverSession, numbers: tuple[int, ...], run_tasks: TaskRunner) -> None:
        self.done = threading.Event()
        self._session, self._numbers, self._run_tasks = session, numbers, run_tasks
        self._note: str | None = None
        self._answers: tuple[TaskAnswer, ...] = ()
        self._failure: Exception | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name="spark job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answers = tuple(self._run_tasks(self._session, self._noted))
        except Exception as error:
            self._failure = error
        finally:
            self.done.set()

    def _noted(self, note: Note) -> None:
        self._note = note.text

    def take_note(self) -> str | None:
        """A message for the user; it is returned once."""
        note, self._note = self._note, None
        return note

    def end(self, grace_s: float) -> None:
        """Wait for tasks that may end themselves, then cancel the job, then kill Spark."""
        try:
            if self.done.wait(grace_s):
                return
        finally:  # after a second ctrl-C, do not wait any longer
            if not self.done.is_set():
                self.cancel()
        if not self.done.wait(_CANCELLED_WITHIN_S):
            self._session.kill()
            self.done.wait(_CANCELLED_WITHIN_S)

    def cancel(self) -> None:
        """Cancel the job; do not wait for it, since a stopped JVM does not answer."""
        self._cancelled = True
        self._session.cancel_job()

    def answers(self) -> tuple[TaskAnswer, ...]:
        """The tasks' answers; an empty answer for each task if the job was cancelled."""
        if self._failure is None and self.done.is_set():
            return self._answers
        if self._cancelled:
            return tuple(TaskAnswer(number) for number in self._numbers)
        assert self._failure is not None
        if not isinstance(self._failure, SparkFailed):
            raise self._failure
        message = self._failure.message
        if was_cancelled(message):
            raise KgroupError("another client cancelled the Spark job", code="spark-job") from None
        raise explain(message, tasks=self._numbers) from None


def collected(driver: Driver, parcels: tuple[TaskParcel, ...]) -> list[TaskAnswer]:
    """Run the tasks of these parcels, in the driver."""
    with running_job(driver):
        context = driver.context
        parts = [
            context.parallelize([], len(parcel.packed)).mapPartitionsWithIndex(_mapper(parcel)) for parcel in parcels
        ]
        answers: list[TaskAnswer] = (parts[0] if len(parts) == 1 else context.union(parts)).collect()
        return answers


def _mapper(parcel: TaskParcel) -> Callable[[int, Iterable[Any]], list[TaskAnswer]]:
    def work(partition_id: int, nothing: Iterable[Any]) -> list[TaskAnswer]:
        # Read the input to its end. Otherwise Spark starts a new process for the next task, which takes 0.3 s.
        deque(nothing, maxlen=0)
        return work_partition(parcel, partition_id)

    return work
