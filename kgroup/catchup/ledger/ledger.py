"""The ledger of catch-up plans: creates a plan, takes one over, reads plans, and prunes finished ones.

Each writer has a transactional id (``transactional_ids``). The order of every takeover is: take the id, commit the new
runner epoch, take the ids of the tasks, and only then read up to the current log end. By then all transactions of
earlier runners and workers are aborted, or committed and visible.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import RecordKey, RecordKind, encode, key_of
from kgroup.catchup.ledger.view import (
    LedgerView,
    Wanted,
    no_plan,
    nothing_wanted,
    refuse_overlap,
    refuse_unknown_redrive,
)
from kgroup.cluster.reader.batches import OPEN_TRANSACTION
from kgroup.cluster.reader.to_end import PATIENCE_S, CommittedReader, Item
from kgroup.cluster.transactions import FENCED, CommitUnknown, Fenced, Transactions
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.groups.catchup.model import (
    CatchupPlan,
    Delivery,
    PlanHead,
    PlanSnapshot,
    PlanState,
    RunnerEpoch,
    StateRecord,
    ThrottleRecord,
)
from kgroup.support.background import in_background
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable, refusal_code
from kgroup.support.hint import Hint

if TYPE_CHECKING:
    from kgroup.catchup.ledger.runner import Runner
    from kgroup.catchup.ledger.topic import LedgerTopic

PLAN_OPEN = refusal_code(
    "plan-open",
    "catchup prune, start",
    "The plan is not finished, or a plan of the group is not released yet: also that of a start that broke off.",
    "Use catchup resume, or catchup cancel.",
)

_AT_ONCE = 8
_CLOSE_PATIENCE_S = 1.0
_OVERTAKEN_WITHIN_S = 1.0
_PAUSE_S = 0.02
_PRUNED_AT_ONCE = 10
"""How many plans are pruned together: each has a connection meanwhile."""
_LEARNED_WITHIN_S = 5.0
"""Within this time each broker that answers has learned of a topic that was just created."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanListing:
    """The plans of a ledger, oldest first."""

    plans: tuple[PlanSnapshot, ...]
    """Those that were wanted, with all their records."""

    unread: tuple[tuple[str, KgroupError], ...] = ()
    """Why a record of a plan cannot be read, by its id."""

    hidden: Refused | None = None
    """An open transaction hid the newest records for too long: no decision may depend on the list."""

    pruned: frozenset[str] = frozenset()
    """Plans that were finished and pruned."""

    heads: tuple[PlanHead, ...] = ()
    """Of all plans."""

    headless: frozenset[str] = frozenset()
    """Plans whose own record cannot be read, so that their group is unknown."""

    @property
    def closed(self) -> frozenset[str]:
        """The plans that are finished."""
        return self.pruned | {head.id for head in self.heads if not head.may_be_open}

    def knows(self, plan_id: str) -> bool:
        """Whether the ledger shows the ranges of the plan, or that it was finished."""
        return plan_id in self.pruned or plan_id in {head.id for head in self.heads} - self.headless


