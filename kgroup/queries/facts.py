"""Reads the facts of groups and their logs; pure rules of lag, of the verdict and of the doctor judge them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.cluster.first_records import First, FirstRecord
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.lag_reading import LagFacts, LookBack, Need, OtherGroups, with_all_partitions
from kgroup.cluster.offsets_topic.group_log import GroupLog, GroupLogs
from kgroup.cluster.refresh_cache import CachedValue
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topics import LogView, TopicLayout
from kgroup.groups.deleted_topics import deleted_topics
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    EvidenceSource,
    FirstUnread,
    Isolation,
    LagEvidence,
    LogEnds,
    LogPoint,
    PartitionEvidence,
    Retention,
    Sibling,
)
from kgroup.groups.lag.from_log import LagLogFacts, from_log
from kgroup.groups.lag.open_commits import OpenCommit, with_transactions
from kgroup.groups.lag.past import STEP_MS, STEPS
from kgroup.groups.offset_resets import OffsetReset, with_changes, without_recreated
from kgroup.groups.other_deployments import other_deployment
from kgroup.groups.passed_over import leaps
from kgroup.groups.thresholds import LATE_SIBLING, LEAST_LAG, LONG_TRANSACTION, QUIET, RATE_SPAN, RECENT_SPAN
from kgroup.model.groups import Group, LogRange
from kgroup.model.read_quota import ReadQuota
from kgroup.model.record_times import usable_ms
from kgroup.model.streaming_query import commits_of, reach_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.lag_cache import cached_lag_facts
from kgroup.support.errors import KgroupError, NotAuthorized

if TYPE_CHECKING:
    from kgroup.cluster.offsets_topic.group_past import UnknownPasts
    from kgroup.cluster.topic_retention import TopicRetentions
    from kgroup.groups.migration.evidence import MigrationEvidence
    from kgroup.model import migration_facts as told_facts

RATES_MS = (RATE_SPAN.value, RECENT_SPAN.value)
"""How long ago the log ends are read from which rates are measured."""

PAST_MS = tuple(n * STEP_MS for n in range(STEPS, 0, -1) if n * STEP_MS not in RATES_MS)
"""How long ago the log ends of a past are read besides."""

_SPAN_MS = 3_600_000
_IDLE_SPAN_MS = RATE_SPAN.value
"""For a group that has read everything only its pace matters, so less is read."""


_QUOTAS_EVERY_S = 60.0
"""How often quotas are read again, in seconds; the parts of many groups share them."""

Place = tuple[TopicPartition, int]
"""An offset of a partition."""


class GroupFacts(msgspec.Struct, frozen=True):
    """The evidence of one group; ``generation`` and ``leader`` are the newest in the log, None if not read.

    ``stopped`` is why its log was not read back far enough, ``unread`` why it was not read at all; None if it was.
    ``group`` has all partitions of its topics if those were asked for. ``shared`` is what was read of all groups at
    once, ``log`` what the group's log shows, ``migration`` what its migration depends on. ``unknown_pasts`` is what is
    not known of the pasts of these groups.
    """

    group: Group
    shared: LagFacts
    evidence: LagEvidence
    log: LagLogFacts | None = None
    migration: MigrationEvidence | None = None
    unknown_pasts: UnknownPasts | None = None
    generation: int | None = None
    leader: str | None = None
    stopped: str | None = None
    unread: str | None = None


def read_facts(
    cluster: Cluster, groups: Sequence[Group], need: Need, own: Callable[[], OwnChanges] = OwnChanges
) -> dict[str, GroupFacts]:
    """The evidence of each group, by name, as of the brokers' time, or that of a later record of the log.

    ``own`` reads the changes of the last hour in this machine's journal.
    """
    now_ms = cluster.now_ms()
    if not need.lag:
        layouts = cluster.layouts({topic for group in groups for topic in group.topics})
        facts = LagFacts(layouts, {}, GroupLogs({}, {}), {}, {})
        read = {group.name: GroupFacts(group, facts, LagEvidence(now_ms=now_ms)) for group in groups}
    else:
        facts, read = _read_lag_facts(cluster, groups, need, now_ms, own)
    if need.readiness is None:
        return read
    # Imported here: lag needs no clients of ACLs and configs.
    from kgroup.queries.migration_evidence import read_evidence

    pasts = facts.logs.pasts
    of_kafka = [group for group in groups if group.commits_to_kafka]
    evidence, unknown = read_evidence(cluster, of_kafka, facts.layouts, now_ms, need.readiness, pasts)
    return {name: replace(each, migration=evidence.get(name), unknown_pasts=unknown) for name, each in read.items()}


def _read_lag_facts(
    cluster: Cluster, groups: Sequence[Group], need: Need, now_ms: int, own: Callable[[], OwnChanges]
) -> tuple[LagFacts, dict[str, GroupFacts]]:
    of_kafka = [group for group in groups if group.commits_to_kafka]
    since_ms = {group.name: now_ms - (need.span_ms or _span_of(group, need)) for group in of_kafka}
    back = LookBack(
        moments_ms=tuple(now_ms - span_ms for span_ms in (*RATES_MS, *(PAST_MS if need.past else ()))),
        since_ms=since_ms if need.no_log is None else {},
        quiet_since_ms=now_ms - QUIET.value,
    )
    facts = cached_lag_facts(cluster, groups, need, back)
    if len(of_kafka) < len(groups):
        facts = replace(facts, logs=_with_queries(facts.logs, groups))
    if need.whole_topics:
        groups = [with_all_partitions(group, facts.layouts, facts.views) for group in groups]
    newest = (log.events[-1].at_ms for log in facts.logs.logs.values() if log.events)
    now_ms = max((now_ms, *newest))
    if need.is_judged:
        facts = _with_offsets_transactions(cluster, facts, now_ms)
    unusable = unusable_times(facts, now_ms)
    logs = _EvidenceOfLogs(facts, back.moments_ms, unusable)
    siblings, late = _siblings(facts, back, now_ms, unusable), _late_at(facts, groups, back, now_ms, unusable)
    quotas = _quotas_of(cluster, groups) if need.is_judged else ()
    return facts, {
        group.name: _of_group(group, facts, logs, siblings, late, need, now_ms, own, quotas) for group in groups
    }


def _with_queries(logs: GroupLogs, groups: Sequence[Group]) -> GroupLogs:
    """The logs with those of streaming queries: their batches, which were read with their state."""
    of_queries = {
        group.name: GroupLog(commits_of(group.query), reach_of(group.query)) for group in groups if group.query
    }
    return replace(logs, logs={**logs.logs, **of_queries})


def unusable_times(facts: LagFacts, now_ms: int) -> dict[TopicPartition, int]:
    """A timestamp of each log whose records have times that are not usable; -1: its records have none."""
    firsts = (item for of_group in facts.firsts.values() for item in of_group.items())
    read = (
        *((tp, first.timestamp_ms) for tp, first in firsts if isinstance(first, FirstRecord)),
        *facts.newest_ms.items(),
    )
    return {tp: -1 if at_ms is None else at_ms for tp, at_ms in read if usable_ms(at_ms, now_ms) is None}


def _quotas_of(cluster: Cluster, groups: Sequence[Group]) -> tuple[ReadQuota, ...]:
    """The quotas on what clients may read, if one of these groups has members and a lag that is worth a question.

    Without the right to read them there are none: a quota is never certain to be why a group is slow.
    """
    if not any(group.members and (group.totals.lag or 0) >= LEAST_LAG.value for group in groups):
        return ()
    known = cluster.cache.quotas
    if known is None or not known.is_fresh(_QUOTAS_EVERY_S):
        from kgroup.cluster.client_quotas import read_quotas

        try:
            known = cluster.cache.quotas = CachedValue(cluster.ask(read_quotas), None)
        except KgroupError:
            return ()
    return known.value


def _with_offsets_transactions(cluster: Cluster, facts: LagFacts, now_ms: int) -> LagFacts:
    """The facts with the open transactions of ``__consumer_offsets``, where one has held a commit for a minute."""
    old_ms = now_ms - LONG_TRANSACTION.value
    opened = {name: log.reach.open_since_ms for name, log in facts.logs.logs.items()}
    names = [name for name, since_ms in opened.items() if since_ms is not None and since_ms <= old_ms]
    if not names:
        return facts
    try:
        layouts = cluster.layouts([OFFSETS_TOPIC])
        layout = layouts[OFFSETS_TOPIC]
        if isinstance(layout, KgroupError):
            return facts
        held = {TopicPartition(OFFSETS_TOPIC, partition_of(name, len(layout.leaders))) for name in names}
        return replace(facts, transactions={**facts.transactions, **cluster.open_transactions(layouts, held)})
    except KgroupError:
        return facts  # a finding without the name of the transaction


def _held_commits(log_facts: LagLogFacts, facts: LagFacts, now_ms: int) -> tuple[OpenCommit, ...]:
    """The group's commits that a transaction has held for a minute, with the transaction as far as it was read."""
    if not log_facts.open_commits:
        return ()
    read = (each for tp, each in facts.transactions.items() if tp.topic == OFFSETS_TOPIC)
    return with_transactions(
        log_facts.open_commits, [one for each in read if not isinstance(each, KgroupError) for one in each], now_ms
    )


