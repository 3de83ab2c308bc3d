"""Read the facts needed to judge the lag of groups, in few round trips.

It needs one request per leader, and one scan per partition of ``__consumer_offsets``. Independent requests are sent at
the same time. If one part cannot be read, only that part is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupListing
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline, SharedTime
from kgroup.cluster.first_records import First, Span, first_records, first_timestamps
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.group_log import GroupLogs, ReadDepth, read_group_logs
from kgroup.cluster.offsets_topic.group_past import PastQuery
from kgroup.cluster.offsets_topic.scan import ByteBudget
from kgroup.cluster.topics import (
    Layouts,
    LogView,
    TopicLayout,
    log_views,
    newest_timestamps,
    offsets_topic_layout,
    topic_layouts,
)
from kgroup.model.groups import DESCRIBED_TYPES, Group, LogRange, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.cluster.open_transactions import OpenTransactions
    from kgroup.cluster.topic_retention import TopicRetentions

OTHERS_LIMIT = 2000
"""In a cluster with more groups than this, the other groups of a topic are not looked for (1,000 per request)."""

_ACTIVITIES_LIMIT = 50
_ACTIVITIES_BUDGET_S = 0.3


class Need(msgspec.Struct, frozen=True):
    """What to read of groups; a verb asks for no more than it shows."""

    log_budget_s: float
    """For the scan of ``__consumer_offsets``."""
    read_committed: bool = False
    """Whether records count up to the last stable offset only."""
    no_time: str | None = None
    """The reason for not reading first unread records; None: they are read."""
    no_log: str | None = None
    """The reason for not reading commits; None: they are read."""
    surroundings: bool = False
    """The retention and the other groups of the topics that lag."""
    state: bool = False
    """Since when the group has been in its state."""
    log_time: SharedTime | None = None
    """The limit of the scan, if several parts of the groups share it."""
    crash_loops: bool = True
    past: bool = False
    """The log ends of the last hour, in steps."""
    span_ms: int | None = None
    """How far back the whole history of each group is read, with the names of topics; None: what lag needs."""
    whole_topics: bool = False
    """The partitions without a commit, and the open transactions of partitions that do not lag."""
    readiness: SharedTime | None = None
    """What a migration depends on, with the time limit for the groups' pasts."""
    lag: bool = True
    """If not, nothing but ``readiness`` is read."""

    @property
    def is_judged(self) -> bool:
        """Whether a verdict or findings are made of it; a table of lag needs less."""
        return self.surroundings or self.whole_topics


class LookBack(msgspec.Struct, frozen=True):
    """The times that are looked back to.

    ``moments_ms`` are those for which log offsets are read. ``since_ms`` is how far back each group's history in
    ``__consumer_offsets`` is read; groups that are not in it are skipped. ``floors`` are offsets below which that
    history is known already. Of other groups the last activity since ``quiet_since_ms`` is read.
    """

    moments_ms: tuple[int, ...]
    since_ms: Mapping[str, int]
    quiet_since_ms: int
    floors: Mapping[str, int] = msgspec.field(default_factory=dict)


class OtherGroups(msgspec.Struct, frozen=True):
    """The commits of all groups on topics that lag. ``last_ms`` is each group's last activity; None: none found.

    ``unseen`` describes the groups that could not be read and may read the same topics; None: there are none. ``empty``
    are the groups without members.
    """

    committed: Mapping[str, CommittedOffsets]
    last_ms: Mapping[str, int | None] = msgspec.field(default_factory=dict)
    unseen: str | None = None
    empty: frozenset[str] = frozenset()


class LagFacts(msgspec.Struct, frozen=True):
    """The results. ``others`` is a string if it could not be read: the reason. ``logs`` is empty if not requested.

    ``firsts`` has the first unread record of each partition of a group, by the group's name. ``held_since_ms`` are the
    times of the records at last stable offsets, where no coordinator knows when the transaction began. ``newest_ms``
    are the newest timestamps of logs, read for a page.
    """

    layouts: Layouts
    views: Mapping[TopicPartition, LogView | KgroupError]
    logs: GroupLogs
    firsts: Mapping[str, Mapping[TopicPartition, First]]
    transactions: OpenTransactions
    retention: TopicRetentions | None = None
    others: OtherGroups | str | None = None
    held_since_ms: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    newest_ms: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)


def with_all_partitions(group: Group, layouts: Layouts, views: Mapping[TopicPartition, LogView | KgroupError]) -> Group:
    """The group with the other partitions of its topics: a group that uses assign() may have missed a new one."""
    known = {p.tp for p in group.partitions}
    more = (
        TopicPartition(topic, number)
        for topic in {topic for topic, _ in known}
        if isinstance(layout := layouts.get(topic), TopicLayout)
        for number in layout.leaders
        if (topic, number) not in known
    )
    partitions = (*group.partitions, *(_without_commit(tp, views.get(tp)) for tp in more))
    return replace(group, partitions=tuple(sorted(partitions, key=lambda p: p.tp)))


