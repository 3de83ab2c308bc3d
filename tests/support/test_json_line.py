"""JSON on one line: the same value, and text that a terminal shows as it is."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kgroup.groups.lag.status import LagStatus
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode
from kgroup.support.hint import Hint
from kgroup.support.json_line import one_line_json


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        {"group": "größe €", "lag": None, "rate": 0.1, "rows": [1, True, {"x": "\x7f\x9b31m"}]},
        {"group": "\u202eevil\u2066\U0001f600"},
        {"half": "\ud800"},
        {"more than 64 bits": [2**64, -(2**63) - 1]},
        {"command": Hint("{}", ("lag", "orders-svc")), "status": LagStatus.OK, "code": ExitCode.REFUSED},
        {"counts": Counter(a=1), "place": TopicPartition("orders", 7)},
    ],
)
def test_the_value_is_read_back(value: Any, ascii_only: bool) -> None:
    line = one_line_json(value, ascii_only=ascii_only)

    assert json.loads(line) == json.loads(json.dumps(value))
    assert line.isprintable()
    assert not ascii_only or line.isascii()


def test_nothing_is_between_the_elements() -> None:
    assert one_line_json({"a": [1, 2], "b": "x: y, z"}) == '{"a":[1,2],"b":"x: y, z"}'
