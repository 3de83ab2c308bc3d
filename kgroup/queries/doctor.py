"""Reads what the doctor's rules need, for many groups at once: round trips grow with brokers, not with groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.group_log import GroupLogs
from kgroup.cluster.snapshot import Cluster, Snapshot
from kgroup.cluster.topics import LogView, TopicLayout
from kgroup.groups.doctor.about_lag import stalls_of
from kgroup.groups.doctor.from_log import DoctorLogFacts, from_log
from kgroup.groups.doctor.snapshot import (
    ClusterSnapshot,
    CommitPoint,
    CommitSeries,
    GroupSnapshot,
    LogDetails,
    MemberSettings,
    OffsetsPartition,
    Production,
    TopicDetails,
)
from kgroup.groups.history.summary import HistoryQuery
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.readiness import readiness
from kgroup.groups.selection import without_unread_groups
from kgroup.model.groups import Group, LogRange, Partition, RowError
from kgroup.model.migration_facts import SESSION_CONFIG, BrokerFacts, OpenTransaction
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.migration_data import load_rules
from kgroup.queries.migration_evidence import read_evidence, topics_of
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.units import plural

PRODUCTION_MS = 600_000
"""The period in ms in which arriving records are counted: long enough for a batch producer's rounds."""

_NOT_ASKED = KgroupError("not asked for")
_STATE_SUFFIX = "-changelog"
Layouts = Mapping[str, TopicLayout | KgroupError]
Views = Mapping[TopicPartition, LogView | KgroupError]
Opened = Mapping[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]


@dataclass(frozen=True, slots=True)
class ScanDepth:
    """The time (ms since 1970) down to which ``__consumer_offsets`` is read, and the limit in seconds."""

    since_ms: int
    budget_s: float


@dataclass(frozen=True, slots=True)
class _Logs:
    """The state of partitions: log views, the times of the records at last stable offsets, open transactions."""

    layouts: Layouts
    views: Views
    held_ms: Mapping[TopicPartition, int | KgroupError | None]
    opened: Opened

    def facts(self, tp: TopicPartition) -> LogDetails:
        """The details of one partition; empty if its log could not be read."""
        view = self.views.get(tp)
        if not isinstance(view, LogView):
            return LogDetails()
        (since,) = view.at_times
        arrived = 0 if since is None else view.end - since
        held = self.held_ms.get(tp)
        return LogDetails(
            last_stable=view.last_stable.offset,
            held_since_ms=self._began(tp, view.last_stable.offset) or (held if isinstance(held, int) else None),
            production=Production(arrived, PRODUCTION_MS),
            leader_epoch=view.leader_epoch,
        )

    def _began(self, tp: TopicPartition, offset: int) -> int | None:
        """When the transaction at this offset began, by the broker's clock, or None; producers set record times."""
        found = self.opened.get(tp, ())
        holders = () if isinstance(found, KgroupError) else (one for one in found if one.start_offset <= offset)
        return next((one.began_ms for one in holders if one.began_ms is not None), None)


def group_snapshots(
    reporter: Reporter, cluster: Cluster, found: Snapshot, depth: ScanDepth
) -> tuple[GroupSnapshot, ...]:
    """All readable data of these groups, in their order; ``unread`` has the reasons for missing data."""
    if not found.groups:
        return ()
    now_ms = utc_ms()
    evidence = read_evidence(reporter, cluster, without_unread_groups(found.groups, found.errors), (), ())
    by_name = {item.group.name: item for item in evidence}
    known = [by_name[group.name].group if group.name in by_name else group for group in found.groups]
    layouts = cluster.layouts({topic for group in known for topic in topics_of(group)})
    groups = [_with_all_partitions(group, layouts) for group in known]
    past = _group_logs(cluster, groups, depth)
    cut_short = [log.reach.stopped for log in past.logs.values() if log.reach.stopped]
    cut_short += () if past.forbidden else past.unread.values()
    if cut_short:
        of = "" if len(groups) == 1 else f" of {len(cut_short)} of {plural(len(groups), 'group')}"
        reporter.note(f"the past{of} was not read as far back as asked: {cut_short[0]}")
    # Partitions with an error are skipped: reading them would wait for a leader once more.
    partitions = {p.tp for group in groups for p in group.partitions if p.error is None}
    logs = _looked_at(cluster, layouts, partitions, now_ms)
    names = _topic_names(cluster)
    rules = load_rules()
    snapshots = []
    for group in groups:
        item = by_name.get(group.name)
        asked = HistoryQuery(depth.since_ms, now_ms, now_ms, _session(item))
        made = _snapshot(_with_logs(group, logs.views), item, past, logs, names, asked)
        judged = readiness(item, MigrationRequest("consumer"), rules) if item and group.type == "classic" else None
        made = replace(made, unread={**_unread_logs(group, found.errors, logs.views), **made.unread})
        snapshots.append(replace(made, readiness=judged, bootstrap=cluster.ref.bootstrap_servers))
    return _with_first_unread(cluster, snapshots)


