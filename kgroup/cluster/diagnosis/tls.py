"""TLS connections with a given context, and the words for TLS faults."""

from __future__ import annotations

import ssl

from kgroup.cluster.diagnosis import tcp
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.support.errors import KgroupError, Unreachable


def encrypted(target: DiagnosisTarget, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A TLS connection with this context. Raises OSError from the handshake, Unreachable from the TCP connection."""
    connection = tcp.connect(target)
    connection.settimeout(target.left_s)
    return context.wrap_socket(connection, server_hostname=target.host)


def accepting_anything() -> ssl.SSLContext:
    """A context without verification, to find out whether the port uses TLS at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def uses_tls(target: DiagnosisTarget) -> bool:
    """Whether the port uses TLS."""
    try:
        encrypted(target, accepting_anything()).close()
    except ssl.SSLError as error:
        # A TLS alert proves TLS; garbage or a closed connection does not.
        return "ALERT" in (error.reason or "")
    except (OSError, KgroupError):
        return False
    return True


def fault(message: str, *details: str, hint: str | None = None) -> Unreachable:
    """An error with the code ``tls``."""
    return Unreachable(message, details=details, hint=hint, code="tls")


def alert_text(reason: str) -> str:
    """``SSLV3_ALERT_CERTIFICATE_UNKNOWN`` -> ``certificate unknown``."""
    return reason.split("_ALERT_")[-1].replace("_", " ").lower()
