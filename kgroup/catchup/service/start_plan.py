"""``kgroup catchup start``: the plan, and everything that prevents or endangers it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import PLAN_OPEN, PlanListing
from kgroup.catchup.ledger.view import affecting, overlap_refusal
from kgroup.catchup.service.engine import CatchupEngine, without_own_member
from kgroup.catchup.service.lookup import list_plans
from kgroup.catchup.service.read_gap import read_gap
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.show import commands, damaged_refusal
from kgroup.changes.execute import COMMITS_OF_ANY
from kgroup.changes.guards import check_change_permitted, check_guards
from kgroup.changes.options import Change
from kgroup.changes.rights import missing_release_rights
from kgroup.cluster.reader.to_end import PATIENCE_S
from kgroup.groups.active_committers import ACTIVE_COMMITTER
from kgroup.groups.catchup.chunks import RateLimit, cut_into_chunks
from kgroup.groups.catchup.dead_letters import DeadLetters
from kgroup.groups.catchup.decisions import POSSIBLE_DUPLICATES
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.gap import Gap
from kgroup.groups.catchup.gap_request import GapRequest, Missing
from kgroup.groups.catchup.model import CatchupPlan, Order, PlanSnapshot, PlanState
from kgroup.groups.catchup.results import StartPlan
from kgroup.groups.catchup.risks import ReplayPace, Risk, RiskLevel, risks
from kgroup.groups.catchup.second_group import SECOND_GROUP
from kgroup.groups.catchup.start_condition import StartCondition
from kgroup.groups.catchup.unrecorded_releases import find_unrecorded_releases, range_words
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import Refusal
from kgroup.groups.reset_targets import NO_COMMIT
from kgroup.groups.selection import Selection
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, RowError
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.reporter import Reporter
from kgroup.queries.snapshots import snapshots
from kgroup.settings.environment import variable
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_ms
from kgroup.support.errors import (
    FOREIGN_OWNER,
    NOT_EMPTY,
    ExitCode,
    KgroupError,
    NotAuthorized,
    NotFound,
    Refused,
    Unreachable,
    refusal_code,
)
from kgroup.support.hint import Hint
from kgroup.support.units import plural

SKIP = refusal_code(
    "skip",
    "catchup start",
    "With --skip-before, older records are delivered to no consumer.",
    "Leave --skip-before out.",
)
NOT_IN_LEDGER = refusal_code(
    "not-in-ledger",
    "catchup start",
    "The commits of the group show a release that the ledger does not have: the ledger was deleted or truncated.",
    "Run the catchup start --range command of the message, or name the right --ledger-topic. Accept it if all "
    "records were delivered.",
)

ASSUMED = ReplayPace(records_per_s=100_000, bytes_per_s=100e6, startup_s=6.0, guessed=True)
"""The assumed speed of a replay."""

_NAMED = 3
_SOON_S = 2.0
_NOT_IDLE = frozenset({NOT_EMPTY, ACTIVE_COMMITTER, FOREIGN_OWNER})
"""The refusals of a group that is in use."""

_PARALLELISM = 4
"""For how many workers a gap is cut if the replay's parallelism is unknown: chunks are frozen before the replay."""


class StartRequest(msgspec.Struct, frozen=True):
    """The request of ``start``: which gap of which group, under which conditions, and how it is replayed.

    ``group`` is None if ranges are named. ``replay`` has no sink if the user does not name one yet. ``typed`` are the
    words that the ledger keeps of it, without secrets; ``condition`` is when there is something to do. ``letters`` is
    what was read of a dead-letter topic.
    """

    group: str | None
    gap: GapRequest
    change: Change
    replay: ReplayOptions = msgspec.field(default_factory=ReplayOptions)
    typed: tuple[str, ...] = ()
    condition: StartCondition = StartCondition()
    letters: DeadLetters | None = None


def plan_start(engine: CatchupEngine, settings: Settings, request: StartRequest) -> StartPlan:
    """The plan at this moment. Raises as ``kgroup.queries.snapshots``, and what reading raises."""
    cluster, change, replay = engine.cluster, request.change, request.replay
    group, unread = _read_group(engine, request)
    at_ms = cluster.now_ms()
    gap_input = read_gap(cluster, group, request.gap, at_ms)
    for note in gap_input.notes:
        engine.reporter.note(note)
    gap = gap_input.gap
    rate = None if replay.sink is None else replay.rate
    parallelism = replay.at_once if replay.sink and replay.order is Order.NONE else _PARALLELISM
    chunks = cut_into_chunks(gap.ranges, parallelism=parallelism, rate=rate)
    marked = replay.sink != SECOND_GROUP
    pace = _pace(rate) if marked else ReplayPace(None)  # how fast an application is, is unknown
    found_risks = risks(gap, gap_input.logs, gap_input.work, pace, at_ms, marked=marked)
    if group is not None and (hidden := hidden_words(group.hidden_commits)):
        message = f"{hidden}; they are neither released nor replayed"
        found_risks = (*found_risks, Risk(RiskLevel.WARNING, "hidden-commits", message))
    refusals, checks, unknown = _refusals(engine, settings, request, group, gap)
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
        replay.guarantee,
        waits=change.wait_empty and not change.execute,
        of_context=() if replay.sink is None else replay.context_words(),
        letters=request.letters,
    )