def _span_of(group: Group, need: Need) -> int:
    """A page about single groups shows resets of the last hour, whatever the lag is."""
    return _SPAN_MS if need.surroundings or any(p.lag != 0 for p in group.partitions) else _IDLE_SPAN_MS


class _EvidenceOfLogs:
    """What the evidence has of a partition's log alone, made once for all groups that read it."""

    def __init__(self, facts: LagFacts, moments_ms: Sequence[int], unusable: Mapping[TopicPartition, int]) -> None:
        self._facts = facts
        self._moments_ms = moments_ms
        self.unusable = unusable
        self._known: dict[TopicPartition, tuple[LogRange | None, PartitionEvidence]] = {}

    def of(self, tp: TopicPartition, log: LogRange | None) -> PartitionEvidence:
        """The evidence of a partition without that of a group; ``log`` are its bounds as the group was read."""
        known = self._known.get(tp)
        if known is not None and known[0] == log:
            return known[1]
        facts = self._facts
        view, layout = facts.views.get(tp), facts.layouts.get(tp.topic)
        log_view = view if isinstance(view, LogView) else None
        unusable_ms = self.unusable.get(tp)
        ends: tuple[LogPoint, ...] = ()
        if log_view is not None and log is not None and unusable_ms is None:
            ends = tuple(_past_log_ends(log, log_view, self._moments_ms))
        found = PartitionEvidence(
            ends=ends[: len(RATES_MS)],
            past_ends=_past(ends),
            last_stable=None if log_view is None else log_view.last_stable.offset,
            open_transaction=_oldest(facts.transactions.get(tp)),
            retention=retention_of(facts.retention, tp),
            leader=layout.leaders.get(tp.partition) if isinstance(layout, TopicLayout) else None,
            leader_epoch=None if log_view is None else log_view.leader_epoch,
            unusable_ms=unusable_ms,
        )
        self._known[tp] = (log, found)
        return found


