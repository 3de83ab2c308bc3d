"""Reads what the doctor's rules need, for many groups at once: round trips grow with brokers, not with groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kgroup.cluster.broker_facts import broker_facts
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.first_records import first_records
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.lag_reading import Need
from kgroup.cluster.offsets_topic.group_past import UnknownPasts
from kgroup.cluster.offsets_topic.replica_health import offsets_topic
from kgroup.cluster.open_transactions import OpenTransactions
from kgroup.cluster.snapshot import Cluster, Snapshot
from kgroup.cluster.topics import LogView, TopicLayout, list_topics
from kgroup.groups.doctor.about_lag import asks_for_first_unread, may_be_stuck
from kgroup.groups.doctor.from_log import from_log
from kgroup.groups.doctor.snapshot import ClusterSnapshot, GroupSnapshot, TopicDetails
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.history.summary import HistoryQuery
from kgroup.groups.lag.evidence import MemberFacts
from kgroup.groups.lag.from_log import LagLogFacts
from kgroup.groups.member_labels import without_stale_members
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.readiness import assess_readiness
from kgroup.groups.selection import without_unread_groups
from kgroup.model.groups import Group, LoggedCommit, LogRange, RowError
from kgroup.model.migration_facts import SESSION_CONFIG, BrokerFacts, GroupPast, OpenTransaction, group_setting_ms
from kgroup.model.reporter import Reporter
from kgroup.model.streams_group import changelogs_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.deliveries import BUDGET_S as DELIVERIES_BUDGET_S
from kgroup.queries.deliveries import with_deliveries
from kgroup.queries.facts import GroupFacts, first_unread, read_facts
from kgroup.queries.migration_data import load_rules
from kgroup.queries.migration_evidence import PAST_BUDGET_S, with_pending
from kgroup.queries.page_facts import read_change_ends
from kgroup.queries.successors import read_successors
from kgroup.queries.verdicts import MOST_GROUPS
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.units import plural

_NO_OFFSET = 0
"""Where a commit is in the log of groups: the past of a group does not keep it, and no rule needs it."""


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
        self.groups = groups
        self.own = own
        self.need = Need(
            depth.budget_s,
            no_time="read only where a group may be stuck",
            no_log=None if depth.budget_s > 0 else f"{OFFSETS_TOPIC} was not read (--scan-time 0s)",
            state=True,
            log_time=SharedTime(depth.budget_s, groups),
            crash_loops=False,
            past=groups == 1,
            span_ms=depth.span_ms,
            whole_topics=True,
            readiness=SharedTime(PAST_BUDGET_S, groups),
        )
        self._unknown_pasts: list[UnknownPasts] = []
        self._cut_short: list[str] = []
        self._read = 0

    @cached_property
    def topic_names(self) -> tuple[str, ...]:
        """All topic names, empty if they cannot be listed: they only serve to find state topics of a group."""
        try:
            return tuple(topic.name for topic in self.cluster.ask(list_topics))
        except KgroupError:
            return ()

    def state_topics(self, group: str) -> tuple[str, ...]:
        """Its changelogs, without those of other groups; all groups are listed if there may be any."""
        own = changelogs_of(group, self.topic_names)
        return changelogs_of(group, own, self._group_names) if own else ()

    @cached_property
    def _group_names(self) -> tuple[str, ...]:
        """Of the brokers that answer, empty if none does."""
        try:
            return tuple(group.name for group in self.cluster.list_groups().groups)
        except KgroupError:
            return ()

    def read(self, groups: Sequence[Group], part: int) -> dict[str, GroupFacts]:
        """The facts of a part of so many groups, of which some may have been left out."""
        for limit in (self.need.log_time, self.need.readiness):
            if limit is not None:
                limit.groups -= part - len(groups)  # the others have their time
        read = read_facts(self.cluster, groups, self.need, self.own)
        self._read += len(groups)
        for at, facts in enumerate(read.values()):
            unread = None if facts.shared.logs.forbidden else facts.unread
            self._cut_short += filter(None, (self.need.no_log or unread or facts.stopped,))
            if at == 0 and facts.unknown_pasts:
                self._unknown_pasts.append(facts.unknown_pasts)
        return read

    def note(self, reporter: Reporter) -> None:
        """Report what was not read, once for all groups."""
        if self._unknown_pasts:
            incomplete = sum(part.incomplete for part in self._unknown_pasts)
            whole = UnknownPasts(incomplete, self._read, self._unknown_pasts[0].reason)
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
    budget_s = 0 if reader.need.no_log else DELIVERIES_BUDGET_S
    groups = with_deliveries(reader.cluster, map(without_stale_members, snapshot.groups), budget_s)
    read = reader.read(groups, part)
    selected = without_unread_groups(snapshot.groups, snapshot.errors)
    known = [
        _snapshot(
            facts,
            with_pending(facts.migration, selected) if facts.migration and name in selected.names else None,
            reader,
            snapshot.errors,
        )
        for name, facts in read.items()
    ]
    snapshots = _with_first_unread(reader.cluster, known)
    if reader.groups > MOST_GROUPS:
        return snapshots
    emptied = {each.group.name: each.evidence.state_since_ms for each in snapshots}
    successors = read_successors(reader.cluster, [each.group for each in snapshots], emptied)
    evidence = {each.group.name: each.evidence for each in snapshots}
    change_ends = read_change_ends(reader.cluster, [each.group for each in snapshots], evidence)
    return tuple(
        replace(
            each,
            read=replace(
                each.read,
                successor=successors.get(each.group.name),
                change_ends=change_ends.get(each.group.name, {}),
            ),
        )
        for each in snapshots
    )


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
    now_ms = {snapshot.group.name: snapshot.now_ms for snapshot in snapshots}
    for (name, tp), span in unread_ranges.items():
        logs[name][tp] = replace(logs[name][tp], first_unread=first_unread(records[tp, span], now_ms[name]))
    return tuple(replace(snapshot, logs=logs[snapshot.group.name]) for snapshot in snapshots)


def _snapshot(
    facts: GroupFacts, item: MigrationEvidence | None, reader: GroupsReader, errors: Sequence[RowError]
) -> GroupSnapshot:
    group, shared, log_facts, evidence = facts.group, facts.shared, facts.log, facts.evidence
    log = shared.logs.logs.get(group.name)
    session_ms = group_setting_ms(item.configs, SESSION_CONFIG, item.broker.session) if item else None
    since_ms = evidence.now_ms - (reader.need.span_ms or 0)
    query = HistoryQuery(since_ms, evidence.now_ms, evidence.now_ms, session_ms, jumps=False)
    doctors = None if log is None else from_log(log.events, log.reach, group.name, query)
    why = reader.need.no_log or facts.unread or "__consumer_offsets was not read"
    unread = _unread_logs(facts, errors)
    if log_facts is None:
        unread |= dict.fromkeys(("settings", "commits", "history", "emptied_at_ms"), why)
    if facts.stopped:
        unread |= dict.fromkeys(("settings", "emptied_at_ms"), facts.stopped)
    unread |= {} if item is None else item.unread
    open_transactions, why_not_read = _transactions(shared.transactions, [p.tp for p in group.partitions])
    if why_not_read:
        unread["transactions"] = why_not_read
    layouts = {topic: shared.layouts.get(topic) for topic in group.topics}
    group_past = item.past if item else None
    emptied_ms = log_facts.emptied_record_ms if log_facts else None
    if emptied_ms is None and group.is_empty and group_past:
        emptied_ms = group_past.emptied_at_ms
    broker = item.broker if item else _release(reader.cluster, group) if group.is_share else BrokerFacts()
    return GroupSnapshot(
        group=group,
        now_ms=evidence.now_ms,
        settings=_settings(log_facts, group),
        commits=_commits(log_facts, group_past, group),
        topic_ids={**(group_past.topic_ids if group_past else {}), **(doctors.topic_ids if doctors else {})},
        commits_since_ms=log_facts.read_since_ms if log_facts else None,
        logs=evidence.partitions,
        held_since_ms=shared.held_since_ms,
        topics={
            topic: TopicDetails(len(layout.leaders), layout.id)
            for topic, layout in layouts.items()
            if isinstance(layout, TopicLayout)
        },
        gone=frozenset(topic for topic, layout in layouts.items() if isinstance(layout, NotFound)),
        state_topics=reader.state_topics(group.name),
        history=doctors.history if doctors else None,
        read=evidence,
        broker=broker,
        configs=item.configs if item else None,
        emptied_at_ms=emptied_ms,
        state_since_ms=evidence.state_since_ms,
        transactions=open_transactions,
        transaction_max_ms=broker.transaction_max_ms,
        readiness=assess_readiness(item, MigrationRequest("consumer"), load_rules())
        if item and group.type == "classic"
        else None,
        bootstrap=reader.cluster.ref.bootstrap_servers,
        unread=unread,
    )


def _release(cluster: Cluster, group: Group) -> BrokerFacts:
    """The facts of a share group's coordinator, where its release matters: some cannot read an id with a colon."""
    if ":" not in group.name or group.coordinator is None:
        return BrokerFacts()
    return cluster.ask(broker_facts, [group.coordinator.id])[group.coordinator.id]


