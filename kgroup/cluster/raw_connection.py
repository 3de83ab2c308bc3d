"""Kafka requests over one socket without a client, in their oldest versions: for diagnoses and for the sandbox.

A client would retry where the first result counts, and hides *how* a response fails and which bytes came instead.
Importing one also takes longer than a broker's answer. Messages: https://kafka.apache.org/protocol (not flexible).
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord

METADATA = 3
_OFFSET_FETCH, _FIND_COORDINATOR, _DESCRIBE_GROUPS, _API_VERSIONS = 9, 10, 15, 18
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36

NO_ERROR, UNSUPPORTED_MECHANISM, ILLEGAL_SASL_STATE = 0, 33, 34

_ANSWER_LIMIT = 1 << 20
_CLIENT_ID = "kgroup"

SHOWN_LENGTH = 40
"""How many bytes of a foreign response are quoted."""


class Closed(Exception):
    """The other side closed the connection instead of answering."""


class Foreign(Exception):
    """The other side answered with bytes that are not Kafka's: ``response``."""

    def __init__(self, response: bytes) -> None:
        super().__init__(response[:SHOWN_LENGTH])
        self.response = response


MALFORMED = (MalformedRecord, *FAULTS)
"""What decoding a response raises that is framed like Kafka's and is none."""

NO_ANSWER = (OSError, Closed, Foreign, *MALFORMED)
"""Everything that a request raises if its response does not come."""


class BrokerAddress(msgspec.Struct, frozen=True):
    """A broker's address as another broker reports it."""

    node_id: int
    host: str
    port: int


class Wire:
    """A connection for one request at a time, until ``deadline`` (``time.monotonic``).

    Requests raise Closed, Foreign, TimeoutError, SSLError, or one of MALFORMED.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._sent = 0

    def send_api_versions(self) -> None:
        """Send ApiVersions v0, the one request that every listener answers; ``offered_apis`` decodes its answer."""
        self._send(_API_VERSIONS, 0)

    def brokers(self) -> tuple[int, ...]:
        """Ids of the brokers that the cluster reports as alive (Metadata v1, no topics)."""
        answer = self._ask(METADATA, 1, struct.pack(">i", 0))
        return tuple(broker.node_id for broker in answer.array(lambda: _broker(answer, with_rack=True)))

    def coordinator(self, group: str) -> tuple[int, BrokerAddress]:
        """Error code, and the group's coordinator (FindCoordinator v1). Creates ``__consumer_offsets``."""
        answer = self._ask(_FIND_COORDINATOR, 1, _string(group) + b"\0")
        answer.i32()
        error = answer.i16()
        answer.nullable_string()
        return error, _broker(answer, with_rack=False)

    def offsets_error(self, group: str) -> int:
        """Error code of an OffsetFetch v2 for no topic; 0: the coordinator has loaded the group."""
        answer = self._ask(_OFFSET_FETCH, 2, _string(group) + struct.pack(">i", 0))
        answer.i32()
        return answer.i16()

    def group_state(self, group: str) -> tuple[int, str | None]:
        """Error code and state of a classic group (DescribeGroups v0); an unknown group is Dead."""
        answer = self._ask(_DESCRIBE_GROUPS, 0, struct.pack(">i", 1) + _string(group))
        answer.i32()
        error = answer.i16()
        answer.nullable_string()
        return error, answer.nullable_string()

    def sasl_handshake(self, mechanism: str) -> tuple[int, tuple[str, ...]]:
        """(error code, enabled mechanisms) from SaslHandshake v1."""
        answer = self._ask(_SASL_HANDSHAKE, 1, _string(mechanism))
        return answer.i16(), answer.array(answer.string)

    def sasl_authenticate(self, proof: bytes) -> tuple[int, str | None, bytes]:
        """(error code, the broker's message, the mechanism's bytes) from SaslAuthenticate v0."""
        answer = self._ask(_SASL_AUTHENTICATE, 0, _sized(proof))
        return answer.i16(), answer.nullable_string(), answer.nullable_bytes() or b""

    def answer(self, *, within_s: float | None = None) -> bytes:
        """The body of the response to the last request. After a TimeoutError it may be called again."""
        until = self._deadline
        if within_s is not None:
            until = min(until, time.monotonic() + within_s)
        try:
            head = self._read(8, until)
            size, correlation = struct.unpack(">ii", head)
            if correlation != self._sent or not 4 <= size <= _ANSWER_LIMIT:
                raise Foreign(head + self._rest())
            return self._read(size - 4, self._deadline)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise Closed from None

    def _ask(self, api: int, version: int, body: bytes) -> ByteReader:
        self._send(api, version, body)
        return ByteReader(self.answer())

    def _send(self, api: int, version: int, body: bytes = b"") -> None:
        self._sent += 1
        content = struct.pack(">hhi", api, version, self._sent) + _string(_CLIENT_ID) + body
        try:
            self._connection.settimeout(left_s(self._deadline))
            self._connection.sendall(_sized(content))
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise Closed from None

    def _read(self, size: int, until: float) -> bytes:
        data = b""
        while len(data) < size:
            self._connection.settimeout(left_s(until))
            try:
                piece = self._connection.recv(size - len(data))
            except TimeoutError:
                if data:
                    raise Foreign(data) from None
                raise
            if not piece:
                raise Foreign(data) if data else Closed
            data += piece
        return data

    def _rest(self) -> bytes:
        self._connection.settimeout(0.05)
        try:
            return self._connection.recv(256)
        except OSError:
            return b""


@contextmanager
def connected(host: str, port: int, timeout_s: float = 5.0) -> Iterator[Wire]:
    """A plaintext connection to one broker, for at most ``timeout_s``. Raises OSError if there is none."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        yield Wire(connection, time.monotonic() + timeout_s)


def offered_apis(answer: bytes) -> frozenset[int]:
    """The API keys in an ApiVersions v0 response, also if it has an error code. Raises one of MALFORMED."""
    reader = ByteReader(answer, pos=2)
    return frozenset(key for key, _, _ in reader.array(lambda: (reader.i16(), reader.i16(), reader.i16())))


def left_s(deadline: float) -> float:
    """Seconds until the deadline, for a socket timeout: never 0, which would mean non-blocking."""
    return max(deadline - time.monotonic(), 0.001)


def _broker(answer: ByteReader, *, with_rack: bool) -> BrokerAddress:
    broker = BrokerAddress(answer.i32(), answer.string(), answer.i32())
    if with_rack:
        answer.nullable_string()
    return broker


def _string(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return struct.pack(">h", len(encoded)) + encoded


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
