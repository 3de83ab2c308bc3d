"""The crash that kgroup is about, on a real broker: committed 70, killed at 100, the log goes on to 120."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from kgroup.errors import SandboxError
from kgroup.model import Reporter
from kgroup.sandbox.demo_consumer import COMMITTED, PROCESSED
from kgroup.sandbox.wire import Connection

END = 120
TOPIC = "demo-orders"
GROUP = "demo-order-service"

_CONSUMED_S = 30.0
_EMPTY_S = 30.0
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Crashed:
    """What the demo leaves: an empty group whose consumer had processed more than it committed."""

    bootstrap_servers: str
    topic: str
    group: str


def crash(bootstrap_servers: str, reporter: Reporter) -> Crashed:
    """Play it, with names that are not in use yet; returns when the group is Empty. Raises SandboxError."""
    from kgroup.cluster import demo_clients

    topic, group = _fresh_names(demo_clients.topics(bootstrap_servers))
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
    return Crashed(bootstrap_servers, topic, group)


def _fresh_names(taken: frozenset[str]) -> tuple[str, str]:
    """Topic and group of this run; a second one gets -2, so that nothing of an earlier one is touched."""
    number = 1
    while True:
        suffix = "" if number == 1 else f"-{number}"
        if TOPIC + suffix not in taken:
            return TOPIC + suffix, GROUP + suffix
        number += 1


@contextmanager
def _consumer(bootstrap_servers: str, topic: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """The consumer's process, once it has processed all that there is; killed at the end in any case."""
    command = [sys.executable, "-m", "kgroup.sandbox.demo_consumer", bootstrap_servers, topic, group]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], _CONSUMED_S)
            if not ready or not process.stdout.readline():
                raise SandboxError("the demo's consumer did not get through", details=_last_lines(errors))
            yield process
        finally:
            process.kill()
            process.communicate()


def _await_empty(bootstrap_servers: str, group: str) -> None:
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    deadline = time.monotonic() + _EMPTY_S
    state = None
    while time.monotonic() < deadline:
        with Connection(host, int(port)) as connection:
            error, coordinator = connection.coordinator(group)
        if not error:
            with Connection(coordinator.host, coordinator.port) as connection:
                error, state = connection.group_state(group)
            if not error and state == "Empty":
                return
        time.sleep(_LOOK_EVERY_S)
    raise SandboxError(f"{group} is still {state} after {_EMPTY_S:.0f} s")


def _last_lines(stream: IO[bytes]) -> tuple[str, ...]:
    stream.seek(0)
    return tuple(stream.read().decode(errors="replace").splitlines()[-3:])
