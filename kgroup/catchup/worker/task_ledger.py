"""A task's side of the ledger: records and progress are committed in one transaction.

For Spark's workers: importable without kafka-python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import encode, key_of
from kgroup.catchup.ledger.view import LedgerView
from kgroup.cluster.reader.batches import OPEN_TRANSACTION
from kgroup.cluster.reader.to_end import CommittedReader, Item
from kgroup.cluster.transactions import CommitUnknown, Fenced, Row, Transactions
from kgroup.groups.catchup.model import AppliedRate, ChunkProgress, RunnerEpoch, Task
from kgroup.support.errors import SUPERSEDED, NotFound, Refused, Unreachable

BATCH_BYTES = 1_000_000
"""The largest batch: by default a topic accepts 1,048,588 bytes.

In transactions librdkafka sends the batches of a partition one by one, each after the response to the one before, and
its thread polls without a pause meanwhile (2.16). So larger batches cost less: with 500,000 a tenth more CPU time.
"""

_LARGE_AMOUNTS = {
    "linger.ms": 20,
    "batch.size": BATCH_BYTES,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 200_000,
    # Limits memory.
    "queue.buffering.max.kbytes": 65_536,
}


@dataclass(frozen=True, slots=True)
class Work:
    """One task for a worker. It can be pickled."""

    ledger: str
    plan_id: str
    offset: int
    """Of the plan's own record in the ledger."""

    epoch: int
    """Of the runner that sent it."""

    task: Task

    def __str__(self) -> str:
        return f"task {self.task.number} of {self.plan_id}"


