"""Where records go, as it is shown."""

from __future__ import annotations

import pytest

from kgroup.groups.catchup.plan_state import sink_name


@pytest.mark.parametrize(
    ("sink", "options", "shown"),
    [
        ("topic", {"topic": "copy", "timestamps": "now"}, "topic copy"),
        ("files", {"dir": "/data/gap", "where": "partition = 3"}, "files /data/gap where partition = 3"),
        ("spark", {"format": "delta", "option.path": "/lake"}, "spark delta /lake"),
        ("command", {"command": "curl -H 'Authorization: Bearer abcdefgh1234'"}, "[hidden]"),
    ],
)
def test_a_sink_is_named_without_secrets(sink: str, options: dict[str, str], shown: str) -> None:
    name = sink_name(sink, options)

    assert shown in name
    assert "abcdefgh1234" not in name
