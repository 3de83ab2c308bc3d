"""Start the processes of a layout together; undo it if that fails or is interrupted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kgroup.sandbox import ports, ready
from kgroup.sandbox.broker import PORT_TAKEN, BrokerProcess
from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.layout import CLIENTS, Layout, Node
from kgroup.support.errors import SandboxError

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

    def take_back(self) -> None:
        """Kill the processes that were started."""
        for broker in self.started:
            broker.kill()
            broker.daemon.remove_pid_file()


def await_ready(layout: Layout, started: Mapping[BrokerProcess, int]) -> None:
    """Return when all brokers of the layout serve groups. Raises SandboxError with log lines if one ended."""

    def check() -> None:
        for broker, since in started.items():
            if broker.daemon.pid is None:
                raise _ended(broker, broker.failure(since))

    clients = [node.ports[CLIENTS] for node in layout.brokers]
    ready.wait_until_ready(ports.HOST, clients, brokers=len(clients), check=check, timeout_s=_READY_S)


def _ended(broker: BrokerProcess, said: tuple[str, ...]) -> SandboxError:
    if any(PORT_TAKEN in line for line in said):
        return PortTakenError(f"a port of broker {broker.node_id} was taken", details=said)
    return SandboxError(f"broker {broker.node_id} ended while it started", details=said, hint=f"Its log: {broker.log}")
