"""The runner of a plan, as the ledger sees it: who alone may say how far the plan has come."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Protocol

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import RecordKey, RecordKind, Value, encode, key_of
from kgroup.catchup.ledger.view import LedgerView
from kgroup.catchup.model import ChunkProgress, Delivery, PlanSnapshot, RunnerEpoch, StateRecord
from kgroup.cluster.transactions import CommitUnknown, Fenced, Transactions
from kgroup.support.errors import KgroupError, Refused, Unreachable

_OVERTAKEN_WITHIN_S = 1.0
_PAUSE_S = 0.02


class LedgerAccess(Protocol):
    """What a runner needs of the ledger."""

    topic: str

    def view(self, plan_id: str, offset: int | None = None) -> LedgerView:
        """The committed records of a plan."""

    def transactions(self, transactional_id: str) -> Transactions:
        """A producer for an id."""


class Runner:
    """Writes what becomes of one plan, until another runner takes over; made by ``Ledger.take_over``.

    Nothing that is given to it counts before the call has returned. Once superseded it writes never again: every call
    raises Refused with code ``superseded``. Any thread may call it. A context manager, that gives the connection back.
    """

    def __init__(
        self, books: LedgerAccess, plan_id: str, offset: int | None, epoch: RunnerEpoch, taken: Transactions
    ) -> None:
        self.plan_id = plan_id
        self.epoch = epoch
        self._books = books
        self._offset = offset
        self._found: PlanSnapshot | None = None
        self._transactions: Transactions | None = taken
        self._over: KgroupError | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back; the plan keeps this runner's epoch."""
        with self._lock:
            if self._transactions is not None:
                self._transactions.close()
            self._transactions = None
            self._over = self._over or Refused(f"the runner of {self.plan_id} has ended", code="superseded")

    @property
    def found(self) -> PlanSnapshot:
        """What ``read`` found last, and what this runner has written since."""
        assert self._found is not None
        return self._found

    def read(self) -> PlanSnapshot:
        """The plan as the ledger has it now. Raises Refused with code ``superseded``."""
        with self._lock:
            self._check()
            found = self._books.view(self.plan_id, self._offset).ledgered(self.plan_id)
            if found.epoch is None or self._is_anothers(found.epoch):
                raise self._superseded(found.epoch)
            self._found, self._offset = found, found.offset
            return found

    def write(self, *values: StateRecord | Delivery | RunnerEpoch | ChunkProgress) -> None:
        """Write these in one transaction, and return when it has committed; a state gets this runner's epoch.

        A commit without an answer is looked up. Raises Refused with code ``superseded`` or ``transaction-timeout``,
        Unreachable with code ``not-written`` (the runner may try again), or CommitUnknown where the ledger can't be
        read either: whoever takes over finds out.
        """
        with self._lock:
            final = tuple(
                replace(value, epoch=self.epoch.number) if isinstance(value, StateRecord) else value for value in values
            )
            self._commit([(key_of(self.plan_id, value).encode(), encode(value)) for value in final], final)
            self._remember(final)

    def seen(self, now_ms: int) -> None:
        """Leave a sign of life; it is also how an idle runner learns that it has been superseded."""
        with self._lock:
            epoch = replace(self.epoch, seen_ms=now_ms)
            self.write(epoch)
            self.epoch = epoch

    def forget(self) -> None:
        """Delete every record of the plan but its last state, which ends this runner too.

        The group's commits may bear the plan's mark for long: the state says that it was finished, and is not lost.
        """
        with self._lock:
            view = self._books.view(self.plan_id, self._offset)
            kept = RecordKey(self.plan_id, RecordKind.STATE).encode()
            last = view.value(RecordKey(self.plan_id, RecordKind.STATE))
            records: list[tuple[bytes, bytes | None]] = [(key, None) for key in view.keys(self.plan_id) if key != kept]
            if isinstance(last, StateRecord):
                records.append((kept, encode(replace(last, targets=(), expected=(), note=None))))
            self._commit(records, ())
            self._over = Refused(f"{self.plan_id} was pruned", code="superseded")

    def _commit(self, records: list[tuple[bytes, bytes | None]], values: tuple[Value, ...]) -> None:
        self._check()
        transactions = self._taken()
        try:
            transactions.begin()
            for key, value in records:
                transactions.produce(self._books.topic, key, value, 0)
            transactions.commit()
        except Fenced as error:
            raise self._superseded(None) from error
        except CommitUnknown as unknown:
            self._transactions = None
            self._look_up(values, unknown)
        except Refused as error:
            self._transactions = None
            transactions.close()
            if error.code == "transaction-timeout":
                self._over = error
            raise
        except BaseException:
            self._transactions = None
            transactions.close()
            raise

    def _taken(self) -> Transactions:
        """The producer; a new one where the last was given up, and then only if nobody has taken over meanwhile."""
        if self._transactions is None:
            self.read()  # before the id is taken too: that would shut a successor out
            taken = self._books.transactions(transactional_ids.of_plan(self.plan_id))
            try:
                taken.fence()
                self.read()
            except BaseException:
                taken.close()
                raise
            self._transactions = taken
        return self._transactions

    def _look_up(self, values: tuple[Value, ...], unknown: CommitUnknown) -> None:
        """Return where the transaction was committed; its client is closed, so it is decided when the read ends.

        No id is taken for it: a successor must not be shut out by one who has only lost an answer. The coordinator may
        answer who is overtaken in its commit with an error that says nothing (seen), a moment before the successor's
        epoch is there: so what was not written is looked for a little longer.
        """
        written = self._is_written(values, unknown)
        until = time.monotonic() + _OVERTAKEN_WITHIN_S  # not sooner: the first look may wait for a transaction
        while not written and time.monotonic() < until:
            time.sleep(_PAUSE_S)
            written = self._is_written(values, unknown)
        if not written:
            raise Unreachable(
                f"no answer came to writing to the ledger of {self.plan_id}, and it was not written",
                details=unknown.details,
                hint=f"try again; or go on later:  kgroup catchup resume {self.plan_id}",
                code="not-written",
            ) from unknown

    def _is_written(self, values: tuple[Value, ...], unknown: CommitUnknown) -> bool:
        try:
            view = self._books.view(self.plan_id, self._offset)
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

    def _remember(self, values: tuple[StateRecord | Delivery | RunnerEpoch | ChunkProgress, ...]) -> None:
        for value in values if self._found is not None else ():
            assert self._found is not None
            match value:
                case StateRecord():
                    self._found = replace(self._found, state=value)
                case Delivery():
                    self._found = replace(self._found, delivery=value)
                case RunnerEpoch():
                    self._found = replace(self._found, epoch=value)
                case ChunkProgress():
                    self._found = replace(self._found, progress={**self._found.progress, value.chunk: value})

    def _check(self) -> None:
        if self._over is not None:
            raise self._over

    def _superseded(self, by: RunnerEpoch | None) -> KgroupError:
        """This runner is over; ``by`` is who is known to have taken over."""
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None
        self._over = Refused(
            f"another runner has taken over {self.plan_id}",
            details=()
            if by is None
            else (f"It is {by.who}, runner epoch {by.number}; this one was {self.epoch.number}.",),
            hint=f"kgroup catchup show {self.plan_id} says who, and how it stands: this one may have moved offsets",
            code="superseded",
        )
        return self._over
