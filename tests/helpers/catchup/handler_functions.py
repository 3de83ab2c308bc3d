"""Functions for ``--to-python``, in the process of the test."""

from __future__ import annotations

import threading
from typing import Any

got: list[list[dict[str, Any]]] = []
refused: set[int] = set()
release = threading.Event()
not_callable = 3


def keep(records: list[dict[str, Any]]) -> None:
    """Keep them, but for a batch with a refused offset."""
    for record in records:
        if record["offset"] in refused:
            raise ValueError(f"no {record['offset']}")
    got.append(records)


class Nested:
    """One can be reached through another name."""

    @staticmethod
    def keep(records: list[dict[str, Any]]) -> None:
        keep(records)


def leave(records: list[dict[str, Any]]) -> None:
    """As a script that was made a function."""
    raise SystemExit(3)


def hang(records: list[dict[str, Any]]) -> None:
    """Until the test is over."""
    release.wait(30)


def keep_after(records: list[dict[str, Any]]) -> None:
    """Keep them when the test says so."""
    release.wait(30)
    keep(records)
