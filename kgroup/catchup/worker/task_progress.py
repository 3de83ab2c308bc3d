"""Progress of a running task, for display only: the ledger is authoritative."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a task is. The counts are totals of the whole task, including earlier attempts."""

    chunk: int
    """The number of the current chunk."""

    position: int
    """Its next offset, whether committed or not."""

    records: int
    filtered: int
    dead: int
    size: int
