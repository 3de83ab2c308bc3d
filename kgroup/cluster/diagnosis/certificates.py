"""Which certificate was refused, the broker's or ours, and why."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

from kgroup.cluster.diagnosis import tls
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.settings.certificates import Certificate, own_certificate, parse_peer_certificate, trust_only_context
from kgroup.settings.model import Settings
from kgroup.settings.tls import client_context, has_client_certificate
from kgroup.support.errors import KgroupError

# verify_code of ssl.SSLCertVerificationError: OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = frozenset({62, 64})


def certificate_refused(target: DiagnosisTarget, error: ssl.SSLCertVerificationError) -> KgroupError:
    """Why we do not accept the broker's certificate; fetches it once more to read its contents."""
    certificate = _broker_certificate(target)
    if certificate is None:
        return tls.fault(f"the certificate of {target.where} is refused: {error.verify_message}")
    if error.verify_code == _EXPIRED and certificate.not_after < datetime.now(UTC):
        return tls.fault(
            f"the certificate of {target.where} expired on {_day(certificate.not_after)}",
            f'It is for "{certificate.subject}", issued by "{certificate.issuer}".',
            hint="The broker needs a new certificate; nothing on this side helps.",
        )
    if error.verify_code == _NOT_YET_VALID and certificate.not_before > datetime.now(UTC):
        return tls.fault(
            f"the certificate of {target.where} is valid only from {_day(certificate.not_before)}",
            f"This machine's clock says {_day(datetime.now(UTC))}.",
        )
    if error.verify_code in _WRONG_NAME:
        names = ", ".join(certificate.names) or f"{certificate.subject} (and no alternative name)"
        return tls.fault(
            f"the certificate of {target.where} is not for the name {target.host}",
            f"It is for {names}.",
            target.origin,
            hint="Use one of these names in the address. Without the check (less safe): "
            "-X ssl.endpoint.identification.algorithm=none",
        )
    if certificate.self_signed:
        problem = f'{target.where} has a self-signed certificate that is not trusted: "{certificate.issuer}"'
    else:
        problem = f'the certificate of {target.where} is from an unknown CA: "{certificate.issuer}"'
    return tls.fault(
        problem,
        f"{error.verify_message[:1].upper()}{error.verify_message[1:]}.",
        _trust_origin(target.settings),
        hint="Set ssl.ca.location to a PEM file with the certificate of that CA.",
    )


def client_certificate_refused(target: DiagnosisTarget, words: str) -> KgroupError:
    """Why the broker refuses our certificate; ``words`` are its own, empty if it only closed the connection."""
    said = f"It said: {words}." if words else "It ended the connection after the handshake."
    settings = target.settings
    if not has_client_certificate(settings):
        return tls.fault(
            f"{target.where} wants a client certificate, and none is set",
            said,
            target.protocol_origin,
            hint="Set ssl.certificate.location and ssl.key.location (PEM).",
        )
    key = "ssl.certificate.pem" if settings.get("ssl.certificate.pem") else "ssl.certificate.location"
    origin = f"{key} is from {settings.source(key)}."
    own = own_certificate(settings)
    if own is None:
        return tls.fault(f"{target.where} refused our client certificate", said, origin)
    if own.not_after < datetime.now(UTC):
        return tls.fault(
            f"{target.where} refused our client certificate: it expired on {_day(own.not_after)}",
            f'It is "{own.subject}", issued by "{own.issuer}".',
            origin,
        )
    return tls.fault(
        f'{target.where} refused our client certificate "{own.subject}"',
        said,
        f'It is issued by "{own.issuer}", which the broker may not trust; valid until {_day(own.not_after)}.',
        origin,
    )


def _broker_certificate(target: DiagnosisTarget) -> Certificate | None:
    """The broker's certificate, decoded; None if it could not be read."""
    try:
        with tls.encrypted(target, client_context(target.settings, verify=False)) as connection:
            der = connection.getpeercert(binary_form=True)
        if der is None:
            return None
        with tls.encrypted(target, trust_only_context(der)) as connection:
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
