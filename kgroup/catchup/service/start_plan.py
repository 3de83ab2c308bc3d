"""``kgroup catchup start``: the plan, and everything that prevents or endangers it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kgroup.catchup.ledger.ledger import PlanListing
from kgroup.catchup.ledger.view import overlap_refusal
from kgroup.catchup.service.engine import CatchupEngine, without_own_member
from kgroup.catchup.service.lookup import ledger_options, list_plans, with_connection_flags
from kgroup.catchup.service.read_gap import read_gap
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.show import commands
from kgroup.changes.execute import COMMITS
from kgroup.changes.guards import check_change_permitted, check_guards
from kgroup.changes.options import Change
from kgroup.changes.preconditions import wait_empty
from kgroup.changes.rights import missing_release_rights
from kgroup.cluster.reader.to_end import PATIENCE_S
from kgroup.groups.catchup.chunks import RateLimit, cut_into_chunks
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.gap import Gap
from kgroup.groups.catchup.gap_request import GapRequest, Missing
from kgroup.groups.catchup.model import CatchupPlan, Order, PlanSnapshot, PlanState
from kgroup.groups.catchup.results import MAY_PASS, StartPlan
from kgroup.groups.catchup.risks import ReplayPace, Risk, RiskLevel, risks
from kgroup.groups.catchup.unrecorded_releases import find_unrecorded_releases, range_words
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import Refusal
from kgroup.groups.commit_tags import new_plan_id
from kgroup.groups.selection import Selection
from kgroup.model.groups import Commit, Group, LogRange, RowError
from kgroup.model.hidden_commits import hidden_words
from kgroup.queries.snapshots import snapshots
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Refused, Unreachable
from kgroup.support.units import plural

ASSUMED = ReplayPace(records_per_s=100_000, bytes_per_s=100e6, startup_s=6.0, guessed=True)
"""The assumed speed of a replay if it was never measured."""

_NAMED = 3
_SOON_S = 2.0

_PARALLELISM = 4
"""For how many workers a gap is cut if the replay's parallelism is unknown: chunks are frozen before the replay."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The request of ``start``: which gap of which group, under which conditions, and how it is replayed.

    ``group`` is None if ranges are named. ``replay`` has no sink if the user does not name one yet.
    """

    group: str | None
    gap: GapRequest
    change: Change
    replay: ReplayOptions = field(default_factory=ReplayOptions)


def plan_start(run: Invocation, engine: CatchupEngine, request: StartRequest) -> StartPlan:
    """The plan at this moment. Raises as ``kgroup.queries.snapshots``, and what reading raises."""
    cluster, change, replay = engine.cluster, request.change, request.replay
    group, unread = _read_group(run, engine, request)
    if group is not None and wait_empty(run.reporter, cluster, change, [group.name]):
        group, unread = _read_group(run, engine, request)
    at_ms = utc_ms()
    gap_input = read_gap(cluster, group, request.gap, at_ms)
    for note in gap_input.notes:
        run.reporter.note(note)
    gap = gap_input.gap
    rate = None if replay.sink is None else replay.rate
    parallelism = replay.at_once if replay.sink and (replay.order is Order.NONE or replay.latest) else _PARALLELISM
    chunks = cut_into_chunks(gap.ranges, parallelism=parallelism, rate=rate)
    pace = _pace(rate)
    found_risks = risks(gap, gap_input.logs, gap_input.work, pace, at_ms)
    if group is not None and (hidden := hidden_words(group.hidden_commits)):
        message = f"{hidden}; they are neither released nor replayed"
        found_risks = (*found_risks, Risk(RiskLevel.WARNING, "hidden-commits", message))
    refusals, checks, unknown = _refusals(run, engine, request, group, gap)
    if unknown is not None:
        found_risks = (*found_risks, Risk(RiskLevel.WARNING, "committers-unknown", unknown))
    if group is not None and not (gap.ranges or gap.not_moved or unread) and request.gap.missing is not Missing.LEAVE:
        refusals.append(Refusal(group.name, _unknown_topics(group)))
    return StartPlan(
        group,
        gap_input,
        chunks,
        found_risks,
        tuple(refusals),
        tuple(checks),
        pace,
        change.partial,
        at_ms,
        unread,
        replay.destination,
    )


def _read_group(
    run: Invocation, engine: CatchupEngine, request: StartRequest
) -> tuple[Group | None, tuple[RowError, ...]]:
    if request.group is None:
        return None, ()
    snapshot = next(snapshots(run.reporter, engine.cluster, Selection(names=[request.group]), COMMITS))
    for note in snapshot.notes:
        run.reporter.note(note)
    if not snapshot.groups or any(error.topic is None for error in snapshot.errors):
        raise _as_raised(snapshot.errors[0])
    named = {choice.topic for choice in request.gap.topics}
    unread = tuple(error for error in snapshot.errors if not named or error.topic in named)
    return without_own_member(snapshot.groups[0]), unread


def _unknown_topics(group: Group) -> Refused:
    """The refusal for a group without commits: without members, the topics it reads are unknown."""
    return Refused(
        "it has no commit"
        + (" that you may see" if hidden_words(group.hidden_commits) else "")
        + ", and no member says "
        "what it reads",
        hint="name what it reads, and where that begins: --topic TOPIC --missing earliest | latest",
        code="no-commit",
    )


def _as_raised(error: RowError) -> KgroupError:
    """The error of the only group of the command, as an exception."""
    kinds: tuple[type[KgroupError], ...] = (NotFound, NotAuthorized, Unreachable, Refused)
    kind = next((kind for kind in kinds if kind.exit_code is error.exit_code), KgroupError)
    message = error.message if error.group is None else f"{error.group}: {error.message}"
    return kind(message, details=error.details, hint=error.hint, code=error.code)


def _refusals(
    run: Invocation, engine: CatchupEngine, request: StartRequest, group: Group | None, gap: Gap
) -> tuple[list[Refusal], list[str], str | None]:
    """(what prevents the plan besides the gap itself, checks that passed, why active committers are unknown)"""
    change, checks = request.change, []
    refusals = list(check_change_permitted(run.settings, change, backup=True))
    guarded = check_guards(
        run.reporter, engine.cluster, change, _change_plan(group, gap), "its offsets cannot be moved"
    )
    refusals += guarded.refusals
    if gap.group is not None and gap.ranges:
        refusals += missing_release_rights(run.reporter, engine.cluster, gap.group, {item.topic for item in gap.ranges})
    if group is not None and not any(refusal.error.code in MAY_PASS for refusal in refusals):
        # With --accept active-committer there was no check for other clients that commit.
        checked = guarded.unknown is None and "active-committer" not in (change.accept or ())
        checks.append(f"{group.name} is {group.state}" + (", nobody commits" if checked else ""))
    if gap.skips and "skip" not in (change.accept or ()):
        abandoned = sum(row.end - row.start for row in gap.given_up)
        refusals.append(
            Refusal(
                gap.group,
                Refused(
                    f"--skip-before leaves {plural(abandoned, 'offset')} to nobody",
                    hint="if that is meant: --accept skip",
                    code="skip",
                ),
            )
        )
    refusals += [
        Refusal(None, with_connection_flags(run, error)) for error in _ledger_refusals(run, engine, request, group, gap)
    ]
    if gap.ranges and not change.execute and not any(refusal.group is None for refusal in refusals):
        checks.append("the ledger can be written, and no open plan overlaps")
    return refusals, checks, guarded.unknown


def _ledger_refusals(
    run: Invocation, engine: CatchupEngine, request: StartRequest, group: Group | None, gap: Gap
) -> list[KgroupError]:
    """Why the plan cannot, or must not, be written. With ``execute`` the write itself shows whether it can."""
    execute = request.change.execute
    if gap.ranges and not execute:
        try:
            ledger = engine.ledger.check()
        except (Refused, NotAuthorized) as error:
            return [error]
        for note in ledger.notes:
            run.reporter.warn(note)
        if not ledger.exists:
            return _unledgered(run, engine, request, group, PlanListing(()))
    # With --execute, the write of the plan waits for open transactions later.
    patience_s = _SOON_S if gap.ranges and execute else PATIENCE_S
    listing = list_plans(run, engine, patience_s)
    found = (_open_plan_refusal(run, request, gap, other) for other in listing.plans)
    refusals = [refusal for refusal in found if refusal is not None]
    return [*refusals, *_unledgered(run, engine, request, group, listing)]


def _unledgered(
    run: Invocation, engine: CatchupEngine, request: StartRequest, group: Group | None, listing: PlanListing
) -> list[KgroupError]:
    """Releases that only the group's commits show, not the ledger: a new release would overwrite the tags."""
    if group is None or "not-in-ledger" in (request.change.accept or ()):
        return []
    why = f"the ledger {engine.ledger.topic} does not have that plan: what of it was delivered is not known"
    if listing.hidden is not None:
        why = f"an open transaction hides a part of the ledger {engine.ledger.topic}: whether it is known there is not"
    refusals: list[KgroupError] = []
    for row in find_unrecorded_releases(group, listing.knows, listing.plans):
        many = (
            f"{len(row.ranges) + len(row.unknown)} partitions"
            if row.offsets is None
            else f"{row.offsets} offsets or more"
        )
        other = "a plan in another ledger is found with --ledger-topic; if all was delivered: --accept not-in-ledger"
        hint = other
        if row.ranges:
            words = ("catchup", "start", *range_words(row.ranges), "--to-topic", "TOPIC", *ledger_options(run))
            hint = f"to deliver it, possibly again:  {run.command(*words, '--execute')};  {other}"
        if row.unknown:
            hint += f";  {run.command('history', group.name)} shows where the gap of {row.unknown[0].topic} began"
        refusals.append(
            Refused(
                f"{group.name} was released by {row.plan_id} ({many}), and {why}",
                details=(*map(str, row.ranges[:_NAMED]), *(["..."] if len(row.ranges) > _NAMED else [])),
                hint=hint,
                code="not-in-ledger",
            )
        )
    return refusals


