"""From a plan to its outcome: shown with all that stands in its way, or written to the journal and applied.

The plan that is shown is the one that is applied. Each request's results are written down as they come;
SIGTERM and ctrl-C let the requests under way finish, and the rest is said not to be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kgroup.changing.backup import write_backup
from kgroup.changing.guards import guard, protected
from kgroup.clock import utc_now
from kgroup.cluster.apply import ChangingCluster, parts_of
from kgroup.cluster.logs import TopicLayout
from kgroup.cluster.snapshot import Want
from kgroup.errors import ExitCode, KgroupError, NotFound, Refused
from kgroup.groups.change import Plan, Row
from kgroup.groups.result import UNKNOWN, Refusal, Result
from kgroup.journal import Entry, Journal, JournalRow, Place, Writing, whoami
from kgroup.model import Commit, RowError
from kgroup.options import Change, Execution
from kgroup.run import Run
from kgroup.signals import put_off

COMMITS = Want(logs=False, generation_budget_s=0, stable=True)
"""What a plan reads of groups: who is in them, and what they have committed."""

_AT_A_TIME = 100
_PROGRESS_FROM = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Doing:
    """How the journal calls a change, and what else the verb knows of it.

    ``what`` is the verb and ``subject`` what it is about (``pay-svc, 1 partition``). ``layouts`` are the topics
    as they are now. ``prepare`` is called when nothing stands in the way any more, before anything is changed.
    ``live`` says that groups with members may be changed too; ``undoes`` is the change that is taken back.
    ``hindered`` is what live members stand in the way of.
    """

    what: str
    subject: str
    layouts: Mapping[str, TopicLayout | KgroupError] = field(default_factory=dict)
    prepare: Callable[[Plan], None] | None = None
    live: bool = False
    undoes: str | None = None
    hindered: str = "its offsets cannot be moved"


def carry_out(
    run: Run,
    cluster: ChangingCluster,
    how: Change,
    plan: Plan,
    doing: Doing,
    refusals: Sequence[Refusal] = (),
) -> Result:
    """Guard the plan, and with ``--execute`` apply what may be; ``refusals`` are those that the verb found itself.

    Raises KgroupError where it can't be begun: the journal, the backup or the preparation failed.
    """
    guards = guard(run, cluster, how, plan, None if doing.live else doing.hindered)
    found = (*refusals, *protected(run, how, backup=how.backup is not None), *guards)
    result = Result(plan, found, partial=how.partial, waits=how.wait_empty and not how.execute)
    possible = result.possible
    if not (how.execute and possible.size) or (result.errors and result.exit_code is not ExitCode.PARTLY):
        return result
    if doing.prepare:  # it may take minutes, in which others may go on
        doing.prepare(possible)
    with journaling(run, backup=how.backup is not None) as journal:
        result = _still(cluster, result)
        possible = result.possible
        if not possible.size or (result.errors and result.exit_code is not ExitCode.PARTLY):
            return result
        write_backup(how, possible, cluster.ref)
        entry = _entry(run, cluster, how, possible, doing, journal) if journal else None
        writing = journal.begin(entry) if journal and entry else None
        run.result.touched, run.result.change = True, entry.id if entry else None
        ended = _applied(run, cluster, result, writing)
        return replace(ended, id=entry.id) if entry else replace(ended, backup=how.backup)


def _still(cluster: ChangingCluster, result: Result) -> Result:
    """The same result, with errors for what is no longer as the plan shows it: it is looked at under the lock."""
    possible = result.possible
    now = _Now.of(cluster, possible.concerned)
    faults: dict[int, RowError] = {}
    for row in possible.rows:
        if error := now.error(row):
            faults[id(row)] = error
        elif now.commit(row) != row.old:
            faults[id(row)] = _MOVED
    known = {(row.group, *row.place) for row in possible.rows}
    changed = {place[0] for place in now.commits.keys() - known} | {r.group for r in possible.rows if id(r) in faults}
    gone = sorted(possible.deleted & changed)
    if not (faults or gone):
        return result
    rows = (row.failing(faults[id(row)]) if id(row) in faults else row for row in result.plan.rows)
    refusals = tuple(Refusal(name, _used_again(name)) for name in gone)
    return replace(result, plan=result.plan.with_rows(rows), refusals=(*result.refusals, *refusals))


def _used_again(group: str) -> Refused:
    return Refused(
        f"{group} has committed since the plan was made",
        hint="see who uses it: kgroup describe",
        code="moved-since",
    )


@contextmanager
def journaling(run: Run, *, backup: bool = False) -> Iterator[Journal | None]:
    """The journal, locked; None where it can't be written and a backup stands in for it. Else raises Refused."""
    journal = Journal()
    try:
        journal.require_writable()
    except Refused as error:
        if not backup:
            raise
        run.reporter.warn(f"{error.message}: this change can be taken back with its backup alone")
        yield None
        return
    with journal.locked(run.reporter):
        yield journal


def _entry(run: Run, cluster: ChangingCluster, how: Change, plan: Plan, doing: Doing, journal: Journal) -> Entry:
    types = {group.name: group.type for group in plan.groups}
    topics = sorted({row.topic for row in plan.rows})
    return replace(
        new_entry(run, cluster, how, doing, journal),
        groups={name: types.get(name, "classic") for name in plan.concerned},
        topics={
            topic: found.id if isinstance(found := doing.layouts.get(topic), TopicLayout) else None for topic in topics
        },
        rows=tuple(JournalRow(row.group, *row.place, row.old, row.new) for row in plan.rows),
        created=plan.created & frozenset(plan.concerned),
        deleted=plan.deleted,
    )