def _read_group(engine: CatchupEngine, request: StartRequest) -> tuple[Group | None, tuple[RowError, ...]]:
    if request.group is None:
        return None, ()
    snapshot = next(snapshots(engine.reporter, engine.cluster, Selection(names=[request.group]), COMMITS_OF_ANY))
    for note in snapshot.notes:
        engine.reporter.note(note)
    if not snapshot.groups or any(error.topic is None for error in snapshot.errors):
        raise as_raised(snapshot.errors[0])
    named = {choice.topic for choice in request.gap.topics}
    unread = tuple(error for error in snapshot.errors if not named or error.topic in named)
    return without_own_member(snapshot.groups[0]), unread


def may_be_pending(engine: CatchupEngine, group: str) -> bool:
    """Whether the ledger may not show all that is pending of a group; also True if the group cannot be read."""
    snapshot = next(snapshots(engine.reporter, engine.cluster, Selection(names=[group]), COMMITS_OF_ANY))
    listing = engine.ledger.list(wanted=affecting({group}))
    if snapshot.errors or not snapshot.groups or listing.headless or listing.hidden is not None:
        return True
    return bool(find_unrecorded_releases(snapshot.groups[0], listing.knows, listing.plans))


def _unknown_topics(group: Group) -> Refused:
    """The refusal for a group without commits: without members, the topics it reads are unknown."""
    return Refused(
        "it has no commit"
        + (" that you may see" if hidden_words(group.hidden_commits) else "")
        + ", and no member shows which topics it reads",
        hint="name the topic and the start: --topic TOPIC --missing earliest, or latest",
        code=NO_COMMIT,
    )


def as_raised(error: RowError) -> KgroupError:
    """The error of the only group of the command, as an exception."""
    kinds: dict[ExitCode, type[KgroupError]] = {
        kind.exit_code: kind for kind in (NotFound, NotAuthorized, Unreachable, Refused)
    }
    kind = (kinds | {ExitCode.NOT_YET: Refused}).get(error.exit_code, KgroupError)
    message = error.message if error.group is None else f"{error.group}: {error.message}"
    return kind(message, details=error.details, hint=error.hint, code=error.code)


def _refusals(
    engine: CatchupEngine, settings: Settings, request: StartRequest, group: Group | None, gap: Gap
) -> tuple[list[Refusal], list[str], str | None]:
    """(what prevents the plan besides the gap itself, checks that passed, why active committers are unknown)"""
    change, checks = request.change, []
    refusals = list(check_change_permitted(settings, change, backup=True))
    guarded = check_guards(
        engine.reporter, engine.cluster, change, _change_plan(group, gap), "its offsets cannot be moved"
    )
    refusals += guarded.refusals
    if gap.group is not None and gap.ranges:
        refusals += missing_release_rights(
            engine.reporter, engine.cluster, gap.group, {item.topic for item in gap.ranges}
        )
    if group is not None and not any(refusal.error.code in _NOT_IDLE for refusal in refusals):
        # With --accept active-committer there was no check for other clients that commit.
        checked = guarded.unknown is None and ACTIVE_COMMITTER not in (change.accept or ())
        if group.query is not None:
            checks.append(f"{group.name} keeps no state, and a batch can be appended to its checkpoint")
        else:
            checks.append(f"{group.name} is {group.state}" + (", no client commits" if checked else ""))
    if gap.skips and SKIP not in (change.accept or ()):
        abandoned = sum(row.offsets for row in gap.abandoned)
        refusals.append(
            Refusal(
                gap.group,
                Refused(
                    f"--skip-before abandons {plural(abandoned, 'offset')}",
                    hint="to abandon them: --accept skip",
                    code=SKIP,
                ),
            )
        )
    refusals += [Refusal(None, error) for error in _ledger_refusals(engine, request, group, gap)]
    if gap.ranges and not change.execute and not any(refusal.group is None for refusal in refusals):
        checks.append("the ledger can be written, and no open plan overlaps")
    return refusals, checks, guarded.unknown


def _ledger_refusals(engine: CatchupEngine, request: StartRequest, group: Group | None, gap: Gap) -> list[KgroupError]:
    """Why the plan cannot, or must not, be written. With ``execute`` the write itself shows whether it can."""
    execute = request.change.execute
    if gap.ranges and not execute:
        try:
            ledger = engine.ledger.check()
        except (Refused, NotAuthorized) as error:
            return [error]
        for note in ledger.notes:
            engine.reporter.warn(note)
        if not ledger.exists:
            return _unledgered(engine, request, group, PlanListing(()))
    # With --execute, the write of the plan waits for open transactions later.
    patience_s = _SOON_S if gap.ranges and execute else PATIENCE_S
    listing = list_plans(engine, patience_s, wanted=affecting(None if gap.group is None else {gap.group}))
    checked = (_open_plan_refusal(engine.reporter, request, gap, other) for other in listing.plans)
    refusals = [refusal for refusal in checked if refusal is not None]
    if gap.group is not None:
        refusals += [
            _damaged_refusal(f"{one.plan.id} may be an open catch-up of {gap.group}", one)
            for one in listing.plans
            if one.plan.id in listing.headless
        ]
    return [*refusals, *_unledgered(engine, request, group, listing)]


