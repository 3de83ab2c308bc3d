"""Assemble a group from the responses of coordinators, metadata and partition leaders. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.topics import Layouts, TopicLayout
from kgroup.model.commit import Commit
from kgroup.model.groups import Coordinator, Group, LogRange, Member, Partition, RowError
from kgroup.model.share_group import BrokerLag, ShareGroup
from kgroup.model.streams_group import StreamsGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound

_NOT_COUNTED, _NONE_LEFT = BrokerLag(None), BrokerLag(0)


class GroupParts(msgspec.Struct, frozen=True, dict=True):
    """What the coordinator returned for one group. ``committed`` is empty if offsets were not requested.

    ``hidden`` are the commits that it left out, see ``Group.hidden_commits``. ``lags`` are those of a share group,
    whose ``committed`` are its start offsets; None for any other group.
    """

    name: str
    described: GroupDescription
    committed: CommittedOffsets | KgroupError
    coordinator: Coordinator | None
    hidden: tuple[TopicPartition, ...] | None = ()
    lags: Mapping[TopicPartition, BrokerLag] | None = None
    share: ShareGroup | None = None

    @property
    def streams(self) -> StreamsGroup | None:
        return self.described.streams

    @property
    def commits(self) -> CommittedOffsets:
        """The commits; empty if they could not be read."""
        return {} if isinstance(self.committed, KgroupError) else self.committed

    @cached_property
    def owners(self) -> dict[TopicPartition, Member]:
        """Each assigned partition's member; a static member that left temporarily still counts."""
        return {
            TopicPartition(item.topic, number): member
            for member in self.described.members or ()
            for item in member.assignment or ()
            for number in item.partitions
        }

    @cached_property
    def topics(self) -> set[str]:
        """Every topic with a commit, that is assigned or subscribed to by name, or that its topology reads."""
        return {
            *(topic for topic, _ in self.commits),
            *(topic for topic, _ in self.lags or ()),
            *(self.streams.topics if self.streams else ()),
            *(item.topic for member in self.described.members or () for item in member.assignment or ()),
            *(topic for member in self.described.members or () for topic in member.subscription or ()),
        }

    def partitions(self, layouts: Layouts) -> list[TopicPartition]:
        """The partitions to show for the group, ascending.

        These are the partitions it committed to or is assigned, and the other partitions of the same topics: a
        partition that was added, or that no member owns, is just what a user needs to see. A group that never had
        members (assign()) only has the partitions it commits to.
        """
        partitions = {*self.commits, *self.owners, *(self.lags or ())}
        if self.described.protocol_type != "":
            for topic in self.topics:
                layout = layouts.get(topic)
                if isinstance(layout, TopicLayout):
                    partitions.update(TopicPartition(topic, number) for number in layout.leaders)
        return sorted(partitions)


def assemble(
    parts: GroupParts,
    partitions: Sequence[TopicPartition],
    ranges: Mapping[TopicPartition, LogRange | KgroupError],
    generation: int | None,
    leader: str | None,
) -> Group:
    """Build the group; a partition of ``partitions`` has an error if its commit or log could not be read."""
    commits, owners, described, lags = parts.commits, parts.owners, parts.described, parts.lags
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
        members=_sorted_members(described.members),
        partitions=tuple([_partition(tp, commits.get(tp), ranges.get(tp), owners.get(tp)) for tp in partitions])
        if lags is None
        else tuple(_counted(tp, parts, ranges.get(tp), lags.get(tp, _NOT_COUNTED)) for tp in partitions),
        hidden_commits=parts.hidden,
        share=parts.share,
        streams=parts.streams,
    )


def _sorted_members(members: tuple[Member, ...] | None) -> tuple[Member, ...] | None:
    if members is None:
        return None
    return tuple(sorted(members, key=lambda m: (m.client_id, m.instance_id or "", m.member_id)))


def _partition(
    tp: TopicPartition,
    commit: Commit | KgroupError | None,
    log: LogRange | KgroupError | None,
    owner: Member | None,
) -> Partition:
    # The usual case first: this runs a hundred thousand times when all groups of a cluster are described.
    if type(commit) is Commit and type(log) is LogRange:
        return Partition(tp, commit, log, owner, None)
    failed = commit if isinstance(commit, KgroupError) else log if isinstance(log, KgroupError) else None
    return Partition(
        tp,
        None if isinstance(commit, KgroupError) else commit,
        None if isinstance(log, KgroupError) else log,
        owner,
        failed.code if failed else None,
    )


def _counted(
    tp: TopicPartition, parts: GroupParts, log: LogRange | KgroupError | None, counted: BrokerLag
) -> Partition:
    """A partition of a share group: without an owner, and with an error if no start offset was read.

    One that has never had a record stays without a start offset: nothing of it can be unread.
    """
    partition = _partition(tp, parts.commits.get(tp), log, None)
    if counted.lag is None and partition.commit is None and isinstance(log, LogRange) and log.start == log.end:
        counted = _NONE_LEFT
    unread = parts.committed.code if isinstance(parts.committed, KgroupError) else None
    return replace(partition, counted=counted, error=partition.error or unread)


def failures(
    group: Group, parts: GroupParts, layouts: Layouts, ranges: Mapping[TopicPartition, LogRange | KgroupError]
) -> Iterator[RowError]:
    if isinstance(parts.committed, KgroupError):
        yield RowError.of(parts.committed, group=parts.name)
    topics = {*parts.topics, *(parts.streams.changelog_topics if parts.streams else ())}
    broken = {topic: layout for topic in topics if isinstance(layout := layouts.get(topic), KgroupError)}
    rows = {partition.topic for partition in group.partitions if partition.error} if broken else set()
    for topic, error in sorted(broken.items()):
        # A topic that is subscribed to but does not exist yet is no read error.
        if topic in rows or not isinstance(error, NotFound):
            yield RowError.of(error, group=parts.name, topic=topic)
    for partition in group.partitions:
        if partition.error:
            tp = partition.tp
            commit, log = parts.commits.get(tp), ranges.get(tp)
            failed = commit if isinstance(commit, KgroupError) else log
            if isinstance(failed, KgroupError) and (failed is commit or partition.topic not in broken):
                yield RowError.of(failed, group=parts.name, topic=partition.topic, partition=partition.partition)
