"""One Settings, both clients, a real broker: what connects, and what a wrong connection is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from kgroup.cluster.diagnosis import certain_fault, explain
from kgroup.cluster.librdkafka import is_transient
from kgroup.cluster.login import client_arguments
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.connection import Connection
from kgroup.settings.model import Settings
from kgroup.settings.sources import resolve
from kgroup.support.errors import AuthenticationFailed, KgroupError, Unreachable
from tests.helpers import programs
from tests.helpers.secure_broker import USERS, Certificates, SecureBroker, secure_broker
from tests.helpers.settings_cases import Notes
from tests.helpers.token_endpoint import serve_tokens

AMPLE_S = 60.0
"""Far more than an explanation takes where somebody answers."""
CLIENT_TIMEOUT_S = 15


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure"), Notes()) as running:
        yield running


@pytest.fixture(scope="module")
def token_endpoint() -> Iterator[str]:
    with serve_tokens() as url:
        yield url


def settings_from(properties: dict[str, str], tmp_path: Path, address: str) -> Settings:
    """As from a properties file: Java's or librdkafka's keys."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n\\\n    ") for key, value in properties.items()}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    return resolve(Connection(bootstrap_server=address, command_config=file), Notes(), {})


def jaas(module: str, **options: str) -> str:
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()}
    words = " ".join(f'{key}="{value}"' for key, value in quoted.items())
    return f"org.apache.kafka.common.security.{module} required {words};"


def scram(certificates: Certificates, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        "ssl.ca.location": certificates.certificate("ca"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def mutual(certificates: Certificates, name: str | None = "alice") -> dict[str, str]:
    own = {
        "ssl.certificate.location": certificates.certificate(name),
        "ssl.key.location": certificates.key(name),
    } if name else {}  # fmt: skip
    return {"security.protocol": "SSL", "ssl.ca.location": certificates.certificate("ca"), **own}


def unsecured(config: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": config,
    }


def oidc(endpoint: str, secret: str = "oidc-secret") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "kg",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def azure(endpoint: str, resource: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.config": f"query=api-version=2025-04-07&resource={resource}",
    }


def java_pem(c: Certificates) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": c.certificate("ca"),
    }


def java_scram(c: Certificates) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": c.text("ca.pem"),
    }


BOB = {"username": "bob", "password": USERS["bob"]}
Make = Callable[[Certificates, str], dict[str, str]]

WORKS: dict[str, tuple[str, Make]] = {
    "plaintext": ("ADMIN", lambda c, url: {}),
    "scram-512": ("SCRAM", lambda c, url: scram(c)),
    "scram-256": ("SCRAM", lambda c, url: scram(c, sasl_mechanism="SCRAM-SHA-256")),
    "plain": (
        "SCRAM",
        lambda c, url: scram(c, sasl_mechanism="PLAIN", sasl_username="bob", sasl_password=USERS["bob"]),
    ),
    "ca-inline": (
        "SCRAM",
        lambda c, url: {k: v for k, v in scram(c, ssl_ca_pem=c.text("ca.pem")).items() if k != "ssl.ca.location"},
    ),
    "no-verification": (
        "EXPIRED",
        lambda c, url: mutual(c) | {"enable.ssl.certificate.verification": "false"},
    ),
    "no-host-name-check": ("WRONGNAME", lambda c, url: mutual(c) | {"ssl.endpoint.identification.algorithm": "none"}),
    "mutual": ("MTLS", lambda c, url: mutual(c)),
    "mutual-inline": (
        "MTLS",
        lambda c, url: {
            "security.protocol": "SSL",
            "ssl.ca.pem": c.text("ca.pem"),
            "ssl.certificate.pem": c.text("alice.pem"),
            "ssl.key.pem": c.text("alice.key"),
        },
    ),
    "mutual-encrypted-key": (
        "MTLS",
        lambda c, url: (
            mutual(c) | {"ssl.key.location": c.path("alice-encrypted.key"), "ssl.key.password": "key-secret"}
        ),
    ),
    "java-mutual": (
        "MTLS",
        lambda c, url: java_pem(c) | {"ssl.keystore.type": "PEM", "ssl.keystore.location": c.both("alice")},
    ),
    "java-mutual-inline": (
        "MTLS",
        lambda c, url: (
            java_pem(c)
            | {
                "ssl.keystore.type": "PEM",
                # As it ends up on one line of a ConfigMap.
                "ssl.keystore.certificate.chain": c.text("alice.pem").replace("\n", " "),
                "ssl.keystore.key": c.text("alice.key"),
            }
        ),
    ),
    "java-scram": (
        "SCRAM",
        lambda c, url: (
            java_scram(c)
            | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.ScramLoginModule", **BOB)}
        ),
    ),
    "java-plain": (
        "SCRAM",
        lambda c, url: (
            java_scram(c) | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.PlainLoginModule", **BOB)}
        ),
    ),
    "java-wrongname": ("WRONGNAME", lambda c, url: mutual(c) | {"ssl.endpoint.identification.algorithm": ""}),
    "oauth": ("OAUTH", lambda c, url: unsecured("principal=alice")),
    "java-oauth": (
        "OAUTH",
        lambda c, url: {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="alice"),
        },
    ),
    "oidc": ("OAUTH", lambda c, url: oidc(url)),
    "azure": ("OAUTH", lambda c, url: azure(url, "api://kg")),
    "java-strimzi": (
        "OAUTH",
        lambda c, url: {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": ("io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"),
            "sasl.jaas.config": jaas(
                "oauthbearer.OAuthBearerLoginModule",
                **{"oauth.client.id": "kg", "oauth.client.secret": "oidc-secret", "oauth.token.endpoint.uri": url},
            ),
        },
    ),
    "java-oidc": (
        "OAUTH",
        lambda c, url: {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", clientId="kg", clientSecret="oidc-secret"),
        },
    ),
}
"""Listener and settings of every kind of connection that docs/connect.md promises; ``url`` is the token endpoint."""