class Ledger:
    """The ledger in one topic. It is a context manager, which closes the connections.

    ``config`` is from ``librdkafka_config``; ``timeout_s`` is the longest time without any answer. ``on_wait`` is
    called after one second of waiting for an open transaction, with the maximum number of seconds that the wait may
    take. All methods raise NotAuthorized, AuthenticationFailed and Unreachable. Methods that decide something also
    raise Refused with code ``open-transaction`` (a transaction hangs), ``ledger-newer`` or ``ledger-damaged`` (a record
    of the plan).
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
        self._reader = CommittedReader(config, topic, timeout_s=timeout_s, on_wait=on_wait)
        self._reading = threading.Lock()
        self._ready: dict[str, Future[Transactions | None]] = {}
        self._topic_lookup: Future[LedgerTopic | None] | None = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for unused in self._ready.values():
            unused.add_done_callback(_close_unused)
        self._ready.clear()
        # This process does not wait for a thread that waits for an unreachable broker.
        if self._reading.acquire(timeout=_CLOSE_PATIENCE_S):
            self._reader.close()
            self._reading.release()

    def expect(self, transactional_id: str) -> None:
        """Connect in the background for this transactional id, because it will be taken soon.

        This fences no other producer and creates nothing. Errors are raised when the id is taken.
        """
        if transactional_id not in self._ready:
            if not self._ready:
                self._topic_lookup = in_background("ledger-topic", self._find_topic)
            self._ready[transactional_id] = in_background("ledger-connect", lambda: self._connected(transactional_id))

    def _find_topic(self) -> LedgerTopic | None:
        # Imported here, as below what else only writers need: describe reads.
        from kgroup.catchup.ledger import topic as ledger_topic

        try:
            return ledger_topic.find_topic(self._config, self.topic, timeout_s=self._timeout_s)
        except KgroupError:
            return None

    def _connected(self, transactional_id: str) -> Transactions | None:
        transactions: Transactions | None = None
        try:
            with self._reading:
                self._reader.connect()  # first, because a producer waits long for a topic that does not exist
            transactions = self._transactions(transactional_id)
            transactions.connect()
        except KgroupError:
            if transactions is not None:
                transactions.close()
            return None
        return transactions

    def check(self) -> LedgerTopic:
        """``ledger_topic.check`` for this topic: whether it may be written. Changes nothing."""
        from kgroup.catchup.ledger import topic as ledger_topic

        return ledger_topic.check(self._config, self.topic, timeout_s=self._timeout_s)

    def prepare(self) -> LedgerTopic:
        """``ledger_topic.prepare`` for this topic: ``check``, and create the topic if it does not exist."""
        from kgroup.catchup.ledger import topic as ledger_topic

        lookup, self._topic_lookup = self._topic_lookup, None
        known = None if lookup is None else lookup.result()
        return known or ledger_topic.prepare(self._config, self.topic, timeout_s=self._timeout_s)

    def create(self, plan: CatchupPlan, delivery: Delivery | None = None, *, now_ms: int) -> PlanSnapshot:
        """Write a plan in state PLANNED, with its delivery if given, and read it back.

        The transactional id of the plan's group is used, so at most one of two concurrent starts succeeds. Raises
        Refused with code ``plan-overlaps``, ``plan-exists``, ``fenced`` (another start was faster) or ``too-large``.
        Raises Unreachable ``not-written`` if no answer came and the plan is not in the ledger, CommitUnknown if it
        cannot be read either.
        """
        state = StateRecord(PlanState.PLANNED, now_ms, plan.who, 0)
        self._require_topic()
        with self.transactions(transactional_ids.of_group(plan.group)) as transactions:
            transactions.fence()
            with self._reading:
                view = LedgerView(wanted=nothing_wanted).add(self._reader.committed())
                end = self._reader.end
            refuse_overlap(view, plan)
            refuse_unknown_redrive(view, plan, delivery)
            transactions.begin()
            for value in (plan, state) if delivery is None else (plan, state, delivery):
                transactions.produce(self.topic, key_of(plan.id, value).encode(), encode(value), 0)
            lost: KgroupError | None = None
            try:
                transactions.commit()
            except (Fenced, CommitUnknown) as error:
                # The other start may have fenced us after our commit and before its answer.
                transactions.close()
                lost = error
            return self._created(plan, end, lost)

    def _require_topic(self) -> None:
        """Raise NotFound early: a producer would wait for the topic until its timeout."""
        with self._reading:
            self._reader.bounds(unknown_s=_LEARNED_WITHIN_S)

    def _created(self, plan: CatchupPlan, start: int, lost: KgroupError | None) -> PlanSnapshot:
        try:
            created = self.view(plan.id, start).ledgered(plan.id)
        except Unreachable as error:
            hint = Hint(f"nothing was moved; if {{}} shows {plan.id}, resume or cancel that plan", ("catchup", "list"))
            raise (lost or error).with_context(hint=hint) from error
        except NotFound:
            created = None
        if created is not None and created.plan == plan:
            return created
        whose = "without a group" if plan.group is None else f"of {plan.group}"
        if isinstance(lost, CommitUnknown):
            self._refuse_overtaken(plan)
            raise Unreachable(
                f"the ledger did not confirm the write of the plan {whose}, and does not have it",
                details=lost.details,
                hint="nothing was changed; run the same command again",
                code="not-written",
            ) from lost
        raise Refused(
            f"another kgroup run wrote a plan {whose} at the same moment, so this plan was not written",
            hint=Hint("nothing was changed; {} shows the other plan", ("catchup", "list")),
            code=FENCED,
        ) from lost

    def _refuse_overtaken(self, plan: CatchupPlan) -> None:
        """Raise as ``refuse_overlap`` once the start that fenced this one has written its plan.

        The coordinator may answer a fenced commit with an unspecific error (seen) just before the other plan shows.
        """
        until = time.monotonic() + min(_OVERTAKEN_WITHIN_S, self._timeout_s)
        while True:
            with self._reading:
                refuse_overlap(LedgerView(wanted=nothing_wanted).add(self._reader.committed()), plan)
            if time.monotonic() >= until:
                return
            time.sleep(_PAUSE_S)

    def list(self, *, patience_s: float = PATIENCE_S, wanted: Wanted | None = None) -> PlanListing:
        """The plans, for display: it waits ``patience_s`` for an open transaction, and then reports it as ``hidden``.

        ``wanted`` chooses the plans that are listed with all their records; None: all. A ledger that does not exist has
        no plans.
        """
        plans, listing = self.fold(lambda snapshot: snapshot, patience_s=patience_s, wanted=wanted, early=False)
        return replace(listing, plans=plans)

    def fold(
        self,
        each: Callable[[PlanSnapshot], T],
        *,
        patience_s: float = PATIENCE_S,
        wanted: Wanted | None = None,
        early: bool = True,
    ) -> tuple[tuple[T, ...], PlanListing]:
        """``each`` of the plans that are wanted, oldest first; the listing has no ``plans``. Otherwise as ``list``.

        With ``early``, a plan that is finished is folded when its last state is read, with its totals instead of its
        chunks: neither memory nor CPU time grow with the chunks of finished plans, except to read their bytes.
        """
        folded: dict[str, T] = {}

        def choose(head: PlanHead) -> bool:
            if wanted is not None and not wanted(head):
                return False
            if not early or head.may_be_open:
                return True
            folded[head.id] = each(view.brief(head.id))
            return False

        view = LedgerView(wanted=choose)
        hidden = self._read_for_display(view, patience_s)
        folds, heads, unread, headless = [], [], [], set[str]()
        for plan_id in view.plan_ids():
            try:
                head = view.head(plan_id)
                if plan_id in folded:
                    folds.append(folded[plan_id])
                elif view.has_progress(plan_id):
                    folds.append(each(view.ledgered(plan_id)))
            except KgroupError as error:
                salvaged = view.salvaged(plan_id, error)
                plan, state = salvaged.plan, salvaged.state.state
                head = PlanHead(plan_id, plan.group, plan.who, plan.created_ms, plan.reason, salvaged.offset, state)
                unread.append((plan_id, error))
                if not plan.ranges:
                    headless.add(plan_id)
                if wanted is None or wanted(head) or not plan.ranges:
                    folds.append(each(salvaged))
            heads.append(head)
        listing = PlanListing((), tuple(unread), hidden, view.pruned_ids(), tuple(heads), frozenset(headless))
        return tuple(folds), listing

    def _read_for_display(self, view: LedgerView, patience_s: float) -> Refused | None:
        """Add the records, none if there is no ledger; returns the error if an open transaction hides the newest."""
        with self._reading:
            try:
                view.add(self._reader.committed(patience_s=patience_s))
            except NotFound:
                pass
            except Refused as error:
                if error.code != OPEN_TRANSACTION:
                    raise
                return error
        return None

    def read(self, plan_id: str, offset: int | None = None, *, lenient: bool = False) -> PlanSnapshot:
        """One plan, up to the log end of the ledger at the time of the call.

        ``offset`` is the offset of the plan's own record (``PlanSnapshot.offset``); None: unknown, so all is read.
        Before a decision, take the ids of all possible writers. ``lenient`` is as in LedgerView. Raises NotFound
        [no-plan].
        """
        return self.view(plan_id, offset, lenient=lenient).ledgered(plan_id)

    def view(self, plan_id: str, offset: int | None = None, *, lenient: bool = False) -> LedgerView:
        """The records from which ``read`` builds a plan."""
        with self._reading:
            try:
                return LedgerView({plan_id}, lenient=lenient).add(self._reader.committed(offset))
            except NotFound as error:
                raise no_plan(plan_id) from error

    def take_over(
        self, plan_id: str, *, who: str, now_ms: int, offset: int | None = None, lenient: bool = False
    ) -> Runner:
        """Become the runner of a plan: from now on the previous runner and its workers cannot write.

        ``Runner.snapshot`` is read last. Raises NotFound with code ``no-plan``, and Refused with code ``superseded`` if
        yet another runner was faster. A plan that this version of kgroup cannot read is not taken from its runner,
        except ``lenient``, to end it.
        """
        from kgroup.catchup.ledger.runner import Runner

        self._require_understood(plan_id, offset, lenient=lenient)
        transactions = self.transactions(transactional_ids.of_plan(plan_id))
        try:
            transactions.fence()
            with self._reading:
                number, tasks = _next_run(plan_id, _runs([plan_id], self._reader.everything(offset))[plan_id])
        except BaseException:
            transactions.close()
            raise
        epoch = RunnerEpoch(number, who, now_ms, now_ms)
        runner = Runner(self, plan_id, offset, epoch, transactions, lenient=lenient)
        try:
            runner.write(runner.epoch)
            self.fence_tasks(plan_id, tasks)
            runner.read()
        except NotFound:  # the plan was pruned at this moment
            with suppress(KgroupError):
                runner.tombstone()
            runner.close()
            raise
        except BaseException:
            runner.close()
            raise
        return runner

    def throttle(self, plan_id: str, throttle: ThrottleRecord) -> None:
        """Write what its runner has to read; fences no runner. Raises as ``create`` for a write without an answer."""
        with self.transactions(transactional_ids.of_throttle(plan_id)) as transactions:
            transactions.fence()
            transactions.begin()
            transactions.produce(self.topic, key_of(plan_id, throttle).encode(), encode(throttle), 0)
            transactions.commit()

    def _require_understood(self, plan_id: str, offset: int | None, *, lenient: bool) -> None:
        """Raise if the plan cannot be read. Uncommitted records count, so it does not wait; tombstones do not."""
        with self._reading:
            try:
                records = [item for item in self._reader.everything(offset) if item[2] is not None]
            except NotFound as error:
                raise no_plan(plan_id) from error
        view = LedgerView({plan_id}, lenient=lenient).add(records)
        if view.ledgered(plan_id).is_verified and not lenient:  # perhaps by a transaction that is aborted
            view.progress(plan_id, (chunk.number for chunk in view.plan(plan_id).chunks))

    def fence_tasks(self, plan_id: str, numbers: Iterable[int]) -> None:
        """Take the ids of these tasks: their workers can no longer commit, and open transactions are aborted."""

        def fence(number: int) -> None:
            with self.transactions(transactional_ids.of_task(plan_id, number)) as transactions:
                transactions.fence()

        wanted = sorted(set(numbers))
        if wanted:
            with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "kgroup-fence") as pool:
                list(pool.map(fence, wanted))

    def prune(self, plan_ids: Sequence[str], *, who: str, now_ms: int) -> dict[str, KgroupError | None]:
        """Delete the records of finished plans, except their last state; returns the error of each plan, None: pruned.

        A plan that is not finished gets Refused with code ``plan-open``, and its runner is not disturbed. Killed at any
        moment, each plan is pruned as a whole, or not at all.
        """
        unique, results = list(dict.fromkeys(plan_ids)), dict[str, KgroupError | None]()
        read = _ReadOnce(self._reader, self._reading, unique)
        for first in range(0, len(unique), _PRUNED_AT_ONCE):
            results |= self._prune(unique[first : first + _PRUNED_AT_ONCE], read, who, now_ms)
        return results

    def _prune(self, plan_ids: Sequence[str], read: _ReadOnce, who: str, now_ms: int) -> dict[str, KgroupError | None]:
        """Take these plans over as ``take_over`` does, but each read of the ledger is for all of them."""
        from kgroup.catchup.ledger.runner import Runner

        errors: dict[str, KgroupError | None] = dict.fromkeys(plan_ids)
        with ExitStack() as stack:

            def take(plan_id: str) -> Transactions:
                transactions = stack.enter_context(self.transactions(transactional_ids.of_plan(plan_id)))
                transactions.fence()
                return transactions

            def begin(plan_id: str) -> Runner:
                number, tasks = _next_run(plan_id, runs[plan_id])
                epoch = RunnerEpoch(number, who, now_ms, now_ms)
                runner = Runner(self, plan_id, offsets[plan_id], epoch, taken[plan_id], lenient=True)
                stack.enter_context(runner)
                runner.write(epoch)
                self.fence_tasks(plan_id, tasks)
                return runner

            def end(plan_id: str) -> None:
                try:
                    _finished(runners[plan_id].read(view))
                except NotFound:  # another run has pruned the plan at this moment; our epoch came after that
                    with suppress(KgroupError):
                        runners[plan_id].tombstone(view)
                    raise
                runners[plan_id].tombstone(view)

            try:
                view = read.committed()
                if offsets := _each(plan_ids, lambda plan_id: _finished(view.ledgered(plan_id)).offset, errors):
                    taken = _each(offsets, take, errors)
                    runs = read.runs()
                    runners = _each(taken, begin, errors)
                    read.committed()
                    _each(runners, end, errors)
            except KgroupError as error:  # of a read, so of all plans
                errors = {plan_id: known or error for plan_id, known in errors.items()}
        return errors

    def transactions(self, transactional_id: str) -> Transactions:
        """A producer for one of the ledger's transactional ids; it has not taken the id yet."""
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


