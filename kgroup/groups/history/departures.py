"""How a member went: it left, its session expired, it exceeded its poll interval; or the log does not tell.

All three look alike in the log: the member is not there any more. What tells them apart is the time since its last
sign of life, measured against its own timeouts. A sign of life within the session timeout *proves* that it left (or
was removed by hand). That it was silent proves something only where its silence is unusual: the group commits
regularly, the member had partitions, and no record is missing. Then a silence as long as one of its timeouts, and not
as long as the other, is taken for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.history.model import Cause

_POLL_EARLY_MS = 1_000
_UNSHARP_MS = 500
"""A session counts from when a request was handled, which is before its record was written: by 70 ms (seen)."""

_LATE_MS = 1_000


@dataclass(frozen=True, slots=True)
class Absence:
    """A member that is gone, and what is known of its end.

    ``silent_ms`` is from its last sign of life until it was gone, None without any; ``proven_ms`` from the last one
    that renewed its session. ``rhythm_ms`` is how often it would have been heard of, None where its silence says
    nothing. ``session_ms`` and ``poll_ms`` are its timeouts, None where unknown. ``noticed_ms`` is how long the end of
    a session may stay unseen in the log: others have to join again first. ``early_ms`` is how long before the last sign
    of life its session may have been renewed last. ``mute_ms`` is how long a client is silent that stops its heartbeats
    when it exceeds its poll interval, None where none does.
    """

    silent_ms: int | None
    proven_ms: int | None
    rhythm_ms: int | None
    session_ms: int | None
    poll_ms: int | None
    noticed_ms: int
    early_ms: int = 0
    mute_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """How it went; ``inferred`` from times, or proven."""

    cause: Cause
    inferred: bool


def departure(absence: Absence) -> Departure:
    """What the absence comes to. Worked: session 10 s, last commit 4 s before it was gone: it left."""
    silent, session, poll = absence.silent_ms, absence.session_ms, absence.poll_ms
    at_poll = absence.rhythm_ms is not None and (
        _about(silent, poll, _POLL_EARLY_MS, absence) or _about(silent, absence.mute_ms, absence.early_ms, absence)
    )
    unsharp_ms = 0 if session is None else min(_UNSHARP_MS, session // 4)
    at_session = absence.rhythm_ms is not None and _about(silent, session, max(absence.early_ms, unsharp_ms), absence)
    if session is not None and absence.proven_ms is not None and absence.proven_ms < session - unsharp_ms:
        if at_poll and not at_session:
            return Departure(Cause.POLL_EXCEEDED, inferred=True)
        if poll is None or silent is None or silent < poll - _POLL_EARLY_MS:
            return Departure(Cause.LEAVE, inferred=False)
        return Departure(Cause.GONE, inferred=False)
    if at_session != at_poll:
        return Departure(Cause.SESSION_EXPIRED if at_session else Cause.POLL_EXCEEDED, inferred=True)
    return Departure(Cause.GONE, inferred=False)


def _about(silent: int | None, timeout: int | None, early_ms: int, absence: Absence) -> bool:
    """Whether it was silent for as long as the timeout, and no longer than the log may lag behind it."""
    if silent is None or timeout is None or timeout <= 0:
        return False
    return timeout - early_ms <= silent <= timeout + (absence.rhythm_ms or 0) + absence.noticed_ms + _LATE_MS
