"""Groups as flat tables for CSV: partitions, members or states, selected by ``DescribePart``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from kgroup.model.blocks import Records
from kgroup.model.groups import Assignment, Coordinator, Group, Member
from kgroup.output.pages.describe_document import DescribedPartition


class DescribePart(StrEnum):
    """Which part of a group is shown."""

    PAGE = "page"
    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"


_PARTITION_HEADER = (
    "group",
    "topic",
    "partition",
    "committed",
    "leader_epoch",
    "metadata",
    "log_start",
    "log_end",
    "lag",
    "range_status",
    "member_id",
    "client_id",
    "host",
    "error_code",
)
_MEMBER_HEADER = (
    "group",
    "member_id",
    "instance_id",
    "client_id",
    "host",
    "rack",
    "protocol",
    "member_epoch",
    "left_temporarily",
    "partition_count",
    "assignment",
    "target_assignment",
)
_STATE_HEADER = (
    "group",
    "type",
    "state",
    "protocol_type",
    "generation",
    "leader_member_id",
    "group_epoch",
    "assignment_epoch",
    "assignor",
    "coordinator",
    "member_count",
)


def records(part: DescribePart, groups: Sequence[Group]) -> Records:
    """The groups as a flat table."""
    match part:
        case DescribePart.STATE:
            return Records(_STATE_HEADER, (_state_record(group) for group in groups))
        case DescribePart.MEMBERS:
            return Records(_MEMBER_HEADER, (_member_record(g.name, m) for g in groups for m in g.members or ()))
        case _:
            rows = ((g.name, DescribedPartition.of(p, g)) for g in groups for p in g.partitions)
            fields = _PARTITION_HEADER[1:]
            return Records(
                _PARTITION_HEADER, ((name, *(getattr(row, field) for field in fields)) for name, row in rows)
            )


def assignment_text(assignment: Assignment | None) -> str | None:
    """``orders:0,1;clicks:3``, the form of kafka-consumer-groups.sh; None if unknown."""
    if assignment is None:
        return None
    return ";".join(f"{item.topic}:{','.join(map(str, item.partitions))}" for item in assignment)


def coordinator_text(coordinator: Coordinator | None) -> str | None:
    """``2 (b2:9092)``; None if unknown."""
    return f"{coordinator.id} ({coordinator.host}:{coordinator.port})" if coordinator else None


def _state_record(group: Group) -> tuple[str | int | None, ...]:
    return (
        group.name,
        group.type,
        group.state,
        group.protocol_type,
        group.generation,
        group.leader,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor,
        coordinator_text(group.coordinator),
        group.totals.member_count,
    )


def _member_record(group: str, member: Member) -> tuple[str | int | None, ...]:
    return (
        group,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.host,
        member.rack,
        member.protocol,
        member.epoch,
        "true" if member.left_temporarily else "false",
        None if member.assignment is None else member.partition_count,
        assignment_text(member.assignment),
        assignment_text(member.target),
    )