def _open_plan_refusal(run: Invocation, request: StartRequest, gap: Gap, other: PlanSnapshot) -> Refused | None:
    """Why another plan prevents this one; None: it does not. A permitted overlap is only reported."""
    plan = other.plan
    same_group = plan.group == gap.group
    if not other.state.state.is_open or not (same_group or plan.group is None or gap.group is None):
        return None
    overlap = overlap_refusal(gap.ranges, plan)
    if overlap is not None and same_group:
        return overlap
    if same_group and plan.group is not None:
        return _unsettled(run, other)
    if overlap is None:
        return None
    if gap.group is None and "twice" not in (request.change.accept or ()):
        return Refused(
            f"{overlap.message}: both would deliver them",
            details=overlap.details,
            hint="if that is meant: --accept twice",
            code="twice",
        )
    run.reporter.warn(f"{overlap.message}: both deliver them")
    return None


def _unsettled(run: Invocation, other: PlanSnapshot) -> Refused | None:
    """Why the group's open plan must be settled first: its pending offsets are unknown; None if it is released."""
    plan, state = other.plan, other.state.state
    typed = commands(run, other)
    if state is PlanState.RELEASED:
        owed = sum(row.offsets for row in undelivered(plan, other.progress))
        run.reporter.warn(
            f"{plan.group} has an open catch-up, {plan.id}, that owes {plural(owed, 'offset')}: {typed.show}"
        )
        return None
    return Refused(
        f"{plan.group} has an open catch-up, {plan.id}, that is {state}: what it owes has to be settled first",
        hint=typed.cancel if state is PlanState.CANCELLING else typed.resume,
        code="plan-open",
    )


