"""A change in the journal, as values: what was committed before it, what was to be, and what came of each row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.topic_partition import GroupTopicPartition, PartitionValue, TopicPartition
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import refusal_code

DAMAGED_JOURNAL = refusal_code(
    "damaged-journal",
    "undo, catchup start --skipped-by",
    "A line of the change's file in the journal is damaged or missing: a checksum or the number of rows is wrong.",
    "Restore the offsets of an earlier time with undo GROUP --as-of TIME. --partial restores the intact rows.",
)


class JournalRow(PartitionValue, msgspec.Struct, frozen=True):
    """A partition's commit before and after; None is no commit."""

    group: str
    topic: str
    partition: int
    before: Commit | None
    after: Commit | None

    @property
    def key(self) -> GroupTopicPartition:
        return self.group, self.topic, self.partition


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    at: datetime
    who: str
    what: str
    subject: str
    command: tuple[str, ...]
    """Without secrets."""
    reason: str | None
    cluster: ClusterRef
    groups: Mapping[str, str]
    """The types before the change, by group name."""
    topics: Mapping[str, str | None]
    """Topic ids by name."""
    rows: tuple[JournalRow, ...] = ()
    created: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    undoable: bool = True
    undoes: str | None = None
    """The id of the change that this one undid."""
    results: Mapping[GroupTopicPartition, str | None] = msgspec.field(default_factory=dict)
    """The error code of each row that was tried, None for success. A missing row was not tried, or kgroup died
    before it recorded the result."""
    converted: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    """(Old type, new type) by group."""
    configs: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = msgspec.field(default_factory=dict)
    """(Before, after) of dynamic configs by group."""
    conversions: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """As ``results``, for ``converted``."""
    configured: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """As ``results``, for ``configs``."""
    ended: datetime | None = None
    """None if kgroup died during the change, or if not all results are in the file."""
    hidden: Mapping[str, tuple[TopicPartition, ...] | None] = msgspec.field(default_factory=dict)
    """Commits of deleted groups that the broker did not show, by group; None if it is unknown whether there were
    any. They are in no row and cannot be restored."""
    damage: str | None = None
    """Why rows are missing, as a clause; None if all are there."""

    @property
    def at_ms(self) -> int:
        """When it was made, in ms since 1970."""
        return round(self.at.timestamp() * 1000)

    @property
    def migrates(self) -> bool:
        """Whether it changed types and configs of groups, and left their offsets unchanged."""
        return bool(self.converted or self.configs)
