"""What a classic Streams application writes into the group protocol: its processes, and the tasks of its threads.

Source: SubscriptionInfo and AssignmentInfo of Kafka Streams, versions 7 to 11 (Kafka 2.6 to 4.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec
from kafka.protocol.admin.groups import DescribeGroupsRequest

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord
from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.model.streams_group import StreamsTask
from kgroup.support.errors import KgroupError

_VERSIONS = range(7, 12)
_NAMED_TOPOLOGIES = 10


class StreamsThread(msgspec.Struct, frozen=True):
    """A member of a classic Streams application.

    ``with_state`` are the tasks whose state its process had when it joined; an empty tuple says nothing, as of one that
    has never had tasks. ``tagged`` is whether it has client tags, which decide where standbys go.
    """

    member_id: str
    client_id: str
    process_id: str
    with_state: tuple[StreamsTask, ...]
    tagged: bool
    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]


async def read_streams_threads(
    coordinators: GroupCoordinators, groups: Sequence[str]
) -> dict[str, tuple[StreamsThread, ...] | KgroupError]:
    """The members of classic Streams applications, by group. MalformedRecord: they have another format."""

    def read(answer: Any) -> Iterator[tuple[str, int, Any]]:
        yield from ((row.group_id, row.error_code, row.members) for row in answer.groups)

    answers = await coordinators.send_until_answered(groups, lambda ids: DescribeGroupsRequest(groups=ids), read)
    return {group: rows if isinstance(rows, KgroupError) else _threads(rows) for group, rows in answers.items()}


def _threads(rows: Sequence[Any]) -> tuple[StreamsThread, ...] | MalformedRecord:
    try:
        return tuple(map(streams_thread, rows))
    except MalformedRecord as error:
        return error


def streams_thread(row: Any) -> StreamsThread:
    """A member of DescribeGroups. Raises MalformedRecord."""
    subscription, assignment = decode_subscription(row.member_metadata), decode_assignment(row.member_assignment)
    if not (subscription and subscription.user_data and assignment and assignment.user_data):
        raise MalformedRecord(f"the member {row.member_id} has no tasks")
    try:
        process_id, with_state, tagged = _subscribed(ByteReader(subscription.user_data))
        active, standby = _assigned(ByteReader(assignment.user_data))
    except FAULTS as fault:
        raise MalformedRecord(f"the tasks of the member {row.member_id} cannot be read") from fault
    return StreamsThread(row.member_id, row.client_id, process_id, with_state, tagged, active, standby)


def _version(reader: ByteReader) -> int:
    version = reader.i32()
    if version not in _VERSIONS:
        raise MalformedRecord(f"the user data of Streams has the version {version}, kgroup knows 7 to 11")
    reader.i32()  # the newest version that it knows
    return version


def _subscribed(reader: ByteReader) -> tuple[str, tuple[StreamsTask, ...], bool]:
    """The process id, the tasks whose state it has, and whether it has client tags."""
    version = _version(reader)
    process_id = str(UUID(bytes=reader.take(16)))
    reader.bytes_()  # the host and port for queries of its state

    def of_subtopology() -> tuple[StreamsTask, ...]:
        subtopology = str(reader.i32())
        if version < _NAMED_TOPOLOGIES:
            return reader.array(lambda: (StreamsTask(subtopology, reader.i32()), reader.i64())[0])
        task = StreamsTask(subtopology, reader.i32())
        reader.i64()
        reader.nullable_string()
        return (task,)

    with_state = tuple(task for tasks in reader.array(of_subtopology) for task in tasks)
    reader.i8() if version >= 8 else None
    reader.i32() if version >= 9 else None
    return process_id, with_state, version >= 11 and reader.i32() > 0


def _assigned(reader: ByteReader) -> tuple[tuple[StreamsTask, ...], tuple[StreamsTask, ...]]:
    """The active tasks, once each, and the standby tasks."""
    version = _version(reader)

    def task() -> StreamsTask:
        task = StreamsTask(str(reader.i32()), reader.i32())
        if version >= _NAMED_TOPOLOGIES:
            reader.take(2 * reader.i32())
        return task

    def standby() -> StreamsTask:
        which = task()
        reader.array(lambda: (reader.string(), reader.i32()))
        return which

    return tuple(dict.fromkeys(reader.array(task))), reader.array(standby)