def _without_commit(tp: TopicPartition, view: LogView | KgroupError | None) -> Partition:
    log = LogRange(view.start, view.end) if isinstance(view, LogView) else None
    return Partition(tp, None, log, None, view.code if isinstance(view, KgroupError) else None)


def _unread_span(partition: Partition, view: LogView | KgroupError | None, *, read_committed: bool) -> LogRange | None:
    """[first unread offset, end) of the partition: what a consumer gets next. None if unknown or empty."""
    commit, log = partition.commit, partition.log
    if commit is None or log is None or (partition.counted is not None and not partition.lag):
        return None
    start, end = max(commit.offset, log.start), log.end
    if isinstance(view, LogView):
        # Retention may have deleted records since the range was read.
        start = max(start, view.start)
        end = min(end, view.last_stable.offset) if read_committed else end
    elif read_committed:
        return None
    return LogRange(start, end) if start < end else None


async def read_lag_facts(
    client: CoordinatorClient, coordinators: GroupCoordinators, groups: Sequence[Group], need: Need, back: LookBack
) -> LagFacts:
    """Read all facts before the client's deadline."""
    topics = {p.topic for group in groups for p in group.partitions}
    if need.whole_topics:
        topics.update(*(group.topics for group in groups))
    layouts = await topic_layouts(client, {*topics, OFFSETS_TOPIC})
    depths = {
        name: ReadDepth(since, back.floors.get(name, 0), need.state, newest=need.span_ms is None)
        for name, since in back.since_ms.items()
    }
    if need.log_time is not None:
        # One after the other: other answers would be decoded within the time for the log.
        facts = await _of_topics(client, coordinators, groups, need, back, layouts)
        return replace(facts, logs=await _part_of_logs(client, layouts[OFFSETS_TOPIC], groups, depths, need))
    budget = Deadline.after(min(need.log_budget_s, client.deadline.left_s))
    logs, facts = await client.gather(
        [
            read_group_logs(client, layouts[OFFSETS_TOPIC], depths, budget, ByteBudget(), named=False),
            _of_topics(client, coordinators, groups, need, back, layouts),
        ]
    )
    read: LagFacts = replace(facts, logs=logs)
    return read


async def _part_of_logs(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Sequence[Group],
    depths: Mapping[str, ReadDepth],
    need: Need,
) -> GroupLogs:
    if need.log_time is None or not depths:
        return GroupLogs({}, {})
    pasts = map(PastQuery.of, groups) if need.readiness else ()
    with need.log_time.part(len(depths)) as share_s:
        budget, limit_s = Deadline.after(min(share_s, client.deadline.left_s)), need.log_time.limit_s
        named = need.span_ms is not None
        try:
            return await read_group_logs(
                client, layout, depths, budget, ByteBudget(), named=named, limit_s=limit_s, pasts=pasts
            )
        except KgroupError as error:
            return GroupLogs({}, dict.fromkeys(depths, f"{OFFSETS_TOPIC} could not be read: {error.message}"))


async def _of_topics(
    client: CoordinatorClient,
    coordinators: GroupCoordinators,
    groups: Sequence[Group],
    need: Need,
    back: LookBack,
    layouts: Layouts,
) -> LagFacts:
    if need.whole_topics:
        # Partitions with an error are skipped: reading them would wait for a leader once more.
        all_ = (p for group in groups for p in with_all_partitions(group, layouts, {}).partitions)
        partitions = {p.tp for p in all_ if p.error is None}
    else:
        partitions = {p.tp for group in groups for p in group.partitions if p.log is not None}
    views = await log_views(client, layouts, partitions, back.moments_ms)
    spans: dict[str, list[Span]] = {}
    lagging: dict[TopicPartition, None] = {}
    for group in groups:
        spans[group.name] = of_group = []
        for p in group.partitions:
            tp = p.tp
            span = _unread_span(p, views.get(tp), read_committed=need.read_committed)
            if span is not None:
                of_group.append((tp, span))
            if span is not None or p.lag:
                lagging[tp] = None
    held_back = [
        tp
        for tp in (views if need.whole_topics else lagging)
        if isinstance(view := views.get(tp), LogView) and view.last_stable.offset < view.end
    ]
    dated = [tp for tp, view in views.items() if isinstance(view, LogView)] if need.is_judged else ()
    firsts, transactions, retention, others, newest_ms = await client.gather(
        [
            _first_unread(client, layouts, _asked(groups, spans, need), need),
            _open_transactions(client, coordinators, layouts, held_back, need),
            _retention(client, layouts, lagging if need.surroundings else _of_queries(groups, lagging)),
            _other_groups(client, coordinators, {tp.topic for tp in lagging if need.surroundings}, back.quiet_since_ms),
            newest_timestamps(client, layouts, dated),
        ]
    )
    held_ms = await _held_since_ms(client, layouts, views, transactions) if need.whole_topics else {}
    return LagFacts(layouts, views, GroupLogs({}, {}), firsts, transactions, retention, others, held_ms, newest_ms)


