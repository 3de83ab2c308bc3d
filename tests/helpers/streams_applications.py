"""Streams applications with few tasks, whose sizes tell them apart."""

from __future__ import annotations

from kgroup.groups.assignors.tasks import TaskMember, TaskTopology
from kgroup.groups.simulation.applications import Application
from kgroup.model.groups import Group
from kgroup.model.streams_group import StreamsTask

GROUP = Group("counts", "streams", "Stable", "streams", "sticky", None, None, None, 3, 3, (), ())
A, B, C = (f"{number}0000000-0000-4000-8000-000000000000" for number in (1, 2, 3))
NAMES = {A: "a", B: "b", C: "c"}


def task(name: str) -> StreamsTask:
    subtopology, number = name.split("_")
    return StreamsTask(subtopology, int(number))


def tasks(names: str) -> tuple[StreamsTask, ...]:
    return tuple(map(task, names.split()))


def application(of: dict[str, tuple[str, str]], *, classic: bool, standbys: int = 0) -> Application:
    """Subtopology 0 without, 1 with state of 100, 101, ... bytes; each instance has one thread."""
    members = tuple(
        TaskMember(f"m-{NAMES[p]}", p, tasks(active), tasks(standby)) for p, (active, standby) in of.items()
    )
    count = sum(len(member.active) for member in members) // 2
    topology = TaskTopology({"0": count, "1": count}, frozenset({"1"}), standbys)
    sizes = {StreamsTask("1", number): 100 + number for number in range(count)}
    return Application("counts", classic, members, topology, sizes, {p: NAMES[p] for p in of})
