"""What the checks of a migration need: read for all groups at once, and put together for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

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


def read_evidence(
    cluster: Cluster,
    groups: Sequence[Group],
    layouts: Layouts,
    now_ms: int,
    past_time: SharedTime,
    known_pasts: Mapping[str, GroupPast],
) -> tuple[dict[str, MigrationEvidence], UnknownPasts | None]:
    """(The evidence by group, what of their pasts is not known). Unreadable data is None; ``unread`` has the reasons.

    ``layouts`` are those of all their topics. ``past_time`` is for the pasts other than ``known_pasts``.
    """
    if not groups:
        return {}, None
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
    missing_topics = {topic for topic, layout in layouts.items() if isinstance(layout, NotFound)}
    evidence = {}
    for group in groups:
        name, past = group.name, pasts.get(group.name)
        unread = {"past": f"{note}"} if note and past is None else {}
        own_configs = configs.get(name)
        if isinstance(own_configs, KgroupError):
            unread["configs"] = own_configs.message
        own_access = access if isinstance(access, KgroupError) else access.get(name)
        if isinstance(own_access, KgroupError):
            unread["access"] = own_access.message
        evidence[name] = MigrationEvidence(
            group=without_stale_members(group),
            kind=group.type,
            broker=facts.get(group.coordinator.id, BrokerFacts()) if group.coordinator else BrokerFacts(),
            past=past,
            configs=None if isinstance(own_configs, KgroupError) else own_configs,
            access=None if isinstance(own_access, KgroupError) else own_access,
            now_ms=now_ms,
            pending=past.pending if past else (),
            gone=tuple(sorted(missing_topics & {topic for topic, _ in committed(group)})),
            may_hide=may_hide,
            unread=unread,
        )
    return evidence, note


def _may_hide(cluster: Cluster, access: Mapping[str, Access] | KgroupError) -> bool | None:
    """Whether the broker may hide topics from this user; None if that is unknown."""
    if isinstance(access, KgroupError):
        return True if isinstance(access, NotAuthorized) else None
    return any(item.authorizer for item in access.values()) and cluster.ask(may_hide_topics)


def with_pending(evidence: MigrationEvidence, selected: SelectedGroups) -> MigrationEvidence:
    """The evidence with the partitions whose commits the broker did not show because a transaction is open."""
    pending = {
        TopicPartition(topic, number)
        for (name, topic, number), error in selected.unread.items()
        if name == evidence.group.name and error.code == PENDING_TRANSACTION
    }
    return replace(evidence, pending=tuple(sorted({*pending, *evidence.pending})))


def evidence_of_other_kind(listed: ListedGroup, now_ms: int) -> MigrationEvidence:
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
