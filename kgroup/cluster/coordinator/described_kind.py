"""Describes groups of a kind that a cluster may have switched off: share groups and streams groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgroup.cluster.broker_errors import GROUP_ID_NOT_FOUND, NONE, UNSUPPORTED_VERSION, group_error
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.support.errors import KgroupError, Refused


async def describe_kind(
    coordinators: GroupCoordinators,
    groups: Sequence[str],
    api: int,
    make_request: Callable[[list[str]], Any],
    description: Callable[[Any], GroupDescription],
    switched_off: Callable[[], Refused],
    *,
    up_to_date: bool,
) -> dict[str, GroupDescription | KgroupError]:
    """By the describing request of the kind. NotFound: the group has another type or does not exist.

    ``switched_off`` is the error where the brokers do not say whether it exists. ``up_to_date``: see
    ``send_until_answered``.
    """
    if not groups or not coordinators.client.supports(api):
        return {group: group_error(GROUP_ID_NOT_FOUND, group) for group in groups}

    off = set()

    def read(answer: Any) -> Iterator[tuple[str, int, GroupDescription | None]]:
        for row in answer.groups:
            if row.error_code == UNSUPPORTED_VERSION:
                off.add(row.group_id)
            yield row.group_id, row.error_code, description(row) if row.error_code == NONE else None

    described = await coordinators.send_until_answered(groups, make_request, read, up_to_date=up_to_date)
    return described | {group: switched_off() for group in off}
