"""The steps of a diagnosis, in their order, until one fails."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing

from kgroup.cluster.diagnosis import sasl, tcp, tls
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.cluster.raw_connection import MALFORMED, METADATA, Closed, Foreign, Wire, offered_apis
from kgroup.support.errors import AuthenticationFailed, KgroupError, Unreachable


def probe(target: DiagnosisTarget) -> None:
    """Raise the target's fault; return if it has none."""
    try:
        _steps(target)
    except MALFORMED:  # framed like a Kafka message, but too short to be one
        raise tcp.not_kafka_error(target, b"") from None


def _steps(target: DiagnosisTarget) -> None:
    target.addresses = tcp.look_up(target)
    tcp.connect(target).close()
    with closing(_connection(target)) as connection:
        wire = Wire(connection, target.deadline)
        answer = _first_response_over_tls(target, wire) if target.settings.uses_tls else _first_response(target, wire)
        if METADATA not in offered_apis(answer):
            raise _controller(target)
        mechanism = target.settings.wire_mechanism
        if mechanism is None:
            _require_no_login(target, wire)
        else:
            sasl.login(target, wire, mechanism)


def _connection(target: DiagnosisTarget) -> socket.socket:
    return tls.connect(target) if target.settings.uses_tls else tcp.connect(target)


def _first_response_over_tls(target: DiagnosisTarget, wire: Wire) -> bytes:
    try:
        wire.send_api_versions()
        return wire.answer()
    except ssl.SSLError as error:
        raise tls.closed_error(target, error) from None
    except Closed:
        raise tls.closed_error(target, None) from None
    except Foreign as foreign:
        raise tcp.not_kafka_error(target, foreign.response) from None
    except TimeoutError:
        raise tcp.silent_error(target) from None


def _first_response(target: DiagnosisTarget, wire: Wire) -> bytes:
    try:
        return tcp.first_response(target, wire)
    except Foreign as foreign:
        if tcp.is_tls(foreign):
            raise _tls_required(target) from None
        raise tcp.not_kafka_error(target, foreign.response) from None
    except Closed:
        if tls.uses_tls(target):
            raise _tls_required(target) from None
        raise tcp.not_kafka_error(target, b"") from None
    except TimeoutError:
        raise tcp.silent_error(target) from None


def _tls_required(target: DiagnosisTarget) -> KgroupError:
    mechanisms = _mechanisms_behind_tls(target)
    hint = (
        f"Set security.protocol=SASL_SSL and sasl.mechanism ({', '.join(mechanisms)}), with a user."
        if mechanisms
        else "Set security.protocol=SSL, or SASL_SSL if it requires a user."
    )
    return tls.tls_error(
        f"{target.where} requires TLS, and the connection does not use it", target.protocol_origin, hint=hint
    )


def _mechanisms_behind_tls(target: DiagnosisTarget) -> tuple[str, ...]:
    try:
        with tls.open_tls(target, tls.unverified_context()) as connection:
            return sasl.mechanisms(Wire(connection, target.deadline))
    except (OSError, Closed, Foreign, KgroupError):
        return ()


def _controller(target: DiagnosisTarget) -> Unreachable:
    return Unreachable(
        f"{target.where} is a KRaft controller, not a broker",
        details=(target.origin,),
        hint="Use the address of a broker's client listener.",
        code="not-kafka",
    )


def _require_no_login(target: DiagnosisTarget, wire: Wire) -> None:
    """Check that no login is needed: a listener with SASL answers ApiVersions, and closes at anything else."""
    try:
        wire.brokers()
        return
    except TimeoutError:
        raise tcp.silent_error(target) from None
    except (Closed, Foreign, ssl.SSLError):
        pass
    offered: tuple[str, ...] = ()
    try:
        with closing(_connection(target)) as connection:
            offered = sasl.mechanisms(Wire(connection, target.deadline))
    except (OSError, Closed, Foreign):
        pass
    with_sasl = "SASL_SSL" if target.settings.uses_tls else "SASL_PLAINTEXT"
    named = f" ({', '.join(offered)})" if offered else ""
    raise AuthenticationFailed(
        f"{target.where} requires SASL authentication, and no user is set",
        details=(target.protocol_origin,),
        hint=f"Set security.protocol={with_sasl} and sasl.mechanism{named}, with a user.",
    )
