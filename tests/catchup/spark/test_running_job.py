"""When a user is told that Spark has no worker for the tasks."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from kgroup.catchup.spark.running_job import note_no_room


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.catchup.spark.running_job._ASK_EVERY_S", 0.01)
    monkeypatch.setattr("kgroup.catchup.spark.running_job._NO_ROOM_AFTER_S", 0.03)


@pytest.mark.parametrize(
    ("stages", "noted"), [([(0, 0)], True), ([(0, 0), (1, 0)], False), ([(0, 3)], False), ([None, (0, 0)], True)]
)
def test_a_note_says_that_no_worker_is_free(stages: list[tuple[int, int] | None], noted: bool) -> None:
    """Of each stage at work Spark knows the tasks that run, and those that have ended; of one just ended nothing."""
    infos = [one and SimpleNamespace(numActiveTasks=one[0], numCompletedTasks=one[1]) for one in stages]
    tracker = SimpleNamespace(getActiveStageIds=lambda: range(len(infos)), getStageInfo=infos.__getitem__)
    notes: list[str] = []

    note_no_room(tracker, threading.Event(), notes.append)

    assert len(notes) == noted
    assert all("check that a worker has free cores" in note for note in notes)


def test_a_stage_between_two_groups_of_chunks_is_no_note() -> None:
    """It has just been submitted, and its workers are there."""
    tasks = iter([0, 0, 1])
    tracker = SimpleNamespace(
        getActiveStageIds=lambda: range(1),
        getStageInfo=lambda stage: SimpleNamespace(numActiveTasks=next(tasks), numCompletedTasks=0),
    )
    notes: list[str] = []

    note_no_room(tracker, threading.Event(), notes.append)

    assert (notes, list(tasks)) == ([], [])
