"""The few Kafka requests that show whether a broker is ready, over a plain socket.

Importing a client library takes longer than a broker's answer, and it would retry where we need the first result.
Messages: https://kafka.apache.org/protocol (classic versions, not the flexible ones).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

METADATA, OFFSET_FETCH, FIND_COORDINATOR, DESCRIBE_GROUPS = 3, 9, 10, 15

_CLIENT_ID = "kgroup-sandbox"
_MOST_BYTES = 16 * 1024 * 1024


class ProtocolError(OSError):
    """The peer closed the connection or does not speak Kafka."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker's address as another broker reports it."""

    node_id: int
    host: str
    port: int


class AnswerReader:
    """Reads the values of a response in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        """The next integer; ``form`` is a struct code (h, i, b)."""
        value: int
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return value

    def text(self) -> str | None:
        """The next nullable string."""
        length = self.number("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()


def text(value: str) -> bytes:
    """A string in the protocol's encoding."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


class BrokerSocket:
    """One connection to one broker. Every call raises OSError if there is no answer."""

    def __init__(self, host: str, port: int, timeout_s: float = 5.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def brokers(self) -> tuple[int, ...]:
        """Ids of the brokers that the cluster reports as alive (Metadata v1, no topics)."""
        answer = self._call(METADATA, 1, struct.pack(">i", 0))
        return tuple(_metadata_broker(answer) for _ in range(answer.number("i")))

    def coordinator(self, group: str) -> tuple[int, BrokerAddress]:
        """Error code, and the group's coordinator (FindCoordinator v1). Creates ``__consumer_offsets``."""
        answer = self._call(FIND_COORDINATOR, 1, text(group) + b"\0")
        answer.number("i")
        error = answer.number("h")
        answer.text()
        node_id, host, port = answer.number("i"), answer.text(), answer.number("i")
        return error, BrokerAddress(node_id, host or "", port)

    def offsets_error(self, group: str) -> int:
        """Error code of an OffsetFetch v2 for no topic; 0: the coordinator has loaded the group."""
        answer = self._call(OFFSET_FETCH, 2, text(group) + struct.pack(">i", 0))
        answer.number("i")
        return answer.number("h")

    def group_state(self, group: str) -> tuple[int, str | None]:
        """Error code and state of a classic group (DescribeGroups v0); an unknown group is Dead."""
        answer = self._call(DESCRIBE_GROUPS, 0, struct.pack(">i", 1) + text(group))
        answer.number("i")
        error = answer.number("h")
        answer.text()
        return error, answer.text()

    def _call(self, api: int, version: int, body: bytes) -> AnswerReader:
        message = struct.pack(">hhi", api, version, 0) + text(_CLIENT_ID) + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", self._receive(4))
        if not 4 <= length <= _MOST_BYTES:
            raise ProtocolError(f"an answer of {length} bytes")
        return AnswerReader(self._receive(length)[4:])

    def _receive(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            if not more:
                raise ProtocolError("connection closed")
            data += more
        return data


def _metadata_broker(answer: AnswerReader) -> int:
    node_id = answer.number("i")
    answer.text()
    answer.number("i")
    answer.text()
    return node_id
