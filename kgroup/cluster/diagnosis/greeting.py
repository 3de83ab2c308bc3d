"""The first response of a port: Kafka's to ApiVersions, that of another protocol, or none."""

from __future__ import annotations

from contextlib import closing

from kgroup.cluster.diagnosis import tcp
from kgroup.cluster.diagnosis.target import DiagnosisTarget
from kgroup.cluster.wire import SHOWN_LENGTH, Foreign, Wire
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.redact import redact

_PATIENCE_S = 0.25
"""After this long without a response the port also gets an HTTP request."""

_TLS_ALERT = b"\x15\x03"
_SERVICES = {b"HTTP/": "an HTTP server", b"SSH-": "an SSH server", b"220": "a mail or FTP server"}


def first_answer(target: DiagnosisTarget, wire: Wire) -> bytes:
    """Send ApiVersions in plaintext. If no response comes soon, also send an HTTP request."""
    wire.send_api_versions()
    try:
        return wire.answer(within_s=_PATIENCE_S)
    except TimeoutError:
        said = _asked_in_http(target)
        if said:
            raise Foreign(said) from None
        return wire.answer()


def is_tls(foreign: Foreign) -> bool:
    """Whether the response is a TLS alert: the port uses TLS and got plaintext."""
    return foreign.said.startswith(_TLS_ALERT)


def not_kafka(target: DiagnosisTarget, said: bytes) -> Unreachable:
    """The error for a port that is no Kafka broker; ``said`` is its response, empty if it closed the connection."""
    service = next((name for start, name in _SERVICES.items() if said.startswith(start)), None)
    if service is not None:
        message = f"{target.where} is not Kafka; it looks like {service}"
    elif said:
        message = f"{target.where} is not Kafka"
    else:
        message = f"{target.where} is not Kafka, or not in {target.settings.security_protocol}: it hangs up"
    line = said.split(b"\r")[0].split(b"\n")[0][:SHOWN_LENGTH]
    shown = redact(line.decode("ascii", "backslashreplace"), target.settings.secrets)
    facts = (f"It answered {shown!r}.",) if line else ()
    return Unreachable(message, details=(*facts, target.origin), hint="Kafka often listens on 9092.", code="not-kafka")


def silent(target: DiagnosisTarget) -> Unreachable:
    """The error for a port that does not answer; a longer wait may help."""
    target.may_pass = True
    return Unreachable(
        f"{target.where} accepts connections, but does not answer",
        details=(target.origin,),
        hint="The broker hangs or is overloaded, or this is not Kafka; a longer --timeout waits longer.",
        code="timed-out",
    )


def _asked_in_http(target: DiagnosisTarget) -> bytes:
    try:
        with closing(tcp.connect(target)) as connection:
            connection.settimeout(min(_PATIENCE_S, target.left_s))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(256)
    except (OSError, KgroupError):  # if a second connection fails, the first one may still answer
        return b""
