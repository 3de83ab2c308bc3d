"""Putting a group together from what coordinators, metadata and leaders said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgroup.cluster.coordinator.groups import Committed, Described
from kgroup.cluster.logs import TopicLayout, TopicPartition
from kgroup.errors import KgroupError, NotFound
from kgroup.model import Commit, Coordinator, Group, LogRange, Member, Partition, RowError


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What the coordinator said of one group. ``committed`` is empty where offsets were not asked for."""

    name: str
    described: Described
    committed: Committed | KgroupError
    coordinator: Coordinator | None

    @property
    def commits(self) -> Committed:
        """The commits, none where they could not be read."""
        return {} if isinstance(self.committed, KgroupError) else self.committed

    @property
    def owners(self) -> dict[TopicPartition, Member]:
        """Which member holds which partition; a static member that left for a moment still does."""
        return {
            (item.topic, number): member
            for member in self.described.members
            for item in member.assignment or ()
            for number in item.partitions
        }

    @property
    def topics(self) -> set[str]:
        """Every topic that the group commits to, is assigned, or is subscribed to by name."""
        return {
            *(topic for topic, _ in self.commits),
            *(item.topic for member in self.described.members for item in member.assignment or ()),
            *(topic for member in self.described.members for topic in member.subscription or ()),
        }

    def partitions(self, layouts: Mapping[str, TopicLayout | KgroupError]) -> list[TopicPartition]:
        """The partitions that concern the group, ascending.

        Those it committed to or holds, and the others of the same topics: one that was added meanwhile, or
        that nobody owns, is just what one looks for. A group that never had members (assign()) reads the
        partitions it commits to and no others.
        """
        chosen = {*self.commits, *self.owners}
        if self.described.protocol_type != "":
            for topic in self.topics:
                layout = layouts.get(topic)
                if isinstance(layout, TopicLayout):
                    chosen.update((topic, number) for number in layout.leaders)
        return sorted(chosen)


def assemble(
    parts: GroupParts,
    layouts: Mapping[str, TopicLayout | KgroupError],
    ranges: Mapping[TopicPartition, LogRange | KgroupError],
    generation: int | None,
    leader: str | None,
) -> Group:
    """The group, each partition with its own error where something of it could not be read."""
    commits, owners, described = parts.commits, parts.owners, parts.described
    return Group(
        name=parts.name,
        type=described.type,
        state=described.state,
        protocol_type=described.protocol_type,
        assignor=described.assignor,
        coordinator=parts.coordinator,
        generation=generation,
        leader=leader,
        group_epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        members=tuple(sorted(described.members, key=lambda m: (m.client_id, m.instance_id or "", m.member_id))),
        partitions=tuple(
            _partition(place, commits.get(place), ranges.get(place), owners.get(place))
            for place in parts.partitions(layouts)
        ),
    )


def _partition(
    place: TopicPartition,
    commit: Commit | KgroupError | None,
    log: LogRange | KgroupError | None,
    owner: Member | None,
) -> Partition:
    failed = commit if isinstance(commit, KgroupError) else log if isinstance(log, KgroupError) else None
    return Partition(
        place[0],
        place[1],
        None if isinstance(commit, KgroupError) else commit,
        None if isinstance(log, KgroupError) else log,
        owner,
        failed.code if failed else None,
    )


def failures(
    parts: GroupParts,
    layouts: Mapping[str, TopicLayout | KgroupError],
    ranges: Mapping[TopicPartition, LogRange | KgroupError],
) -> Iterator[RowError]:
    """What could not be read of the group: its offsets, whole topics, single partitions."""
    if isinstance(parts.committed, KgroupError):
        yield RowError.of(parts.committed, group=parts.name)
    for (topic, number), commit in parts.commits.items():
        if isinstance(commit, KgroupError):
            yield RowError.of(commit, group=parts.name, topic=topic, partition=number)
    concerned = parts.partitions(layouts)
    broken = {topic for topic in parts.topics if isinstance(layouts.get(topic), KgroupError)}
    for topic in sorted(broken):
        error = layouts[topic]
        assert isinstance(error, KgroupError)
        # A topic that is subscribed to but not there yet is no failure of reading.
        if not isinstance(error, NotFound) or any(topic == name for name, _ in concerned):
            yield RowError.of(error, group=parts.name, topic=topic)
    for topic, number in concerned:
        log = ranges.get((topic, number))
        if isinstance(log, KgroupError) and topic not in broken:
            yield RowError.of(log, group=parts.name, topic=topic, partition=number)
