"""Start the processes of a layout together and wait until they serve groups; undo it if that fails or is interrupted.

Brokers answer metadata requests half a second before they answer group requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgroup.cluster.raw_connection import NO_ANSWER, connected
from kgroup.sandbox import ports
from kgroup.sandbox.broker import PORT_TAKEN, BrokerProcess
from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.layout import CLIENTS, Layout, Node
from kgroup.support.errors import SandboxError

_POLL_S = 0.02
_PROBE_GROUPS = tuple(f"kgroup-probe-{number}" for number in range(16))
"""Enough names so that each of three brokers coordinates at least one (names hash to 50 partitions)."""


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    try:
        with connected(host, port, timeout_s) as connection:
            connection.brokers()
    except NO_ANSWER:
        return False
    return True


def wait_until_ready(
    host: str, ports: Sequence[int], *, brokers: int, check: Callable[[], None], timeout_s: float
) -> None:
    """Return when every broker knows all brokers, and each serves the groups that it coordinates.

    ``check`` is called in every round; it raises if waiting is pointless. Raises SandboxError after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(ports)
    while True:
        check()
        waiting = [port for port in waiting if not _knows(host, port, brokers)]
        if not waiting and _groups_are_served(host, ports[0]):
            return
        if time.monotonic() > deadline:
            where = f"{host}:{ports[0]}"
            raise SandboxError(f"no answer to a group request from {where} within {timeout_s:.0f} s")
        time.sleep(_POLL_S)


def _knows(host: str, port: int, brokers: int) -> bool:
    try:
        with connected(host, port) as connection:
            return len(connection.brokers()) == brokers
    except NO_ANSWER:
        return False


def _groups_are_served(host: str, port: int) -> bool:
    try:
        return all(_is_served(host, port, group) for group in _PROBE_GROUPS)
    except NO_ANSWER:
        return False


def _is_served(host: str, port: int, group: str) -> bool:
    # A connection has one time limit: on a busy machine it would not be enough for all groups.
    with connected(host, port) as broker:
        error, coordinator = broker.coordinator(group)
    if error:
        return False
    with connected(coordinator.host, coordinator.port) as at_coordinator:
        return at_coordinator.offsets_error(group) == 0


_READY_S = 60.0


class PortTakenError(SandboxError):
    """Another process took a port between our check and the broker's bind."""

    code = "port-taken"


@dataclass(slots=True)
class Launch:
    """The processes that one call has started, each with the size of its log before."""

    sandbox: Path
    kafka: Distribution
    started: dict[BrokerProcess, int] = field(default_factory=dict)

    def start(self, layout: Layout, format_arguments: tuple[str, ...] = (), only: Iterable[Node] | None = None) -> None:
        """Configure, format and start the nodes that do not run, of all or of ``only``; does not wait."""
        for node in layout.nodes if only is None else only:
            broker = BrokerProcess(node.node_id, self.sandbox)
            if broker.daemon.pid is None:
                broker.configure(layout, node)
                broker.format(self.kafka, layout.cluster_id, format_arguments)
                self.started[broker] = broker.log_size  # before the start: an interrupt may come inside start()
                broker.start(self.kafka)

    def kill_started(self) -> None:
        for broker in self.started:
            broker.kill()
            broker.daemon.remove_pid_file()


def await_ready(layout: Layout, started: Mapping[BrokerProcess, int]) -> None:
    """Return when all brokers of the layout serve groups. Raises SandboxError with log lines if one ended."""

    def check() -> None:
        for broker, since in started.items():
            if broker.daemon.pid is None:
                raise _start_error(broker, broker.failure(since))

    clients = [node.ports[CLIENTS] for node in layout.brokers]
    wait_until_ready(ports.HOST, clients, brokers=len(clients), check=check, timeout_s=_READY_S)


def _start_error(broker: BrokerProcess, log_lines: tuple[str, ...]) -> SandboxError:
    if any(PORT_TAKEN in line for line in log_lines):
        return PortTakenError(f"a port of broker {broker.node_id} was taken", details=log_lines)
    return SandboxError(
        f"broker {broker.node_id} ended while it started", details=log_lines, hint=f"Its log: {broker.log}"
    )
