"""``--to-command CMD``: records as lines of JSON to a shell command, which acknowledges them.

With ``--ack exit`` each batch gets its own process. Exit status 0 acknowledges the batch, which it must have read. With
``--ack line`` each lane has one process. Before it gets the next line, it answers with a line that names the record:
``ok orders:0:17`` or ``error orders:0:17: reason``.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate
from typing import IO

from kgroup.catchup.worker.handler_pool import Handler, HandlerRefusal
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.model.json_lines import NotWritable, ValueFormat, json_line
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError, UsageError
from kgroup.support.redact import contains_secret

_CANNOT_RUN = (126, 127)  # exit statuses of a shell for a command that cannot be run or was not found
_TAIL = 500
_LONGEST_ANSWER = 65_536
_CLOSING_S = 3.0
_LAST_WORDS_S = 1.0
_PIPE = 65_536
_LOOK_S = 0.01
_STALLED_S = 0.05

UNREAD = "handler-unread"
"""Error code: a handler ended with exit status 0 before it had read all of its input."""

WRONG_ANSWER = "handler-answer"
"""Error code: a handler answered without naming the record that it was given."""

_ANSWER = re.compile(r"(?s)(?:(ok)|error)(?:\s+([^\s:]+:\d+:\d+))?\s*(?::(.*))?")


def parse_answer(text: str, record: str) -> str | None:
    """The reason why the handler refused ``record``, from its answer; None if it accepted the record.

    ``error orders:0:17: no such customer`` refuses the record at offset 17. Raises KgroupError with code
    ``handler-answer`` for an answer that does not name ``record``, and HandlerRefusal for a line that is no answer.
    """
    answer = _ANSWER.fullmatch(text.strip())
    expected = f"'ok {record}' or 'error {record}: REASON'"
    if answer is None or (answer[3] is None) is not (answer[1] is not None):
        raise HandlerRefusal(f"{WRONG_ANSWER}: not {expected}: {text.strip()[:_TAIL]!r}")
    if answer[2] != record:
        raise KgroupError(
            f"the handler answered {text.strip()[:_TAIL]!r}, which does not name the record that kgroup gave it",
            details=(f"Expected: {expected}.", f"{record} does not count as delivered, and is delivered again."),
            hint="with --ack line, a handler prints 'ok TOPIC:PARTITION:OFFSET' or 'error TOPIC:PARTITION:OFFSET: "
            "REASON' once for each line, with the fields topic, partition and offset of that line",
            code=WRONG_ANSWER,
        )
    return None if answer[1] else answer[3].strip() or "error"


def check(options: Mapping[str, str]) -> None:
    """Raise UsageError for invalid options.

    Options: ``command``; ``ack`` is ``exit`` or ``line``; ``value-format`` is one of ``ValueFormat``.
    """
    if not options.get("command", "").strip():
        raise UsageError("--to-command requires a command")
    require_no_secret(options["command"])
    if options.get("ack", "exit") not in ("exit", "line"):
        raise UsageError(f"--ack {options['ack']}: choose one of exit or line")
    if options.get("value-format", "text") not in set(ValueFormat):
        raise UsageError(f"--value-format {options['value-format']}: choose one of {', '.join(ValueFormat)}")


def require_no_secret(command: str, secrets: Collection[str] = ()) -> None:
    """Raise UsageError, which does not repeat it, for a secret in the command: the ledger stores it as typed."""
    if contains_secret(command, secrets):
        raise UsageError(
            "--to-command: everyone who reads the ledger would see the secret in the command",
            hint="put the secret into an environment variable of Spark's workers, and write $NAME instead",
        )


def handlers(spec: TaskSpec) -> Callable[[], Handler]:
    """A factory for the handlers of a task. Raises as ``check``."""
    check(spec.options)
    return lambda: _Lines(spec) if spec.options.get("ack", "exit") == "line" else _Batches(spec)


class _Command:
    hangs_for_ever = False

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._command = spec.options["command"]
        self._form = ValueFormat(spec.options.get("value-format", "text"))
        self._timeout_s = spec.handling.timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill the process and everything it has started."""
        process = self._process
        if process is not None:
            _kill_all(process)

    def _line(self, record: ConsumerRecord) -> bytes:
        maybe = record.offset < self._spec.maybe_until(record.tp)
        try:
            return json_line(record, self._form, maybe_processed=maybe)
        except NotWritable as error:
            raise HandlerRefusal(f"not {self._form}: {error}", final=True, given=False) from error

    def _start(self, stdout: int, stderr: int | IO[bytes], stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                ("/bin/sh", "-c", self._command),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise self._missing(error.strerror or str(error)) from error
        self._process = process
        return process

    def _ended(self, status: int, said: bytes, *, given: bool = True) -> HandlerRefusal | KgroupError:
        """The error to raise for a process that ended with this status."""
        why = said.decode("utf-8", "replace").strip()[-_TAIL:]
        if status in _CANNOT_RUN:
            return self._missing(why)
        how = f"exit status {status}"
        if status < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-status).name}"
        return HandlerRefusal(f"handler-died: {how}" + (f": {why}" if why else ""), given=given)

    def _missing(self, why: str) -> KgroupError:
        return KgroupError(
            f"the command cannot be run: {self._command}",
            details=(why,) if why else (),
            hint="install it on each of Spark's workers",
            code="handler-missing",
        )

    def _too_slow(self) -> HandlerRefusal:
        return HandlerRefusal(f"handler-timeout: no answer within {self._timeout_s:g} s; the handler was killed")


