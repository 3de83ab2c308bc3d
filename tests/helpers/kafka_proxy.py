"""A TCP proxy that reads Kafka's frames, so that a test can lose or hold one request, or its answer.

The broker advertises the proxy's port on a listener of its own (``proxied_broker``), so every client that comes in
through the proxy stays on it, while the test itself goes to the broker directly.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import (
    JoinGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from kgroup.cluster.coordinator.groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kgroup.sandbox import Sandbox
from kgroup.sandbox.ports import choose, is_free
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 2, 8, 9, 10
JOIN_GROUP, LEAVE_GROUP, DESCRIBE_GROUPS = 11, 13, 15
API_VERSIONS, DELETE_GROUPS, OFFSET_DELETE = 18, 42, 47
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69


class Loss(StrEnum):
    """What happens to a request; then the connection is cut."""

    REQUEST = "it never reaches the broker"
    ANSWER = "the broker has done it, nobody hears of it"
    NOTHING = "it is only held until the test lets it go"
    REFUSED = "it is answered with NOT_COORDINATOR, and never reaches the broker"
    LOADING = "its answer becomes COORDINATOR_LOAD_IN_PROGRESS; the connection stays"
    BEHIND = "its answer becomes OFFSET_NOT_AVAILABLE; the connection stays"


@dataclass(slots=True)
class Fault:
    """Waits for the ``skip + 1``-th request of an API, once; ``then`` runs before the connection is cut.

    With ``after`` it waits for that one to have happened first; with ``having`` for one with these bytes in it (a
    transactional id); ``always``: for every request from then on. OffsetCommit and JoinGroup can be REFUSED; what reads
    groups can find them LOADING; ListOffsets can find a leader BEHIND.
    """

    api_key: int
    loss: Loss
    skip: int = 0
    then: Callable[[], None] | None = None
    after: Fault | None = None
    always: bool = False
    having: bytes = b""
    met: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)


_Lost = dict[int, tuple[Fault, bytes]]
"""Faults and requests, by correlation id."""


class KafkaProxy:
    """Listens on ``port``; ``target`` is the broker's port and set later."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port: int = self._server.getsockname()[1]
        self.target = 0
        self.forwarded: Counter[int] = Counter()
        """Requests that reached the broker, by API key."""
        self.first_version_only: set[int] = set()
        """APIs that the proxy announces with version 0 alone, though the broker knows 0 and 1."""
        self.newest: dict[int, tuple[int, int]] = {}
        """By API, the newest version that the broker knows, and the one that the proxy announces."""
        self.delay_s = 0.0
        """How long each answer takes on its way."""
        self.piece = 0
        """So many bytes of an answer are sent at a time; 0: all."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def expect(self, fault: Fault) -> Fault:
        """Let this happen once."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def reset(self) -> None:
        """Forget faults that have not happened, let go what is held, and count from 0."""
        with self._lock:
            left, self._faults = self._faults, []
            self.forwarded.clear()
        for fault in left:
            fault.go_on.set()

    def close(self) -> None:
        """Cut everything, and wait for the threads."""
        self.reset()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            left = list(self._open)
        for one in left:
            _cut(one)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target), 10)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, broker}
            lost: _Lost = {}
            about_versions: set[int] = set()
            self._start(self._requests, client, broker, lost, about_versions)
            self._start(self._answers, client, broker, lost, about_versions)

    def _requests(self, client: socket.socket, broker: socket.socket, lost: _Lost, about_versions: set[int]) -> None:
        with self._pair(client, broker):
            while frame := read_frame(client):
                api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
                fault = self._fault(api_key, frame)
                if fault:
                    fault.met.set()
                    if fault.loss is Loss.NOTHING:
                        fault.go_on.wait(60)
                    if fault.loss is Loss.REFUSED:
                        client.sendall(_not_coordinator(frame))
                        continue
                    if fault.loss is Loss.REQUEST:
                        if fault.then:
                            fault.then()
                        return
                    lost[correlation_id] = fault, frame
                if api_key == API_VERSIONS:
                    about_versions.add(correlation_id)
                with self._lock:
                    self.forwarded[api_key] += 1
                broker.sendall(frame)

    def _answers(self, client: socket.socket, broker: socket.socket, lost: _Lost, about_versions: set[int]) -> None:
        with self._pair(client, broker):
            while frame := read_frame(broker):
                (correlation_id,) = struct.unpack_from(">i", frame, 4)
                if correlation_id in about_versions:
                    for api_key in self.first_version_only:
                        frame = frame.replace(struct.pack(">hhh", api_key, 0, 1), struct.pack(">hhh", api_key, 0, 0))
                    for api_key, (known, said) in self.newest.items():
                        there, instead = (struct.pack(">hhh", api_key, 0, version) for version in (known, said))
                        assert frame.count(there) == 1, f"the broker knows other versions of API {api_key}"
                        frame = frame.replace(there, instead)
                fault, request = lost.pop(correlation_id, (None, b""))
                if fault and fault.loss is Loss.ANSWER:
                    if fault.then:
                        fault.then()
                    return
                if fault and fault.loss in _INSTEAD:
                    frame = _INSTEAD[fault.loss](request)
                if self.delay_s:
                    threading.Event().wait(self.delay_s)
                for at in range(0, len(frame), self.piece or len(frame)):
                    client.sendall(frame[at : at + (self.piece or len(frame))])

    def _fault(self, api_key: int, frame: bytes) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.api_key != api_key or fault.having not in frame:
                    continue
                if fault.after and not fault.after.met.is_set():
                    continue
                if fault.skip == 0:
                    if not fault.always:
                        self._faults.remove(fault)
                    return fault
                fault.skip -= 1
        return None

    @contextlib.contextmanager
    def _pair(self, client: socket.socket, broker: socket.socket) -> Iterator[None]:
        """Both ends of a connection end together."""
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for one in (client, broker):
                _cut(one)
                with self._lock:
                    self._open.discard(one)


