"""Facts about brokers: their features, API versions, and the settings of their group coordinator.

Each broker is asked for its own facts: brokers may differ, and only a broker itself knows its settings.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import msgspec
from kafka.protocol.metadata import ApiVersionsRequest

from kgroup import __version__
from kgroup.cluster.broker_errors import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    NONE,
    RETRIABLE_COORDINATOR_ERRORS,
    UNSUPPORTED_VERSION,
    group_error,
)
from kgroup.cluster.configs import read_broker_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import ConsumerGroupDescribeRequest
from kgroup.model.migration_facts import BrokerFacts, ConfigBounds
from kgroup.support.errors import KgroupError, NotAuthorized

_HEARTBEAT_API, _DESCRIBE_API = 68, 69
_MINUTE_MS = 60_000

_NEWEST_LEVELS = {
    "3.3": 7,
    "3.4": 8,
    "3.5": 11,
    "3.6": 14,
    "3.7": 19,
    "3.8": 20,
    "3.9": 21,
    "4.0": 25,
    "4.1": 27,
    "4.2": 29,
    "4.3": 30,
    "4.4": 33,
}
"""The highest ``metadata.version`` feature level of each release (MetadataVersion.java)."""

_KNOWS_THE_PROTOCOL = frozenset({NONE, GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, *RETRIABLE_COORDINATOR_ERRORS})
"""Error codes with which a broker that supports consumer groups answers ConsumerGroupDescribe."""


class _Setting(msgspec.Struct, frozen=True):
    """The source of a field of BrokerFacts: names of broker settings, and the function that makes the value of them."""

    names: tuple[str, ...]
    value: Callable[..., Any]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _assignor(name: str) -> str:
    """``uniform`` or ``range`` for Kafka's own assignor class; a custom class name is kept as it is."""
    package, _, simple = name.rpartition(".")
    own = package.startswith("org.apache.kafka.coordinator.group.") and simple in ("UniformAssignor", "RangeAssignor")
    return simple.removesuffix("Assignor").lower() if own else name


def _assignors(text: str) -> tuple[str, ...]:
    return tuple(map(_assignor, _words(text)))


def _bounds(default: str, low: str, high: str) -> ConfigBounds:
    return ConfigBounds(int(default), int(low), int(high))


def _minutes(text: str) -> int:
    return int(text) * _MINUTE_MS


def _group_consumer(setting: str) -> tuple[str, ...]:
    return tuple(f"group.consumer.{bound}{setting}.ms" for bound in ("", "min.", "max."))


def _classic_session(low: str, high: str) -> ConfigBounds:
    # There is no broker default: each classic member sets its own session timeout.
    return ConfigBounds(int(low), int(low), int(high))


_SETTINGS: Mapping[str, _Setting] = {
    "rebalance_protocols": _Setting(("group.coordinator.rebalance.protocols",), _words),
    "policy": _Setting(("group.consumer.migration.policy",), str.upper),
    "assignors": _Setting(("group.consumer.assignors",), _assignors),
    "consumer_max_size": _Setting(("group.consumer.max.size",), int),
    "classic_max_size": _Setting(("group.max.size",), int),
    "session": _Setting(_group_consumer("session.timeout"), _bounds),
    "heartbeat": _Setting(_group_consumer("heartbeat.interval"), _bounds),
    "classic_session": _Setting(("group.min.session.timeout.ms", "group.max.session.timeout.ms"), _classic_session),
    "offsets_retention_ms": _Setting(("offsets.retention.minutes",), _minutes),
    "transaction_max_ms": _Setting(("transaction.max.timeout.ms",), int),
}


async def broker_facts(client: CoordinatorClient, brokers: Iterable[int]) -> dict[int, BrokerFacts]:
    """The facts of each broker, by id, read in parallel. If a broker does not answer, all its fields are None."""
    ids = sorted(set(brokers))
    facts = await client.gather(_facts(client, node) for node in ids)
    return dict(zip(ids, facts, strict=True))


