"""Reads a certificate for error messages: subject, issuer, dates and names.

The standard library decodes only certificates that it has verified. So the certificate is first made its own trust
anchor, with the clock ignored.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from kgroup.settings.model import Settings
from kgroup.settings.tls import load_client_certificate

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME; the ssl module has no name for it.
_NO_CHECK_TIME = 0x200000
_HANDSHAKE_STEPS = 10


class Certificate(msgspec.Struct, frozen=True):
    """The facts of a certificate; times are UTC, ``names`` are DNS names and addresses."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]

    @property
    def self_signed(self) -> bool:
        return self.subject == self.issuer


def trust_only_context(der: bytes) -> ssl.SSLContext:
    """A client context that accepts only this one certificate, whatever its names and dates are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _trust_only(context, der)
    return context


def parse_peer_certificate(peer: dict[str, Any]) -> Certificate:
    """The certificate from the result of ``SSLSocket.getpeercert()``."""
    return Certificate(
        subject=_readable_name(peer.get("subject", ())),
        issuer=_readable_name(peer.get("issuer", ())),
        not_before=_time(peer["notBefore"]),
        not_after=_time(peer["notAfter"]),
        names=tuple(value for _kind, value in peer.get("subjectAltName", ())),
    )


def own_certificate(settings: Settings) -> Certificate | None:
    """The client certificate of the settings, None if it cannot be decoded. Raises ConfigError.

    Does two handshakes in memory and plays both sides. The first returns the certificate's bytes. In the second the
    server side verifies it as a client certificate, which decodes it.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in (client_context, server_context):
        load_client_certificate(context, settings)
    try:
        client, _ = _shaken_hands(client_context, server_context)
        der = client.getpeercert(binary_form=True)
        if not der:
            return None
        server_context.verify_mode = ssl.CERT_REQUIRED
        _trust_only(server_context, der)
        _, server = _shaken_hands(client_context, server_context)
        peer = server.getpeercert()
    except ssl.SSLError:
        return None
    return parse_peer_certificate(peer) if peer else None


def _trust_only(context: ssl.SSLContext, der: bytes) -> None:
    context.load_verify_locations(cadata=der)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)


def _shaken_hands(
    client_context: ssl.SSLContext, server_context: ssl.SSLContext
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake, the client's first. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(_HANDSHAKE_STEPS):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            break
    return client, server


def _readable_name(relative_names: Iterable[Iterable[tuple[str, str]]]) -> str:
    """``CN, O`` of a distinguished name, or all its values if it has neither."""
    parts = {key: value for relative in relative_names for key, value in relative}
    chosen = [parts[key] for key in ("commonName", "organizationName") if key in parts]
    return ", ".join(chosen or parts.values()) or "(no name)"


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
