"""The options of a change: plan or execution, accepted refusals, safeguards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Execution:
    """Whether a verb executes its change or only shows its plan.

    ``expect`` is how many rows the plan must have, None for any number. ``accept`` are codes of refusals.
    """

    execute: bool = False
    dry_run: bool = False
    expect: int | None = None
    accept: list[str] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Change(Execution):
    """The options of verbs that change offsets.

    ``within`` is how long ``wait_empty`` waits, as typed. ``backup`` is a path, or "-" for stdout.
    """

    partial: bool = False
    wait_empty: bool = False
    within: str | None = None
    backup: str | None = None