@pytest.mark.parametrize("case", WORKS)
def test_both_clients_connect(case: str, broker: SecureBroker, token_endpoint: str, tmp_path: Path) -> None:
    listener, make = WORKS[case]
    settings = settings_from(make(broker.certificates, token_endpoint), tmp_path, broker.addresses[listener])

    java_like = KafkaAdminClient(**client_arguments(settings), bootstrap_timeout_ms=CLIENT_TIMEOUT_S * 1000)
    try:
        described = java_like.describe_cluster()
    finally:
        java_like.close()
    librdkafka = AdminClient(librdkafka_config(settings))
    found = librdkafka.list_topics(timeout=CLIENT_TIMEOUT_S)

    assert described["cluster_id"] == found.cluster_id
    assert [made.name for made in tmp_path.iterdir()] == ["client.properties"]


AUTH = (AuthenticationFailed, "auth-failed")
TLS = (Unreachable, "tls")
PLAIN_USER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "wr0ng",
}

WRONG: dict[str, tuple[str, Make, type[KgroupError], str, str]] = {
    "scram-password": (
        "SCRAM",
        lambda c, url: scram(c, sasl_password="wr0ng"),
        *AUTH,
        'user "alice": wrong user or password',
    ),
    "scram-user": ("SCRAM", lambda c, url: scram(c, sasl_username="eve"), *AUTH, 'user "eve"'),
    "plain-password": (
        "SCRAM",
        lambda c, url: scram(c, sasl_mechanism="PLAIN", sasl_password="wr0ng"),
        *AUTH,
        "SASL PLAIN",
    ),
    "mechanism-off": ("OAUTH", lambda c, url: PLAIN_USER, *AUTH, "It supports OAUTHBEARER."),
    "token-expired": ("OAUTH", lambda c, url: unsecured("principal=alice lifeSeconds=0"), *AUTH, "invalid_token"),
    "oidc-secret": ("OAUTH", lambda c, url: oidc(url, "wr0ng"), *AUTH, "no such client"),
    "azure-refuses": ("OAUTH", lambda c, url: azure(url, "other"), *AUTH, "gave no token: no such client"),
    "oidc-endpoint": ("OAUTH", lambda c, url: oidc("http://127.0.0.1:1/"), Unreachable, "unreachable", "gave no token"),
    "sasl-to-plaintext": ("ADMIN", lambda c, url: PLAIN_USER, *AUTH, "does not offer SASL on this port"),
    "plaintext-to-sasl": ("OAUTH", lambda c, url: {}, *AUTH, "OAUTHBEARER"),
    "ssl-to-sasl-ssl": (
        "SCRAM",
        lambda c, url: {"security.protocol": "SSL", "ssl.ca.location": c.certificate("ca")},
        *AUTH,
        "SCRAM-SHA-512",
    ),
    "unknown-ca": (
        "SCRAM",
        lambda c, url: scram(c, ssl_ca_location=c.certificate("otherca")),
        *TLS,
        '"kgroup test CA"',
    ),
    "unknown-ca-system": ("MTLS", lambda c, url: {"security.protocol": "SSL"}, *TLS, "neither ssl.ca.location"),
    "expired": ("EXPIRED", lambda c, url: mutual(c), *TLS, "expired on 2024-02-01"),
    "wrong-name": ("WRONGNAME", lambda c, url: mutual(c), *TLS, "elsewhere.example"),
    "no-client-certificate": ("MTLS", lambda c, url: mutual(c, None), *TLS, "requires a client certificate"),
    "client-certificate-unknown": ("MTLS", lambda c, url: mutual(c, "mallory"), *TLS, '"another CA"'),
    "client-certificate-expired": ("MTLS", lambda c, url: mutual(c, "oldalice"), *TLS, "expired on 2024-02-01"),
    "plaintext-to-sasl-tls": ("SCRAM", lambda c, url: {}, *TLS, "requires TLS"),
    "plaintext-to-tls": ("MTLS", lambda c, url: {}, *TLS, "requires TLS"),
    "tls-to-plaintext": ("ADMIN", lambda c, url: mutual(c), *TLS, "does not use TLS"),
    "controller": ("CONTROLLER", lambda c, url: {}, Unreachable, "not-kafka", "KRaft controller"),
    "nothing-wrong": ("SCRAM", lambda c, url: scram(c), Unreachable, "timed-out", "a request to the cluster failed"),
}
"""Listener, settings, class, code, and words that the error must hold."""