def _of_group(
    group: Group,
    facts: LagFacts,
    logs: _EvidenceOfLogs,
    siblings: Sequence[Sibling] | None,
    late: Mapping[Place, Sequence[str]],
    need: Need,
    now_ms: int,
    own: Callable[[], OwnChanges],
    quotas: tuple[ReadQuota, ...],
) -> GroupFacts:
    log = facts.logs.logs.get(group.name)
    names = _names_by_id(group, facts) if need.crash_loops else None
    log_facts = None if log is None else from_log(log.events, log.reach, group, now_ms, names)
    if log_facts is not None and group.query is not None:
        log_facts = replace(log_facts, state_since_ms=group.query.state_since_ms)
    unread = facts.logs.unread.get(group.name)
    firsts = facts.firsts.get(group.name, {})
    lagging = {p.topic for p in group.partitions if p.lag}
    evidence = LagEvidence(
        now_ms=now_ms,
        isolation=Isolation.READ_COMMITTED if need.read_committed else Isolation.READ_UNCOMMITTED,
        partitions=_partitions(group, logs, firsts, log_facts, now_ms),
        state_since_ms=None if log_facts is None else log_facts.state_since_ms,
        emptied_ms=() if log_facts is None else log_facts.emptied_ms,
        siblings=None
        if siblings is None
        else tuple(each for each in siblings if each.topic in lagging and each.group != group.name),
        members={} if log_facts is None else log_facts.members,
        generation=None if log_facts is None else log_facts.generation,
        churn=None if log_facts is None else log_facts.churn,
        crash_loops=() if log_facts is None else log_facts.crash_loops,
        runs=() if log_facts is None else log_facts.runs,
        shared_instances=() if log_facts is None else log_facts.shared_instances,
        resets=() if log_facts is None else with_changes(_present_resets(log_facts, facts), group.name, own),
        slow_polls=None if log_facts is None else log_facts.slow_polls,
        open_commits=() if log_facts is None else _held_commits(log_facts, facts, now_ms),
        quotas=quotas,
        lost=None if log_facts is None else log_facts.lost,
        roster=None if log_facts is None else log_facts.roster,
        of_some=frozenset() if log_facts is None else log_facts.of_some,
        leaps=leaps(log_facts.commits, log.events) if need.is_judged and log_facts and log else (),
        deleted=deleted_topics(log.events, now_ms) if need.is_judged and log else (),
        deployment=other_deployment(group, log.events, now_ms) if need.is_judged and log else None,
        same_offset=_same_offset(group, late) if late else {},
        unknown=dict(_unknown(group, facts, need, firsts, log_facts, logs.unusable)),
    )
    newest = None if log_facts is None else log_facts.generation
    return GroupFacts(
        group,
        facts,
        evidence,
        log_facts,
        generation=None if newest is None else newest.generation,
        leader=None if newest is None else newest.leader,
        stopped=None if log is None else log.reach.stopped,
        unread=unread,
    )


