"""Which tasks Kafka gives to the instances of a Streams application: by the broker (KIP-1071), or by a classic leader.

The results are those of Kafka 4.4.0, in ``tests/data/tasks.jsonl``: the broker's assignor ``sticky``, and the clients'
HighAvailabilityTaskAssignor once all instances have the state of their tasks. Until then the latter leaves a task where
its state is, and copies the state to where the task shall run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from kgroup.groups.assignors.java_order import (
    JavaHeap,
    in_buckets,
    in_hash_order,
    string_hash,
    table_size,
    uuid_order,
)
from kgroup.model.streams_group import StreamsTask


class TaskTopology(msgspec.Struct, frozen=True):
    """The number of tasks of each subtopology, those subtopologies that have state, and standby copies of each task."""

    sizes: Mapping[str, int]
    stateful: frozenset[str]
    standbys: int

    def tasks(self, *, stateful: bool | None = None) -> list[StreamsTask]:
        """All tasks, or those with, or without state."""
        return [
            StreamsTask(name, number)
            for name, size in self.sizes.items()
            if stateful is None or stateful is (name in self.stateful)
            for number in range(size)
        ]


class TaskMember(msgspec.Struct, frozen=True):
    """A thread of an instance; ``process_id`` is the instance, a Uuid of the client.

    ``lags`` are changelog records that it has not read, of tasks whose state it keeps and which it does not run.
    """

    member_id: str
    process_id: str
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    lags: Mapping[StreamsTask, int] = {}


def by_broker(members: Sequence[TaskMember], topology: TaskTopology) -> tuple[TaskMember, ...]:
    """What the broker's sticky assignor gives to members that have these tasks.

    A task stays where it is, else it goes to where its state is, up to the member's share; what is left goes to the
    instance with the least tasks per member. Members are in the order of the coordinator's table.
    """
    return _Broker(in_hash_order(members, lambda member: string_hash(member.member_id)), topology).assign()


def by_clients(
    threads: Mapping[str, int], topology: TaskTopology
) -> dict[str, tuple[set[StreamsTask], set[StreamsTask]]]:
    """The active and standby tasks of each process id, given their numbers of threads, once all states are there."""
    processes = {name: _Client(threads[name]) for name in sorted(threads, key=lambda name: uuid_order(UUID(name).int))}
    everyone = list(processes.values())
    with_state = sorted(topology.tasks(stateful=True), key=_numerically)
    for at, task in enumerate(with_state):
        everyone[at % len(everyone)].active.add(task)
    _balance(everyone, lambda client: client.active)
    for task in with_state if topology.standbys else ():
        for _ in range(topology.standbys):
            if free := [client for client in everyone if not client.has(task)]:
                min(free, key=lambda client: client.load).standby.add(task)
    if topology.standbys:
        _balance(everyone, lambda client: client.standby)
    for task in sorted(topology.tasks(stateful=False), key=_numerically):
        min(everyone, key=lambda client: len(client.active) / client.threads).active.add(task)
    return {name: (client.active, client.standby) for name, client in processes.items()}


@dataclass(slots=True)
class _Client:
    """A process of a classic application."""

    threads: int
    active: set[StreamsTask] = field(default_factory=set)
    standby: set[StreamsTask] = field(default_factory=set)

    def has(self, task: StreamsTask) -> bool:
        return task in self.active or task in self.standby

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        return self.count / self.threads

    def more_even_with(self, other: _Client) -> bool:
        """Whether the load of both is more even after a task has moved from this one to the other."""
        return self.load > other.load and (self.count - 1) / self.threads >= (other.count + 1) / other.threads


def _balance(clients: Sequence[_Client], kind: Callable[[_Client], set[StreamsTask]]) -> None:
    """Move tasks of a kind between each two of the clients, until none makes them more even."""
    moving = True
    while moving:
        moving = False
        for source in clients:
            for target in clients:
                for task in sorted(kind(source), key=_numerically):
                    if source is target or not source.more_even_with(target):
                        break
                    if not target.has(task):
                        kind(source).remove(task)
                        kind(target).add(task)
                        moving = True


def _numerically(task: StreamsTask) -> tuple[int, int]:
    return int(task.subtopology), task.partition


class _Share:
    """How many tasks a member may have: as even as possible among those that do not have their share yet."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = self._ceiling()

    def _ceiling(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def has(self, count: int) -> None:
        """A member has so many now."""
        if count == self.each:
            self._tasks -= count
            self._members -= 1
            self.each = self._ceiling()


class _Process:
    """An instance whose members get tasks."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._tasks = set[StreamsTask]()
        self._least: JavaHeap[str] | None = None

    @property
    def load(self) -> float:
        return len(self._tasks) / len(self.counts)

    def has(self, task: StreamsTask) -> bool:
        return task in self._tasks

    def give(self, member_id: str, task: StreamsTask) -> int:
        self._least = None
        return self._give(member_id, task)

    def give_to_least(self, task: StreamsTask) -> tuple[str, int]:
        """The member that got it, and how many it has."""
        if len(self.counts) == 1:
            (only,) = self.counts
            return only, self._give(only, task)
        if self._least is None:
            self._least = JavaHeap(in_hash_order(self.counts, string_hash), self.counts.__getitem__)
        member_id = self._least.pop()
        count = self._give(member_id, task)
        self._least.add(member_id)
        return member_id, count

    def _give(self, member_id: str, task: StreamsTask) -> int:
        self._tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Broker:
    """One assignment by the broker."""

    def __init__(self, members: Sequence[TaskMember], topology: TaskTopology) -> None:
        self._members, self._topology = {member.member_id: member for member in members}, topology
        self._processes: dict[str, _Process] = {}
        for member in members:
            self._processes.setdefault(member.process_id, _Process()).counts[member.member_id] = 0
        self._ran = {task: member for member in members for task in member.active}
        self._copies = _copies(members)
        active = len(topology.tasks())
        self._active_share = _Share(active, len(members))
        self._share = _Share(active + len(topology.tasks(stateful=True)) * topology.standbys, len(members))
        self._active: dict[str, set[StreamsTask]] = {member.member_id: set() for member in members}
        self._standby: dict[str, set[StreamsTask]] = {member.member_id: set() for member in members}

    def assign(self) -> tuple[TaskMember, ...]:
        self._assign_active()
        if self._topology.standbys:
            self._assign_standby()
        return tuple(
            msgspec.structs.replace(
                member,
                active=tuple(sorted(self._active[member.member_id])),
                standby=tuple(sorted(self._standby[member.member_id])),
            )
            for member in self._members.values()
        )

    def _assign_active(self) -> None:
        left = sorted(self._topology.tasks(), key=_by_partition)
        for owner in (self._ran.get, self._nearest):
            rest = []
            for task in left:
                member = owner(task)
                if member and self._process(member).counts[member.member_id] < self._active_share.each:
                    self._activate(task, member.member_id, self._process(member).give(member.member_id, task))
                else:
                    rest.append(task)
            left = rest
        heap = self._heap()
        for task in sorted(left):
            process = heap.pop()
            self._activate(task, *process.give_to_least(task))
            heap.add(process)

    def _assign_standby(self) -> None:
        missing = []
        for task in sorted(self._topology.tasks(stateful=True), key=_by_partition, reverse=True):
            for number in range(self._topology.standbys):
                if (member := self._keeper(task)) is None:
                    missing.append((task, self._topology.standbys - number))
                    break
                self._keep(task, member.member_id, self._process(member).give(member.member_id, task))
        heap = self._heap()
        for task, copies in sorted(missing, reverse=True):
            for _ in range(copies):
                if not self._keep_by_least(heap, task):
                    break

    def _keeper(self, task: StreamsTask) -> TaskMember | None:
        """The member that ran it or kept a copy, and has less than its share; None if there is none."""
        ran = self._ran.get(task)
        if ran and not self._process(ran).has(task) and self._has_less(ran):
            return ran
        kept = self._nearest(task, elsewhere=True)
        return kept if kept and self._has_less(kept) else None

    def _has_less(self, member: TaskMember) -> bool:
        return self._process(member).counts[member.member_id] < self._share.each

    def _keep_by_least(self, heap: JavaHeap[_Process], task: StreamsTask) -> bool:
        """Give a copy to the instance with the least tasks that has none of it; False if all have one."""
        passed, given = [], False
        while heap:
            process = heap.pop()
            passed.append(process)
            if not process.has(task):
                self._keep(task, *process.give_to_least(task))
                given = True
                break
        for process in reversed(passed):
            heap.add(process)
        return given

    def _nearest(self, task: StreamsTask, *, elsewhere: bool = False) -> TaskMember | None:
        """The member with a copy of the state that has the least tasks; ``elsewhere``: of an instance without it."""
        best, least = None, (0.0, 0)
        for member in self._copies.get(task, ()):
            process = self._process(member)
            if elsewhere and process.has(task):
                continue
            load = process.load, process.counts[member.member_id]
            if best is None or (load[0] < least[0] and load[1] < least[1]):
                best, least = member, load
        return best

    def _activate(self, task: StreamsTask, member_id: str, count: int) -> None:
        self._active[member_id].add(task)
        self._active_share.has(count)
        self._share.has(count)

    def _keep(self, task: StreamsTask, member_id: str, count: int) -> None:
        self._standby[member_id].add(task)
        self._share.has(count)

    def _process(self, member: TaskMember) -> _Process:
        return self._processes[member.process_id]

    def _heap(self) -> JavaHeap[_Process]:
        # By HashMap.computeIfAbsent, for each member: it puts the newest of a bucket first, and grows before it adds.
        before_last = {member.process_id for member in list(self._members.values())[:-1]}
        size = table_size(len(before_last), 1 << (len(self._members) - 1).bit_length())
        names = in_buckets(reversed(self._processes), string_hash, size)
        return JavaHeap([self._processes[name] for name in names], lambda process: process.load)


def _copies(members: Iterable[TaskMember]) -> dict[StreamsTask, list[TaskMember]]:
    """The members that keep the state of each task: standbys first, then those with state on their disk, by lag."""
    ranked: dict[StreamsTask, list[tuple[bool, float, TaskMember]]] = {}
    for member in members:
        for task in member.standby:
            ranked.setdefault(task, []).append((False, member.lags.get(task, float("inf")), member))
        for task, lag in member.lags.items():
            if task not in member.standby:
                ranked.setdefault(task, []).append((True, lag, member))
    return {task: [member for *_, member in sorted(rows, key=lambda row: row[:2])] for task, rows in ranked.items()}


def _by_partition(task: StreamsTask) -> tuple[int, str]:
    return task.partition, task.subtopology
