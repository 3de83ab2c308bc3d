"""Plans in a real ledger, and processes that are killed while they write to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import Value, encode, key_of
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.worker.task_ledger import TaskLedger, Work
from kgroup.cluster.transactions import CommitUnknown, Transactions
from kgroup.groups.catchup.model import (
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    Order,
    PlanSnapshot,
    PlanState,
    StateRecord,
    Task,
)
from kgroup.groups.commit_tags import new_plan_id
from kgroup.support.errors import KgroupError
from tests.helpers.catchup.plans import ME, NOW_MS, gap_range, make_plan
from tests.helpers.catchup.replays import seen
from tests.helpers.places import ROOT
from tests.helpers.waiting import read_line

TIMEOUT_S = 15.0
Config = dict[str, Any]


def new_plan(group: str | None, *partitions: int, start: int = 70, end: int = 120, chunks: int = 1) -> CatchupPlan:
    """A plan with an id of its own: ``[start, end)`` of these partitions (0) of ``orders``, each in so many chunks."""
    ranges = [gap_range(partition, start, end) for partition in partitions or (0,)]
    step = (end - start) // chunks
    cut = tuple(
        Chunk("orders", item.partition, start + part * step, start + (part + 1) * step, number * chunks + part)
        for number, item in enumerate(ranges)
        for part in range(chunks)
    )
    return replace(make_plan(*ranges, chunks=cut, group=group), id=new_plan_id())


def delivery(*tasks: tuple[int, ...]) -> Delivery:
    """To a topic, with tasks of these chunks."""
    return Delivery(
        "topic", Order.PARTITION, tuple(Task(n, chunks) for n, chunks in enumerate(tasks)), {"topic": "copy"}
    )


def progress(chunk: int, delivered_to: int, epoch: int = 1, at_ms: int = NOW_MS) -> ChunkProgress:
    return ChunkProgress(chunk, delivered_to, 10, 0, 0, 100, at_ms, epoch)


def killed_in_transaction(bootstrap: str, ledger: str, transactional_id: str, plan_id: str, *values: Value) -> None:
    """A process dies by SIGKILL between these records and its commit."""
    records = [(str(key_of(plan_id, value)), encode(value).decode()) for value in values]
    with open_in_process(bootstrap, ledger, transactional_id, records) as process:
        process.kill()


def open_in_process(
    bootstrap: str, ledger: str, transactional_id: str, records: list[tuple[str, str]]
) -> subprocess.Popen[str]:
    """A process with an open transaction; the log has its records when this returns."""
    what = {"bootstrap": bootstrap, "ledger": ledger, "transactional_id": transactional_id, "records": records}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.catchup.open_transaction", json.dumps(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert read_line(process.stdout) == "open\n"
    return process


def written(plan_id: str, *values: Value) -> list[tuple[bytes, bytes]]:
    """Keys and values as the ledger has them."""
    return [(key_of(plan_id, value).encode(), encode(value)) for value in values]


def created(ledger: Ledger, plan: CatchupPlan) -> PlanSnapshot:
    return ledger.create(plan, now_ms=NOW_MS)


def taken(ledger: Ledger, plan: CatchupPlan, who: str = ME) -> Runner:
    return ledger.take_over(plan.id, who=who, now_ms=NOW_MS)


def state(of: PlanState, **more: Any) -> StateRecord:
    return StateRecord(of, NOW_MS, ME, 0, **more)


def code_of(call: Callable[[], object]) -> str | None:
    try:
        call()
    except KgroupError as error:
        return error.code
    return None


def ended(ledger: Ledger, transactional_id: str) -> None:
    """Abort what is open under an id, as the broker does after a minute."""
    with ledger.transactions(transactional_id) as transactions:
        transactions.fence()


def delivered(config: Config, topic: str) -> list[str]:
    """The values that are committed in a topic, by a plain consumer."""
    return [(record.value or b"").decode() for record in seen(str(config["bootstrap.servers"]), topic)]


def work(ledger: Ledger, runner: Runner, number: int) -> Work:
    return Work(
        ledger.topic,
        runner.plan_id,
        runner.snapshot.offset,
        runner.epoch.number,
        Task(number, (2 * number, 2 * number + 1)),
    )


def task(config: Config, ledger: Ledger, runner: Runner, number: int = 0, **more: Any) -> TaskLedger:
    return TaskLedger(config, work(ledger, runner, number), timeout_s=more.pop("timeout_s", TIMEOUT_S), **more)


def produce(of: TaskLedger, topic: str, *values: str) -> None:
    for value in values:
        of.producer.produce(topic, value.encode())


@contextmanager
def hurried_commits(given_up: Callable[[], object] = lambda: None) -> Iterator[None]:
    """The answer to the end of a transaction is waited for a second; all before it may take its time.

    ``given_up`` is called when none has come; from then on there is no hurry any more.
    """
    commit = Transactions.commit
    with pytest.MonkeyPatch.context() as patch:

        def hurried(self: Transactions) -> None:
            self.producer.flush(30)
            self._watch.timeout_s = 1.0
            try:
                commit(self)
            except CommitUnknown:
                patch.undo()
                given_up()
                raise

        patch.setattr(Transactions, "commit", hurried)
        yield


class Waits:
    """What happens when an open transaction is waited for."""

    def __init__(self) -> None:
        self.then: Callable[[], object] = lambda: None

    def __call__(self, seconds: float) -> None:
        self.then()