def _present_resets(log_facts: LagLogFacts, facts: LagFacts) -> tuple[OffsetReset, ...]:
    """The resets in the group's log without those of topics that were recreated since."""
    if not log_facts.resets:
        return ()
    ids = {topic: each.id for topic, each in facts.layouts.items() if isinstance(each, TopicLayout)}
    return without_recreated(log_facts.resets, ids)


def _names_by_id(group: Group, facts: LagFacts) -> dict[str, str]:
    layouts = {topic: facts.layouts.get(topic) for topic in {p.topic for p in group.partitions}}
    return {each.id: topic for topic, each in layouts.items() if isinstance(each, TopicLayout) and each.id is not None}


def _unknown(
    group: Group,
    facts: LagFacts,
    need: Need,
    firsts: Mapping[TopicPartition, First],
    log_facts: LagLogFacts | None,
    unusable: Collection[TopicPartition],
) -> Iterator[tuple[EvidenceSource, str]]:
    """The data that could not be read, each with the reason."""
    if log_facts is None and not group.is_share:
        why = need.no_log or facts.logs.unread.get(group.name) or "not read"
        yield EvidenceSource.COMMITS, why
        if need.state:
            yield EvidenceSource.STATE, why
    elif log_facts and need.state and log_facts.state_since_ms is None:
        stopped = facts.logs.logs[group.name].reach.stopped
        yield from ((EvidenceSource.STATE, stopped),) if stopped else ()
    yield from _unknown_times(group, need, firsts, unusable)
    if facts.retention is not None:
        closed = (p.tp.topic for p in group.partitions if facts.retention.settings.get(p.tp.topic) is None and p.lag)
        for topic in islice(closed, 1):
            unread = facts.retention.failed
            yield EvidenceSource.RETENTION, f"no DESCRIBE_CONFIGS on {topic}" if unread is None else unread.message
    if isinstance(facts.others, str):
        yield EvidenceSource.SIBLINGS, facts.others
    elif facts.others is not None and facts.others.unseen:
        yield EvidenceSource.SIBLINGS, facts.others.unseen


