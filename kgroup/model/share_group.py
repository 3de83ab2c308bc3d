"""What a share group (KIP-932) has besides what every group has: a lag that the broker counts, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kgroup.support.errors import refusal_code

if TYPE_CHECKING:
    from kgroup.model.share_deliveries import Deliveries

SHARE = "share"
"""The type of such a group."""

SWITCHED_OFF = refusal_code(
    "share-groups-off",
    "verbs that read share groups",
    "Share groups are switched off in this cluster (share.version=0), and the brokers show nothing of those it has.",
    "Switch them on: kafka-features.sh upgrade --feature share.version=1.",
)


class BrokerLag(msgspec.Struct, frozen=True, gc=False):
    """The lag of a share group on a partition, which only the broker can count: records after the start may be done.

    None: the broker does not count it, as before Kafka 4.2, or not yet.
    """

    lag: int | None


class DeadLetterTopic(msgspec.Struct, frozen=True):
    """The topic for records that a share group does not deliver again (KIP-1191, Kafka 4.4).

    ``exists`` and ``enabled`` (``errors.deadletterqueue.group.enable`` of the topic) are None if not known. ``created``
    is whether brokers create one that does not exist.
    """

    name: str
    exists: bool | None = None
    enabled: bool | None = None
    created: bool = False


class ShareSettings(msgspec.Struct, frozen=True):
    """The settings in force of a share group, its own or the brokers'; each is None if the broker does not have it.

    ``dead_letters`` is None without a dead-letter topic; ``has_dead_letters`` is whether the brokers know such topics.
    """

    start: str | None = None
    """``share.auto.offset.reset``: latest, earliest or by_duration:..."""
    isolation: str | None = None
    delivery_limit: int | None = None
    lock_ms: int | None = None
    dead_letters: DeadLetterTopic | None = None
    has_dead_letters: bool = False


class ShareGroup(msgspec.Struct, frozen=True):
    """What was read of a share group only. ``settings`` is None if not read; ``unread`` is why, None if not wanted.

    ``deliveries`` is None if not wanted.
    """

    settings: ShareSettings | None = None
    unread: str | None = None
    deliveries: Deliveries | None = None

    @property
    def delivery_limit(self) -> int | None:
        return None if self.settings is None else self.settings.delivery_limit
