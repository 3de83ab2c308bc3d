"""A lock between processes: the operating system releases it when its holder dies."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kgroup.support.errors import Refused, refusal_code

LOCKED = refusal_code(
    "locked",
    "changes",
    "Another kgroup run on this machine has been changing offsets for a minute.",
    "Wait until that run ends.",
    not_yet=True,
)

_LOOK_EVERY_S = 0.05
_PATIENCE_S = 180.0


@contextmanager
def exclusive_lock(
    path: Path, event: Callable[[str, str], None], holder: str, patience_s: float = _PATIENCE_S
) -> Iterator[None]:
    """Hold the lock during the block; reports one ``event`` if it must wait for ``holder``.

    Raises Refused after ``patience_s`` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience_s
    reported = False
    with path.open("a") as file:
        while not _try(file.fileno()):
            if not reported:
                event("WAIT", f"for {holder}")
                reported = True
            if time.monotonic() > deadline:
                raise Refused(
                    f"{holder} has held {path} for {patience_s:.0f} s",
                    hint="wait until it has ended",
                    code=LOCKED,
                )
            time.sleep(_LOOK_EVERY_S)
        yield


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