def new_entry(run: Run, cluster: ChangingCluster, how: Execution, doing: Doing, journal: Journal) -> Entry:
    """An entry of the journal without groups and rows: who, when, why, by which command."""
    return Entry(
        id=journal.new_id(),
        at=utc_now(),
        who=whoami(),
        what=doing.what,
        subject=doing.subject,
        command=tuple(run.typed),
        reason=how.reason or os.environ.get("KGROUP_REASON") or None,
        cluster=cluster.ref,
        groups={},
        topics={},
        rows=(),
        undoes=doing.undoes,
    )


def _applied(run: Run, cluster: ChangingCluster, planned: Result, writing: Writing | None) -> Result:
    possible = planned.possible
    results: dict[Place, KgroupError | None] = {}
    deleted: dict[str, RowError | None] = {}
    count = len(possible.concerned)
    shows = run.reporter.progress("changing", count, "groups") if count >= _PROGRESS_FROM else nullcontext()
    so_far = 0
    with put_off() as pending, shows as progress:
        for rows, groups in _sent(cluster, possible):
            results |= rows
            deleted |= {group: RowError.of(error, group=group) if error else None for group, error in groups.items()}
            if writing:
                writing.done(rows)
            so_far += len({place[0] for place in rows} | groups.keys())
            if progress:
                progress.update(min(so_far, count))
            if pending:
                break
        back = None if pending else _read_back(cluster, possible)
        if writing:
            writing.close()
    tried = {id(row) for row in possible.rows}
    ended = tuple(_ended(row, results, back) if id(row) in tried else row for row in planned.plan.rows)
    plan = replace(planned.plan, rows=ended)
    return replace(planned, plan=plan, executed=True, interrupted=pending.exit_code, deleted=deleted)


def _sent(
    cluster: ChangingCluster, plan: Plan
) -> Iterator[tuple[dict[Place, KgroupError | None], dict[str, KgroupError | None]]]:
    """(results by row, results by deleted group) of one round of requests after the other; offsets go first."""
    by_group = plan.by_group()
    parts = [
        part
        for group, rows in by_group.items()
        if group not in plan.deleted
        for part in parts_of(group, {row.place: row.new for row in rows}, {row.place: row.old for row in rows})
    ]
    for batch in _batches(parts):
        answers = zip(batch, cluster.write_offsets(batch), strict=True)
        yield {(part.group, *place): error for part, found in answers for place, error in found.items()}, {}
    for names in _batches(sorted(plan.deleted)):
        gone = cluster.delete_groups({name: {row.place: row.old for row in by_group.get(name, ())} for name in names})
        yield {(name, *row.place): gone[name] for name in names for row in by_group.get(name, ())}, gone


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + _AT_A_TIME] for at in range(0, len(items), _AT_A_TIME))


@dataclass(frozen=True, slots=True)
class _Now:
    """What is committed now, and what of it could not be read, by group, or by group and partition."""

    commits: Mapping[Place, Commit]
    errors: Mapping[str | Place, RowError]

    @classmethod
    def of(cls, cluster: ChangingCluster, names: Sequence[str]) -> _Now:
        """Look at these groups; one that does not exist has no commits."""
        commits: dict[Place, Commit] = {}
        errors: dict[str | Place, RowError] = {}
        for group, found in (cluster.committed(names) if names else {}).items():
            if isinstance(found, KgroupError):
                if not isinstance(found, NotFound):
                    errors[group] = RowError.of(found)
                continue
            for place, commit in found.items():
                if isinstance(commit, Commit):
                    commits[group, *place] = commit
                else:
                    errors[group, *place] = RowError.of(commit)
        return cls(commits, errors)

    def error(self, row: Row) -> RowError | None:
        """Why it is not known what stands in the row's place; None where it is."""
        return self.errors.get(row.group) or self.errors.get((row.group, *row.place))

    def commit(self, row: Row) -> Commit | None:
        """What stands in the row's place."""
        return self.commits.get((row.group, *row.place))


def _read_back(cluster: ChangingCluster, plan: Plan) -> _Now | None:
    """What is committed now; None where that could not be read."""
    try:
        return _Now.of(cluster, [name for name in plan.concerned if name not in plan.deleted])
    except KgroupError:
        return None


def _ended(row: Row, results: Mapping[Place, KgroupError | None], back: _Now | None) -> Row:
    place = (row.group, *row.place)
    if place not in results:
        return replace(row.failing(_NOT_DONE), done=False)
    if error := results[place]:
        return replace(row.failing(RowError.of(error)), done=None if error.code == UNKNOWN else False)
    if back is None or back.error(row):
        return row.ended(None)
    stands = back.commit(row)
    if stands != row.new:
        now = "no commit" if stands is None else str(stands.offset)
        row = replace(row, note=f"moved on since: now {now}" if row.note is None else f"{row.note}; now {now}")
    return row.ended(stands)


_MOVED = RowError(
    "moved-since",
    "the commit was moved since the plan was made",
    hint="look at the plan once more",
    exit_code=ExitCode.REFUSED,
)
_NOT_DONE = RowError(
    "interrupted",
    "not done: kgroup was told to stop before",
    hint="kgroup undo takes back what was done; the same command does the rest, but --shift-by shifts all once more",
)
