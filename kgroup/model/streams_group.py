"""What a streams group (KIP-1071) has besides what every group has: its topology, and the tasks of its members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from kgroup.support.errors import refusal_code

STREAMS = "streams"
"""The type of such a group."""

NOT_READY = "NotReady"
"""Its state while a topic of its topology is missing, or has a number of partitions that does not fit."""

STREAMS_OFF = refusal_code(
    "streams-groups-off",
    "verbs that read streams groups",
    "Streams groups are switched off in this cluster (streams.version=0): the brokers list them and show nothing else.",
    "Switch them on: kafka-features.sh upgrade --feature streams.version=1.",
)


def changelogs_of(application: str, topics: Iterable[str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """The topics that hold state of an application, by their names: ``APPLICATION-...-changelog``.

    Of ``others`` whose names begin as its own does, as counts-v2 beside counts, they are left out.
    """
    longer = tuple(f"{other}-" for other in others if other.startswith(f"{application}-"))
    return tuple(
        topic
        for topic in topics
        if topic.startswith(f"{application}-") and topic.endswith("-changelog") and not topic.startswith(longer)
    )


class StreamsTask(NamedTuple):
    """A partition of a subtopology: ``1_0`` reads partition 0 of the topics of subtopology 1."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class TaskRole(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class MemberTasks(msgspec.Struct, frozen=True):
    """The tasks of a member, by name, in JSON."""

    active: Annotated[tuple[str, ...], "The tasks that it runs: 0_3 is partition 3 of subtopology 0."]
    standby: Annotated[tuple[str, ...], "The tasks whose state it keeps, to take them over."]
    warmup: Annotated[tuple[str, ...], "The tasks whose state it reads, before they move to it."]

    @classmethod
    def of(cls, tasks: Mapping[TaskRole, Iterable[StreamsTask]]) -> MemberTasks:
        return cls(*(tuple(map(str, tasks[role])) for role in TaskRole))


class Subtopology(msgspec.Struct, frozen=True):
    """A part of a topology, with the topics that it reads and those that hold its state, by name."""

    id: str
    sources: tuple[str, ...]
    repartition: tuple[str, ...] = ()
    changelogs: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.sources, *self.repartition)


class StreamsMember(msgspec.Struct, frozen=True):
    """The tasks that a member has, and shall have.

    ``lags`` are those that it reported of its own accord, up to a minute ago, in records of changelogs: Kafka 4.3 has
    none, Kafka 4.4 none of active tasks. What is missing is unknown.
    """

    process_id: str
    topology_epoch: int
    tasks: Mapping[TaskRole, tuple[StreamsTask, ...]]
    target: Mapping[TaskRole, tuple[StreamsTask, ...]]
    lags: Mapping[StreamsTask, int] = {}

    @property
    def has_tasks(self) -> bool:
        return any(self.tasks.values())


class Changelogs(msgspec.Struct, frozen=True):
    """What the changelogs of a task hold: what a member without its state reads, at most. None: not known.

    Records from the log start offsets to the log end offsets, which compaction may have removed; bytes of the leaders.
    """

    records: int | None
    size: int | None


class TaskCopies(msgspec.Struct, frozen=True):
    """A task with the ids of the members that have it, by role; each with its reported lag, None if it has none."""

    task: StreamsTask
    by_role: Mapping[TaskRole, tuple[tuple[str, int | None], ...]]

    @property
    def lag(self) -> int | None:
        """The least lag that a member reported which has its state and does not run it; None if none did."""
        copies = (*self.by_role[TaskRole.STANDBY], *self.by_role[TaskRole.WARMUP])
        return min((lag for _, lag in copies if lag is not None), default=None)


class StreamsGroup(msgspec.Struct, frozen=True):
    """What was read of a streams group only.

    ``subtopologies`` is None if the brokers do not show the topology; ``members`` are by member id. ``counts`` are the
    numbers of partitions of its topics, as far as they were read; ``missing`` are source topics that do not exist, None
    if none was found and not all were read. ``changelogs`` are read for the page of the group alone.
    """

    topology_epoch: int | None
    subtopologies: tuple[Subtopology, ...] | None
    members: Mapping[str, StreamsMember]
    counts: Mapping[str, int] = {}
    missing: tuple[str, ...] | None = None
    changelogs: Mapping[StreamsTask, Changelogs] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads: its input, and repartition topics."""
        return tuple(dict.fromkeys(topic for each in self.subtopologies or () for topic in each.inputs))

    @property
    def changelog_topics(self) -> tuple[str, ...]:
        return tuple(topic for each in self.subtopologies or () for topic in each.changelogs)

    @property
    def tasks(self) -> tuple[StreamsTask, ...]:
        """All tasks, ascending: those of the topology, as far as partitions are known, and those of members."""
        known = {task for _, _, task in self.assigned()}
        for each in self.subtopologies or ():
            partitions = max((self.counts.get(topic, 0) for topic in each.inputs), default=0)
            known |= {StreamsTask(each.id, number) for number in range(partitions)}
        return tuple(sorted(known, key=lambda task: (len(task.subtopology), task)))

    def assigned(self) -> Iterator[tuple[str, TaskRole, StreamsTask]]:
        """The member id, the role and the task of all that members have."""
        for member_id, member in self.members.items():
            for role, tasks in member.tasks.items():
                yield from ((member_id, role, task) for task in tasks)

    @property
    def copies(self) -> tuple[TaskCopies, ...]:
        """Each task with its members, ascending."""
        of: dict[StreamsTask, dict[TaskRole, tuple[tuple[str, int | None], ...]]]
        of = {task: dict.fromkeys(TaskRole, ()) for task in self.tasks}
        for name, role, task in self.assigned():
            of[task][role] += ((name, self.members[name].lags.get(task)),)
        return tuple(TaskCopies(task, by_role) for task, by_role in of.items())

    def restore_ms(self, task: StreamsTask, bytes_per_s: int) -> int | None:
        """How long a member without the task's state reads its changelogs, at most; None if their size is unknown."""
        known = self.changelogs.get(task)
        return None if known is None or known.size is None else round(1000 * known.size / bytes_per_s)

    @property
    def without_owner(self) -> tuple[StreamsTask, ...]:
        """Tasks that are no member's active ones."""
        owned = {task for _, role, task in self.assigned() if role is TaskRole.ACTIVE}
        return tuple(task for task in self.tasks if task not in owned)

    @property
    def other_topologies(self) -> tuple[str, ...]:
        """The ids of members whose topology is another one than the group's, as during a rolling upgrade."""
        return tuple(name for name, each in self.members.items() if each.topology_epoch != self.topology_epoch)