def _change_plan(group: Group | None, gap: Gap) -> ChangePlan:
    """The plan in the form that the guards of all changes check."""
    rows = tuple(
        ChangeRow(
            gap.group or "",
            *item.tp,
            item.before,
            Commit(item.end, item.end_leader_epoch, ""),
            LogRange(item.start, item.end),
        )
        for item in gap.ranges
    )
    return ChangePlan(() if group is None else (group,), rows)


def _pace(rate: RateLimit | None) -> ReplayPace:
    if rate is None:
        return ASSUMED
    records = min(rate.records_per_s or ASSUMED.records_per_s or 0, ASSUMED.records_per_s or 0)
    size = min(rate.bytes_per_s or ASSUMED.bytes_per_s or 0, ASSUMED.bytes_per_s or 0)
    return replace(ASSUMED, records_per_s=records, bytes_per_s=size)


def plan_of(run: Invocation, engine: CatchupEngine, plan: StartPlan, reason: str | None) -> CatchupPlan:
    """The plan in the form of the ledger, with a new id."""
    gap = plan.gap
    return CatchupPlan(
        new_plan_id(),
        gap.group,
        gap.group_type,
        engine.cluster.ref.cluster_id,
        utc_ms(),
        engine.who,
        reason or variable("KGROUP_REASON"),
        tuple(run.typed),
        gap.ranges,
        plan.chunks,
        gap.given_up,
        gap.released_at,
    )
