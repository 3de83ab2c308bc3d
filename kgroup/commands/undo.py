"""``kgroup undo``: undo a change that was made from this machine, according to its journal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.catchup.service.pending import begin_reading_cached_ledger
from kgroup.changes.execute import ChangeContext, PlannedChange
from kgroup.changes.journal import Journal
from kgroup.changes.options import Change
from kgroup.changes.preconditions import prepare_change
from kgroup.changes.undo import (
    UndoPlan,
    change_state,
    changes_of_group,
    clear_stale_members,
    last_change,
    not_undoable,
    plan_undo,
    share_groups,
)
from kgroup.cli.panels import FILE_SINK, what_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import make_change
from kgroup.groups.change_result import Refusal
from kgroup.groups.selection import Groups, check_groups
from kgroup.groups.undo_plan import (
    TypeUndo,
    UndoneOffset,
    hidden_commit_errors,
    moved_since,
    newest_release,
    refuse_released_since,
    type_restores,
)
from kgroup.model.blocks import Text
from kgroup.model.hidden_commits import MAY_BE_MISSING
from kgroup.model.journal import JournalEntry
from kgroup.model.outcome import Outcome
from kgroup.model.streaming_query import QueryChanges
from kgroup.output.pages.change import Wording, outcome, start_text, with_rows
from kgroup.output.pages.undo import TYPES_HEADER, other_changes, put_back, restored_offsets, types_table
from kgroup.queries.log_options import AsOf, LogBounds
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import MOVED_SINCE, ExitCode, NotFound, Refused, UsageError, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.instants import rfc3339, short_time
from kgroup.support.quoting import join
from kgroup.support.units import plural
from kgroup.support.user import whoami

NOT_YOURS = refusal_code(
    "not-yours",
    "undo",
    "Another user made the last change, and the command line names no change.",
    "Name the id of the change.",
)


def undo(
    run: Invocation,
    how: Change,
    when: AsOf,
    bounds: LogBounds,
    change: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID|GROUP]", help="A change, like ch-7k2f; the last one by default. With --as-of a group's name."
        ),
    ] = None,
    file_sink: Annotated[str | None, FILE_SINK] = None,
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show every partition.")] = False,
) -> Outcome:
    """Undo a change.

    kgroup writes each change to a journal on this machine (KGROUP_STATE_DIR) before it makes it. Without an id, the
    last change to this cluster is planned, and the others are listed. Offsets that moved since are not overwritten,
    except with --accept moved-since. An interrupted change is undone as far as it was made. Of a share group the start
    offsets are restored, not what is done after them.

    undo GROUP shows the group's changes in the journal, and the jumps of its offsets in the last day. For a change from
    another machine, or by another tool: undo GROUP --as-of TIME restores the offsets of that time from
    __consumer_offsets, and deletes offsets that did not exist then. Offsets that compaction removed from the log are
    unknown, and errors.

    Examples:
    # the plan that undoes the last change
    kgroup undo
    # undo it
    kgroup undo --execute
    # undo a change by its id, as soon as the group is empty
    kgroup undo ch-7k2f --wait-empty --execute
    # restore the offsets of an earlier time
    kgroup undo orders-svc --as-of 03:05Z

    Exit codes: 0 2 3 4 5 6 7 9 130 143

    Rights: READ G; READ T; DELETE G where there was no commit before
    More rights: of migrate, where it set configurations: DESCRIBE_CONFIGS G, ALTER_CONFIGS G; READ
    __share_group_state: archived records of share groups
    """
    prepare_change(run, how)
    if when.as_of is not None or bounds != LogBounds():
        return _as_of(run, how, change, when, bounds, verbose)
    journal = Journal()
    with ChangingCluster(run.settings) as cluster:
        cluster.query_changes = QueryChanges.of(file_sink, how.accept or ())
        cluster_id = cluster.ref.cluster_id
        entries = journal.entries(cluster_id)
        if journal.unreadable:
            files = plural(journal.unreadable, "file")
            run.reporter.warn(
                f"{files} of the journal {journal.directory} cannot be read: their changes are not listed"
            )
        entry = _last(run, cluster, journal, entries) if change is None else _journaled(run, cluster, journal, change)
        if not entry.undoable:
            raise not_undoable(entry)
        if entry.migrates:
            clear_stale_members(run.reporter, cluster, entry, execute=how.execute)
        plan_now = partial(_planned, cluster, how, entry, named=change is not None)
        planned, result = make_change(run, cluster, how, plan_now(), plan_now)
    undo_plan = planned.source
    if doubtful := sum(trace.doubtful for trace in undo_plan.traces):
        run.reporter.note(
            f"{plural(doubtful, 'partition')} left unchanged: it is unknown whether that change reached them, "
            "and another client has moved them since"
        )
    others = [other for other in entries if other.id != entry.id] if change is None else []
    wording = Wording(
        "undo",
        f"{entry.id}: {entry.what} {entry.subject}",
        run.command_line if change is not None else run.command_line.with_argument(entry.id),
        head=(Text(_change_lines(entry)),),
        before_end=other_changes([_change_row(other, entries) for other in others]),
        verbose=verbose,
        start=start_text(undo_plan.plan),
    )
    types = type_restores(result, entry.id)
    shown = outcome(
        result,
        wording,
        cluster.ref,
        run.reporter,
        run.command,
        nothing=f"nothing to do: everything is as it was before {entry.id}",
        table=lambda: (
            [*types_table(types, verbose=verbose), *put_back(result, verbose=verbose)]
            if entry.migrates
            else restored_offsets(result, undo_plan.traces, verbose=verbose)
        ),
        item=partial(UndoneOffset.of, undoes_change_id=entry.id),
    )
    for group, partitions in entry.hidden.items():
        if partitions is None:
            run.reporter.warn(f"{group}: {MAY_BE_MISSING}: such commits were deleted with it and cannot be restored")
    if lost := hidden_commit_errors(entry):
        decided = ExitCode.PARTLY if result.exit_code is ExitCode.DONE else result.exit_code
        shown = replace(shown, errors=(*shown.errors, *lost), decided=decided)
    return _with_types(shown, types)


def _planned(cluster: ChangingCluster, how: Change, entry: JournalEntry, *, named: bool) -> PlannedChange[UndoPlan]:
    """The plan at this moment. ``named`` is whether the command line names the change."""
    undo_plan = plan_undo(cluster, entry)
    accepted = MOVED_SINCE in (how.accept or ())
    refusals = [] if accepted else moved_since(undo_plan.traces, entry.id, share_groups(entry))
    if not named and entry.who != whoami():
        refusals.append(Refusal(None, _not_yours(entry)))
    context = ChangeContext(
        "undo",
        f"{entry.id}: {entry.what} {entry.subject}",
        undo_plan.layouts,
        undoes=entry.id,
        undone=_commits_by_group(entry),
        blocked_action="its type cannot be restored now" if entry.migrates else "its offsets cannot be moved",
        configs=undo_plan.configs,
    )
    return PlannedChange(undo_plan.plan, context, undo_plan, refusals)


def _with_types(shown: Outcome, types: Sequence[TypeUndo]) -> Outcome:
    """The outcome with groups as its rows, if types or configs of groups are restored; offsets otherwise."""
    if not types:
        return shown
    return replace(with_rows(shown, tuple(types), TYPES_HEADER), kind="undo types")


def _last(run: Invocation, cluster: ChangingCluster, journal: Journal, entries: Sequence[JournalEntry]) -> JournalEntry:
    """The newest change. Raises as ``last_change``, and Refused if a catch-up has released one of its groups since."""
    listing = begin_reading_cached_ledger(run.settings, cluster, None)(run.reporter).listing
    plans = () if listing is None else listing.heads
    try:
        entry = last_change(entries, journal, cluster)
    except NotFound as error:
        mine = [plan for plan in plans if plan.who == whoami() and plan.may_be_open]
        release = newest_release(mine, [plan.group for plan in mine if plan.group], 0)
        if release is None:
            raise
        raise error.with_context(details=(release.line(utc_ms()),), hint=release.hint) from None
    if (release := newest_release(plans, entry.groups, entry.at_ms)) is not None:
        raise refuse_released_since(release, entry, utc_ms())
    return entry


def _journaled(run: Invocation, cluster: ChangingCluster, journal: Journal, change: str) -> JournalEntry:
    """The change with this id. For a group's name, NotFound has its changes and its jumps, each with its command."""
    try:
        return journal.entry(change, cluster.ref.cluster_id)
    except NotFound:
        if change.lower().startswith("ch-"):
            raise
        # Imported here: the id is usually right.
        from kgroup.groups.history.own_changes import OwnChanges
        from kgroup.output.pages.history_commits import undo_lines
        from kgroup.queries.history import read_jumps

        entries = journal.entries(cluster.ref.cluster_id)
        history = read_jumps(cluster, change, OwnChanges(entries))
        changes = changes_of_group(entries, change, utc_ms())
        if history is None and not changes:
            raise
        listing = begin_reading_cached_ledger(run.settings, cluster, frozenset({change}))(run.reporter).listing
        closed = frozenset() if listing is None else listing.closed
        jumps = () if history is None else tuple(undo_lines(history, closed))
        if changes:
            changes = (f"The journal {journal.directory} has changes of {change}:", *changes)
        else:
            changes = (f"The journal {journal.directory} has no change of {change}.",)
        if jumps:
            heading = f"__consumer_offsets shows jumps of {change} in the last day"
            jumps = (f"{heading}; to restore the offsets from just before one:", *jumps)
        if any(change in share_groups(entry) for entry in entries):  # no log has its start offsets of an earlier time
            raise NotFound(f"{change} is a share group: name one of its changes", details=changes) from None
        raise NotFound(
            f"{change} is a group: name one of its changes, or a time",
            details=(*changes, *jumps),
            hint=Hint("To restore the offsets of an earlier time: {}", ("undo", change, "--as-of", "TIME")),
        ) from None


