"""Send a change to a group's coordinator, and say what is known if no response comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from kgroup.cluster.broker_errors import (
    COORDINATOR_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    RETRIABLE_COORDINATOR_ERRORS,
    UNKNOWN_SERVER_ERROR,
    change_error,
)
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.hint import Hint

MAYBE_STORED = frozenset({UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE})
"""After these error codes the write may be stored or not. A coordinator that lost its replicas sends the last one."""

MAYBE_LATER = frozenset({REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE})
"""After these error codes the write may be in the coordinator's log, and take effect later, when followers have it."""

UNSURE = MAYBE_STORED | RETRIABLE_COORDINATOR_ERRORS
"""Error codes after which to ask again."""

_TRIES = 3
_MIN_PATIENCE_MS = 1000


class NoResponse:
    """No response came. If the request was ``sent``, the coordinator may have carried it out.

    ``node`` is the broker that did not answer, None if there was none to ask.
    """

    def __init__(self, cause: Callable[[], KgroupError], *, sent: bool, node: int | None = None) -> None:
        self._cause = cause
        self.sent = sent
        self.node = node

    @cached_property
    def reason(self) -> KgroupError:
        """Why no response came. Determined on first access, which may open a connection of its own."""
        return self._cause()


async def send_to_coordinator(
    coordinators: GroupCoordinators, group: str, request: Any, patience_ms: int | None = None
) -> Any:
    """The coordinator's response, NoResponse if there was none, or a KgroupError for which a retry is useless.

    ``patience_ms`` is how long to wait for the response; None: a third of the remaining time. It is at least 1 s, even
    if less remains. Otherwise the outcome of a change that is sent just before the deadline would be unknown.
    """
    if coordinators.client.deadline.left_ms < _MIN_PATIENCE_MS:
        coordinators = coordinators.within(Deadline.after(_MIN_PATIENCE_MS / 1000))
    client = coordinators.client
    try:
        await coordinators.locate([group])
    except KgroupError as error:
        return NoResponse(partial(_itself, error), sent=False)
    node = coordinators.node(group)
    if isinstance(node, KgroupError):
        return node
    if node is None:
        return NoResponse(partial(change_error, COORDINATOR_NOT_AVAILABLE, group), sent=False)
    if patience_ms is None:
        # A third of the time: after a missing response the caller reads back, and may try again, within the deadline.
        patience_ms = client.deadline.left_ms // _TRIES
    answer = await client.send(request, node, max(_MIN_PATIENCE_MS, patience_ms))
    if isinstance(answer, BaseException):
        cause = partial(client.failure, answer, node)
        await client.refresh_brokers()
        return NoResponse(cause, sent=True, node=node)
    return answer


def unknown_outcome(reason: KgroupError) -> KgroupError:
    """The error for a change that may or may not have been stored."""
    return Unreachable(
        f"it is unknown whether this was stored: {reason.message}",
        code="outcome-unknown",
        hint=Hint("the journal has it: {}, or the same command again, reads the present offsets first", ("undo",)),
    )


def _itself(error: KgroupError) -> KgroupError:
    return error
