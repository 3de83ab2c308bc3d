"""What each job of Spark has, in the driver: a name to cancel it by, and a check that a worker is free for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.spark.driver import JOB_GROUP, Driver

_NO_ROOM_AFTER_S = 15.0
_ASK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Note:
    """A message for the user, which the driver asks kgroup to show."""

    text: str


@contextmanager
def running_job(driver: Driver) -> Iterator[None]:
    """The jobs that this thread starts within the block: ``CANCEL`` ends them, and waiting for a worker is noted."""
    driver.context.setJobGroup(JOB_GROUP, "catch-up", interruptOnCancel=False)
    # Without the names of operations, which Spark's UI shows, its JSON library stays unloaded.
    driver.context.setLocalProperty("spark.rdd.scope.noOverride", "true")
    ended = threading.Event()
    tracker = driver.context.statusTracker()
    watch = threading.Thread(
        target=note_no_room, args=(tracker, ended, lambda text: driver.ask(Note(text))), daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()  # what it asks after the call would be an answer to the next one


def note_no_room(tracker: Any, ended: threading.Event, note: Callable[[str], None]) -> None:
    """Note it, once for each time, if no worker runs a task of Spark's for a while: none is free, or one was lost."""
    idle_s, noted, begun = 0.0, False, False
    while not ended.wait(_ASK_EVERY_S):
        running = _running(tracker)
        if running:
            idle_s, noted, begun = 0.0, False, True
            continue
        idle_s += 0.0 if running is None else _ASK_EVERY_S  # between two stages nothing is known
        if idle_s >= _NO_ROOM_AFTER_S and not noted:
            noted = True
            word, check = ("run", "the workers are there") if begun else ("started", "a worker has free cores")
            note(f"no Spark worker has {word} a task for {_NO_ROOM_AFTER_S:.0f} s: check that {check}")


def _running(tracker: Any) -> int | None:
    """How many tasks of the stages at work run; None: unknown."""
    with suppress(Exception):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [info.numActiveTasks for info in stages if info]
        return sum(known) if known else None
    return None
