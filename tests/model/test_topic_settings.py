"""What a topic's configuration means for its records."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.topic_settings import TopicSettings


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({}, {}),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, {}),
        ({"retention.ms": "1000", "retention.bytes": "5"}, {"retention_ms": 1000, "retention_bytes": 5}),
        ({"retention.ms": str(2**63 - 1)}, {}),
        ({"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"}, {"cleanup_policy": "compact"}),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "1"},
            {"cleanup_policy": "compact,delete", "retention_ms": 1},
        ),
        ({"cleanup.policy": None, "retention.ms": None, "segment.bytes": ""}, {}),
        (
            {"segment.bytes": "7", "max.message.bytes": "8", "min.insync.replicas": "2"},
            {"segment_bytes": 7, "max_message_bytes": 8, "min_in_sync": 2},
        ),
        ({"message.timestamp.type": "LogAppendTime"}, {"is_log_append_time": True}),
        ({"message.timestamp.type": "CreateTime"}, {}),
        ({"message.timestamp.before.max.ms": str(2**63 - 1)}, {}),
        (
            {"message.timestamp.before.max.ms": "9", "message.timestamp.difference.max.ms": "3"},
            {"max_age_ms": 3},
        ),
    ],
)
def test_parsed(config: dict[str, str | None], settings: dict[str, Any]) -> None:
    assert TopicSettings.parse(config) == TopicSettings(**settings)


@pytest.mark.parametrize(
    ("policy", "compacted", "deletes"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
    ],
)
def test_what_removes_records(policy: str, compacted: bool, deletes: bool) -> None:
    settings = TopicSettings(policy)
    assert (settings.compacted, settings.deletes) == (compacted, deletes)
