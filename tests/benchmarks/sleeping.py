"""A handler of 0 to 5 ms a record, for ``--to-python``; as ParallelConsumerPeer.java."""

from __future__ import annotations

import time
from typing import Any

calls: list[tuple[float, float, int]] = []
"""When each call began and ended, and how many records it had."""


def work(records: list[dict[str, Any]]) -> None:
    """Sleep, for each record as long as its offset says."""
    began = time.perf_counter()
    for record in records:
        time.sleep(record["offset"] * 7919 % 6 / 1000)
    calls.append((began, time.perf_counter(), len(records)))
