"""Reads Streams applications as ``kgroup simulate`` needs them: their threads, tasks, and the size of their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kgroup.cluster.configs import setting_in_force
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.streams_user_data import StreamsThread
from kgroup.cluster.topics import TopicLayout, list_topics
from kgroup.groups.assignors.tasks import TaskMember, TaskTopology
from kgroup.groups.simulation.applications import Application, check_settled, instance_names
from kgroup.groups.simulation.subject import UNKNOWN_ASSIGNOR, check_subject, no_members_error
from kgroup.model.groups import Group
from kgroup.model.reporter import Reporter
from kgroup.model.streams_group import StreamsGroup, StreamsTask, TaskRole, changelogs_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused

_STANDBYS = "streams.num.standby.replicas"
_OF_BROKER = "sticky"


def read_applications(
    reporter: Reporter, cluster: Cluster, groups: Sequence[Group]
) -> dict[str, Application | KgroupError]:
    """The Streams applications among groups that were described with changelogs, or why one cannot be simulated."""
    applications: dict[str, Application | KgroupError] = {}
    able = []
    for group in groups:
        try:
            _check(group)
            able.append(group)
        except KgroupError as error:
            applications[group.name] = error
    of_clients = [group.name for group in able if group.streams is None]
    threads = cluster.streams_threads(of_clients) if of_clients else {}
    changelogs = _Changelogs(cluster, of_clients)
    of_broker = [group.name for group in able if group.streams is not None]
    standbys = cluster.ask(setting_in_force, of_broker, _STANDBYS) if of_broker else {}
    for group in able:
        try:
            if group.streams is None:
                application = _of_clients(group, threads[group.name], changelogs)
            else:
                application = _of_broker(reporter, group, group.streams, standbys.get(group.name))
            check_settled(application)
            applications[group.name] = application
        except KgroupError as error:
            applications[group.name] = error
    return applications


def _check(group: Group) -> None:
    """Raise Refused for an application without members, in a rebalance, or with another assignor of its brokers."""
    check_subject(group)
    if not group.members:
        raise no_members_error(group)
    if group.streams is None:
        return
    if group.assignor not in (None, _OF_BROKER) or group.streams.subtopologies is None:
        what = f"uses the assignor {group.assignor}" if group.assignor else "has a topology"
        raise Refused(f"{group.name} {what}, which only its brokers know", code=UNKNOWN_ASSIGNOR)


def _of_broker(
    reporter: Reporter, group: Group, streams: StreamsGroup, standbys: str | KgroupError | None
) -> Application:
    members = tuple(
        TaskMember(member_id, each.process_id, each.tasks[TaskRole.ACTIVE], each.tasks[TaskRole.STANDBY], each.lags)
        for member_id, each in streams.members.items()
    )
    if not isinstance(standbys, str):
        standbys = str(_most_copies(members))
        reporter.note(
            f"{group.name}: standby copies of a task: {standbys}, as now; no DESCRIBE_CONFIGS on the Group, which has "
            f"{_STANDBYS}"
        )
    clients: dict[str, list[str]] = {}
    for member in group.members or ():
        clients.setdefault(streams.members[member.member_id].process_id, []).append(member.client_id)
    with_state = frozenset(each.id for each in streams.subtopologies or () if each.changelogs)
    return Application(
        group=group.name,
        classic=False,
        members=members,
        topology=TaskTopology(_sizes(streams.tasks), with_state, int(standbys)),
        sizes={task: known.size for task, known in streams.changelogs.items()},
        names=instance_names(clients),
    )


def _of_clients(group: Group, threads: tuple[StreamsThread, ...] | KgroupError, changelogs: _Changelogs) -> Application:
    if isinstance(threads, KgroupError):
        raise threads
    if any(thread.tagged for thread in threads):
        raise Refused(
            f"{group.name}: its clients have tags, by which their assignor decides where standby tasks are",
            code=UNKNOWN_ASSIGNOR,
        )
    members = tuple(TaskMember(each.member_id, each.process_id, each.active, each.standby) for each in threads)
    with_state = frozenset(task.subtopology for each in threads for task in (*each.with_state, *each.standby))
    # At rest each task is somebody's. How many standby copies its clients want, they do not tell.
    sizes = _sizes(task for each in threads for task in each.active)
    topology = TaskTopology(sizes, with_state, _most_copies(members))
    clients: dict[str, list[str]] = {}
    for thread in threads:
        clients.setdefault(thread.process_id, []).append(thread.client_id)
    bytes_of, is_bound = changelogs.sizes(group.name, topology)
    return Application(group.name, True, members, topology, bytes_of, instance_names(clients), is_bound)


def _most_copies(members: Iterable[TaskMember]) -> int:
    """The most standby copies that a task has."""
    return max(Counter(task for member in members for task in member.standby).values(), default=0)


def _sizes(tasks: Iterable[StreamsTask]) -> dict[str, int]:
    """The number of tasks of each subtopology."""
    sizes: dict[str, int] = {}
    for task in sorted(tasks):
        sizes[task.subtopology] = max(sizes.get(task.subtopology, 0), task.partition + 1)
    return sizes


class _Changelogs:
    """The changelogs of classic applications, read for all of them at once."""

    def __init__(self, cluster: Cluster, applications: Sequence[str]) -> None:
        self._topics: dict[str, tuple[str, ...]] = {}
        if applications:
            topics = [topic.name for topic in cluster.ask(list_topics)]
            listed = [group.name for group in cluster.list_groups().groups]
            self._topics = {name: changelogs_of(name, topics, listed) for name in applications}
        layouts = cluster.layouts({topic for of_one in self._topics.values() for topic in of_one})
        self._counts = {name: len(each.leaders) for name, each in layouts.items() if isinstance(each, TopicLayout)}
        logs = [TopicPartition(name, number) for name, count in self._counts.items() for number in range(count)]
        self._bytes = cluster.topic_retention(layouts, logs).sizes if logs else {}

    def sizes(self, application: str, topology: TaskTopology) -> tuple[dict[StreamsTask, int | None], bool]:
        """Bytes of the changelogs of each task, and whether they are a bound, where no broker knows whose they are.

        A changelog has as many partitions as its subtopology has tasks. Several subtopologies may have that number.
        """
        with_state = {name: size for name, size in topology.sizes.items() if name in topology.stateful}
        sizes: dict[StreamsTask, int | None] = {}
        for task in topology.tasks(stateful=True):
            count = with_state[task.subtopology]
            alike = [topic for topic in self._topics[application] if self._counts.get(topic) == count]
            known = [self._bytes.get(TopicPartition(topic, task.partition)) for topic in alike]
            sizes[task] = sum(size for size in known if size is not None) if known and None not in known else None
        return sizes, len(set(with_state.values())) < len(with_state)
