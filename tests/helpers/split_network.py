"""Three brokers whose network can be cut: each connection, also among the nodes, goes through a proxy of ours.

A cut connection stays open and carries nothing; what is sent meanwhile arrives when the cut is over, as TCP sends it
again, though the sender may have gone. A new connection is accepted, and carries nothing either.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from kgroup.sandbox.broker import BrokerProcess
from kgroup.sandbox.cluster import find_distribution
from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.launch import await_ready
from kgroup.sandbox.layout import CLIENTS, CONTROLLER, CONTROLLER_ID, Layout
from kgroup.sandbox.request import SandboxRequest
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_proxy import read_frame
from tests.helpers.three_brokers import BROKERS, PROPERTIES

CLIENT = 0
"""Whoever is no broker, as the source of a link."""

Link = tuple[int, int]
"""From whom to which node; it is cut in both directions."""

_OF_A_BROKER = re.compile(rb"(?:raft-client-|broker-)?([123])(?:-.*)?")
"""The client ids of brokers: to the controller, as followers of its log, as followers of each other."""


def cut_off(broker: int) -> frozenset[Link]:
    """Nobody reaches this broker, and it reaches nobody."""
    return of_nodes(broker) | {(CLIENT, broker)}


def of_nodes(broker: int) -> frozenset[Link]:
    """Clients reach this broker; no other node does."""
    return of_brokers(broker) | {(broker, CONTROLLER_ID)}


def of_brokers(broker: int) -> frozenset[Link]:
    """Clients and the controller reach this broker; no other broker does."""
    others = BROKERS - {broker}
    return frozenset({(other, broker) for other in others} | {(broker, other) for other in others})


class Network:
    """All links of a cluster, and which are cut now."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._cut: frozenset[Link] = frozenset()
        self._moments: list[tuple[Link, int, bytes, Callable[[], object]]] = []
        self._ended = False
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def gate_to(self, node: int, target: int) -> int:
        """A port that leads to this port of a node."""
        server = socket.create_server(("127.0.0.1", 0))
        self._remember(server)
        self._start(self._accept, server, node, target)
        return int(server.getsockname()[1])

    @contextlib.contextmanager
    def cut(self, links: Set[Link]) -> Iterator[None]:
        """While the block runs."""
        self._set(frozenset(links))
        try:
            yield
        finally:
            self._set(frozenset())

    def before(self, node: int, api_key: int, having: bytes, then: Callable[[], object]) -> None:
        """Call this once, before a client's request of this API with these bytes in it is passed on to this node."""
        with self._change:
            self._moments.append(((CLIENT, node), api_key, having, then))

    def close(self) -> None:
        """End all connections, and wait for the threads."""
        with self._change:
            self._ended = True
            self._change.notify_all()
            left = list(self._open)
        for one in left:
            _end(one)
        for thread in self._threads:
            thread.join(10)

    def _set(self, links: frozenset[Link]) -> None:
        with self._change:
            self._cut = links
            self._change.notify_all()

    def _passable(self, link: Link) -> bool:
        """Wait until the link carries something; False: never again."""
        with self._change:
            self._change.wait_for(lambda: self._ended or link not in self._cut)
            return not self._ended

    def _accept(self, server: socket.socket, node: int, target: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._connected, server.accept()[0], node, target)

    def _connected(self, client: socket.socket, node: int, target: int) -> None:
        self._remember(client)
        with contextlib.suppress(OSError), client:
            first = read_frame(client)
            if len(first) < 14 or not self._passable(link := (_source(first), node)):  # it was ended before
                return
            with socket.create_connection(("127.0.0.1", target), 10) as broker:
                self._remember(broker)
                broker.settimeout(None)
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answers = self._start(self._carry_answers, broker, client, link)
                self._carry_requests(first, client, broker, link)
                answers.join()

    def _carry_requests(self, first: bytes, client: socket.socket, broker: socket.socket, link: Link) -> None:
        with _both_ended(client, broker):
            frame = first
            while frame:
                for fault in self._met(frame, link):
                    fault()
                if not self._passable(link):
                    return
                broker.sendall(frame)
                frame = read_frame(client)

    def _carry_answers(self, broker: socket.socket, client: socket.socket, link: Link) -> None:
        with _both_ended(client, broker):
            while (data := broker.recv(65536)) and self._passable(link):
                client.sendall(data)

    def _met(self, frame: bytes, link: Link) -> Iterator[Callable[[], object]]:
        """What is to happen before this request is passed on."""
        (api_key,) = struct.unpack_from(">h", frame, 4)
        with self._change:
            met = [one for one in self._moments if one[0] == link and one[1] == api_key and one[2] in frame]
            self._moments = [one for one in self._moments if one not in met]
        return (then for *_, then in met)

    def _remember(self, one: socket.socket) -> None:
        with self._change:
            self._open = {known for known in self._open if known.fileno() >= 0} | {one}

    def _start(self, target: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
        return thread


def _source(first: bytes) -> int:
    """Who sends it, by its client id, which comes after length, API, version and correlation id."""
    (length,) = struct.unpack_from(">h", first, 12)
    found = _OF_A_BROKER.fullmatch(first, 14, 14 + max(0, length))
    return int(found[1]) if found else CLIENT


@contextlib.contextmanager
def _both_ended(*ends: socket.socket) -> Iterator[None]:
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for one in ends:
            _end(one)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class SplitCluster:
    """Three brokers behind their network; ``bootstrap`` leads through it, ``direct`` past it."""

    network: Network
    kafka: Distribution
    layout: Layout
    brokers: Mapping[int, BrokerProcess]
    gates: Mapping[int, int]

    @property
    def bootstrap(self) -> str:
        """All brokers, through the network."""
        return ",".join(f"127.0.0.1:{self.gates[number]}" for number in sorted(BROKERS))

    @property
    def direct(self) -> str:
        """All brokers, past the network."""
        return self.layout.addresses("DIRECT")

    def kill(self, broker: int) -> None:
        """kill -9."""
        self.brokers[broker].kill()

    def hang(self, broker: int) -> None:
        """SIGSTOP."""
        self.brokers[broker].daemon.signal(signal.SIGSTOP)

    def mend(self) -> None:
        """All run again, and know each other."""
        for broker in self.brokers.values():
            broker.daemon.signal(signal.SIGCONT)
            if broker.daemon.pid is None:
                broker.start(self.kafka)
        await_ready(self.layout, {})


@contextlib.contextmanager
def split_cluster(directory: Path) -> Iterator[SplitCluster]:
    """Running while the block does, with nothing cut."""
    network, kafka = Network(), find_distribution(None, QuietReporter())
    request = SandboxRequest(brokers=3, listeners={"DIRECT": "PLAINTEXT"}, properties=PROPERTIES)
    layout = request.with_ports(request.applied_to(None), preferred=None)
    gates = {
        node.node_id: network.gate_to(node.node_id, node.ports[CLIENTS if node.node_id in BROKERS else CONTROLLER])
        for node in layout.nodes
    }
    brokers = {node.node_id: BrokerProcess(node.node_id, directory) for node in layout.nodes}
    try:
        for node in layout.nodes:
            gate = f"127.0.0.1:{gates[node.node_id]}"
            advertised = f"{CONTROLLER}://{gate}"
            if node.node_id in BROKERS:
                advertised = f"{CLIENTS}://{gate},DIRECT://127.0.0.1:{node.ports['DIRECT']}"
            through = {
                "advertised.listeners": advertised,
                "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{gates[CONTROLLER_ID]}",
            }
            broker = brokers[node.node_id]
            broker.configure(replace(layout, properties={**PROPERTIES, **through}), node)
            broker.format(kafka, layout.cluster_id)
            broker.start(kafka)
        await_ready(layout, dict.fromkeys(brokers.values(), 0))
        yield SplitCluster(network, kafka, layout, brokers, gates)
    finally:
        network.close()
        for broker in brokers.values():
            broker.kill()