class _Batches(_Command):
    """A handler with one process for each batch."""

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self.most = max(1, spec.handling.batch)

    def handle(self, records: Sequence[ConsumerRecord]) -> None:
        """Run the command on a batch: exit status 0 acknowledges all records, if the process has read them all."""
        lines = [self._line(record) for record in records]
        with ExitStack() as open_ones:
            said = open_ones.enter_context(tempfile.TemporaryFile())
            reading, writing = os.pipe()
            open_ones.callback(os.close, reading)
            with os.fdopen(writing, "wb", buffering=0) as into:
                process = self._start(subprocess.DEVNULL, said, reading)
                try:
                    left = self._feed(process, into, b"".join(lines))
                except subprocess.TimeoutExpired:
                    self.kill()
                    process.wait()
                    raise self._too_slow() from None
                finally:
                    self._process = None
            if process.returncode:
                said.seek(max(0, said.tell() - _TAIL))
                raise self._ended(process.returncode, said.read())
            self._require_read(records, lines, _unread(reading) + left)

    def _feed(self, process: subprocess.Popen[bytes], into: IO[bytes], data: bytes) -> int:
        """Write everything and wait for the process to end; returns how many bytes never fitted into the pipe.

        kgroup keeps the reading end open to see what is left. So it gets no error when the process stops reading.
        """
        os.set_blocking(into.fileno(), False)
        until, left = time.monotonic() + self._timeout_s, memoryview(data)
        poll = select.poll()
        poll.register(into, select.POLLOUT)
        while left and not _has_ended(process, 0):
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired(process.args, self._timeout_s)
            if poll.poll(_STALLED_S * 1000):
                left = left[into.write(left[:_PIPE]) or 0 :]
        into.close()
        process.wait(max(0.0, until - time.monotonic()))
        return len(left)

    def _require_read(self, records: Sequence[ConsumerRecord], lines: Sequence[bytes], unread: int) -> None:
        """Raise KgroupError if lines were not read. An unread line end of the last line is ignored."""
        if unread <= 1:
            return
        size = sum(map(len, lines))
        first = next(number for number, end in enumerate(accumulate(map(len, lines))) if end > size - unread)
        raise KgroupError(
            f"the handler ended with exit status 0, but did not read {len(records) - first} of its {len(records)} "
            f"records, from {_name(records[first])} on",
            details=("None of the batch counts as delivered.",),
            hint="with --ack exit, a handler must read its input to the end: exit status 0 acknowledges all of it",
            code=UNREAD,
        )

    def close(self) -> None:
        """Kill a process that is still running; normally each has ended with its batch."""
        self.kill()


