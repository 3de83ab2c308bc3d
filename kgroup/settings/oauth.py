"""Tokens for SASL OAUTHBEARER: unsecured tokens for sandboxes, and OIDC client credentials."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from kgroup.settings.model import Settings
from kgroup.support.errors import AuthenticationFailed, ConfigError, Unreachable
from kgroup.support.redact import redact

_ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"
_REQUIRED_FOR_OIDC = (_ENDPOINT_KEY, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
_REFRESH_AT = 0.8
_ANSWER_LIMIT = 1 << 20


@dataclass(slots=True)
class TokenSource:
    """Returns a token, the same one until four fifths of its lifetime are over.

    kafka-python calls ``token`` and ``extensions`` (kafka.net.sasl.oauth.AbstractTokenProvider). ``fetch`` returns a
    token and its lifetime in seconds. The lifetime is None if it is unknown; then every call fetches.
    """

    fetch: Callable[[], tuple[str, float | None]] = field(repr=False)
    sent_along: Mapping[str, str]
    _token: str | None = field(default=None, repr=False)
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self) -> str:
        """A valid token. Raises AuthenticationFailed or Unreachable."""
        with self._lock:
            if self._token is None or time.monotonic() >= self._until:
                self._token, life_s = self.fetch()
                self._until = time.monotonic() + _REFRESH_AT * (life_s or 0.0)
            return self._token

    def extensions(self) -> dict[str, str]:
        """SASL extensions (KIP-342)."""
        return dict(self.sent_along)


def token_source(settings: Settings) -> TokenSource:
    """The token source of the settings. Raises ConfigError if they describe none."""
    if (settings.get("sasl.oauthbearer.method") or "default").lower() == "oidc":
        return _oidc(settings)
    if (settings.get("enable.sasl.oauthbearer.unsecure.jwt") or "false").lower() == "true":
        return _unsecured(settings)
    raise ConfigError(
        "sasl.mechanism=OAUTHBEARER needs a way to get tokens",
        details=(f"sasl.mechanism is from {settings.source('sasl.mechanism')}.",),
        hint=f"Set sasl.oauthbearer.method=oidc and {', '.join(_REQUIRED_FOR_OIDC)}",
    )


def _unsecured(settings: Settings) -> TokenSource:
    """Unsigned tokens, from librdkafka's ``principal=alice lifeSeconds=600 extension_a=b``."""
    key = "sasl.oauthbearer.config"
    options = _pairs(settings, key, " ")
    sent_along = {
        name.removeprefix("extension_"): options.pop(name) for name in list(options) if name.startswith("extension_")
    }
    principal = options.pop("principal", None)
    if not principal:
        raise ConfigError(f"{key} needs principal=NAME (from {settings.source(key)})")
    principal_claim = options.pop("principalClaimName", "sub")
    life_text = options.pop("lifeSeconds", "3600")
    if not life_text.isdigit():
        raise ConfigError(f"{key} from {settings.source(key)}: lifeSeconds must be a number of seconds")
    claims: dict[str, Any] = {principal_claim: principal}
    if "scope" in options:
        claims[options.pop("scopeClaimName", "scope")] = options.pop("scope").split(",")
    if options:
        raise ConfigError(f"{key} from {settings.source(key)}: unknown {', '.join(sorted(options))}")
    life_s = int(life_text)

    def fetch() -> tuple[str, float | None]:
        now = int(time.time())
        return unsecured_token(claims | {"iat": now, "exp": now + life_s}), float(life_s)

    return TokenSource(fetch, sent_along)


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """A JSON web token with the algorithm ``none`` (RFC 7519, section 6)."""

    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode("ascii")

    return f"{part({'alg': 'none'})}.{part(claims)}."


def _oidc(settings: Settings) -> TokenSource:
    """Client credentials (RFC 6749, section 4.4) with the id and secret in the Authorization header."""
    missing = [key for key in _REQUIRED_FOR_OIDC if not settings.get(key)]
    if missing:
        raise ConfigError(
            f"sasl.oauthbearer.method=oidc needs {' and '.join(missing)}",
            details=(f"sasl.oauthbearer.method is from {settings.source('sasl.oauthbearer.method')}.",),
        )
    endpoint = settings.get(_ENDPOINT_KEY) or ""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{_ENDPOINT_KEY} from {settings.source(_ENDPOINT_KEY)} must be an http or https URL")
    context = _https_context(settings) if parts.scheme == "https" else None
    form = {"grant_type": "client_credentials"}
    if settings.get("sasl.oauthbearer.scope"):
        form["scope"] = settings.get("sasl.oauthbearer.scope") or ""
    identity = f"{settings.get('sasl.oauthbearer.client.id')}:{settings.get('sasl.oauthbearer.client.secret')}"
    headers = {
        "Accept": "application/json",
        "Authorization": "Basic " + base64.b64encode(identity.encode()).decode("ascii"),
        "Content-Type": "application/x-www-form-urlencoded",
    }

    def fetch() -> tuple[str, float | None]:
        request = Request(endpoint, urlencode(form, quote_via=quote).encode(), headers, method="POST")
        try:
            with urlopen(request, timeout=settings.timeout_s, context=context) as answer:
                body = answer.read(_ANSWER_LIMIT)
        except HTTPError as error:
            raise _refused(settings, parts.netloc, error) from None
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(
                f"{parts.hostname} gave no token: {reason}",
                details=(f"{_ENDPOINT_KEY} is from {settings.source(_ENDPOINT_KEY)}.",),
            ) from None
        return _token_in(body, parts.netloc)

    return TokenSource(fetch, _pairs(settings, "sasl.oauthbearer.extensions", ","))


def _refused(settings: Settings, where: str, error: HTTPError) -> AuthenticationFailed:
    """The error with the endpoint's own text (RFC 6749, section 5.2), and nothing that we sent."""
    try:
        answer = json.loads(error.read(_ANSWER_LIMIT))
        words = answer.get("error_description") or answer.get("error") or ""
    except (ValueError, AttributeError, OSError):
        words = ""
    words = redact(words, settings.secrets) if isinstance(words, str) else ""
    said = f": {words}" if words else ""
    return AuthenticationFailed(
        f"{where} gave no token to client {settings.get('sasl.oauthbearer.client.id')!r}{said}",
        details=(
            f"It answered with status {error.code}.",
            f"sasl.oauthbearer.client.id is from {settings.source('sasl.oauthbearer.client.id')}.",
        ),
    )


def _token_in(body: bytes, where: str) -> tuple[str, float | None]:
    try:
        answer = json.loads(body)
        token = answer["access_token"]
        life = answer.get("expires_in")
        return str(token), None if life is None else float(life)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AuthenticationFailed(f"{where} answered without an access_token") from None


def _https_context(settings: Settings) -> ssl.SSLContext:
    location, pem = settings.get("https.ca.location"), settings.get("https.ca.pem")
    try:
        if pem:
            return ssl.create_default_context(cadata=pem)
        if location and location != "probe":
            return ssl.create_default_context(cafile=location)
    except (OSError, ssl.SSLError) as error:
        key = "https.ca.pem" if pem else "https.ca.location"
        raise ConfigError(f"{key} from {settings.source(key)} cannot be used: {error}") from None
    return ssl.create_default_context()


def _pairs(settings: Settings, key: str, separator: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in (settings.get(key) or "").split(separator):
        name, equals, value = word.strip().partition("=")
        if not name:
            continue
        if not equals:
            raise ConfigError(f"{key} from {settings.source(key)} is not of the form name=value")
        pairs[name] = value
    return pairs
