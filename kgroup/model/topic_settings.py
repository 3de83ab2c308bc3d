"""The settings of a topic that decide which records it takes, and how long it keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's settings, from DescribeConfigs; None: no limit, or the broker does not return the setting."""

    cleanup_policy: str = "delete"
    retention_ms: int | None = None
    """``retention.ms``; None also if the cleanup policy is without ``delete``, since then no time deletes records."""
    retention_bytes: int | None = None
    """``retention.bytes`` of each partition; None also if the cleanup policy is without ``delete``."""
    segment_bytes: int | None = None
    max_message_bytes: int | None = None
    """The largest batch that the topic takes."""
    max_age_ms: int | None = None
    """The maximum age of a record that the topic takes: ``message.timestamp.before.max.ms``, before Kafka 4
    ``message.timestamp.difference.max.ms``."""
    is_log_append_time: bool = False
    """Whether brokers replace the timestamps of records by the time of their arrival."""
    min_in_sync: int | None = None
    """``min.insync.replicas``: how many replicas an acknowledged record is on."""

    @property
    def compacted(self) -> bool:
        """Whether compaction removes all but the last record of each key; records need keys then."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @classmethod
    def parse(cls, config: Mapping[str, str | None]) -> TopicSettings:
        """The settings in a configuration; values that are no limits (-1, the largest long) are None."""

        def limit(name: str) -> int | None:
            text = config.get(name) or ""
            return int(text) if text.isdecimal() and int(text) < _NO_LIMIT else None

        policy = config.get("cleanup.policy") or "delete"
        deletes = "delete" in policy
        ages = [limit("message.timestamp.before.max.ms"), limit("message.timestamp.difference.max.ms")]
        return cls(
            cleanup_policy=policy,
            retention_ms=limit("retention.ms") if deletes else None,
            retention_bytes=limit("retention.bytes") if deletes else None,
            segment_bytes=limit("segment.bytes"),
            max_message_bytes=limit("max.message.bytes"),
            max_age_ms=min((age for age in ages if age is not None), default=None),
            is_log_append_time=config.get("message.timestamp.type") == "LogAppendTime",
            min_in_sync=limit("min.insync.replicas"),
        )
