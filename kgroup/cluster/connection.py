"""An open connection to a cluster, and its questions about ``__consumer_offsets``.

Each question has the whole time limit for itself. Readers are imported on use: most commands need none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.topics import offsets_topic_layout
from kgroup.model.groups import Activities, Group, LastActivities
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_ms
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    from kgroup.cluster.offsets_topic.commits import CommitHistory
    from kgroup.cluster.offsets_topic.group_log import GroupLogs
    from kgroup.cluster.offsets_topic.group_past import UnknownPasts
    from kgroup.cluster.offsets_topic.last_records import LastRecords
    from kgroup.model.clock_difference import Clocks
    from kgroup.model.migration_facts import GroupPast

T = TypeVar("T")

_CLOCK_S = 2.0
_ACTIVITY_BUDGET_S = 5.0
"""Longer than a broker's occasional pauses: if it runs out, a client that commits may stay undetected."""


class ClusterConnection:
    """An open connection, to be closed by its context manager, with the questions about ``__consumer_offsets``.

    Each of these reads within a budget. A subclass adds the other questions.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect. Raises Unreachable or AuthenticationFailed with the reason."""
        self._timeout_s = settings.timeout_s
        self._client = CoordinatorClient(settings, Deadline.after(self._timeout_s))
        self._coordinators = GroupCoordinators(self._client)
        self._ahead_ms: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        reference = self.ref
        self._client.close()
        if isinstance(error, KgroupError) and error.cluster is None:
            raise error.with_context(cluster=reference) from error

    def _ask(self, question: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Ask one question with the whole time limit, whatever time the questions before it needed."""
        return self._client.run(question, *arguments, deadline=Deadline.after(self._timeout_s))

    def ask(self, question: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Ask one question of ``kgroup.cluster``: a function whose first parameter is the client.

        ``cluster.ask(group_configs, groups)``: the question's docstring states what it returns and raises.
        """
        return self._ask(question, self._client, *arguments)

    @property
    def ref(self) -> ClusterRef:
        return self._client.ref

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Limit each question in the block to ``seconds``, if ``--timeout`` allows more."""
        usual = self._timeout_s
        self._timeout_s = min(usual, seconds)
        try:
            yield
        finally:
            self._timeout_s = usual

    def recent_activity(self, groups: Sequence[Group], now_ms: int) -> Activities:
        """The recent commits to those groups that are Empty; the note says what could not be read in time."""
        return self._ask(self._recent_activity, groups, now_ms)

    async def _recent_activity(self, groups: Sequence[Group], now_ms: int) -> Activities:
        # Imported here: it loads the decoders of all record types.
        from kgroup.cluster.offsets_topic.activity import reading_since, recent_activity

        since_ms = reading_since(groups, now_ms)
        if not since_ms:
            return Activities({}, None)
        layout = await offsets_topic_layout(self._client)
        budget = Deadline.after(min(_ACTIVITY_BUDGET_S, self._client.deadline.left_s))
        return await recent_activity(self._client, layout, since_ms, budget)

    def last_activities(self, groups: Sequence[str], since_ms: int, budget_s: float) -> LastActivities:
        """When the groups last committed or changed, back to ``since_ms``; reads the log for at most ``budget_s``."""
        from kgroup.cluster.offsets_topic.activity import last_activities

        async def read() -> LastActivities:
            layout = await offsets_topic_layout(self._client)
            budget = Deadline.after(budget_s)
            return await last_activities(self._client.within(budget), layout, groups, since_ms, budget)

        return self._ask(read)

    def clocks(self) -> Clocks:
        """This machine's clock and the brokers' at the same moment, if they report it within 2 s."""
        from kgroup.cluster.broker_clock import clocks

        with self.time_limit(_CLOCK_S):
            known = self.ask(clocks)
        self._ahead_ms = known.now_ms - known.ours_ms
        return known

    def now_ms(self) -> int:
        """The brokers' present time in ms since 1970, as ``Clocks.now_ms``; every age counts from it.

        The brokers are asked once per connection.
        """
        if self._ahead_ms is None:
            self.clocks()
        return utc_ms() + (self._ahead_ms or 0)

    def end_of_commits(self, group: str) -> int:
        """An offset at or before the group's next record in ``__consumer_offsets``: the log end. Raises KgroupError."""
        from kgroup.cluster.offsets_topic.commits import end_of_log

        async def read() -> int:
            layout = await offsets_topic_layout(self._client)
            return await end_of_log(self._client, layout, group)

        return self._ask(read)

    def commits_since(self, group: str, position: int, budget_s: float) -> CommitHistory:
        """All commits of a group from this position in its partition of the log; reads for at most ``budget_s``."""
        from kgroup.cluster.offsets_topic.commits import commits_since

        async def read() -> CommitHistory:
            layout = await offsets_topic_layout(self._client)
            budget = Deadline.after(budget_s)
            return await commits_since(self._client.within(budget), layout, group, position, budget)

        return self._ask(read)

    def group_logs(
        self,
        since_ms: Mapping[str, int | None],
        budget_s: float,
        *,
        max_bytes: int | None = None,
        to_last_state: bool = False,
        floors: Mapping[str, int] | None = None,
        progress: Callable[[int, int], None] | None = None,
        limit_s: float | None = None,
        pasts: Sequence[Group] = (),
    ) -> GroupLogs:
        """All records of groups in ``__consumer_offsets``, each group back to a moment (None: to the log start).

        ``to_last_state`` reads on to the group's state at that moment, but never below the offsets in ``floors``. The
        scan ends after ``budget_s`` or ``max_bytes``. It calls ``progress`` with (offsets read, offsets expected).
        ``limit_s`` is the limit in messages, if ``budget_s`` is only these groups' share of it. The past of ``pasts``
        is looked for in the same records.
        """
        from kgroup.cluster.offsets_topic.group_log import ReadDepth, read_group_logs
        from kgroup.cluster.offsets_topic.group_past import PastQuery
        from kgroup.cluster.offsets_topic.scan import ByteBudget

        lowest = floors or {}
        depths = {name: ReadDepth(since, lowest.get(name, 0), to_last_state) for name, since in since_ms.items()}

        async def read() -> GroupLogs:
            layout = await offsets_topic_layout(self._client)
            # The lookup of topic names after the scan has a time limit of its own.
            client = self._client.within(Deadline.after(budget_s + self._timeout_s))
            return await read_group_logs(
                client,
                layout,
                depths,
                Deadline.after(budget_s),
                ByteBudget(max_bytes),
                progress,
                limit_s=limit_s,
                pasts=map(PastQuery.of, pasts),
            )

        return self._ask(read)

    def last_records(
        self,
        groups: Collection[str] | None,
        budget_s: float,
        *,
        numbers: Collection[int] | None = None,
        at_ms: int | None = None,
        max_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> LastRecords:
        """The last record of each key of the groups, as of a moment, without a request to any coordinator.

        ``groups`` None: all groups in the partitions ``numbers`` of ``__consumer_offsets`` (None: in all). The scan
        ends after ``budget_s`` or ``max_bytes``. It calls ``progress`` with (offsets read, offsets expected). Raises
        KgroupError.
        """
        from kgroup.cluster.offsets_topic.last_records import read_last_records
        from kgroup.cluster.offsets_topic.scan import ByteBudget

        async def read() -> LastRecords:
            budget = Deadline.after(budget_s)
            client = self._client.within(Deadline.after(budget_s + self._timeout_s))  # as in group_logs
            return await read_last_records(client, groups, numbers, at_ms, budget, ByteBudget(max_bytes), progress)

        return self._ask(read)

    def pasts(
        self, groups: Sequence[Group | str], budget_s: float, *, to_start: bool = False
    ) -> tuple[dict[str, GroupPast], UnknownPasts | None]:
        """The past of the groups from ``__consumer_offsets``, read for at most ``budget_s``; and why it is incomplete.

        A Group, with its commits, is found sooner than a mere name, because the scan knows when it has all of them.
        ``to_start`` reads on to the log start, to find commits that the broker does not show.
        """
        from kgroup.cluster.offsets_topic.group_past import PastQuery, read_pasts

        async def read() -> tuple[dict[str, GroupPast], UnknownPasts | None]:
            names = [group for group in groups if isinstance(group, str)]
            layout, committed = await self._client.gather(
                [offsets_topic_layout(self._client), self._coordinators.committed(names)]
            )
            queries = [
                PastQuery.named(group, committed.get(group)) if isinstance(group, str) else PastQuery.of(group)
                for group in groups
            ]
            # A request that is under way when the time is over must not time out: that closes the connection.
            client = self._client.within(Deadline.after(budget_s + self._timeout_s))
            return await read_pasts(client, layout, queries, Deadline.after(budget_s), to_start=to_start)

        return self._ask(read)
