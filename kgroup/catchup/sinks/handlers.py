"""``--to-command`` and ``--to-python``: at least once. Possible duplicates are bounded and recorded in advance.

A handler's work and the ledger cannot share a transaction. So the ledger records below which offset all is handled, and
how many records beyond it may have been handed over: each second, or whenever as many were handed over. That is what
the handlers do in about 1.5 seconds, at least a batch for each lane and at most ``window`` records (``Pace``). Records
given again in this run, since a handler died, hung or refused them, are counted before they are given.

All tasks together write at most 200 notes a second (``NoteSchedule``): with more than 200 tasks the seconds are longer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from kgroup.catchup.sinks import command
from kgroup.catchup.sinks.topic import AGAIN
from kgroup.catchup.worker import provenance_headers
from kgroup.catchup.worker.handler_pool import Handler, HandlerOutcome, HandlerPool
from kgroup.catchup.worker.rate_limit import NoteSchedule
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.catchup.worker.task_spec import Stopped
from kgroup.cluster.transactions import Row
from kgroup.groups.catchup.model import Chunk
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError

_NOTE_S = 1.0
_WAIT_S = 0.1
_GRACE_S = 4.0
_ATTEMPTS = 3
_FIRST = 500
"""How many records may be handed over while the handlers' speed is unknown."""
_AHEAD = 1.5


class Pace:
    """How many records may be handed over beyond the position of the last commit: ``limit``, from 1 to ``window``.

    It follows the speed of the handlers: a killed run reports as many possible duplicates. ``every_s`` is the time
    between commits.
    """

    def __init__(self, window: int, now_s: float, every_s: float = _NOTE_S) -> None:
        self.limit = min(window, _FIRST)
        self.every_s = every_s
        self._window = window
        self._since_s = now_s
        self._handled = 0

    def handled(self, records: int) -> None:
        """Count records for which handlers have answered."""
        self._handled += records

    def measure(self, now_s: float, at_once: int) -> None:
        """Follow the speed if it is time for a commit; ``at_once`` is how many records the handlers take together."""
        seconds = now_s - self._since_s
        if seconds >= self.every_s:
            ahead = round(_AHEAD * self.every_s * self._handled / seconds)
            self.limit = max(1, min(self._window, max(at_once, ahead)))
            self._since_s, self._handled = now_s, 0

    def grow(self) -> None:
        """Allow twice as many: the limit was reached before the time for a commit."""
        self.limit = min(self._window, 2 * self.limit)


def deliver(run: TaskRun, make: Callable[[], Handler]) -> None:
    """Deliver a task's records to handlers that ``make`` creates."""
    spec = run.spec
    with HandlerPool(make, spec.order, spec.handling, stop_at_refusal=spec.dead_letters is None) as lanes:
        handing: _Handing | None = None
        now_s = time.monotonic()
        notes = NoteSchedule.of_task(spec.number, spec.note_gap_s, now_s)
        pace = Pace(max(1, spec.handling.window), now_s, max(_NOTE_S, notes.gap_s))
        try:
            for chunk in run.chunks():
                handing = _Handing(run, lanes, chunk, pace, notes)
                handing.work()
        except KgroupError as error:
            if handing is not None and error.code in (command.WRONG_ANSWER, command.UNREAD):
                handing.end()
            raise


