"""Describes share groups (KIP-932), and reads their start offsets and the lag that the brokers count.

A group of another type, or none, has no start offsets without an error: ``describe_share`` shows which there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.protocol.api_message import ApiMessage

from kgroup.cluster.broker_errors import (
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    UNSUPPORTED_VERSION,
    group_error,
    topic_error,
)
from kgroup.cluster.coordinator import schemas
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S
from kgroup.cluster.coordinator.described_kind import describe_kind
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.model.commit import Commit
from kgroup.model.groups import Member, TopicPartitions, sorted_assignment
from kgroup.model.share_group import SHARE, SWITCHED_OFF, BrokerLag
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused, Unreachable

_SHARE_GROUP_DESCRIBE = 77
_DESCRIBE_SHARE_GROUP_OFFSETS, _WITH_LAG = 90, 1
_OFFSETS_WITHIN_S, _CLOSING_S = 4.0, 0.2
"""How long start offsets are waited for, and how much longer until kafka-python gives up the connection."""
_LEAST_S = 2.0
"""With less time than this left, they are not asked for again."""


class ShareGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 77 (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 77."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 90 (KIP-932); with the lag since version 1 (KIP-1226, Kafka 4.2)."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 90."""


ShareOffsets = tuple[CommittedOffsets, Mapping[TopicPartition, BrokerLag]]
"""Start offsets as commits, and lags of the same partitions and of those without a start offset yet."""


async def describe_share(
    coordinators: GroupCoordinators, groups: Sequence[str], *, up_to_date: bool = True
) -> dict[str, GroupDescription | KgroupError]:
    """ShareGroupDescribe (API 77). NotFound: the group has another type or does not exist.

    Refused [share-groups-off]: the brokers do not say whether it exists. ``up_to_date``: see ``send_until_answered``.
    """
    return await describe_kind(
        coordinators,
        groups,
        _SHARE_GROUP_DESCRIBE,
        lambda ids: ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        _description,
        {UNSUPPORTED_VERSION: _switched_off},
        up_to_date=up_to_date,
    )


async def share_offsets(
    coordinators: GroupCoordinators, groups: Sequence[str]
) -> dict[str, ShareOffsets | KgroupError]:
    """The start offsets and lags of described share groups (API 90), for all partitions that they have a state of.

    A broker that is asked for a partition which a topic lacks never answers (4.3.1 and 4.4.0, seen): none is named.
    It answers in order, so what comes after a late answer on the same connection waits too: the connection is closed.
    """
    part = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    by_node: dict[int, list[str]] = {}
    offsets: dict[str, ShareOffsets | KgroupError] = {}
    for group in groups:
        node = coordinators.node(group)
        if isinstance(node, int):
            by_node.setdefault(node, []).append(group)
        else:
            offsets[group] = node or group_error(COORDINATOR_NOT_AVAILABLE, group)
    left_s = coordinators.client.deadline.left_s
    within_s = min(_OFFSETS_WITHIN_S, left_s / 2)
    client = coordinators.client.within(Deadline.after(within_s + _CLOSING_S))
    requests = [
        (node, DescribeShareGroupOffsetsRequest(groups=[part(group_id=each, topics=None) for each in ids]))
        for node, ids in by_node.items()
    ]
    answers = await client.send_all(requests, round(within_s * 1000))
    if any(isinstance(answer, KafkaTimeoutError) for answer in answers):
        await coordinators.client.sleep(2 * _CLOSING_S)
    for (node, ids), answer in zip(by_node.items(), answers, strict=True):
        if isinstance(answer, KafkaTimeoutError):
            offsets |= {group: _late(within_s) for group in ids}
        elif isinstance(answer, BaseException):
            offsets |= dict.fromkeys(ids, client.failure(answer, node))
        else:
            offsets |= {
                row.group_id: _offsets(row) if row.error_code == NONE else group_error(row.error_code, row.group_id)
                for row in answer.groups
            }
    return offsets


async def settled_starts(
    coordinators: GroupCoordinators, groups: Sequence[str]
) -> dict[str, CommittedOffsets | KgroupError]:
    """The start offsets alone, asked for until each coordinator has answered, or until the deadline.

    A group that does not exist, or is of another type, has none.
    """

    async def read() -> dict[str, CommittedOffsets | KgroupError]:
        while True:
            await coordinators.locate(groups)
            answers = await share_offsets(coordinators, groups)
            failed = [group for group, answer in answers.items() if isinstance(answer, Unreachable)]
            if not failed or coordinators.client.deadline.left_s < _LEAST_S:
                return {
                    group: answer if isinstance(answer, KgroupError) else answer[0] for group, answer in answers.items()
                }
            for group in failed:
                coordinators.invalidate(group)
            await coordinators.client.sleep(RETRY_PAUSE_S)
            await coordinators.client.refresh_brokers()

    return await coordinators.read_settled(read)


def supports_changes(coordinators: GroupCoordinators) -> bool:
    """Whether start offsets can be changed: in Kafka 4.1 the broker answers success and does nothing (seen).

    The lag in API 90 and a request that changes a group without members both came with Kafka 4.2.
    """
    return coordinators.client.supports(_DESCRIBE_SHARE_GROUP_OFFSETS, _WITH_LAG)


def _description(row: Any) -> GroupDescription:
    return GroupDescription(
        type=SHARE,
        state=row.group_state,
        protocol_type=SHARE,
        assignor=row.assignor_name or None,
        group_epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
        members=tuple(map(_member, row.members)),
    )


def _member(row: Any) -> Member:
    given = (TopicPartitions(each.topic_name, tuple(each.partitions)) for each in row.assignment.topic_partitions)
    return Member(
        member_id=row.member_id,
        instance_id=None,
        client_id=row.client_id,
        host=row.client_host.removeprefix("/"),
        rack=row.rack_id or None,
        epoch=row.member_epoch,
        protocol=SHARE,
        subscription=tuple(sorted(row.subscribed_topic_names)),
        subscription_regex=None,
        assignment=sorted_assignment(given),
        target_assignment=None,
    )


def _offsets(row: Any) -> ShareOffsets:
    starts: dict[TopicPartition, Commit | KgroupError] = {}
    lags: dict[TopicPartition, BrokerLag] = {}
    for topic in row.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.topic_name, each.partition_index)
            lag = getattr(each, "lag", None)
            lags[tp] = BrokerLag(None if lag is None or lag < 0 else lag)
            if each.error_code != NONE:
                starts[tp] = topic_error(each.error_code, tp.topic)
            elif each.start_offset >= 0:
                starts[tp] = Commit(each.start_offset, None, "")
    return starts, lags


def _switched_off() -> Refused:
    return Refused(
        "share groups are switched off in this cluster (share.version=0)",
        code=SWITCHED_OFF,
        hint="kafka-features.sh --bootstrap-server BROKER upgrade --feature share.version=1",
    )


def _late(within_s: float) -> Unreachable:
    return Unreachable(
        f"its start offsets did not come within {within_s:.0f}s: its coordinator asks the leaders of its partitions",
        code="timed-out",
        hint="try again; kafka-share-groups.sh --describe waits for longer",
    )
