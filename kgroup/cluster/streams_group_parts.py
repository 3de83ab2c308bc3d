"""The tasks of a streams group as partitions of the topics that it reads, and what its changelogs hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kgroup.cluster.assemble_group import GroupParts
from kgroup.cluster.topics import Layouts, TopicLayout
from kgroup.model.groups import Assignment, LogRange, Member, assignment_of
from kgroup.model.streams_group import Changelogs, StreamsGroup, StreamsTask, TaskRole
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound


def changelog_topics(parts: Iterable[GroupParts]) -> set[str]:
    return {topic for each in parts if each.streams for topic in each.streams.changelog_topics}


def with_partitions(parts: GroupParts, layouts: Layouts) -> GroupParts:
    """The parts of a group; of a streams group, with its members' active tasks as partitions.

    A task has the partition of its number of each topic that its subtopology reads. A topic that has fewer partitions
    than others has none for the later tasks. Of a topic that was not read, all are assumed to be there; that none is
    missing is known if all were read.
    """
    streams = parts.streams
    if streams is None:
        return parts
    of_topics = {topic: layouts[topic] for topic in streams.topics if topic in layouts}
    missing = tuple(sorted(topic for topic, layout in of_topics.items() if isinstance(layout, NotFound)))
    unread = any(isinstance(layout, KgroupError) for layout in of_topics.values())
    streams = replace(
        streams,
        counts={topic: len(each.leaders) for topic, each in of_topics.items() if isinstance(each, TopicLayout)},
        missing=missing or (() if of_topics and not unread else None),
    )
    members = parts.described.members
    if members is not None:
        members = tuple(_with_partitions(member, streams) for member in members)
    return replace(parts, described=replace(parts.described, members=members, streams=streams))


def _with_partitions(member: Member, streams: StreamsGroup) -> Member:
    own = streams.members[member.member_id]
    return replace(
        member,
        assignment=_partitions(own.tasks[TaskRole.ACTIVE], streams),
        target_assignment=_partitions(own.target[TaskRole.ACTIVE], streams),
    )


def _partitions(tasks: Iterable[StreamsTask], streams: StreamsGroup) -> Assignment | None:
    read = {each.id: each.inputs for each in streams.subtopologies or ()}
    return assignment_of(
        TopicPartition(topic, task.partition)
        for task in tasks
        for topic in read.get(task.subtopology, ())
        if task.partition < streams.counts.get(topic, task.partition + 1)
    )


def with_changelogs(
    streams: StreamsGroup,
    ranges: Mapping[TopicPartition, LogRange | KgroupError],
    sizes: Mapping[TopicPartition, int],
) -> StreamsGroup:
    """With what the changelogs of each task hold, a sum over the stores of its subtopology."""
    stores = {each.id: each.changelogs for each in streams.subtopologies or ()}
    known = {}
    for task in streams.tasks:
        logs = [TopicPartition(topic, task.partition) for topic in stores.get(task.subtopology, ())]
        if logs:
            counts = [log.end - log.start for tp in logs if isinstance(log := ranges.get(tp), LogRange)]
            lengths = [sizes[tp] for tp in logs if tp in sizes]
            known[task] = Changelogs(
                sum(counts) if len(counts) == len(logs) else None,
                sum(lengths) if len(lengths) == len(logs) else None,
            )
    return replace(streams, changelogs=known)
