"""Builds the configuration of either client from one Settings; a setting that a client cannot honour is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup.settings.keys import (
    FILE_KEYS,
    HONOURED,
    KAFKA_PYTHON_ARGUMENTS,
    OAUTH_KEYS,
    PASSWORD_MECHANISMS,
    TLS_KEYS,
    TOKEN_MECHANISMS,
)
from kgroup.settings.model import Settings
from kgroup.support.errors import ConfigError

if TYPE_CHECKING:
    from kgroup.settings.tokens import TokenSource

CLIENT_ID = "kgroup"
_OF_REPLAYS = "-catchup"
_LIBRDKAFKA_TIMEOUT_RANGE_MS = (10, 300_000)
_INLINE = {
    "ssl.ca.location": ("ssl.ca.pem", "CERTIFICATE"),
    "https.ca.location": ("https.ca.pem", "CERTIFICATE"),
    "ssl.certificate.location": ("ssl.certificate.pem", "CERTIFICATE"),
    "ssl.key.location": ("ssl.key.pem", "PRIVATE KEY"),
}
"""Files that are read here: the configuration also goes to Spark's workers, which do not have them.

Of each file only its blocks of this kind are sent: one with certificate and key is usual, and librdkafka refuses the
text of a certificate that has more than certificates in it (2.8, #5556).
"""

_MOST_INLINE = 65_536
"""Bytes. Each task would carry a larger file; it is the system's own, and every machine has one."""

_PASSWORD_KEYS = frozenset({"sasl.username", "sasl.password"})


def kafka_python_config(settings: Settings) -> dict[str, Any]:
    """Keyword arguments that both KafkaConnectionManager and KafkaAdminClient take.

    Raises ConfigError for a setting that kafka-python cannot honour, and for unreadable files.
    """
    arguments: dict[str, Any] = {
        "client_id": CLIENT_ID,
        "request_timeout_ms": max(1, round(settings.timeout_s * 1000)),
        "security_protocol": "PLAINTEXT",
    }
    mechanism = settings.sasl_mechanism
    for key, setting in settings.entries.items():
        argument = KAFKA_PYTHON_ARGUMENTS.get(key)
        if argument is None or (key.startswith("sasl.") and not _concerns_sasl(key, mechanism)):
            continue
        name, kind = argument
        arguments[name] = _milliseconds(settings, key) if kind is int else setting.value
    arguments["bootstrap_servers"] = settings.bootstrap_servers.split(",")
    if arguments.get("client_dns_lookup") == "default":
        # Java's name for it before 2.6.
        arguments["client_dns_lookup"] = "use_all_dns_ips"
    if settings.uses_tls:
        # Imported here: most settings name no file, and ssl is slow to import.
        from kgroup.settings.tls import client_context

        arguments["ssl_context"] = client_context(settings)
    if mechanism in TOKEN_MECHANISMS:
        arguments["sasl_mechanism"] = settings.wire_mechanism
        arguments["sasl_oauth_token_provider"] = _token_source(settings)
    if mechanism == "GSSAPI":
        _require_gssapi(settings)
    return arguments


def librdkafka_config(settings: Settings) -> dict[str, Any]:
    """The configuration for confluent-kafka. Raises ConfigError for a setting that librdkafka cannot honour."""
    mechanism = settings.sasl_mechanism
    if mechanism == "GSSAPI":
        raise ConfigError(
            "sasl.mechanism=GSSAPI cannot be used here: confluent-kafka's packages are built without Kerberos",
            details=(f"sasl.mechanism is from {settings.source('sasl.mechanism')}.",),
            hint="This command needs librdkafka too: use a SCRAM, PLAIN or OAUTHBEARER user for it.",
        )
    low, high = _LIBRDKAFKA_TIMEOUT_RANGE_MS
    configuration: dict[str, Any] = {
        "client.id": CLIENT_ID,
        "socket.timeout.ms": str(min(max(round(settings.timeout_s * 1000), low), high)),
        # Otherwise librdkafka writes to stderr; we get the reasons as errors.
        "log_level": "0",
    }
    entries = settings.entries.items()
    values = {key: one.value for key, one in entries if key in HONOURED and _concerns_librdkafka(key, settings)}
    if "ssl.certificate.location" in values and not values.keys() & {"ssl.key.location", "ssl.key.pem"}:
        values["ssl.key.location"] = values["ssl.certificate.location"]
    for key, value in values.items():
        configuration |= _sent(settings, key, value) if key in FILE_KEYS and value != "probe" else {key: value}
    if configuration.get("client.dns.lookup") == "default":
        configuration["client.dns.lookup"] = "use_all_dns_ips"
    if mechanism in TOKEN_MECHANISMS:
        configuration["sasl.mechanism"] = settings.wire_mechanism
        # Checks now what librdkafka would check only at the first connection.
        tokens = _token_source(settings)
        if not _is_oidc(settings):
            configuration["oauth_cb"] = tokens
    return configuration


def _sent(settings: Settings, key: str, value: str) -> dict[str, str]:
    """The text of a file that a setting names, under the key for a text; else the path."""
    if key in settings.entries:
        # Imported here: most settings name no file.
        from kgroup.settings.tls import require_readable

        require_readable(settings, key)
    path = Path(value)
    if key in _INLINE and path.is_file() and path.stat().st_size <= _MOST_INLINE:
        inline, kind = _INLINE[key]
        text = path.read_text(encoding="utf-8", errors="replace")
        blocks = re.finditer(rf"-----BEGIN ((?:[A-Z0-9]+ )*{kind})-----.*?-----END \1-----", text, re.DOTALL)
        if found := "".join(f"{block[0]}\n" for block in blocks):
            return {inline: found}
    return {key: value}


def replay_client_id(settings: Settings) -> str:
    """The client id of a replay: not that of other verbs, so that a quota of the brokers can limit replays alone."""
    return f"{settings.get('client.id') or CLIENT_ID}{_OF_REPLAYS}"


def replay_config(settings: Settings) -> dict[str, Any]:
    """``librdkafka_config`` for the clients of Spark's workers."""
    return {**librdkafka_config(settings), "client.id": replay_client_id(settings)}


def _concerns_librdkafka(key: str, settings: Settings) -> bool:
    """Whether the setting matters to the protocol in use; librdkafka warns about settings of another one."""
    if key in TLS_KEYS:
        return settings.uses_tls
    if key in OAUTH_KEYS:
        return _is_oidc(settings)
    return not key.startswith("sasl.") or _concerns_sasl(key, settings.sasl_mechanism)


def _is_oidc(settings: Settings) -> bool:
    """Whether librdkafka gets the tokens itself: with a callback, each new client waits for a second (2.16)."""
    method = settings.get("sasl.oauthbearer.method") or "default"
    return settings.sasl_mechanism == "OAUTHBEARER" and method.lower() == "oidc"


def _concerns_sasl(key: str, mechanism: str | None) -> bool:
    if key in _PASSWORD_KEYS:
        return mechanism in PASSWORD_MECHANISMS
    if key == "sasl.kerberos.service.name":
        return mechanism == "GSSAPI"
    return mechanism is not None


def _milliseconds(settings: Settings, key: str) -> int:
    value = settings.get(key) or ""
    if not value.lstrip("-").isdigit():
        raise ConfigError(f"{key}={value} from {settings.source(key)} is not a number of milliseconds")
    return int(value)


def _token_source(settings: Settings) -> TokenSource:
    # Imported here: only tokens need an HTTP client, and that is slow to import.
    from kgroup.settings.oauth import token_source

    return token_source(settings)


def _require_gssapi(settings: Settings) -> None:
    import importlib.util

    if importlib.util.find_spec("gssapi") is None:
        raise ConfigError(
            "sasl.mechanism=GSSAPI cannot be used: the package gssapi is not installed",
            details=(f"sasl.mechanism is from {settings.source('sasl.mechanism')}.",),
            hint="Kerberos needs the package gssapi (and the Kerberos libraries):  pip install gssapi",
        )
