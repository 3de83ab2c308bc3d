"""One Settings, both clients, a real broker: what connects, and what a wrong connection is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from kgroup.cluster.diagnosis import explain
from kgroup.errors import AuthenticationFailed, KgroupError, Unreachable
from kgroup.options import Connection
from kgroup.settings import Settings, resolve
from kgroup.settings.oauth import unsecured_token
from tests.secure_broker import USERS, Certificates, SecureBroker, secure_broker
from tests.settings_cases import Notes

EXPLAIN_LIMIT_S = 2.0
CLIENT_TIMEOUT_S = 15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure"), Notes()) as running:
        yield running


@pytest.fixture(scope="module")
def token_endpoint() -> Iterator[str]:
    """An OIDC provider in small: gives unsigned tokens to client ``kg`` with the secret ``oidc-secret``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            good = self.headers["Authorization"] == "Basic a2c6b2lkYy1zZWNyZXQ="
            assert form["grant_type"] == ["client_credentials"]
            now = int(time.time())
            body: dict[str, Any] = {
                "access_token": unsecured_token({"sub": "alice", "iat": now, "exp": now + 600}),
                "expires_in": 600,
            }
            if not good:
                body = {"error": "invalid_client", "error_description": "no such client"}
            payload = json.dumps(body).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


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


