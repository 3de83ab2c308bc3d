"""The driver's side of progress reports: each task sends a datagram every 0.25 s.

The answer is whether to stop, and the rate. The next datagram replaces a lost one. If none gets through, progress comes
from the ledger, Spark ends the tasks, and their rate stays.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from kgroup.catchup.spark.progress import ProgressBoard
from kgroup.catchup.worker.task_progress import TaskProgress

LONGEST = 1_000
"""Maximum length of a datagram in bytes."""

_LOOK_EVERY_S = 0.2
_JOIN_S = 5.0
_FIELDS = 6


@dataclass(frozen=True, slots=True)
class ProgressEndpoint:
    """Where tasks send their progress. ``token`` shows both sides that the other belongs to this job."""

    host: str
    port: int
    token: str


def encode_progress(endpoint: ProgressEndpoint, task: int, attempt: int, told: TaskProgress | None) -> bytes:
    """A task's datagram; without ``told`` it only reports that the task is running."""
    counts = [] if told is None else [told.chunk, told.position, told.records, told.filtered, told.dead, told.size]
    return json.dumps([endpoint.token, task, attempt, *counts]).encode()


Rate = tuple[float | None, float | None]
"""Records and bytes per second of one task; None: no limit of that kind."""


def answer(endpoint: ProgressEndpoint, *, stop: bool, rate: Rate | None = None) -> bytes:
    """The driver's answer: whether to stop, and the rate in force; None: the one that the task began with."""
    return json.dumps([endpoint.token, stop, rate]).encode()


def decode_answer(endpoint: ProgressEndpoint, data: bytes) -> tuple[bool, Rate | None] | None:
    """What ``answer`` was made of; None for data that is not an answer of this job's driver."""
    match _unpacked(data):
        case [str(token), bool(stop), rate] if hmac.compare_digest(token.encode(), endpoint.token.encode()):
            pass
        case _:
            return None
    match rate:
        case [float() | int() | None as records, float() | int() | None as size]:
            return stop, (records, size)
        case _:
            return stop, None


class ProgressListener:
    """Receives reports on ``host`` and passes them to ``board``. A context manager; the tasks get ``endpoint``."""

    def __init__(self, board: ProgressBoard, *, bind: str, host: str) -> None:
        self._board = board
        self._socket = socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(_LOOK_EVERY_S)
        self._socket.bind((bind, 0))
        self.endpoint = ProgressEndpoint(host, self._socket.getsockname()[1], secrets.token_hex(16))
        self._stop = threading.Event()
        self._rate: Rate | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="progress", daemon=True)

    def __enter__(self) -> ProgressListener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with suppress(OSError), socket.socket(self._socket.family, socket.SOCK_DGRAM) as waking:
            waking.sendto(b"", ("::1" if self._socket.family == socket.AF_INET6 else "127.0.0.1", self.endpoint.port))
        self._thread.join(_JOIN_S)
        self._socket.close()

    def stop(self) -> None:
        """From now on, answer every report with the request to stop."""
        self._stop.set()

    def limit(self, rate: Rate | None) -> None:
        """From now on, answer every report with this rate."""
        self._rate = rate

    def _listen(self) -> None:
        while not self._closed:
            try:
                data, sender = self._socket.recvfrom(LONGEST + 1)
            except OSError:  # a timeout, or a network error for one of our answers
                continue
            if self._handle_report(data):
                with suppress(OSError):
                    self._socket.sendto(answer(self.endpoint, stop=self._stop.is_set(), rate=self._rate), sender)

    def _handle_report(self, data: bytes) -> bool:
        """Handle a datagram; False if it is not of a task of this job."""
        match _unpacked(data):
            case [str(token), int(task), int(attempt), *counts] if hmac.compare_digest(
                token.encode(), self.endpoint.token.encode()
            ):
                pass
            case _:
                return False
        now_s = time.monotonic()
        if not counts:
            self._board.alive(now_s)
        else:
            whole = [count for count in counts if isinstance(count, int) and count >= 0]
            if len(whole) == len(counts) == _FIELDS:
                self._board.update(task, attempt, TaskProgress(*whole), now_s)
        return True


def _unpacked(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # any machine may send anything here
        return None