def _unknown_times(
    group: Group, need: Need, firsts: Mapping[TopicPartition, First], unusable: Collection[TopicPartition]
) -> Iterator[tuple[EvidenceSource, str]]:
    failed = ((tp, error) for tp, error in firsts.items() if isinstance(error, KgroupError))
    if need.no_time is not None and not firsts:
        yield EvidenceSource.TIME, need.no_time
    elif first := next(failed, None):
        yield EvidenceSource.TIME, _of_topic(*first)
    elif any(p.tp in unusable for p in group.partitions):
        yield EvidenceSource.TIME, "the timestamps of its records are not usable"


def _of_topic(tp: TopicPartition, error: KgroupError) -> str:
    topic, number = tp
    return f"no READ on {topic}" if isinstance(error, NotAuthorized) else f"{topic}:{number} {error.message}"


def _partitions(
    group: Group,
    logs: _EvidenceOfLogs,
    firsts: Mapping[TopicPartition, First],
    log_facts: LagLogFacts | None,
    now_ms: int,
) -> dict[TopicPartition, PartitionEvidence]:
    commits = {} if log_facts is None else log_facts.commits
    read_since_ms = None if log_facts is None else log_facts.read_since_ms
    return {
        (tp := p.tp): replace(
            logs.of(tp, p.log),
            commits=commits.get(tp, ()),
            read_since_ms=read_since_ms,
            first_unread=first_unread(firsts[tp], now_ms) if tp in firsts else None,
        )
        for p in group.partitions
    }


def _past_log_ends(log: LogRange, view: LogView, moments_ms: Sequence[int]) -> Iterator[LogPoint]:
    """The log end at each of these times: the first record of that time or later, or the current end without one.

    None if they are contradicted: the log has grown since ``log`` was read, and yet no record is a minute old or less.
    Its records have the times of older events.
    """
    if view.end > log.end and len(view.at_times) >= len(RATES_MS) and view.at_times[len(RATES_MS) - 1] is None:
        return
    for moment_ms, younger in zip(moments_ms, view.at_times, strict=True):
        yield LogPoint(moment_ms, log.end if younger is None else min(younger, log.end))


def _past(ends: Sequence[LogPoint]) -> tuple[LogPoint, ...]:
    """Those of the last hour's steps, oldest first; empty if only those for the rates were read."""
    return () if len(ends) <= len(RATES_MS) else (*ends[len(RATES_MS) :], ends[0])


def first_unread(first: First, now_ms: int) -> FirstUnread | None:
    """The first unread record as it was read, with its time if that is usable; None if it could not be read."""
    if isinstance(first, KgroupError):
        return None
    return FirstUnread(None) if first is None else FirstUnread(first.offset, usable_ms(first.timestamp_ms, now_ms))


def _oldest(transactions: tuple[told_facts.OpenTransaction, ...] | KgroupError | None) -> BlockingTransaction | None:
    """The transaction at the last stable offset; if no coordinator knows it, it began by its last write or earlier."""
    if not transactions or isinstance(transactions, KgroupError):
        return None
    first = transactions[0]
    since_ms = first.last_ms if first.began_ms is None else first.began_ms
    return BlockingTransaction(
        first.producer_id,
        first.producer_epoch,
        first.start_offset,
        since_ms if since_ms >= 0 else None,
        first.transactional_id,
        at_least=first.began_ms is None,
    )


def retention_of(retentions: TopicRetentions | None, tp: TopicPartition) -> Retention | None:
    """The retention of a partition; None if it was not read."""
    settings = None if retentions is None else retentions.settings.get(tp.topic)
    if retentions is None or settings is None:
        return None
    return Retention(
        settings.retention_ms,
        settings.retention_bytes,
        retentions.sizes.get(tp) if settings.retention_bytes is not None else None,
        compacted=settings.compacted,
        deletes=settings.deletes,
    )


