"""Reads what the doctor's rules need, for many groups at once: round trips grow with brokers, not with groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kgroup.cluster.broker_facts import broker_facts
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.first_records import first_records
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.lag_reading import LagFacts
from kgroup.cluster.offsets_topic.group_log import GroupLogs
from kgroup.cluster.offsets_topic.group_past import UnknownPasts
from kgroup.cluster.offsets_topic.replica_health import offsets_topic
from kgroup.cluster.open_transactions import OpenTransactions
from kgroup.cluster.snapshot import Cluster, Snapshot
from kgroup.cluster.topics import Layouts, LogView, TopicLayout, list_topics
from kgroup.groups.doctor.about_lag import asks_for_first_unread, may_be_stuck
from kgroup.groups.doctor.from_log import from_log
from kgroup.groups.doctor.snapshot import ClusterSnapshot, GroupSnapshot, TopicDetails
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.history.summary import HistoryQuery
from kgroup.groups.lag.evidence import MemberFacts
from kgroup.groups.lag.from_log import LagLogFacts
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.readiness import assess_readiness
from kgroup.groups.offset_resets import with_changes
from kgroup.groups.selection import SelectedGroups, without_unread_groups
from kgroup.model.groups import Group, LoggedCommit, LogRange, Partition, RowError
from kgroup.model.migration_facts import SESSION_CONFIG, BrokerFacts, GroupPast, OpenTransaction, group_setting_ms
from kgroup.model.reporter import NullReporter, Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.facts import PAST_MS, RATES_MS, EvidenceOfLogs, first_unread
from kgroup.queries.migration_data import load_rules
from kgroup.queries.migration_evidence import PAST_BUDGET_S, read_migration_evidence, topics_of
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.units import plural

_STATE_SUFFIX = "-changelog"
_NO_OFFSET = 0
"""Where a commit is in the log of groups: the past of a group does not keep it, and no rule needs it."""
Views = Mapping[TopicPartition, LogView | KgroupError]


class ScanDepth(msgspec.Struct, frozen=True):
    """How far back from now ``__consumer_offsets`` is read, in ms, and the limit in seconds."""

    span_ms: int
    budget_s: float


class GroupsReader:
    """Reads what the rules need of groups, in parts that share the time limits; ``groups`` is the number of all.

    ``own`` reads the changes of the last hour in this machine's journal.
    """

    def __init__(
        self, cluster: Cluster, depth: ScanDepth, groups: int, own: Callable[[], OwnChanges] = OwnChanges
    ) -> None:
        self.cluster = cluster
        self.own = own
        self.depth = depth
        self.groups = groups
        self._log_time = SharedTime(depth.budget_s, groups)
        self._past_time = SharedTime(PAST_BUDGET_S, groups)
        self._unknown_pasts: list[UnknownPasts] = []
        self._groups_with_past = 0
        self._cut_short: list[str] = []
        self._read = 0

    @cached_property
    def topic_names(self) -> tuple[str, ...]:
        """All topic names, empty if they cannot be listed: they only serve to find state topics of a group."""
        try:
            return tuple(topic.name for topic in self.cluster.ask(list_topics))
        except KgroupError:
            return ()

    def evidence(
        self, selected: SelectedGroups, layouts: Layouts, part: int, known_pasts: Mapping[str, GroupPast]
    ) -> tuple[MigrationEvidence, ...]:
        """The evidence of a part of so many groups; some may have been left out."""
        with self._past_time.part(part) as share_s:
            self._groups_with_past += len(selected.groups)
            report = self._unknown_pasts.append
            return read_migration_evidence(
                NullReporter(),
                self.cluster,
                selected,
                layouts,
                past_budget_s=share_s,
                report=report,
                known_pasts=known_pasts,
            )

    def logs(self, groups: Sequence[Group], part: int, since_ms: int) -> GroupLogs:
        """The groups' events in the log; if it cannot be read, only the reasons."""
        past = self._logs(groups, part, since_ms)
        self._read += len(groups)
        self._cut_short += [log.reach.stopped for log in past.logs.values() if log.reach.stopped]
        self._cut_short += () if past.forbidden else past.unread.values()
        return past

    def _logs(self, groups: Sequence[Group], part: int, moment_ms: int) -> GroupLogs:
        since_ms = {group.name: moment_ms for group in groups}
        if self.depth.budget_s <= 0:
            return GroupLogs({}, dict.fromkeys(since_ms, f"{OFFSETS_TOPIC} was not read (--scan-time 0s)"))
        limit_s = self._log_time.limit_s
        try:
            with self._log_time.part(part) as share_s:
                return self.cluster.group_logs(since_ms, share_s, to_last_state=True, limit_s=limit_s, pasts=groups)
        except KgroupError as error:
            return GroupLogs({}, dict.fromkeys(since_ms, f"{OFFSETS_TOPIC} could not be read: {error.message}"))

    def note(self, reporter: Reporter) -> None:
        """Report what was not read, once for all groups."""
        if self._unknown_pasts:
            incomplete = sum(part.incomplete for part in self._unknown_pasts)
            whole = UnknownPasts(incomplete, self._groups_with_past, self._unknown_pasts[0].reason)
            reporter.note(f"{whole}")
        if self._cut_short:
            of = "" if self._read == 1 else f" of {len(self._cut_short)} of {plural(self._read, 'group')}"
            reporter.note(f"the past{of} was not read back to --since: {self._cut_short[0]}")


