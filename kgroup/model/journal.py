"""A change in the journal, as values: what was committed before it, what was to be, and what came of each row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.topic_partition import GroupTopicPartition, PartitionValue, TopicPartition
from kgroup.support.cluster_ref import ClusterRef

DAMAGED_JOURNAL = "damaged-journal"


class JournalRow(PartitionValue, msgspec.Struct, frozen=True):
    """A partition's commit before and after; None is no commit."""

    group: str
    topic: str
    partition: int
    before: Commit | None
    after: Commit | None

    @property
    def key(self) -> GroupTopicPartition:
        """Group, topic and partition of the row."""
        return self.group, self.topic, self.partition


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change.

    ``command`` has no secrets. ``groups`` are the types before the change, by group name; ``created`` and ``deleted``
    are the groups that the change created and deleted. ``topics`` are topic ids by name. ``converted`` is (old type,
    new type) by group. ``configs`` is (before, after) of dynamic configs by group.

    ``results`` has the error code of each row that was tried, None for success. A missing row was not tried, or kgroup
    died before recording it. ``conversions`` and ``configured`` are the same for ``converted`` and ``configs``.

    ``hidden`` are commits of deleted groups that the broker did not show, as (topic, partition) by group; None if it is
    unknown whether there were any. They are in no row and cannot be restored. ``ended`` is None if kgroup died during
    the change, or if not all results are in the file. ``undoes`` is the id of the change that this one undid.
    ``damage`` is why rows are missing, as a clause; None if all are there.
    """

    id: str
    at: datetime
    who: str
    what: str
    subject: str
    command: tuple[str, ...]
    reason: str | None
    cluster: ClusterRef
    groups: Mapping[str, str]
    topics: Mapping[str, str | None]
    rows: tuple[JournalRow, ...] = ()
    created: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    undoable: bool = True
    undoes: str | None = None
    results: Mapping[GroupTopicPartition, str | None] = msgspec.field(default_factory=dict)
    converted: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    configs: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = msgspec.field(default_factory=dict)
    conversions: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    configured: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    ended: datetime | None = None
    hidden: Mapping[str, tuple[TopicPartition, ...] | None] = msgspec.field(default_factory=dict)
    damage: str | None = None

    @property
    def at_ms(self) -> int:
        """When it was made, in ms since 1970."""
        return round(self.at.timestamp() * 1000)

    @property
    def migrates(self) -> bool:
        """Whether it changed types and configs of groups, and left their offsets unchanged."""
        return bool(self.converted or self.configs)
