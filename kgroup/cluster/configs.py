"""Read and set the dynamic configs of groups (KIP-848: resource type GROUP).

They remain when the group's members leave, and can be set before the group exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from kgroup.cluster.broker_errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_CONFIG,
    INVALID_REQUEST,
    NONE,
    UNSUPPORTED_VERSION,
    group_error,
)
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.model.acl_hint import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, Refused

_GROUP = 32
"""org.apache.kafka.common.config.ConfigResource.Type.GROUP"""
_DYNAMIC_GROUP_CONFIG = 8
"""DescribeConfigsResponse.ConfigSource.GROUP_CONFIG"""
_SET, _DELETE = 0, 1
"""AlterConfigOp.OpType"""
_UNKNOWN_TYPE = frozenset({INVALID_REQUEST, UNSUPPORTED_VERSION})
"""Error codes of brokers before 3.8, which have no group configs."""
_GROUPS_PER_REQUEST = 1000
_APPLIED_S, _LOOK_AGAIN_S = 2.0, 0.02
"""How long to wait until a broker shows what the controller wrote (usually milliseconds), and how often to ask."""


async def group_configs(client: CoordinatorClient, groups: Iterable[str]) -> dict[str, Mapping[str, str] | KgroupError]:
    """The configs set for each group itself, not the brokers' defaults. Raises KgroupError if no broker answers."""

    def own(row: Any) -> Mapping[str, str]:
        return {
            item.name: item.value
            for item in row.configs
            if item.config_source == _DYNAMIC_GROUP_CONFIG and item.value is not None
        }

    return {name: row if isinstance(row, KgroupError) else own(row) async for name, row in _rows(client, groups, None)}


async def setting_in_force(client: CoordinatorClient, groups: Iterable[str], name: str) -> dict[str, str | KgroupError]:
    """One config's effective value for each group: its own or the broker's. Groups without a value are left out."""
    found: dict[str, str | KgroupError] = {}
    async for group, row in _rows(client, groups, [name]):
        value = row if isinstance(row, KgroupError) else next((i.value for i in row.configs if i.name == name), None)
        if value is not None:
            found[group] = value
    return found


async def set_configs(
    client: CoordinatorClient, wanted: Mapping[str, Mapping[str, str | None]]
) -> dict[str, KgroupError | None]:
    """Set configs of groups, and delete those whose value is None (IncrementalAlterConfigs). Result None: done.

    If the broker rejects a value, the result is Refused [invalid-config] with the broker's message. Raises KgroupError
    if no broker answers. Setting the same value again changes nothing.
    """
    results: dict[str, KgroupError | None] = {group: None for group, configs in wanted.items() if not configs}
    for groups in _chunks([group for group, configs in wanted.items() if configs]):
        request = IncrementalAlterConfigsRequest(
            resources=[_resource(group, wanted[group]) for group in groups], validate_only=False
        )
        answer = await client.send_any(request)
        results |= {row.resource_name: _refusal(row) for row in answer.responses}
    await _applied(client, {group: configs for group, configs in wanted.items() if configs and not results.get(group)})
    return {group: results.get(group) for group in wanted}


async def _applied(client: CoordinatorClient, wanted: Mapping[str, Mapping[str, str | None]]) -> None:
    """Wait up to 2 s until the broker shows the new values, so that a later read, as in undo, does not see old ones.

    The configs are set whether or not this wait succeeds.
    """
    until = Deadline.after(_APPLIED_S)
    while True:
        try:
            found = await group_configs(client, wanted)
        except KgroupError:
            return
        wanted = {group: configs for group, configs in wanted.items() if _differs(found.get(group), configs)}
        if not wanted or until.passed or client.deadline.passed:
            return
        await client.sleep(_LOOK_AGAIN_S)


def _differs(found: Mapping[str, str] | KgroupError | None, wanted: Mapping[str, str | None]) -> bool:
    return isinstance(found, Mapping) and any(found.get(name) != value for name, value in wanted.items())


async def _rows(
    client: CoordinatorClient, groups: Iterable[str], keys: Sequence[str] | None
) -> AsyncIterator[tuple[str, Any]]:
    entry = DescribeConfigsRequest.DescribeConfigsResource
    for names in _chunks(list(groups)):
        resources = [entry(resource_type=_GROUP, resource_name=name, configuration_keys=keys) for name in names]
        answer = await client.send_any(DescribeConfigsRequest(resources=resources))
        for row in answer.results:
            if row.error_code in _UNKNOWN_TYPE:
                row.configs = []
            elif row.error_code != NONE:
                yield row.resource_name, _unreadable(row.error_code, row.resource_name)
                continue
            yield row.resource_name, row


def _unreadable(code: int, group: str) -> KgroupError:
    if code == GROUP_AUTHORIZATION_FAILED:
        return NotAuthorized("no DESCRIBE_CONFIGS on this group", hint=acl_hint("DescribeConfigs", "group", group))
    return group_error(code, group)


def _resource(group: str, configs: Mapping[str, str | None]) -> Any:
    entry = IncrementalAlterConfigsRequest.AlterConfigsResource
    return entry(
        resource_type=_GROUP,
        resource_name=group,
        configs=[
            entry.AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
            for name, value in configs.items()
        ],
    )


def _refusal(row: Any) -> KgroupError | None:
    if row.error_code == NONE:
        return None
    if row.error_code == GROUP_AUTHORIZATION_FAILED:
        return NotAuthorized(
            "no ALTER_CONFIGS on this group", hint=acl_hint("AlterConfigs", "group", row.resource_name)
        )
    if row.error_code in (INVALID_CONFIG, *_UNKNOWN_TYPE):
        return Refused(f"the broker does not take it: {row.error_message}", code="invalid-config")
    return group_error(row.error_code, row.resource_name)


def _chunks(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    return (groups[at : at + _GROUPS_PER_REQUEST] for at in range(0, len(groups), _GROUPS_PER_REQUEST))
