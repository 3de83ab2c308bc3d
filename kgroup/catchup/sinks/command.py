"""``--to-command CMD``: records as lines of JSON to a shell command, that says which of them it has taken.

``--ack exit``: a process for each batch; exit status 0 says that it has all. ``--ack line``: one process a lane, which
answers each line with one of its own, ``ok`` or ``error: reason``, before it gets the next.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import IO

from kgroup.catchup.lanes import Handler, Refusal
from kgroup.catchup.ndjson import NotWritable, ValueFormat, line
from kgroup.catchup.task_spec import TaskSpec
from kgroup.errors import KgroupError, UsageError
from kgroup.redact import tells_secret
from kgroup.stored import StoredRecord

_CANNOT_RUN = (126, 127)  # what a shell says of a command that is not there
_TAIL = 500
_LONGEST_ANSWER = 65_536
_CLOSING_S = 3.0
_LAST_WORDS_S = 1.0
_PIPE = 65_536
_LOOK_S = 0.01


def check(options: Mapping[str, str]) -> None:
    """Raise UsageError for options that mean nothing.

    Options: ``command``; ``ack`` is ``exit`` or ``line``; ``value-format`` is ``base64``, ``text`` or ``json``.
    """
    if not options.get("command", "").strip():
        raise UsageError("the sink command wants a command")
    require_no_secret(options["command"])
    if options.get("ack", "exit") not in ("exit", "line"):
        raise UsageError(f"ack {options['ack']!r} is neither exit nor line")
    if options.get("value-format", "base64") not in set(ValueFormat):
        raise UsageError(f"value-format {options['value-format']!r} is not one of {', '.join(ValueFormat)}")


def require_no_secret(command: str, secrets: Collection[str] = ()) -> None:
    """Raise UsageError for a command that tells a secret, which is not repeated: it stands in the ledger as typed."""
    if tells_secret(command, secrets):
        raise UsageError(
            "--to-command: a secret in it would be read by everybody who reads the ledger",
            hint="put it into an environment variable of Spark's workers, and say $NAME in its place",
        )


def handlers(spec: TaskSpec) -> Callable[[], Handler]:
    """Make the handlers of a task."""
    check(spec.options)
    return lambda: _Lines(spec) if spec.options.get("ack", "exit") == "line" else _Batches(spec)


class _Command:
    hangs_for_ever = False

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._command = spec.options["command"]
        self._form = ValueFormat(spec.options.get("value-format", "base64"))
        self._timeout_s = spec.handling.timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """The process, and what it has started."""
        process = self._process
        if process is not None:
            _kill_all(process)

    def _line(self, record: StoredRecord) -> bytes:
        maybe = record.offset < self._spec.maybe_until((record.topic, record.partition))
        try:
            return line(record, self._form, maybe_processed=maybe)
        except NotWritable as error:
            raise Refusal(f"not {self._form}: {error}", final=True) from error

    def _start(self, stdout: int, stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                ("/bin/sh", "-c", self._command),
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise self._missing(error.strerror or str(error)) from error
        self._process = process
        return process

    def _ended(self, status: int, said: bytes) -> Refusal | KgroupError:
        """What to raise for a process that ended so."""
        why = said.decode("utf-8", "replace").strip()[-_TAIL:]
        if status in _CANNOT_RUN:
            return self._missing(why)
        how = f"exit status {status}"
        if status < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-status).name}"
        return Refusal(f"handler-died: {how}" + (f": {why}" if why else ""))

    def _missing(self, why: str) -> KgroupError:
        return KgroupError(
            f"the command can't be run: {self._command}",
            details=(why,) if why else (),
            hint="it must be there on each of Spark's workers",
            code="handler-missing",
        )

    def _too_slow(self) -> Refusal:
        return Refusal(f"handler-timeout: no answer within {self._timeout_s:g} s, so it was killed")


class _Batches(_Command):
    """A process a batch."""

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self.most = max(1, spec.handling.batch)

    def handle(self, records: Sequence[StoredRecord]) -> None:
        """Exit status 0 is all that it has to say."""
        data = b"".join(map(self._line, records))
        with tempfile.TemporaryFile() as said:
            process = self._start(subprocess.DEVNULL, said)
            try:
                process.communicate(data, self._timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                process.communicate()
                raise self._too_slow() from None
            finally:
                self._process = None
            if process.returncode:
                said.seek(max(0, said.tell() - _TAIL))
                raise self._ended(process.returncode, said.read())

    def close(self) -> None:
        """Each process has ended with its batch."""
        self.kill()


class _Lines(_Command):
    """A process that goes on."""

    most = 1

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self._said = b""
        self._answers = b""
        self._listener: threading.Thread | None = None

    def handle(self, records: Sequence[StoredRecord]) -> None:
        """One line, one answer."""
        for record in records:
            data = self._line(record)
            process = self._ready()
            try:
                answer = self._exchange(process, data)
            except (Refusal, KgroupError):
                self._end(0)
                raise
            self._judge(answer)

    def _judge(self, answer: bytes) -> None:
        text = answer.decode("utf-8", "replace").strip()
        if text == "ok":
            return
        word, colon, reason = text.partition(":")
        if colon and word == "error":
            raise Refusal(reason.strip() or "error")
        self._end(0)  # whose answer the next one would be, nobody knows
        raise Refusal(f"handler-answer: neither 'ok' nor 'error: reason': {text[:_TAIL]!r}")

    def _ready(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and not _has_ended(process, 0):
            return process
        self._end(0)
        process = self._start(subprocess.PIPE, subprocess.PIPE)
        assert process.stdin
        assert process.stderr
        os.set_blocking(process.stdin.fileno(), False)
        self._said, self._answers = b"", b""
        self._listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        self._listener.start()
        return process

    def _listen(self, stderr: IO[bytes]) -> None:
        """Keep the end of what it says, so that it can't be held up by a pipe that nobody reads."""
        with stderr, suppress(OSError, ValueError):
            while some := stderr.read(_PIPE):
                self._said = (self._said + some)[-_TAIL:]

    def _exchange(self, process: subprocess.Popen[bytes], data: bytes) -> bytes:
        assert process.stdin
        assert process.stdout
        into, out_of = process.stdin.fileno(), process.stdout.fileno()
        until = time.monotonic() + self._timeout_s
        poll = select.poll()
        poll.register(out_of, select.POLLIN)
        poll.register(into, select.POLLOUT)
        left = memoryview(data)
        while left or b"\n" not in self._answers:
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                self.kill()
                raise self._too_slow()
            for descriptor, events in poll.poll(wait_s * 1000):
                if descriptor == into and left:
                    left = left[self._write(into, left, process) :]
                    if not left:
                        poll.unregister(into)
                elif descriptor == out_of and events:
                    some = os.read(out_of, _PIPE)
                    if not some:
                        raise self._died(process)
                    self._answers += some
                    if len(self._answers) > _LONGEST_ANSWER:
                        self.kill()
                        raise Refusal("handler-answer: it does not end")
        answer, _, self._answers = self._answers.partition(b"\n")
        if self._answers:
            self.kill()
            raise Refusal(f"handler-answer: more than one: {self._answers[:_TAIL].decode('utf-8', 'replace')!r}")
        return answer

    def _write(self, into: int, left: memoryview, process: subprocess.Popen[bytes]) -> int:
        try:
            return os.write(into, left[:_PIPE])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self._died(process) from None

    def _died(self, process: subprocess.Popen[bytes]) -> Refusal | KgroupError:
        """It closed its end; what it has said of that stands in a pipe, to be read by another thread."""
        assert process.stdin
        assert self._listener
        with suppress(OSError):
            process.stdin.close()
        _has_ended(process, _CLOSING_S)
        _kill_all(process)
        status = process.wait()
        # That thread ends with the pipe, unless the process has left somebody behind who holds it.
        self._listener.join(_LAST_WORDS_S)
        return self._ended(status, self._said)

    def _end(self, within_s: float) -> None:
        """Let the process end by itself, having nothing more to read, or make it."""
        process, self._process = self._process, None
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

    def close(self) -> None:
        """It has answered for all; a moment to end by itself."""
        self._end(_CLOSING_S)


def _has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Whether it ends in that time. Its number stays taken: it can't be another's when its group is killed."""
    until = time.monotonic() + within_s
    while process.returncode is None:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_S)
    return True


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """It, or what it has left behind; nothing where its number may be another's by now."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
