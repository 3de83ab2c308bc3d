"""What other instances do to a Streams application: tasks that move, and the state that is read for them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.simulation.applications import (
    Application,
    ApplicationReport,
    ApplicationRun,
    check_settled,
    instance_names,
    simulate_application,
)
from kgroup.groups.simulation.model import GroupChange, RestartStrategy
from kgroup.support.errors import NotFound, Refused
from tests.helpers.for_each import for_each
from tests.helpers.streams_applications import GROUP, A, B, application, task, tasks


def run_of(subject: Application, change: GroupChange) -> ApplicationRun:
    (run,) = simulate_application(subject, change, None)[1]
    return run


def test_a_task_that_leaves_with_its_state_stops_until_that_is_read() -> None:
    subject = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
    run = run_of(subject, GroupChange(leaving=("b",)))
    assert (run.moved, run.needless, run.stopped) == (2, 0, 1)
    assert list(run.reads) == [(A, task("1_1"))]
    assert run.after[A].active == set(tasks("0_0 0_1 1_0 1_1"))


def test_a_task_with_a_standby_moves_there_and_reads_nothing() -> None:
    subject = application({A: ("0_0 1_0", "1_1"), B: ("0_1 1_1", "1_0")}, classic=False, standbys=1)
    run = run_of(subject, GroupChange(remove=1))
    assert (run.moved, run.stopped, list(run.reads)) == (2, 0, [])


def test_an_added_instance_reads_what_it_gets() -> None:
    """With the broker the task stops meanwhile; clients leave it where it is until the state is copied."""
    for classic, stops in ((False, 1), (True, 0)):
        subject = application({A: ("0_0 0_1 1_0 1_1", "")}, classic=classic)
        change, runs = simulate_application(subject, GroupChange(add=1), None)
        report = ApplicationReport(subject, GROUP, change, runs, bytes_per_s=50)
        assert len(runs) == 20
        assert report.span(lambda run: run.moved).text == "2"
        assert report.span(lambda run: run.stopped).text == str(stops)
        assert report.bytes_read is not None
        assert (report.bytes_read.least, report.bytes_read.most) == ((101, 101) if not classic else (100, 101))
        new = next(process for process in report.first.after if process != A)
        assert report.read_by(new) == report.bytes_of([task for _, task in report.first.reads])
        assert report.restore_ms(report.read_by(new)) == 20 * (report.read_by(new) or 0)
        assert report.restore_ms(None) is None


def test_clients_move_tasks_without_need() -> None:
    """They deal the tasks out anew, in the order of process ids: a third instance takes two, and four move."""
    subject = application({A: ("0_0 0_2 1_0 1_2", ""), B: ("0_1 1_1", "")}, classic=True)
    subject = replace(subject, members=subject.assign(subject.members))
    change, runs = simulate_application(subject, GroupChange(add=1), None)
    report = ApplicationReport(subject, GROUP, change, runs)
    needless = report.bytes_read_needlessly
    assert report.span(lambda run: run.needless).most > 0
    assert needless is not None
    assert needless.most > 0
    broker = replace(subject, classic=False)
    _, runs = simulate_application(broker, GroupChange(add=1), None)
    assert {run.needless for run in runs} == {0}


def test_removed_and_added_instances_are_two_steps() -> None:
    subject = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
    change, runs = simulate_application(subject, GroupChange(leaving=("b",), add=1), None)
    assert change.leaving == (B,)
    assert {len(run.steps) for run in runs} == {2}
    assert {run.moved for run in runs} == {4}


@for_each("name", ["b", B, "m-b"])
def test_an_instance_is_named_by_client_process_or_member(name: str) -> None:
    subject = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
    change, _ = simulate_application(subject, GroupChange(leaving=(name,)), None)
    assert change.leaving == (B,)


def test_sizes_that_are_unknown_stay_unknown() -> None:
    subject = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
    subject = replace(subject, sizes={task("1_0"): 7, task("1_1"): None})
    change, runs = simulate_application(subject, GroupChange(leaving=("b",)), None)
    report = ApplicationReport(subject, GROUP, change, runs, bytes_per_s=1)
    assert report.bytes_read is None
    assert report.read_by(A) is None


@pytest.mark.parametrize(
    ("change", "assignor", "code"),
    [
        (GroupChange(kill=1), None, "instances-only"),
        (GroupChange(restart=RestartStrategy.AS_THEY_ARE), None, "instances-only"),
        (GroupChange(more_partitions=1), None, "instances-only"),
        (GroupChange(add=1), "range", "instances-only"),
        (GroupChange(remove=2), None, "too-few-members"),
        (GroupChange(remove=3), None, "too-few-members"),
        (GroupChange(leaving=("a", "b")), None, "too-few-members"),
    ],
)
def test_changes_that_are_refused(change: GroupChange, assignor: str | None, code: str) -> None:
    subject = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=False)
    with pytest.raises(Refused) as refused:
        simulate_application(subject, change, assignor)
    assert refused.value.code == code


def test_an_unknown_instance_is_refused_with_similar_ones() -> None:
    subject = replace(application({A: ("0_0 1_0", "")}, classic=False), names={A: "counts-1"})
    with pytest.raises(NotFound, match="counts has no instance counts-2") as refused:
        simulate_application(subject, GroupChange(leaving=("counts-2",)), None)
    assert refused.value.details == ("Near: counts-1",)


def test_a_classic_application_whose_tasks_are_elsewhere_is_refused() -> None:
    """Only a reading standby, another assignor or a state that was not reported explains it; the broker's may be so."""
    settled = application({A: ("0_0 1_0", ""), B: ("0_1 1_1", "")}, classic=True)
    check_settled(settled)
    moved = application({A: ("0_0 1_1", ""), B: ("0_1 1_0", "")}, classic=True)
    with pytest.raises(Refused, match="not where the default assignor of its clients puts them") as refused:
        check_settled(moved)
    assert refused.value.code == "tasks-elsewhere"
    check_settled(replace(moved, classic=False))


@pytest.mark.parametrize(
    ("client_ids", "names"),
    [
        ({A: ["a-StreamThread-1-consumer", "a-StreamThread-2-consumer"]}, {A: "a"}),
        ({A: ["x-StreamThread-1-consumer"], B: ["x-StreamThread-1-consumer"]}, {A: A, B: B}),
        ({A: ["one", "two"]}, {A: A}),
        ({A: [""]}, {A: A}),
    ],
)
def test_names_of_instances(client_ids: dict[str, list[str]], names: dict[str, str]) -> None:
    assert instance_names(client_ids) == names