def group_snapshots(reader: GroupsReader, snapshot: Snapshot, part: int) -> tuple[GroupSnapshot, ...]:
    """All readable data of these groups, in their order; ``unread`` has the reasons for missing data.

    ``part`` is how many groups were to be read, of which some may be missing.
    """
    if not snapshot.groups:
        return ()
    cluster, depth = reader.cluster, reader.depth
    now_ms = cluster.now_ms()
    since_ms = now_ms - depth.span_ms
    past = reader.logs(snapshot.groups, part, since_ms)
    layouts = cluster.layouts({topic for group in snapshot.groups for topic in topics_of(group)})
    evidence = reader.evidence(without_unread_groups(snapshot.groups, snapshot.errors), layouts, part, past.pasts)
    by_name = {item.group.name: item for item in evidence}
    known = [by_name[group.name].group if group.name in by_name else group for group in snapshot.groups]
    groups = [_with_all_partitions(group, layouts) for group in known]
    # Partitions with an error are skipped: reading them would wait for a leader once more.
    partitions = {p.tp for group in groups for p in group.partitions if p.error is None}
    moments_ms = [now_ms - span_ms for span_ms in (*RATES_MS, *(PAST_MS if reader.groups == 1 else ()))]
    facts = LagFacts(layouts, cluster.log_views(layouts, partitions, moments_ms) if partitions else {}, past, {}, {})
    facts = replace(facts, transactions=_open_transactions(cluster, facts))
    logs = EvidenceOfLogs(facts, moments_ms)
    held_since_ms = _held_since_ms(cluster, facts)
    # A deleted topic is not a failure.
    failed = {
        tp: view for tp, view in facts.views.items() if isinstance(view, KgroupError) and not isinstance(view, NotFound)
    }
    names = reader.topic_names
    rules = load_rules()
    snapshots = []
    for group in groups:
        item = by_name.get(group.name)
        session_ms = group_setting_ms(item.configs, SESSION_CONFIG, item.broker.session) if item else None
        query = HistoryQuery(since_ms, now_ms, now_ms, session_ms, jumps=False)
        known_so_far = _snapshot(_with_logs(group, facts.views), item, facts, logs, names, query)
        group_readiness = (
            assess_readiness(item, MigrationRequest("consumer"), rules) if item and group.type == "classic" else None
        )
        snapshots.append(
            replace(
                known_so_far,
                unread={**_unread_logs(group, snapshot.errors, failed), **known_so_far.unread},
                held_since_ms=held_since_ms,
                readiness=group_readiness,
                resets=with_changes(known_so_far.resets, group.name, reader.own),
                bootstrap=cluster.ref.bootstrap_servers,
            )
        )
    return _with_first_unread(cluster, snapshots)


def _with_first_unread(cluster: Cluster, snapshots: Sequence[GroupSnapshot]) -> tuple[GroupSnapshot, ...]:
    """Add whether a record is unread at seemingly stalled commits: it may be new, or only a transaction marker.

    The leaders are looked up again: one may have moved, and a record that is not read changes what is found.
    """
    unread_ranges = {
        (snapshot.group.name, row.partition.tp): LogRange(row.first, row.partition.log.end)
        for snapshot in snapshots
        if asks_for_first_unread(snapshot)
        for row in may_be_stuck(snapshot)
        if row.first is not None and row.partition.log is not None
    }
    if not unread_ranges:
        return tuple(snapshots)
    try:
        layouts = cluster.layouts({tp.topic for _, tp in unread_ranges})
        records = cluster.ask(first_records, layouts, [(tp, span) for (_, tp), span in unread_ranges.items()])
    except KgroupError:
        return tuple(snapshots)  # a finding without its age
    logs = {snapshot.group.name: dict(snapshot.logs) for snapshot in snapshots}
    for (name, tp), span in unread_ranges.items():
        logs[name][tp] = replace(logs[name][tp], first_unread=first_unread(records[tp, span]))
    return tuple(replace(snapshot, logs=logs[snapshot.group.name]) for snapshot in snapshots)


