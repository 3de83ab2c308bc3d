"""Reads the evidence for the checks of a migration, for all groups at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from kgroup.cluster import acls
from kgroup.cluster.broker_errors import PENDING_TRANSACTION
from kgroup.cluster.broker_facts import broker_facts
from kgroup.cluster.configs import group_configs
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topic_visibility import may_hide_topics
from kgroup.cluster.topics import Layouts
from kgroup.groups.change_plan import committed
from kgroup.groups.member_labels import without_stale_members
from kgroup.groups.migration.evidence import ApplicationClient, MigrationEvidence
from kgroup.groups.selection import SelectedGroups
from kgroup.model.groups import Group, ListedGroup
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound

if TYPE_CHECKING:
    from kgroup.cluster.offsets_topic.group_past import UnknownPasts

PAST_BUDGET_S = 2.0
"""How long the past of all groups is read, in seconds."""

ClientUse = Sequence[tuple[str | None, ApplicationClient]]
"""The clients of applications, each with the group it belongs to (None: all groups)."""


def read_migration_evidence(
    reporter: Reporter,
    cluster: Cluster,
    selected: SelectedGroups,
    layouts: Layouts,
    others: Sequence[ListedGroup] = (),
    clients: ClientUse = (),
    configured: tuple[str, ...] = (),
    past_budget_s: float = PAST_BUDGET_S,
    report: Callable[[UnknownPasts], None] | None = None,
    known_pasts: Mapping[str, GroupPast] = MappingProxyType({}),
) -> tuple[MigrationEvidence, ...]:
    """The evidence of these groups, in their order; unreadable data is None, with the reason in ``unread``.

    ``layouts`` are those of all their topics. ``others`` are groups of types that kgroup cannot describe.
    ``configured`` are the assignors in the application's own configuration. ``past_budget_s`` is how long the groups'
    past is read, but of ``known_pasts``. ``report`` gets what is not known of it, instead of the reporter: for groups
    that are read in parts.
    """
    names = [group.name for group in selected.groups]
    topics = {group.name: sorted(topics_of(group)) for group in selected.groups}
    now_ms = cluster.now_ms()
    facts = cluster.ask(broker_facts, {group.coordinator.id for group in selected.groups if group.coordinator})
    configs = cluster.ask(group_configs, names) if names else {}
    access = cluster.ask(acls.access, topics) if names else {}
    may_hide = _may_hide(cluster, access)
    # If the broker may hide commits, only the whole log shows them.
    pasts = {name: past for name, past in known_pasts.items() if may_hide is False or past.searched}
    note = None
    if unknown := [group for group in selected.groups if group.name not in pasts]:
        read, note = cluster.pasts(unknown, past_budget_s, to_start=may_hide is not False)
        pasts |= read
    if note and report is not None:
        report(note)
    elif note:
        reporter.note(f"{note}")
    missing_topics = {topic for topic, layout in layouts.items() if isinstance(layout, NotFound)}
    pending: dict[str, list[TopicPartition]] = {}
    for (name, topic, number), error in selected.unread.items():
        if error.code == PENDING_TRANSACTION:
            pending.setdefault(name, []).append(TopicPartition(topic, number))
    evidence = []
    for group in selected.groups:
        name = group.name
        unread = {"past": f"{note}"} if note and name not in pasts else {}
        own_configs = configs.get(name)
        if isinstance(own_configs, KgroupError):
            unread["configs"] = own_configs.message
        own_access = access if isinstance(access, KgroupError) else access.get(name)
        if isinstance(own_access, KgroupError):
            unread["access"] = own_access.message
        evidence.append(
            MigrationEvidence(
                group=without_stale_members(group),
                kind=group.type,
                broker=facts.get(group.coordinator.id, BrokerFacts()) if group.coordinator else BrokerFacts(),
                past=pasts.get(name),
                configs=None if isinstance(own_configs, KgroupError) else own_configs,
                access=None if isinstance(own_access, KgroupError) else own_access,
                now_ms=now_ms,
                pending=tuple(sorted({*pending.get(name, ()), *(past.pending if (past := pasts.get(name)) else ())})),
                gone=tuple(sorted(missing_topics & {topic for topic, _ in committed(group)})),
                clients=tuple(client for of, client in clients if of in (None, name)),
                configured=configured,
                may_hide=may_hide,
                unread=unread,
            )
        )
    return (*evidence, *(_of_other_kind(group, now_ms) for group in others))


def _may_hide(cluster: Cluster, access: Mapping[str, Access] | KgroupError) -> bool | None:
    """Whether the broker may hide topics from this user; None if that is unknown."""
    if isinstance(access, KgroupError):
        return True if isinstance(access, NotAuthorized) else None
    return any(item.authorizer for item in access.values()) and cluster.ask(may_hide_topics)


def topics_of(group: Group) -> set[str]:
    """The topics of a group: committed, assigned or subscribed."""
    subscribed = {topic for member in group.members or () for topic in member.subscription or ()}
    return subscribed | {partition.tp.topic for partition in group.partitions}


def _of_other_kind(listed: ListedGroup, now_ms: int) -> MigrationEvidence:
    """The evidence of a share or streams group: nothing of it is read."""
    group = Group(
        name=listed.name,
        type=listed.type,
        state=listed.state,
        protocol_type=listed.protocol_type,
        assignor=None,
        coordinator=listed.coordinator,
        generation=None,
        leader=None,
        group_epoch=None,
        assignment_epoch=None,
        members=None,
        partitions=(),
    )
    return MigrationEvidence(group, listed.type, BrokerFacts(), None, None, None, now_ms)
