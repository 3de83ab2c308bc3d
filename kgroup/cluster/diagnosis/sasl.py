"""Authentication: which mechanisms a listener offers, and why it refuses a login."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from contextlib import suppress

from kgroup.cluster.diagnosis import tcp
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.cluster.raw_connection import ILLEGAL_SASL_STATE, NO_ERROR, UNSUPPORTED_MECHANISM, Closed, Foreign, Wire
from kgroup.settings.keys import PASSWORD_MECHANISMS
from kgroup.settings.model import Settings
from kgroup.support.errors import AuthenticationFailed, KgroupError
from kgroup.support.redact import redact

_FIRST_STEP = {
    "GSSAPI": "Get a ticket first:  kinit",
    "AWS_MSK_IAM": "Check that these AWS credentials may kafka-cluster:Connect, and the region: kgroup help connection",
}


class _Exchange:
    """The common interface of kafka-python's SASL mechanisms (kafka.net.sasl.abc.SaslMechanism)."""

    auth_bytes: Callable[[], bytes]
    receive: Callable[[bytes], object]
    is_done: Callable[[], bool]


def mechanisms(wire: Wire) -> tuple[str, ...]:
    """The mechanisms of the listener: the response to an unknown mechanism lists them."""
    error, offered = wire.sasl_handshake("?")
    return offered if error == UNSUPPORTED_MECHANISM else ()


def login(target: DiagnosisTarget, wire: Wire, mechanism: str) -> None:
    """Log in with the settings. Raises AuthenticationFailed, or Unreachable if no response comes."""
    try:
        _authenticate(target, wire, mechanism)
    except TimeoutError:
        raise tcp.silent_error(target) from None
    except (Closed, Foreign, ssl.SSLError):
        raise _refused(target, mechanism, "it ended the connection") from None


def _authenticate(target: DiagnosisTarget, wire: Wire, mechanism: str) -> None:
    error, offered = wire.sasl_handshake(mechanism)
    if error == UNSUPPORTED_MECHANISM:
        raise AuthenticationFailed(
            f"{target.where} does not support {mechanism}",
            details=(
                f"It supports {', '.join(offered) or 'no mechanism'}.",
                _origin(target.settings),
            ),
        )
    if error == ILLEGAL_SASL_STATE:
        without = "SSL" if target.settings.uses_tls else "PLAINTEXT"
        raise AuthenticationFailed(
            f"{target.where} does not offer SASL on this port",
            details=(target.protocol_origin,),
            hint=f"Set security.protocol={without}, or use the port of another listener.",
        )
    if error != NO_ERROR:
        raise _refused(target, mechanism, f"error {error}")
    exchange = _exchange(target, mechanism)
    while not exchange.is_done():
        code, message, payload = wire.sasl_authenticate(exchange.auth_bytes())
        if code != NO_ERROR:
            raise _refused(target, mechanism, message or f"error {code}")
        try:
            exchange.receive(payload)
        except Exception as problem:
            # kafka-python's mechanisms raise various exceptions if the server's proof is wrong.
            raise _refused(target, mechanism, type(problem).__name__) from None


def _exchange(target: DiagnosisTarget, mechanism: str) -> _Exchange:
    # Imported here: it loads all of kafka-python, which a listener without SASL does not need.
    from kgroup.cluster.login import exchange

    try:
        started: _Exchange = exchange(target.settings, mechanism, target.host)
    except KgroupError:
        raise
    except Exception as problem:
        # GSSAPI raises its library's own errors: no ticket.
        raise AuthenticationFailed(
            f"cannot begin {mechanism} with {target.where}: {redact(str(problem), target.settings.secrets)}",
            details=(_origin(target.settings),),
            hint=_first_step(target.settings),
        ) from None
    return started


def _refused(target: DiagnosisTarget, mechanism: str, reason: str) -> AuthenticationFailed:
    settings = target.settings
    if mechanism in PASSWORD_MECHANISMS:
        user = settings.get("sasl.username")
        sources = dict.fromkeys(settings.source(key) for key in ("sasl.username", "sasl.password"))
        if len(sources) == 1:
            origin = f"SASL {mechanism}, from {next(iter(sources))}."
        else:
            name, word = sources
            origin = f"SASL {mechanism}; the user is from {name}, the password from {word}."
        return AuthenticationFailed(
            f'{target.where} refused user "{user}": wrong user or password',
            details=(origin,),
            hint="Check both there, and that the user exists for this mechanism on this cluster: kgroup context show",
        )
    subject = "the token" if mechanism == "OAUTHBEARER" else mechanism
    if reason.startswith("{"):
        # OAUTHBEARER's errors are JSON (RFC 7628, section 3.2.2).
        with suppress(ValueError):
            reason = json.loads(reason).get("status", reason)
    return AuthenticationFailed(
        f"{target.where} refused {subject}: {redact(reason, settings.secrets)}",
        details=(_origin(settings),),
        hint=_first_step(settings),
    )


def _origin(settings: Settings) -> str:
    return f"sasl.mechanism={settings.sasl_mechanism} is from {settings.source('sasl.mechanism')}."


def _first_step(settings: Settings) -> str | None:
    return _FIRST_STEP.get(settings.sasl_mechanism or "")
