"""Progress of a running task, for display only: the ledger is authoritative."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a task is, for display.

    ``chunk`` is the number of the current chunk. ``position`` is its next offset, whether committed or not. The other
    fields are totals of the whole task, including earlier attempts.
    """

    chunk: int
    position: int
    records: int
    filtered: int
    dead: int
    size: int
