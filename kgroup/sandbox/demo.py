"""The demo's crash on a real broker: committed offset 70, killed at 100, log end offset 120.

It also has the application that restarts after the crash. The catch-up in between is in commands/sandbox_demo.py.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

import msgspec

from kgroup.cluster.raw_connection import connected
from kgroup.model.records import ConsumerRecord, OffsetRange
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.sandbox.demo_consumer import COMMITTED, PROCESSED
from kgroup.settings.clients import librdkafka_config
from kgroup.support.errors import KgroupError, SandboxError

if TYPE_CHECKING:
    from kgroup.cluster.demo_clients import OrderWriter
    from kgroup.cluster.snapshot import Cluster
    from kgroup.settings.model import Settings

END = 120
TOPIC = "demo-orders"
GROUP = "demo-order-service"
TARGET = "demo-orders-backfill"

_CONSUMED_S = 30.0
_EMPTY_S = 30.0
_POLL_S = 0.05
_WRITE_EVERY_S = 0.1
_LEAVE_S = 5.0


class Crashed(msgspec.Struct, frozen=True):
    """The state after the crash: an empty group whose consumer had processed more than it committed.

    ``target`` is the name for the catch-up's topic, which does not exist yet.
    """

    bootstrap_servers: str
    topic: str
    group: str
    target: str


def crash(bootstrap_servers: str, reporter: Reporter) -> Crashed:
    """Cause the crash, with unused names; returns when the group is Empty. Raises SandboxError."""
    from kgroup.cluster import demo_clients

    topic, group, target = _fresh_names(demo_clients.topics(bootstrap_servers))
    demo_clients.create_topic(bootstrap_servers, topic)
    demo_clients.produce(bootstrap_servers, topic, range(PROCESSED))
    reporter.event("WROTE", f"{PROCESSED} records to {topic}")
    with _consumer(bootstrap_servers, topic, group) as consumer:
        reporter.event("CONSUME", f"{group} committed {COMMITTED} and has processed {PROCESSED}")
        consumer.kill()
    reporter.event("KILLED", f"the consumer (pid {consumer.pid}), with SIGKILL")
    demo_clients.produce(bootstrap_servers, topic, range(PROCESSED, END))
    reporter.event("WROTE", f"{END - PROCESSED} records more, the log ends at {END}")
    reporter.event("WAIT", f"for {group} to be Empty (session timeout {demo_clients.SESSION_TIMEOUT_MS} ms)")
    _await_empty(bootstrap_servers, group)
    return Crashed(bootstrap_servers, topic, group, target)


def create_target(crashed: Crashed) -> None:
    from kgroup.cluster import demo_clients

    demo_clients.create_topic(crashed.bootstrap_servers, crashed.target)


def read_target(cluster: Cluster, settings: Settings, crashed: Crashed) -> list[ConsumerRecord]:
    """The records of the catch-up's topic, which has one partition."""
    from kgroup.cluster.reader.ranges import read_ranges

    topic = crashed.target
    (log,) = cluster.positions(cluster.layouts([topic]), [TopicPartition(topic, 0)]).values()
    if isinstance(log, KgroupError):
        raise log
    whole = OffsetRange(topic, 0, 0, log.range.end)
    return list(read_ranges(librdkafka_config(settings), [whole], timeout_s=settings.timeout_s))


class DemoApplication:
    """The group's application after the crash: a thread writes more orders, and a consumer process handles them.

    A context manager that ends both. ``handled`` are the offsets that the consumer has processed so far.
    """

    def __init__(self, crashed: Crashed) -> None:
        self._crashed = crashed
        self._lock = threading.Lock()
        self._handled: list[int] = []
        self._ended = threading.Event()
        self._fault: SandboxError | None = None
        self._running = ExitStack()

    def __enter__(self) -> DemoApplication:
        from kgroup.cluster import demo_clients

        crashed = self._crashed
        with ExitStack() as stack:
            process, errors = stack.enter_context(
                _process(crashed.bootstrap_servers, crashed.topic, crashed.group, "live")
            )
            self._errors = errors
            writer = demo_clients.OrderWriter(crashed.bootstrap_servers, crashed.topic, END)
            threads = [
                threading.Thread(target=self._listen, args=(process.stdout,), daemon=True),
                threading.Thread(target=self._write, args=(writer,), daemon=True),
            ]
            for thread in threads:
                thread.start()
            stack.callback(self._stop, process, threads[1])
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def handled(self) -> tuple[int, ...]:
        """Offsets processed so far, in that order."""
        with self._lock:
            return tuple(self._handled)

    def await_more(self, than: int = 0) -> tuple[int, ...]:
        """Return when more than ``than`` records are handled. Raises SandboxError if nothing more is handled."""
        deadline = time.monotonic() + _CONSUMED_S
        while len(handled := self.handled) <= than:
            if self._fault is not None:
                raise self._fault
            if time.monotonic() > deadline:
                raise SandboxError("the demo's application handles nothing", details=_last_lines(self._errors))
            time.sleep(_POLL_S)
        return handled

    def _listen(self, stream: IO[bytes]) -> None:
        for line in stream:
            with self._lock:
                self._handled.append(int(line))

    def _write(self, writer: OrderWriter) -> None:
        try:
            while not self._ended.wait(_WRITE_EVERY_S):
                writer.write()
            writer.flush()
        except SandboxError as error:
            self._fault = error

    def _stop(self, process: subprocess.Popen[bytes], writing: threading.Thread) -> None:
        self._ended.set()
        writing.join(_LEAVE_S)
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVE_S)


def _fresh_names(taken: frozenset[str]) -> tuple[str, str, str]:
    """Topic, group and target of this run. A second run adds -2, so that it does not touch an earlier one."""
    number = 1
    while True:
        suffix = "" if number == 1 else f"-{number}"
        if TOPIC + suffix not in taken and TARGET + suffix not in taken:
            return TOPIC + suffix, GROUP + suffix, TARGET + suffix
        number += 1


@contextmanager
def _consumer(bootstrap_servers: str, topic: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """The consumer that will be killed, after it has processed all records; killed at the end in any case."""
    with _process(bootstrap_servers, topic, group, "crash") as (process, errors):
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _CONSUMED_S)
        if not ready or not process.stdout.readline():
            raise SandboxError("the demo's consumer did not get through", details=_last_lines(errors))
        yield process


@contextmanager
def _process(
    bootstrap_servers: str, topic: str, group: str, role: str
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A consumer's process and its stderr file; killed at the end in any case.

    ctrl-C in the terminal does not reach the process. It ends when its stdin closes, so also if the demo is killed.
    """
    command = [sys.executable, "-m", "kgroup.sandbox.demo_consumer", bootstrap_servers, topic, group, role]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            yield process, errors
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    stream.close() if stream is not None else None


def _await_empty(bootstrap_servers: str, group: str) -> None:
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    deadline = time.monotonic() + _EMPTY_S
    state = None
    while time.monotonic() < deadline:
        with connected(host, int(port)) as connection:
            error, coordinator = connection.coordinator(group)
        if not error:
            with connected(coordinator.host, coordinator.port) as connection:
                error, state = connection.group_state(group)
            if not error and state == "Empty":
                return
        time.sleep(_POLL_S)
    raise SandboxError(f"{group} is still {state} after {_EMPTY_S:.0f} s")


def _last_lines(stream: IO[bytes]) -> tuple[str, ...]:
    stream.seek(0)
    return tuple(stream.read().decode(errors="replace").splitlines()[-3:])
