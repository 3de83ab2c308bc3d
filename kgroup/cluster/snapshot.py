"""The state of groups at one moment, in few round trips.

For any number of groups: one request for each of their coordinators, and for each leader of their partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.cluster.assemble_group import GroupParts, assemble, failures
from kgroup.cluster.broker_errors import behind_group, denied_group, is_behind
from kgroup.cluster.checkpoints.queries import QueryReader, no_query, query_parts
from kgroup.cluster.connection import ClusterConnection
from kgroup.cluster.coordinator.groups import GroupDescription, GroupListing
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_descriptions import describe_groups, from_listing, is_share, with_members
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.refresh_cache import CachedValue, RefreshCache
from kgroup.cluster.share_group_parts import read_share_groups, share_parts
from kgroup.cluster.streams_group_parts import changelog_topics, with_changelogs, with_partitions
from kgroup.cluster.topic_visibility import may_hide_topics, read_hidden_commits
from kgroup.cluster.topics import (
    Layouts,
    LogView,
    TopicLayout,
    log_positions,
    log_ranges,
    log_views,
    offsets_topic_layout,
    topic_layouts,
)
from kgroup.model.groups import (
    ALL_TYPES,
    DESCRIBED_TYPES,
    WITH_SHARE,
    WITH_STREAMS,
    Coordinator,
    Group,
    ListedGroup,
    LogRange,
    Positions,
    RowError,
)
from kgroup.model.hidden_commits import Hidden, hidden_notes
from kgroup.model.share_group import SHARE, BrokerLag
from kgroup.model.streaming_query import StreamingQuery, is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound

if TYPE_CHECKING:
    from kgroup.cluster.coordinator.client import Broker, CoordinatorClient
    from kgroup.cluster.first_records import Span
    from kgroup.cluster.lag_reading import LagFacts, LookBack, Need
    from kgroup.cluster.offsets_topic.generations import GenerationResults
    from kgroup.cluster.rights import Rights
    from kgroup.cluster.session_timeouts import Sessions
    from kgroup.cluster.streams_user_data import StreamsThread
    from kgroup.cluster.topic_retention import TopicRetentions
    from kgroup.groups.state_from_log import LoggedState
    from kgroup.model.migration_facts import OpenTransaction
    from kgroup.model.share_deliveries import Deliveries

HIDDEN_FOR_S = 30.0
"""How long a result about hidden commits is reused, while the broker shows the same commits for the group."""


class SnapshotRequest(msgspec.Struct, frozen=True):
    """What to read of a group: its offsets, the bounds of the logs, its generation.

    ``generation_budget_s`` is how long to search ``__consumer_offsets``; 0 leaves out generation and leader. ``stable``
    turns each commit that an open transaction is about to replace into an error. ``hidden_budget_s`` is how long to
    search ``__consumer_offsets`` for commits that the broker may hide from this user; 0: do not search. ``all_types``
    is whether share groups, streams groups and streaming queries may be asked for, ``share``, ``streams`` and
    ``queries`` whether one of them may be. ``settings`` is whether those of share groups are read, ``changelogs``
    whether the tasks of streams groups are, with what their changelogs hold.
    """

    offsets: bool = True
    logs: bool = True
    generation_budget_s: float = 1.0
    stable: bool = False
    hidden_budget_s: float = 1.0
    all_types: bool = False
    share: bool = False
    streams: bool = False
    queries: bool = False
    settings: bool = False
    changelogs: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The types of groups that may be asked for."""
        if self.all_types:
            return ALL_TYPES
        return WITH_SHARE if self.share else WITH_STREAMS if self.streams else DESCRIBED_TYPES


class Snapshot(msgspec.Struct, frozen=True):
    """Groups in the order of the request, the errors, and notes on what could not be seen."""

    groups: tuple[Group, ...]
    errors: tuple[RowError, ...]
    notes: tuple[str, ...]


