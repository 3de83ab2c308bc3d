"""``--to-command``, ``--to-python``: at least once. What may come again is bounded, and written down before it is so.

A handler's work and the ledger are no one transaction. So it is written, each second or whenever ``window`` records
were handed over since, that all below an offset is handled and that so many behind it may have been. What is handed
over again in the same run, since a handler died, hung or refused it, is counted too, before it is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from kgroup.catchup.model import Chunk
from kgroup.catchup.sinks import command
from kgroup.catchup.sinks.topic import AGAIN
from kgroup.catchup.worker import provenance_headers
from kgroup.catchup.worker.handler_pool import WRONG_ANSWER, Handler, HandlerOutcome, HandlerPool
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.catchup.worker.task_spec import Stopped
from kgroup.cluster.transactions import Row
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError

_NOTE_S = 1.0
_TELL_S = 0.25
_WAIT_S = 0.1
_GRACE_S = 4.0
_ATTEMPTS = 3


def deliver(run: TaskRun, make: Callable[[], Handler]) -> None:
    """Hand a task's records to handlers that ``make`` makes."""
    spec, begun = run.spec, dict(run.counts)
    with HandlerPool(make, spec.order, spec.handling, stop_at_refusal=spec.dead_letters is None) as lanes:
        handing: _Handing | None = None
        failed: KgroupError | None = None
        try:
            for chunk in run.chunks():
                handing = _Handing(run, lanes, chunk)
                handing.work()
        except KgroupError as error:
            if handing is None or error.code not in (WRONG_ANSWER, command.UNREAD):
                raise
            failed = error
            handing.end()
        failed = lanes.end() or failed
        if failed is not None and failed.code == WRONG_ANSWER:
            # Each process was in step with its records when it began, and that is the last moment of which it is sure.
            run.withdraw(begun, {} if handing is None else handing.beyond)
        if failed is not None:
            raise failed


class _Handing:
    """One chunk. ``_pending`` are the records that were handed over, less the first ones that are handled."""

    def __init__(self, run: TaskRun, lanes: HandlerPool, chunk: Chunk) -> None:
        self._run = run
        self._lanes = lanes
        self._chunk = chunk
        self._window = max(1, run.spec.handling.window)
        self._pending: deque[ConsumerRecord] = deque()
        self._known: dict[int, HandlerOutcome] = {}
        """By offset: what became of records behind the first one that waits for its answer."""
        self._is_refused = False
        self._read_to = run.counts[chunk.number].position
        self._since_note = 0
        """Records that were handled since it was written down how far they are."""
        self._noted = False
        self._noted_at = self._told_at = time.monotonic()
        self._dead: list[Row] = []
        self._allowed = 0
        """Records that handlers may be given again, as it is written down."""
        self.beyond: dict[int, int] = {}
        """By chunk, how many records behind the position were given to a handler, once it has ended."""

    def work(self) -> None:
        """From what is committed to the end; less where it is asked to stop, or a record is refused for good."""
        run, chunk = self._run, self._chunk
        for batch in run.batches(chunk, self._room):
            if len(batch):
                self._hand_over(batch.records())
            self._read_to = batch.position
            self._settle(0)
            while not self._is_refused and not run.asked_to_stop() and len(self._pending) >= self._window:
                self._settle(_WAIT_S)
            if self._is_refused:
                break
        while self._pending and not self._is_refused and not run.asked_to_stop():
            self._settle(_WAIT_S)
        self.end()

    def _room(self) -> int:
        return self._window - len(self._pending)

    def _hand_over(self, records: list[ConsumerRecord]) -> None:
        if not self._noted:
            self._run.note(self._chunk, self._at_most())
            self._noted = True
        elif self._since_note + len(self._pending) + len(records) > self._window:
            self._commit(self._at_most())
        self._pending.extend(records)
        self._lanes.put(records)

    def _at_most(self) -> int:
        """How many records behind the position may have been handed over when it is written down the next time."""
        return min(self._window, self._chunk.end - self._run.counts[self._chunk.number].position)

    def _settle(self, wait_s: float) -> None:
        """Take in what the handlers have answered, and write it down when it is time."""
        self._take_in(self._lanes.outcomes(wait_s))
        self._allow(self._lanes.asked)
        now = time.monotonic()
        if now - self._told_at >= _TELL_S:
            self._told_at = now
            self._run.tell(self._chunk)
        if self._noted and now - self._noted_at >= _NOTE_S:
            self._commit(self._at_most())

    def _allow(self, asked: int) -> None:
        """Let handlers have records again, once it is written down that these may come twice."""
        if asked > self._allowed:
            self._count_again(asked)
            self._commit(self._at_most())
            self._lanes.allow(asked)

    def _count_again(self, records: int) -> None:
        number = self._chunk.number
        self._run.counts[number] = self._run.counts[number].again(records - self._allowed)
        self._allowed = records

    def _take_in(self, outcomes: list[HandlerOutcome]) -> None:
        own = (self._chunk.topic, self._chunk.partition)
        self._known.update((one.offset, one) for one in outcomes if (one.topic, one.partition) == own)
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
        # Lanes begin nothing more then, so that what lies below it, in another one, may never be answered for.
        self._is_refused = self._run.spec.dead_letters is None and bool(self._refused())

    def _refused(self) -> list[HandlerOutcome]:
        return [outcome for outcome in self._known.values() if outcome.error is not None]

    def _dead_letter(self, record: ConsumerRecord, outcome: HandlerOutcome) -> Row:
        spec = self._run.spec
        assert spec.dead_letters is not None
        assert outcome.error is not None
        maybe = record.offset < spec.maybe_until((record.topic, record.partition))
        return provenance_headers.dead_letter(
            spec.dead_letters, spec.plan_id, record, outcome.attempts, outcome.error, maybe
        )

    def end(self) -> None:
        """Write down where it ended, and which records behind it were given to a handler, whatever it did with them."""
        run, chunk = self._run, self._chunk
        if self._pending:
            self._lanes.halt(_GRACE_S)
            self._take_in(self._lanes.known())
        self._count_again(self._lanes.given_again().total())
        beyond = self._lanes.given_from(run.counts[chunk.number].position)
        self.beyond = {chunk.number: beyond}
        self._lanes.go_on()
        if self._is_refused:
            first = min(self._refused(), key=lambda outcome: outcome.offset)
            assert first.error is not None
            run.stopped.append(Stopped(chunk.topic, chunk.partition, first.offset, first.attempts, first.error))
        if self._noted or beyond:
            self._commit(beyond)
        else:
            self._run.commit()
        self._run.tell(self._chunk)

    def _commit(self, may_repeat: int) -> None:
        """Write it down, with the dead letters of what lies below; again where no answer came and it is not there."""
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
        self._since_note = 0
        self._noted_at = time.monotonic()
