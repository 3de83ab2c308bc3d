"""Kafka's error codes in words: what they mean for the group or topic at hand, and what to do.

Source: org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

import shlex

import kafka.errors

from kgroup.errors import KgroupError, NotAuthorized, NotFound, Unreachable

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_AUTHORIZATION_FAILED = 29
UNSUPPORTED_VERSION = 35
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100

NO_LEADER = frozenset({5, 6, 9, 56, 72, 74, 75, 76, 78})
"""What a broker answers that does not lead a partition, or not yet; worth asking again."""

_COORDINATOR = {
    14: "its coordinator is still loading",
    15: "its coordinator is not available",
    16: "its coordinator has moved, and the new one does not answer for it yet",
}
RETRIABLE_COORDINATOR_ERRORS = frozenset(_COORDINATOR)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: worth asking again."""


def of_group(code: int, group: str) -> KgroupError:
    """What a coordinator's error code says about a group."""
    if code in _COORDINATOR:
        return Unreachable(
            _COORDINATOR[code],
            code="no-coordinator",
            hint="coordinators move within seconds; a longer --timeout waits for it",
        )
    if code == 30:
        return NotAuthorized(
            "no DESCRIBE on this group",
            hint=f"kafka-acls.sh --add --allow-principal User:... --operation Describe --group {shlex.quote(group)}",
        )
    if code == TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(
            "no DESCRIBE on a topic of this group, so the broker shows no member (KIP-848)",
            hint="kafka-acls.sh --add --allow-principal User:... --operation Describe --topic ...",
        )
    if code == GROUP_ID_NOT_FOUND:
        return NotFound("no such group")
    return _other(code)


def of_topic(code: int, topic: str, operation: str = "Describe") -> KgroupError:
    """What a broker's error code says about a topic or one of its partitions; ``operation`` is what was tried."""
    if code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
        return NotFound("does not exist (any more)", code="unknown-topic")
    if code == TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(
            f"could not be read: no {operation.upper()} on Topic",
            hint=f"kafka-acls.sh --add --allow-principal User:... --operation {operation} --topic {shlex.quote(topic)}",
        )
    if code in NO_LEADER:
        return Unreachable("has no leader that answers", code="no-leader")
    return _other(code)


def _other(code: int) -> KgroupError:
    error = kafka.errors.for_code(code)
    name = getattr(error, "message", None) or error.__name__
    return KgroupError(f"{name} ({code}): {getattr(error, 'description', '') or ''}".rstrip(": "), code="broker-error")
