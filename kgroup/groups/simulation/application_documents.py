"""The JSON of the tasks of a simulated Streams application. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from kgroup.groups.simulation.applications import ApplicationReport
from kgroup.groups.simulation.scenarios import CountRange
from kgroup.model.streams_group import StreamsTask
from kgroup.support.json_types import Count, Ms


class SimulatedInstance(msgspec.Struct, frozen=True):
    """An instance of a Streams application before and after the change, in the first run."""

    name: Annotated[str, "What the client ids of its threads begin with, or its process id."]
    process_id: Annotated[str | None, "Its process id; null if it is invented."]
    thread_count: Annotated[Count, "Its threads."]
    active_before: Annotated[tuple[str, ...] | None, "The tasks that it runs before; null for a new instance."]
    active_after: Annotated[tuple[str, ...] | None, "The tasks that it runs after; null for one that is gone."]
    standby_before: Annotated[tuple[str, ...] | None, "The tasks whose state it keeps before."]
    standby_after: Annotated[tuple[str, ...] | None, "The tasks whose state it keeps after."]
    read_bytes: Annotated[Count | None, "Bytes of changelogs that it reads, at most; null if unknown."]
    restore_ms: Annotated[Ms | None, "How long that lasts; null without --restore-rate."]


class SimulatedTasks(msgspec.Struct, frozen=True):
    """What a change does to the tasks of a Streams application."""

    assignor: Annotated[str, "What assigns the tasks."]
    task_count: Annotated[Count, "Tasks."]
    stateful_task_count: Annotated[Count, "Tasks with state that a changelog holds."]
    standby_replica_count: Annotated[Count, "Standby copies of a task."]
    run_count: Annotated[Count, "Number of simulated runs."]
    moved_task_count: Annotated[CountRange, "Tasks that run on another instance."]
    needless_move_count: Annotated[CountRange, "Moves that balance does not need."]
    stopped_task_count: Annotated[CountRange, "Tasks that do not run until their state is read."]
    state_read_bytes: Annotated[CountRange | None, "Bytes of changelogs that are read, at most; null if unknown."]
    needless_state_read_bytes: Annotated[CountRange | None, "Those of needless moves among them, at least."]
    size_is_bound: Annotated[bool, "Whether no broker shows which changelog is whose: sizes are then bounds."]
    instances: Annotated[tuple[SimulatedInstance, ...], "The instances, in the first run."]


def simulated_tasks(report: ApplicationReport) -> SimulatedTasks:
    application = report.application
    return SimulatedTasks(
        assignor=application.assignor,
        task_count=len(application.topology.tasks()),
        stateful_task_count=len(application.topology.tasks(stateful=True)),
        standby_replica_count=application.topology.standbys,
        run_count=len(report.runs),
        moved_task_count=report.span(lambda run: run.moved),
        needless_move_count=report.span(lambda run: run.needless),
        stopped_task_count=report.span(lambda run: run.stopped),
        state_read_bytes=report.bytes_read,
        needless_state_read_bytes=report.bytes_read_needlessly,
        size_is_bound=application.size_is_bound,
        instances=tuple(instances(report)),
    )


def instances(report: ApplicationReport) -> Iterator[SimulatedInstance]:
    """Those that are there, in the order of their names, then those that are added."""
    before, after, names = report.first.before, report.first.after, report.application.names
    new = [process for process in after if process not in before]
    for process in (*sorted(before, key=lambda process: names[process]), *new):
        had, has = before.get(process), after.get(process)
        size = report.read_by(process)
        yield SimulatedInstance(
            name=names[process] if had else f"new-{new.index(process) + 1}",
            process_id=process if had else None,
            thread_count=max(each.threads for each in (had, has) if each),
            active_before=_texts(had.active) if had else None,
            active_after=_texts(has.active) if has else None,
            standby_before=_texts(had.standby) if had else None,
            standby_after=_texts(has.standby) if has else None,
            read_bytes=size,
            restore_ms=report.restore_ms(size),
        )


def _texts(tasks: frozenset[StreamsTask]) -> tuple[str, ...]:
    return tuple(map(str, sorted(tasks)))
