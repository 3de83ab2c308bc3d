"""Handlers that work at the same time, each in its lane, in the order that was asked for.

With order ``partition`` there is one lane. With ``key`` a key is always in the same lane, and records without one are
spread. With ``none`` whoever is free takes what comes next. A record that was refused is tried again in its lane, which
waits meanwhile: what comes behind it there must not overtake it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self
from zlib import crc32

from kgroup.catchup.model import Order
from kgroup.catchup.task_spec import Handling
from kgroup.errors import KgroupError
from kgroup.stored import StoredRecord

Where = tuple[str, int, int]
"""(topic, partition, offset)"""

_LONGEST_BACKOFF_S = 60.0
_CLOSING_S = 5.0


class Refusal(Exception):
    """A handler did not take what it was given. ``final``: it never will, so there is no use in trying again."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class Handler(Protocol):
    """Takes records; each lane has its own.

    ``most`` is how many it takes at once. ``hangs_for_ever`` is set where nothing can end a call that does not return.
    """

    most: int
    hangs_for_ever: bool

    def handle(self, records: Sequence[StoredRecord]) -> None:
        """Return when they are handled. Raises Refusal, and KgroupError where it can't work at all."""

    def close(self) -> None:
        """End what it has started, in a few seconds."""

    def kill(self) -> None:
        """End at once what ``handle`` is doing, from another thread."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a record: handled where ``error`` is None, else refused ``attempts`` times."""

    topic: str
    partition: int
    offset: int
    attempts: int
    error: str | None


class _Turn:
    """What is handed over until it is halted. What comes of it later is nobody's: others are at work by then."""

    def __init__(self) -> None:
        self.halted = threading.Event()
        self.outcomes: deque[Outcome] = deque()
        self._given: set[Where] = set()
        self._lock = threading.Lock()

    def begins(self, records: Sequence[StoredRecord]) -> bool:
        """Whether these may be given to a handler: from here on they count as given."""
        with self._lock:
            if self.halted.is_set():
                return False
            self._given.update((record.topic, record.partition, record.offset) for record in records)
            return True

    def halt(self) -> None:
        """Nothing is given to a handler any more once this has returned."""
        with self._lock:
            self.halted.set()

    def given(self) -> frozenset[Where]:
        """All that were ever given, and not forgotten."""
        with self._lock:
            return frozenset(self._given)

    def given_from(self, position: int) -> int:
        """How many records at this offset and behind it were ever given; those below are forgotten."""
        with self._lock:
            self._given = {where for where in self._given if where[2] >= position}
            return len(self._given)


