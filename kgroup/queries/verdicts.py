"""The verdicts of described groups, from logs, records and other groups, within one time limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster
from kgroup.model.groups import Group, ListedGroup
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    from kgroup.groups.history.own_changes import OwnChanges
    from kgroup.groups.verdict.group import GroupVerdict
    from kgroup.queries.facts import GroupFacts

MOST_GROUPS = 20
"""A verdict reads records of each group. With more groups the user first looks for the worst one."""

_BUDGET_S = 1.0


class GroupVerdicts(msgspec.Struct, frozen=True):
    """The groups, classic ones with generation and leader, and their verdicts; no verdicts for too many groups."""

    groups: tuple[Group, ...]
    verdicts: Mapping[str, GroupVerdict] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_verdicts(
    cluster: Cluster, groups: Sequence[Group], budget_s: float, own: Callable[[], OwnChanges], *, past: bool
) -> GroupVerdicts:
    """Judge few groups; for many, only read generations. With ``budget_s`` 0 ``__consumer_offsets`` is not read.

    ``past`` also reads what a page draws of the last hour. ``own`` reads the changes of that hour in the journal.
    """
    if not groups:
        return GroupVerdicts(())
    if len(groups) > MOST_GROUPS:
        return read_generations(cluster, groups, budget_s)(groups)
    # Imported here: a page of many groups has no verdict.
    from kgroup.cluster.lag_reading import Need
    from kgroup.groups.verdict.group import group_verdict
    from kgroup.queries.facts import read_facts
    from kgroup.queries.page_facts import with_page_facts

    need = Need(budget_s, no_log=None if budget_s > 0 else "--no-generation", surroundings=True, state=True, past=past)
    try:
        with cluster.time_limit(budget_s or _BUDGET_S):
            read = read_facts(cluster, groups, need, own)
    except KgroupError as error:
        return GroupVerdicts(tuple(groups), notes=(f"no verdict: {error.message}",))
    named = tuple(
        replace(group, generation=read[group.name].generation, leader=read[group.name].leader)
        if _has_generation(group)
        else group
        for group in groups
    )
    others = read[named[0].name].shared.others
    evidence = with_page_facts(cluster, named, {group.name: read[group.name].evidence for group in named}, others)
    return GroupVerdicts(
        named,
        {group.name: group_verdict(group, evidence[group.name]) for group in named},
        () if budget_s == 0 else _notes(named, read),
    )


def read_generations(
    cluster: Cluster, groups: Sequence[Group | ListedGroup], budget_s: float
) -> Callable[[Sequence[Group]], GroupVerdicts]:
    """Reads the generations of many groups at once, and returns what adds them to any part of these groups.

    With ``budget_s`` 0 nothing is read.
    """
    names = [group.name for group in groups if group.type == "classic" and group.protocol_type != ""]
    results = cluster.generations(names, budget_s) if budget_s > 0 else None
    if results is None:
        return lambda part: GroupVerdicts(tuple(part))
    notes = () if results.note is None else (results.note,)

    def add(part: Sequence[Group]) -> GroupVerdicts:
        found = ((group, results.generations.get(group.name)) for group in part)
        dated = (replace(g, generation=it.number, leader=it.leader) if it else g for g, it in found)
        return GroupVerdicts(tuple(dated), notes=notes)

    return add


def _has_generation(group: Group) -> bool:
    return group.type == "classic" and not group.is_simple


def _notes(groups: Sequence[Group], read: Mapping[str, GroupFacts]) -> tuple[str, ...]:
    """A note about missing generations, with the same text as ``Cluster.dated``."""
    dated = [group for group in groups if _has_generation(group)]
    missing = [read[group.name] for group in dated if group.generation is None]
    if not missing:
        return ()
    reasons = dict.fromkeys(each.unread or each.stopped or "no record in __consumer_offsets" for each in missing)
    return (f"generation unknown for {len(missing)} of {len(dated)} classic groups: {'; '.join(reasons)}",)
