"""Notes about what else changes when a consumer moves to the other protocol, also in the application's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.migration.client_config.decide import Flavour, ScopeChanges, masked, milliseconds
from kgroup.groups.migration.client_config.names import (
    HEARTBEAT,
    INSTANCE_ID,
    MAX_POLL,
    PROTOCOL,
    REMOTE_ASSIGNOR,
    SESSION,
)
from kgroup.support.durations import format_duration

_DEFAULT_SESSION_MS = 45_000
_DEFAULT_HEARTBEAT_MS = 3_000
_DEFAULT_MAX_POLL_MS = 300_000

MINIMUM = {
    "java": "at least Java client 4.0 (4.4.0 is advised), so Spring Kafka 4.0",
    "librdkafka": "at least librdkafka 2.12.0 (2.15.0 is advised), so confluent-kafka 2.12.0",
}
"""The version with general availability of the protocol in each client; the advised one fixes the known defects."""

_CODE = {
    "java": (
        "in Java code: enforceRebalance() only logs a warning, remove it; your own assignors are not used",
        "in Java code: the client still matches subscribe(Pattern); the broker matches subscribe(SubscriptionPattern), "
        "with RE2/J and against the whole name",
        "in Java code: rebalance listeners get only the added or removed partitions, as with the cooperative assignor",
    ),
    "librdkafka": (
        "in code on librdkafka: the broker matches patterns, with RE2/J and against the whole name: ^topic no longer "
        "finds topic-1, ^topic.* does",
        "in code on librdkafka: rebalance callbacks get only the added or removed partitions, and must use "
        "incremental_assign() and incremental_unassign()",
        "in code on librdkafka: it continues to fetch while the coordinator cannot be reached, and a subscription to a "
        "topic that does not exist is not an error",
    ),
}
_ERRORS = (
    "in error callbacks: UNSUPPORTED_ASSIGNOR, UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION, "
    "GROUP_MAX_SIZE_REACHED and UNSUPPORTED_VERSION end a consumer for good; one topic without the right DESCRIBE "
    "fails the heartbeats of the whole member (TOPIC_AUTHORIZATION_FAILED)"
)


def consumer_notes(decided: ScopeChanges, flavours: Sequence[Flavour]) -> Iterator[str]:
    """Notes for a move to the consumer protocol; ``flavours`` are the clients that may read the file."""
    scope = decided.scope
    yield from (f"needs {MINIMUM[flavour]}" for flavour in flavours)
    if decided.strategies:
        kept = f"; {decided.assignor} replaces the rest of the list" if decided.assignor else ""
        yield (
            f"{', '.join(decided.strategies)}: the broker has no such assignor{kept}. It has uniform and range; "
            "one of your own is a class on the brokers (group.consumer.assignors), named in group.remote.assignor"
        )
    elif not scope.value(REMOTE_ASSIGNOR) and not decided.sets(REMOTE_ASSIGNOR):
        yield (
            "no partition.assignment.strategy was set: the clients then start with range, the broker with uniform; "
            "if one member must get partitions of the same number of several topics, add group.remote.assignor=range"
        )
    yield from _timeout_notes(decided)
    poll = masked(scope.value(MAX_POLL) or f"{_DEFAULT_MAX_POLL_MS}")
    yield (
        f"{MAX_POLL} ({poll}{'' if scope.value(MAX_POLL) else ', the default'}) still counts, and is the rebalance "
        "timeout too: a member that does not poll within it leaves the group"
        + ("; before librdkafka 2.15 it may then fail for good (INVALID_REQUEST)" if "librdkafka" in flavours else "")
    )
    instance = scope.value(INSTANCE_ID)
    if instance is not None:
        yield (
            f"{INSTANCE_ID} ({masked(instance)}) stays; of two members with one id the broker now refuses the newcomer "
            "(UNRELEASED_INSTANCE_ID), not the old one: stop the old instance before its successor starts"
        )
    yield from (note for flavour in flavours for note in _CODE[flavour])
    yield _ERRORS


def _timeout_notes(decided: ScopeChanges) -> Iterator[str]:
    for key, config, flag in (
        (SESSION, "consumer.session.timeout.ms", "--session-timeout"),
        (HEARTBEAT, "consumer.heartbeat.interval.ms", "--heartbeat-interval"),
    ):
        entries = decided.scope.all(key)
        old_ms = milliseconds(entries[-1].value) if entries else None
        if old_ms is not None:
            kept = format_duration(old_ms / 1000)
            yield (
                f"{key} is the broker's now: {config}={old_ms} on the group keeps {kept} (kgroup migrate {flag} {kept})"
            )
        elif entries:
            where = f"line {entries[-1].line}: {entries[-1].key}"
            yield f"{where} is not a number: set the group config {config} by hand"
        elif key == SESSION:
            default = format_duration(_DEFAULT_SESSION_MS / 1000)
            yield f"the session timeout is the broker's now (group config {config}); the client's default was {default}"


def classic_notes(decided: ScopeChanges, flavours: Sequence[Flavour], session_timeout_ms: int | None) -> Iterator[str]:
    """Notes for a move to the classic protocol; ``session_timeout_ms`` is the client's new one, None: its default."""
    scope = decided.scope
    if decided.strategies and decided.sets(PROTOCOL):
        yield (
            f"{', '.join(decided.strategies)}: the clients have no such assignor: set partition.assignment.strategy "
            "by hand, otherwise they start with range"
        )
    session = session_timeout_ms or _DEFAULT_SESSION_MS
    yield (
        f"the session timeout is the client's again: {format_duration(session / 1000)}"
        + ("" if session_timeout_ms else ", its default")
        + "; the group config consumer.session.timeout.ms no longer counts"
    )
    heartbeat = milliseconds(scope.value(HEARTBEAT) or "") or _DEFAULT_HEARTBEAT_MS
    if session <= heartbeat:
        yield f"{HEARTBEAT} ({heartbeat}) must be less than {SESSION}: otherwise the client does not start"
    poll = milliseconds(scope.value(MAX_POLL) or "")
    if poll is not None and poll < session and "librdkafka" in flavours:
        yield (
            f"librdkafka does not start with {MAX_POLL} ({poll}) under {SESSION} ({session}) on the classic protocol: "
            "raise the one or lower the other"
        )
    if scope.value(INSTANCE_ID) is not None:
        yield f"{INSTANCE_ID}: of two members with one id the broker fences the old one again, not the newcomer"
    if "java" in flavours:
        yield "in Java code: subscribe(SubscriptionPattern) fails on the classic protocol; subscribe(Pattern) does not"
    if "librdkafka" in flavours:
        yield "in code on librdkafka: the client matches patterns again, anywhere in the name: ^topic finds topic-1"
    yield "one member that is left on the consumer protocol keeps the group there"
