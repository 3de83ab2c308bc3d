"""What a connection keeps of what it has read, so that a refresh of ``--watch`` reads only what is new or too old."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from kgroup.cluster.lag_reading import LagFacts
    from kgroup.cluster.offsets_topic.generations import KnownGeneration
    from kgroup.cluster.offsets_topic.group_log import GroupLog
    from kgroup.groups.successors import Successor
    from kgroup.model.hidden_commits import Hidden
    from kgroup.model.read_quota import ReadQuota
    from kgroup.model.streaming_query import StreamingQuery
    from kgroup.model.topic_partition import TopicPartition

T = TypeVar("T")
K = TypeVar("K")


class CachedValue(msgspec.Struct, Generic[T, K], frozen=True):
    """A result, what it is about, and when it was read (monotonic clock)."""

    value: T
    about: K
    read_s: float = msgspec.field(default_factory=time.monotonic)

    def is_fresh(self, age_s: float) -> bool:
        return time.monotonic() - self.read_s < age_s


@dataclass(slots=True)
class RefreshCache:
    generations: dict[str, KnownGeneration] = field(default_factory=dict)
    """Of the groups of the last refresh."""
    logs: dict[str, GroupLog] = field(default_factory=dict)
    """Of the groups of the last refresh."""
    hidden: dict[str, CachedValue[Hidden, frozenset[TopicPartition]]] = field(default_factory=dict)
    """Hidden commits, about those that the broker showed."""
    surroundings: CachedValue[LagFacts, frozenset[str]] | None = None
    """Retention and other groups, about topics."""
    quotas: CachedValue[tuple[ReadQuota, ...], None] | None = None
    """All quotas on reading; none without the right to read them."""
    successors: CachedValue[Mapping[str, Successor], Mapping[str, int]] | None = None
    """The groups that may have replaced others, about these and since when they are Empty."""
    queries: dict[str, CachedValue[StreamingQuery, None]] = field(default_factory=dict)
    """The streaming queries that were read."""
    ledger: CachedValue[Any, frozenset[str] | None] | None = None
    """The content of a catch-up ledger, about these groups; None: all."""
