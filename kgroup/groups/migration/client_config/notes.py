"""Notes about what else changes when a consumer moves to the other protocol, also in the application's code."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.migration.client_config.decide import ConfigChange, Flavour, milliseconds
from kgroup.groups.migration.client_config.masking import shown
from kgroup.groups.migration.client_config.names import (
    HEARTBEAT,
    INSTANCE_ID,
    MAX_POLL,
    PROTOCOL,
    RACK,
    REMOTE_ASSIGNOR,
    SESSION,
)
from kgroup.support.durations import format_duration

_DEFAULT_SESSION_MS = 45_000
_DEFAULT_HEARTBEAT_MS = 3_000
_DEFAULT_MAX_POLL_MS = 300_000

MINIMUM = {
    "java": "at least Java client 4.0 (4.3.1 is advised), so Spring Kafka 4.0",
    "librdkafka": "at least librdkafka 2.12.0 (2.15.0 is advised), so confluent-kafka 2.12.0",
}
"""The version with general availability of the protocol in each client; the advised one fixes the known defects."""


def consumer_notes(decision: ConfigChange, flavours: tuple[Flavour, ...]) -> Iterator[str]:
    """Notes for a move to the consumer protocol; ``flavours`` are the clients that may read the file."""
    scope = decision.scope
    for flavour in flavours:
        yield f"needs {MINIMUM[flavour]}"
    yield from _assignor_notes(decision)
    yield from _timeout_notes(decision)
    poll = scope.value(MAX_POLL)
    told = shown(poll) if poll else f"{_DEFAULT_MAX_POLL_MS}, the default"
    yield (
        f"{MAX_POLL} ({told}) still counts, and is the rebalance timeout too: a member that does not poll in time "
        "leaves the group"
        + ("; before librdkafka 2.15 it may then fail for good (INVALID_REQUEST)" if "librdkafka" in flavours else "")
    )
    instance = scope.value(INSTANCE_ID)
    if instance is not None:
        yield (
            f"{INSTANCE_ID} ({shown(instance)}) stays; of two members with one id the newcomer is refused now "
            "(UNRELEASED_INSTANCE_ID), not the old one: stop the old instance before its successor starts"
        )
    if scope.value(RACK) is not None:
        yield f"{RACK}: the broker's assignors do not heed racks in full yet (KAFKA-19387)"
    yield from _code_notes(flavours)


def _assignor_notes(decision: ConfigChange) -> Iterator[str]:
    scope = decision.scope
    if decision.strategies:
        kept = f"; {decision.assignor} is taken for the rest of the list" if decision.assignor else ""
        yield (
            f"{', '.join(decision.strategies)}: the broker has no such assignor{kept}. It has uniform and range; "
            "one of your own is a class on the brokers (group.consumer.assignors), named in group.remote.assignor"
        )
    elif not scope.value(REMOTE_ASSIGNOR) and all(put.key != REMOTE_ASSIGNOR for put in decision.put):
        yield (
            "no partition.assignment.strategy was set: the clients then begin with range, the broker with uniform; "
            "where partitions of one number must meet in one member across topics, add group.remote.assignor=range"
        )


def _timeout_notes(decision: ConfigChange) -> Iterator[str]:
    scope = decision.scope
    for key, config, flag in (
        (SESSION, "consumer.session.timeout.ms", "--session-timeout"),
        (HEARTBEAT, "consumer.heartbeat.interval.ms", "--heartbeat-interval"),
    ):
        found, value = scope.last(key), scope.value(key)
        if found is None:
            continue
        if value is None or (told := milliseconds(value)) is None:
            yield f"line {found.entry.line}: {found.entry.full} is no number: set the group config {config} by hand"
            continue
        yield (
            f"{key} is the broker's now: {config}={told} on the group keeps {format_duration(told / 1000)} "
            f"(kgroup migrate {flag} {format_duration(told / 1000)})"
        )
    if scope.last(SESSION) is None:
        yield (
            "the session timeout is the broker's now (group.consumer.session.timeout.ms, or on the group "
            f"consumer.session.timeout.ms); the client's default was {format_duration(_DEFAULT_SESSION_MS / 1000)}"
        )


def _code_notes(flavours: tuple[Flavour, ...]) -> Iterator[str]:
    if "java" in flavours:
        yield "in Java code: enforceRebalance() only logs a warning, take it out; your own assignors are not used"
        yield (
            "in Java code: subscribe(Pattern) is still matched by the client, subscribe(SubscriptionPattern) by the "
            "broker, with RE2/J and against the whole name"
        )
        yield "in Java code: rebalance listeners get only what is added or taken, as with the cooperative assignor"
    if "librdkafka" in flavours:
        yield (
            "in code on librdkafka: patterns are matched by the broker, with RE2/J and against the whole name: ^topic "
            "no longer finds topic-1, ^topic.* does"
        )
        yield (
            "in code on librdkafka: rebalance callbacks get only what is added or taken, and must use "
            "incremental_assign() and incremental_unassign()"
        )
        yield (
            "in code on librdkafka: it goes on fetching while the coordinator can't be reached, and to subscribe to a "
            "topic that does not exist is no error"
        )
    yield (
        "in error callbacks: UNSUPPORTED_ASSIGNOR, UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION, "
        "GROUP_MAX_SIZE_REACHED and UNSUPPORTED_VERSION end a consumer for good; one topic without the right DESCRIBE "
        "fails the heartbeats of the whole member (TOPIC_AUTHORIZATION_FAILED)"
    )


def classic_notes(
    decision: ConfigChange, flavours: tuple[Flavour, ...], session_timeout_ms: int | None
) -> Iterator[str]:
    """Notes for a move to the classic protocol; ``session_timeout_ms`` is the client's new one, None: its default."""
    scope = decision.scope
    if decision.strategies and any(put.key == PROTOCOL for put in decision.put):
        yield (
            f"{', '.join(decision.strategies)}: the clients have no such assignor: set partition.assignment.strategy "
            "by hand, or they begin with range"
        )
    session = session_timeout_ms or _DEFAULT_SESSION_MS
    yield (
        f"the session timeout is the client's again: {format_duration(session / 1000)}"
        + ("" if session_timeout_ms else ", its default")
        + "; what the group has (consumer.session.timeout.ms) no longer counts"
    )
    heartbeat = milliseconds(scope.value(HEARTBEAT) or "") or _DEFAULT_HEARTBEAT_MS
    if session <= heartbeat:
        yield f"{HEARTBEAT} must be set to less than {SESSION}: it is {heartbeat}, and the client would not start"
    poll = milliseconds(scope.value(MAX_POLL) or "")
    if poll is not None and poll < session and "librdkafka" in flavours:
        yield (
            f"librdkafka does not start with {MAX_POLL} ({poll}) under {SESSION} ({session}) on the classic protocol: "
            "raise the one or lower the other"
        )
    if scope.value(INSTANCE_ID) is not None:
        yield f"{INSTANCE_ID}: of two members with one id the old one is fenced again, not the newcomer"
    if "java" in flavours:
        yield "in Java code: subscribe(SubscriptionPattern) fails on the classic protocol; subscribe(Pattern) does not"
    if "librdkafka" in flavours:
        yield "in code on librdkafka: the client matches patterns again, anywhere in the name: ^topic finds topic-1"
    yield "one member that is left on the consumer protocol keeps the group there"
