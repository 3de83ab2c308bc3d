"""Tokens for SASL OAUTHBEARER: of AWS's IAM, OIDC client credentials, and unsecured ones for sandboxes."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Collection
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from kgroup.settings.model import Settings
from kgroup.settings.tokens import Token, TokenSource, UnsecuredTokens
from kgroup.support.errors import AuthenticationFailed, ConfigError, Unreachable
from kgroup.support.redact import redact

_ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"
_REQUIRED_FOR_OIDC = (_ENDPOINT_KEY, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
_METADATA_KEY = "sasl.oauthbearer.metadata.authentication.type"
_AZURE = "http://169.254.169.254/metadata/identity/oauth2/token"
_CONFIG_KEY = "sasl.oauthbearer.config"
_ANSWER_LIMIT = 1 << 20


def token_source(settings: Settings) -> TokenSource:
    """The token source of the settings. Raises ConfigError if they describe none."""
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        return _iam(settings)
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
    key = _CONFIG_KEY
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
    _require_no_more(settings, options)
    return TokenSource(UnsecuredTokens(claims, int(life_text)), sent_along)


def _iam(settings: Settings) -> TokenSource:
    """Tokens of AWS's IAM; ``sasl.oauthbearer.config`` may have ``profile=NAME region=REGION``."""
    # Imported here: few clusters use it.
    from kgroup.settings.aws import iam_tokens

    options = _pairs(settings, _CONFIG_KEY, " ")
    profile, region = options.pop("profile", None), options.pop("region", None)
    _require_no_more(settings, options)
    tokens = iam_tokens(profile, region, settings.bootstrap_servers, settings.timeout_s)
    if tokens is None:
        raise ConfigError(
            "sasl.mechanism=AWS_MSK_IAM needs the region of the cluster",
            details=(f"sasl.mechanism is from {settings.source('sasl.mechanism')}.",),
            hint=f"Set AWS_REGION, or {_CONFIG_KEY}=region=REGION",
        )
    return TokenSource(tokens, {})


def _oidc(settings: Settings) -> TokenSource:
    """A client's own tokens (RFC 6749, section 4.4), or those of the Azure machine that kgroup runs on."""
    azure = (settings.get(_METADATA_KEY) or "none").lower()
    if azure not in ("none", "azure_imds"):
        raise ConfigError(
            f"{_METADATA_KEY}={azure} from {settings.source(_METADATA_KEY)}: it must be none or azure_imds"
        )
    data = None
    if azure == "azure_imds":
        query, headers = _pairs(settings, _CONFIG_KEY, ",").get("query"), {"Metadata": "true"}
        missing = [] if query or settings.get(_ENDPOINT_KEY) else [f"{_CONFIG_KEY}=query=..."]
        endpoint = "?".join(filter(None, (settings.get(_ENDPOINT_KEY) or _AZURE, query)))
    else:
        missing = [key for key in _REQUIRED_FOR_OIDC if not settings.get(key)]
        endpoint = settings.get(_ENDPOINT_KEY) or ""
        form = {"grant_type": "client_credentials"}
        if scope := settings.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        data = urlencode(form, quote_via=quote).encode()
        identity = f"{settings.get('sasl.oauthbearer.client.id')}:{settings.get('sasl.oauthbearer.client.secret')}"
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(identity.encode()).decode("ascii"),
            "Content-Type": "application/x-www-form-urlencoded",
        }
    if missing:
        raise ConfigError(
            f"sasl.oauthbearer.method=oidc needs {' and '.join(missing)}",
            details=(f"sasl.oauthbearer.method is from {settings.source('sasl.oauthbearer.method')}.",),
        )
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError(
            f"{_ENDPOINT_KEY} from {settings.source(_ENDPOINT_KEY)} must be an http or https URL without a user"
        )
    context = _https_context(settings) if parts.scheme == "https" else None

    def fetch() -> Token:
        request = Request(endpoint, data, headers)
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
    client = settings.get("sasl.oauthbearer.client.id") or ""
    key = "sasl.oauthbearer.client.id" if client else _METADATA_KEY
    return AuthenticationFailed(
        f"{where} gave no token{client and f' to client {client!r}'}{said}",
        details=(
            f"It answered with status {error.code}.",
            f"{key} is from {settings.source(key)}.",
        ),
    )


def _token_in(body: bytes, where: str) -> Token:
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


def _require_no_more(settings: Settings, options: Collection[str]) -> None:
    if options:
        raise ConfigError(f"{_CONFIG_KEY} from {settings.source(_CONFIG_KEY)}: unknown {', '.join(sorted(options))}")


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
