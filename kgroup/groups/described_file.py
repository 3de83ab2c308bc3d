"""Reads groups from the JSON of ``kgroup describe -o json``; errors name the field. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kgroup.model.groups import Group, Member, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

T = TypeVar("T")

_KIND = "kgroup.describe/v1"
_MOST_PARTITIONS = 1_000_000
_HINT = "kgroup describe GROUP -o json > FILE writes such a file"


def parse_described(text: str, source: str) -> tuple[Group, ...]:
    """The groups, without commits and log ranges, of a document or of a single item of its ``data``.

    Raises UsageError, with the file name ``source`` and the path of the field, if the text is not such a document.
    """
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise UsageError(f"{source}: nested too deeply to be what kgroup wrote", hint=_HINT) from error
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}", hint=_HINT) from error
    subjects = [("", document)]
    if isinstance(document, dict) and "kind" in document:
        if document["kind"] != _KIND:
            raise UsageError(f"{source} is of kind {document['kind']}, not {_KIND}", hint=_HINT)
        listed = document.get("data")
        if not isinstance(listed, list):
            raise UsageError(f"{source}: data is not a list", hint=_HINT)
        subjects = [(f"data[{number}]", subject) for number, subject in enumerate(listed)]
    groups = tuple(_group(_Fields(source, place, subject)) for place, subject in subjects)
    if not groups:
        raise UsageError(f"{source}: the file has no groups", hint=_HINT)
    names: set[str] = set()
    for group in groups:
        if group.name in names:
            raise UsageError(f"{source}: the group {group.name} is in the file twice", hint=_HINT)
        names.add(group.name)
    return groups


class _Fields:
    """An object of the document. A missing field, or one of another type, raises UsageError with the field's path."""

    def __init__(self, source: str, place: str, value: object) -> None:
        self._source, self._place = source, place
        if not isinstance(value, dict):
            raise self.wrong("is not an object")
        self._value: dict[str, Any] = value

    def wrong(self, what: str, field: str = "") -> UsageError:
        at = ".".join(part for part in (self._place, field) if part)
        return UsageError(f"{self._source}: {at or 'the document'} {what}", hint=_HINT)

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if not isinstance(value, str):
            raise self.wrong("is not a text", name)
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._value.get(name) is None else self.text(name)

    def number_or_none(self, name: str) -> int | None:
        return None if self._value.get(name) is None else self._number(self._value[name], name)

    def number(self, name: str) -> int:
        return self._number(self._value.get(name), name)

    def _number(self, value: object, name: str) -> int:
        if type(value) is not int:
            raise self.wrong("is not a whole number", name)
        return value

    def partition(self, value: object, name: str) -> int:
        number = self._number(value, name)
        if not 0 <= number < _MOST_PARTITIONS:
            raise self.wrong(f"is {number}, which is not a partition number", name)
        return number

    def list_or_none(self, name: str) -> Sequence[object] | None:
        value = self._value.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong("is not a list", name)
        return value

    def inner(self, name: str, read: Callable[[_Fields], T]) -> tuple[T, ...] | None:
        listed = self.list_or_none(name)
        if listed is None:
            return None
        at = f"{self._place}.{name}" if self._place else name
        return tuple(read(_Fields(self._source, f"{at}[{number}]", item)) for number, item in enumerate(listed))


def _group(fields: _Fields) -> Group:
    kind = fields.text("type")
    if kind not in ("classic", "consumer"):
        raise fields.wrong(f"is {kind}; only classic and consumer groups are described", "type")
    members = fields.inner("members", _member)
    owners = {
        (item.topic, number): member
        for member in members or ()
        for item in member.assignment or ()
        for number in item.partitions
    }
    places = fields.inner("partitions", lambda row: (row.text("topic"), row.partition(row.number("partition"), "")))
    return Group(
        name=fields.text("group"),
        type=kind,
        state=fields.text("state"),
        protocol_type=fields.text_or_none("protocol_type"),
        assignor=fields.text_or_none("assignor"),
        coordinator=None,
        generation=fields.number_or_none("generation"),
        leader=fields.text_or_none("leader_member_id"),
        group_epoch=fields.number_or_none("group_epoch"),
        assignment_epoch=fields.number_or_none("assignment_epoch"),
        members=_distinct(fields, members),
        partitions=tuple(
            Partition(TopicPartition(*place), None, None, owners.get(place), None) for place in places or ()
        ),
    )


def _distinct(fields: _Fields, members: tuple[Member, ...] | None) -> tuple[Member, ...] | None:
    ids = [member.member_id for member in members or ()]
    if len(set(ids)) < len(ids):
        raise fields.wrong("has a member id twice", "members")
    return members


def _member(fields: _Fields) -> Member:
    subscription = fields.list_or_none("subscription")
    if subscription is not None and not all(isinstance(topic, str) for topic in subscription):
        raise fields.wrong("is not a list of topics", "subscription")
    return Member(
        member_id=fields.text("member_id"),
        instance_id=fields.text_or_none("instance_id"),
        client_id=fields.text("client_id"),
        host=fields.text("host"),
        rack=fields.text_or_none("rack"),
        epoch=fields.number_or_none("member_epoch"),
        protocol=fields.text_or_none("protocol"),
        subscription=None if subscription is None else tuple(str(topic) for topic in subscription),
        subscription_regex=fields.text_or_none("subscription_regex"),
        assignment=fields.inner("assignment", _topic_partitions),
        target_assignment=fields.inner("target_assignment", _topic_partitions),
    )


def _topic_partitions(fields: _Fields) -> TopicPartitions:
    numbers = fields.list_or_none("partitions") or ()
    return TopicPartitions(fields.text("topic"), tuple(fields.partition(number, "partitions") for number in numbers))
