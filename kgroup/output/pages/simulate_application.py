"""The page of a simulated Streams application: its tasks, the state that is read, its instances."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.simulation.application_documents import SimulatedInstance, instances
from kgroup.groups.simulation.applications import ApplicationReport
from kgroup.groups.simulation.scenarios import CountRange
from kgroup.model.blocks import BlankLine, Block, Cell, Column, LabelledLine, Prose, Styled, Table, Title
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes, plural

_MOST = 20
_COLUMNS = (
    Column("INSTANCE", fold=True),
    Column("THREADS", right=True, drop=2),
    Column("BEFORE", right=True),
    Column("AFTER", right=True),
    Column("STANDBY", right=True, drop=1),
    Column("READS", right=True),
    Column("RESTORE", right=True),
    Column("HAD", wide=True, fold=True),
    Column("HAS", wide=True, fold=True),
)
_SPARSE = frozenset({"RESTORE", "STANDBY"})


def application_page(report: ApplicationReport) -> Iterator[Block]:
    application, first = report.application, report.first
    size = f"{plural(len(first.before), 'instance')}, {plural(len(application.topology.tasks()), 'task')}"
    yield Title(f"{application.group}  {size}, {_change_text(report)}")
    yield LabelledLine("TASKS", _tasks_text(report))
    yield LabelledLine("STATE", state_text(report))
    yield LabelledLine("STOPS", stops_text(report))
    yield BlankLine()
    rows = list(instances(report))
    if len(rows) > _MOST:
        rows.sort(key=lambda row: -(row.read_bytes or 0))
    yield Table(_COLUMNS, [_row(row) for row in rows[:_MOST]], _SPARSE)
    left = [f"{len(rows) - _MOST} more instances: -o json has all of them"] if len(rows) > _MOST else []
    yield Prose((*left, *_notes(report)), 2)


def _change_text(report: ApplicationReport) -> str:
    change, parts = report.change, []
    if change.leaving:
        parts.append(f"{plural(len(change.leaving), 'instance')} removed")
    if change.add:
        parts.append(f"{plural(change.add, 'instance')} added")
    return ", then ".join(parts)


def _tasks_text(report: ApplicationReport) -> str:
    moved, needless = report.span(lambda run: run.moved), report.span(lambda run: run.needless)
    return f"{moved.text} of {len(report.application.topology.tasks())} move, {needless.text} of them needlessly"


def state_text(report: ApplicationReport) -> str:
    """``1.2 GiB is read by instances that do not have it, at least 300 MiB of it needlessly``."""
    size, needless = report.bytes_read, report.bytes_read_needlessly
    if size is None:
        count = report.span(lambda run: sum(1 for _ in run.reads))
        return f"{count.text} copies are read by instances that do not have them; their size is unknown"
    if not size.most:
        return "none is read: each instance has that of its tasks"
    at_most = "at most " if report.application.size_is_bound else ""
    text = f"{at_most}{_bytes_text(size)} {'is' if size.most == size.least else 'are'} read by instances without it"
    return f"{text}, at least {_bytes_text(needless)} of it needlessly" if needless and needless.most else text


def stops_text(report: ApplicationReport) -> str:
    stopped = report.span(lambda run: run.stopped)
    if not stopped.most:
        if report.application.classic and any(run.moved for run in report.runs):
            return "none: tasks move when their state has been copied (max.warmup.replicas at a time)"
        return "no task waits for its state"
    verb, whose = ("does", "its") if stopped.most == 1 else ("do", "their")
    return f"{stopped.text} of them {verb} not run until {whose} state is read"


def _bytes_text(size: CountRange) -> str:
    least, most = human_bytes(size.least), human_bytes(size.most)
    return least if least == most else f"{least} to {most}"


def _row(row: SimulatedInstance) -> tuple[Cell, ...]:
    return (
        row.name,
        row.thread_count,
        None if row.active_before is None else len(row.active_before),
        Styled("gone", "dim") if row.active_after is None else len(row.active_after),
        None if row.standby_after is None else len(row.standby_after),
        None if row.read_bytes is None else human_bytes(row.read_bytes),
        None if row.restore_ms is None else format_duration(row.restore_ms / 1000),
        None if row.active_before is None else ", ".join(row.active_before),
        None if row.active_after is None else ", ".join(row.active_after),
    )


def _notes(report: ApplicationReport) -> Iterator[str]:
    application = report.application
    if application.classic:
        yield "as the default assignor of Kafka Streams puts them, once each instance has the state of its tasks"
        yield f"standby copies of a task: {application.topology.standbys}, as now"
    else:
        yield "as the broker's assignor of Kafka 4.4 puts them"
    if application.size_is_bound:
        yield "no broker shows which changelog is whose: sizes are those of all that may be"
    if len(report.runs) > 1:
        yield f"process ids of new instances are invented: least to most of {len(report.runs)} runs"
