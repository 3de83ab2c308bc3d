"""TLS connections: the handshake, why it failed, and which certificate was refused, the broker's or ours."""

from __future__ import annotations

import ssl
from contextlib import closing
from datetime import UTC, datetime

from kgroup.cluster.diagnosis import tcp
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.cluster.raw_connection import Closed, Foreign, Wire
from kgroup.settings.certificates import Certificate, own_certificate, parse_peer_certificate, trust_only_context
from kgroup.settings.model import Settings
from kgroup.settings.tls import client_context, has_client_certificate
from kgroup.support.errors import KgroupError, Unreachable


def open_tls(target: DiagnosisTarget, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A TLS connection with this context. Raises OSError from the handshake, Unreachable from the TCP connection."""
    connection = tcp.connect(target)
    connection.settimeout(target.left_s)
    return context.wrap_socket(connection, server_hostname=target.host)


def unverified_context() -> ssl.SSLContext:
    """A context without verification, to find out whether the port uses TLS at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def uses_tls(target: DiagnosisTarget) -> bool:
    try:
        open_tls(target, unverified_context()).close()
    except ssl.SSLError as error:
        # A TLS alert proves TLS; garbage or a closed connection does not.
        return "ALERT" in (error.reason or "")
    except (OSError, KgroupError):
        return False
    return True


def tls_error(message: str, *details: str, hint: str | None = None) -> Unreachable:
    return Unreachable(message, details=details, hint=hint, code="tls")


def alert_text(reason: str) -> str:
    """``SSLV3_ALERT_CERTIFICATE_UNKNOWN`` -> ``certificate unknown``."""
    return reason.split("_ALERT_")[-1].replace("_", " ").lower()


# verify_code of ssl.SSLCertVerificationError: OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = frozenset({62, 64})


def certificate_refused(target: DiagnosisTarget, error: ssl.SSLCertVerificationError) -> KgroupError:
    """Why we do not accept the broker's certificate; fetches it once more to read its contents."""
    certificate = _broker_certificate(target)
    if certificate is None:
        return tls_error(f"the certificate of {target.where} is refused: {error.verify_message}")
    if error.verify_code == _EXPIRED and certificate.not_after < datetime.now(UTC):
        return tls_error(
            f"the certificate of {target.where} expired on {_day(certificate.not_after)}",
            f'It is for "{certificate.subject}", issued by "{certificate.issuer}".',
            hint="The broker needs a new certificate; no setting of kgroup helps.",
        )
    if error.verify_code == _NOT_YET_VALID and certificate.not_before > datetime.now(UTC):
        return tls_error(
            f"the certificate of {target.where} is valid only from {_day(certificate.not_before)}",
            f"This machine's date is {_day(datetime.now(UTC))}.",
        )
    if error.verify_code in _WRONG_NAME:
        names = ", ".join(certificate.names) or f"{certificate.subject} (and no alternative name)"
        return tls_error(
            f"the certificate of {target.where} is not for the name {target.host}",
            f"It is for {names}.",
            target.origin,
            hint="Use one of these names in the address. To skip the check (less safe): "
            "-X ssl.endpoint.identification.algorithm=none",
        )
    if certificate.self_signed:
        problem = f'{target.where} has a self-signed certificate that is not trusted: "{certificate.issuer}"'
    else:
        problem = f'the certificate of {target.where} is from an unknown CA: "{certificate.issuer}"'
    return tls_error(
        problem,
        f"{error.verify_message[:1].upper()}{error.verify_message[1:]}.",
        _trust_origin(target.settings),
        hint="Set ssl.ca.location to a PEM file with the certificate of that CA.",
    )


def client_certificate_refused(target: DiagnosisTarget, words: str) -> KgroupError:
    """Why the broker refuses our certificate; ``words`` are its own, empty if it only closed the connection."""
    said = f"Its answer: {words}." if words else "It ended the connection after the handshake."
    settings = target.settings
    if not has_client_certificate(settings):
        return tls_error(
            f"{target.where} requires a client certificate, and none is set",
            said,
            target.protocol_origin,
            hint="Set ssl.certificate.location and ssl.key.location (PEM).",
        )
    key = "ssl.certificate.pem" if settings.get("ssl.certificate.pem") else "ssl.certificate.location"
    origin = f"{key} is from {settings.source(key)}."
    own = own_certificate(settings)
    if own is None:
        return tls_error(f"{target.where} refused our client certificate", said, origin)
    if own.not_after < datetime.now(UTC):
        return tls_error(
            f"{target.where} refused our client certificate: it expired on {_day(own.not_after)}",
            f'It is "{own.subject}", issued by "{own.issuer}".',
            origin,
        )
    return tls_error(
        f'{target.where} refused our client certificate "{own.subject}"',
        said,
        f'It is issued by "{own.issuer}", which the broker may not trust; valid until {_day(own.not_after)}.',
        origin,
    )


def _broker_certificate(target: DiagnosisTarget) -> Certificate | None:
    """The broker's certificate, decoded; None if it could not be read."""
    try:
        with open_tls(target, client_context(target.settings, verify=False)) as connection:
            der = connection.getpeercert(binary_form=True)
        if der is None:
            return None
        with open_tls(target, trust_only_context(der)) as connection:
            peer = connection.getpeercert()
    except (OSError, KgroupError):
        return None
    return parse_peer_certificate(peer) if peer else None


def _trust_origin(settings: Settings) -> str:
    for key in ("ssl.ca.pem", "ssl.ca.location"):
        value = settings.get(key)
        if value:
            shown = "" if key == "ssl.ca.pem" else f" {value},"
            return f"Trusted is {key},{shown} from {settings.source(key)}."
    return "Trusted is what this machine trusts: neither ssl.ca.location nor ssl.ca.pem is set."


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def connect(target: DiagnosisTarget) -> ssl.SSLSocket:
    """A TLS connection as the settings require it. Raises the reason if there is none."""
    context = client_context(target.settings)
    try:
        return open_tls(target, context)
    except ssl.SSLCertVerificationError as error:
        raise certificate_refused(target, error) from None
    except OSError as error:
        raise _handshake_error(target, error) from None


def closed_error(target: DiagnosisTarget, error: ssl.SSLError | None) -> KgroupError:
    """Why the other side ended TLS at our first read. ``error`` None: it closed the connection.

    With TLS 1.3 a refused client certificate shows only at the first read.
    """
    reason = (error.reason or "") if error is not None else ""
    if error is None or _is_about_client_certificate(reason):
        return client_certificate_refused(target, alert_text(reason))
    return tls_error(f"no TLS with {target.where}: {alert_text(reason)}", target.protocol_origin)


def _handshake_error(target: DiagnosisTarget, error: OSError) -> KgroupError:
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if _is_about_client_certificate(reason):
        return client_certificate_refused(target, alert_text(reason))
    if isinstance(error, TimeoutError):
        # The handshake used all of the time: a second connection would time out and wrongly suggest a firewall.
        return tcp.silent_error(target)
    try:
        with closing(tcp.connect(target)) as connection:
            tcp.first_response(target, Wire(connection, target.deadline))
    except Foreign as foreign:
        if not tcp.is_tls(foreign):
            return tcp.not_kafka_error(target, foreign.response)
    except (Closed, TimeoutError):
        pass
    else:
        return tls_error(
            f"{target.where} does not use TLS; it is probably a plaintext port",
            target.protocol_origin,
            "Other listeners cannot be seen from here; brokers often have TLS on 9093.",
        )
    return tls_error(
        f"no TLS with {target.where}: {alert_text(reason) or 'it closed the connection during the handshake'}",
        target.protocol_origin,
        hint="Check that the port is a TLS listener of a Kafka broker, and not a web server or a plaintext port.",
    )


def _is_about_client_certificate(reason: str) -> bool:
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)