class _Lines(_Command):
    """A handler with one long-running process."""

    most = 1

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self._stderr_end = b""
        self._answers = b""
        """What the process wrote to its stdout after its last answer."""
        self._listener: threading.Thread | None = None

    def handle(self, records: Sequence[ConsumerRecord]) -> None:
        """Write a line for each record, and wait for its answer."""
        for record in records:
            data = self._line(record)
            process = self._ready()
            try:
                reason = self._exchange(process, data, _name(record))
            except (HandlerRefusal, KgroupError):
                self._end(0)
                raise
            if reason is not None:
                raise HandlerRefusal(reason)

    def _ready(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and not _has_ended(process, 0):
            return process
        self._end(0)
        process = self._start(subprocess.PIPE, subprocess.PIPE)
        assert process.stdin
        assert process.stderr
        os.set_blocking(process.stdin.fileno(), False)
        self._stderr_end, self._answers = b"", b""
        self._listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        self._listener.start()
        return process

    def _listen(self, stderr: IO[bytes]) -> None:
        """Keep the end of the process's stderr, and drain the pipe so that the process never blocks on it."""
        with stderr, suppress(OSError, ValueError):
            while some := stderr.read(_PIPE):
                self._stderr_end = (self._stderr_end + some)[-_TAIL:]

    def _exchange(self, process: subprocess.Popen[bytes], data: bytes, record: str) -> str | None:
        """Write a line and wait for its answer. See ``parse_answer``."""
        assert process.stdin
        assert process.stdout
        into, out_of = process.stdin.fileno(), process.stdout.fileno()
        until, left = time.monotonic() + self._timeout_s, memoryview(data)
        poll = select.poll()
        poll.register(into, select.POLLOUT)
        poll.register(out_of, select.POLLIN)
        reason, answered = None, False
        while left or not answered:
            if not answered and b"\n" in self._answers:
                answer, _, self._answers = self._answers.partition(b"\n")
                reason, answered = parse_answer(answer.decode("utf-8", "replace"), record), True
                poll.unregister(out_of)
                continue
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                raise self._too_slow()
            given = len(left) < len(data)
            for descriptor, _ in poll.poll(wait_s * 1000):
                if descriptor == into:
                    left = left[self._write(into, left, process, given=given) :]
                    if not left:
                        poll.unregister(into)
                else:
                    self._read_answer(process, given=given)
        return reason

    def _read_answer(self, process: subprocess.Popen[bytes], *, given: bool) -> None:
        """Read from the process's stdout. Raises HandlerRefusal if it was closed, or if an answer does not end."""
        assert process.stdout
        some = os.read(process.stdout.fileno(), _PIPE)
        if not some:
            raise self._died(process, given=given)
        self._answers += some
        if len(self._answers) > _LONGEST_ANSWER:
            raise HandlerRefusal(f"{WRONG_ANSWER}: the answer has no line end")

    def _write(self, into: int, left: memoryview, process: subprocess.Popen[bytes], *, given: bool) -> int:
        try:
            return os.write(into, left[:_PIPE])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self._died(process, given=given) from None

    def _died(self, process: subprocess.Popen[bytes], *, given: bool) -> HandlerRefusal | KgroupError:
        """The process closed a pipe. Its stderr is read by the listener thread."""
        assert process.stdin
        assert self._listener
        with suppress(OSError):
            process.stdin.close()
        _has_ended(process, _CLOSING_S)
        _kill_all(process)
        status = process.wait()
        # The listener ends with the pipe, unless a child of the process still holds it open.
        self._listener.join(_LAST_WORDS_S)
        return self._ended(status, self._stderr_end, given=given)

    def _end(self, within_s: float) -> None:
        """Close the input, wait up to ``within_s`` for the process to end, then kill it. Its output is ignored."""
        process = self._process
        if process is None:
            return
        assert process.stdin
        assert process.stdout
        with suppress(OSError):
            process.stdin.close()
        _has_ended(process, within_s)
        _kill_all(process)
        process.wait()
        process.stdout.close()
        self._process = None

    def close(self) -> None:
        """Every record is answered for: give the process a moment to end by itself."""
        self._end(_CLOSING_S)


def _name(record: ConsumerRecord) -> str:
    return f"{record.tp}:{record.offset}"


def _unread(pipe: int) -> int:
    """How many bytes wait in a pipe, by either of its ends; 0 if the system does not report it."""
    try:
        (waiting,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    except OSError:
        return 0
    return int(waiting)


def _has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Whether the process ends in that time. It is not reaped, to keep its pid reserved until its group is killed."""
    until = time.monotonic() + within_s
    while process.returncode is None:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_S)
    return True


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group, including what the process left behind; nothing if its pid may already be reused."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
