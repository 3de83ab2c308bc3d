"""The journal as a test looks at it and gets in its way: its files, and the lock that other kgroups hold."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgroup.changes.journal import line_of

WAITS = "for another kgroup"
"""What is said while somebody else holds the lock."""


def changes(state: Path) -> list[Path]:
    """The files of the journal below a state directory, oldest first."""
    return sorted((state / "journal").glob("ch-*"), key=lambda path: path.stat().st_mtime_ns)


def documents(path: Path) -> list[dict[str, Any]]:
    """The lines of one, without their checksums."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for document in found:
        del document["crc32"]
    return found


def rewrite(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write other lines, with right checksums."""
    path.write_text("".join(map(line_of, lines)), encoding="utf-8")


def rows(path: Path) -> dict[tuple[str, str, int], tuple[Any, Any]]:
    """(before, after) by group, topic and partition; each None or [offset, leader epoch, metadata]."""
    return {
        (line["group"], topic, partition): (before, after)
        for line in documents(path)
        for topic, partition, before, after in line.get("rows", ())
    }


@contextmanager
def locked(state: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock as a kgroup that changes something does; what is called lets it go before the block ends."""
    directory = state / "journal"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(file, fcntl.LOCK_UN)
