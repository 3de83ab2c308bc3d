"""How a member went: it left, its session expired, it exceeded its poll interval, or the log does not show it.

All three have the same trace in the log: the member is gone. The difference is the time since its last sign of life,
compared with its own timeouts. A sign of life within the session timeout *proves* that the member left or was removed
by an administrator. A silence counts only where it is unusual: the group commits regularly, the member had partitions,
and no record is missing. A silence that is as long as one timeout but not the other is then attributed to that one.
"""

from __future__ import annotations

import msgspec

from kgroup.groups.timeline.steps import Cause

POLL_EARLY_MS = 1_000
"""How much less than its poll interval a member that exceeded it may have been silent."""

_UNSHARP_MS = 500
"""A session starts when the broker handles a request, which was up to 70 ms before the record was written (seen)."""

_LATE_MS = 1_000


class Absence(msgspec.Struct, frozen=True):
    """A member that is gone, and what is known of its end."""

    silent_ms: int | None
    """From its last sign of life until it was gone; None without one."""
    proven_ms: int | None
    """From the last sign that renewed its session until it was gone; None without one."""
    rhythm_ms: int | None
    """The usual time between its signs of life, None if silence proves nothing."""
    session_ms: int | None
    poll_ms: int | None
    noticed_ms: int
    """The delay until the log shows that a session ended: other members have to join again first."""
    early_ms: int = 0
    """How long before the last sign of life the session may have been renewed."""
    mute_ms: int | None = None
    """The silence of a client that stops its heartbeats when it exceeds its poll interval; None if none does that."""


class Departure(msgspec.Struct, frozen=True):
    cause: Cause
    inferred: bool
    """Whether it was concluded from timing."""


def departure(absence: Absence) -> Departure:
    """How the member went. With a session of 10 s and the last commit 4 s before it was gone, it left."""
    silent, session, poll = absence.silent_ms, absence.session_ms, absence.poll_ms
    at_poll = absence.rhythm_ms is not None and (
        _as_long_as(silent, poll, POLL_EARLY_MS, absence)
        or _as_long_as(silent, absence.mute_ms, absence.early_ms, absence)
    )
    unsharp_ms = 0 if session is None else min(_UNSHARP_MS, session // 4)
    at_session = absence.rhythm_ms is not None and _as_long_as(
        silent, session, max(absence.early_ms, unsharp_ms), absence
    )
    if session is not None and absence.proven_ms is not None and absence.proven_ms < session - unsharp_ms:
        if at_poll and not at_session:
            return Departure(Cause.POLL_EXCEEDED, inferred=True)
        if poll is None or silent is None or silent < poll - POLL_EARLY_MS:
            return Departure(Cause.LEAVE, inferred=False)
        return Departure(Cause.GONE, inferred=False)
    if at_session != at_poll:
        return Departure(Cause.SESSION_EXPIRED if at_session else Cause.POLL_EXCEEDED, inferred=True)
    return Departure(Cause.GONE, inferred=False)


def _as_long_as(silent: int | None, timeout: int | None, early_ms: int, absence: Absence) -> bool:
    """Whether the silence was as long as the timeout, plus at most the delay with which the log can show it."""
    if silent is None or timeout is None or timeout <= 0:
        return False
    return timeout - early_ms <= silent <= timeout + (absence.rhythm_ms or 0) + absence.noticed_ms + _LATE_MS
