"""From a plan to its result: the plan is shown with its refusals, or written to the journal and applied.

The plan that is shown is the one that is applied. The results of each request are recorded as they arrive. After
SIGTERM or ctrl-C the requests in progress finish, and the rest is reported as not done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kgroup.changes.backup import write_backup
from kgroup.changes.guards import UndoneCommits, check_change_permitted, check_guards
from kgroup.changes.journal import ChangeWriter, Journal
from kgroup.changes.options import Change, Execution
from kgroup.changes.rights import apply_rights
from kgroup.changes.verify import (
    commit_of,
    commits_changed_since_plan,
    find_unverified_conversions,
    read_back,
    recheck_plan,
)
from kgroup.cluster.commit_requests import parts_of
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.lost_responses import unknown_outcome
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.topics import Layouts, TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import UNKNOWN, Refusal, Result
from kgroup.model.groups import Group, RowError
from kgroup.model.journal import JournalEntry, JournalRow
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.model.topic_partition import GroupTopicPartition
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.errors import KgroupError, NotVerified, Refused
from kgroup.support.hint import Hint
from kgroup.support.signals import defer_signals
from kgroup.support.user import whoami

COMMITS = SnapshotRequest(logs=False, generation_budget_s=0, stable=True, hidden_budget_s=5.0)
"""What a plan reads of each group: its members and its committed offsets."""

COMMITS_OF_ANY = replace(COMMITS, queries=True)
"""The same, where streaming queries may be named."""

STARTS = replace(COMMITS, share=True, settings=True)
"""The same, where share groups may be named: what they have in place of commits."""

_BACKED_UP = "the backup has the offsets as they were"


def journaled() -> str:
    """The effect of a change that began, for the message about a signal."""
    return Hint("what was done is in the journal: {}", ("undo",))


_AT_A_TIME = 100
_PROGRESS_FROM = 200

T = TypeVar("T")
Source = TypeVar("Source")


class ChangeContext(msgspec.Struct, frozen=True):
    """The journal's name for a change, and what else the verb knows about it.

    ``what`` is the verb, ``subject`` its object (``pay-svc, 1 partition``). ``layouts`` are the current topics.
    ``prepare`` is called when no refusal is left, before anything is changed. With ``live`` groups may have members.
    ``undoes`` is the id of the change that this one undoes, ``undone`` are its commits. ``undone_from_ms`` is the time
    whose offsets are restored, None without one. ``blocked_action`` completes the message "G is not empty, so ...".
    ``configs`` are the current dynamic configs of the groups.
    """

    what: str
    subject: str
    layouts: Layouts = msgspec.field(default_factory=dict)
    prepare: Callable[[ChangePlan], None] | None = None
    live: bool = False
    undoes: str | None = None
    undone_from_ms: int | None = None
    undone: UndoneCommits = msgspec.field(default_factory=dict)
    blocked_action: str = "its offsets cannot be moved"
    configs: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)


class PlannedChange(msgspec.Struct, Generic[Source], frozen=True):
    """A change as a verb plans it at this moment; ``source`` is what it was made from, if needed later.

    ``refusals`` are the verb's own. ``waits_for`` are the groups that ``--wait-empty`` waits for, None: all.
    """

    plan: ChangePlan
    context: ChangeContext
    source: Source
    refusals: Sequence[Refusal] = ()
    waits_for: Sequence[Group] | None = None


def check_plan(
    run: Invocation,
    cluster: ChangingCluster,
    how: Change,
    planned: PlannedChange[Source],
    *,
    waits: bool,
) -> Result:
    """The plan with everything that prevents it as far as it is known; nothing is changed."""
    plan, context = planned.plan, planned.context
    blocked_action = None if context.live else context.blocked_action
    guards = check_guards(
        run.reporter, cluster, how, plan, blocked_action, context.undone_from_ms, context.undone
    ).refusals
    plan, forbidden = apply_rights(run.reporter, cluster, plan)
    prevents = (
        *planned.refusals,
        *check_change_permitted(run.settings, how, backup=how.backup is not None),
        *guards,
        *forbidden,
    )
    return Result(plan, prevents, partial=how.partial, waits=waits)


def execute_plan(run: Invocation, cluster: ChangingCluster, how: Change, planned: PlannedChange[Source]) -> Result:
    """Check the plan, and with ``--execute`` apply its possible rows.

    Raises KgroupError if it cannot begin: another kgroup run holds the journal, or the backup or ``prepare`` failed.
    """
    context = planned.context
    waits = how.wait_empty and not how.execute and not all(group.is_free for group in planned.plan.groups)
    result = check_plan(run, cluster, how, planned, waits=waits)
    possible = result.possible
    if not (how.execute and possible.size) or (result.errors and not how.partial):
        return result
    if context.prepare:  # it may take minutes, in which other clients may commit
        context.prepare(possible)
    with journaling(run.reporter, backup=how.backup is not None) as journal:
        result = recheck_plan(cluster, result)
        possible = result.possible
        if not possible.size or (result.errors and not how.partial):
            return result
        write_backup(how, possible, cluster.ref)
        entry = _journal_entry(run.typed, cluster, how, possible, context, journal) if journal else None
        try:
            writing = journal.begin(entry) if journal and entry else None
        except Refused as error:  # the disk is full; the plan is shown with this refusal
            return replace(result, refusals=(*result.refusals, Refusal(None, error)))
        run.reporter.note_effect(*(journaled(), entry.id) if entry else (_BACKED_UP,))
        ended = _apply(run.reporter, cluster, result, writing)
        return replace(ended, id=entry.id) if entry else replace(ended, backup=how.backup)


@contextmanager
def journaling(reporter: Reporter, *, backup: bool = False) -> Iterator[Journal | None]:
    """The locked journal; None if it cannot be written and a ``backup`` replaces it. Without one raises Refused."""
    journal = Journal()
    try:
        journal.require_writable()
    except Refused as error:
        if not backup:
            raise
        reporter.warn(f"{error.message}: only the backup can undo this change")
        yield None
        return
    with journal.locked(reporter):
        yield journal


def _journal_entry(
    command: Sequence[str],
    cluster: ChangingCluster,
    how: Change,
    plan: ChangePlan,
    context: ChangeContext,
    journal: Journal,
) -> JournalEntry:
    types = {group.name: group.type for group in plan.groups}
    topics = sorted({row.topic for row in plan.rows})
    return replace(
        new_entry(command, cluster, how, context, journal),
        groups={name: SHARE if name in plan.share else types.get(name, "classic") for name in plan.affected_groups},
        topics={
            topic: layout.id if isinstance(layout := context.layouts.get(topic), TopicLayout) else None
            for topic in topics
        },
        rows=tuple(JournalRow(row.group, *row.tp, row.old, row.new) for row in plan.rows),
        hidden={g.name: g.hidden_commits for g in plan.groups if g.name in plan.deleted and g.hidden_commits != ()},
        created=plan.created & frozenset(plan.affected_groups),
        deleted=plan.deleted,
        converted={name: (types.get(name, "classic"), kind) for name, kind in plan.converted.items()},
        configs={
            name: {key: (context.configs.get(name, {}).get(key), value) for key, value in wanted.items()}
            for name, wanted in plan.configs.items()
        },
    )


def new_entry(
    command: Sequence[str], cluster: ChangingCluster, how: Execution, context: ChangeContext, journal: Journal
) -> JournalEntry:
    """A journal entry without groups and rows: who, when, why, by which ``command``, as it was typed."""
    return JournalEntry(
        id=journal.new_id(),
        at=utc_now(),
        who=whoami(),
        what=context.what,
        subject=context.subject,
        command=tuple(command),
        reason=how.reason or variable("KGROUP_REASON"),
        cluster=cluster.ref,
        groups={},
        topics={},
        rows=(),
        undoes=context.undoes,
    )


def _apply(reporter: Reporter, cluster: ChangingCluster, planned: Result, writing: ChangeWriter | None) -> Result:
    possible = planned.possible
    results: dict[GroupTopicPartition, KgroupError | None] = {}
    whole: dict[str, RowError | None] = {}
    configured: dict[str, RowError | None] = {}
    count = len(possible.affected_groups)
    shows = reporter.progress("changing", count, "groups") if count >= _PROGRESS_FROM else nullcontext()
    so_far = 0
    with defer_signals() as pending, shows as progress:
        for done in _send(cluster, possible):
            results |= done.rows
            whole |= _row_errors(done.groups)
            configured |= _row_errors(done.configured)
            if writing:
                writing.record_results(done.rows)
                writing.converted({name: error for name, error in done.groups.items() if name in possible.converted})
                writing.configured(done.configured)
            so_far += len(({group for group, _, _ in done.rows} - possible.converted.keys()) | done.groups.keys())
            if progress:
                progress.update(min(so_far, count))
            if pending:
                break
        back = None if pending else read_back(cluster, possible)
        missing = {} if pending else find_unverified_conversions(possible, results, whole, back)
        if writing:
            writing.converted(missing)
            writing.close()
            if writing.fault:
                reporter.warn(writing.fault)
    refused, not_done = planned.refused_groups, _not_done()
    ended = (
        row if row.error or row.group in refused else ended_row(row, results, back, not_done)
        for row in planned.plan.rows
    )
    plan = planned.plan.with_rows(ended)
    whole |= _row_errors(missing) | {name: configured[name] for name in possible.only_configured & configured.keys()}
    whole |= {name: replace(not_done, group=name) for name in possible.whole if name not in whole}
    return replace(planned, plan=plan, executed=True, interrupted=pending.exit_code, whole=whole, configured=configured)


class _Round(msgspec.Struct, frozen=True):
    """The results of one round of requests: rows, groups changed as a whole, and group configs; None is success."""

    rows: Mapping[GroupTopicPartition, KgroupError | None] = msgspec.field(default_factory=dict)
    groups: Mapping[str, KgroupError | None] = msgspec.field(default_factory=dict)
    configured: Mapping[str, KgroupError | None] = msgspec.field(default_factory=dict)


def _row_errors(results: Mapping[str, KgroupError | None]) -> dict[str, RowError | None]:
    return {group: RowError.of(error, group=group) if error else None for group, error in results.items()}


def _send(cluster: ChangingCluster, plan: ChangePlan) -> Iterator[_Round]:
    """Send the requests round by round: first offsets, then the changes of whole groups.

    A group is converted only after all its commits were made again; otherwise they would expire minutes later. Right
    before that its commits are read once more, so that another client's new commit is not overwritten. (The broker
    cannot do both in one step.) Configs come last, so that a failed conversion leaves none behind.
    """
    by_group = plan.by_group()
    parts = [
        part
        for group, rows in by_group.items()
        if group not in plan.deleted
        for part in parts_of(
            group,
            {row.tp: row.new for row in rows},
            {row.tp: row.old for row in rows},
            share=group in plan.share,
            creates=group in plan.created,
        )
    ]
    failed: dict[str, KgroupError] = {}
    for batch in _batches(parts):
        moved = commits_changed_since_plan(cluster, [part for part in batch if part.group in plan.converted])
        sent = [part for part in batch if part.group not in moved]
        answers = zip(sent, cluster.write_offsets(sent), strict=True)
        rows = {(part.group, *tp): error for part, results in answers for tp, error in results.items()}
        rows |= {(part.group, *tp): moved[part.group] for part in batch if part.group in moved for tp in part.writes}
        kept = {name: error for (name, *_), error in rows.items() if error and name in plan.converted}
        failed |= kept
        yield _Round(rows, kept)
    for names in _batches(sorted(plan.deleted)):
        gone = cluster.delete_groups(
            {name: {row.tp: row.old for row in by_group.get(name, ())} for name in names}, plan.share
        )
        yield _Round({(name, *row.tp): gone[name] for name in names for row in by_group.get(name, ())}, gone)
    for names in _batches(sorted(plan.converted.keys() - failed.keys())):
        try:
            results = cluster.convert({name: plan.converted[name] for name in names})
        except KgroupError as error:  # the results of the earlier rounds must still be reported
            results = dict.fromkeys(names, error)
        yield _Round(groups=results)
        converted = [name for name in names if results[name] is None and name in plan.configs]
        yield _set_configs(cluster, plan, converted)
    for names in _batches(sorted(plan.only_configured)):
        yield _set_configs(cluster, plan, names)


def _set_configs(cluster: ChangingCluster, plan: ChangePlan, names: Sequence[str]) -> _Round:
    from kgroup.cluster.configs import set_configs  # only migrate and its undo need it

    configs = {name: plan.configs[name] for name in names}
    try:
        return _Round(configured=cluster.ask(set_configs, configs) if configs else {})
    except KgroupError as error:  # the broker may have executed it
        return _Round(configured=dict.fromkeys(names, unknown_outcome(error)))


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + _AT_A_TIME] for at in range(0, len(items), _AT_A_TIME))


def ended_row(
    row: ChangeRow,
    results: Mapping[GroupTopicPartition, KgroupError | None],
    back: Mapping[str, CommittedOffsets | KgroupError] | None,
    not_done: RowError,
) -> ChangeRow:
    key = (row.group, *row.tp)
    if key not in results:
        return replace(row.failing(not_done), done=False)
    if error := results[key]:
        return replace(row.failing(RowError.of(error)), done=None if error.code == UNKNOWN else False)
    stored = None if back is None else commit_of(back, row)
    if back is None or isinstance(stored, KgroupError):
        return replace(row, note="not read back" if row.note is None else f"{row.note}; not read back").ended(
            None, unread=True
        )
    if stored == row.old != row.new and row.counted is not None:
        return replace(row.failing(RowError.of(_not_set(row))), done=False, read_back=stored)
    if stored != row.new:
        now = "no commit" if stored is None else str(stored.offset)
        row = replace(
            row, note=f"the group has committed since: now {now}" if row.note is None else f"{row.note}; now {now}"
        )
    return row.ended(stored)


def _not_set(row: ChangeRow) -> NotVerified:
    return NotVerified(
        "the broker answered that the start offset is set, but it is as before",
        hint=Hint("To read it again: {}", ("describe", row.group)),
    )


def _not_done() -> RowError:
    again = "the same command applies the rest, but --shift-by shifts all partitions once more"
    hint = Hint(f"{{}} undoes what was done; {again}", ("undo",))
    return RowError("interrupted", "not done: kgroup was stopped first", hint=hint)
