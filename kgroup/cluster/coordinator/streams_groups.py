"""Describes streams groups (KIP-1071): their topology, and the tasks of their members. They commit as consumers do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.api_message import ApiMessage

from kgroup.cluster.broker_errors import TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
from kgroup.cluster.coordinator import schemas
from kgroup.cluster.coordinator.described_kind import describe_kind
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.model.groups import Member
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.streams_group import (
    STREAMS,
    STREAMS_OFF,
    StreamsGroup,
    StreamsMember,
    StreamsTask,
    Subtopology,
    TaskRole,
)
from kgroup.support.errors import KgroupError, NotAuthorized, Refused

_STREAMS_GROUP_DESCRIBE = 89
_UNKNOWN = (1 << 63) - 1
"""The offset or end that a client reports as long as it does not know it (4.4.0, seen)."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 89 (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 89; with the assignor since version 1 (KIP-1357, Kafka 4.4)."""


async def describe_streams(
    coordinators: GroupCoordinators, groups: Sequence[str], *, up_to_date: bool = True
) -> dict[str, GroupDescription | KgroupError]:
    """StreamsGroupDescribe (API 89). NotFound: the group has another type or does not exist.

    Refused [streams-groups-off]: the brokers do not say whether it exists. ``up_to_date``: see ``send_until_answered``.
    The members' partitions are those of their active tasks, of topics that may have fewer: see ``streams_group_parts``.
    """
    return await describe_kind(
        coordinators,
        groups,
        _STREAMS_GROUP_DESCRIBE,
        lambda ids: StreamsGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        _description,
        {UNSUPPORTED_VERSION: _switched_off, TOPIC_AUTHORIZATION_FAILED: _hidden},
        up_to_date=up_to_date,
    )


def _description(row: Any) -> GroupDescription:
    streams = _streams(row)
    return GroupDescription(
        type=STREAMS,
        state=row.group_state,
        protocol_type=STREAMS,
        assignor=getattr(row, "assignor_name", None) or None,
        group_epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
        members=tuple(_member(each, streams) for each in row.members),
        streams=streams,
    )


def _streams(row: Any) -> StreamsGroup:
    shown = None if row.topology is None else row.topology.subtopologies
    return StreamsGroup(
        topology_epoch=None if row.topology is None else row.topology.epoch,
        subtopologies=None if shown is None else tuple(map(_subtopology, shown)),
        members={each.member_id: streams_member(each) for each in row.members},
    )


def _subtopology(row: Any) -> Subtopology:
    return Subtopology(
        row.subtopology_id,
        tuple(sorted(row.source_topics)),
        tuple(sorted(each.name for each in row.repartition_source_topics)),
        tuple(sorted(each.name for each in row.state_changelog_topics)),
    )


def streams_member(row: Any) -> StreamsMember:
    """A member of API 89, with the lags of the copies that it reported and knows."""
    offsets, ends = _offsets(row.task_offsets), _offsets(row.task_end_offsets)
    return StreamsMember(
        process_id=row.process_id,
        topology_epoch=row.topology_epoch,
        tasks=_by_role(row.assignment),
        target=_by_role(row.target_assignment),
        # An offset may be one more than its end (4.4.0, seen).
        lags={task: max(0, ends[task] - offset) for task, offset in offsets.items() if task in ends},
    )


def _offsets(rows: Iterable[Any]) -> dict[StreamsTask, int]:
    return {StreamsTask(row.subtopology_id, row.partition): row.offset for row in rows if row.offset < _UNKNOWN}


def _by_role(given: Any) -> Mapping[TaskRole, tuple[StreamsTask, ...]]:
    of_roles = (given.active_tasks, given.standby_tasks, given.warmup_tasks)
    return {
        role: tuple(sorted(StreamsTask(each.subtopology_id, number) for each in rows for number in each.partitions))
        for role, rows in zip(TaskRole, of_roles, strict=True)
    }


def _member(row: Any, streams: StreamsGroup) -> Member:
    return Member(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        host=row.client_host.removeprefix("/"),
        rack=row.rack_id or None,
        epoch=row.member_epoch,
        protocol="classic" if row.is_classic else STREAMS,
        subscription=tuple(sorted(streams.topics)),
        subscription_regex=None,
        assignment=(),
        target_assignment=None,
    )


def _switched_off() -> Refused:
    return Refused(
        "streams groups are switched off in this cluster (streams.version=0)",
        code=STREAMS_OFF,
        hint="kafka-features.sh --bootstrap-server BROKER upgrade --feature streams.version=1",
    )


def _hidden() -> NotAuthorized:
    return NotAuthorized(
        "no DESCRIBE on a topic of this group, internal ones included, so the broker shows neither its members nor its "
        "topology (KIP-1071)",
        hint=acl_hint("Describe", "topic", "..."),
    )