def _group_logs(cluster: Cluster, groups: Sequence[Group], depth: ScanDepth) -> GroupLogs:
    """The groups' events in the log; if it cannot be read, only the reasons."""
    since_ms = {group.name: depth.since_ms for group in groups}
    if depth.budget_s <= 0:
        return GroupLogs({}, dict.fromkeys(since_ms, f"{OFFSETS_TOPIC} was given no time (--log-budget)"))
    try:
        return cluster.group_logs(since_ms, depth.budget_s, to_last_state=True)
    except KgroupError as error:
        return GroupLogs({}, dict.fromkeys(since_ms, f"{OFFSETS_TOPIC} could not be read: {error.message}"))


def _with_first_unread(cluster: Cluster, made: Sequence[GroupSnapshot]) -> tuple[GroupSnapshot, ...]:
    """Add whether a record is unread at seemingly stalled commits: it may be new, or only a transaction marker."""
    wanted = {
        (one.group.name, stall.partition.tp): LogRange(
            max(stall.partition.commit.offset, stall.partition.log.start), stall.partition.log.end
        )
        for one in made
        for stall in stalls_of(one)
        if stall.partition.commit is not None and stall.partition.log is not None
    }
    if not wanted:
        return tuple(made)
    try:
        times = cluster.first_timestamps_of((tp, span) for (_, tp), span in wanted.items())
    except KgroupError:
        return tuple(made)  # a finding without its age
    found = {(name, tp): times[tp, span] for (name, tp), span in wanted.items()}
    return tuple(replace(one, logs=_told(one, found)) for one in made)


def _told(
    one: GroupSnapshot, found: Mapping[tuple[str, TopicPartition], int | KgroupError | None]
) -> Mapping[TopicPartition, LogDetails]:
    logs = dict(one.logs)
    for tp, facts in one.logs.items():
        answer = found.get((one.group.name, tp), _NOT_ASKED)
        if not isinstance(answer, KgroupError):
            logs[tp] = replace(facts, unread=answer is not None, unread_since_ms=answer)
    return logs


def _topic_names(cluster: Cluster) -> tuple[str, ...]:
    """All topic names, empty if they cannot be listed: they only serve to find state topics of a group."""
    try:
        return tuple(topic.name for topic in cluster.topic_names())
    except KgroupError:
        return ()


def _session(item: MigrationEvidence | None) -> int | None:
    """The session timeout in ms of members with the consumer protocol, None if it is unknown."""
    if item is None or item.configs is None:
        return None
    own = item.configs.get(SESSION_CONFIG, "")
    return int(own) if own.isdecimal() else item.broker.session.default_ms if item.broker.session else None