def _unread_logs(facts: GroupFacts, errors: Sequence[RowError]) -> dict[str, str]:
    """Why the logs of some partitions are unknown, by the first failure; a deleted topic is none."""
    group, views = facts.group, facts.shared.views
    whys = [f"{error.topic} {error.message}" for error in errors if error.group == group.name and error.topic]
    whys += [
        f"{p.tp} {view.message}"
        for p in group.partitions
        if isinstance(view := views.get(p.tp), KgroupError) and not isinstance(view, NotFound)
    ]
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
    read: OpenTransactions, partitions: Collection[TopicPartition]
) -> tuple[tuple[OpenTransaction, ...] | None, str | None]:
    """(the open transactions in these partitions, None); or (None, the reason) if one could not be read."""
    transactions: list[OpenTransaction] = []
    for tp in partitions if read else ():
        of_one = read.get(tp, ())
        if isinstance(of_one, KgroupError):
            return None, f"open transactions of {tp}: {of_one.message}"
        transactions += of_one
    return tuple(transactions), None


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
    blocked = [tp for tp, view in views.items() if isinstance(view, LogView) and view.last_stable.offset < view.end]
    try:
        read = cluster.open_transactions(layouts, blocked) if blocked else {}
    except KgroupError as error:
        read = dict.fromkeys(blocked, error)
    open_transactions, why_not_read = _transactions(read, topic_partitions)
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
        counts = {
            **dict.fromkeys(brokers, 0),
            **Counter(group.coordinator.id for group in listing.groups if group.coordinator is not None),
        }
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
