"""Reads groups from the JSON of ``kgroup describe -o json``; errors name the field. Pure."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from kgroup.model.groups import DESCRIBED_TYPES, Group, Member, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError
from kgroup.support.typed_document import mismatch

_KIND = "kgroup.describe/v1"
_HINT = "kgroup describe GROUP -o json > FILE writes such a file"
_Number = Annotated[int, Meta(ge=0, lt=1_000_000)]


class _TopicPartitions(TopicPartitions, frozen=True):
    partitions: tuple[_Number, ...] = ()


class _Member(Member, frozen=True, kw_only=True, rename={"epoch": "member_epoch"}):
    """A member of the file; what is missing is None."""

    instance_id: str | None = None
    rack: str | None = None
    epoch: int | None = None
    protocol: str | None = None
    subscription: tuple[str, ...] | None = None
    subscription_regex: str | None = None
    assignment: tuple[_TopicPartitions, ...] | None = None
    target_assignment: tuple[_TopicPartitions, ...] | None = None


class _Partition(msgspec.Struct, frozen=True):
    topic: str
    partition: _Number


class _Group(msgspec.Struct, frozen=True, rename={"name": "group", "leader": "leader_member_id"}):
    """A group of the file, with the fields of ``Group`` that are read from it."""

    name: str
    type: str
    state: str
    protocol_type: str | None = None
    assignor: str | None = None
    generation: int | None = None
    leader: str | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[_Member, ...] | None = None
    partitions: tuple[_Partition, ...] | None = None

    def __post_init__(self) -> None:
        if self.type not in DESCRIBED_TYPES:
            raise ValueError(f"the type is {self.type}; only classic and consumer groups are described")
        ids = [member.member_id for member in self.members or ()]
        if len(set(ids)) < len(ids):
            raise ValueError("members has a member id twice")

    def group(self) -> Group:
        """Without commits and log ranges."""
        owners = {
            (item.topic, number): member
            for member in self.members or ()
            for item in member.assignment or ()
            for number in item.partitions
        }
        places = (TopicPartition(row.topic, row.partition) for row in self.partitions or ())
        partitions = tuple(Partition(place, None, None, owners.get(place), None) for place in places)
        return Group(**asdict(self) | {"coordinator": None, "partitions": partitions})


class _Document(msgspec.Struct, frozen=True):
    data: tuple[_Group, ...]


def parse_described(text: str, source: str) -> tuple[Group, ...]:
    """The groups, without commits and log ranges, of a document or of a single item of its ``data``.

    Raises UsageError, with the file name ``source`` and the path of the field, if the text is not such a document.
    """
    try:
        document = json.loads(text)
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind not in (None, _KIND):
            raise UsageError(f"{source} is of kind {kind}, not {_KIND}", hint=_HINT)
        groups = msgspec.convert(document, _Document).data if kind else (msgspec.convert(document, _Group),)
    except RecursionError as error:
        raise UsageError(f"{source}: nested too deeply to be what kgroup wrote", hint=_HINT) from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {mismatch(error)}", hint=_HINT) from error
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}", hint=_HINT) from error
    if not groups:
        raise UsageError(f"{source}: the file has no groups", hint=_HINT)
    names: set[str] = set()
    for group in groups:
        if group.name in names:
            raise UsageError(f"{source}: the group {group.name} is in the file twice", hint=_HINT)
        names.add(group.name)
    return tuple(group.group() for group in groups)
