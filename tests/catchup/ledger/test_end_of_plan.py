"""The end of a verified plan: its last state, its totals and the tombstones of its chunks are one transaction."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import RecordKey, RecordKind, Value, encode, key_of
from kgroup.catchup.ledger.runner import LedgerAccess, Runner
from kgroup.catchup.ledger.view import LedgerView
from kgroup.catchup.worker.task_ledger import TaskLedger, Work
from kgroup.cluster.reader.to_end import CommittedReader, Item
from kgroup.cluster.transactions import Transactions
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.model import CatchupPlan, PlanState, RunnerEpoch, Task
from kgroup.groups.catchup.verification import totals_of, verify
from kgroup.model.records import LostOffsets
from kgroup.support.errors import Refused
from tests.helpers.catchup.ledgers import (
    code_of,
    created,
    delivered,
    delivery,
    new_plan,
    produce,
    progress,
    state,
    taken,
    task,
)
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.waiting import read_line

Name = Callable[[str], str]
Config = dict[str, Any]
Rows = list[tuple[bytes, bytes | None]]

DONE, RELEASED, CANCELLED = PlanState.DONE, PlanState.RELEASED, PlanState.CANCELLED
WHOLE = {0: progress(0, 95), 1: progress(1, 120)}
"""All of a plan of two chunks is delivered."""


# ---- a log in memory: every end that a reader may have read, and every moment at which the log cleaner may run


class Log:
    """A ledger with one plan, whose end is written by a real runner; ``begun`` records are before that transaction."""

    def __init__(self) -> None:
        self.plan = new_plan("orders", chunks=2)
        epoch = RunnerEpoch(1, ME, NOW_MS, NOW_MS)
        values: list[Value] = [self.plan, state(PlanState.PLANNED), epoch, state(RELEASED), delivery((0, 1))]
        values += WHOLE.values()
        self.rows: Rows = [(key_of(self.plan.id, value).encode(), encode(value)) for value in values]
        self.begun = len(self.rows)
        self.topic = "ledger"
        runner = Runner(cast("LedgerAccess", self), self.plan.id, 0, epoch, cast("Transactions", self))
        runner.read()
        runner.write(state(DONE))
        self.work = Work(self.topic, self.plan.id, 0, 1, Task(0, (0, 1)))

    def view(self, plan_id: str, offset: int | None = None, *, lenient: bool = False) -> LedgerView:
        return LedgerView({plan_id}, lenient=lenient).add(self.items(self.begun))

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def produce(self, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
        self.rows.append((key, value))

    def items(self, end: int, start: int = 0) -> list[Item]:
        items: list[Item] = [(offset, *row) for offset, row in enumerate(self.rows)]
        return items[start:end]

    def cleaned(self, *, tombstones: bool) -> list[Item]:
        """What the log cleaner leaves: the newest record of each key, and its tombstone or not."""
        newest = {key: offset for offset, (key, _) in enumerate(self.rows)}
        return [
            item for item in self.items(len(self.rows)) if newest[item[1] or b""] == item[0] and (item[2] or tombstones)
        ]


class Reader:
    """Reads to ``end``, from ``cleaned_from`` on after the log cleaner; the next read is of the whole log."""

    def __init__(self, log: Log, end: int, cleaned_from: int, *, tombstones: bool, ends: bool) -> None:
        whole = len(log.rows) if ends else log.begun
        before = log.items(min(end, cleaned_from))
        after = [item for item in log.cleaned(tombstones=tombstones) if cleaned_from <= item[0] < end]
        self._reads = iter([(end, [*before, *after]), (whole, log.items(whole, end))])
        self.end = 0

    def committed(self, start: int | None = None) -> Iterator[Item]:
        self.end, items = next(self._reads)
        return iter(items)


def all_reads(log: Log) -> Iterator[Reader]:
    """Without the transaction, and with it: whatever part of it is before the reader's end, and cleaned meanwhile."""
    yield Reader(log, log.begun, log.begun, tombstones=True, ends=False)
    for end in range(log.begun, len(log.rows) + 1):
        for cleaned_from in range(end + 1):
            for tombstones in (True, False):
                yield Reader(log, end, cleaned_from, tombstones=tombstones, ends=True)


def test_a_late_attempt_stops_or_knows_all_that_is_delivered() -> None:
    """It would deliver again what it does not find: Spark may start a task again that it believes lost."""
    log, outcomes = Log(), set[str | None]()
    for reader in all_reads(log):
        late = TaskLedger({}, log.work, timeout_s=1)
        stops = code_of(partial(late._read, cast("CommittedReader", reader)))
        assert stops == "superseded" or late.progress == WHOLE
        outcomes.add(stops)

    assert outcomes == {"superseded", None}


def test_every_part_of_the_transaction_shows_the_open_plan_whole_or_the_finished_one_with_totals() -> None:
    log = Log()
    whole = log.view(log.plan.id).ledgered(log.plan.id)
    for end in range(log.begun, len(log.rows) + 1):
        snapshot = LedgerView({log.plan.id}).add(log.items(end)).ledgered(log.plan.id)

        assert verify(snapshot) == verify(whole)
        assert snapshot.state.state is DONE or snapshot == whole
        assert (snapshot.totals is not None) == (snapshot.state.state is DONE)
        assert undelivered(snapshot.plan, snapshot.progress) == ()


# ---- on a broker