class _ReadOnce:
    """The records of plans that are pruned. Each read adds what was written since the one before: of a ledger with
    millions of chunks a prune needs the keys, and the values only while a plan may be open.
    """

    def __init__(self, reader: CommittedReader, reading: threading.Lock, plan_ids: Sequence[str]) -> None:
        self._reader, self._reading, self._plan_ids = reader, reading, plan_ids
        self._view = LedgerView(
            frozenset(plan_ids), wanted=lambda head: head.may_be_open, lenient=True, keeps_keys=True
        )
        self._runs: dict[str, tuple[Item, ...]] = dict.fromkeys(plan_ids, ())
        self._committed_to: int | None = None
        self._everything_to: int | None = None

    def committed(self) -> LedgerView:
        """The committed records but progress of finished plans, also damaged ones; none if there is no ledger."""
        with self._reading, suppress(NotFound):
            self._view.add(self._reader.committed(self._committed_to))
            self._committed_to = self._reader.end
        return self._view

    def runs(self) -> dict[str, tuple[Item, ...]]:
        """As ``_runs`` of everything that was ever written."""
        with self._reading:
            later = _runs(self._plan_ids, self._reader.everything(self._everything_to))
            self._everything_to = self._reader.end
        for plan_id, items in later.items():
            self._runs[plan_id] += items
        return self._runs


