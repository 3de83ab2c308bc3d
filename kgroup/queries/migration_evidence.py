"""What the checks of a migration need: read for all groups at once, and put together for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kgroup.cluster import acls
from kgroup.cluster.broker_errors import PENDING_TRANSACTION
from kgroup.cluster.broker_facts import broker_facts
from kgroup.cluster.configs import group_configs
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.offsets_topic.group_past import UnknownPasts
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topic_visibility import may_hide_topics
from kgroup.cluster.topics import Layouts
from kgroup.groups.change_plan import committed
from kgroup.groups.member_labels import without_stale_members
from kgroup.groups.migration.evidence import ApplicationClient, MigrationEvidence
from kgroup.groups.selection import SelectedGroups
from kgroup.model.groups import Group, ListedGroup
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound

PAST_BUDGET_S = 2.0
"""How long the past of all groups is read, in seconds."""

ClientUse = Sequence[tuple[str | None, ApplicationClient]]
"""The clients of applications, each with the group it belongs to (None: all groups)."""


class ReadinessFacts(msgspec.Struct, frozen=True):
    """What the migration of a group depends on; ``unknown`` is what is not known of the pasts of all groups."""

    broker: BrokerFacts
    past: GroupPast | None
    configs: Mapping[str, str] | KgroupError | None
    access: Access | KgroupError | None
    may_hide: bool | None
    unknown: UnknownPasts | None


def read_readiness(
    cluster: Cluster, groups: Sequence[Group], past_time: SharedTime, known_pasts: Mapping[str, GroupPast]
) -> dict[str, ReadinessFacts]:
    """What the migration of each group depends on; ``past_time`` is for the pasts other than ``known_pasts``."""
    if not groups:
        return {}
    topics = {group.name: sorted(group.topics) for group in groups}
    facts = cluster.ask(broker_facts, {group.coordinator.id for group in groups if group.coordinator})
    configs = cluster.ask(group_configs, list(topics))
    access = cluster.ask(acls.access, topics)
    may_hide = _may_hide(cluster, access)
    # If the broker may hide commits, only the whole log shows them.
    pasts = {name: past for name, past in known_pasts.items() if may_hide is False or past.searched}
    note = None
    with past_time.part(len(groups)) as share_s:
        if unknown := [group for group in groups if group.name not in pasts]:
            read, note = cluster.pasts(unknown, share_s, to_start=may_hide is not False)
            pasts |= read
    return {
        group.name: ReadinessFacts(
            broker=facts.get(group.coordinator.id, BrokerFacts()) if group.coordinator else BrokerFacts(),
            past=pasts.get(group.name),
            configs=configs.get(group.name),
            access=access if isinstance(access, KgroupError) else access.get(group.name),
            may_hide=may_hide,
            unknown=note,
        )
        for group in groups
    }


def _may_hide(cluster: Cluster, access: Mapping[str, Access] | KgroupError) -> bool | None:
    """Whether the broker may hide topics from this user; None if that is unknown."""
    if isinstance(access, KgroupError):
        return True if isinstance(access, NotAuthorized) else None
    return any(item.authorizer for item in access.values()) and cluster.ask(may_hide_topics)


def migration_evidence(
    selected: SelectedGroups,
    read: Mapping[str, ReadinessFacts],
    layouts: Layouts,
    now_ms: int,
    others: Sequence[ListedGroup] = (),
    clients: ClientUse = (),
    configured: tuple[str, ...] = (),
) -> tuple[MigrationEvidence, ...]:
    """The evidence of these groups, in their order; unreadable data is None, with the reason in ``unread``.

    ``others`` are groups of types that kgroup cannot describe. ``configured`` are the assignors in the application's
    own configuration.
    """
    missing_topics = {topic for topic, layout in layouts.items() if isinstance(layout, NotFound)}
    pending: dict[str, list[TopicPartition]] = {}
    for (name, topic, number), error in selected.unread.items():
        if error.code == PENDING_TRANSACTION:
            pending.setdefault(name, []).append(TopicPartition(topic, number))
    evidence = []
    for group in selected.groups:
        name, facts = group.name, read[group.name]
        unread = {"past": f"{facts.unknown}"} if facts.unknown and facts.past is None else {}
        if isinstance(facts.configs, KgroupError):
            unread["configs"] = facts.configs.message
        if isinstance(facts.access, KgroupError):
            unread["access"] = facts.access.message
        evidence.append(
            MigrationEvidence(
                group=without_stale_members(group),
                kind=group.type,
                broker=facts.broker,
                past=facts.past,
                configs=None if isinstance(facts.configs, KgroupError) else facts.configs,
                access=None if isinstance(facts.access, KgroupError) else facts.access,
                now_ms=now_ms,
                pending=tuple(sorted({*pending.get(name, ()), *(facts.past.pending if facts.past else ())})),
                gone=tuple(sorted(missing_topics & {topic for topic, _ in committed(group)})),
                clients=tuple(client for of, client in clients if of in (None, name)),
                configured=configured,
                may_hide=facts.may_hide,
                unread=unread,
            )
        )
    return (*evidence, *(_of_other_kind(group, now_ms) for group in others))


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
