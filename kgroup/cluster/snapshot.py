"""What the cluster says of groups at one moment, in few round trips: for any number of groups, a request for
each coordinator that keeps some of them and for each broker that leads some of their partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeVar

from kgroup.cluster.assembly import GroupParts, assemble, failures
from kgroup.cluster.coordinator.client import Client
from kgroup.cluster.coordinator.groups import SETTLING_S, Committed, Described, GroupCoordinators, Listing
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.logs import (
    ListedTopic,
    LogView,
    TopicLayout,
    TopicPartition,
    list_topics,
    log_positions,
    log_ranges,
    log_views,
    topic_layouts,
)
from kgroup.cluster.offsets_log.partition import OFFSETS_TOPIC
from kgroup.errors import KgroupError, NotAuthorized, NotFound
from kgroup.model import Activities, ClusterRef, Group, LastSigns, ListedGroup, LogRange, Positions, RowError
from kgroup.settings import Settings

if TYPE_CHECKING:
    from kgroup.cluster.offsets_log.commits import CommitHistory
    from kgroup.cluster.offsets_log.read import Generations
    from kgroup.cluster.sessions import Sessions
    from kgroup.cluster.topic_keeping import Keeping
    from kgroup.facts import Access, BrokerFacts, Past

T = TypeVar("T")

DESCRIBED_TYPES = ("classic", "consumer")
_ACTIVITY_BUDGET_S = 1.5
_HIDDEN_COMMITS = (
    "this user lacks DESCRIBE on the Cluster: if it lacks DESCRIBE on a Topic too, "
    "the broker leaves out the commits on it without a word"
)


@dataclass(frozen=True, slots=True)
class Want:
    """How much of a group is read: its offsets, where the logs begin and end, its generation.

    ``generation_budget_s`` is how long ``__consumer_offsets`` may be searched; 0 leaves generation and leader
    out. ``stable`` makes an error of each commit that an open transaction is about to replace.
    """

    offsets: bool = True
    logs: bool = True
    generation_budget_s: float = 1.0
    stable: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Groups in the order they were asked for, the rows that failed, and what could not be seen."""

    groups: tuple[Group, ...]
    errors: tuple[RowError, ...]
    notes: tuple[str, ...]


