"""Handlers that work in parallel, each in its own lane, in the order of ``--order``.

With order ``partition`` there is one lane. With ``key`` all records of a key go to the same lane, and records without a
key are spread by offset. With ``none`` any free lane takes the next records. A refused record is retried in its lane.
The lane waits meanwhile, so that later records do not overtake it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self
from zlib import crc32

from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.model import Order
from kgroup.model.records import ConsumerRecord
from kgroup.model.topic_partition import PartitionValue
from kgroup.support.errors import KgroupError

RecordPosition = tuple[str, int, int]
"""(topic, partition, offset)"""

_LONGEST_BACKOFF_S = 60.0
_CLOSING_S = 10.0


class HandlerRefusal(Exception):
    """A handler did not accept its records. ``final``: a retry is useless.

    ``given`` is False if the handler certainly received none of them, so that none can be received twice.
    """

    def __init__(self, reason: str, *, final: bool = False, given: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        self.given = given


class Handler(Protocol):
    """Processes up to ``most`` records at once; each lane has its own handler.

    ``hangs_for_ever`` is True if a call that does not return cannot be ended.
    """

    most: int
    hangs_for_ever: bool

    def handle(self, records: Sequence[ConsumerRecord]) -> None:
        """Return when the records are handled. Raises HandlerRefusal, or KgroupError if it cannot work at all."""

    def close(self) -> None:
        """End what it has started, within seconds."""

    def kill(self) -> None:
        """Called from another thread: abort what ``handle`` is doing."""


@dataclass(frozen=True, slots=True)
class HandlerOutcome(PartitionValue):
    """The outcome of a record: handled if ``error`` is None, otherwise refused ``attempts`` times."""

    topic: str
    partition: int
    offset: int
    attempts: int
    error: str | None


class HandlerTurn:
    """What the lanes hand over until ``halt``. Outcomes after that are ignored: the pool has a new turn.

    A record that was given before is given again only after ``allow``: the ledger records first that it may be received
    twice. ``news`` is set when a lane waits for that. Records count as given whatever their outcome.
    """

    def __init__(self, news: threading.Event) -> None:
        self.halted = threading.Event()
        self.outcomes: deque[HandlerOutcome] = deque()
        self.request_count = 0
        """How many records are to be given again."""
        self._news = news
        self._allowed = 0
        self._given: set[RecordPosition] = set()
        self._again: Counter[RecordPosition] = Counter()
        self._changed = threading.Condition()

    def begins(self, records: Sequence[ConsumerRecord]) -> bool:
        """Whether these records may be given to a handler; if so, they count as given. May wait for ``allow``."""
        places = [_where(record) for record in records]
        with self._changed:
            again = [where for where in places if where in self._given]
            if again and not self.halted.is_set():
                self.request_count += len(again)
                number = self.request_count
                self._news.set()
                self._changed.wait_for(lambda: self._allowed >= number or self.halted.is_set())
            if self.halted.is_set():
                return False
            self._given.update(places)
            self._again.update(again)
            return True

    def not_given(self, records: Sequence[ConsumerRecord]) -> None:
        """Take back ``begins``: the handler did not receive these records."""
        with self._changed:
            for where in map(_where, records):
                if self._again[where] > 0:
                    self._again[where] -= 1
                else:
                    self._given.discard(where)

    def allow(self, asked: int) -> None:
        """Allow records to be given again. ``asked`` is the ``request_count`` that the caller has recorded."""
        with self._changed:
            self._allowed = asked
            self._changed.notify_all()

    def redeliveries(self) -> Counter[RecordPosition]:
        """How often each record was given again."""
        with self._changed:
            return +self._again

    def halt(self) -> None:
        """After this returns, no more records are given to a handler."""
        with self._changed:
            self.halted.set()
            self._changed.notify_all()

    def handed_over_from(self, position: int) -> int:
        """How many records at or above this offset were given; forgets those below."""
        with self._changed:
            self._given = {where for where in self._given if where[2] >= position}
            return len(self._given)


def _where(record: ConsumerRecord) -> RecordPosition:
    return record.topic, record.partition, record.offset


class _Inbox:
    """The queue of one lane, or of all lanes."""

    def __init__(self, readers: int) -> None:
        self._readers = readers
        self._waiting: deque[ConsumerRecord] = deque()
        self._turn: HandlerTurn | None = None
        self._changed = threading.Condition()
        self._closed = False

    def put(self, turn: HandlerTurn, records: Iterable[ConsumerRecord]) -> None:
        with self._changed:
            self._turn = turn  # halt() cleared what waited in another turn
            self._waiting.extend(records)
            self._changed.notify(self._readers)

    def take(self, most: int) -> tuple[HandlerTurn | None, list[ConsumerRecord]]:
        """Take up to ``most`` records; none after ``close``. Each of several readers leaves a share for the others."""
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
    doing: Sequence[ConsumerRecord] = ()
    """The records that its handler has received and not answered for."""
    since: float = 0.0
    turn: HandlerTurn | None = None
    """The turn of its current records, until their outcome is known."""
    thread: threading.Thread = field(default_factory=threading.Thread)


class HandlerPool:
    """The lanes of a task. A context manager that ends their handlers.

    ``make`` creates a handler. With ``stop_at_refusal`` no lane starts more records after one was refused for good.
    """

    def __init__(self, make: Callable[[], Handler], order: Order, handling: Handling, *, stop_at_refusal: bool) -> None:
        self._make = make
        self._order = order
        self._handling = handling
        self._stop_at_refusal = stop_at_refusal
        number = 1 if order is Order.PARTITION else max(1, handling.lanes)
        shared = _Inbox(number) if order is Order.NONE else None
        self._lanes = [_Lane(shared or _Inbox(1)) for _ in range(number)]
        self._news = threading.Event()
        self.turn = HandlerTurn(self._news)
        """The present one; ``reset`` makes the next."""

        self._faults: list[BaseException] = []

    def __enter__(self) -> Self:
        for number, lane in enumerate(self._lanes):
            lane.thread = threading.Thread(
                target=self._run_lane, args=(lane,), name=f"kgroup-lane-{number}", daemon=True
            )
            lane.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the handlers, within seconds."""
        self.turn.halt()
        for lane in self._lanes:
            lane.inbox.close()
        until = time.monotonic() + _CLOSING_S
        for lane in self._lanes:
            hangs = bool(lane.doing)  # its time is already used up
            if hangs and lane.handler is not None:
                lane.handler.kill()
            if not (hangs and lane.handler is not None and lane.handler.hangs_for_ever):
                lane.thread.join(max(0.0, until - time.monotonic()))

    def put(self, records: Sequence[ConsumerRecord]) -> None:
        """Hand over these records, which are in offset order."""
        if len(self._lanes) == 1 or self._order is Order.NONE:
            self._lanes[0].inbox.put(self.turn, records)
            return
        sorted_out: dict[int, list[ConsumerRecord]] = {}
        for record in records:
            sorted_out.setdefault(self._lane_of(record), []).append(record)
        for number, some in sorted_out.items():
            self._lanes[number].inbox.put(self.turn, some)

    def _lane_of(self, record: ConsumerRecord) -> int:
        return (record.offset if record.key is None else crc32(record.key)) % len(self._lanes)

    def outcomes(self, wait_s: float) -> list[HandlerOutcome]:
        """The outcomes that became known since ``reset``; waits up to ``wait_s`` for the first.

        Raises the KgroupError of a handler that cannot work at all. Raises KgroupError with code ``handler-timeout``
        for a handler that does not return and cannot be ended.
        """
        if wait_s > 0 and not self.turn.outcomes:
            self._news.wait(wait_s)
        self._news.clear()
        if self._faults:
            raise self._faults[0]
        self._refuse_hanging()
        return self.known()

    def known(self) -> list[HandlerOutcome]:
        """The same without waiting and without raising."""
        known = self.turn.outcomes
        return [known.popleft() for _ in range(len(known))]

    @property
    def at_once(self) -> int:
        """How many records all handlers together can take at once."""
        usual = self._handling.batch
        return sum(usual if lane.handler is None else lane.handler.most for lane in self._lanes)

    def _refuse_hanging(self) -> None:
        longest_s, now = self._handling.timeout_s, time.monotonic()
        for lane in self._lanes:
            doing, since = lane.doing, lane.since
            if doing and lane.handler is not None and lane.handler.hangs_for_ever and now - since > longest_s:
                first = doing[0]
                raise KgroupError(
                    f"the handler did not return within {longest_s:g} s",
                    details=(f"It got {len(doing)} records, from {first.tp}:{first.offset} on.",),
                    hint="a longer --handler-timeout may help",
                    code="handler-timeout",
                )

    def halt(self, within_s: float) -> int:
        """Start no more records and wait up to ``within_s`` for those under way; returns how many are unanswered."""
        turn = self.turn
        turn.halt()
        for lane in self._lanes:
            lane.inbox.clear()
        until = time.monotonic() + within_s
        while any(lane.turn is turn for lane in self._lanes) and time.monotonic() < until and not self._faults:
            self._news.wait(0.02)
            self._news.clear()
        return sum(len(lane.doing) for lane in self._lanes if lane.turn is turn)

    def reset(self) -> None:
        """Start a new turn after ``halt``. Outcomes of records still under way are not reported any more."""
        self.turn = HandlerTurn(self._news)

    def _run_lane(self, lane: _Lane) -> None:
        try:
            lane.handler = self._make()
            try:
                self._handle_records(lane, lane.handler)
            finally:
                lane.handler.close()
        except BaseException as error:
            self._faults.append(error)
            self.turn.halt()
            self._news.set()

    def _handle_records(self, lane: _Lane, handler: Handler) -> None:
        while True:
            turn, records = lane.inbox.take(handler.most)
            if turn is None or not records:
                return
            self._work(lane, turn, records, 0)
            lane.turn = None
            self._news.set()

    def _work(self, lane: _Lane, turn: HandlerTurn, records: Sequence[ConsumerRecord], tried: int) -> None:
        """Hand records over. If several are refused together, retry them one by one to find the bad one."""
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
            HandlerOutcome(record.topic, record.partition, record.offset, tried + attempts, error) for record in records
        )
        self._news.set()

    def _try(
        self, lane: _Lane, turn: HandlerTurn, records: Sequence[ConsumerRecord]
    ) -> tuple[HandlerRefusal | None, int | None]:
        """The last refusal and the number of attempts; None attempts if halted before the outcome was known."""
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
            except HandlerRefusal as error:
                refusal = error
                if not error.given:
                    turn.not_given(records)
            finally:
                lane.doing = ()
            if refusal is None or refusal.final or attempts > self._handling.retries:
                return refusal, attempts
            if turn.halted.wait(min(pause_s, _LONGEST_BACKOFF_S)):
                return refusal, None
            pause_s *= 2
