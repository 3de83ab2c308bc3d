"""Shared by reading and producing through confluent-kafka: quiet clients, and librdkafka's faults in words.

Importable in Spark's workers, which do not have kafka-python.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kgroup.model.kafka_tools import acl_hint
from kgroup.support.errors import (
    AuthenticationFailed,
    ConfigError,
    KgroupError,
    NotAuthorized,
    NotFound,
    Refused,
    Unreachable,
    refusal_code,
)

TOO_LARGE = refusal_code(
    "too-large",
    "reset --save-skipped",
    "The topic of --save-skipped does not accept a record of that size.",
    "Use another topic, or a file.",
)
NOT_ACCEPTED = refusal_code(
    "not-accepted",
    "reset --save-skipped",
    "The topic of --save-skipped does not accept a record.",
    "Use another topic, or a file.",
)

T = TypeVar("T")
LOG = logging.getLogger("kgroup.librdkafka")
LOG.addHandler(logging.NullHandler())  # librdkafka logs a fatal error at any level; this keeps it off stderr
_QUIET, _DEBUG = 0, 7
_FAULT_PATIENCE_S = 1.0
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_CERTAIN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_NO_ENDPOINT = ("Failed to connect", "Could not resolve", "timed out")
"""How librdkafka, which uses curl, reports with the code of a refused login that a token endpoint does not answer."""

_REJECTED = frozenset({KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP, KafkaError._INVALID_DIFFERENT_RECORD})
NOT_YET = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._DESTROY_BROKER}
)
"""How a request ends if its connection was lost, or if its broker went away and was removed from the list."""

_MOVING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
    }
)

NEVER_CREATES = {"allow.auto.create.topics": False}
"""For every client: a producer's default is True, and its metadata requests recreate a topic that was deleted."""

_NO_BROKER = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})


def is_transient(error: KafkaError) -> bool:
    """Whether the error may go away by itself: a connection that was lost, a leader that is moving.

    Only transactions set ``retriable``; requests for offsets or metadata return the code alone.
    """
    return bool(error.retriable()) or error.code() in NOT_YET or error.code() in _MOVING


class ClientWatch:
    """Measures how long a client has made no progress, and collects its connection errors meanwhile.

    librdkafka retries everything for ever. After a refused login or certificate the wait is only a second: another
    broker may still answer. A client that was logged in before waits as long as for any other error: its token may have
    ended while a new one is on its way, and a broker refuses a connection's second login within a second (4.3.1).
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._since = time.monotonic()
        self._accepted = False
        self._certain: KafkaError | None = None
        self._last: KafkaError | None = None
        self._no_token: KgroupError | None = None

    def refreshed(self, tokens: Callable[[str], T], config: str) -> T:
        """A token for librdkafka, which reports a callback's exception without its text: so it is kept."""
        try:
            token = tokens(config)
        except KgroupError as error:
            self._no_token = error
            raise
        self._no_token = None
        return token

    def on_error(self, error: KafkaError) -> None:
        if error.code() in _CERTAIN:
            self._certain = error
        elif error.code() != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error

    def progress(self) -> None:
        """Note progress: the wait starts again from zero."""
        self._since = time.monotonic()
        self._last = None

    def answered(self) -> None:
        """Note progress that only a broker can make, so the login was accepted."""
        self.progress()
        self._accepted, self._certain = True, None

    @property
    def disturbed(self) -> bool:
        """Whether a connection has failed since the last progress, or a login or certificate was refused."""
        return self._certain is not None or self._last is not None

    @property
    def over(self) -> bool:
        patience_s = min(self.timeout_s, _FAULT_PATIENCE_S) if self._certain and not self._accepted else self.timeout_s
        return time.monotonic() - self._since >= patience_s

    def fault(self, what: str, *more: str) -> KgroupError:
        """The error to raise after the wait: ``what`` could not be done; ``more`` are details for a timeout."""
        if self._no_token is not None:
            return self._no_token.with_context(prefix=f"{what}: ")
        if self._certain is not None:
            reason = self._certain.str()
            if self._certain.code() == KafkaError._SSL:
                return Unreachable(f"{what}: TLS failed", details=(reason,), code="tls")
            if not reason.startswith(_NO_TOKEN):
                return AuthenticationFailed(f"{what}: a broker refused the login", details=(reason,))
            unreachable = any(words in reason for words in _NO_ENDPOINT)
            kind: type[KgroupError] = Unreachable if unreachable else AuthenticationFailed
            return kind(f"{what}: there is no token for the login", details=(reason,))
        details = (self._last.str(), *more) if self._last is not None else more
        return Unreachable(
            f"{what}: no answer for {self.timeout_s:g} s",
            details=details,
            hint="a longer --timeout may help",
            code="timed-out",
        )


def client(kind: Any, config: Mapping[str, Any], watch: ClientWatch) -> Any:
    """A Consumer, Producer or AdminClient that logs only for --debug and never creates a topic.

    Raises ConfigError, and AuthenticationFailed or Unreachable if no token can be had.
    """
    level = _DEBUG if LOG.isEnabledFor(logging.DEBUG) else _QUIET
    settings = {**config, **NEVER_CREATES, "log_level": level, "error_cb": watch.on_error}
    if tokens := config.get("oauth_cb"):
        if hasattr(tokens, "token"):  # an application's own function (kgroup.consumer) has none
            tokens.token()  # its error has the cause; confluent-kafka would wait for 10 s, and only report that
        settings["oauth_cb"] = partial(watch.refreshed, tokens)
    try:
        return kind(settings, logger=LOG)
    except KafkaException as error:
        raise ConfigError(f"librdkafka cannot use these settings: {error.args[0].str()}") from error


def topic_client_error(error: KafkaError, topic: str, where: str, operation: str) -> KgroupError:
    """The KgroupError for an error on a topic; ``where`` names it in the message, ``operation`` is what was tried."""
    code = error.code()
    if code in _NO_TOPIC:
        return NotFound(f"{where} does not exist (any more)", code="unknown-topic")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(f"no {operation.upper()} on Topic {where}", hint=acl_hint(operation, "topic", topic))
    if code in _NO_BROKER:
        return Unreachable(f"{where}: {error.str()}")
    return KgroupError(f"{where}: {error.str()} ({error.name()})", code="broker-error")


def record_client_error(error: KafkaError, topic: str, advice: str = "") -> KgroupError:
    """The KgroupError for a record that ``topic`` refused; ``advice`` is what the user can do with it instead."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return Refused(
            f"a record is too large for {topic}",
            hint=f"raise max.message.bytes of that topic{advice and f', or {advice}'}",
            code=TOO_LARGE,
        )
    if error.code() in _REJECTED:
        return Refused(
            f"{topic} rejected a record: {error.str()}",
            hint="a compacted topic requires keys, and message.timestamp.before.max.ms limits the age of records"
            f"{advice and f'; or {advice}'}",
            code=NOT_ACCEPTED,
        )
    if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        # An idempotent producer needs no right of its own: WRITE on any topic is enough. So this is about the topic.
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return topic_client_error(error, topic, topic, "Write")