def _runs(plan_ids: Iterable[str], items: Iterable[Item]) -> dict[str, tuple[Item, ...]]:
    """The epochs and deliveries among these records, by plan; uncommitted ones count, so there is no wait for them."""
    keys = {
        RecordKey(plan_id, kind).encode(): plan_id
        for plan_id in plan_ids
        for kind in (RecordKind.EPOCH, RecordKind.DELIVERY)
    }
    runs: dict[str, list[Item]] = {plan_id: [] for plan_id in plan_ids}
    for item in items:
        if (plan_id := keys.get(item[1] or b"")) is not None:
            runs[plan_id].append(item)
    return {plan_id: tuple(some) for plan_id, some in runs.items()}


def _close_unused(future: Future[Transactions | None]) -> None:
    if future.exception() is None and (unused := future.result()) is not None:
        unused.close()


def _each(plan_ids: Iterable[str], step: Callable[[str], T], errors: dict[str, KgroupError | None]) -> dict[str, T]:
    """What the step returns for each plan; a plan of which it raises has its error in ``errors`` instead."""
    done: dict[str, T] = {}
    for plan_id in plan_ids:
        try:
            done[plan_id] = step(plan_id)
        except KgroupError as error:
            errors[plan_id] = error
    return done


def _next_run(plan_id: str, items: Iterable[Item]) -> tuple[int, frozenset[int]]:
    """An epoch number that no runner of this plan has had, and the tasks that may have workers.

    There are no such tasks before the first runner, so the release of a new plan waits for no task's id. Uncommitted
    records cost at most a number, or the fencing of an unused id; so do damaged ones. Each record is decoded alone,
    because the newest one may be from an aborted transaction.
    """
    numbers, damaged, tasks = [0], 0, set[int]()
    for item in items:
        view = LedgerView({plan_id}).add((item,))
        try:
            epoch, delivery = view.epoch(plan_id), view.delivery(plan_id)
        except KgroupError:
            damaged += 1
            continue
        numbers.append(epoch.number if epoch is not None else 0)
        tasks |= {task.number for task in delivery.tasks} if delivery is not None else set()
    return max(numbers) + damaged + 1, frozenset(tasks if any(numbers) else ())


def _finished(snapshot: PlanSnapshot) -> PlanSnapshot:
    if snapshot.state.state.is_open:
        hint = Hint("continue the plan:  {}", ("catchup", "resume", snapshot.plan.id))
        if snapshot.damage is not None:
            hint = Hint("close the plan:  {}", ("catchup", "cancel", snapshot.plan.id, "--abandon"))
        raise Refused(f"{snapshot.plan.id} is {snapshot.state.state}, not finished", hint=hint, code=PLAN_OPEN)
    return snapshot
