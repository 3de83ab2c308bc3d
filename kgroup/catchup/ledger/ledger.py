"""The ledger of catch-up plans: making a plan, taking one over, reading, and forgetting what is finished.

Each writer has a transactional id (``transactional_ids``), and the order at every takeover is: take the id, commit the
new runner epoch, take the ids of the tasks, and only then read, as far as the end that the ledger has by now. Whatever
an earlier runner or worker had under way is aborted by then, or committed and seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kgroup.catchup.ledger import topic as ledger_topic
from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import RecordKey, RecordKind, encode, key_of
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.ledger.topic import LEDGER_TOPIC, LedgerTopic
from kgroup.catchup.ledger.view import LedgerView, no_plan, refuse_overlap
from kgroup.catchup.model import CatchupPlan, Delivery, PlanSnapshot, PlanState, RunnerEpoch, StateRecord
from kgroup.cluster.reader.committed import PATIENCE_S, SettledReader
from kgroup.cluster.transactions import CommitUnknown, Fenced, Transactions
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable

_AT_ONCE = 8
_CLOSE_PATIENCE_S = 1.0
_OVERTAKEN_WITHIN_S = 1.0
_PAUSE_S = 0.02

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanListing:
    """The plans of a ledger, oldest first.

    ``unread`` are plans that this kgroup can't understand, by id; ``pruned`` those that were finished. ``hidden`` is
    set where an open transaction hid the newest records for too long: what is shown was true a moment ago, and nothing
    may be decided by it.
    """

    plans: tuple[PlanSnapshot, ...]
    unread: tuple[tuple[str, KgroupError], ...] = ()
    hidden: Refused | None = None
    pruned: frozenset[str] = frozenset()

    def knows(self, plan_id: str) -> bool:
        """Whether the ledger says what became of a plan, though this kgroup may not understand it."""
        return plan_id in self.pruned or plan_id in {
            *(found.plan.id for found in self.plans),
            *(unread for unread, _ in self.unread),
        }


class Ledger:
    """The ledger in one topic. A context manager, that gives the connections back.

    ``config`` is from ``librdkafka_config``; ``timeout_s`` is how long no answer at all may come. ``on_wait`` is called
    where an open transaction has been waited for a second, with how many seconds that may take at most. All methods
    raise NotAuthorized, AuthenticationFailed and Unreachable; those that decide something raise Refused with code
    ``open-transaction`` where one hangs, ``ledger-newer`` and KgroupError ``ledger-damaged`` for a record of the plan.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str = LEDGER_TOPIC,
        *,
        timeout_s: float,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.topic = topic
        self._config = config
        self._timeout_s = timeout_s
        self._reader = SettledReader(config, topic, timeout_s=timeout_s, on_wait=on_wait)
        self._reading = threading.Lock()
        self._ready: dict[str, Future[Transactions | None]] = {}
        self._looked: Future[LedgerTopic | None] | None = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        for unused in self._ready.values():
            unused.add_done_callback(_close_unused)
        self._ready.clear()
        # A thread that waits for a broker that is gone ends with this process, which is not kept for it.
        if self._reading.acquire(timeout=_CLOSE_PATIENCE_S):
            self._reader.close()
            self._reading.release()

    def expect(self, transactional_id: str) -> None:
        """Say that this id will be taken soon: what that needs of connections is made meanwhile, on another thread.

        Nobody is fenced by it, and nothing is made. What is wrong is found out when the id is taken.
        """
        if transactional_id not in self._ready:
            if not self._ready:
                self._looked = _in_background(self._look)
            self._ready[transactional_id] = _in_background(lambda: self._connected(transactional_id))

    def _look(self) -> LedgerTopic | None:
        try:
            return ledger_topic.found(self._config, self.topic, timeout_s=self._timeout_s)
        except KgroupError:
            return None

    def _connected(self, transactional_id: str) -> Transactions | None:
        found: Transactions | None = None
        try:
            with self._reading:
                self._reader.connect()  # first of all: a producer waits long for a topic that does not exist
            found = self._transactions(transactional_id)
            found.connect()
        except KgroupError:
            if found is not None:
                found.close()
            return None
        return found

    def check(self) -> LedgerTopic:
        """``ledger_topic.check`` of this one: may it be written? Changes nothing."""
        return ledger_topic.check(self._config, self.topic, timeout_s=self._timeout_s)

    def prepare(self) -> LedgerTopic:
        """``ledger_topic.prepare``: ``check``, and make the topic where it does not exist."""
        looked, self._looked = self._looked, None
        known = None if looked is None else looked.result()
        return known or ledger_topic.prepare(self._config, self.topic, timeout_s=self._timeout_s)

    def create(self, plan: CatchupPlan, delivery: Delivery | None = None, *, now_ms: int) -> PlanSnapshot:
        """Write a plan down, in state PLANNED, with where its records go where that was said, and read it back.

        It happens under the id of the plan's group, so of two at once one wins at most. Raises Refused with code
        ``plan-overlaps``, ``plan-exists``, ``fenced`` (another start was faster), ``too-large``; CommitUnknown where no
        answer came and it can't be looked up either.
        """
        state = StateRecord(PlanState.PLANNED, now_ms, plan.who, 0)
        self._require_topic()
        with self.transactions(transactional_ids.of_group(plan.group)) as transactions:
            transactions.fence()
            with self._reading:
                view = LedgerView().add(self._reader.committed())
                end = self._reader.end
            refuse_overlap(view, plan)
            transactions.begin()
            for value in (plan, state) if delivery is None else (plan, state, delivery):
                transactions.produce(self.topic, key_of(plan.id, value).encode(), encode(value), 0)
            lost: KgroupError | None = None
            try:
                transactions.commit()
            except (Fenced, CommitUnknown) as error:
                # Whoever was faster may have been so after our commit had happened and before its answer came.
                transactions.close()
                lost = error
            return self._created(plan, end, lost)

    def _require_topic(self) -> None:
        """Raise NotFound at once: a producer would wait for the topic until its timeout."""
        with self._reading:
            self._reader.bounds()

    def _created(self, plan: CatchupPlan, start: int, lost: KgroupError | None) -> PlanSnapshot:
        try:
            found = self.view(plan.id, start).ledgered(plan.id)
        except Unreachable:
            if lost is None:
                raise
            raise lost from None
        except NotFound:
            found = None
        if found is not None and found.plan == plan:
            return found
        whose = "without a group" if plan.group is None else f"of {plan.group}"
        if isinstance(lost, CommitUnknown):
            self._refuse_overtaken(plan)
            raise Unreachable(
                f"no answer came to writing the plan {whose} down, and the ledger does not have it",
                details=lost.details,
                hint="nothing was changed: start again",
                code="not-written",
            ) from lost
        raise Refused(
            f"another plan {whose} was made at the same moment, so this one was not",
            hint="kgroup catchup list shows it; nothing was changed",
            code="fenced",
        ) from lost

    def _refuse_overtaken(self, plan: CatchupPlan) -> None:
        """Raise what ``refuse_overlap`` does once the start that took the id from this one has written its plan.

        The coordinator may answer whoever is overtaken in its commit with an error that says nothing (seen), a moment
        before the other's plan is there.
        """
        until = time.monotonic() + min(_OVERTAKEN_WITHIN_S, self._timeout_s)
        while True:
            with self._reading:
                refuse_overlap(LedgerView().add(self._reader.committed()), plan)
            if time.monotonic() >= until:
                return
            time.sleep(_PAUSE_S)

    def list(self, *, patience_s: float = PATIENCE_S) -> PlanListing:
        """All plans, for people: an open transaction is waited for ``patience_s`` only, and then named.

        A ledger that does not exist has no plans.
        """
        view, hidden = LedgerView(), None
        with self._reading:
            try:
                for item in self._reader.committed(patience_s=patience_s):
                    view.add((item,))
            except NotFound:
                return PlanListing(())
            except Refused as error:
                if error.code != "open-transaction":
                    raise
                hidden = error
        plans, unread = [], []
        for plan_id in view.plan_ids():
            try:
                plans.append(view.ledgered(plan_id))
            except KgroupError as error:
                unread.append((plan_id, error))
        return PlanListing(tuple(plans), tuple(unread), hidden, view.pruned_ids())

    def read(self, plan_id: str, offset: int | None = None) -> PlanSnapshot:
        """One plan as it is now, up to the end that the ledger has when this is called.

        ``offset`` is where the plan's own record stands (``PlanSnapshot.offset``), None: not known, and all is read. It
        decides nothing by itself: take the ids of those who may be writing first. Raises NotFound [no-plan].
        """
        return self.view(plan_id, offset).ledgered(plan_id)

    def view(self, plan_id: str, offset: int | None = None) -> LedgerView:
        """The records behind ``read``."""
        with self._reading:
            try:
                return LedgerView(plan_id).add(self._reader.committed(offset))
            except NotFound as error:
                raise no_plan(plan_id) from error

    def take_over(self, plan_id: str, *, who: str, now_ms: int, offset: int | None = None) -> Runner:
        """Become the runner of a plan; whoever was it can write nothing from now on, and neither can its workers.

        What the new runner has read (``Runner.found``) was read last of all. Raises NotFound with code ``no-plan``, and
        Refused with code ``superseded`` where another runner was faster still. A plan that this kgroup does not
        understand is left to its runner.
        """
        self._require_understood(plan_id, offset)
        transactions = self.transactions(transactional_ids.of_plan(plan_id))
        try:
            transactions.fence()
            number, tasks = self._written(plan_id, offset)
        except BaseException:
            transactions.close()
            raise
        runner = Runner(self, plan_id, offset, RunnerEpoch(number, who, now_ms, now_ms), transactions)
        try:
            runner.write(runner.epoch)
            self.fence_tasks(plan_id, tasks)
            runner.read()
        except NotFound:  # it was pruned just now
            with suppress(KgroupError):
                runner.forget()
            runner.close()
            raise
        except BaseException:
            runner.close()
            raise
        return runner

    def _require_understood(self, plan_id: str, offset: int | None) -> None:
        """Of all that was written, committed or not: nothing is waited for, and a deletion need not have happened."""
        with self._reading:
            try:
                found = [item for item in self._reader.everything(offset) if item[2] is not None]
            except NotFound as error:
                raise no_plan(plan_id) from error
        LedgerView(plan_id).add(found).ledgered(plan_id)

    def _written(self, plan_id: str, offset: int | None) -> tuple[int, frozenset[int]]:
        """A number that no runner of this plan has had, and the tasks that may have workers: none before the first
        runner, so that the release of a new plan waits for no task's id.

        Uncommitted records count: they cost a number, or the fencing of an id that nobody has, and need not be waited
        for. Each is read by itself, since the newest of them may be one that was aborted.
        """
        keys = {RecordKey(plan_id, kind).encode() for kind in (RecordKind.EPOCH, RecordKind.DELIVERY)}
        numbers, tasks = [0], set[int]()
        with self._reading:
            for item in self._reader.everything(offset):
                if item[1] not in keys:
                    continue
                view = LedgerView(plan_id).add((item,))
                epoch, delivery = view.epoch(plan_id), view.delivery(plan_id)
                numbers.append(epoch.number if epoch is not None else 0)
                tasks |= {task.number for task in delivery.tasks} if delivery is not None else set()
        return max(numbers) + 1, frozenset(tasks if any(numbers) else ())

    def fence_tasks(self, plan_id: str, numbers: Iterable[int]) -> None:
        """Take the ids of these tasks: their workers commit nothing any more, and what they had open is aborted."""

        def fence(number: int) -> None:
            with self.transactions(transactional_ids.of_task(plan_id, number)) as transactions:
                transactions.fence()

        wanted = sorted(set(numbers))
        if wanted:
            with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "kgroup-fence") as pool:
                list(pool.map(fence, wanted))

    def prune(self, plan_ids: Sequence[str], *, who: str, now_ms: int) -> dict[str, KgroupError | None]:
        """Forget finished plans; what went wrong by plan, None where nothing did.

        Refused with code ``plan-open`` is one that is not finished: its runner is left alone.
        """
        return {plan_id: self._forgotten(plan_id, who, now_ms) for plan_id in plan_ids}

    def _forgotten(self, plan_id: str, who: str, now_ms: int) -> KgroupError | None:
        try:
            offset = _finished(self.read(plan_id)).offset
            with self.take_over(plan_id, who=who, now_ms=now_ms, offset=offset) as runner:
                _finished(runner.found)
                runner.forget()
        except KgroupError as error:
            return error
        return None

    def transactions(self, transactional_id: str) -> Transactions:
        """A producer for one of the ledger's ids, which is not taken yet."""
        expected = self._ready.pop(transactional_id, None)
        return (None if expected is None else expected.result()) or self._transactions(transactional_id)

    def _transactions(self, transactional_id: str) -> Transactions:
        return Transactions(
            self._config,
            transactional_id,
            topic=self.topic,
            timeout_s=self._timeout_s,
            prefix=transactional_ids.PREFIX,
        )


def _in_background(work: Callable[[], T]) -> Future[T]:
    """On a thread that keeps no process from ending, as those of a pool would."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="kgroup-connect", daemon=True).start()
    return future


def _close_unused(future: Future[Transactions | None]) -> None:
    if future.exception() is None and (unused := future.result()) is not None:
        unused.close()


def _finished(found: PlanSnapshot) -> PlanSnapshot:
    if found.state.state.is_open:
        raise Refused(
            f"{found.plan.id} is not finished: it is {found.state.state}",
            hint=f"go on with it:  kgroup catchup resume {found.plan.id}",
            code="plan-open",
        )
    return found
