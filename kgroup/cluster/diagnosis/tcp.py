"""The address to diagnose: look up the host's name, connect to its port, and judge the port's first response."""

from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import closing

from kgroup.cluster.raw_connection import SHOWN_LENGTH, Foreign, Wire, left_s
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.redact import redact


class DiagnosisTarget:
    """One address, the settings for connecting to it, and the time left; one object per diagnosis."""

    def __init__(self, settings: Settings, host: str, port: int, deadline_s: float) -> None:
        self.settings = settings
        self.host = host
        self.port = port
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = time.monotonic() + deadline_s
        self.may_pass = False
        """Whether a fault was only slowness, at the last step or at one before."""
        self.addresses: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
        """The addresses of the host's name, set after the DNS lookup."""

    @property
    def left_s(self) -> float:
        return left_s(self.deadline)

    @property
    def origin(self) -> str:
        """A sentence on the address's source: the settings, or a broker that advertised it."""
        servers = [server.strip() for server in self.settings.bootstrap_servers.split(",")]
        source = self.settings.source("bootstrap.servers")
        if self.where in servers or (self.port == 9092 and self.host in servers):
            return f"{self.where} is from {source}."
        return (
            f"{self.where} is not from your settings: a broker names it (advertised.listeners); "
            f"the first request went to {servers[0]}, from {source}."
        )

    @property
    def protocol_origin(self) -> str:
        """A sentence with the effective security.protocol and its source."""
        named = f"security.protocol={self.settings.security_protocol}"
        if self.settings.get("security.protocol") is None:
            return f"{named} is the default."
        return f"{named} is from {self.settings.source('security.protocol')}."


_EAI_NODATA = getattr(socket, "EAI_NODATA", socket.EAI_NONAME)


def look_up(target: DiagnosisTarget) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Look up the addresses of the host. In a thread, because a resolver that is down ignores our time limit."""
    addresses: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
    failure: list[OSError] = []

    def resolve() -> None:
        try:
            for family, _, _, _, address in socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM):
                addresses.append((family, (str(address[0]), int(address[1]))))
        except (OSError, UnicodeError) as error:
            failure.append(error if isinstance(error, OSError) else OSError(str(error)))

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(target.left_s)
    if addresses:
        return addresses
    if failure and getattr(failure[0], "errno", None) in (socket.EAI_NONAME, _EAI_NODATA):
        raise _unreachable(target, f"the host name {target.host} is unknown", "DNS has no address for it.")
    target.may_pass = True
    raise _unreachable(
        target,
        f"the host name {target.host} could not be resolved",
        f"DNS: {failure[0].strerror or failure[0]}." if failure else "DNS did not answer.",
    )


def connect(target: DiagnosisTarget) -> socket.socket:
    """A connection to the target's first address that accepts one. Raises Unreachable."""
    failure: OSError | None = None
    for family, address in target.addresses:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(target.left_s)
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    assert failure is not None
    raise _connection_error(target, failure)


def _connection_error(target: DiagnosisTarget, failure: OSError) -> Unreachable:
    tried = ", ".join(sorted({address[0] for _, address in target.addresses} - {target.host}))
    address = f"{target.where} ({tried})" if tried else target.where
    if isinstance(failure, TimeoutError):
        target.may_pass = True
        return _unreachable(
            target,
            f"{address} does not answer",
            "No connection within the timeout: a firewall blocks it, or the host is down.",
        )
    if failure.errno == errno.ECONNREFUSED:
        return _unreachable(target, f"{address} refused the connection", "Nothing listens on that port.")
    return _unreachable(target, f"{address} cannot be reached: {failure.strerror or failure}")


def _unreachable(target: DiagnosisTarget, message: str, *facts: str) -> Unreachable:
    return Unreachable(message, details=(*facts, target.origin))


_PATIENCE_S = 0.25
"""After this long without a response the port also gets an HTTP request."""

_TLS_ALERT = b"\x15\x03"
_SERVICES = {b"HTTP/": "an HTTP server", b"SSH-": "an SSH server", b"220": "a mail or FTP server"}


def first_response(target: DiagnosisTarget, wire: Wire) -> bytes:
    """Send ApiVersions in plaintext. If no response comes soon, also send an HTTP request."""
    wire.send_api_versions()
    try:
        return wire.answer(within_s=_PATIENCE_S)
    except TimeoutError:
        response = _http_response(target)
        if response:
            raise Foreign(response) from None
        return wire.answer()


def is_tls(foreign: Foreign) -> bool:
    """Whether the response is a TLS alert: the port uses TLS and got plaintext."""
    return foreign.response.startswith(_TLS_ALERT)


def not_kafka_error(target: DiagnosisTarget, response: bytes) -> Unreachable:
    """The error for a port that is no Kafka broker; ``response`` is empty if it closed the connection."""
    service = next((name for start, name in _SERVICES.items() if response.startswith(start)), None)
    if service is not None:
        message = f"{target.where} is not Kafka but probably {service}"
    elif response:
        message = f"{target.where} is not Kafka"
    else:
        protocol = target.settings.security_protocol
        message = f"{target.where} closed the connection: it is not Kafka, or does not use {protocol}"
    line = response.split(b"\r")[0].split(b"\n")[0][:SHOWN_LENGTH]
    shown = redact(line.decode("ascii", "backslashreplace"), target.settings.secrets)
    facts = (f"It answered {shown!r}.",) if line else ()
    return Unreachable(message, details=(*facts, target.origin), hint="Kafka often listens on 9092.", code="not-kafka")


def silent_error(target: DiagnosisTarget) -> Unreachable:
    """The error for a port that does not answer; a longer wait may help."""
    target.may_pass = True
    return Unreachable(
        f"{target.where} accepts connections and does not answer",
        details=(target.origin,),
        hint="The broker hangs or is overloaded, or this is not Kafka. Try a longer --timeout.",
        code="timed-out",
    )


def _http_response(target: DiagnosisTarget) -> bytes:
    try:
        with closing(connect(target)) as connection:
            connection.settimeout(min(_PATIENCE_S, target.left_s))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(256)
    except (OSError, KgroupError):  # if a second connection fails, the first one may still answer
        return b""
