"""The ledger on a real broker: plans made at once, read behind open transactions, compacted and forgotten."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from msgspec.structs import replace

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import RecordKey, RecordKind
from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.cluster.transactions import Fenced
from kgroup.groups.catchup.dead_letters import REDRIVE, Redrive
from kgroup.groups.catchup.model import CatchupPlan, Delivery, Order, PlanState
from kgroup.groups.catchup.verification import verify
from kgroup.support.errors import NotFound, Refused
from tests.helpers.catchup.ledgers import code_of, created, delivery, new_plan, progress, state, taken, written
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.waiting import read_line, wait_for

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0


# ---- making a plan


def test_a_plan_is_made_and_read_back(ledger: Ledger, name: Name) -> None:
    one, other = new_plan(name("group"), 0, 1, chunks=3), new_plan(name("other"))

    made = created(ledger, one)
    later = created(ledger, other)

    assert (made.plan, made.offset, made.epoch, made.delivery, made.progress) == (one, 0, None, None, {})
    assert made.state == state(PlanState.PLANNED)
    assert ledger.read(one.id) == ledger.read(one.id, made.offset) == made
    assert ledger.read(other.id, later.offset) == later
    assert [each.plan for each in ledger.list().plans] == [one, other]


def test_where_records_go_is_written_with_the_plan_and_costs_its_first_runner_nothing(
    ledger: Ledger, name: Name, config: Config
) -> None:
    """A task's id is taken at a takeover only once there was a runner, that may have workers."""
    plan, where = new_plan(name("group")), delivery((0,))
    made = ledger.create(plan, where, now_ms=NOW_MS)
    with ledger.transactions(transactional_ids.of_task(plan.id, 0)) as worker:
        worker.fence()
        worker.begin()
        with taken(ledger, plan) as first:
            worker.produce(ledger.topic, b"unknown", b"1", 0)
            worker.commit()
            worker.begin()
            with taken(ledger, plan):
                worker.produce(ledger.topic, b"unknown", b"2", 0)
                with pytest.raises(Fenced):
                    worker.commit()

    assert (made.delivery, first.snapshot.delivery) == (where, where)
    assert ledger.read(plan.id).delivery == where


@pytest.mark.soak
def test_there_is_no_such_plan(ledger: Ledger, config: Config, name: Name) -> None:
    plan = new_plan(name("group"))
    assert ledger.list().plans == ()
    for call in (lambda: ledger.read(plan.id), lambda: taken(ledger, plan)):
        with pytest.raises(NotFound) as caught:
            call()
        assert (caught.value.code, plan.id in caught.value.message) == ("no-plan", True)
    with Ledger(config, name("absent"), timeout_s=TIMEOUT_S) as absent:
        assert absent.list().plans == ()
        assert code_of(lambda: absent.read(plan.id)) == "no-plan"
        assert code_of(lambda: taken(absent, plan)) == "no-plan"
        assert code_of(lambda: created(absent, plan)) == "unknown-topic"


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ({"start": 100, "end": 200}, "plan-overlaps"),
        ({"start": 119, "end": 120}, "plan-overlaps"),
        ({"start": 120, "end": 200}, None),
        ({"start": 0, "end": 70}, None),
    ],
)
def test_open_plans_of_a_group_do_not_overlap(ledger: Ledger, name: Name, second: Any, code: str | None) -> None:
    group = name("group")
    first = new_plan(group, 0, 1)
    created(ledger, first)

    assert code_of(lambda: created(ledger, new_plan(group, 1, **second))) == code
    assert created(ledger, new_plan(group, 2, **second))
    assert created(ledger, new_plan(name("another"), 1, **second))
    assert created(ledger, new_plan(None, 1, **second))


def test_ranges_without_a_group_do_not_overlap_either(ledger: Ledger) -> None:
    first = new_plan(None)
    created(ledger, first)

    with pytest.raises(Refused) as caught:
        created(ledger, new_plan(None, start=119, end=121))
    assert caught.value.code == "plan-overlaps"
    assert first.id in caught.value.message
    assert caught.value.details == ("orders:0 [119, 120)",)


