"""What this user may do to groups and topics, as the brokers compute it (KIP-430). Nothing is tried out.

DescribeGroups up to version 5 returns the rights for any group id, including other group types and groups that do not
exist; for those it reports state "Dead" (seen on 4.3). A broker without an authorizer reports all operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from kafka.protocol.admin.groups import DescribeGroupsRequest

from kgroup.cluster.broker_errors import NONE, TOPIC_AUTHORIZATION_FAILED
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.topics import metadata_request
from kgroup.support.errors import KgroupError, NotAuthorized

Operations = frozenset[str]
"""READ, DELETE, ALTER_CONFIGS, ..., including operations that others imply."""

_LAST_VERSION_FOR_ANY_GROUP = 5
_NAMES = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
}
"""org.apache.kafka.common.acl.AclOperation"""


class Rights(msgspec.Struct, frozen=True):
    """The operations allowed to this user, by group and by topic. None is unknown; ``reason`` says why.

    A topic that does not exist is left out.
    """

    groups: Mapping[str, Operations | None] = msgspec.field(default_factory=dict)
    topics: Mapping[str, Operations | None] = msgspec.field(default_factory=dict)
    reason: str | None = None


async def rights(
    client: CoordinatorClient, coordinators: GroupCoordinators, groups: list[str], topics: Collection[str]
) -> Rights:
    """Read the rights in parallel: one request to each coordinator, and one for the topics."""
    answers = await client.gather([_of_groups(coordinators, groups), _of_topics(client, topics)])
    (of_groups, group_error), (of_topics, topic_error) = answers
    error = group_error or topic_error
    return Rights(of_groups, of_topics, error.message if error else None)


async def _of_groups(
    coordinators: GroupCoordinators, groups: list[str]
) -> tuple[dict[str, Operations | None], KgroupError | None]:
    def read(answer: Any) -> Iterator[tuple[str, int, tuple[Operations | None]]]:
        for row in answer.groups:
            yield row.group_id, row.error_code, (_names_of(row.authorized_operations),)

    def request(ids: list[str]) -> Any:
        return DescribeGroupsRequest(
            groups=ids, include_authorized_operations=True, max_version=_LAST_VERSION_FOR_ANY_GROUP
        )

    try:
        answers = await coordinators.send_until_answered(groups, request, read)
    except KgroupError as error:
        return dict.fromkeys(groups), error
    operations: dict[str, Operations | None] = {}
    failure: KgroupError | None = None
    for group, answer in answers.items():
        if isinstance(answer, NotAuthorized):
            operations[group] = frozenset()
        elif isinstance(answer, KgroupError):
            operations[group], failure = None, answer
        else:
            (operations[group],) = answer
    return operations, failure


async def _of_topics(
    client: CoordinatorClient, topics: Collection[str]
) -> tuple[dict[str, Operations | None], KgroupError | None]:
    if not topics:
        return {}, None
    request = metadata_request(sorted(topics), operations=True)
    try:
        answer = await client.send_any(request)
    except KgroupError as error:
        return dict.fromkeys(topics), error
    return {
        row.name: _names_of(row.authorized_operations) if row.error_code == NONE else frozenset()
        for row in answer.topics
        if row.error_code in (NONE, TOPIC_AUTHORIZATION_FAILED)
    }, None


def _names_of(operations: Iterable[int] | None) -> Operations | None:
    return None if operations is None else frozenset(_NAMES[code] for code in operations if code in _NAMES)