def _snapshot(
    group: Group,
    item: MigrationEvidence | None,
    facts: LagFacts,
    logs: EvidenceOfLogs,
    names: Sequence[str],
    query: HistoryQuery,
) -> GroupSnapshot:
    log = facts.logs.logs.get(group.name)
    doctors = None if log is None else from_log(log.events, log.reach, group, query)
    log_facts = None if doctors is None else doctors.lag
    why = facts.logs.unread.get(group.name, "__consumer_offsets was not read")
    unread = {} if log_facts else dict.fromkeys(("settings", "commits", "history", "emptied_at_ms"), why)
    if log_facts and log and log.reach.stopped:
        unread |= dict.fromkeys(("settings", "emptied_at_ms"), log.reach.stopped)
    unread |= {} if item is None else item.unread
    partitions = [p.tp for p in group.partitions]
    open_transactions, why_not_read = _transactions(facts, partitions)
    if why_not_read:
        unread["transactions"] = why_not_read
    layouts = facts.layouts
    topics = {topic: layout for topic in topics_of(group) if isinstance(layout := layouts.get(topic), TopicLayout)}
    missing_topics = {topic for topic in topics_of(group) if isinstance(layouts.get(topic), NotFound)}
    group_past = item.past if item else None
    emptied_ms = log_facts.emptied_record_ms if log_facts else None
    if emptied_ms is None and group.is_empty and group_past:
        emptied_ms = group_past.emptied_at_ms
    broker = item.broker if item else BrokerFacts()
    return GroupSnapshot(
        group=group,
        now_ms=query.now_ms,
        settings=_settings(log_facts, group),
        commits=_commits(log_facts, group_past, group),
        topic_ids={**(group_past.topic_ids if group_past else {}), **(doctors.topic_ids if doctors else {})},
        commits_since_ms=log_facts.read_since_ms if log_facts else None,
        logs={p.tp: logs.of(p.tp, p.log) for p in group.partitions},
        topics={topic: TopicDetails(len(layout.leaders), layout.id) for topic, layout in topics.items()},
        gone=frozenset(missing_topics),
        state_topics=tuple(n for n in names if n.startswith(f"{group.name}-") and n.endswith(_STATE_SUFFIX)),
        history=doctors.history if doctors else None,
        generation=log_facts.generation if log_facts else None,
        shared_instances=log_facts.shared_instances if log_facts else (),
        resets=log_facts.resets if log_facts else (),
        broker=broker,
        configs=item.configs if item else None,
        emptied_at_ms=emptied_ms,
        state_since_ms=log_facts.state_since_ms if log_facts else None,
        transactions=open_transactions,
        transaction_max_ms=broker.transaction_max_ms,
        unread=unread,
    )


def _unread_logs(
    group: Group, errors: Sequence[RowError], failed: Mapping[TopicPartition, KgroupError]
) -> dict[str, str]:
    """Why the logs of some partitions are unknown, by the first failure."""
    whys = [f"{error.topic} {error.message}" for error in errors if error.group == group.name and error.topic]
    if failed:
        whys += [f"{p.tp} {failed[p.tp].message}" for p in group.partitions if p.tp in failed]
    return dict.fromkeys(("logs", "last_stable", "production"), whys[0]) if whys else {}


def _settings(log_facts: LagLogFacts | None, group: Group) -> Mapping[str, MemberFacts] | None:
    """The settings of current members; None if the log was not read."""
    if log_facts is None:
        return None
    current = {member.member_id for member in group.members or ()}
    return {member_id: settings for member_id, settings in log_facts.members.items() if member_id in current}


def _commits(
    log_facts: LagLogFacts | None, past: GroupPast | None, group: Group
) -> Mapping[TopicPartition, tuple[LoggedCommit, ...]] | None:
    """The commits in the log; without one, the current commit if its time is known. None if nothing was read."""
    if log_facts is None and past is None:
        return None
    logged = log_facts.commits if log_facts else {}
    older = past.commits_ms.keys() - logged.keys() if past else ()
    if not past or not older:
        return logged
    return {**logged} | {
        p.tp: (LoggedCommit(*p.tp, p.commit.offset, None, past.commits_ms[p.tp], _NO_OFFSET),)
        for p in group.partitions
        if p.commit is not None and p.tp in older
    }


def _transactions(
    facts: LagFacts, partitions: Collection[TopicPartition]
) -> tuple[tuple[OpenTransaction, ...] | None, str | None]:
    """(the open transactions in these partitions, None); or (None, the reason) if one could not be read."""
    if not facts.transactions:
        return (), None
    transactions: list[OpenTransaction] = []
    for tp in partitions:
        read = facts.transactions.get(tp, ())
        if isinstance(read, KgroupError):
            return None, f"open transactions of {tp}: {read.message}"
        transactions += read
    return tuple(transactions), None


