"""The outcome of every catch-up verb: its page, its rows and its exit code; the list of plans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kgroup.groups.catchup.delivered import next_deadline_ms
from kgroup.groups.catchup.documents import (
    RehearsedReplay,
    cancelled_plan,
    catchup_plan,
    planned_catchup,
    unstarted_catchup,
)
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.results import (
    Cancellation,
    CatchupResult,
    PlanStatus,
    PrunedPlans,
    Rehearsal,
    ReleasedPlan,
    ReplayedPlan,
    StartPlan,
)
from kgroup.groups.catchup.start_condition import Unstarted
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.catchup_plan import (
    cancellation_records,
    cancellation_screen,
    released_screen,
    show_screen,
    verification_screen,
)
from kgroup.output.pages.catchup_start import HEADER as PLAN_HEADER
from kgroup.output.pages.catchup_start import errors_on_screen, plan_records, plan_screen
from kgroup.output.pages.change import ROWS_ON_A_PAGE, refusal_block
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339, short_time
from kgroup.support.units import plural

_LIST = (
    Column("PLAN"),
    Column("GROUP", fold=True),
    Column("PHASE"),
    Column("PENDING", right=True),
    Column("OFFSETS", right=True),
    Column("RETENTION-LEFT", right=True),
    Column("DESTINATION", fold=True),
    Column("CREATED-BY", drop=2, fold=True),
    Column("CREATED", drop=1),
)
_MANY = 5
"""So many plans of a group are one row: those of ``kgroup.consumer`` are one for each assignment."""

LIST_HEADER = (
    "plan_id", "group", "state", "phase", "pending_offset_count", "offset_count", "retention_deadline_at",
    "destination", "created_by", "created_at"
)  # fmt: skip


def outcome(result: CatchupResult, cluster: ClusterRef, command: CommandLine, *, verbose: bool = False) -> Outcome:
    """The outcome of a catch-up verb; ``command`` is its command line, ``verbose`` shows every row."""
    match result:
        case StartPlan():
            return Outcome(
                data=(partial(planned_catchup, result),),
                screen=lambda: plan_screen(result, command, verbose=verbose),
                records=lambda: plan_records(result.gap),
                cluster=cluster,
                errors=result.errors,
                done=result.possible,
                on_screen=errors_on_screen(result),
            )
        case Unstarted():
            return Outcome(
                data=(partial(unstarted_catchup, result),),
                screen=lambda: Screen(()),
                records=lambda: Records(PLAN_HEADER, []),
                cluster=cluster,
            )
        case ReleasedPlan(state=state):
            return Outcome(
                data=(partial(catchup_plan, state, result.planned),),
                screen=lambda: released_screen(state, result.commands),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=result.errors,
                executed=True,
            )
        case ReplayedPlan(state=state):
            return Outcome(
                data=(partial(catchup_plan, state),),
                screen=lambda: verification_screen(state, result.took_s, untouched=result.untouched),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=(*result.left_out, *result.errors),
                executed=True,
                decided=result.exit_code,
            )
        case PlanStatus(state=state, refused=refused):
            group = state.snapshot.plan.group
            return Outcome(
                data=(partial(catchup_plan, state),),
                screen=lambda: show_screen(result, verbose=verbose),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=() if refused is None else (RowError.of(refused, group=group),),
                executed=result.executed,
                done=False,
                ends_watch=not result.is_replaying,
            )
        case PrunedPlans(states=states, errors=errors):
            some = len(errors) < len(states)
            return Outcome(
                data=tuple(partial(catchup_plan, state) for state in states),
                screen=lambda: prune_screen(result, command),
                records=lambda: list_records(states),
                cluster=cluster,
                errors=errors,
                executed=result.executed and some,
                done=some,
            )
        case Cancellation():
            errors = tuple(refusal.row for refusal in result.refusals)
            return Outcome(
                data=(partial(cancelled_plan, result),),
                screen=lambda: cancellation_screen(result, command),
                records=lambda: cancellation_records(result),
                cluster=cluster,
                errors=errors,
                executed=result.executed,
                done=False,
                on_screen=errors,
            )


def check_outcome(rehearsal: Rehearsal, cluster: ClusterRef) -> Outcome:
    """The outcome of ``catchup check``: what was tried, and what prevents a replay."""
    errors = tuple(refusal.row for refusal in rehearsal.refusals)
    return Outcome(
        data=(RehearsedReplay(not errors, rehearsal.checks),),
        screen=lambda: _check_screen(rehearsal),
        records=lambda: Records(("passed", "check"), [(True, check) for check in rehearsal.checks]),
        cluster=cluster,
        errors=errors,
        done=False,
        on_screen=errors,
    )


def _check_screen(rehearsal: Rehearsal) -> Screen:
    blocks: list[Block] = [Title("CHECK  what a replay needs")]
    blocks += [Text((f" ok       {check}",)) for check in rehearsal.checks]
    for refusal in rehearsal.refusals:
        blocks += refusal_block(refusal, None)
    end = "Nothing was changed." if rehearsal.errors else "A replay with these options can start. Nothing was changed."
    return Screen((*blocks, BlankLine(), Text((end,))))


def list_outcome(states: tuple[VerifiedPlan, ...], cluster: ClusterRef, *, verbose: bool) -> Outcome:
    """The outcome of ``catchup list``: the plans in the given order."""
    return Outcome(
        data=tuple(partial(catchup_plan, state) for state in states),
        screen=lambda: list_screen(states, verbose=verbose),
        records=lambda: list_records(states),
        cluster=cluster,
        names=lambda: (state.snapshot.plan.id for state in states),
    )


def list_screen(states: Sequence[VerifiedPlan], *, verbose: bool) -> Screen:
    """One row per plan in the given order, unless ``verbose`` at most 20, and one for many plans of a group."""
    if not states:
        return Screen(())
    rows = [(state,) for state in states] if verbose else alike(states)
    shown = rows if verbose else rows[:ROWS_ON_A_PAGE]
    cells = [_list_row(row[0]) if len(row) == 1 else _list_row_of(row) for row in shown]
    blocks: list[Block] = [
        Title(plural(len(states), "catch-up"), in_terminal_only=True),
        Table(_LIST, cells, sparse=frozenset({"RETENTION-LEFT", "DESTINATION"})),
    ]
    more = sum(len(row) for row in rows[ROWS_ON_A_PAGE:])
    if not verbose and (more or len(rows) < len(states)):
        blocks.append(Text((f"{more} more: --verbose" if more else "each plan: --verbose",)))
    return Screen(tuple(blocks))


def alike(states: Sequence[VerifiedPlan]) -> list[tuple[VerifiedPlan, ...]]:
    """Plans of one group, phase and destination together if they are many, at the place of the first."""
    kinds: dict[tuple[object, ...], list[VerifiedPlan]] = {}
    for state in states:
        kinds.setdefault((state.snapshot.plan.group, state.phase, state.destination), []).append(state)
    rows: list[tuple[VerifiedPlan, ...]] = []
    for state in states:
        kind = kinds[state.snapshot.plan.group, state.phase, state.destination]
        if len(kind) < _MANY or state.snapshot.plan.group is None:
            rows.append((state,))
        elif state is kind[0]:
            rows.append(tuple(kind))
    return rows


def _list_row_of(states: Sequence[VerifiedPlan]) -> tuple[Cell, ...]:
    """Many plans as one row: their sums, and the retention of the first."""
    first, pending = _list_row(states[0]), [state.known_pending for state in states]
    whole = None if None in pending else sum(filter(None, pending))
    offsets = sum(state.offsets for state in states) or None
    return (f"{len(states)} plans", *first[1:3], whole, offsets, *first[5:7], *(None for _ in first[7:]))


def _list_row(state: VerifiedPlan) -> tuple[Cell, ...]:
    plan = state.snapshot.plan
    deadline = next_deadline_ms(state.snapshot) if state.pending else None
    return (
        plan.id,
        plan.group,
        state.phase,
        state.known_pending,
        state.offsets or None,
        None if deadline is None else format_duration(max(0, deadline - state.now_ms) / 1000),
        state.destination,
        plan.who,
        short_time(plan.created_ms, state.now_ms) if plan.created_ms else None,
    )


def prune_screen(pruned: PrunedPlans, command: CommandLine) -> Screen:
    """The finished plans that are pruned, or would be."""
    if not pruned.states:
        return Screen(())
    count = len(pruned.states) - len(pruned.errors)
    word = "DONE" if pruned.executed and count else "PLAN"
    lines = ("Done.",) if pruned.executed else ("Nothing was changed. To do it:", f"  {command.executing()}")
    if not count:
        lines = ("Nothing was changed.",)
    title = Title(f"{word}  delete {plural(count, 'finished plan')} from the ledger")
    return Screen((title, *list_screen(pruned.states, verbose=True).blocks[1:], Text(lines)))


def list_records(states: Sequence[VerifiedPlan]) -> Records:
    return Records(
        LIST_HEADER,
        [
            (
                state.snapshot.plan.id,
                state.snapshot.plan.group,
                state.snapshot.state.state.value,
                state.phase,
                state.known_pending,
                state.offsets or None,
                rfc3339(next_deadline_ms(state.snapshot) if state.pending else None),
                state.destination,
                state.snapshot.plan.who,
                rfc3339(state.snapshot.plan.created_ms or None),
            )
            for state in states
        ],
    )
