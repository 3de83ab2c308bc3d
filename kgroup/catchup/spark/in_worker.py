"""What runs in Spark's Python workers: one task with its secrets, which reports its progress. Needs no pyspark.

A task that fails returns its error. If it raised it, Spark would retry the task, and the cause would be lost in a Java
stack. So Spark retries only tasks whose process died.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.spark.progress_listener import LONGEST, ProgressEndpoint, Rate, decode_answer, encode_progress
from kgroup.catchup.worker.failure import Failure, failure_of
from kgroup.catchup.worker.task_progress import TaskProgress

TELL_EVERY_S = 0.25
_FIRST_ANSWER_S = 1.0

Tell = Callable[[TaskProgress], None]
MustStop = Callable[[], bool]
CurrentRate = Callable[[], Rate | None]
TaskWork = Callable[[Any, Tell, MustStop, CurrentRate], Any]
"""Runs a task: ``(spec, tell, stop, rate) -> result``. Calling ``tell``, ``stop`` and ``rate`` often is cheap."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The result of a task, or its failure.

    Both are None if it was asked to stop before it began, or had to be killed: the ledger has what it did.
    """

    task: int
    result: Any = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class TaskParcel:
    """What is sent to the workers; each unpacks only its own task. Its ``repr`` shows no contents."""

    work: TaskWork
    packed: tuple[bytes, ...]
    numbers: tuple[int, ...]
    endpoint: ProgressEndpoint | None

    def __repr__(self) -> str:
        return f"TaskParcel({len(self.packed)} tasks)"


def replay(spec: Any, tell: Tell, stop: MustStop, rate: CurrentRate) -> Any:
    """The ``TaskWork`` of a catch-up: read the task's chunks and deliver them."""
    from kgroup.catchup.sinks.run_task import run_task

    return run_task(spec, tell, stop, rate)


def work_partition(parcel: TaskParcel, partition: int, attempt: int) -> list[TaskAnswer]:
    """Run the task of this Spark partition. ``attempt`` rises with each of Spark's task attempts."""
    number = parcel.numbers[partition]
    with ProgressSender(parcel.endpoint, number, attempt) as sender:
        if sender.must_stop():
            return [TaskAnswer(number)]
        try:
            spec = pickle.loads(zlib.decompress(parcel.packed[partition]))
            return [TaskAnswer(number, parcel.work(spec, sender.send, sender.must_stop, sender.rate))]
        except Exception as error:
            return [TaskAnswer(number, failure=failure_of(error))]


class ProgressSender:
    """Sends the latest progress each quarter of a second and receives orders; without an endpoint, nothing.

    ``send`` never blocks and never fails: another thread does the network, and nothing depends on it. Entering waits up
    to a second for the first answer: many tasks may wait when the job is stopped, and a busy driver answers slowly.
    """

    def __init__(self, endpoint: ProgressEndpoint | None, task: int, attempt: int) -> None:
        self._endpoint, self._task, self._attempt = endpoint, task, attempt
        self._latest: TaskProgress | None = None
        self._stop = False
        self._rate: Rate | None = None
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._out: socket.socket | None = None
        self._thread = threading.Thread(target=self._send_reports, name="progress", daemon=True)

    def __enter__(self) -> ProgressSender:
        if self._endpoint is not None:
            self._thread.start()
            self._answered.wait(_FIRST_ANSWER_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if (out := self._out) is not None:
            self._send(out)
            with suppress(OSError):
                out.shutdown(socket.SHUT_RDWR)  # wakes the thread that receives
        if self._thread.ident is not None:
            self._thread.join(TELL_EVERY_S)

    def send(self, told: TaskProgress) -> None:
        """Store the progress; the thread sends it at its next turn."""
        self._latest = told

    def must_stop(self) -> bool:
        """Whether the driver has asked the task to stop."""
        return self._stop

    def rate(self) -> Rate | None:
        """The task's rate, as the driver sent it last; None: as the task began."""
        return self._rate

    def _send_reports(self) -> None:
        assert self._endpoint is not None
        try:
            family, _, _, _, address = socket.getaddrinfo(
                self._endpoint.host, self._endpoint.port, type=socket.SOCK_DGRAM
            )[0]
            with socket.socket(family, socket.SOCK_DGRAM) as out:
                out.connect(address)
                self._out = out
                while not self._ended.is_set():
                    self._report_and_listen(out)
        except OSError:  # the driver cannot be reached at all: progress comes from the ledger
            self._answered.set()

    def _report_and_listen(self, out: socket.socket) -> None:
        """Send the progress, then receive answers until the next turn."""
        assert self._endpoint is not None
        self._send(out)
        until = time.monotonic() + TELL_EVERY_S
        while (left_s := until - time.monotonic()) > 0 and not self._ended.is_set():
            out.settimeout(left_s)
            try:
                data = out.recv(LONGEST)
            except TimeoutError:
                return
            except OSError:  # no listener at that address, or not any more
                self._answered.set()
                self._ended.wait(left_s)
                return
            if (ordered := decode_answer(self._endpoint, data)) is not None:
                self._stop, self._rate = self._stop or ordered[0], ordered[1]
            self._answered.set()

    def _send(self, out: socket.socket) -> None:
        assert self._endpoint is not None
        with suppress(OSError):
            out.send(encode_progress(self._endpoint, self._task, self._attempt, self._latest))