def _snapshot(
    group: Group,
    item: MigrationEvidence | None,
    past: GroupLogs,
    logs: _Logs,
    names: Sequence[str],
    asked: HistoryQuery,
) -> GroupSnapshot:
    log = past.logs.get(group.name)
    told = None if log is None else from_log(log.events, log.reach, group, asked)
    why = past.unread.get(group.name, "__consumer_offsets was not read")
    unread = {} if told else dict.fromkeys(("settings", "commits", "history", "emptied_at_ms"), why)
    if told and log and log.reach.stopped:
        unread |= dict.fromkeys(("settings", "emptied_at_ms"), log.reach.stopped)
    unread |= {} if item is None else item.unread
    partitions = [p.tp for p in group.partitions]
    opened, refused = _transactions(logs, partitions)
    if refused:
        unread["transactions"] = refused
    topics = {topic: layout for topic in topics_of(group) if isinstance(layout := logs.layouts.get(topic), TopicLayout)}
    gone = {topic for topic in topics_of(group) if isinstance(logs.layouts.get(topic), NotFound)}
    emptied_ms = told.emptied_at_ms if told else None
    if emptied_ms is None and group.is_empty and item and item.past:
        emptied_ms = item.past.emptied_at_ms
    broker = item.broker if item else BrokerFacts()
    return GroupSnapshot(
        group=group,
        now_ms=asked.now_ms,
        settings=_settings(told, group),
        commits=_commits(told, item, group),
        commits_since_ms=told.commits_since_ms if told else None,
        logs={tp: logs.facts(tp) for tp in partitions},
        topics={topic: TopicDetails(len(layout.leaders), layout.id) for topic, layout in topics.items()},
        gone=frozenset(gone),
        state_topics=tuple(_state_topics(group.name, names)),
        history=told.history if told else None,
        broker=broker,
        configs=item.configs if item else None,
        emptied_at_ms=emptied_ms,
        transactions=opened,
        transaction_max_ms=broker.transaction_max_ms,
        unread=unread,
    )


def _unread_logs(group: Group, errors: Sequence[RowError], views: Views) -> dict[str, str]:
    """Why the logs of some partitions are unknown, by the first failure; a deleted topic is not a failure."""
    whys = [f"{error.topic} {error.message}" for error in errors if error.group == group.name and error.topic]
    failed = ((p, views.get(p.tp)) for p in group.partitions)
    whys += [
        f"{partition.tp} {view.message}"
        for partition, view in failed
        if isinstance(view, KgroupError) and not isinstance(view, NotFound)
    ]
    return dict.fromkeys(("logs", "last_stable", "production"), whys[0]) if whys else {}


def _settings(told: DoctorLogFacts | None, group: Group) -> Mapping[str, MemberSettings] | None:
    """The settings of current members; None if the log was not read."""
    if told is None:
        return None
    here = {member.member_id for member in group.members or ()}
    return {who: found for who, found in told.settings.items() if who in here}


def _commits(
    told: DoctorLogFacts | None, item: MigrationEvidence | None, group: Group
) -> Mapping[TopicPartition, CommitSeries] | None:
    """The commits in the log; without one, the current commit if its time is known. None if nothing was read."""
    past = item.past if item else None
    if told is None and past is None:
        return None
    found = dict(told.commits) if told else {}
    for partition in group.partitions if past else ():
        tp = partition.tp
        at_ms = past.commits_ms.get(tp) if past else None
        if past and at_ms is not None and partition.commit is not None and tp not in found:
            found[tp] = CommitSeries((CommitPoint(partition.commit.offset, at_ms),), past.topic_ids.get(tp))
    return found


