"""How long a client waits after which error, and what it raises then."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError

from kgroup.cluster.librdkafka import ClientWatch, client
from kgroup.settings.tokens import Token, TokenSource
from kgroup.support.errors import AuthenticationFailed, Unreachable

REFUSED = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("kgroup.cluster.librdkafka.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("answered", "wait_s"), [(False, 1.0), (True, 10.0)], ids=["never logged in", "logged in"])
def test_a_refused_login_is_final_only_for_a_client_that_was_never_logged_in(
    now: list[float], answered: bool, wait_s: float
) -> None:
    watch = ClientWatch(10.0)
    if answered:
        watch.answered()
    watch.on_error(REFUSED)
    now[0] += wait_s - 0.1
    assert not watch.over
    now[0] += 0.1
    assert watch.over
    assert isinstance(watch.fault("orders could not be read"), AuthenticationFailed)


def test_a_login_that_was_renewed_is_forgotten(now: list[float]) -> None:
    watch = ClientWatch(10.0)
    watch.on_error(REFUSED)
    watch.answered()
    assert not watch.disturbed
    assert isinstance(watch.fault("orders could not be read"), Unreachable)


def test_the_fault_has_the_reason_why_there_is_no_token() -> None:
    """librdkafka knows only that the callback raised an exception."""
    reasons: list[Exception] = [Unreachable("idp gave no token: Connection refused")]

    def fetch() -> Token:
        if reasons:
            raise reasons.pop()
        return "t", 60.0

    watch, tokens = ClientWatch(10.0), TokenSource(fetch, {})
    with pytest.raises(Unreachable):
        watch.refreshed(tokens, "")
    watch.on_error(REFUSED)
    assert watch.fault("orders").message == "orders: idp gave no token: Connection refused"
    assert watch.refreshed(tokens, "")[0] == "t"
    assert isinstance(watch.fault("orders"), AuthenticationFailed)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Failed to connect to 127.0.0.1:9 after 0 ms: Could not connect to server", Unreachable),
        ("Could not resolve host: idp.example", Unreachable),
        ('{"error": "invalid_client", "error_description": "no such client"}', AuthenticationFailed),
    ],
)
def test_a_token_endpoint_that_fails_is_no_broker_that_refuses(reason: str, kind: type[Exception]) -> None:
    watch = ClientWatch(10.0)
    text = f"Failed to acquire SASL OAUTHBEARER token: {reason}"  # librdkafka 2.16, method oidc
    watch.on_error(KafkaError(KafkaError._AUTHENTICATION, text))
    fault = watch.fault("orders could not be read")
    assert type(fault) is kind
    assert (fault.message, fault.details) == ("orders could not be read: there is no token for the login", (text,))


def test_a_client_without_a_token_is_not_made() -> None:
    """confluent-kafka would wait for ten seconds, and not name the cause."""

    def fetch() -> Token:
        raise AuthenticationFailed("no AWS credentials were found")

    config = {
        "bootstrap.servers": "127.0.0.1:1", "group.id": "g", "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER", "oauth_cb": TokenSource(fetch, {}),
    }  # fmt: skip
    with pytest.raises(AuthenticationFailed, match="no AWS credentials were found"):
        client(Consumer, config, ClientWatch(10.0))
