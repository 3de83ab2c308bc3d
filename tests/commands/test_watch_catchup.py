"""``kgroup catchup show --watch``: a page with the rate and the time left, which ends with the result.

The runner is played by the test: it takes the plan over, and writes to the ledger what a replay would write.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.groups.catchup.model import CatchupPlan, PlanState
from tests.helpers.catchup.catchups import own_ledger
from tests.helpers.catchup.ledgers import created, delivery, new_plan, progress, state, taken
from tests.helpers.command_line import CommandLine
from tests.helpers.terminals import ALTERNATE, Terminal
from tests.helpers.waiting import read_line

Name = Callable[[str], str]


@pytest.fixture
def ledger(bootstrap: str, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[Ledger]:
    topic = own_ledger(monkeypatch, name("ledger"))
    with Ledger({"bootstrap.servers": bootstrap, "log_level": "0"}, topic, timeout_s=15.0) as ledger:
        ledger.prepare()
        yield ledger


@pytest.fixture
def plan(kgroup: CommandLine, ledger: Ledger) -> CatchupPlan:
    """Two partitions of 100 offsets each, released."""
    found = new_plan(None, 0, 1, start=0, end=100)
    created(ledger, found)
    return found


@pytest.fixture
def runner(ledger: Ledger, plan: CatchupPlan) -> Iterator[Runner]:
    with taken(ledger, plan) as runner:
        runner.write(state(PlanState.RELEASED), delivery((0, 1)))
        beat(runner)
        yield runner


def beat(runner: Runner) -> None:
    runner.heartbeat(round(time.time() * 1000))


def finish(runner: Runner) -> None:
    """Deliver the rest, and close the plan."""
    runner.write(progress(0, 100), progress(1, 100), state(PlanState.DONE))
    runner.heartbeat(0)


def row_of(page: list[str], partition: str) -> list[str]:
    return next((line.replace("*", "").split() for line in page if line.startswith(partition + " ")), [])


def test_rate_and_time_left_until_the_result(plan: CatchupPlan, runner: Runner) -> None:
    with Terminal.kgroup("catchup", "show", plan.id, "--watch", "--every", "500ms") as terminal:
        page = terminal.says("q quits")
        assert page[0].startswith(f"{plan.id}  replaying  0%")
        assert any(line.split() == ["RATE", "known", "after", "the", "next", "refresh"] for line in page)
        assert max(map(len, page)) <= 80

        runner.write(progress(0, 60))
        page = terminal.shows(lambda page: any("left" in line and "/s over" in line for line in page), "the rate")
        assert "PARTITION" in next(line for line in page if " RATE " in line)
        assert row_of(page, "orders:0")[2:3] == ["60"], "delivered to"
        assert row_of(page, "orders:0")[6].endswith(("/s", "/min"))
        assert row_of(page, "orders:1")[6] == "0"
        assert page[0].startswith(f"{plan.id}  replaying  30%")

        finish(runner)
        last = terminal.ends(0)
    assert last.lstrip().startswith(f"{plan.id}  done  100%"), "the result stays on the ordinary screen"
    assert re.search(r"VERIFIED +20 records: 20 delivered, 0 filtered, 0 dead-lettered", last)


def test_p_holds_the_page_and_q_leaves_the_replay_alone(kgroup: CommandLine, plan: CatchupPlan, runner: Runner) -> None:
    with Terminal.kgroup("catchup", "show", plan.id, "-w", "--every", "500ms") as terminal:
        terminal.says("q quits")
        terminal.type("p")
        terminal.says("PAUSED")
        runner.write(progress(0, 60))
        page = terminal.says("s ago")
        assert row_of(page, "orders:0")[2] == "0"
        terminal.type("p")
        terminal.shows(lambda page: row_of(page, "orders:0")[2:3] == ["60"], "it continues")
        terminal.type("q")
        assert terminal.ends(0) == ""
    (shown,) = kgroup("catchup", "show", plan.id, "-o", "json").data
    assert shown["state"] == "released"


def test_a_runner_that_stops_ends_the_watch(plan: CatchupPlan, runner: Runner) -> None:
    with Terminal.kgroup("catchup", "show", plan.id, "-w", "--every", "500ms") as terminal:
        terminal.says("q quits")
        runner.heartbeat(0)
        last = terminal.ends(0)
    assert last.lstrip().startswith(f"{plan.id}  stopped  0%")
    assert f"-> kgroup catchup cancel {plan.id} --abandon --execute" in last, "its topic is gone"


def test_a_plan_that_no_runner_works_on_is_one_page(plan: CatchupPlan, ledger: Ledger) -> None:
    with Terminal.kgroup("catchup", "show", plan.id, "--watch") as terminal:
        assert f"{plan.id}  planned" in terminal.ends(0)
        assert ALTERNATE not in terminal.raw


def test_a_line_of_json_for_each_refresh(kgroup: CommandLine, plan: CatchupPlan, runner: Runner) -> None:
    with kgroup.start("catchup", "show", plan.id, "--watch", "--every", "500ms") as process:
        documents: list[dict[str, Any]] = [json.loads(read_line(process.stdout))]
        finish(runner)
        assert process.stdout
        documents += [json.loads(line) for line in process.stdout]
        assert process.wait(30) == 0

    assert {document["kind"] for document in documents} == {"kgroup.catchup.show/v1"}
    states = [document["data"][0]["state"] for document in documents]
    assert states == ["released"] * (len(states) - 1) + ["done"]


def test_every_needs_watch(kgroup: CommandLine, plan: CatchupPlan) -> None:
    assert "--every" in kgroup("catchup", "show", plan.id, "--every", "5s", exit_code=2).stderr
