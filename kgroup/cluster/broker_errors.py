"""Kafka's error codes in words: what they mean for a group or topic, and what the user can do.

Source: org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

import kafka.errors

from kgroup.model.kafka_tools import acl_hint
from kgroup.support.errors import (
    NOT_EMPTY,
    SUBSCRIBED,
    KgroupError,
    NotAuthorized,
    NotFound,
    Refused,
    Unreachable,
    refusal_code,
)
from kgroup.support.hint import Hint

PENDING_TRANSACTION = refusal_code(
    "pending-transaction",
    "changes",
    "The open transaction of a producer is about to commit that offset.",
    "Stop the producer, or wait until its transaction ends.",
    not_yet=True,
)
METADATA_SIZE = refusal_code(
    "metadata-size",
    "changes",
    "The broker does not accept commit metadata of that length.",
    "Raise offset.metadata.max.bytes of the brokers.",
)

UNKNOWN_SERVER_ERROR = -1
NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
OFFSET_METADATA_TOO_LARGE = 12
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
INVALID_COMMIT_OFFSET_SIZE = 28
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
INVALID_CONFIG, INVALID_REQUEST = 40, 42
SECURITY_DISABLED = 54
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
GROUP_SUBSCRIBED_TO_TOPIC = 86
UNSTABLE_OFFSET_COMMIT = 88
UNKNOWN_TOPIC_ID = 100
GROUP_DELETION_FAILED = 134

_NEWER = {GROUP_DELETION_FAILED: "GROUP_DELETION_FAILED"}
"""Names of codes that kafka-python does not know."""

NO_LEADER = frozenset({5, 6, 9, 56, 72, 74, 75, 76, 78})
"""Error codes of a broker that does not lead the partition, or does not yet; worth asking again."""

_COORDINATOR = {
    COORDINATOR_LOAD_IN_PROGRESS: "its coordinator is still loading",
    COORDINATOR_NOT_AVAILABLE: "its coordinator is not available",
    NOT_COORDINATOR: "its coordinator has moved, and the new one does not serve it yet",
}
RETRIABLE_COORDINATOR_ERRORS = frozenset(_COORDINATOR)
"""Error codes of a coordinator that is loading, unavailable or has moved; worth asking again."""


def group_error(code: int, group: str, message: str | None = None) -> KgroupError:
    """The error for a coordinator's error code about a group; ``message`` as in ``change_error``."""
    if code in _COORDINATOR:
        return Unreachable(
            _COORDINATOR[code],
            code="no-coordinator",
            hint="coordinators move within seconds: try again with a longer --timeout. If it does not come back, "
            "describe, export and reset --from-group read the group without it with --from-log",
        )
    if code == GROUP_AUTHORIZATION_FAILED:
        return NotAuthorized(
            "no DESCRIBE on this group",
            hint=acl_hint("Describe", "group", group),
        )
    if code == TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(
            "no DESCRIBE on a topic of this group, so the broker does not show its members (KIP-848)",
            hint=acl_hint("Describe", "topic", "..."),
        )
    if code == GROUP_ID_NOT_FOUND:
        return NotFound("no such group")
    if code == UNSTABLE_OFFSET_COMMIT:
        return Refused(
            "an open transaction is about to commit this offset",
            code=PENDING_TRANSACTION,
            hint="a producer commits for this group: stop it, or wait until its transaction has ended",
        )
    return _other(code, message)


def behind_group() -> Unreachable:
    """The error when a coordinator answers for a group, and its answer may lack the latest commits."""
    return Unreachable(
        "its coordinator was elected moments ago and may not show the latest commits yet",
        code="coordinator-behind",
        hint=Hint(
            "try again; if that does not help, too few replicas of __consumer_offsets are running: {}", ("doctor",)
        ),
    )


def is_behind(result: object) -> bool:
    return isinstance(result, KgroupError) and result.code == "coordinator-behind"


def denied_group() -> Unreachable:
    """The error when the brokers list a group whose coordinator answers that it does not exist."""
    return Unreachable(
        "the brokers list this group, but its coordinator answers that it does not exist",
        code="no-coordinator",
        hint="try again; with --from-log describe, export and reset --from-group do without the coordinator",
    )


FENCED_INSTANCE_ID = 82
FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, STALE_MEMBER_EPOCH = 110, 111, 113

_NOT_EMPTY = frozenset(
    {
        ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID,
        REBALANCE_IN_PROGRESS,
        NON_EMPTY_GROUP,
        FENCED_MEMBER_EPOCH,
        STALE_MEMBER_EPOCH,
    }
)
"""Error codes of a coordinator that refuses a change from outside because the group has members."""


def change_error(
    code: int, group: str, topic: str | None = None, operation: str = "Read", message: str | None = None
) -> KgroupError:
    """The error for a coordinator's error code on a change to a group; ``operation`` is the right it needs.

    ``message`` is the broker's own text, if it sent one; it is shown where kgroup has no words of its own.
    """
    if code in _NOT_EMPTY:
        return Refused(
            "the group is not empty, so the broker refused it",
            code=NOT_EMPTY,
            hint=Hint(
                "a member joined: {}; --wait-empty waits until the group is empty", ("describe", group, "--members")
            ),
        )
    if code == GROUP_SUBSCRIBED_TO_TOPIC:
        return Refused(
            f"a live member is subscribed to {topic}, so the broker keeps its offsets (GROUP_SUBSCRIBED_TO_TOPIC)",
            code=SUBSCRIBED,
            hint="stop the members that read it, or remove the topic from their subscription",
        )
    if code == TOPIC_AUTHORIZATION_FAILED and topic is not None:
        return NotAuthorized(
            "no READ on this topic, which is needed to change a commit",
            hint=acl_hint("Read", "topic", topic),
        )
    if code == GROUP_AUTHORIZATION_FAILED:
        return NotAuthorized(
            f"no {operation.upper()} on this group, which is needed to change it",
            hint=acl_hint(operation, "group", group),
        )
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        return NotFound("does not exist (any more)", code="unknown-topic")
    if code == UNKNOWN_SERVER_ERROR:
        return KgroupError(
            "the broker could not store it (UNKNOWN_SERVER_ERROR)",
            code="broker-error",
            hint="the broker's log has the reason; for large commits, raise max.message.bytes of __consumer_offsets",
        )
    if code in (OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE):
        limit = "offset.metadata.max.bytes" if code == OFFSET_METADATA_TOO_LARGE else "message.max.bytes"
        return Refused(f"its metadata is longer than the broker allows ({limit})", code=METADATA_SIZE)
    return group_error(code, group, message)


def topic_error(code: int, topic: str, operation: str = "Describe") -> KgroupError:
    """The error for a broker's error code about a topic or partition; ``operation`` is the right it needs."""
    if code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
        return NotFound("does not exist (any more)", code="unknown-topic")
    if code == TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(
            f"could not be read: no {operation.upper()} on Topic",
            hint=acl_hint(operation, "topic", topic),
        )
    if code in NO_LEADER:
        return Unreachable("has no leader that answers", code="no-leader")
    return _other(code)


def _other(code: int, message: str | None = None) -> KgroupError:
    error = kafka.errors.for_code(code)
    name = _NEWER.get(code) or getattr(error, "message", None) or error.__name__
    meaning = message or getattr(error, "description", "") or ""
    return KgroupError(f"{name} ({code}): {meaning}".rstrip(": "), code="broker-error")