def _siblings(
    facts: LagFacts, back: LookBack, now_ms: int, unusable: Collection[TopicPartition] = ()
) -> tuple[Sibling, ...] | None:
    """The lag of all groups on the lagging topics, None for unknown log ends; None if not read.

    It is the same for each group that asks, and there may be thousands, so it is made once, log by log.
    """
    others = facts.others
    if not isinstance(others, OtherGroups):
        return None
    quiet_ms, old_ms = back.quiet_since_ms - 1, now_ms - LATE_SIBLING.value
    signs = {name: quiet_ms if at_ms is None else at_ms for name, at_ms in others.last_ms.items()}
    views = ((tp, view) for tp, view in facts.views.items() if isinstance(view, LogView))
    logs = {tp: (view.start, view.end, _ends(view, back, now_ms, usable=tp not in unusable)) for tp, view in views}
    found = []
    for name, committed in others.committed.items():
        lags: dict[str, int | None] = {}
        since: dict[str, int] = {}
        for tp, commit in committed.items():
            topic, log = tp.topic, logs.get(tp)
            before = lags.setdefault(topic, 0)
            if log is None or isinstance(commit, KgroupError):
                lags[topic] = None
                continue
            start, end, ends = log
            first = commit.offset
            if first >= end:
                if first > end:  # committed to a log that is gone: the group does not keep up
                    lags[topic] = None
                continue
            first = first if first > start else start
            if before is not None:
                lags[topic] = before + end - first
            known_ms = since.get(topic)
            if known_ms is not None and (known_ms < old_ms or known_ms <= ends.points[0].timestamp_ms):
                continue  # it lags, whatever follows; or no record of this log is known to be older
            written_ms = ends.written_ms(first)
            if written_ms is not None and (known_ms is None or written_ms < known_ms):
                since[topic] = written_ms
        sign, is_empty = signs.get(name), name in others.empty
        found += [Sibling(name, topic, lag, sign, since.get(topic), is_empty) for topic, lag in lags.items()]
    return tuple(found)


def _places_of(group: Group) -> Iterator[Place]:
    """The offsets of its lagging partitions, and those next to them: a client may commit at delivery."""
    for p in group.partitions:
        if p.lag and p.commit is not None:
            yield from ((p.tp, p.commit.offset + more) for more in (-1, 0, 1))


def _late_at(
    facts: LagFacts,
    groups: Sequence[Group],
    back: LookBack,
    now_ms: int,
    unusable: Collection[TopicPartition] = (),
) -> dict[Place, list[str]]:
    """Other groups with members and a commit of the last hour at places of these, whose next record is a minute old.

    One that only passes there, or has read everything, is none.
    """
    late: dict[Place, list[str]] = {}
    if not isinstance(facts.others, OtherGroups):
        return late
    places = {place for group in groups for place in _places_of(group)}
    for name, committed in facts.others.committed.items():
        if name in facts.others.empty or facts.others.last_ms.get(name, now_ms) is None:
            continue
        for tp, commit in committed.items():
            view = facts.views.get(tp)
            if isinstance(commit, KgroupError) or (tp, commit.offset) not in places or not isinstance(view, LogView):
                continue
            written_ms = _ends(view, back, now_ms, usable=tp not in unusable).written_ms(commit.offset)
            if written_ms is not None and written_ms <= now_ms - LATE_SIBLING.value:
                late.setdefault((tp, commit.offset), []).append(name)
    return late


def _same_offset(group: Group, late: Mapping[Place, Sequence[str]]) -> dict[TopicPartition, tuple[str, ...]]:
    names: dict[TopicPartition, set[str]] = {}
    for place in _places_of(group):
        names.setdefault(place[0], set()).update(late.get(place, ()))
    return {tp: tuple(sorted(found - {group.name})) for tp, found in names.items() if found - {group.name}}


def _ends(view: LogView, back: LookBack, now_ms: int, *, usable: bool) -> LogEnds:
    points = islice(_past_log_ends(LogRange(view.start, view.end), view, back.moments_ms), len(RATES_MS))
    return LogEnds.of(points if usable else (), LogPoint(now_ms, view.end))
