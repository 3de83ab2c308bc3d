"""A sandbox's layout, its brokers' settings, and the file ``sandbox.json`` with the layout.

Pids are in files of the nodes.

A single broker is its own controller. Three brokers get a separate one: any broker can be killed without affecting the
quorum, and stops in 1 s instead of 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kgroup.model.sandbox_status import ProcessRole
from kgroup.sandbox.ports import HOST
from kgroup.support.atomic_file import replace_file
from kgroup.support.errors import SandboxError

CLIENTS = "PLAINTEXT"
"""The listener for clients, for brokers among each other, and for our readiness check."""

CONTROLLER = "CONTROLLER"
CONTROLLER_ID = 100

OWN_DEFAULTS: Mapping[str, str] = {
    # A killed broker cannot register again before its old session ends: 11 s with Kafka's 9000. A shorter timeout has a
    # cost: on a busy machine the controller fences a broker that hangs this long.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    # Kafka's 128 MiB are never needed here; this halves the broker's memory.
    "log.cleaner.dedupe.buffer.size": "2097152",
    # A segment maps two index files of this size, 10 MiB in Kafka. The first page that the broker touches reads as much
    # of a file as the disk reads ahead: with 8 MiB, 31 ms for each new partition (seen on Linux 6.18 with ext4).
    "log.index.size.max.bytes": "1048576",
    # Creates a topic in 6 ms instead of 35.
    "controller.quorum.append.linger.ms": "0",
    # Groups settle quickly, and notice a dead member while the user watches.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""Settings that differ from Kafka's defaults, in addition to those that a single machine needs."""


@dataclass(frozen=True, slots=True)
class Node:
    """One process: its Kafka node id, role, and ports by listener name."""

    node_id: int
    role: ProcessRole
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """A sandbox's processes and settings; stored in its state file.

    ``listeners`` maps additional listeners (SCRAM, MTLS) to security protocols, as in Kafka's
    ``listener.security.protocol.map``. ``properties`` override all other settings. ``jars`` is the user's Kafka, None
    for the downloaded one. ``version`` is Kafka's, None before the first start.
    """

    cluster_id: str
    nodes: tuple[Node, ...]
    listeners: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    jars: str | None = None
    version: str | None = None

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role.serves_clients)

    def addresses(self, listener: str = CLIENTS) -> str:
        return ",".join(f"{HOST}:{node.ports[listener]}" for node in self.brokers)


def roles(brokers: int) -> dict[int, ProcessRole]:
    if brokers == 1:
        return {1: ProcessRole.COMBINED}
    return {CONTROLLER_ID: ProcessRole.CONTROLLER} | dict.fromkeys(range(1, brokers + 1), ProcessRole.BROKER)


def listener_names(role: ProcessRole, extra: Mapping[str, str]) -> tuple[str, ...]:
    clients = (CLIENTS, *extra) if role.serves_clients else ()
    return (*clients, CONTROLLER) if role.votes else clients


def broker_properties(layout: Layout, node: Node, data: Path) -> dict[str, str]:
    """The complete server.properties of a node, whose log directory is ``data``."""
    names = listener_names(node.role, layout.listeners)
    addresses = {name: f"{name}://{HOST}:{node.ports[name]}" for name in names}
    clients = [address for name, address in addresses.items() if name != CONTROLLER]
    protocols = {CLIENTS: "PLAINTEXT", CONTROLLER: "PLAINTEXT", **layout.listeners}
    replicas = min(len(layout.brokers), 3)
    in_sync = min(replicas, 2)
    properties = {
        "process.roles": node.role.value,
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{voter.node_id}@{HOST}:{voter.ports[CONTROLLER]}" for voter in layout.nodes if voter.role.votes
        ),
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join(addresses.values()),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        **OWN_DEFAULTS,
    }
    if clients:
        properties |= {"advertised.listeners": ",".join(clients), "inter.broker.listener.name": CLIENTS}
    return properties | dict(layout.properties)


def properties_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    backslashes = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    lead = "\\" if backslashes.startswith((" ", "#", "!")) else ""
    return lead + "".join(char if ord(char) < 127 else _unicode_escapes(char) for char in backslashes)


def _unicode_escapes(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


_FORMAT = 1


def write_layout(path: Path, layout: Layout) -> None:
    """Replace the file atomically. Only its owner may read it, since broker settings may have passwords."""
    document = {"format": _FORMAT, **asdict(layout)}
    replace_file(path, (json.dumps(document, indent=2) + "\n").encode())


def read_layout(path: Path) -> Layout | None:
    """The layout, None if there is no sandbox. Raises SandboxError for a damaged file."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise SandboxError(f"{path} is of another release of kgroup", hint=_REMEDY)
        return msgspec.convert(document, Layout)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxError(f"{path} is damaged: {error!r}", hint=_REMEDY) from error


_REMEDY = "kgroup sandbox down --wipe"
