"""The rule about catch-ups that no run continues: a released group shows no lag, and its gap is still unread."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.catchup.model import PlanPhase
from kgroup.groups.doctor.finding import Answer, Rule, Severity, kgroup_command
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.thresholds import RETENTION_CLOSE
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.support.instants import short_time
from kgroup.support.units import NAMED, human_count, plural, some_of

PENDING = Rule(
    "pending-catchup",
    "the gap of a catch-up is not delivered, and no run delivers it",
    "kgroup's documentation of catch-ups",
    (RETENTION_CLOSE,),
)
_NOT_OWED = (PlanPhase.PLANNED, PlanPhase.REPLAYING)
"""The group still processes the gap itself, or a run delivers it."""
_ON_THE_WAY = (PlanPhase.RELEASING, PlanPhase.CANCELLING)
"""A run moves the group at this moment, or was interrupted: one reading does not show which."""


def pending_catchup(snapshot: GroupSnapshot) -> Answer:
    """Plans of the ledger, and releases that only the group's commits show."""
    if snapshot.pending is None:
        return PENDING.unknown(snapshot.why("pending", "the ledger could not be read"))
    # Without the ledger, a commit with the mark of a plan says nothing: it may be done for long.
    read = "pending" not in snapshot.unread
    left = [plan for plan in snapshot.pending if plan.phase not in _NOT_OWED and plan.pending_offset_count != 0]
    owed = [p for p in left if p.phase not in _ON_THE_WAY and (read or p.phase != PlanPhase.NOT_IN_LEDGER)]
    if not owed and not read:
        return PENDING.unknown(snapshot.unread["pending"])
    if not owed:
        moving = [f"{plan.plan_id} ({plan.phase})" for plan in left if plan.phase in _ON_THE_WAY]
        return PENDING.early(f"{some_of(moving)}: under way, or interrupted") if moving else ()
    first = min(owed, key=lambda plan: (plan.retention_deadline_at_ms is None, plan.retention_deadline_at_ms))
    count, deadline_ms = first.pending_offset_count, first.retention_deadline_at_ms
    close = deadline_ms is not None and deadline_ms - snapshot.now_ms < RETENTION_CLOSE.value
    gone = f"; retention deletes the first at {short_time(deadline_ms, snapshot.now_ms)}" if deadline_ms else ""
    more = f"; so are those of {plural(len(owed) - 1, 'more plan')}" if len(owed) > 1 else ""
    how_many = "an unknown number of offsets" if count is None else f"{human_count(count)} offsets"
    are = "may not be" if first.phase == PlanPhase.NOT_IN_LEDGER else "are not"
    return PENDING.finding(
        Severity.CRITICAL if close else Severity.WARNING,
        f"{how_many} of {first.plan_id} ({first.phase}) {are} delivered, and no run delivers them{gone}{more}",
        remedy="continue the plan: the group itself was moved past these records, and does not read them",
        numbers={
            "plan_count": len(owed),
            "pending_offset_count": sum(plan.pending_offset_count or 0 for plan in owed),
        },
        affected=[plan.plan_id for plan in owed],
        commands=[command for plan in owed[:NAMED] for command in _commands(snapshot.group.name, plan)],
    )


def _commands(group: str, plan: PendingCatchup) -> Iterator[str]:
    if plan.phase == PlanPhase.NOT_IN_LEDGER:
        yield kgroup_command("catchup", "start", group)  # its plan compares the group's commits with its history
        return
    yield kgroup_command("catchup", "show", plan.plan_id)
    if plan.phase == PlanPhase.PENDING:
        yield kgroup_command("catchup", "resume", plan.plan_id, "--to-topic", "TOPIC")
    elif plan.phase != PlanPhase.DAMAGED:
        yield kgroup_command("catchup", "resume", plan.plan_id)
