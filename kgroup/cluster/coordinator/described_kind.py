"""Describes groups of a kind that a cluster may have switched off: share groups and streams groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kgroup.cluster.broker_errors import GROUP_ID_NOT_FOUND, NONE, group_error
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.support.errors import KgroupError


async def describe_kind(
    coordinators: GroupCoordinators,
    groups: Sequence[str],
    api: int,
    make_request: Callable[[list[str]], Any],
    description: Callable[[Any], GroupDescription],
    explained: Mapping[int, Callable[[], KgroupError]],
    *,
    up_to_date: bool,
) -> dict[str, GroupDescription | KgroupError]:
    """By the describing request of the kind. NotFound: the group has another type or does not exist.

    ``explained`` are the errors of the kind by error code; the others are those of every group. ``up_to_date``: see
    ``send_until_answered``.
    """
    if not groups or not coordinators.client.supports(api):
        return {group: group_error(GROUP_ID_NOT_FOUND, group) for group in groups}

    own = {}

    def read(answer: Any) -> Iterator[tuple[str, int, GroupDescription | None]]:
        for row in answer.groups:
            if row.error_code in explained:
                own[row.group_id] = explained[row.error_code]()
            yield row.group_id, row.error_code, description(row) if row.error_code == NONE else None

    described = await coordinators.send_until_answered(groups, make_request, read, up_to_date=up_to_date)
    return described | own