def _unledgered(
    engine: CatchupEngine, request: StartRequest, group: Group | None, listing: PlanListing
) -> list[KgroupError]:
    """Releases that only the group's commits show, not the ledger: a new release would overwrite the tags."""
    if group is None or NOT_IN_LEDGER in (request.change.accept or ()):
        return []
    why = f"the ledger {engine.ledger.topic} does not have that plan. It is unknown what was delivered"
    if listing.headless:
        why = f"the ledger {engine.ledger.topic} has no readable record of that plan. It is unknown what was delivered"
    if listing.hidden is not None:
        why = f"an open transaction hides a part of the ledger {engine.ledger.topic}: the plan may be in it"
    refusals: list[KgroupError] = []
    for row in find_unrecorded_releases(group, listing.knows, listing.plans):
        many = (
            f"{len(row.ranges) + len(row.unknown)} partitions"
            if row.offsets is None
            else f"{row.offsets} offsets or more"
        )
        other = "if the plan is in another ledger, add --ledger-topic; if all was delivered, --accept not-in-ledger"
        hint = other
        if row.ranges:
            words = ("catchup", "start", *range_words(row.ranges), "--to-topic", "TOPIC")
            hint = f"to deliver the ranges, possibly again:  {Hint('{}', (*words, '--execute'))};  {other}"
        if row.unknown:
            hint += f";  {Hint('{}', ('history', group.name))} shows where the gap of {row.unknown[0].topic} starts"
        refusals.append(
            Refused(
                f"{row.plan_id} released {group.name} ({many}), but {why}",
                details=(*map(str, row.ranges[:_NAMED]), *(["..."] if len(row.ranges) > _NAMED else [])),
                hint=hint,
                code=NOT_IN_LEDGER,
            )
        )
    return refusals


def _open_plan_refusal(reporter: Reporter, request: StartRequest, gap: Gap, other: PlanSnapshot) -> Refused | None:
    """Why another plan prevents this one; None: it does not. A permitted overlap is only reported."""
    plan = other.plan
    same_group = plan.group == gap.group
    if not other.state.state.is_open or not (same_group or plan.group is None or gap.group is None):
        return None
    if same_group and plan.group is not None and other.damage is not None:
        return _damaged_refusal(f"{plan.group} has the open catch-up {plan.id}", other)
    overlap = overlap_refusal(gap.ranges, plan)
    if overlap is not None and same_group:
        return overlap
    if same_group and plan.group is not None:
        return _unsettled(reporter, other)
    if overlap is None:
        return None
    if gap.group is None and POSSIBLE_DUPLICATES not in (request.change.accept or ()):
        return Refused(
            f"{overlap.message}: both plans would deliver them",
            details=overlap.details,
            hint="to deliver them twice: --accept possible-duplicates",
            code=POSSIBLE_DUPLICATES,
        )
    reporter.warn(f"{overlap.message}: both plans deliver them")
    return None


def _damaged_refusal(what: str, other: PlanSnapshot) -> Refused:
    damaged = damaged_refusal(other)
    message = f"{what}, which cannot be continued: {damaged.message}"
    return Refused(message, details=damaged.details, hint=damaged.hint, code=PLAN_OPEN)


def _unsettled(reporter: Reporter, other: PlanSnapshot) -> Refused | None:
    """Why the group's open plan must be settled first: its pending offsets are unknown; None if it is released."""
    plan, state = other.plan, other.state.state
    typed = commands(other)
    if state is PlanState.RELEASED:
        pending = plural(sum(row.offsets for row in undelivered(plan, other.progress)), "offset")
        reporter.warn(f"{plan.group} has the open catch-up {plan.id} with {pending} pending; see  {typed.show}")
        return None
    return Refused(
        f"{plan.group} has the open catch-up {plan.id}, which is {state}: finish its release or cancel it first",
        hint=typed.cancel if state is PlanState.CANCELLING else typed.resume,
        code=PLAN_OPEN,
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


def plan_of(engine: CatchupEngine, request: StartRequest, plan: StartPlan, plan_id: str) -> CatchupPlan:
    """The plan in the form of the ledger, with this new id."""
    gap = plan.gap
    return CatchupPlan(
        plan_id,
        gap.group,
        gap.group_type,
        engine.cluster.ref.cluster_id,
        utc_ms(),
        engine.who,
        request.change.reason or variable("KGROUP_REASON"),
        request.typed,
        gap.ranges,
        gap.abandoned,
        gap.release_point,
        chunks=plan.chunks,
    )