def _asked(groups: Sequence[Group], spans: Mapping[str, Sequence[Span]], need: Need) -> Mapping[str, Sequence[Span]]:
    """The unread spans whose first record is read; the doctor reads those of streaming queries, for their retention."""
    if need.no_time is None:
        return spans
    return {group.name: spans[group.name] for group in groups if need.whole_topics and group.query is not None}


def _of_queries(groups: Sequence[Group], lagging: Mapping[TopicPartition, None]) -> dict[TopicPartition, None]:
    """Those of streaming queries: whether retention overtakes one is asked of each, whose next batch would fail."""
    of_queries = {p.tp for group in groups if group.query is not None for p in group.partitions}
    return {tp: None for tp in lagging if tp in of_queries}


async def _first_unread(
    client: CoordinatorClient, layouts: Layouts, spans: Mapping[str, Sequence[Span]], need: Need
) -> dict[str, dict[TopicPartition, First]]:
    all_ = chain.from_iterable(spans.values())
    firsts = await first_records(client, layouts, all_, read_committed=need.read_committed)
    return {name: {span[0]: firsts[span] for span in of_group} for name, of_group in spans.items()}


async def _open_transactions(
    client: CoordinatorClient,
    coordinators: GroupCoordinators,
    layouts: Layouts,
    partitions: Sequence[TopicPartition],
    need: Need,
) -> OpenTransactions:
    if not partitions:
        return {}
    # Imported here, as below: a group without lag does not need it.
    from kgroup.cluster.open_transactions import open_transactions

    if not need.whole_topics:
        return await open_transactions(client, layouts, partitions)
    try:
        sees_all = await coordinators.is_administrator()
        return await open_transactions(client, layouts, partitions, all_ids_visible=sees_all)
    except KgroupError as error:
        return dict.fromkeys(partitions, error)


async def _held_since_ms(
    client: CoordinatorClient,
    layouts: Layouts,
    views: Mapping[TopicPartition, LogView | KgroupError],
    transactions: OpenTransactions,
) -> dict[TopicPartition, int]:
    undated = [
        (tp, LogRange(view.last_stable.offset, view.end))
        for tp, read in transactions.items()
        if isinstance(view := views[tp], LogView)
        and (isinstance(read, KgroupError) or not read or read[0].began_ms is None)
    ]
    if not undated:
        return {}
    try:
        times = await first_timestamps(client, layouts, undated)
    except KgroupError:
        return {}
    return {tp: at_ms for (tp, _), at_ms in times.items() if isinstance(at_ms, int)}


async def _retention(
    client: CoordinatorClient, layouts: Layouts, partitions: Mapping[TopicPartition, None]
) -> TopicRetentions | None:
    if not partitions:
        return None
    from kgroup.cluster.topic_retention import read_retention

    return await read_retention(client, layouts, partitions)


async def _other_groups(
    client: CoordinatorClient, coordinators: GroupCoordinators, topics: set[str], quiet_since_ms: int
) -> OtherGroups | str | None:
    """All groups that have commits on these topics; a string is the reason why they are unknown."""
    if not topics:
        return None
    try:
        listing = await coordinators.list_groups()
        names = [group.name for group in listing.groups if group.type in DESCRIBED_TYPES]
        if len(names) > OTHERS_LIMIT:
            return f"there are {plural(len(names), 'group')}, too many to be asked"
        answers = await coordinators.committed(names)
    except KgroupError as error:
        return f"the groups could not be listed: {error.message}"
    by_group = {
        name: commits
        for name, committed in answers.items()
        if not isinstance(committed, KgroupError)
        and (commits := {tp: commit for tp, commit in committed.items() if tp.topic in topics})
    }
    unseen = _unseen(listing, answers)
    empty = frozenset(group.name for group in listing.groups if group.state == "Empty")
    if not by_group or len(by_group) > _ACTIVITIES_LIMIT or client.deadline.passed:
        return OtherGroups(by_group, unseen=unseen, empty=empty)
    from kgroup.cluster.offsets_topic.activity import last_activities

    layout = await offsets_topic_layout(client)
    budget = Deadline.after(min(_ACTIVITIES_BUDGET_S, client.deadline.left_s))
    activities = await last_activities(client, layout, list(by_group), quiet_since_ms, budget)
    return OtherGroups(by_group, activities.by_group, unseen, empty)


def _unseen(listing: GroupListing, answers: Mapping[str, CommittedOffsets | KgroupError]) -> str | None:
    failed = [error for error in answers.values() if isinstance(error, KgroupError)]
    if failed:
        reason = "no DESCRIBE on them" if isinstance(failed[0], NotAuthorized) else failed[0].message
        return f"{plural(len(failed), 'group')} could not be read ({reason})"
    if listing.failures:
        return f"not all groups are listed ({listing.failures[0].message})"
    return None if listing.complete else "not all groups may be listed (no DESCRIBE on the Cluster)"
