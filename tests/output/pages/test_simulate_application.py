"""The page of a simulated Streams application."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.simulation.applications import Application, ApplicationReport, simulate_application
from kgroup.groups.simulation.documents import application_document
from kgroup.groups.simulation.model import GroupChange
from kgroup.output.pages.simulate import outcome
from tests.helpers.pages import drawn
from tests.helpers.streams_applications import GROUP, A, B, application, task

TWO = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
COPIED = application({A: ("0_0 1_0", "1_1"), B: ("0_1 1_1", "1_0")}, classic=False, standbys=1)
CLASSIC = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=True)


def report(subject: Application, change: GroupChange, rate: int | None = None) -> ApplicationReport:
    exactly, runs = simulate_application(subject, change, None)
    return ApplicationReport(subject, GROUP, exactly, runs, rate)


def page(subject: Application, change: GroupChange, rate: int | None = None) -> str:
    return "\n".join(drawn(outcome([report(subject, change, rate)], (), None)))


def test_an_instance_that_leaves() -> None:
    text = page(TWO, GroupChange(leaving=("b",)), rate=1)
    assert "counts  2 instances, 4 tasks, 1 instance removed" in text
    assert "TASKS  2 of 4 move, 0 of them needlessly" in text
    assert "STATE  101 B is read by instances without it" in text
    assert "STOPS  1 of them does not run until its state is read" in text
    rows = [line.split() for line in text.splitlines() if line[:2] in ("a ", "b ", "IN")]
    assert rows == [
        ["INSTANCE", "THREADS", "BEFORE", "AFTER", "STANDBY", "READS", "RESTORE"],
        ["a", "1", "2", "4", "0", "101", "B", "1m41s"],
        ["b", "1", "2", "gone", "-", "0", "B", "0s"],
    ]
    assert "as the broker's assignor of Kafka 4.4 puts them" in text


@pytest.mark.parametrize(
    ("subject", "change", "lines"),
    [
        (COPIED, GroupChange(remove=1), ["STATE  none is read", "STOPS  no task waits for its state"]),
        (
            CLASSIC,
            GroupChange(add=1),
            ["STOPS  none: tasks move when their state has been copied", "as now", "20 runs"],
        ),
        (replace(TWO, sizes={task("1_0"): None, task("1_1"): None}), GroupChange(remove=1), ["their size is unknown"]),
        (replace(TWO, size_is_bound=True), GroupChange(remove=1), ["STATE  at most 101 B", "those of all that may be"]),
        (TWO, GroupChange(remove=1, add=1), ["1 instance removed, then 1 instance", "2 of them do not run"]),
    ],
)
def test_what_is_said_of_state(subject: Application, change: GroupChange, lines: list[str]) -> None:
    text = " ".join(page(subject, change).split())
    assert [" ".join(line.split()) in text for line in lines] == [True] * len(lines)


def test_the_document_and_the_records() -> None:
    of_two = report(TWO, GroupChange(leaving=("b",)), 1)
    document = application_document(of_two)
    assert document.tasks
    assert (document.change.removed_members, document.scenarios, document.assumed) == (("b",), (), None)
    gone = document.tasks.instances[1]
    assert (gone.name, gone.active_before, gone.active_after) == ("b", ("0_1", "1_1"), None)
    (record,) = outcome([of_two], (), None).records().rows
    assert record[:4] == ("counts", "as it is (sticky)", "streams", "sticky")
    assert record[6:10] == (2, 2, 0, 0)