class _Inbox:
    """What waits for a lane, or for all of them."""

    def __init__(self, readers: int) -> None:
        self._readers = readers
        self._waiting: deque[StoredRecord] = deque()
        self._turn = _Turn()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, turn: _Turn, records: Iterable[StoredRecord]) -> None:
        with self._changed:
            self._turn = turn  # what waited in another was cleared away when that was halted
            self._waiting.extend(records)
            self._changed.notify(self._readers)

    def take(self, most: int) -> tuple[_Turn, list[StoredRecord]]:
        """Some of the next; none when it was closed. One of several readers leaves the others their part."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            number = max(1, min(most, len(self._waiting) // self._readers))
            return self._turn, [] if self._closed else [self._waiting.popleft() for _ in range(number)]

    def clear(self) -> None:
        with self._changed:
            self._waiting.clear()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()


@dataclass(slots=True)
class _Lane:
    inbox: _Inbox
    handler: Handler | None = None
    doing: Sequence[StoredRecord] = ()
    """What its handler has, and has not answered for."""
    since: float = 0.0
    turn: _Turn | None = None
    """Where what it works at belongs, until its outcome is known."""
    thread: threading.Thread = field(default_factory=threading.Thread)


class Lanes:
    """The lanes of a task. A context manager, that ends their handlers.

    ``make`` makes a handler. With ``stop_at_refusal`` no lane begins anything more once a record is refused for good.
    """

    def __init__(self, make: Callable[[], Handler], order: Order, handling: Handling, *, stop_at_refusal: bool) -> None:
        self._make = make
        self._order = order
        self._handling = handling
        self._stop_at_refusal = stop_at_refusal
        number = 1 if order is Order.PARTITION else max(1, handling.lanes)
        shared = _Inbox(number) if order is Order.NONE else None
        self._lanes = [_Lane(shared or _Inbox(1)) for _ in range(number)]
        self._turn = _Turn()
        self._news = threading.Event()
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        for number, lane in enumerate(self._lanes):
            lane.thread = threading.Thread(target=self._live, args=(lane,), name=f"kgroup-lane-{number}", daemon=True)
            lane.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._turn.halt()
        for lane in self._lanes:
            lane.inbox.close()
        until = time.monotonic() + _CLOSING_S
        for lane in self._lanes:
            hangs = bool(lane.doing)  # it was given its time already
            if hangs and lane.handler is not None:
                lane.handler.kill()
            if not (hangs and lane.handler is not None and lane.handler.hangs_for_ever):
                lane.thread.join(max(0.0, until - time.monotonic()))

    def put(self, records: Sequence[StoredRecord]) -> None:
        """Hand these over, in the order of their offsets."""
        if len(self._lanes) == 1 or self._order is Order.NONE:
            self._lanes[0].inbox.put(self._turn, records)
            return
        sorted_out: dict[int, list[StoredRecord]] = {}
        for record in records:
            sorted_out.setdefault(self._lane_of(record), []).append(record)
        for number, some in sorted_out.items():
            self._lanes[number].inbox.put(self._turn, some)

    def _lane_of(self, record: StoredRecord) -> int:
        return (record.offset if record.key is None else crc32(record.key)) % len(self._lanes)

    def outcomes(self, wait_s: float) -> list[Outcome]:
        """What has become known of what was handed over since ``go_on``, waiting so long for some of it.

        Raises what a handler said that can't work at all, and KgroupError with code ``handler-timeout`` for one that
        does not return, and that nothing can end.
        """
        known = self._turn.outcomes
        if wait_s > 0 and not known:
            self._news.wait(wait_s)
        self._news.clear()
        if self._fault is not None:
            raise self._fault
        self._refuse_hanging()
        return [known.popleft() for _ in range(len(known))]

    def _refuse_hanging(self) -> None:
        longest_s, now = self._handling.timeout_s, time.monotonic()
        for lane in self._lanes:
            doing, since = lane.doing, lane.since
            if doing and lane.handler is not None and lane.handler.hangs_for_ever and now - since > longest_s:
                first = doing[0]
                raise KgroupError(
                    f"the handler has not returned for {longest_s:g} s",
                    details=(
                        f"It was given {len(doing)} records, from {first.topic}:{first.partition}:{first.offset} on.",
                    ),
                    hint="a longer --handler-timeout may help",
                    code="handler-timeout",
                )

    def given_from(self, position: int) -> int:
        """How many records at this offset and behind it were ever given to a handler since ``go_on``, whatever became
        of them.
        """
        return self._turn.given_from(position)

    def given(self) -> frozenset[Where]:
        """What was ever given to a handler since ``go_on``, whatever became of it."""
        return self._turn.given()

    def halt(self, within_s: float) -> int:
        """Begin nothing more, and let what is under way end, for so long; how many records it still has then."""
        turn = self._turn
        turn.halt()
        for lane in self._lanes:
            lane.inbox.clear()
        until = time.monotonic() + within_s
        while any(lane.turn is turn for lane in self._lanes) and time.monotonic() < until and self._fault is None:
            self._news.wait(0.02)
            self._news.clear()
        return sum(len(lane.doing) for lane in self._lanes if lane.turn is turn)

    def go_on(self) -> None:
        """After ``halt``, with what comes next: what is still under way then is not told any more."""
        self._turn = _Turn()

    def _live(self, lane: _Lane) -> None:
        try:
            lane.handler = self._make()
            while True:
                turn, records = lane.inbox.take(lane.handler.most)
                if not records:
                    return
                self._work(lane, turn, records, 0)
                lane.turn = None
                self._news.set()
        except BaseException as error:
            self._fault = error
            self._turn.halt()
            self._news.set()
        finally:
            if lane.handler is not None:
                lane.handler.close()

    def _work(self, lane: _Lane, turn: _Turn, records: Sequence[StoredRecord], tried: int) -> None:
        """Hand them over; of several that are refused, one by one, to find which."""
        refusal, attempts = self._try(lane, turn, records)
        if attempts is None:
            return
        if refusal is not None and len(records) > 1:
            for record in records:
                self._work(lane, turn, (record,), tried + attempts)
            return
        if refusal is not None and self._stop_at_refusal:
            turn.halt()
        error = None if refusal is None else refusal.reason
        turn.outcomes.extend(
            Outcome(record.topic, record.partition, record.offset, tried + attempts, error) for record in records
        )
        self._news.set()

    def _try(self, lane: _Lane, turn: _Turn, records: Sequence[StoredRecord]) -> tuple[Refusal | None, int | None]:
        """The last refusal, and after how many attempts; None attempts: it was halted before it knew."""
        assert lane.handler is not None
        attempts, pause_s, refusal = 0, self._handling.backoff_s, None
        while True:
            attempts += 1
            lane.turn = turn
            if not turn.begins(records):
                return refusal, None
            refusal = None
            lane.since = time.monotonic()
            lane.doing = records
            try:
                lane.handler.handle(records)
            except Refusal as error:
                refusal = error
            finally:
                lane.doing = ()
            if refusal is None or refusal.final or attempts > self._handling.retries:
                return refusal, attempts
            if turn.halted.wait(min(pause_s, _LONGEST_BACKOFF_S)):
                return refusal, None
            pause_s *= 2
