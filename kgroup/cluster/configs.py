"""Read the configurations of topics, brokers and groups (DescribeConfigs), and set those of groups (KIP-848).

The dynamic configs of a group remain when its members leave, and can be set before the group exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from kgroup.cluster.broker_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_CONFIG,
    INVALID_REQUEST,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
    group_error,
    topic_error,
)
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.model.kafka_tools import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, Refused, refusal_code

CONFIG_REJECTED = refusal_code(
    "invalid-config",
    "migrate",
    "The broker does not accept that value of --session-timeout or --heartbeat-interval.",
    "Use another value, or leave the option out.",
)


class ConfigType(IntEnum):
    """What has a configuration (org.apache.kafka.common.config.ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


_DYNAMIC_GROUP_CONFIG = 8
"""DescribeConfigsResponse.ConfigSource.GROUP_CONFIG"""
_SET, _DELETE = 0, 1
"""AlterConfigOp.OpType"""
_NOT_AUTHORIZED = frozenset({TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED})
_UNKNOWN_TYPE = frozenset({INVALID_REQUEST, UNSUPPORTED_VERSION})
"""Error codes of brokers before 3.8, which have no group configs."""
_PER_REQUEST = 1000
_APPLIED_S, _POLL_S = 2.0, 0.02
"""How long to wait until a broker shows what the controller wrote (usually milliseconds), and how often to ask."""

Configs = dict[str, str | None]
"""Values by name; None: the broker hides the value, or there is none."""


async def read_configs(
    client: CoordinatorClient,
    kind: ConfigType,
    names: Iterable[str],
    keys: Sequence[str] | None = None,
    *,
    own: bool = False,
) -> dict[str, Configs | KgroupError]:
    """The configurations of topics or groups, by name; ``keys`` None: all. ``own``: only a group's dynamic ones.

    Brokers before 3.8 have no configs of groups. Raises KgroupError if no broker answers.
    """
    configs: dict[str, Configs | KgroupError] = {}
    for chunk in _chunks(list(names)):
        answer = await client.send_any(_request(kind, chunk, keys))
        configs |= {row.resource_name: _configs(kind, row, own=own) for row in answer.results}
    return configs


async def read_broker_configs(client: CoordinatorClient, node: int, keys: Sequence[str]) -> Configs | KgroupError:
    """The configuration of one broker, from that broker: only it knows its own."""
    answer = await client.send(_request(ConfigType.BROKER, [str(node)], keys), node)
    if isinstance(answer, BaseException):
        return client.failure(answer, node)
    return _configs(ConfigType.BROKER, answer.results[0])


def _request(kind: ConfigType, names: Sequence[str], keys: Sequence[str] | None) -> DescribeConfigsRequest:
    entry = DescribeConfigsRequest.DescribeConfigsResource
    key_list = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[entry(resource_type=kind, resource_name=name, configuration_keys=key_list) for name in names]
    )


def _configs(kind: ConfigType, row: Any, *, own: bool = False) -> Configs | KgroupError:
    if kind is ConfigType.GROUP and row.error_code in _UNKNOWN_TYPE:
        return {}
    if row.error_code != NONE:
        return _unreadable(kind, row.error_code, row.resource_name)
    return {item.name: item.value for item in row.configs if not own or item.config_source == _DYNAMIC_GROUP_CONFIG}


def _unreadable(kind: ConfigType, code: int, name: str) -> KgroupError:
    if code not in _NOT_AUTHORIZED:
        return topic_error(code, name) if kind is ConfigType.TOPIC else group_error(code, name)
    if kind is ConfigType.BROKER:
        return NotAuthorized("no DESCRIBE_CONFIGS on the Cluster", hint=acl_hint("DescribeConfigs", "cluster"))
    resource, word = ("this group", "group") if kind is ConfigType.GROUP else (name, "topic")
    return NotAuthorized(f"no DESCRIBE_CONFIGS on {resource}", hint=acl_hint("DescribeConfigs", word, name))


async def group_configs(client: CoordinatorClient, groups: Iterable[str]) -> dict[str, Mapping[str, str] | KgroupError]:
    """The configs set for each group itself, not the brokers' defaults. Raises KgroupError if no broker answers."""
    answers = await read_configs(client, ConfigType.GROUP, groups, own=True)
    return {
        group: configs
        if isinstance(configs, KgroupError)
        else {name: value for name, value in configs.items() if value is not None}
        for group, configs in answers.items()
    }


async def setting_in_force(client: CoordinatorClient, groups: Iterable[str], name: str) -> dict[str, str | KgroupError]:
    """One config's effective value for each group: its own or the broker's. Groups without a value are left out."""
    answers = await read_configs(client, ConfigType.GROUP, groups, [name])
    values = {group: each if isinstance(each, KgroupError) else each.get(name) for group, each in answers.items()}
    return {group: value for group, value in values.items() if value is not None}


async def set_configs(
    client: CoordinatorClient, configs_of: Mapping[str, Mapping[str, str | None]]
) -> dict[str, KgroupError | None]:
    """Set configs of groups, and delete those whose value is None (IncrementalAlterConfigs). Result None: done.

    If the broker rejects a value, the result is Refused [invalid-config] with the broker's message. Raises KgroupError
    if no broker answers. Setting the same value again changes nothing.
    """
    results: dict[str, KgroupError | None] = {group: None for group, configs in configs_of.items() if not configs}
    for groups in _chunks([group for group, configs in configs_of.items() if configs]):
        request = IncrementalAlterConfigsRequest(
            resources=[_resource(group, configs_of[group]) for group in groups], validate_only=False
        )
        answer = await client.send_any(request)
        results |= {row.resource_name: _refusal(row) for row in answer.responses}
    await _await_applied(
        client, {group: configs for group, configs in configs_of.items() if configs and not results.get(group)}
    )
    return {group: results.get(group) for group in configs_of}


async def _await_applied(client: CoordinatorClient, wanted: Mapping[str, Mapping[str, str | None]]) -> None:
    """Wait up to 2 s until the broker shows the new values, so that a later read, as in undo, does not see old ones.

    The configs are set whether or not this wait succeeds.
    """
    until = Deadline.after(_APPLIED_S)
    while True:
        try:
            current = await group_configs(client, wanted)
        except KgroupError:
            return
        wanted = {group: configs for group, configs in wanted.items() if _differs(current.get(group), configs)}
        if not wanted or until.passed or client.deadline.passed:
            return
        await client.sleep(_POLL_S)


def _differs(shown: Mapping[str, str] | KgroupError | None, requested: Mapping[str, str | None]) -> bool:
    return isinstance(shown, Mapping) and any(shown.get(name) != value for name, value in requested.items())


def _resource(group: str, configs: Mapping[str, str | None]) -> Any:
    entry = IncrementalAlterConfigsRequest.AlterConfigsResource
    return entry(
        resource_type=ConfigType.GROUP,
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
        return Refused(f"the broker rejected it: {row.error_message}", code=CONFIG_REJECTED)
    return group_error(row.error_code, row.resource_name)


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + _PER_REQUEST] for at in range(0, len(names), _PER_REQUEST))