@pytest.mark.parametrize("case", WRONG)
def test_wrong_connections_are_explained_at_once(
    case: str, broker: SecureBroker, token_endpoint: str, tmp_path: Path
) -> None:
    listener, make, kind, code, words = WRONG[case]
    settings = settings_from(make(broker.certificates, token_endpoint), tmp_path, broker.addresses[listener])

    began = time.monotonic()
    error = explain(settings, "127.0.0.1", broker.port(listener), None, deadline_s=AMPLE_S)
    took_s = time.monotonic() - began

    text = "\n".join((error.message, *error.details, error.hint or ""))
    assert (type(error), error.code) == (kind, code), text
    assert words in text
    assert str(broker.port(listener)) in text or "token" in text
    assert took_s < AMPLE_S / 2
    for secret in settings.secrets:
        assert secret not in text


def test_a_password_that_is_a_word_of_the_message_hides_nothing(broker: SecureBroker, tmp_path: Path) -> None:
    """ "[hidden] user or password" would give it away."""
    properties = scram(broker.certificates, sasl_password="wrong")
    settings = settings_from(properties, tmp_path, broker.addresses["SCRAM"])
    error = explain(settings, "127.0.0.1", broker.port("SCRAM"), None, deadline_s=AMPLE_S)
    assert error.message.endswith('refused user "alice": wrong user or password')


def test_what_is_certain_while_a_client_still_waits(broker: SecureBroker, tmp_path: Path) -> None:
    good = settings_from(scram(broker.certificates), tmp_path, broker.addresses["SCRAM"])
    assert certain_fault(good, "127.0.0.1", broker.port("SCRAM"), deadline_s=AMPLE_S) is None
    bad = settings_from({}, tmp_path, broker.addresses["SCRAM"])
    fault = certain_fault(bad, "127.0.0.1", broker.port("SCRAM"), deadline_s=AMPLE_S)
    assert fault is not None
    assert fault.code == "tls"


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError._DESTROY_BROKER, True),  # a broker that went away was taken off the list
        (KafkaError.NOT_LEADER_FOR_PARTITION, True),
        (KafkaError.LEADER_NOT_AVAILABLE, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_what_goes_away_by_itself_when_a_broker_does(code: int, passes: bool) -> None:
    assert is_transient(KafkaError(code)) is passes