def works(c: Certificates, endpoint: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Listener and settings of every kind of connection that README promises."""
    java_pem = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": c.certificate("ca"),
    }
    bob = {"username": "bob", "password": USERS["bob"]}
    java_scram = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": c.text("ca.pem"),
    }
    return {
        "plaintext": ("ADMIN", {}),
        "scram-512": ("SCRAM", scram(c)),
        "scram-256": ("SCRAM", scram(c, sasl_mechanism="SCRAM-SHA-256")),
        "plain": ("SCRAM", scram(c, sasl_mechanism="PLAIN", sasl_username="bob", sasl_password=USERS["bob"])),
        "ca-inline": ("SCRAM", {k: v for k, v in scram(c, ssl_ca_pem=c.text("ca.pem")).items() if k != "ssl.ca.location"}),
        "no-verification": (
            "EXPIRED",
            mutual(c) | {"enable.ssl.certificate.verification": "false"},
        ),
        "no-host-name-check": ("WRONGNAME", mutual(c) | {"ssl.endpoint.identification.algorithm": "none"}),
        "mutual": ("MTLS", mutual(c)),
        "mutual-inline": (
            "MTLS",
            {
                "security.protocol": "SSL",
                "ssl.ca.pem": c.text("ca.pem"),
                "ssl.certificate.pem": c.text("alice.pem"),
                "ssl.key.pem": c.text("alice.key"),
            },
        ),
        "mutual-encrypted-key": (
            "MTLS",
            mutual(c) | {"ssl.key.location": c.path("alice-encrypted.key"), "ssl.key.password": "key-secret"},
        ),
        "java-mutual": (
            "MTLS",
            java_pem | {"ssl.keystore.type": "PEM", "ssl.keystore.location": c.both("alice")},
        ),
        "java-mutual-inline": (
            "MTLS",
            java_pem
            | {
                "ssl.keystore.type": "PEM",
                # As it ends up on one line of a ConfigMap.
                "ssl.keystore.certificate.chain": c.text("alice.pem").replace("\n", " "),
                "ssl.keystore.key": c.text("alice.key"),
            },
        ),
        "java-scram": (
            "SCRAM",
            java_scram
            | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.ScramLoginModule", **bob)},
        ),
        "java-plain": (
            "SCRAM",
            java_scram | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.PlainLoginModule", **bob)},
        ),
        "java-wrongname": ("WRONGNAME", mutual(c) | {"ssl.endpoint.identification.algorithm": ""}),
        "oauth": ("OAUTH", unsecured("principal=alice")),
        "java-oauth": (
            "OAUTH",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="alice"),
            },
        ),
        "oidc": ("OAUTH", oidc(endpoint)),
        "java-oidc": (
            "OAUTH",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl.oauthbearer.token.endpoint.url": endpoint,
                "sasl.jaas.config": jaas(
                    "oauthbearer.OAuthBearerLoginModule", clientId="kg", clientSecret="oidc-secret"
                ),
            },
        ),
    }  # fmt: skip


WORKS = (
    "plaintext", "scram-512", "scram-256", "plain", "ca-inline", "no-verification", "no-host-name-check", "mutual",
    "mutual-inline", "mutual-encrypted-key", "java-mutual", "java-mutual-inline", "java-scram", "java-plain",
    "java-wrongname", "oauth", "java-oauth", "oidc", "java-oidc",
)  # fmt: skip


@pytest.mark.parametrize("case", WORKS)
def test_both_clients_connect(case: str, broker: SecureBroker, token_endpoint: str, tmp_path: Path) -> None:
    listener, properties = works(broker.certificates, token_endpoint)[case]
    settings = settings_from(properties, tmp_path, broker.addresses[listener])

    java_like = KafkaAdminClient(**settings.kafka_python(), bootstrap_timeout_ms=CLIENT_TIMEOUT_S * 1000)
    try:
        described = java_like.describe_cluster()
    finally:
        java_like.close()
    librdkafka = AdminClient(settings.librdkafka())
    found = librdkafka.list_topics(timeout=CLIENT_TIMEOUT_S)

    assert described["cluster_id"] == found.cluster_id
    assert [made.name for made in tmp_path.iterdir()] == ["client.properties"]


def test_every_case_of_the_table_runs(tmp_path: Path, broker: SecureBroker) -> None:
    assert set(works(broker.certificates, "http://x/")) == set(WORKS)


def wrong(c: Certificates, endpoint: str) -> dict[str, tuple[str, dict[str, str], type[KgroupError], str, str]]:
    """Listener, settings, class, code, and words that the message or details must hold."""
    trusted = {"ssl.ca.location": c.certificate("ca")}
    auth, tls = (AuthenticationFailed, "auth-failed"), (Unreachable, "tls")
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "x"}  # fmt: skip
    return {
        "scram-password": ("SCRAM", scram(c, sasl_password="wr0ng"), *auth, 'user "alice": wrong user or password'),
        "scram-user": ("SCRAM", scram(c, sasl_username="eve"), *auth, 'user "eve"'),
        "plain-password": ("SCRAM", scram(c, sasl_mechanism="PLAIN", sasl_password="wr0ng"), *auth, "SASL PLAIN"),
        "mechanism-off": ("OAUTH", plain, *auth, "It takes OAUTHBEARER."),
        "token-expired": ("OAUTH", unsecured("principal=alice lifeSeconds=0"), *auth, "invalid_token"),
        "oidc-secret": ("OAUTH", oidc(endpoint, "wr0ng"), *auth, "no such client"),
        "oidc-endpoint": ("OAUTH", oidc("http://127.0.0.1:1/"), Unreachable, "unreachable", "gave no token"),
        "sasl-to-plaintext": ("ADMIN", plain, *auth, "no SASL on that port"),
        "plaintext-to-sasl": ("OAUTH", {}, *auth, "OAUTHBEARER"),
        "ssl-to-sasl-ssl": ("SCRAM", {"security.protocol": "SSL", **trusted}, *auth, "SCRAM-SHA-512"),
        "unknown-ca": ("SCRAM", scram(c, ssl_ca_location=c.certificate("otherca")), *tls, '"kgroup test CA"'),
        "unknown-ca-system": ("MTLS", {"security.protocol": "SSL"}, *tls, "neither ssl.ca.location"),
        "expired": ("EXPIRED", mutual(c), *tls, "expired on 2024-02-01"),
        "wrong-name": ("WRONGNAME", mutual(c), *tls, "elsewhere.example"),
        "no-client-certificate": ("MTLS", mutual(c, None), *tls, "wants a client certificate"),
        "client-certificate-unknown": ("MTLS", mutual(c, "mallory"), *tls, '"another CA"'),
        "client-certificate-expired": ("MTLS", mutual(c, "oldalice"), *tls, "expired on 2024-02-01"),
        "plaintext-to-sasl-tls": ("SCRAM", {}, *tls, "speaks TLS"),
        "plaintext-to-tls": ("MTLS", {}, *tls, "speaks TLS"),
        "tls-to-plaintext": ("ADMIN", mutual(c), *tls, "does not speak TLS"),
        "controller": ("CONTROLLER", {}, Unreachable, "not-kafka", "KRaft controller"),
        "nothing-wrong": ("SCRAM", scram(c), Unreachable, "timed-out", "could not be asked"),
    }  # fmt: skip


WRONG = (
    "scram-password", "scram-user", "plain-password", "mechanism-off", "token-expired", "oidc-secret",
    "oidc-endpoint", "sasl-to-plaintext", "plaintext-to-sasl", "ssl-to-sasl-ssl", "unknown-ca",
    "unknown-ca-system", "expired", "wrong-name", "no-client-certificate", "client-certificate-unknown",
    "client-certificate-expired", "plaintext-to-sasl-tls", "plaintext-to-tls", "tls-to-plaintext", "controller",
    "nothing-wrong",
)  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_connections_are_explained_at_once(
    case: str, broker: SecureBroker, token_endpoint: str, tmp_path: Path
) -> None:
    listener, properties, kind, code, words = wrong(broker.certificates, token_endpoint)[case]
    settings = settings_from(properties, tmp_path, broker.addresses[listener])

    began = time.monotonic()
    error = explain(settings, "127.0.0.1", broker.port(listener), None)
    took_s = time.monotonic() - began

    text = "\n".join((error.message, *error.details, error.hint or ""))
    assert (type(error), error.code) == (kind, code), text
    assert words in text
    assert str(broker.port(listener)) in text or "token" in text
    assert took_s < EXPLAIN_LIMIT_S
    for secret in settings.secrets:
        assert secret not in text


def test_every_wrong_case_of_the_table_runs(broker: SecureBroker) -> None:
    assert set(wrong(broker.certificates, "http://x/")) == set(WRONG)