async def _facts(client: CoordinatorClient, node: int) -> BrokerFacts:
    request = ApiVersionsRequest(client_software_name="kgroup", client_software_version=__version__)
    answer = await client.send(request, node)
    if isinstance(answer, BaseException):
        silent = client.failure(answer, node).message
        return BrokerFacts(unread={field.name: silent for field in fields(BrokerFacts) if field.name != "unread"})
    values, unread = features_of(answer)
    offered = {row.api_key for row in answer.api_keys}
    reads = [_settings(client, node), _probe(client, node, offered=_DESCRIBE_API in offered)]
    for read, reasons in await client.gather(reads):
        values |= read
        unread |= reasons
    return BrokerFacts(**values, unread=unread)


_Read = tuple[dict[str, Any], dict[str, str]]
"""Values by field, and reasons by field for those that have none."""


def features_of(answer: Any) -> _Read:
    versions = {row.api_key: row.max_version for row in answer.api_keys}
    supported = {row.name: row.max_version for row in getattr(answer, "supported_features", None) or ()}
    level = supported.get("metadata.version")
    values: dict[str, Any] = {"heartbeat_version": versions.get(_HEARTBEAT_API), "kraft": level is not None}
    unread: dict[str, str] = {}
    if level is None:
        unread["release"] = "the broker names no metadata.version, as before KRaft"
    else:
        values["release"] = release_of(level)
    epoch = getattr(answer, "finalized_features_epoch", None)
    if epoch is None or epoch < 0:
        unread["group_version"] = "the broker does not name the finalized features"
    else:
        finalized = {row.name: row.max_version_level for row in answer.finalized_features or ()}
        values["group_version"] = finalized.get("group.version", 0)
        values["streams_version"] = finalized.get("streams.version", 0)
    return values, unread


def release_of(level: int) -> str:
    """The release of this ``metadata.version`` level: 25 is "4.0"; above the known levels "4.4 or newer"."""
    releases = list(_NEWEST_LEVELS)
    at = bisect_left(list(_NEWEST_LEVELS.values()), level)
    return releases[at] if at < len(releases) else f"{releases[-1]} or newer"


async def _settings(client: CoordinatorClient, node: int) -> _Read:
    names = [name for setting in _SETTINGS.values() for name in setting.names]
    configs = await read_broker_configs(client, node, names)
    if not isinstance(configs, KgroupError):
        return settings_of(configs)
    reason = f"{configs.message}: {configs.hint}" if isinstance(configs, NotAuthorized) else configs.message
    return {}, dict.fromkeys(_SETTINGS, reason)


def settings_of(values: Mapping[str, str | None]) -> _Read:
    """The fields of BrokerFacts that follow from a broker's settings, and why others have no value. Pure."""
    results: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, setting in _SETTINGS.items():
        texts = [values.get(key) for key in setting.names]
        missing = [key for key, value in zip(setting.names, texts, strict=True) if value is None]
        if missing:
            unread[name] = f"the broker has no setting {missing[0]}"
            continue
        try:
            results[name] = setting.value(*texts)
        except ValueError:
            unread[name] = f"{setting.names[0]}={texts[0]} is not understood"
    return results, unread


async def _probe(client: CoordinatorClient, node: int, *, offered: bool) -> _Read:
    """Whether the broker serves consumer groups: describe one that does not exist. ApiVersions does not show it."""
    field = "serves_consumer"
    if not offered:
        return {field: False}, {}
    # This broker is probably not its coordinator, but only a broker that supports consumer groups answers that.
    absent = f"kgroup-probe-{secrets.token_hex(8)}"
    answer = await client.send(
        ConsumerGroupDescribeRequest(group_ids=[absent], include_authorized_operations=False), node
    )
    if isinstance(answer, BaseException):
        return {}, {field: client.failure(answer, node).message}
    (row,) = answer.groups
    if row.error_code == UNSUPPORTED_VERSION:
        return {field: False}, {}
    if row.error_code in _KNOWS_THE_PROTOCOL:
        return {field: True}, {}
    return {}, {field: group_error(row.error_code, absent).message}
