"""What a worker tells while it runs, for the eyes only: the truth is in the ledger."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a task is.

    ``chunk`` is the one in work, by number, and ``position`` its next offset, handled and committed or not yet. The
    others are totals of the whole task, with what the ledger had when it began.
    """

    chunk: int
    position: int
    records: int
    filtered: int
    dead: int
    size: int
