"""The runner of a plan in the ledger: the only writer of the plan's state."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from msgspec.structs import replace

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import RecordKey, RecordKind, Value, encode, key_of
from kgroup.catchup.ledger.view import LedgerView
from kgroup.cluster.transactions import TRANSACTION_TIMEOUT, CommitUnknown, Fenced, Transactions
from kgroup.groups.catchup.model import (
    AppliedRate,
    ChunkProgress,
    Delivery,
    PlanSnapshot,
    PlanTotals,
    RunnerEpoch,
    StateRecord,
    ThrottleRecord,
)
from kgroup.groups.catchup.verification import totals_of
from kgroup.support.errors import SUPERSEDED, KgroupError, Refused, Unreachable
from kgroup.support.hint import Hint

_Written = StateRecord | Delivery | RunnerEpoch | ThrottleRecord | AppliedRate | ChunkProgress

_OVERTAKEN_WITHIN_S = 1.0
_PAUSE_S = 0.02


class LedgerAccess(Protocol):
    """The methods of the ledger that a runner needs."""

    topic: str

    def view(self, plan_id: str, offset: int | None = None, *, lenient: bool = False) -> LedgerView:
        """The committed records of a plan."""

    def transactions(self, transactional_id: str) -> Transactions:
        """A producer for a transactional id."""


class Runner:
    """Writes the state of one plan until another runner takes over; made by ``Ledger.take_over``.

    A value counts only after the call has returned. Once superseded, a runner never writes again: every call raises
    Refused with code ``superseded``. It is thread-safe. It is a context manager, which closes the connection.

    A ``lenient`` one ends a plan with damaged records: with its last state it deletes these. If the plan's own record
    is among them, it deletes all: then the group's commits still show its release, as after the loss of a ledger.
    """

    def __init__(
        self,
        ledger: LedgerAccess,
        plan_id: str,
        offset: int | None,
        epoch: RunnerEpoch,
        taken: Transactions,
        *,
        lenient: bool = False,
    ) -> None:
        self.plan_id = plan_id
        self.epoch = epoch
        self._ledger = ledger
        self._offset = offset
        self._lenient = lenient
        self._damaged: tuple[bytes, ...] = ()
        self._snapshot: PlanSnapshot | None = None
        self._transactions: Transactions | None = taken
        self._over: KgroupError | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the plan keeps this runner's epoch."""
        with self._lock:
            if self._transactions is not None:
                self._transactions.close()
            self._transactions = None
            self._over = self._over or Refused(f"the runner of {self.plan_id} has ended", code=SUPERSEDED)

    @property
    def snapshot(self) -> PlanSnapshot:
        """The plan as last read by ``read``, with everything that this runner has written since."""
        assert self._snapshot is not None
        return self._snapshot

    def read(self, view: LedgerView | None = None) -> PlanSnapshot:
        """The plan as it is in the ledger now. Raises Refused with code ``superseded``.

        ``view`` is what the caller has read, after this runner's epoch was written and its tasks' ids were taken.
        """
        with self._lock:
            self._check()
            view = view or self._ledger.view(self.plan_id, self._offset, lenient=self._lenient)
            snapshot = view.ledgered(self.plan_id)
            if snapshot.epoch is None or self._is_anothers(snapshot.epoch):
                raise self._superseded(snapshot.epoch)
            self._snapshot, self._offset = snapshot, snapshot.offset
            if snapshot.damage is not None:
                self._damaged = view.keys(self.plan_id) if not snapshot.plan.ranges else view.damaged_keys(self.plan_id)
            return snapshot

    def write(self, *values: _Written) -> None:
        """Write these values in one transaction, and return after its commit; a state gets this runner's epoch.

        The last state of a plan comes with its totals: its tasks must have ended, and their progress must be read. If
        the plan is verified, the same transaction deletes the progress of its chunks.

        If the commit gets no answer, the ledger is read to find out. Raises Refused with code ``superseded`` or
        ``transaction-timeout``, Unreachable with code ``not-written`` (the runner may try again), or CommitUnknown if
        the ledger cannot be read either: then the next runner finds out.
        """
        with self._lock:
            final = tuple(
                replace(value, epoch=self.epoch.number) if isinstance(value, StateRecord) else value for value in values
            )
            if any(isinstance(value, StateRecord) and not value.state.is_open for value in final):
                self._snapshot = self._end(final)
                return
            self._commit(self._records(final), final)
            if self._snapshot is not None:
                self._snapshot = _after(self._snapshot, final)

    def _end(self, final: tuple[_Written, ...]) -> PlanSnapshot:
        """Write the last state; returns the plan after it.

        The state comes before the tombstones of the chunks. A reader may stop within the transaction, at the end that
        it has read before: it must not see an open plan that lacks progress.
        """
        ended = _after(self.snapshot, final)
        totals = _totals(ended)
        written: tuple[Value, ...] = () if self._damaged and not ended.plan.ranges else (*totals, *final)
        chunks: tuple[bytes, ...] = ()
        if totals and (brief := ended.with_totals(totals[0])).is_verified:
            chunks = tuple(RecordKey(self.plan_id, RecordKind.CHUNK, number).encode() for number in ended.progress)
            ended = brief
        damaged, deleted = (((key, None) for key in keys) for keys in (self._damaged, chunks))
        self._commit([*damaged, *self._records(written), *deleted], written)
        return ended

    def _records(self, values: tuple[Value, ...]) -> list[tuple[bytes, bytes | None]]:
        return [(key_of(self.plan_id, value).encode(), encode(value)) for value in values]

    def heartbeat(self, now_ms: int, applied: AppliedRate | None = None) -> None:
        """Write a heartbeat with the rate it applies; this is also how an idle runner notices that it is superseded."""
        with self._lock:
            epoch = replace(self.epoch, seen_ms=now_ms)
            self.write(epoch, *(() if applied is None else (applied,)))
            self.epoch = epoch

    def tombstone(self, view: LedgerView | None = None) -> None:
        """Delete every record of the plan except its last state; this runner ends too. ``view`` is as in ``read``.

        The group's commits may keep the plan's tag for long; the state shows that the plan was finished.
        """
        with self._lock:
            view = view or self._ledger.view(self.plan_id, self._offset)
            kept = RecordKey(self.plan_id, RecordKind.STATE).encode()
            last = view.value(RecordKey(self.plan_id, RecordKind.STATE))
            records: list[tuple[bytes, bytes | None]] = [(key, None) for key in view.keys(self.plan_id) if key != kept]
            if isinstance(last, StateRecord):
                records.append((kept, encode(replace(last, targets=(), expected=(), note=None))))
            self._commit(records, ())
            self._over = Refused(f"{self.plan_id} was pruned", code=SUPERSEDED)

    def _commit(self, records: list[tuple[bytes, bytes | None]], values: tuple[Value, ...]) -> None:
        self._check()
        transactions = self._taken()
        try:
            transactions.begin()
            for key, value in records:
                transactions.produce(self._ledger.topic, key, value, 0)
            transactions.commit()
        except Fenced as error:
            raise self._superseded(None) from error
        except CommitUnknown as unknown:
            self._transactions = None
            self._look_up(values, unknown)
        except Refused as error:
            self._transactions = None
            transactions.close()
            if error.code == TRANSACTION_TIMEOUT:
                self._over = error
            raise
        except BaseException:
            self._transactions = None
            transactions.close()
            raise

    def _taken(self) -> Transactions:
        """The producer. If the last one was closed, take a new one, unless another runner has taken over meanwhile."""
        if self._transactions is None:
            self.read()  # also before the id is taken: taking it would fence a successor
            taken = self._ledger.transactions(transactional_ids.of_plan(self.plan_id))
            try:
                taken.fence()
                self.read()
            except BaseException:
                taken.close()
                raise
            self._transactions = taken
        return self._transactions

    def _look_up(self, values: tuple[Value, ...], unknown: CommitUnknown) -> None:
        """Return if the transaction was committed; raise otherwise. Its client is closed, so one complete read decides.

        The transactional id is not taken for this, because that would fence a successor. The coordinator may answer a
        fenced commit with an unspecific error (seen), shortly before the successor's epoch is visible. So the values
        are searched for a little longer.
        """
        written = self._is_written(values, unknown)
        until = time.monotonic() + _OVERTAKEN_WITHIN_S  # after the first read, which may wait for a transaction
        while not written and time.monotonic() < until:
            time.sleep(_PAUSE_S)
            written = self._is_written(values, unknown)
        if not written:
            raise Unreachable(
                f"the ledger did not confirm a write of {self.plan_id}, and does not have it",
                details=unknown.details,
                hint=Hint("run the same command again, or continue later:  {}", ("catchup", "resume", self.plan_id)),
                code="not-written",
            ) from unknown

    def _is_written(self, values: tuple[Value, ...], unknown: CommitUnknown) -> bool:
        try:
            view = self._ledger.view(self.plan_id, self._offset)
        except KgroupError:
            raise unknown from None
        epoch = view.epoch(self.plan_id)
        if epoch is not None and self._is_anothers(epoch) and epoch.number >= self.epoch.number:
            raise self._superseded(epoch)
        written = [view.value(key_of(self.plan_id, value)) == value for value in values]
        return all(written or [epoch is None])

    def _is_anothers(self, epoch: RunnerEpoch) -> bool:
        mine = self.epoch
        return (epoch.number, epoch.who, epoch.at_ms) != (mine.number, mine.who, mine.at_ms)

    def _check(self) -> None:
        if self._over is not None:
            raise self._over

    def _superseded(self, by: RunnerEpoch | None) -> KgroupError:
        """End this runner; ``by`` is the epoch of the runner that has taken over, None: unknown."""
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None
        self._over = Refused(
            f"another kgroup run has taken over {self.plan_id}",
            details=()
            if by is None
            else (f"It is {by.who}, runner epoch {by.number}; this run had epoch {self.epoch.number}.",),
            hint=Hint(
                "{} shows the other run and the state; this run may have moved offsets",
                ("catchup", "show", self.plan_id),
            ),
            code=SUPERSEDED,
        )
        return self._over


def _after(snapshot: PlanSnapshot, values: tuple[_Written, ...]) -> PlanSnapshot:
    """The plan after these values were written."""
    progress = {value.chunk: value for value in values if isinstance(value, ChunkProgress)}
    if progress:
        snapshot = replace(snapshot, progress={**snapshot.progress, **progress})
    for value in values:
        match value:
            case StateRecord():
                snapshot = replace(snapshot, state=value)
            case Delivery():
                snapshot = replace(snapshot, delivery=value)
            case RunnerEpoch():
                snapshot = replace(snapshot, epoch=value)
            case ThrottleRecord():
                snapshot = replace(snapshot, throttle=value)
            case AppliedRate():
                snapshot = replace(snapshot, applied=value)
    return snapshot


def _totals(snapshot: PlanSnapshot) -> tuple[PlanTotals, ...]:
    """The totals of a plan that ends; none if they are larger than the plan, as the ledger might refuse the record."""
    totals = totals_of(snapshot)
    return (totals,) if len(encode(totals)) <= len(encode(snapshot.plan)) else ()
