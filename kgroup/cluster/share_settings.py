"""The settings in force of share groups, and whether the topics for their dead letters can take any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.cluster.configs import Configs, ConfigType, read_broker_configs, read_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.model.share_group import DeadLetterTopic, ShareGroup, ShareSettings
from kgroup.support.errors import KgroupError, NotFound

_START, _ISOLATION = "share.auto.offset.reset", "share.isolation.level"
_LIMIT, _LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
_BROKER_LIMIT = "group.share.delivery.count.limit"
"""What groups of brokers before Kafka 4.3 all have."""
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_ENABLED = "errors.deadletterqueue.group.enable"
_CREATED = "errors.deadletterqueue.auto.create.topics.enable"


async def read_share_settings(client: CoordinatorClient, groups: Sequence[str]) -> dict[str, ShareGroup]:
    """The settings of share groups, in one request, and one more for dead-letter topics. Raises nothing."""
    try:
        configs = await read_configs(
            client, ConfigType.GROUP, groups, (_START, _ISOLATION, _LIMIT, _LOCK, _DEAD_LETTERS)
        )
        named = sorted({name for each in configs.values() if (name := _dead_letters(each))})
        topics = await read_configs(client, ConfigType.TOPIC, named, (_ENABLED,)) if named else {}
        missing = any(isinstance(each, NotFound) for each in topics.values())
        created = missing and await _broker_setting(client, _CREATED) == "true"
        unlimited = any(not isinstance(each, KgroupError) and _LIMIT not in each for each in configs.values())
        limit = await _broker_setting(client, _BROKER_LIMIT) if unlimited else None
    except KgroupError as error:
        return dict.fromkeys(groups, ShareGroup(unread=error.message))
    return {
        group: ShareGroup(unread=each.message)
        if isinstance(each, KgroupError)
        else ShareGroup(_settings({_LIMIT: limit, **each}, topics, created=created))
        for group, each in configs.items()
    }


async def _broker_setting(client: CoordinatorClient, name: str) -> str | None:
    """A setting of the brokers; None too if it may not be read."""
    configs = await read_broker_configs(client, min(client.brokers), (name,))
    return None if isinstance(configs, KgroupError) else configs.get(name)


def _dead_letters(configs: Configs | KgroupError) -> str | None:
    return None if isinstance(configs, KgroupError) else configs.get(_DEAD_LETTERS) or None


def _settings(configs: Configs, topics: Mapping[str, Configs | KgroupError], *, created: bool) -> ShareSettings:
    name = _dead_letters(configs)
    return ShareSettings(
        start=configs.get(_START),
        isolation=configs.get(_ISOLATION),
        delivery_limit=_number(configs.get(_LIMIT)),
        lock_ms=_number(configs.get(_LOCK)),
        dead_letters=None if name is None else _topic(name, topics.get(name), created=created),
        has_dead_letters=_DEAD_LETTERS in configs,
    )


def _topic(name: str, configs: Configs | KgroupError | None, *, created: bool) -> DeadLetterTopic:
    if isinstance(configs, NotFound):
        return DeadLetterTopic(name, exists=False, created=created)
    if configs is None or isinstance(configs, KgroupError):
        return DeadLetterTopic(name)
    return DeadLetterTopic(name, exists=True, enabled=configs.get(_ENABLED) == "true")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