def _not_coordinator(frame: bytes) -> bytes:
    """The answer to an OffsetCommit or JoinGroup that came to a broker which does not keep the group (any more)."""
    api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
    if api_key == JOIN_GROUP:
        refused = JoinGroupResponse(
            throttle_time_ms=0, error_code=16, generation_id=-1, protocol_type=None, protocol_name=None, leader="",
            skip_assignment=False, member_id="", members=[],
        )  # fmt: skip
        body = struct.pack(">i", correlation_id) + (b"\0" if version >= 6 else b"")
        body += bytes(refused.encode(version=version))
        return struct.pack(">i", len(body)) + body
    asked = OffsetCommitRequest.decode(frame, version=version, header=True, framed=True)
    answer = OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=16
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )
    body = struct.pack(">i", correlation_id) + (b"\0" if version >= 8 else b"") + bytes(answer.encode(version=version))
    return struct.pack(">i", len(body)) + body


def _loading(frame: bytes) -> bytes:
    """The answer to what reads groups, of a coordinator that has not read its log yet; all versions are flexible."""
    api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
    request, response = _READERS[api_key]
    asked, code = request.decode(frame, version=version, header=True, framed=True), 14
    groups: list[Any]
    if api_key == OFFSET_FETCH:
        made = OffsetFetchResponse.OffsetFetchResponseGroup
        groups = [made(group_id=group.group_id, topics=[], error_code=code) for group in asked.groups]
    elif api_key == DESCRIBE_GROUPS:
        described = DescribeGroupsResponse.DescribedGroup
        groups = [
            described(
                error_code=code, error_message=None, group_id=name, group_state="", protocol_type="", protocol_data="",
                members=[], authorized_operations=set(),
            )
            for name in asked.groups
        ]  # fmt: skip
    else:
        consumers = ConsumerGroupDescribeResponse.DescribedGroup
        groups = [
            consumers(
                error_code=code, error_message=None, group_id=name, group_state="", group_epoch=0, assignment_epoch=0,
                assignor_name="", members=[], authorized_operations=0,
            )
            for name in asked.group_ids
        ]  # fmt: skip
    body = struct.pack(">i", correlation_id) + b"\0"
    body += bytes(response(throttle_time_ms=0, groups=groups).encode(version=version))
    return struct.pack(">i", len(body)) + body


def _offset_not_available(request: bytes) -> bytes:
    """The answer to ListOffsets of a leader whose high watermark is below the start of its epoch (KIP-207)."""
    _, version, correlation_id = struct.unpack_from(">hhi", request, 4)
    asked = ListOffsetsRequest.decode(request, version=version, header=True, framed=True)
    topic_row = ListOffsetsResponse.ListOffsetsTopicResponse
    answer = ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic_row(
                name=topic.name,
                partitions=[
                    topic_row.ListOffsetsPartitionResponse(
                        partition_index=row.partition_index, error_code=78, timestamp=-1, offset=-1, leader_epoch=-1
                    )
                    for row in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )
    body = struct.pack(">i", correlation_id) + (b"\0" if version >= 6 else b"") + bytes(answer.encode(version=version))
    return struct.pack(">i", len(body)) + body


_INSTEAD = {Loss.LOADING: _loading, Loss.BEHIND: _offset_not_available}

_READERS: dict[int, tuple[Any, Any]] = {
    OFFSET_FETCH: (OffsetFetchRequest, OffsetFetchResponse),
    DESCRIBE_GROUPS: (DescribeGroupsRequest, DescribeGroupsResponse),
    CONSUMER_GROUP_DESCRIBE: (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
}


def read_frame(source: socket.socket) -> bytes:
    """The next frame with its length; nothing at the end, which may be within a frame."""
    head = _exactly(source, 4)
    body = _exactly(source, *struct.unpack(">i", head)) if head else b""
    return head + body if body else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        more = source.recv(count - len(found))
        if not more:
            return b""
        found += more
    return bytes(found)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@dataclass(frozen=True, slots=True)
class ProxiedBroker:
    """A broker, the proxy before it, and the cluster as the test sees it, past the proxy."""

    proxy: KafkaProxy
    world: KafkaWorld
    bootstrap: str
    """Through the proxy."""


@contextlib.contextmanager
def proxied_broker(directory: Path, properties: dict[str, str], host: str = "127.0.0.1") -> Iterator[ProxiedBroker]:
    """Start one, and end it with the block; ``host`` is where the proxy listens."""
    sandbox, proxy = Sandbox(directory), KafkaProxy(host)
    (port,) = choose(1, free=is_free)
    bootstrap = f"[{host}]:{proxy.port}" if ":" in host else f"{host}:{proxy.port}"
    advertised = f"PLAINTEXT://127.0.0.1:{port},PROXIED://{bootstrap}"
    try:
        status = sandbox.up(
            port=port,
            listeners={"PROXIED": "PLAINTEXT"},
            properties={**properties, "advertised.listeners": advertised},
            reporter=QuietReporter(),
        )
        proxy.target = int(status.listeners["PROXIED"].rpartition(":")[2])
        with KafkaWorld(f"127.0.0.1:{port}") as world:
            yield ProxiedBroker(proxy, world, bootstrap)
    finally:
        proxy.close()
        sandbox.down(wipe=True, reporter=QuietReporter())
