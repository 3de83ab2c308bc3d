"""Which open plans ``catchup resume --all-pending`` continues, and which it leaves to others. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from kgroup.groups.catchup.model import PlanPhase, PlanState
from kgroup.groups.catchup.plan_state import VerifiedPlan, list_order
from kgroup.groups.catchup.second_group import SECOND_GROUP


class LeftPlan(msgspec.Struct, frozen=True):
    """An open plan that is not continued, and why."""

    plan_id: str
    why: str


class PendingPlans(msgspec.Struct, frozen=True):
    """``resumable`` can be continued now, those first whose records expire first; ``left`` cannot."""

    resumable: tuple[VerifiedPlan, ...]
    left: tuple[LeftPlan, ...]


def pending_plans(states: Sequence[VerifiedPlan], own_session: str, *, has_destination: bool) -> PendingPlans:
    """The open plans among ``states``.

    ``has_destination`` is whether the request names one, for plans without. ``own_session`` is the sink of plans that a
    Spark session of the user's own delivers.
    """
    resumable, left = [], []
    for state in sorted(states, key=list_order):
        if not state.snapshot.state.state.is_open:
            continue
        why = _why_left(state, own_session, has_destination=has_destination)
        if why is None:
            resumable.append(state)
        else:
            left.append(LeftPlan(state.snapshot.plan.id, why))
    return PendingPlans(tuple(resumable), tuple(left))


def _why_left(state: VerifiedPlan, own_session: str, *, has_destination: bool) -> str | None:
    snapshot = state.snapshot
    if state.phase is PlanPhase.DAMAGED:
        return "it is damaged"
    if snapshot.state.state is PlanState.CANCELLING:
        return "it is being cancelled"
    if state.is_at_work:
        return "another run works on it"
    if snapshot.delivery is None and not has_destination:
        return "it has no destination"
    if snapshot.delivery is not None and snapshot.delivery.sink == own_session:
        return "a Spark session of its user's own delivers it"
    if snapshot.delivery is not None and snapshot.delivery.sink == SECOND_GROUP:
        return "its application reads it in a second group: resume it alone"
    return None


def next_plan(pending: PendingPlans, left_alone: Collection[str]) -> VerifiedPlan | None:
    """The next plan to continue that is not in ``left_alone``; None if there is none."""
    return next((one for one in pending.resumable if one.snapshot.plan.id not in left_alone), None)
