"""What a caller of ``up`` requests, combined with the sandbox's earlier layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from kgroup.sandbox import ports
from kgroup.sandbox.broker import random_id
from kgroup.sandbox.layout import CLIENTS, Layout, Node, listener_names, roles
from kgroup.support.errors import Refused


class SandboxRequest(msgspec.Struct, frozen=True):
    """The request; None means as before, or the default for a new sandbox."""

    brokers: int | None = None
    port: int | None = None
    properties: Mapping[str, str] | None = None
    listeners: Mapping[str, str] | None = None
    jars: str | None = None

    def applied_to(self, before: Layout | None) -> Layout:
        """The layout to run. Raises Refused [sandbox-differs] if the data has another number of brokers."""
        if before is None:
            nodes = tuple(Node(number, role, {}) for number, role in roles(self.brokers or 1).items())
            return Layout(random_id(), nodes, self.listeners or {}, self.properties or {}, self.jars)
        if self.brokers not in (None, len(before.brokers)):
            raise Refused(
                f"the sandbox has {_count(before)}, not {self.brokers}",
                code="sandbox-differs",
                details=("The number of brokers is fixed when the data is made.",),
                hint="kgroup sandbox down --wipe  (removes its data), then up again",
            )
        return replace(
            before,
            listeners=before.listeners if self.listeners is None else self.listeners,
            properties=before.properties if self.properties is None else self.properties,
            jars=self.jars or before.jars,
        )

    def require_same(self, running: Layout, wanted: Layout) -> None:
        """Raise Refused [sandbox-differs] if the request needs a restart of the running processes."""
        differs = [
            *(["port"] if self.port not in (None, running.brokers[0].ports[CLIENTS]) else []),
            *(["broker settings"] if wanted.properties != running.properties else []),
            *(["listeners"] if wanted.listeners != running.listeners else []),
            *(["jars"] if wanted.jars != running.jars else []),
        ]
        if differs:
            raise Refused(
                f"the sandbox runs on {running.addresses()} with other {' and '.join(differs)}",
                code="sandbox-differs",
                hint="kgroup sandbox down  (keeps its data), then up again",
            )

    def with_ports(self, layout: Layout, *, preferred: int | None, retry: bool = False) -> Layout:
        """Choose a port for every listener: the requested, else the earlier, else the preferred one, else any.

        ``retry``: the earlier and the preferred ports did not work. Raises Refused [port-taken] for the requested one.
        """
        names = {node.node_id: listener_names(node.role, layout.listeners) for node in layout.nodes}
        first = layout.brokers[0].ports.get(CLIENTS)
        fit = all(set(node.ports) == set(names[node.node_id]) for node in layout.nodes)
        all_ports = (port for node in layout.nodes for port in node.ports.values())
        if fit and not retry and self.port in (None, first) and all(map(ports.is_free, all_ports)):
            return layout
        fixed = self._client_ports(layout, None if retry else preferred)
        others = sum(map(len, names.values())) - len(fixed)
        free = iter(ports.choose(others, free=lambda port: port not in fixed and ports.is_free(port)))
        sources = {CLIENTS: iter(fixed) if fixed else free}
        nodes = (
            replace(node, ports={name: next(sources.get(name, free)) for name in names[node.node_id]})
            for node in layout.nodes
        )
        return replace(layout, nodes=tuple(nodes))

    def _client_ports(self, layout: Layout, preferred: int | None) -> tuple[int, ...]:
        """Adjacent ports for the brokers' client listeners; empty if any port will do."""
        first = self.port or preferred
        if first is None:
            return ()
        block = tuple(range(first, first + len(layout.brokers)))
        taken = [port for port in block if not ports.is_free(port)]
        if not taken:
            return block
        if self.port is None:
            return ()
        raise Refused(
            f"port {taken[0]} of {ports.HOST} is taken",
            code="port-taken",
            hint="Without --port, kgroup chooses a free port.",
        )


def _count(layout: Layout) -> str:
    number = len(layout.brokers)
    return f"{number} broker{'' if number == 1 else 's'}"