def test_a_verified_plan_leaves_the_ledger_without_its_chunks_and_looks_the_same(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"), chunks=2)
    created(ledger, plan)
    dead = {0: replace(progress(0, 95), dead=3, filtered=2, may_repeat=4), 1: progress(1, 120)}
    with taken(ledger, plan) as runner:
        runner.write(state(RELEASED), delivery((0,), (1,)), *dead.values())
        before = runner.snapshot
        runner.write(state(DONE))
        after = runner.snapshot

        assert after == runner.read() == ledger.read(plan.id)
    assert (after.plan, after.progress, after.totals) == (replace(plan, chunks=()), {}, totals_of(before))
    assert verify(after).totals() == verify(before).totals()
    assert (after.delivery, after.offset) == (before.delivery, before.offset)
    without = (RecordKind.CHUNK, RecordKind.THROTTLE, RecordKind.APPLIED)
    assert {RecordKey(plan.id, kind).encode() for kind in RecordKind if kind not in without} == set(
        ledger.view(plan.id).keys(plan.id)
    )
    with taken(ledger, plan, "you@there") as second:
        assert second.snapshot == replace(after, epoch=second.epoch)
    assert ledger.prune([plan.id], who=ME, now_ms=NOW_MS) == {plan.id: None}
    assert ledger.view(plan.id).keys(plan.id) == (RecordKey(plan.id, RecordKind.STATE).encode(),)


@pytest.mark.parametrize(
    ("last", "lost", "to"), [(CANCELLED, False, 120), (DONE, True, 120), (DONE, False, 119)], ids=str
)
def test_any_other_plan_keeps_its_chunks(ledger: Ledger, name: Name, last: PlanState, lost: bool, to: int) -> None:
    plan = new_plan(name("group"), chunks=2)
    created(ledger, plan)
    known = {0: replace(progress(0, 95), lost=(LostOffsets(70, 80, "gone"),) if lost else ()), 1: progress(1, to)}
    with taken(ledger, plan) as runner:
        runner.write(state(RELEASED), *known.values())
        runner.write(state(last))

    snapshot = ledger.read(plan.id)
    assert (snapshot.plan, snapshot.progress) == (plan, known)


STEPS = 7
"""Of the end of a plan of two chunks: begin, totals, state, two tombstones, commit, and after the commit."""


@pytest.mark.parametrize("step", range(STEPS))
def test_killed_at_any_step_the_plan_is_open_with_all_its_chunks_or_finished_with_totals(
    bootstrap: str, ledger: Ledger, name: Name, step: int
) -> None:
    plan = new_plan(name("group"), chunks=2)
    created(ledger, plan)
    with taken(ledger, plan) as runner:
        runner.write(state(RELEASED), *WHOLE.values())
        totals = totals_of(runner.snapshot)
    what = {"bootstrap": bootstrap, "ledger": ledger.topic, "plan": plan.id, "step": step}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.catchup.ending_plan", json.dumps(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert read_line(process.stdout) == f"step {step}\n"
        process.kill()

    with taken(ledger, plan, "you@there") as second:
        is_done = step == STEPS - 1
        assert second.snapshot.state.state is (DONE if is_done else RELEASED)
        assert (second.snapshot.plan, second.snapshot.progress, second.snapshot.totals) == (
            (replace(plan, chunks=()), {}, totals) if is_done else (plan, WHOLE, None)
        )
        second.write(state(DONE))
        assert second.read().totals == totals
    assert ledger.read(plan.id).is_verified


@pytest.fixture
def finished(
    config: Config, ledger: Ledger, name: Name, world: KafkaWorld
) -> Iterator[tuple[CatchupPlan, Runner, str]]:
    """A plan of one task that was delivered and verified, its runner, and the topic of its records."""
    plan, copy = new_plan(name("group"), chunks=2), world.topic(name("copy"))
    created(ledger, plan)
    with taken(ledger, plan) as runner:
        runner.write(state(RELEASED), delivery((0, 1)))
        with task(config, ledger, runner) as one:
            one.begin()
            produce(one, copy, "all")
            one.commit(*WHOLE.values())
        runner.read()
        runner.write(state(DONE))
        yield plan, runner, copy


def test_an_attempt_that_comes_after_the_end_stops(
    config: Config, ledger: Ledger, finished: tuple[CatchupPlan, Runner, str]
) -> None:
    _, runner, copy = finished

    with pytest.raises(Refused, match="the plan has ended") as caught:
        task(config, ledger, runner).open()

    assert caught.value.code == "superseded"
    assert delivered(config, copy) == ["all"]


def test_a_late_record_of_a_chunk_changes_nothing(
    config: Config, ledger: Ledger, finished: tuple[CatchupPlan, Runner, str]
) -> None:
    plan, runner, _ = finished
    before = ledger.read(plan.id)
    with Transactions(config, name_of_another(plan), topic=ledger.topic, timeout_s=15) as other:
        other.fence()
        other.begin()
        other.produce(ledger.topic, key_of(plan.id, progress(0, 71)).encode(), encode(progress(0, 71)), 0)
        other.commit()

    assert ledger.read(plan.id) == before
    assert runner.read() == before
    assert ledger.prune([plan.id], who=ME, now_ms=NOW_MS) == {plan.id: None}
    assert ledger.view(plan.id).keys(plan.id) == (RecordKey(plan.id, RecordKind.STATE).encode(),)


def name_of_another(plan: CatchupPlan) -> str:
    return f"not-kgroup-{plan.id}"