class Cluster(ClusterConnection):
    """An open connection to a cluster for reading."""

    def __init__(self, settings: Settings) -> None:
        """Connect. Raises Unreachable or AuthenticationFailed with the reason."""
        super().__init__(settings)
        self.cache = RefreshCache()
        self.queries = QueryReader(settings, self.cache)

    def list_groups(self) -> GroupListing:
        return self._ask(self._coordinators.list_groups)

    def check_topics(self, topics: Sequence[str]) -> tuple[str, ...]:
        """The topics that do not exist. Raises NotAuthorized if this user may not see one of them."""
        layouts = self.ask(topic_layouts, topics)
        for topic, layout in layouts.items():
            if isinstance(layout, NotAuthorized):
                raise NotAuthorized(f"{topic} {layout.message}", hint=layout.hint)
        return tuple(topic for topic in topics if isinstance(layouts.get(topic), KgroupError))

    def committed(
        self, groups: Sequence[str], share: Collection[str] = ()
    ) -> dict[str, CommittedOffsets | KgroupError]:
        """The committed offsets only. The groups need not exist. Commits about to be replaced are errors.

        Those of the ``share`` groups among them are their start offsets.
        """
        others = [name for name in groups if not is_query(name) and name not in share]
        answers: dict[str, CommittedOffsets | KgroupError] = {}
        if others:
            answers = self._ask(self._coordinators.settled_commits, others)
        if of_share := [name for name in groups if name in share]:
            answers |= self._ask(self._starts, of_share)
        return answers | self.queries.committed(name for name in groups if is_query(name))

    async def _starts(self, groups: Sequence[str]) -> dict[str, CommittedOffsets | KgroupError]:
        # Imported here: its schemas cost every other command some milliseconds.
        from kgroup.cluster.coordinator.share_groups import settled_starts

        return await settled_starts(self._coordinators, groups)

    def layouts(self, topics: Iterable[str]) -> dict[str, TopicLayout | KgroupError]:
        return self.ask(topic_layouts, topics)

    def positions(
        self, layouts: Layouts, partitions: Iterable[TopicPartition], timestamp_ms: int | None = None
    ) -> dict[TopicPartition, Positions | KgroupError]:
        return self.ask(log_positions, layouts, partitions, timestamp_ms)

    def log_views(
        self, layouts: Layouts, partitions: Iterable[TopicPartition], moments_ms: Sequence[int] = ()
    ) -> dict[TopicPartition, LogView | KgroupError]:
        """The bounds of the logs including last stable offsets, and the offsets of any number of moments."""
        return self.ask(log_views, layouts, partitions, moments_ms)

    def topic_retention(self, layouts: Layouts, partitions: Iterable[TopicPartition]) -> TopicRetentions:
        """The retention of topics, and the size in bytes of their partitions' logs."""
        from kgroup.cluster.topic_retention import read_retention

        return self.ask(read_retention, layouts, partitions)

    def member_counts(self, listed: Sequence[ListedGroup]) -> tuple[tuple[ListedGroup, ...], tuple[RowError, ...]]:
        """The listed groups with their number of members, and the errors of groups that could not be read."""
        described = self._ask(
            describe_groups, self._coordinators, [g.name for g in listed], {g.name: g for g in listed}
        )
        errors = tuple(
            RowError.of(answer, group=name)
            for name, answer in sorted(described.items())
            if isinstance(answer, KgroupError) and not isinstance(answer, NotFound)
        )
        errors += self.denied(name for name, answer in described.items() if isinstance(answer, NotFound))
        return tuple(with_members(group, described.get(group.name)) for group in listed), errors

    def denied(self, groups: Iterable[str]) -> tuple[RowError, ...]:
        """Errors for groups that were listed and then not found, if they are still listed: they are not deleted.

        Kafka 4.0.0 answers "not found" for groups that exist (seen). ``row_of_each_group`` decides which row counts.
        """
        missing = set(groups)
        still = missing & {group.name for group in self.list_groups().groups} if missing else ()
        return tuple(RowError.of(denied_group(), group=name) for name in sorted(still))

    def describe(self, groups: Sequence[ListedGroup | str], request: SnapshotRequest) -> Snapshot:
        """The groups as they are now.

        A name without a type is requested as all types at once; if the group is of none, NotFound is in ``errors``.
        Share and streams groups are not requested unless the request allows them. A streaming query, ``spark:...``, is
        read from its checkpoint. Raises Refused for one unless the request allows it.
        """
        names = [each if isinstance(each, str) else each.name for each in groups]
        queries = [name for name in names if is_query(name)]
        if not queries:
            return self._ask(self._settled_snapshot, groups, request)
        if not (request.all_types or request.queries):
            raise no_query(queries[0])
        others = [each for each, name in zip(groups, names, strict=True) if not is_query(name)]
        snapshots = [self._describe_queries(queries, request)]
        if others:
            snapshots.append(self._ask(self._settled_snapshot, others, request))
        order = {name: at for at, name in enumerate(names)}
        return Snapshot(
            tuple(sorted((group for each in snapshots for group in each.groups), key=lambda group: order[group.name])),
            tuple(error for each in snapshots for error in each.errors),
            tuple(note for each in snapshots for note in each.notes),
        )

    def _describe_queries(self, names: Sequence[str], request: SnapshotRequest) -> Snapshot:
        read = self.queries.read(names)
        known = {name: query for name, query in read.items() if isinstance(query, StreamingQuery)}
        errors = [RowError.of(error, group=name) for name, error in read.items() if isinstance(error, KgroupError)]
        parts = [query_parts(name, query, offsets=request.offsets) for name, query in known.items()]
        snapshot = self._ask(self._complete, self._client, parts, errors, (), request)
        groups = tuple(replace(group, query=known[group.name]) for group in snapshot.groups)
        return replace(snapshot, groups=groups)

    def count_log_partitions(self) -> int:
        """How many partitions ``__consumer_offsets`` has; 0 if it does not exist or this user may not describe it."""
        return self._ask(self._coordinators.count_partitions)

    def generations(self, groups: Sequence[str], budget_s: float) -> GenerationResults | None:
        """The generations and leaders of classic groups, searched for at most ``budget_s``; None without groups."""
        return self._ask(self._read_generations, groups, budget_s)

    async def _read_generations(self, groups: Sequence[str], budget_s: float) -> GenerationResults | None:
        layout = await offsets_topic_layout(self._client) if groups else None
        return await self._generations(self._client, layout, groups, budget_s)

    def lag_facts(self, groups: Sequence[Group], need: Need, back: LookBack) -> LagFacts:
        """The facts needed to judge the groups' lag, see ``kgroup.cluster.lag_reading``."""
        from kgroup.cluster.lag_reading import read_lag_facts

        # A log budget longer than the usual time limit extends the deadline; a history names topics after that time.
        log_s, named = need.log_budget_s, need.span_ms is not None
        deadline = Deadline.after(self._timeout_s + log_s if named else max(self._timeout_s, log_s))
        return self._client.run(read_lag_facts, self._client, self._coordinators, groups, need, back, deadline=deadline)

    def deliveries(self, groups: Mapping[str, Collection[TopicPartition]], budget_s: float) -> dict[str, Deliveries]:
        """The deliveries of these partitions of share groups, read for at most ``budget_s``."""
        from kgroup.cluster.share_state.read_deliveries import read_deliveries

        async def read() -> dict[str, Deliveries]:
            client = self._client.within(Deadline.after(budget_s + self._timeout_s))  # as in ``group_logs``
            return await read_deliveries(client, groups, Deadline.after(budget_s))

        return self._ask(read)

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return self._client.brokers

    def with_logs(self, states: Sequence[LoggedState], request: SnapshotRequest) -> Snapshot:
        """Groups that were read from ``__consumer_offsets``, completed with the logs of their partitions.

        Their coordinator is not asked. The one shown is the present leader of the group's ``__consumer_offsets``
        partition.
        """

        async def read() -> Snapshot:
            layout = await offsets_topic_layout(self._client)
            parts = [_logged_parts(state, self._leader_of(state.name, layout)) for state in states]
            snapshot = await self._complete(self._client, parts, [], (), replace(request, generation_budget_s=0))
            by_name = {state.name: state for state in states}
            dated = (
                replace(group, generation=by_name[group.name].generation, leader=by_name[group.name].leader)
                for group in snapshot.groups
            )
            return replace(snapshot, groups=tuple(dated))

        return self._ask(read)

    def _leader_of(self, group: str, layout: TopicLayout | KgroupError) -> Coordinator | None:
        if isinstance(layout, KgroupError):
            return None
        leader = layout.leaders.get(partition_of(group, len(layout.leaders)))
        broker = None if leader is None else self._client.brokers.get(leader)
        return Coordinator(broker.id, broker.host, broker.port, broker.rack) if broker else None

    def streams_threads(self, groups: Sequence[str]) -> dict[str, tuple[StreamsThread, ...] | KgroupError]:
        """The threads of classic Streams applications with their tasks."""
        from kgroup.cluster.streams_user_data import read_streams_threads

        return self._ask(read_streams_threads, self._coordinators, groups)

    def session_timeouts(self, groups: Sequence[Group]) -> Sessions:
        from kgroup.cluster.session_timeouts import session_timeouts

        return self.ask(session_timeouts, groups)

    def rights(self, groups: Sequence[str], topics: Collection[str]) -> Rights:
        """What this user may do to groups, which need not exist, and to topics; see ``kgroup.cluster.rights``."""
        from kgroup.cluster.rights import rights

        return self.ask(rights, self._coordinators, groups, topics)

    def open_transactions(
        self, layouts: Layouts, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]:
        """The open transactions of each partition, with their coordinators' facts about them."""
        from kgroup.cluster.open_transactions import open_transactions

        async def read() -> dict[TopicPartition, tuple[OpenTransaction, ...] | KgroupError]:
            sees_all = await self._coordinators.is_administrator()
            return await open_transactions(self._client, layouts, partitions, all_ids_visible=sees_all)

        return self._ask(read)

    def first_timestamps(self, layouts: Layouts, spans: Iterable[Span]) -> dict[Span, int | KgroupError | None]:
        """When the first record of each range was written; several ranges may be of one partition."""
        from kgroup.cluster.first_records import first_timestamps

        return self.ask(first_timestamps, layouts, spans)

    async def _settled_snapshot(self, groups: Sequence[ListedGroup | str], request: SnapshotRequest) -> Snapshot:
        return await self._coordinators.read_settled(lambda: self._snapshot(groups, request), lacks_group)

    async def _snapshot(self, groups: Sequence[ListedGroup | str], request: SnapshotRequest) -> Snapshot:
        listed = {group.name: group for group in groups if isinstance(group, ListedGroup)}
        types = request.types
        names = [
            group if isinstance(group, str) else group.name
            for group in groups
            if isinstance(group, str) or group.type in types
        ]
        # A share group has no commits; what is asked without a type may be one.
        may_commit = [name for name in names if name not in listed or listed[name].type != SHARE]
        await self._client.gather([self._coordinators.locate(names), self._coordinators.count_partitions()])
        committed: dict[str, CommittedOffsets | KgroupError]
        errors: list[RowError] = []
        search_hidden = request.offsets and request.hidden_budget_s > 0
        described, committed, may_hide = await self._client.gather(
            [
                describe_groups(self._coordinators, names, listed, types),
                self._coordinators.committed(may_commit if request.offsets else (), stable=request.stable),
                may_hide_topics(self._client) if search_hidden else _no(),
            ]
        )
        behind = [name for name in names if is_behind(described[name]) or is_behind(committed.get(name))]
        if behind and not request.stable:
            older, commits = await self._client.gather(
                [
                    describe_groups(self._coordinators, behind, listed, types, up_to_date=False),
                    self._coordinators.committed(
                        [name for name in may_commit if name in behind] if request.offsets else (), up_to_date=False
                    ),
                ]
            )
            described, committed = described | older, committed | commits
            errors += [RowError.of(behind_group(), group=name) for name in behind]
        # A coordinator that is gone may have taken all the time: what the others answered is read to its end.
        later = self._client.within(self._client.deadline.at_least(self._timeout_s / 4))
        if any(isinstance(answer, NotAuthorized) for answer in described.values()) and not listed:
            listed = {group.name: group for group in (await self._coordinators.list_groups()).groups}
        share = {name for name in names if is_share(described[name], listed.get(name))}
        existing = {
            name: offsets
            for name, offsets in committed.items()
            if name not in share and not isinstance(described[name], NotFound)
        }
        known = [name for name in sorted(share) if isinstance(described[name], GroupDescription)]
        starts, settings = await read_share_groups(
            self._coordinators.within(later.deadline), known, offsets=request.offsets, settings=request.settings
        )
        hidden = await self._find_hidden(later, existing, request) if may_hide else {}
        notes = tuple(hidden_notes(hidden))
        parts = []
        for name in names:
            answer = described[name]
            if isinstance(answer, KgroupError):
                errors.append(RowError.of(answer, group=name))
                readable = not isinstance(committed.get(name), KgroupError)
                answer = from_listing(listed.get(name), answer) if readable else None
            if answer is not None:
                coordinator = self._coordinators.coordinator(name)
                if name in share:
                    parts.append(share_parts(name, answer, coordinator, starts.get(name), settings.get(name)))
                    continue
                parts.append(GroupParts(name, answer, committed.get(name, {}), coordinator, hidden.get(name, ())))
        return await self._complete(later, parts, errors, notes, request)

    async def _find_hidden(
        self,
        client: CoordinatorClient,
        committed: Mapping[str, CommittedOffsets | KgroupError],
        request: SnapshotRequest,
    ) -> dict[str, Hidden]:
        """The commits hidden from this user; searched again if the broker shows other commits, or for a change."""
        cached, hidden = self.cache.hidden, {}
        shown = {name: frozenset(c) for name, c in committed.items() if not isinstance(c, KgroupError)}
        for name, partitions in shown.items():
            known = cached.get(name)
            if known and not request.stable and known.about == partitions and known.is_fresh(HIDDEN_FOR_S):
                hidden[name] = known.value
        unknown = {name: committed[name] for name in shown if name not in hidden}
        if unknown:
            budget = Deadline.after(min(request.hidden_budget_s, client.deadline.left_s))
            fresh = await read_hidden_commits(client, unknown, budget)
            cached |= {name: CachedValue(value, shown[name]) for name, value in fresh.items()}
            hidden |= fresh
        return hidden

    async def _complete(
        self,
        client: CoordinatorClient,
        parts: Sequence[GroupParts],
        errors: list[RowError],
        notes: tuple[str, ...],
        request: SnapshotRequest,
    ) -> Snapshot:
        """Add what brokers other than the coordinator know: logs, and the generations of classic groups."""
        classic = [p.name for p in parts if p.described.type == "classic" and p.described.protocol_type != ""]
        classic = classic if request.generation_budget_s > 0 else []
        topics = {topic for p in parts for topic in p.topics} if request.logs else set()
        changelogs = changelog_topics(parts) if request.changelogs else set()
        of_streams = {topic for p in parts if p.streams for topic in p.streams.topics} if request.changelogs else set()
        wanted = {*topics, *of_streams, *changelogs, *([OFFSETS_TOPIC] if classic else ())}
        layouts = await topic_layouts(client, wanted)
        parts = [with_partitions(part, layouts) for part in parts]
        partitions = {part.name: part.partitions(layouts) for part in parts}
        logs = {tp for of_group in partitions.values() for tp in of_group} if request.logs else set()
        of_tasks = [
            TopicPartition(topic, number)
            for topic in changelogs
            if isinstance(layout := layouts.get(topic), TopicLayout)
            for number in layout.leaders
        ]
        ranges: dict[TopicPartition, LogRange | KgroupError]
        ranges, results, sizes = await client.gather(
            [
                log_ranges(client, layouts, {*logs, *of_tasks}),
                self._generations(client, layouts.get(OFFSETS_TOPIC), classic, request.generation_budget_s),
                _sizes(client, layouts, of_tasks),
            ]
        )
        groups = []
        for part in parts:
            generation = results.generations.get(part.name) if results else None
            number, leader = (generation.number, generation.leader) if generation else (None, None)
            group = assemble(part, partitions[part.name], ranges, number, leader)
            if group.streams is not None and request.changelogs:
                group = replace(group, streams=with_changelogs(group.streams, ranges, sizes))
            groups.append(group)
            errors.extend(failures(group, part, layouts, ranges))
        notes += (results.note,) if results and results.note else ()
        return Snapshot(tuple(groups), tuple(errors), notes)

    async def _generations(
        self,
        client: CoordinatorClient,
        layout: TopicLayout | KgroupError | None,
        groups: Sequence[str],
        budget_s: float,
    ) -> GenerationResults | None:
        """Generations of classic groups from ``__consumer_offsets``; None if there is nothing to read."""
        if not groups or layout is None:
            return None
        # Imported here: it loads the decoders of all record types, which most pages of many groups do not need.
        from kgroup.cluster.offsets_topic.generations import latest_generations

        budget = Deadline.after(min(budget_s, client.deadline.left_s))
        known = {group: self.cache.generations[group] for group in groups if group in self.cache.generations}
        self.cache.generations = known
        return await latest_generations(client, layout, groups, budget, known)


def lacks_group(snapshot: Snapshot) -> bool:
    """Whether a coordinator answered that one of the groups does not exist."""
    return any(error.code == NotFound.code and error.topic is None for error in snapshot.errors)


async def _no() -> bool:
    return False


async def _sizes(
    client: CoordinatorClient, layouts: Layouts, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    if not partitions:
        return {}
    # Imported here: read of streams groups alone.
    from kgroup.cluster.topic_retention import read_sizes

    return await read_sizes(client, layouts, partitions)


def _logged_parts(state: LoggedState, leader: Coordinator | None) -> GroupParts:
    described = GroupDescription(
        state.type or "classic",
        state.state or "Unknown",
        state.protocol_type,
        state.assignor,
        state.group_epoch,
        state.assignment_epoch,
        None if state.state is None else state.members,  # the members that were read may be incomplete
        streams=state.streams,
    )
    commits: CommittedOffsets = dict(state.commits)
    lags: dict[TopicPartition, BrokerLag] | None = {} if state.type == SHARE else None
    return GroupParts(state.name, described, commits, leader, lags=lags)