def _with_all_partitions(group: Group, layouts: Layouts) -> Group:
    """The group with the other partitions of its topics: a group that uses assign() may have missed a new one."""
    committed = {p.tp for p in group.partitions}
    uncommitted = [
        Partition(TopicPartition(topic, number), None, None, None, None)
        for topic in sorted({topic for topic, _ in committed})
        if isinstance(layout := layouts.get(topic), TopicLayout)
        for number in sorted(layout.leaders)
        if (topic, number) not in committed
    ]
    if not uncommitted:
        return group
    return replace(
        group, partitions=tuple(sorted((*group.partitions, *uncommitted), key=lambda p: (p.topic, p.partition)))
    )


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


def _open_transactions(cluster: Cluster, facts: LagFacts) -> OpenTransactions:
    """The open transactions of the partitions whose last stable offset is below the log end."""
    blocked = [
        tp for tp, view in facts.views.items() if isinstance(view, LogView) and view.last_stable.offset < view.end
    ]
    if not blocked:
        return {}
    try:
        return cluster.open_transactions(facts.layouts, blocked)
    except KgroupError as error:
        return dict.fromkeys(blocked, error)


def _held_since_ms(cluster: Cluster, facts: LagFacts) -> dict[TopicPartition, int]:
    """The times of the records at last stable offsets, where no coordinator knows when the transaction began."""
    undated = {
        tp: LogRange(view.last_stable.offset, view.end)
        for tp, read in facts.transactions.items()
        if isinstance(view := facts.views[tp], LogView)
        and (isinstance(read, KgroupError) or not read or read[0].began_ms is None)
    }
    if not undated:
        return {}
    try:
        times = cluster.first_timestamps(cluster.layouts({tp.topic for tp in undated}), undated.items())
    except KgroupError:
        return {}
    return {tp: at_ms for (tp, _), at_ms in times.items() if isinstance(at_ms, int)}


def cluster_snapshot(cluster: Cluster) -> ClusterSnapshot:
    """The data that affects every group."""
    listing, now_ms = cluster.list_groups(), cluster.now_ms()
    unread: dict[str, str] = {}
    topic, brokers = cluster.ask(offsets_topic), sorted(cluster.brokers)
    layouts = cluster.layouts([OFFSETS_TOPIC])
    partitions = None
    if isinstance(topic.partitions, KgroupError):
        unread["offsets_topic"] = f"{OFFSETS_TOPIC} {topic.partitions.message}"
    else:
        partitions = topic.partitions
    if isinstance(topic.min_in_sync, KgroupError):
        unread["min_in_sync"] = topic.min_in_sync.message
    topic_partitions = [TopicPartition(OFFSETS_TOPIC, p.partition) for p in partitions or () if p.leader is not None]
    views = cluster.log_views(layouts, topic_partitions) if topic_partitions else {}
    facts = LagFacts(layouts, views, GroupLogs({}, {}), {}, {})
    facts = replace(facts, transactions=_open_transactions(cluster, facts))
    open_transactions, why_not_read = _transactions(facts, topic_partitions)
    if partitions is None:
        open_transactions, why_not_read = None, unread["offsets_topic"]
    elif failed := next((view for view in views.values() if isinstance(view, KgroupError)), None):
        open_transactions, why_not_read = None, f"{OFFSETS_TOPIC} {failed.message}"
    if why_not_read:
        unread["transactions"] = why_not_read
    counts = None
    if not listing.complete:
        unread["groups_by_coordinator"] = "no DESCRIBE on the Cluster: groups may be hidden"
    elif listing.failures:
        unread["groups_by_coordinator"] = listing.failures[0].message
    else:
        counts = dict.fromkeys(brokers, 0)
        for group in listing.groups:
            if group.coordinator is not None:
                counts[group.coordinator.id] = counts.get(group.coordinator.id, 0) + 1
    settings = cluster.ask(broker_facts, brokers[:1])
    maximum = next((broker.transaction_max_ms for broker in settings.values()), None)
    return ClusterSnapshot(
        now_ms=now_ms,
        offsets_topic=partitions,
        min_in_sync=None if isinstance(topic.min_in_sync, KgroupError) else topic.min_in_sync,
        groups_by_coordinator=counts,
        brokers=len(brokers),
        transactions=open_transactions,
        transaction_max_ms=maximum,
        bootstrap=cluster.ref.bootstrap_servers,
        unread=unread,
    )