def _state_topics(group: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{group}-") and name.endswith(_STATE_SUFFIX)]


def _transactions(
    logs: _Logs, partitions: Collection[TopicPartition]
) -> tuple[tuple[OpenTransaction, ...] | None, str | None]:
    """(the open transactions in these partitions, None); or (None, the reason) if one could not be read."""
    found: list[OpenTransaction] = []
    for topic, number in partitions:
        row = logs.opened.get(TopicPartition(topic, number), ())
        if isinstance(row, KgroupError):
            return None, f"open transactions of {topic}:{number}: {row.message}"
        found += row
    return tuple(found), None


def _with_all_partitions(group: Group, layouts: Layouts) -> Group:
    """The group with the other partitions of its topics: a group that uses assign() may have missed a new one."""
    here = {(p.topic, p.partition) for p in group.partitions}
    more = [
        Partition(topic, number, None, None, None, None)
        for topic in sorted({topic for topic, _ in here})
        if isinstance(layout := layouts.get(topic), TopicLayout)
        for number in sorted(layout.leaders)
        if (topic, number) not in here
    ]
    if not more:
        return group
    return replace(group, partitions=tuple(sorted((*group.partitions, *more), key=lambda p: (p.topic, p.partition))))


def _with_logs(group: Group, views: Views) -> Group:
    if all(p.log is not None or p.error for p in group.partitions):
        return group
    return replace(group, partitions=tuple(_with_log(p, views.get(p.tp)) for p in group.partitions))


def _with_log(partition: Partition, view: LogView | KgroupError | None) -> Partition:
    if partition.log is not None or partition.error or view is None:
        return partition
    if isinstance(view, KgroupError):
        return replace(partition, error=view.code)
    return replace(partition, log=LogRange(view.start, view.end))


def _looked_at(cluster: Cluster, layouts: Layouts, partitions: Collection[TopicPartition], now_ms: int) -> _Logs:
    """The logs of these partitions; transactions are read only where the last stable offset is below the log end."""
    views = cluster.log_views(layouts, partitions, [now_ms - PRODUCTION_MS]) if partitions else {}
    held = {
        tp: LogRange(view.last_stable.offset, view.end)
        for tp, view in views.items()
        if isinstance(view, LogView) and view.last_stable.offset < view.end
    }
    if not held:
        return _Logs(layouts, views, {}, {})
    held_ms: Mapping[TopicPartition, int | KgroupError | None]
    opened: Opened
    try:
        held_ms, opened = cluster.first_timestamps(held), cluster.open_transactions(layouts, held)
    except KgroupError as error:
        held_ms, opened = {}, dict.fromkeys(held, error)
    return _Logs(layouts, views, held_ms, opened)


def cluster_snapshot(cluster: Cluster, listing: GroupListing) -> ClusterSnapshot:
    """The data that affects every group; ``listing`` is the list of all groups."""
    now_ms = utc_ms()
    unread: dict[str, str] = {}
    topic = cluster.offsets_topic()
    layouts = cluster.layouts([OFFSETS_TOPIC])
    partitions = None
    if isinstance(topic.partitions, KgroupError):
        unread["offsets_topic"] = f"{OFFSETS_TOPIC} {topic.partitions.message}"
    else:
        partitions = tuple(OffsetsPartition(p.partition, p.leader, p.replicas, p.in_sync) for p in topic.partitions)
    if isinstance(topic.min_in_sync, KgroupError):
        unread["min_in_sync"] = topic.min_in_sync.message
    topic_partitions = [TopicPartition(OFFSETS_TOPIC, p.partition) for p in partitions or () if p.leader is not None]
    logs = _looked_at(cluster, layouts, topic_partitions, now_ms)
    opened, refused = _transactions(logs, topic_partitions)
    if partitions is None:
        opened, refused = None, unread["offsets_topic"]
    elif failed := next((view for view in logs.views.values() if isinstance(view, KgroupError)), None):
        opened, refused = None, f"{OFFSETS_TOPIC} {failed.message}"
    if refused:
        unread["transactions"] = refused
    counts = None
    if not listing.complete:
        unread["groups_by_coordinator"] = "no DESCRIBE on the Cluster: groups may be hidden"
    elif listing.failures:
        unread["groups_by_coordinator"] = listing.failures[0].message
    else:
        counts = dict.fromkeys(cluster.broker_ids, 0)
        for group in listing.groups:
            if group.coordinator is not None:
                counts[group.coordinator.id] = counts.get(group.coordinator.id, 0) + 1
    facts = cluster.broker_facts(cluster.broker_ids[:1])
    maximum = next((broker.transaction_max_ms for broker in facts.values()), None)
    return ClusterSnapshot(
        now_ms=now_ms,
        offsets_topic=partitions,
        min_in_sync=None if isinstance(topic.min_in_sync, KgroupError) else topic.min_in_sync,
        groups_by_coordinator=counts,
        brokers=len(cluster.broker_ids),
        transactions=opened,
        transaction_max_ms=maximum,
        bootstrap=cluster.ref.bootstrap_servers,
        unread=unread,
    )
