"""When a user is told that Spark has no worker for the tasks."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from kgroup.catchup.spark.running_job import note_no_room

Stages = list[int | None]
"""The tasks that run of each stage at work; None: the stage has just ended, and nothing is known of it."""

FREE, THERE = "started a task for 3 s: check that a worker has free cores", "run a task for 3 s: check that the workers"


@pytest.mark.parametrize(
    ("looks", "noted"),
    [
        ([[0], [0], [0]], [FREE]),
        ([[0, 1], [0, 1], [0, 1]], []),
        ([[None, 0]] * 3, [FREE]),
        ([[None]] * 5, []),
        ([[0], [0], [1]], []),
        ([[0]] * 9, [FREE]),
        ([[2], [0], [0], [1], [0], [0], [2]], []),
        ([[2], [0], [0], [0], [0]], [THERE]),
        ([[0], [0], [0], [1], [0], [0], [0], [1], [0], [0], [0]], [FREE, THERE, THERE]),
    ],
)
def test_a_note_says_that_no_worker_runs_a_task(
    looks: list[Stages], noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.catchup.spark.running_job._NO_ROOM_AFTER_S", 3.0)
    left, notes = list(looks), list[str]()

    class Job(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return not left

    def stage_ids() -> range:
        now = left.pop(0)
        tracker.getStageInfo = [
            None if tasks is None else SimpleNamespace(numActiveTasks=tasks) for tasks in now
        ].__getitem__
        return range(len(now))

    tracker = SimpleNamespace(getActiveStageIds=stage_ids)

    note_no_room(tracker, Job(), notes.append)

    assert len(notes) == len(noted)
    assert all(f"no Spark worker has {text}" in note for text, note in zip(noted, notes, strict=True))
