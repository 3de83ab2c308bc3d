"""Requests to the coordinator of a group that change it, and what is known when no answer comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from kgroup.cluster.broker_errors import (
    COORDINATOR_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    RETRIABLE_COORDINATOR_ERRORS,
    UNKNOWN_SERVER_ERROR,
    of_change,
)
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.support.errors import KgroupError, Unreachable

MAYBE_STORED = frozenset({UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE})
"""After these, what was written may have been stored, or not: a coordinator that lost its replicas says the last."""

MAYBE_LATER = frozenset({REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE})
"""After these it may be in the coordinator's log, and count when its followers have it too: not yet is not never."""

UNSURE = MAYBE_STORED | RETRIABLE_COORDINATOR_ERRORS
"""Worth asking again."""

_TRIES = 3
_LEAST_PATIENCE_MS = 1000


class NoResponse:
    """No answer came; the request may have been carried out, unless it was not even ``sent``.

    ``node`` is the broker that did not answer, None where there was none to ask.
    """

    def __init__(self, cause: Callable[[], KgroupError], *, sent: bool, node: int | None = None) -> None:
        self._cause = cause
        self.sent = sent
        self.node = node

    @cached_property
    def reason(self) -> KgroupError:
        """Why; found out when it is asked for, which may take a connection of its own."""
        return self._cause()


async def to_coordinator(
    client: CoordinatorClient, coordinators: GroupCoordinators, group: str, request: Any, patience_ms: int | None = None
) -> Any:
    """The coordinator's answer, Lost where there was none, or the KgroupError that makes all trying vain.

    ``patience_ms`` is for what is not tried again; None: a third of the time.
    """
    try:
        await coordinators.locate([group])
    except KgroupError as error:
        return NoResponse(partial(_itself, error), sent=False)
    node = coordinators.node(group)
    if isinstance(node, KgroupError):
        return node
    if node is None:
        return NoResponse(partial(of_change, COORDINATOR_NOT_AVAILABLE, group), sent=False)
    # A third of the time: what gets no answer is to be read back, and perhaps tried again, within it.
    third_ms = max(_LEAST_PATIENCE_MS, client.deadline.left_ms // _TRIES)
    answer = await client.send(request, node, third_ms if patience_ms is None else patience_ms)
    if isinstance(answer, BaseException):
        cause = partial(client.failure, answer, node)
        await client.refresh_brokers()
        return NoResponse(cause, sent=True, node=node)
    return answer


def unknown_outcome(reason: KgroupError) -> KgroupError:
    """What to report of a change that can't be told from one that was not made."""
    return Unreachable(
        f"it is unknown whether this was stored: {reason.message}",
        code="outcome-unknown",
        hint="the journal has it: kgroup undo, or the same command again, looks at what stands there then",
    )


def _itself(error: KgroupError) -> KgroupError:
    return error