@pytest.mark.parametrize("finished", [PlanState.DONE, PlanState.CANCELLED])
def test_a_finished_plan_is_in_nobody_s_way(ledger: Ledger, name: Name, finished: PlanState) -> None:
    plan = new_plan(name("group"))
    created(ledger, plan)
    assert code_of(lambda: created(ledger, replace(plan, group=name("other")))) == "plan-exists"
    with taken(ledger, plan) as runner:
        for step in (PlanState.RELEASING, PlanState.RELEASED, PlanState.CANCELLING):
            runner.write(state(step))
            assert code_of(lambda: created(ledger, new_plan(plan.group))) == "plan-overlaps"
        runner.write(state(finished))

    assert created(ledger, new_plan(plan.group))


@pytest.mark.parametrize("run", [0, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 20))])
def test_of_several_starts_at_once_exactly_one_wins(
    config: Config, ledger: Ledger, name: Name, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.catchup.ledger.ledger._OVERTAKEN_WITHIN_S", 20)
    group, count = name("group"), 4
    ready = threading.Barrier(count)

    def start(_: int) -> str | None:
        with Ledger(config, ledger.topic, timeout_s=TIMEOUT_S) as own:
            plan = new_plan(group)
            ready.wait(30)
            return code_of(lambda: created(own, plan))

    for _ in range(3):
        with ThreadPoolExecutor(count) as pool:
            codes = Counter(pool.map(start, range(count)))
        open_plans = [each for each in ledger.list().plans if each.state.state.is_open]

        assert codes[None] == len(open_plans) == 1
        assert set(codes) <= {None, "plan-overlaps", "fenced"}
        with taken(ledger, open_plans[0].plan) as runner:
            runner.write(state(PlanState.CANCELLED))


def test_a_start_that_was_overtaken_after_it_had_looked(
    ledger: Ledger, name: Name, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the look at the ledger and the commit."""
    plan, other = new_plan(name("group")), new_plan("")
    other = replace(other, group=plan.group)
    look = CommittedReader.committed
    late = iter([None])

    def then_the_other(self: CommittedReader, *arguments: Any, **more: Any) -> Any:
        items = list(look(self, *arguments, **more))
        if next(late, "over") is None:
            with Ledger(config, ledger.topic, timeout_s=TIMEOUT_S) as faster:
                created(faster, other)
        return iter(items)

    monkeypatch.setattr(CommittedReader, "committed", then_the_other)
    with pytest.raises(Refused) as caught:
        created(ledger, plan)

    assert caught.value.code == "fenced"
    assert [each.plan for each in ledger.list().plans] == [other]


def test_a_plan_that_is_too_large_is_not_made(ledger: Ledger, name: Name) -> None:
    # Nothing that compresses well: the limit is for what is sent.
    plan = replace(new_plan(name("group")), command=(secrets.token_hex(10_000_000),))
    with pytest.raises(Refused) as caught:
        created(ledger, plan)

    assert caught.value.code == "too-large"
    assert ledger.list().plans == ()
    assert created(ledger, replace(plan, command=()))


def test_twenty_thousand_chunks_are_one_record(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"), end=70 + 20_000 * 7, chunks=20_000)

    assert created(ledger, plan).plan == plan


# ---- reading


def test_finished_plans_are_folded_without_being_kept(ledger: Ledger, name: Name) -> None:
    """The ends of plans come between the records of others, and one plan is pruned after its end."""
    plans = [new_plan(name(f"group-{number}"), chunks=2) for number in range(4)]
    for plan in plans:
        created(ledger, plan)
    for plan, last in zip(plans, (PlanState.DONE, PlanState.CANCELLED, PlanState.DONE), strict=False):
        with taken(ledger, plan) as runner:
            runner.write(state(PlanState.RELEASED), progress(0, 95), progress(1, 120))
            runner.write(state(last))
    assert ledger.prune([plans[2].id], who=ME, now_ms=NOW_MS) == {plans[2].id: None}

    folded, listing = ledger.fold(lambda snapshot: snapshot)
    whole = ledger.list().plans

    assert [(snapshot.plan, sorted(snapshot.progress), snapshot.totals is None) for snapshot in folded] == [
        (replace(plans[0], chunks=()), [], False),
        (replace(plans[1], chunks=()), [], False),
        (plans[3], [], True),
    ]
    assert [(snapshot.plan, sorted(snapshot.progress)) for snapshot in whole] == [
        (replace(plans[0], chunks=()), []),  # it is verified
        (plans[1], [0, 1]),
        (plans[3], []),
    ]
    assert [verify(snapshot) for snapshot in folded] == [verify(snapshot) for snapshot in whole]
    assert [(snapshot.offset, snapshot.state, snapshot.epoch) for snapshot in folded] == [
        (snapshot.offset, snapshot.state, snapshot.epoch) for snapshot in whole
    ]
    assert (listing.plans, listing.pruned) == ((), frozenset({plans[2].id}))
    assert [head.id for head in listing.heads] == [plans[0].id, plans[1].id, plans[3].id]
    assert all(listing.knows(plan.id) for plan in plans)


def test_an_open_transaction_is_named_in_a_list_and_waited_for_in_a_decision(
    ledger: Ledger, name: Name, config: Config
) -> None:
    one, other = new_plan(name("group")), new_plan(name("other"))
    created(ledger, one)
    hiding = ledger.transactions(transactional_ids.of_task(one.id, 0))
    hiding.fence()
    hiding.begin()
    for key, value in written(one.id, progress(0, 120)):
        hiding.produce(ledger.topic, key, value, 0)
    hiding.producer.flush(30)
    with ledger.transactions(transactional_ids.of_group(other.group)) as writer:
        writer.fence()
        writer.begin()
        for key, value in written(other.id, other, state(PlanState.PLANNED)):
            writer.produce(ledger.topic, key, value, 0)
        writer.commit()

    listed = ledger.list(patience_s=0.2)
    assert [each.plan for each in listed.plans] == [one]
    assert listed.hidden is not None
    assert listed.hidden.code == "open-transaction"
    waited: list[float] = []

    def end_it(seconds: float) -> None:
        waited.append(seconds)
        hiding.close()

    with Ledger(config, ledger.topic, timeout_s=TIMEOUT_S, on_wait=end_it) as patient:
        assert patient.read(other.id).plan == other
    assert len(waited) == 1


def test_a_record_of_a_newer_kgroup_is_told_by_name(ledger: Ledger, name: Name, config: Config) -> None:
    plan, newer, damaged = new_plan(name("group")), new_plan(name("newer")), new_plan(name("damaged"))
    for each in (plan, newer, damaged):
        created(ledger, each)
    producer = Producer(config)
    for key, value in [
        (f"{newer.id}/state", b'{"v": 2}'),
        (f"{newer.id}/quota", b"{}"),
        (f"{damaged.id}/chunk/0", b"rubbish"),
        ("who knows", b"rubbish"),
    ]:
        producer.produce(ledger.topic, value, key.encode(), partition=0)
    producer.produce(ledger.topic, b"rubbish", b"\xff", partition=0)
    assert producer.flush(30) == 0

    listed = ledger.list()
    assert {snapshot.plan: snapshot.damage and snapshot.damage.code for snapshot in listed.plans} == {
        plan: None,
        newer: "ledger-newer",
        damaged: "ledger-damaged",
    }
    assert [plan_id for plan_id, _ in listed.unread] == [newer.id, damaged.id]
    with pytest.raises(Refused) as caught:
        ledger.read(newer.id)
    assert newer.id in caught.value.message
    with taken(ledger, plan) as runner:
        producer.produce(ledger.topic, b"{}", f"{plan.id}/quota".encode(), partition=0)
        assert producer.flush(30) == 0
        assert code_of(lambda: taken(ledger, plan)) == "ledger-newer"
        runner.heartbeat(NOW_MS + 1)  # it was not shut out by one who does not understand
    # Whether it is open, and overlaps, only who understands it can say.
    assert code_of(lambda: created(ledger, new_plan(newer.group))) == "ledger-newer"
    assert created(ledger, new_plan(name("another")))
    producer.produce(ledger.topic, b'{"v": 2}', f"{newer.id}/plan".encode(), partition=0)
    assert producer.flush(30) == 0
    assert code_of(lambda: created(ledger, new_plan(name("any")))) == "ledger-newer"
    assert (set(ledger.list().headless), ledger.list().knows(newer.id)) == ({newer.id}, False)
    assert created(ledger, replace(new_plan("any"), group=None, group_type=None)), "it moves no group"


def test_a_damaged_plan_can_be_ended_and_pruned(ledger: Ledger, name: Name, config: Config) -> None:
    plan, headless, done = (new_plan(name(each), 0, 1) for each in ("damaged", "headless", "done"))
    producer = Producer(config)
    for each in (plan, headless, done):
        ledger.create(each, delivery((0,), (1,)), now_ms=NOW_MS)
        with taken(ledger, each) as runner:
            runner.write(state(PlanState.RELEASED), progress(0, 120), progress(1, 100))
            if each is done:
                runner.write(state(PlanState.DONE))
    for each in (plan, headless, done):
        for part in ("epoch", "delivery", "chunk/1", "quota", *(["state", "plan"] if each is headless else [])):
            producer.produce(ledger.topic, b"rubbish", f"{each.id}/{part}".encode(), partition=0)
    assert producer.flush(30) == 0

    assert code_of(lambda: taken(ledger, plan)) == "ledger-damaged"
    snapshot = ledger.read(plan.id, lenient=True)
    assert (snapshot.state.state, snapshot.epoch, snapshot.delivery, list(snapshot.progress)) == (
        PlanState.RELEASED,
        None,
        None,
        [0],
    )
    lost = ledger.read(headless.id, lenient=True)
    assert (lost.state.state, lost.plan.group, lost.plan.ranges) == (PlanState.RELEASING, None, ())
    refused = ledger.prune([plan.id, done.id], who=ME, now_ms=NOW_MS)
    assert [(error and error.code) for error in refused.values()] == ["plan-open", None]

    for each in (plan, headless):
        with ledger.take_over(each.id, who=ME, now_ms=NOW_MS, lenient=True) as runner:
            assert runner.epoch.number > 1
            runner.write(state(PlanState.CANCELLED))
    listed = ledger.list()
    assert ([each.plan for each in listed.plans], listed.unread) == ([plan], ())
    assert listed.plans[0].state.state is PlanState.CANCELLED
    assert [listed.knows(each.id) for each in (plan, headless, done)] == [True, False, True]
    assert ledger.prune([plan.id], who=ME, now_ms=NOW_MS) == {plan.id: None}


def test_compaction_moves_nothing(ledger: Ledger, name: Name, config: Config, world: KafkaWorld) -> None:
    admin = AdminClient(config)

    def alter(kind: ConfigResource.Type, which: str, **values: str | None) -> None:
        resource = ConfigResource(kind, which)
        for key, value in values.items():
            action = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            resource.add_incremental_config(
                ConfigEntry(key.replace("_", "."), value or "", incremental_operation=action)
            )
        admin.incremental_alter_configs([resource])[resource].result(30)

    alter(ConfigResource.Type.TOPIC, ledger.topic, segment_ms="20", min_cleanable_dirty_ratio="0.0",
          delete_retention_ms="0", max_compaction_lag_ms="50")  # fmt: skip
    plan, gone = new_plan(name("group"), 0, 1), new_plan(name("gone"))
    made, forgotten = created(ledger, plan), created(ledger, gone)
    with taken(ledger, gone) as ending:
        ending.write(state(PlanState.DONE))
    assert ledger.prune([gone.id], who=ME, now_ms=NOW_MS) == {gone.id: None}

    def total() -> int:
        with CommittedReader(config, ledger.topic, timeout_s=TIMEOUT_S) as reader:
            return len(list(reader.everything()))

    alter(ConfigResource.Type.BROKER, "1", log_cleaner_backoff_ms="50")
    try:
        with taken(ledger, plan) as runner:
            runner.write(delivery((0,), (1,)))
            count = iter(range(1_000_000))

            def compacted() -> bool:
                runner.heartbeat(NOW_MS + next(count))
                return total() < 9

            runner.write(state(PlanState.RELEASED))
            for _ in range(20):
                runner.heartbeat(NOW_MS + next(count))
            wait_for(compacted, "compaction")
            snapshot = runner.read()
    finally:
        alter(ConfigResource.Type.BROKER, "1", log_cleaner_backoff_ms=None)

    assert (snapshot.plan, snapshot.offset) == (plan, made.offset)
    assert snapshot.delivery == delivery((0,), (1,))
    assert ledger.read(plan.id, made.offset) == snapshot == ledger.read(plan.id)
    assert code_of(lambda: ledger.read(gone.id, forgotten.offset)) == "no-plan"


# ---- pruning


def test_a_prune_that_was_killed_has_forgotten_nothing(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"))
    created(ledger, plan)
    with taken(ledger, plan) as runner:
        runner.write(state(PlanState.DONE))
    with ledger.transactions(transactional_ids.of_plan(plan.id)) as killed:
        killed.fence()
        killed.begin()
        for key in ledger.view(plan.id).keys(plan.id):
            killed.produce(ledger.topic, key, None, 0)
        assert killed.producer.flush(30) == 0

    assert [each.plan for each in ledger.list().plans] == [plan]
    assert ledger.prune([plan.id], who=ME, now_ms=NOW_MS) == {plan.id: None}
    assert ledger.list().plans == ()


def pruned(ledger: Ledger, plan: CatchupPlan) -> bool:
    """Whether only its last state is left; otherwise all of it is there."""
    keys = set(ledger.view(plan.id).keys(plan.id))
    state_alone = {RecordKey(plan.id, RecordKind.STATE).encode()}
    if keys != state_alone:
        chunks = {RecordKey(plan.id, RecordKind.CHUNK, chunk.number).encode() for chunk in plan.chunks}
        assert chunks | {RecordKey(plan.id, RecordKind.TOTALS).encode()} < keys
        assert ledger.read(plan.id).plan == plan
    return keys == state_alone


def finished(ledger: Ledger, name: Name, count: int) -> list[CatchupPlan]:
    """Plans that were cancelled after their delivery: the ledger has their chunks, unlike those of verified ones."""
    plans = [new_plan(name(f"group-{number}"), chunks=2) for number in range(count)]
    for plan in plans:
        created(ledger, plan)
        with taken(ledger, plan) as runner:
            runner.write(state(PlanState.RELEASED), delivery((0,), (1,)), progress(0, 95), progress(1, 120))
            runner.write(state(PlanState.CANCELLED))
    return plans


_PRUNES = """
import sys
from kgroup.catchup.ledger.ledger import Ledger
bootstrap, topic, *plans = sys.argv[1:]
with Ledger({"bootstrap.servers": bootstrap, "log_level": "0"}, topic, timeout_s=15) as ledger:
    print("begins", flush=True)
    ledger.prune(plans, who="me", now_ms=5)
"""


@pytest.mark.soak
def test_a_prune_of_many_plans_may_be_killed_at_any_moment(ledger: Ledger, name: Name, bootstrap: str) -> None:
    plans = finished(ledger, name, 12)
    words = [sys.executable, "-c", _PRUNES, bootstrap, ledger.topic, *(plan.id for plan in plans)]
    counts = [0]
    for number in range(60):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert read_line(process.stdout) == "begins\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05 * (number + 1))
            process.kill()
        counts.append(sum(pruned(ledger, plan) for plan in plans))
        if counts[-1] == len(plans):
            break

    assert counts == sorted(counts), "what is pruned stays so"
    assert counts[-1] == len(plans)
    assert ledger.list().plans == ()


@pytest.mark.soak
def test_many_plans_are_pruned_at_once_by_two_runs(ledger: Ledger, config: Config, name: Name) -> None:
    """Each plan is pruned by one of them; the other is fenced, or no longer finds it."""
    plans = finished(ledger, name, 12)
    ids = [plan.id for plan in plans]
    with Ledger(config, ledger.topic, timeout_s=TIMEOUT_S) as other, ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(one.prune, [*ids, ids[0]], who=ME, now_ms=NOW_MS) for one in (ledger, other)]
        first, second = (run.result() for run in runs)

    assert list(first) == list(second) == ids
    assert {error.code for error in (*first.values(), *second.values()) if error is not None} <= {
        "superseded",
        "fenced",
        "no-plan",
    }
    left = [plan.id for plan in plans if not pruned(ledger, plan)]
    assert [plan_id for plan_id in ids if first[plan_id] is not None and second[plan_id] is not None] == left
    assert ledger.prune(left, who=ME, now_ms=NOW_MS) == dict.fromkeys(left)
    assert all(pruned(ledger, plan) for plan in plans)


@pytest.mark.soak
def test_a_prune_of_many_plans_reads_the_ledger_once(
    ledger: Ledger, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once what is committed and once everything; later it reads only what was written meanwhile."""
    plans, starts, read = finished(ledger, name, 12), list[int](), CommittedReader._read

    def noted(reader: CommittedReader, isolation: str, start: int, *more: Any) -> Any:
        starts.append(start)
        return read(reader, isolation, start, *more)

    with monkeypatch.context() as patched:
        patched.setattr(CommittedReader, "_read", noted)
        assert set(ledger.prune([plan.id for plan in plans], who=ME, now_ms=NOW_MS).values()) == {None}

    assert (len(starts), starts.count(0)) == (6, 2)
    assert all(pruned(ledger, plan) for plan in plans)


def test_without_a_ledger_there_is_nothing_to_prune(config: Config, name: Name) -> None:
    with Ledger(config, name("ledger"), timeout_s=TIMEOUT_S) as none:
        (error,) = none.prune(["cu-2222"], who=ME, now_ms=NOW_MS).values()

    assert error is not None
    assert error.code == "no-plan"


def test_prune_forgets_what_is_finished_and_leaves_the_rest_alone(ledger: Ledger, name: Name) -> None:
    plans = [new_plan(name(stem)) for stem in ("done", "open", "cancelled")]
    for plan in plans:
        created(ledger, plan)
    done, unfinished, cancelled = plans
    with taken(ledger, done) as runner:
        runner.write(state(PlanState.DONE), delivery((0,)))
    with taken(ledger, cancelled) as runner:
        runner.write(state(PlanState.CANCELLED))
    absent = new_plan(name("absent"))

    with taken(ledger, unfinished) as live:
        wanted = [plan.id for plan in (*plans, absent)]
        results = ledger.prune(wanted, who=ME, now_ms=NOW_MS)
        live.heartbeat(NOW_MS + 1)  # not superseded by it

    assert {plan_id: error and error.code for plan_id, error in results.items()} == {
        done.id: None,
        unfinished.id: "plan-open",
        cancelled.id: None,
        absent.id: "no-plan",
    }
    assert [each.plan for each in ledger.list().plans] == [unfinished]
    assert ledger.view(done.id).keys(done.id) == (RecordKey(done.id, RecordKind.STATE).encode(),), (
        "else it looks like a lost one"
    )
    assert code_of(lambda: taken(ledger, done)) == "no-plan"
    assert ledger.view(done.id).keys(done.id) == (RecordKey(done.id, RecordKind.STATE).encode(),), (
        "else it looks like a lost one"
    )
    assert created(ledger, new_plan(done.group))


@pytest.mark.parametrize(
    ("known", "end", "code"), [(False, 120, "plan-overlaps"), (False, 70, None), (True, 120, None)]
)
def test_dead_letters_of_a_plan_made_meanwhile_are_not_delivered_again(
    ledger: Ledger, known: bool, end: int, code: str | None
) -> None:
    """Both starts had read the topic before; the first plan was done before the second is written."""
    first = new_plan(None, start=70, end=120)
    ledger.create(first, redriven(), now_ms=NOW_MS)
    with taken(ledger, first) as runner:
        runner.write(state(PlanState.DONE))
    second = new_plan(None, start=50, end=end)
    newest = ledger.read(first.id).offset if known else -1

    assert code_of(lambda: ledger.create(second, redriven(newest), now_ms=NOW_MS)) == code


def redriven(newest: int = -1) -> Delivery:
    redrive = Redrive("orders", ledger_offset=newest)
    return Delivery("source", Order.PARTITION, (), {REDRIVE: redrive.encode()})
