"""``kgroup undo``: undo a change that was made from this machine, according to its journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from kgroup.catchup.service.pending import warn_of_plans
from kgroup.changes.conversion import remove_stale_members
from kgroup.changes.execute import ChangeContext, execute_plan
from kgroup.changes.journal import Journal, whoami
from kgroup.changes.options import Change
from kgroup.changes.preconditions import prepare_change, wait_empty
from kgroup.changes.undo import change_state, last_change, not_undoable, plan_undo
from kgroup.changes.verify import TYPE_ONLY
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_result import Refusal
from kgroup.groups.selection import Groups, check_groups
from kgroup.groups.undo_plan import hidden_commit_errors, moved_since, type_restores
from kgroup.model.blocks import Text
from kgroup.model.hidden_commits import MAY_BE_MISSING
from kgroup.model.journal import JournalEntry
from kgroup.model.outcome import Outcome
from kgroup.output.pages.change import Wording, outcome, with_rows
from kgroup.output.pages.undo import before_after_now, other_changes, put_back, types_records, types_table
from kgroup.queries.log_options import AsOf, LogBounds
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import ExitCode, Refused, UsageError
from kgroup.support.instants import rfc3339
from kgroup.support.quoting import join
from kgroup.support.units import plural


def undo(
    run: Invocation,
    how: Change,
    when: AsOf,
    bounds: LogBounds,
    change: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID|GROUP]", help="A change, like ch-7k2f; the last one by default. With --as-of a group."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", rich_help_panel=WHAT, help="Show every partition.")] = False,
) -> Outcome:
    """Take back a change.

    Every change that kgroup executes is written down before it is made, in the journal of this machine
    (KGROUP_STATE_DIR). Without an id the last one of this cluster is planned, and the others are listed. What was
    moved since is not overwritten, unless --accept moved-since says so. A change that kgroup could not finish is
    taken back as far as it was made.

    For a change that was made from another machine, or by another tool: undo GROUP --as-of TIME puts the group's
    offsets back as they stood then, out of __consumer_offsets; where there was none then, the offset is deleted. What
    compaction took from the log can't be told, and is an error of its own.

    Examples:
    kgroup undo
    kgroup undo --execute
    kgroup undo ch-7k2f --wait-empty --execute
    kgroup undo orders-svc --as-of 03:05Z

    Exit codes: 0 2 3 4 5 6 7 130 143
    """
    prepare_change(run, how)
    if when.as_of is not None or bounds != LogBounds():
        return _as_of(run, how, change, when, bounds, verbose)
    journal = Journal()
    with ChangingCluster(run.settings) as cluster:
        cluster_id = cluster.ref.cluster_id
        entries = journal.entries(cluster_id)
        if journal.unreadable:
            files = plural(journal.unreadable, "file")
            run.reporter.warn(f"{files} of the journal {journal.directory} can't be read: changes are missing here")
        entry = journal.entry(change, cluster_id) if change is not None else last_change(entries, journal, cluster)
        if not entry.undoable:
            raise not_undoable(entry)
        if entry.migrates:
            groups = cluster.describe(sorted(entry.groups), TYPE_ONLY).groups
            remove_stale_members(run.reporter, cluster, groups, execute=how.execute)
        wait_empty(run.reporter, cluster, how, sorted(entry.groups))
        undo_plan = plan_undo(cluster, entry)
        refusals = moved_since(undo_plan.traces) if "moved-since" not in (how.accept or ()) else []
        if change is None and entry.who != whoami():
            refusals.append(Refusal(None, _not_yours(entry)))
        blocked_action = "it can't be converted back now" if entry.migrates else "its offsets cannot be moved"
        context = ChangeContext(
            "undo",
            f"{entry.id}: {entry.what} {entry.subject}",
            undo_plan.layouts,
            undoes=entry.id,
            blocked_action=blocked_action,
            configs=undo_plan.configs,
        )
        warn_of_plans(run, cluster, undo_plan.plan)
        result = execute_plan(run, cluster, how, undo_plan.plan, context, refusals)
    if doubtful := sum(trace.doubtful for trace in undo_plan.traces):
        run.reporter.note(
            f"left as they are, {plural(doubtful, 'partition')}: nobody knows whether that change got so far, "
            "and they stand elsewhere now"
        )
    others = [other for other in entries if other.id != entry.id] if change is None else []
    wording = Wording(
        "take back",
        f"{entry.id}: {entry.what} {entry.subject}",
        run.command_line if change is not None else run.command_line.with_argument(entry.id),
        head=(Text(_change_lines(entry)),),
        before_end=other_changes([_change_row(other, entries) for other in others]),
        verbose=verbose,
    )
    types = type_restores(result)
    shown = outcome(
        result,
        wording,
        cluster.ref,
        run.reporter,
        run.command,
        nothing=f"{entry.id}: all stands as it was before: nothing to do",
        table=lambda: (
            [*types_table(types, verbose=verbose), *put_back(result, verbose=verbose)]
            if entry.migrates
            else before_after_now(result, undo_plan.traces, verbose=verbose)
        ),
    )
    for group, partitions in entry.hidden.items():
        if partitions is None:
            run.reporter.warn(f"{group}: {MAY_BE_MISSING}: such commits were deleted with it and cannot be put back")
    if lost := hidden_commit_errors(entry):
        decided = ExitCode.PARTLY if result.exit_code is ExitCode.DONE else result.exit_code
        shown = replace(shown, errors=(*shown.errors, *lost), decided=decided)
    return with_rows(shown, types, lambda: types_records(types)) if types else shown


def _as_of(run: Invocation, how: Change, group: str | None, when: AsOf, bounds: LogBounds, verbose: bool) -> Outcome:
    """Restore a group's offsets to those of a given time."""
    # Imported here: most changes are in the journal.
    from kgroup.changes.undo_as_of import plan_as_of
    from kgroup.queries.from_log import check_bounds, parse_past_time

    check_bounds(bounds, reads=when.as_of is not None, missing="kgroup undo GROUP --as-of TIME")
    if group is None or when.as_of is None:
        raise UsageError("--as-of: the offsets of which group?", hint="kgroup undo GROUP --as-of TIME")
    check_groups(Groups(names=[group]))
    at_ms = parse_past_time(when.as_of)
    then = (rfc3339(at_ms) or when.as_of).replace(".000Z", "Z")
    with ChangingCluster(run.settings) as cluster:
        wait_empty(run.reporter, cluster, how, [group])
        found = plan_as_of(run.reporter, cluster, group, at_ms, bounds)
        warn_of_plans(run, cluster, found.plan)
        result = execute_plan(
            run, cluster, how, found.plan, ChangeContext("undo", f"{group} as of {then}", found.layouts)
        )
        wording = Wording("take back", f"{group} as of {then}", run.command_line, verbose=verbose)
        return outcome(
            result,
            wording,
            cluster.ref,
            run.reporter,
            run.command,
            nothing=f"{group}: all stands as it did at {then}: nothing to do",
        )


def _not_yours(entry: JournalEntry) -> Refused:
    return Refused(
        f"the last change is {entry.who}'s",
        hint=f"If you mean that one, name it: kgroup undo {entry.id}",
        code="not-yours",
    )


def _change_lines(entry: JournalEntry) -> tuple[str, ...]:
    reason = f'  "{entry.reason}"' if entry.reason else ""
    unfinished = "  (kgroup could not finish it)" if entry.ended is None else ""
    return (f"  {entry.at:%Y-%m-%d %H:%M:%SZ}  {entry.who}{reason}{unfinished}", f"  {join(entry.command)}")


def _change_row(entry: JournalEntry, entries: Sequence[JournalEntry]) -> tuple[str, ...]:
    what = f"{entry.what} {entry.subject}"
    return entry.id, f"{entry.at:%m-%d %H:%M:%S}", entry.who, what, change_state(entry, entries)