class _Handing:
    """Hands over one chunk. ``_pending`` are the records handed over, from the first one without an answer on."""

    def __init__(self, run: TaskRun, lanes: HandlerPool, chunk: Chunk, pace: Pace, notes: NoteSchedule) -> None:
        self._run = run
        self._lanes = lanes
        self._chunk = chunk
        self._pace = pace
        self._notes = notes
        self._covered = 0
        """How many records beyond the position of the last commit it permits to be handed over."""
        self._pending: deque[ConsumerRecord] = deque()
        self._known: dict[int, HandlerOutcome] = {}
        """Outcomes by offset of records after the first one that still waits for its answer."""
        self._is_refused = False
        self._read_to = run.counts[chunk.number].position
        self._since_note = 0
        """Records that were handled since the last commit."""
        self._noted = False
        self._noted_at = time.monotonic()
        self._dead: list[Row] = []
        self._allowed = 0
        """How many records handlers may be given again; the ledger already counts them."""

    def work(self) -> None:
        """Hand over from the committed position to the end, unless asked to stop or a record is refused for good."""
        run, chunk = self._run, self._chunk
        for batch in run.batches(chunk, self._room):
            if len(batch):
                self._hand_over(batch.records())
            self._read_to = batch.position
            self._settle(0)
            while not self._is_refused and not run.asked_to_stop() and len(self._pending) >= self._pace.limit:
                self._settle(_WAIT_S)
            if self._is_refused:
                break
        while self._pending and not self._is_refused and not run.asked_to_stop():
            self._settle(_WAIT_S)
        self.end()

    def _room(self) -> int:
        return self._pace.limit - len(self._pending)

    def _hand_over(self, records: list[ConsumerRecord]) -> None:
        wanted = len(self._pending) + len(records)
        if not self._noted:
            self._covered = self._at_most(wanted)
            self._await_turn()
            self._run.note(self._chunk, self._covered)
            self._noted = True
        elif self._since_note + wanted > self._covered:
            self._pace.grow()
            self._commit(self._at_most(wanted))
        self._pending.extend(records)
        self._lanes.put(records)

    def _at_most(self, wanted: int = 0) -> int:
        """How many records beyond the position may be handed over before the next commit, at least ``wanted``."""
        rest = self._chunk.end - self._run.counts[self._chunk.number].position
        return min(max(self._pace.limit, len(self._pending), wanted), rest)

    def _settle(self, wait_s: float) -> None:
        """Process the handlers' answers, and commit if it is time."""
        self._take_in(self._lanes.outcomes(wait_s))
        self._allow(self._lanes.turn.request_count)
        now = time.monotonic()
        self._pace.measure(now, self._lanes.at_once)
        if self._noted and now - self._noted_at >= self._pace.every_s:
            self._commit(self._at_most())

    def _allow(self, asked: int) -> None:
        """Let handlers have records again, after the ledger records that these may be received twice."""
        if asked > self._allowed:
            self._count_again(asked)
            self._commit(self._at_most())
            self._lanes.turn.allow(asked)

    def _count_again(self, records: int) -> None:
        number = self._chunk.number
        self._run.counts[number] = self._run.counts[number].with_repeated(records - self._allowed)
        self._allowed = records

    def _take_in(self, outcomes: list[HandlerOutcome]) -> None:
        own = (self._chunk.topic, self._chunk.partition)
        self._known.update((one.offset, one) for one in outcomes if one.tp == own)
        visible = delivered = dead = size = 0
        position = self._run.counts[self._chunk.number].position
        while self._pending:
            record = self._pending[0]
            outcome = self._known.get(record.offset)
            if outcome is None:
                break
            if outcome.error is not None:
                if self._run.spec.dead_letters is None:
                    position = record.offset
                    break
                self._dead.append(self._dead_letter(record, outcome))
                dead += 1
            else:
                delivered += 1
            self._pending.popleft()
            del self._known[record.offset]
            visible += 1
            size += len(record.key or b"") + len(record.value or b"")
            position = record.offset + 1
        if not self._pending:
            position = max(position, self._read_to)
        count = self._run.counts[self._chunk.number]
        self._run.counts[self._chunk.number] = count.with_records(position, visible, delivered, size, dead)
        self._since_note += visible
        self._pace.handled(visible)
        # After a refusal the lanes start no more records, so records below it in another lane may never be answered.
        self._is_refused = self._run.spec.dead_letters is None and bool(self._refused())

    def _refused(self) -> list[HandlerOutcome]:
        return [outcome for outcome in self._known.values() if outcome.error is not None]

    def _dead_letter(self, record: ConsumerRecord, outcome: HandlerOutcome) -> Row:
        spec = self._run.spec
        assert spec.dead_letters is not None
        assert outcome.error is not None
        maybe = record.offset < spec.maybe_until(record.tp)
        return provenance_headers.dead_letter(
            spec.dead_letters, spec.plan_id, record, outcome.attempts, outcome.error, maybe
        )

    def end(self) -> None:
        """Commit where it ended, and how many records beyond that were given to a handler, whatever their outcome."""
        run, chunk = self._run, self._chunk
        if self._pending:
            self._lanes.halt(_GRACE_S)
            self._take_in(self._lanes.known())
        self._count_again(self._lanes.turn.redeliveries().total())
        beyond = self._lanes.turn.handed_over_from(run.counts[chunk.number].position)
        self._lanes.reset()
        if self._is_refused:
            first = min(self._refused(), key=lambda outcome: outcome.offset)
            assert first.error is not None
            run.stopped.append(Stopped(chunk.topic, chunk.partition, first.offset, first.attempts, first.error))
        if self._noted or beyond:
            self._commit(beyond)
        else:
            self._await_turn()
            self._run.commit()

    def _await_turn(self) -> None:
        """Wait until the ledger may get a note; a task that is asked to stop ends at once."""
        while (left_s := self._notes.wait_s(time.monotonic())) > 0 and not self._run.asked_to_stop():
            time.sleep(min(left_s, _WAIT_S))
        self._notes.noted(time.monotonic())

    def _commit(self, may_repeat: int) -> None:
        """Commit the progress with the dead letters below it; retries if the commit did not happen."""
        self._await_turn()
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    self._run.ledger.open()
                if self._dead:
                    self._run.ledger.begin()
                    self._run.ledger.send(self._dead)
                self._run.commit({self._chunk.number: may_repeat})
                break
            except KgroupError as error:
                if error.code not in AGAIN or attempt + 1 == _ATTEMPTS:
                    raise
        self._dead.clear()
        self._covered = may_repeat
        self._since_note = 0
        self._noted_at = time.monotonic()
