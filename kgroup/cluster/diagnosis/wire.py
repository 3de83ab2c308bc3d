"""Kafka requests in the oldest framing over one socket, and any other bytes that come back.

It does not use a client, because here it matters *how* a response fails, and which bytes came instead.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time

from kgroup.cluster.diagnosis.target import left_s

_ANSWER_LIMIT = 1 << 20
_CLIENT_ID = "kgroup"

SHOWN_LENGTH = 40
"""How many bytes of a foreign response are quoted."""


class Closed(Exception):
    """The other side closed the connection instead of answering."""


class Foreign(Exception):
    """The other side answered with bytes that are not Kafka's: ``said``."""

    def __init__(self, said: bytes) -> None:
        super().__init__(said[:SHOWN_LENGTH])
        self.said = said


class Wire:
    """A connection for one request at a time. Raises Closed, Foreign, TimeoutError, SSLError."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._sent = 0

    def ask(self, api: int, version: int, body: bytes = b"") -> bytes:
        """Send a request and return the body of its response."""
        self.send(api, version, body)
        return self.answer()

    def send(self, api: int, version: int, body: bytes = b"") -> None:
        """Send a request."""
        self._sent += 1
        content = struct.pack(">hhi", api, version, self._sent) + string(_CLIENT_ID) + body
        try:
            self._connection.settimeout(left_s(self._deadline))
            self._connection.sendall(sized(content))
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise Closed from None

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


def string(text: str) -> bytes:
    """A string in the protocol's encoding."""
    encoded = text.encode("utf-8")
    return struct.pack(">h", len(encoded)) + encoded


def sized(data: bytes) -> bytes:
    """Bytes with their length, as the protocol encodes them; messages are framed in the same way."""
    return struct.pack(">i", len(data)) + data