class TaskLedger:
    """The transactions of one task. Entering it takes the task's transactional id, leaving it aborts an open one.

    What ``producer`` produces between ``begin`` and ``commit`` is delivered together with the progress. A transaction
    may last ``transactions.LONGEST_S``. ``tuning`` are librdkafka settings in addition to those for large amounts.
    ``timeout_s`` is how long no broker may answer at all; ``on_wait`` is as in the ledger.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        work: Work,
        *,
        timeout_s: float,
        tuning: Mapping[str, Any] | None = None,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.work = work
        self.progress: dict[int, ChunkProgress] = {}
        """The ledger's progress of the task's chunks, by number; a chunk that has not begun is absent."""
        self.epoch: RunnerEpoch | None = None
        self.applied: AppliedRate | None = None
        self.read_to = work.offset
        """``epoch`` and ``applied`` are the ledger's up to this offset, at the last ``open``."""
        self._config = config
        self._timeout_s = timeout_s
        self._tuning = {**_LARGE_AMOUNTS, **(tuning or {})}
        self._on_wait = on_wait
        self._transactions: Transactions | None = None
        self._open = False

    def __enter__(self) -> TaskLedger:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def producer(self) -> Any:
        """confluent's Producer. Each ``open`` creates a new one, so keep neither it nor its ``produce``."""
        return self._taken().producer

    def open(self) -> None:
        """Take the task's transactional id, which ends an earlier attempt, then read the progress.

        Also call it after ``close`` or a failed ``commit``. An attempt of a superseded runner ends before it takes the
        id, because taking it would fence a live attempt. Raises Refused with code ``superseded`` if another runner has
        taken over, or the plan has ended or is gone. Raises what ``Transactions.fence`` and
        ``CommittedReader.committed`` raise, and KgroupError for a record that cannot be read.
        """
        self.close()
        work = self.work
        taken = Transactions(
            self._config,
            transactional_ids.of_task(work.plan_id, work.task.number),
            topic=work.ledger,
            timeout_s=self._timeout_s,
            tuning=self._tuning,
            prefix=transactional_ids.PREFIX,
        )
        try:
            with CommittedReader(self._config, work.ledger, timeout_s=self._timeout_s, on_wait=self._on_wait) as reader:
                later = self._seen(reader).epoch(work.plan_id)
                if later is not None and later.number > work.epoch:
                    raise _superseded(f"{work}: {_whose(later)}")
                taken.fence()
                self._read(reader)
        except NotFound as error:
            taken.close()
            raise _superseded(f"{work}: the ledger {work.ledger} no longer exists") from error
        except BaseException:
            taken.close()
            raise
        self._transactions = taken

    def tune(self, tuning: Mapping[str, Any]) -> None:
        """Set librdkafka settings that apply from the next ``open`` on."""
        self._tuning |= tuning

    def _seen(self, reader: CommittedReader) -> LedgerView:
        """The committed records that are visible without waiting for open transactions."""
        items: list[Item] = []
        try:
            for item in reader.committed(self.work.offset, patience_s=0.0):
                items.append(item)
        except Refused as error:
            if error.code != OPEN_TRANSACTION:
                raise
        return LedgerView({self.work.plan_id}).add(items)

    def _read(self, reader: CommittedReader) -> None:
        """Read what is committed. No earlier attempt of this task can commit any more at this point.

        The plan may end meanwhile. Then its progress is deleted, and the broker may compact it away before it is read,
        but not before the end of the plan is in the log: so that is looked for once more afterwards.
        """
        work = self.work
        view = LedgerView({work.plan_id}).add(reader.committed(work.offset))
        view.add(reader.committed(reader.end))
        epoch = view.epoch(work.plan_id)
        if epoch is None or epoch.number != work.epoch:
            raise _superseded(f"{work}: {_whose(epoch)}")
        if not view.state(work.plan_id).state.is_open:
            raise _superseded(f"{work}: the plan has ended")
        self.progress = view.progress(work.plan_id, work.task.chunks)
        self.epoch, self.applied, self.read_to = epoch, view.applied(work.plan_id), reader.end

    def begin(self) -> None:
        self._taken().begin()
        self._open = True

    def send(self, rows: Iterable[Row]) -> int:
        """Add records to the open transaction; returns how many. Raises the same errors as ``commit``."""
        try:
            return self._taken().produce_all(rows)
        except Fenced as error:
            self.close()
            raise _superseded(f"{self.work}: another attempt of the task has taken over") from error
        except BaseException:
            self.close()
            raise

    def commit(self, first: ChunkProgress, *more: ChunkProgress) -> None:
        """Commit what was produced together with the progress of these chunks; without ``begin``, the progress alone.

        When it returns, both are delivered. When it raises, neither is, except for CommitUnknown: the next attempt
        finds out. Raises Refused with code ``superseded`` if another attempt or runner has taken over: stop then.
        Raises ``transaction-timeout``, ``too-large``, ``not-accepted``, NotAuthorized, NotFound of a record's topic, or
        Unreachable with code ``not-written``. After those, ``open`` restarts from ``progress``.
        """
        taken, progress = self._taken(), (first, *more)
        if not self._open:
            self.begin()
        self._open = False
        try:
            # The ledger comes last: from here on, this open transaction hides what other tasks commit.
            for item in progress:
                taken.produce(self.work.ledger, key_of(self.work.plan_id, item).encode(), encode(item), 0)
            taken.commit()
        except Fenced as error:
            self.close()
            raise _superseded(f"{self.work}: another attempt of the task has taken over") from error
        except CommitUnknown as unknown:
            self._look_up(progress, unknown)
        except BaseException:
            self.close()
            raise
        self.progress |= {item.chunk: item for item in progress}

    def close(self) -> None:
        """Abort an open transaction within a few seconds and close the connections. The id stays taken."""
        taken, self._transactions, self._open = self._transactions, None, False
        if taken is not None:
            taken.close()

    def _taken(self) -> Transactions:
        assert self._transactions is not None, "open() comes first"
        return self._transactions

    def _look_up(self, wanted: tuple[ChunkProgress, ...], unknown: CommitUnknown) -> None:
        """Return if it was committed. After the id is taken again, that commit can no longer be in flight."""
        try:
            self.open()
        except Unreachable:
            raise unknown from None
        if any(self.progress.get(item.chunk) != item for item in wanted):
            raise Unreachable(
                f"{self.work}: the broker did not confirm a commit, and it did not happen",
                details=unknown.details,
                code="not-written",
            ) from unknown


def _whose(epoch: RunnerEpoch | None) -> str:
    if epoch is None:
        return "the plan has no runner"
    return f"runner epoch {epoch.number} ({epoch.who}) has taken over"


def _superseded(why: str) -> Refused:
    return Refused(why, hint="this task delivers no more records", code=SUPERSEDED)
