"""Refusals of a plan, apart from row errors: live members, frameworks, clients that commit without membership."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from kgroup.changes.journal import Journal, our_commits
from kgroup.changes.options import Change, Execution
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.active_committers import ACTIVE_COMMITTER, active_committer, refuse_active_committer
from kgroup.groups.change_plan import ChangePlan
from kgroup.groups.change_result import Refusal
from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.groups.selection import UNEXPECTED_COUNT
from kgroup.groups.share_changes import refuse_share_changes
from kgroup.groups.undo_plan import HIDDEN_COMMITS
from kgroup.model.groups import Group
from kgroup.model.hidden_commits import REMEDY, hidden_words
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.reporter import Reporter
from kgroup.model.streaming_query import QueryChanges
from kgroup.queries.wait import DEFAULT_WITHIN, describe_members
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_now
from kgroup.support.errors import FOREIGN_OWNER, NOT_EMPTY, KgroupError, NotAuthorized, Refused, Unreachable
from kgroup.support.units import plural, some_of

UndoneCommits = Mapping[str, Collection[tuple[str, int, int]]]
"""(topic, partition, offset) of the commits that an undo reverses, by group."""

_KEEPS_STARTS = "its start offsets cannot be deleted"
_OURS_FOR = timedelta(hours=2)
_DESCRIBED_GROUPS = 5
_NAMED_PARTITIONS = 5


class GuardResult(msgspec.Struct, frozen=True):
    """The refusals of a plan. ``unknown`` is why commits without membership could not be checked, None if they were."""

    refusals: tuple[Refusal, ...]
    unknown: str | None


def check_guards(
    reporter: Reporter,
    cluster: ChangingCluster,
    how: Change,
    plan: ChangePlan,
    blocked_action: str | None,
    undone_from_ms: int | None = None,
    undone: UndoneCommits | None = None,
) -> GuardResult:
    """The refusals of a plan without those that ``--accept`` passes; groups that the plan creates have none.

    ``blocked_action`` completes "G is not empty, so ..."; None for changes that the broker makes in spite of members.
    ``undone_from_ms`` is the time to which the plan restores offsets, None if there is none; ``undone`` are the commits
    of the change that it undoes, by group.
    """
    accepted, concerned = frozenset(how.accept or ()), frozenset(plan.affected_groups) - plan.only_configured
    groups = [group for group in plan.groups if group.name in concerned]
    refusals = [
        _refuse_members(group, how, blocked_action or _KEEPS_STARTS)
        for group in groups
        if (blocked_action or group.is_share) and not group.is_free
    ]
    refusals = _list_members(cluster, groups, refusals)
    refusals += _refuse_queries(reporter, plan, groups, cluster.query_changes)
    if plan.share & concerned:
        refusals += refuse_share_changes(plan, supported=cluster.can_change_share_groups())
    if FOREIGN_OWNER not in accepted:
        owned = ((group.name, foreign_owner(group)) for group in groups if not group.is_share)
        refusals += [Refusal(name, refuse_foreign_owner(name, owner)) for name, owner in owned if owner]
    unknown = None
    if ACTIVE_COMMITTER not in accepted:
        empty = [group for group in groups if group.is_empty and not group.is_share]
        active, unknown = _refuse_active_committers(reporter, cluster, empty, undone_from_ms, undone or {})
        refusals += active
    if HIDDEN_COMMITS not in accepted:
        refusals += [
            _refuse_hidden_commits(group)
            for group in groups
            if group.name in plan.deleted and group.hidden_commits != ()
        ]
    if how.expect is not None and how.expect != plan.size:
        message = f"the plan has {plural(plan.size, 'row')}, {how.expect} expected (--expect)"
        refusals.append(Refusal(None, Refused(message, code=UNEXPECTED_COUNT)))
    return GuardResult(tuple(refusals), unknown)


def _refuse_hidden_commits(group: Group) -> Refusal:
    """Deleting a group also deletes commits that the broker does not show, and no journal can restore those."""
    hidden = group.hidden_commits
    names = tuple(f"{topic}:{number}" for topic, number in hidden or ())
    named = f" ({some_of(names, _NAMED_PARTITIONS)})" if names else ""
    return Refusal(
        group.name,
        Refused(
            f"{group.name}: {hidden_words(hidden)}{named}; they would be deleted too, and undo could not restore them",
            hint=(acl_hint("Describe", "topic", hidden[0][0]) if hidden else REMEDY)
            + "; or accept the loss: --accept hidden-commits",
            code=HIDDEN_COMMITS,
        ),
    )


def _refuse_queries(reporter: Reporter, plan: ChangePlan, groups: Sequence[Group], how: QueryChanges) -> list[Refusal]:
    """Why no batch can be appended to the checkpoints of streaming queries; a note where one can."""
    refusals = []
    for group in groups:
        if group.query is not None:
            from kgroup.cluster.checkpoints.append import appended_line, check_appendable

            try:
                topics = {row.topic for row in plan.rows if row.group == group.name and not row.error}
                check_appendable(group.name, group.query, topics, how)
            except (Refused, NotAuthorized, Unreachable) as error:
                refusals.append(Refusal(group.name, error))
            else:
                reporter.note(appended_line(group.name, group.query))
    return refusals


def check_change_permitted(settings: Settings, how: Execution, *, backup: bool = False) -> tuple[Refusal, ...]:
    """Refusals that do not depend on the plan's rows: a protected context, a journal that cannot be written.

    With ``backup`` the journal may be unwritable.
    """
    if not how.execute and (refusal := settings.change_refusal):  # with --execute, check_execution has raised it
        return (Refusal(None, refusal),)
    if not backup:
        journal = Journal()
        try:
            (journal.require_writable if how.execute else journal.check)()
        except Refused as error:
            return (Refusal(None, error),)
    return ()


def _refuse_members(group: Group, how: Change, blocked_action: str) -> Refusal:
    within = how.within or DEFAULT_WITHIN
    waits = f"Stop them, or add --wait-empty to wait for up to {within}."
    if how.wait_empty:
        waits = "Stop them." if how.execute else f"With --execute kgroup waits up to {within} for that."
    return Refusal(
        group.name,
        Refused(
            f"{group.name} is not empty, so {blocked_action}",
            hint=waits,
            code=NOT_EMPTY,
        ),
    )


def _list_members(cluster: ChangingCluster, groups: Sequence[Group], refusals: list[Refusal]) -> list[Refusal]:
    """The refusals, those of the first five groups with a list of their members."""
    live = {refusal.group for refusal in refusals}
    named = [group for group in groups if group.name in live and group.members][:_DESCRIBED_GROUPS]
    if not named:
        return refusals
    try:
        sessions = cluster.session_timeouts(named)
    except KgroupError:
        return refusals
    lines = {group.name: describe_members(group, sessions) for group in named}
    return [
        Refusal(r.group, Refused(r.error.message, details=lines[r.group], hint=r.error.hint, code=r.error.code))
        if r.group in lines
        else r
        for r in refusals
    ]


def _refuse_active_committers(
    reporter: Reporter,
    cluster: ChangingCluster,
    groups: Sequence[Group],
    undone_from_ms: int | None,
    undone: UndoneCommits,
) -> tuple[list[Refusal], str | None]:
    """(a refusal for each group that a client commits to, why that is not known for all groups or None)."""
    if not groups:
        return [], None
    now, clocks = utc_now(), cluster.clocks()
    # If our clock is ahead, a client that commits now would seem to have stopped long ago.
    now_ms = clocks.brokers_ms if clocks.exact and clocks.brokers_ms is not None else clocks.ours_ms
    activities = cluster.recent_activity(groups, now_ms)
    if activities.note:
        reporter.note(activities.note)
    suspects = {
        group.name: group
        for group in groups
        if (activity := activities.by_group.get(group.name))
        and active_committer(activity, (), now_ms, simple=group.is_simple)
    }
    # The journal is read only if it matters: it is large after many resets.
    ours = our_commits(Journal(), cluster.ref.cluster_id, suspects.keys(), now - _OURS_FOR) if suspects else {}
    refusals = []
    for name, group in suspects.items():
        # Commits of a catch-up, or of a migration that repeats them, are in no journal but have a tag.
        activity = activities.by_group[name]
        activity = replace(
            activity, commits=tuple(c for c in activity.commits if CatchupCommitTag.of(c.metadata) is None)
        )
        finding = active_committer(
            activity,
            ours.get(name, ()),
            now_ms,
            simple=group.is_simple,
            undone_from_ms=undone_from_ms,
            undone=undone.get(name, ()),
        )
        if finding:
            refusals.append(Refusal(name, refuse_active_committer(name, finding, now_ms)))
    return refusals, activities.note
