"""The outcome of every catch-up verb: its page, its rows and its exit code."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.catchup.service.results import (
    Cancellation,
    CatchupResult,
    PlanList,
    Planned,
    PlanStatus,
    PrunedPlans,
    ReleasedPlan,
    ReplayedPlan,
)
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.catchup_cancel import ended_records, ended_screen
from kgroup.output.pages.catchup_plans import (
    list_records,
    list_screen,
    prune_screen,
    released_screen,
    show_screen,
    verification_screen,
)
from kgroup.output.pages.catchup_start import plan_records, plan_screen
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError


def outcome(result: CatchupResult, cluster: ClusterRef, typed: Sequence[str], *, verbose: bool = False) -> Outcome:
    """The outcome of a catch-up verb; ``typed`` is its command line, ``verbose`` shows every row."""
    match result:
        case Planned():
            return Outcome(
                data=(result,),
                screen=lambda: plan_screen(result, typed, verbose=verbose),
                records=lambda: plan_records(result.gap),
                cluster=cluster,
                errors=result.errors,
                done=result.possible,
            )
        case ReleasedPlan(state=state):
            return Outcome(
                data=(result,),
                screen=lambda: released_screen(state, result.commands),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=result.errors,
                executed=True,
            )
        case ReplayedPlan(state=state):
            return Outcome(
                data=(state,),
                screen=lambda: verification_screen(state, result.took_s, untouched=result.untouched),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=(*result.left_out, *result.errors),
                executed=True,
                decided=result.exit_code,
            )
        case PlanStatus(state=state, refused=refused):
            return Outcome(
                data=(state,),
                screen=lambda: show_screen(result, verbose=verbose),
                records=lambda: list_records([state]),
                cluster=cluster,
                errors=_of(refused, state.snapshot.plan.group),
                executed=result.executed,
                done=False,
            )
        case PlanList(states=states):
            return Outcome(
                data=states,
                screen=lambda: list_screen(states, verbose=verbose),
                records=lambda: list_records(states),
                cluster=cluster,
            )
        case PrunedPlans(states=states, errors=errors):
            some = len(errors) < len(states)
            return Outcome(
                data=states,
                screen=lambda: prune_screen(result, typed),
                records=lambda: list_records(states),
                cluster=cluster,
                errors=errors,
                executed=result.executed and some,
                done=some,
            )
        case Cancellation(refusal=refused):
            return Outcome(
                data=(result,),
                screen=lambda: ended_screen(result, typed),
                records=lambda: ended_records(result),
                cluster=cluster,
                errors=_of(refused, result.state.snapshot.plan.group),
                executed=result.executed,
                done=False,
            )


def _of(refused: KgroupError | None, group: str | None) -> tuple[RowError, ...]:
    return () if refused is None else (RowError.of(refused, group=group),)