def _as_of(run: Invocation, how: Change, group: str | None, when: AsOf, bounds: LogBounds, verbose: bool) -> Outcome:
    """Restore a group's offsets to those of a given time."""
    # Imported here: most changes are in the journal.
    from kgroup.changes.undo_as_of import plan_as_of
    from kgroup.queries.from_log import check_bounds, parse_past_time
    from kgroup.queries.log_options import brokers_now

    check_bounds(bounds, reads=when.as_of is not None, missing="kgroup undo GROUP --as-of TIME")
    if group is None or when.as_of is None:
        raise UsageError("--as-of requires a group", hint="kgroup undo GROUP --as-of TIME")
    check_groups(Groups(names=[group]))
    parse_past_time(when.as_of)
    with ChangingCluster(run.settings) as cluster:
        at_ms = parse_past_time(when.as_of, brokers_now(run.reporter, cluster))
        then = (rfc3339(at_ms) or when.as_of).replace(".000Z", "Z")

        def planned() -> PlannedChange[None]:
            plan, layouts = plan_as_of(run.reporter, cluster, group, at_ms, bounds)
            context = ChangeContext("undo", f"{group} as of {then}", layouts, undone_from_ms=at_ms)
            return PlannedChange(plan, context, None)

        change, result = make_change(run, cluster, how, planned(), planned)
        # The instant, and not what was typed: "5m" is another one when the plan is executed.
        typed = run.command_line.with_option("--as-of", then)
        wording = Wording("undo", f"{group} as of {then}", typed, verbose=verbose, start=start_text(change.plan))
        return outcome(
            result,
            wording,
            cluster.ref,
            run.reporter,
            run.command,
            nothing=f"nothing to do: the offsets of {group} are as they were at {then}",
            item=partial(UndoneOffset.of, undoes_change_id=None),
        )


def _commits_by_group(entry: JournalEntry) -> dict[str, set[tuple[str, int, int]]]:
    """The commits that a change has made."""
    made: dict[str, set[tuple[str, int, int]]] = {}
    for row in entry.rows:
        if row.after is not None:
            made.setdefault(row.group, set()).add((*row.tp, row.after.offset))
    return made


def _not_yours(entry: JournalEntry) -> Refused:
    return Refused(
        f"the last change was made by {entry.who}",
        hint=Hint("To undo that change, name it: {}", ("undo", entry.id)),
        code=NOT_YOURS,
    )


def _change_lines(entry: JournalEntry) -> tuple[str, ...]:
    reason = f'  "{entry.reason}"' if entry.reason else ""
    unfinished = "  (interrupted, or results are missing)" if entry.ended is None else ""
    return (f"  {short_time(entry.at_ms, utc_ms())}  {entry.who}{reason}{unfinished}", f"  {join(entry.command)}")


def _change_row(entry: JournalEntry, entries: Sequence[JournalEntry]) -> tuple[str, ...]:
    what = f"{entry.what} {entry.subject}"
    return entry.id, short_time(entry.at_ms, utc_ms()), entry.who, what, change_state(entry, entries)