class Cluster:
    """An open connection to a cluster, for reading."""

    def __init__(self, settings: Settings) -> None:
        """Connect. Raises Unreachable or AuthenticationFailed with the reason."""
        self._timeout_s = settings.timeout_s
        self._client = Client(settings, Deadline.after(self._timeout_s))
        self._coordinators = GroupCoordinators(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KgroupError):
            error.cluster = self.ref
        self._client.close()

    def _ask(self, question: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """One question, with the whole time limit: a broker that used up the last one's must not fail this one."""
        self._client.deadline = Deadline.after(self._timeout_s)
        return self._client.run(question, *arguments)

    @property
    def ref(self) -> ClusterRef:
        """Which cluster answered."""
        return self._client.ref

    def list_groups(self) -> Listing:
        """All groups of all kinds, without their members."""
        return self._ask(self._coordinators.list_groups)

    def topic_names(self) -> tuple[ListedTopic, ...]:
        """All topics that this user may see, by name."""
        return self._ask(list_topics, self._client)

    def check_topics(self, topics: Sequence[str]) -> tuple[str, ...]:
        """Those of the topics that do not exist. Raises NotAuthorized for one that may not be seen."""
        layouts = self._ask(topic_layouts, self._client, topics)
        for topic, layout in layouts.items():
            if isinstance(layout, NotAuthorized):
                raise NotAuthorized(f"{topic} {layout.message}", hint=layout.hint)
        return tuple(topic for topic in topics if isinstance(layouts.get(topic), KgroupError))

    def committed(self, groups: Sequence[str]) -> dict[str, Committed | KgroupError]:
        """The commits alone, of groups that may not exist; those that are about to be replaced are errors."""
        return self._ask(self._settled_commits, groups)

    async def _settled_commits(self, groups: Sequence[str]) -> dict[str, Committed | KgroupError]:
        while True:
            found = await self._coordinators.committed(groups, stable=True)
            moved, self._client.unsettled = self._client.unsettled, False
            if not moved or self._client.deadline.passed:
                return found
            await self._client.sleep(SETTLING_S)

    def layouts(self, topics: Iterable[str]) -> dict[str, TopicLayout | KgroupError]:
        """The partitions and ids of topics, or why they can't be told."""
        return self._ask(topic_layouts, self._client, topics)

    def positions(
        self,
        layouts: Mapping[str, TopicLayout | KgroupError],
        places: Iterable[TopicPartition],
        timestamp_ms: int | None = None,
    ) -> dict[TopicPartition, Positions | KgroupError]:
        """Where the logs of partitions start and end, and where the moment lies in them."""
        return self._ask(log_positions, self._client, layouts, places, timestamp_ms)

    def log_views(
        self,
        layouts: Mapping[str, TopicLayout | KgroupError],
        places: Iterable[TopicPartition],
        moments_ms: Sequence[int] = (),
    ) -> dict[TopicPartition, LogView | KgroupError]:
        """The same with last stable offsets, and with any number of moments."""
        return self._ask(log_views, self._client, layouts, places, moments_ms)

    def keeping(self, layouts: Mapping[str, TopicLayout | KgroupError], places: Iterable[TopicPartition]) -> Keeping:
        """How long topics keep their records, and the bytes of their partitions' logs."""
        from kgroup.cluster.topic_keeping import keeping

        return self._ask(keeping, self._client, layouts, places)

    def member_counts(self, listed: Sequence[ListedGroup]) -> tuple[tuple[ListedGroup, ...], tuple[RowError, ...]]:
        """The same groups with the number of their members, and those that could not be asked."""
        names = {kind: [g.name for g in listed if g.type == kind] for kind in DESCRIBED_TYPES}
        described = self._ask(self._describe, names["classic"], names["consumer"])
        errors = tuple(
            RowError.of(answer, group=name)
            for name, answer in sorted(described.items())
            if isinstance(answer, KgroupError) and not isinstance(answer, NotFound)
        )
        return tuple(_with_members(group, described.get(group.name)) for group in listed), errors

    def describe(self, groups: Sequence[ListedGroup | str], want: Want) -> Snapshot:
        """The groups as they are now.

        A name without its type is asked for as both types at once; a group that is neither is NotFound in
        ``errors``. Groups that kgroup does not describe (share, streams) are not asked for.
        """
        return self._ask(self._settled_snapshot, groups, want)

    def recent_activity(self, groups: Sequence[Group], now_ms: int) -> Activities:
        """Who commits to those of the groups that are Empty; what can't be read in a moment is in the note."""
        return self._ask(self._recent_activity, groups, now_ms)

    async def _recent_activity(self, groups: Sequence[Group], now_ms: int) -> Activities:
        # Imported here for the same reason as in _generations.
        from kgroup.cluster.offsets_log.activity import reading_since, recent_activity

        since_ms = reading_since(groups, now_ms)
        if not since_ms:
            return Activities({}, None)
        layout = (await topic_layouts(self._client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
        budget = Deadline.after(min(_ACTIVITY_BUDGET_S, self._client.deadline.left_s))
        return await recent_activity(self._client, layout, since_ms, budget)

    def last_signs(self, groups: Sequence[str], since_ms: int, budget_s: float) -> LastSigns:
        """When the groups last committed or changed, back to a moment; the log is read for ``budget_s`` at most."""
        from kgroup.cluster.offsets_log.last_signs import last_signs

        async def read() -> LastSigns:
            layout = (await topic_layouts(self._client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
            self._client.deadline = budget = Deadline.after(budget_s)
            return await last_signs(self._client, layout, groups, since_ms, budget)

        return self._ask(read)

    def end_of_commits(self, group: str) -> int:
        """Where the group's next record will stand in its partition of ``__consumer_offsets``, or a little lower.

        Raises KgroupError where that can't be told.
        """
        from kgroup.cluster.offsets_log.commits import end_of_log

        async def read() -> int:
            layout = (await topic_layouts(self._client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
            return await end_of_log(self._client, layout, group)

        return self._ask(read)

    def commits_since(self, group: str, position: int, budget_s: float) -> CommitHistory:
        """All commits of a group from this position in its partition of the log on, read for ``budget_s`` at most."""
        from kgroup.cluster.offsets_log.commits import commits_since

        async def read() -> CommitHistory:
            layout = (await topic_layouts(self._client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
            self._client.deadline = budget = Deadline.after(budget_s)
            return await commits_since(self._client, layout, group, position, budget)

        return self._ask(read)

    def session_timeouts(self, groups: Sequence[Group]) -> Sessions:
        """How long the members of the groups may be silent before they are taken for dead."""
        from kgroup.cluster.sessions import session_timeouts

        return self._ask(session_timeouts, self._client, groups)

    def broker_facts(self, coordinators: Iterable[int]) -> dict[int, BrokerFacts]:
        """What these brokers say of themselves, by number; what can't be read is in their ``unread``."""
        from kgroup.cluster.broker_facts import broker_facts

        return self._ask(broker_facts, self._client, coordinators)

    def pasts(
        self, groups: Sequence[Group | str], budget_s: float, *, to_start: bool = False
    ) -> tuple[dict[str, Past], str | None]:
        """What ``__consumer_offsets`` tells of the groups, read for ``budget_s`` at most; why that is not all.

        A Group, with its commits, is found sooner than a mere name: it is known what there is to be found.
        ``to_start`` reads on for what the broker does not show.
        """
        from kgroup.cluster.offsets_log.past import Wanted, read_pasts

        async def read() -> tuple[dict[str, Past], str | None]:
            names = [group for group in groups if isinstance(group, str)]
            layouts, committed = await self._client.gather(
                [topic_layouts(self._client, {OFFSETS_TOPIC}), self._coordinators.committed(names)]
            )
            wanted = [
                Wanted.named(group, committed.get(group)) if isinstance(group, str) else Wanted.of(group)
                for group in groups
            ]
            self._client.deadline = budget = Deadline.after(budget_s)
            return await read_pasts(self._client, layouts[OFFSETS_TOPIC], wanted, budget, to_start=to_start)

        return self._ask(read)

    def group_configs(self, groups: Sequence[str]) -> dict[str, Mapping[str, str] | KgroupError]:
        """The dynamic configs that are set for the groups themselves; the brokers' defaults are left out."""
        from kgroup.cluster.group_configs import group_configs

        return self._ask(group_configs, self._client, groups)

    def access(self, groups: Mapping[str, Collection[str]]) -> dict[str, Access] | KgroupError:
        """Who may read each group, but not describe all of its topics, which are given; see ``Access``."""
        from kgroup.cluster.access import access

        return self._ask(access, self._client, groups)

    def is_administrator(self) -> bool:
        """Whether this user may do everything to the cluster, as super users may."""
        return self._ask(self._coordinators.is_administrator)

    def first_timestamps(
        self, ranges: Mapping[TopicPartition, LogRange]
    ) -> dict[TopicPartition, int | KgroupError | None]:
        """When the first record of each range was written, see ``kgroup.cluster.fetch``."""
        from kgroup.cluster.fetch import first_timestamps

        return self._ask(first_timestamps, self._client, ranges)

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Give each question in the block no more than this, where ``--timeout`` would give it more."""
        usual = self._timeout_s
        self._timeout_s = min(usual, seconds)
        try:
            yield
        finally:
            self._timeout_s = usual

    async def _settled_snapshot(self, groups: Sequence[ListedGroup | str], want: Want) -> Snapshot:
        """What is read while coordinators move is read once more: it may lack an acknowledged commit (seen)."""
        while True:
            snapshot = await self._snapshot(groups, want)
            moved, self._client.unsettled = self._client.unsettled, False
            if not moved or self._client.deadline.passed:
                return snapshot
            await self._client.sleep(SETTLING_S)

    async def _snapshot(self, groups: Sequence[ListedGroup | str], want: Want) -> Snapshot:
        listed = {group.name: group for group in groups if isinstance(group, ListedGroup)}
        names = [
            group if isinstance(group, str) else group.name
            for group in groups
            if isinstance(group, str) or group.type in DESCRIBED_TYPES
        ]
        await self._coordinators.locate(names)
        committed: dict[str, Committed | KgroupError]
        described, committed, sees_all = await self._client.gather(
            [
                self._describe(*(_of_type(kind, names, listed) for kind in DESCRIBED_TYPES)),
                self._coordinators.committed(names if want.offsets else (), stable=want.stable),
                self._coordinators.sees_all(),
            ]
        )
        if any(isinstance(answer, NotAuthorized) for answer in described.values()) and not listed:
            listed = {group.name: group for group in (await self._coordinators.list_groups()).groups}
        notes = () if sees_all or not want.offsets else (_HIDDEN_COMMITS,)
        parts, errors = [], []
        for name in names:
            answer = described[name]
            if isinstance(answer, KgroupError):
                errors.append(RowError.of(answer, group=name))
                readable = not isinstance(committed.get(name), KgroupError)
                answer = _from_listing(listed.get(name), answer) if readable else None
            if answer is not None:
                coordinator = self._coordinators.coordinator(name)
                parts.append(GroupParts(name, answer, committed.get(name, {}), coordinator))
        return await self._complete(parts, errors, notes, want)

    async def _complete(
        self, parts: Sequence[GroupParts], errors: list[RowError], notes: tuple[str, ...], want: Want
    ) -> Snapshot:
        """Add what brokers other than the coordinator know: logs, and the generations of classic groups."""
        dated = [p.name for p in parts if p.described.type == "classic" and p.described.protocol_type != ""]
        dated = dated if want.generation_budget_s > 0 else []
        topics = {topic for p in parts for topic in p.topics} if want.logs else set()
        layouts = await topic_layouts(self._client, {*topics, OFFSETS_TOPIC} if dated else topics)
        places = {part.name: part.partitions(layouts) for part in parts}
        wanted = {place for chosen in places.values() for place in chosen} if want.logs else set()
        ranges: dict[TopicPartition, LogRange | KgroupError]
        ranges, dates = await self._client.gather(
            [
                log_ranges(self._client, layouts, wanted),
                self._generations(layouts.get(OFFSETS_TOPIC), dated, want.generation_budget_s),
            ]
        )
        groups = []
        for part in parts:
            date = dates.found.get(part.name) if dates else None
            number, leader = (date.number, date.leader) if date else (None, None)
            group = assemble(part, places[part.name], ranges, number, leader)
            groups.append(group)
            errors.extend(failures(group, part, layouts, ranges))
        notes += (dates.note,) if dates and dates.note else ()
        return Snapshot(tuple(groups), tuple(errors), notes)

    async def _generations(
        self, layout: TopicLayout | KgroupError | None, groups: Sequence[str], budget_s: float
    ) -> Generations | None:
        """What the log tells of classic groups; None where nothing is to be asked."""
        if not groups or layout is None:
            return None
        # Imported here: the decoders of all record types, which most screens of many groups do not need.
        from kgroup.cluster.offsets_log.read import latest_generations

        budget = Deadline.after(min(budget_s, self._client.deadline.left_s))
        return await latest_generations(self._client, layout, groups, budget)

    async def _describe(self, classic: Sequence[str], consumer: Sequence[str]) -> dict[str, Described | KgroupError]:
        """The description that fits the group's type; of a group asked for as both, the one that exists."""
        as_classic, as_consumer = await self._client.gather(
            [self._coordinators.describe_classic(classic), self._coordinators.describe_consumer(consumer)]
        )
        result = dict(as_classic)
        for name, answer in as_consumer.items():
            # Never believe Dead from API 15: a live consumer group looks like that.
            if name not in result or not isinstance(answer, NotFound):
                result[name] = answer
        return result


def _of_type(kind: str, names: Sequence[str], listed: Mapping[str, ListedGroup]) -> list[str]:
    """The names that are, or may be, groups of this type."""
    return [name for name in names if name not in listed or listed[name].type == kind]


def _from_listing(listed: ListedGroup | None, error: KgroupError) -> Described | None:
    """What is left of a group whose members may not be seen; None where nothing is known of it."""
    if listed is None or isinstance(error, NotFound):
        return None
    return Described(listed.type, listed.state, listed.protocol_type, None, None, None, None)


def _with_members(group: ListedGroup, described: Described | KgroupError | None) -> ListedGroup:
    if not isinstance(described, Described):
        return group
    members = None if described.members is None else len(described.members)
    return replace(group, state=described.state, members=members)
