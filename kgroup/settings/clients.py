"""Builds the configuration of either client from one Settings; a setting that a client cannot honour is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgroup.settings.keys import FILE_KEYS, HONOURED, KAFKA_PYTHON_ARGUMENTS, OAUTH_KEYS, PASSWORD_MECHANISMS, TLS_KEYS
from kgroup.settings.model import Settings
from kgroup.support.errors import ConfigError

if TYPE_CHECKING:
    from kgroup.settings.oauth import TokenSource

CLIENT_ID = "kgroup"
_LIBRDKAFKA_TIMEOUT_RANGE_MS = (10, 300_000)
_NOT_IN_LIBRDKAFKA = {
    "AWS_MSK_IAM": "it works with kafka-python only",
    "GSSAPI": "confluent-kafka's packages are built without Kerberos",
}
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
    if mechanism == "OAUTHBEARER":
        arguments["sasl_oauth_token_provider"] = _token_source(settings)
    _require_package(settings, mechanism)
    return arguments


def librdkafka_config(settings: Settings) -> dict[str, Any]:
    """The configuration for confluent-kafka. Raises ConfigError for a setting that librdkafka cannot honour."""
    mechanism = settings.sasl_mechanism
    if mechanism in _NOT_IN_LIBRDKAFKA:
        raise ConfigError(
            f"sasl.mechanism={mechanism} cannot be used here: {_NOT_IN_LIBRDKAFKA[mechanism]}",
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
    for key, setting in settings.entries.items():
        if key in HONOURED and _concerns_librdkafka(key, settings):
            if key in FILE_KEYS and setting.value != "probe":
                # Imported here: most settings name no file.
                from kgroup.settings.tls import require_readable

                require_readable(settings, key)
            configuration[key] = setting.value
    if configuration.get("client.dns.lookup") == "default":
        configuration["client.dns.lookup"] = "use_all_dns_ips"
    if mechanism == "OAUTHBEARER":
        # Checks now what librdkafka would check only at the first connection.
        _token_source(settings)
    if "ssl.certificate.location" in configuration and not settings.get("ssl.key.location"):
        configuration["ssl.key.location"] = configuration["ssl.certificate.location"]
    return configuration


def _concerns_librdkafka(key: str, settings: Settings) -> bool:
    """Whether the setting matters to the protocol in use; librdkafka warns about settings of another one."""
    if key in TLS_KEYS:
        return settings.uses_tls
    if key in OAUTH_KEYS:
        return settings.sasl_mechanism == "OAUTHBEARER"
    return not key.startswith("sasl.") or _concerns_sasl(key, settings.sasl_mechanism)


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


_PACKAGES = {
    "GSSAPI": (
        "gssapi",
        "Kerberos needs the package gssapi (and the Kerberos libraries):  pip install gssapi",
    ),
    "AWS_MSK_IAM": ("botocore", "IAM of AWS needs the package botocore:  pip install botocore"),
}


def _require_package(settings: Settings, mechanism: str | None) -> None:
    if mechanism not in _PACKAGES:
        return
    import importlib.util

    package, hint = _PACKAGES[mechanism]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"sasl.mechanism={mechanism} cannot be used: the package {package} is not installed",
            details=(f"sasl.mechanism is from {settings.source('sasl.mechanism')}.",),
            hint=hint,
        )
