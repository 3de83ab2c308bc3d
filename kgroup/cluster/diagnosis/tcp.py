"""The first two steps: look up the host's name, and connect to its port."""

from __future__ import annotations

import errno
import socket
import threading

from kgroup.cluster.diagnosis.target import DiagnosisTarget
from kgroup.support.errors import Unreachable

_EAI_NODATA = getattr(socket, "EAI_NODATA", socket.EAI_NONAME)


def look_up(target: DiagnosisTarget) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Look up the addresses of the host. In a thread, because a resolver that is down ignores our time limit."""
    found: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
    failure: list[OSError] = []

    def resolve() -> None:
        try:
            for family, _, _, _, address in socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM):
                found.append((family, (str(address[0]), int(address[1]))))
        except (OSError, UnicodeError) as error:
            failure.append(error if isinstance(error, OSError) else OSError(str(error)))

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(target.left_s)
    if found:
        return found
    if failure and getattr(failure[0], "errno", None) in (socket.EAI_NONAME, _EAI_NODATA):
        raise _unreachable(target, f"the name {target.host} is unknown", "DNS knows no address for it.")
    target.may_pass = True
    raise _unreachable(
        target,
        f"the name {target.host} could not be looked up",
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
    raise _no_connection(target, failure)


def _no_connection(target: DiagnosisTarget, failure: OSError) -> Unreachable:
    tried = ", ".join(sorted({address[0] for _, address in target.addresses} - {target.host}))
    address = f"{target.where} ({tried})" if tried else target.where
    if isinstance(failure, TimeoutError):
        target.may_pass = True
        return _unreachable(
            target,
            f"{address} does not answer",
            "No connection came about in time: a firewall, or a host that is down.",
        )
    if failure.errno == errno.ECONNREFUSED:
        return _unreachable(target, f"{address} refused the connection", "Nothing listens on that port.")
    return _unreachable(target, f"{address} cannot be reached: {failure.strerror or failure}")


def _unreachable(target: DiagnosisTarget, message: str, *facts: str) -> Unreachable:
    return Unreachable(message, details=(*facts, target.origin))
