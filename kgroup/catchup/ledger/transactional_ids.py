"""Under which transactional ids the ledger is written: who takes one shuts out whoever had it before. Pure."""

from __future__ import annotations

PREFIX = "kgroup-catchup-"
"""All of them begin with it, so that one prefixed ACL grants them: plans get their ids only when they are made."""

PROBE = f"{PREFIX}check"
"""Taken to see whether one may; nothing is ever written under it."""


def of_group(group: str | None) -> str:
    """Of a group: plans are made under it, one at a time. None is for ranges that belong to no group."""
    return f"{PREFIX}ranges" if group is None else f"{PREFIX}group-{group}"


def of_plan(plan_id: str) -> str:
    """Of a plan: its runner writes under it."""
    return f"{PREFIX}{plan_id}"


def of_task(plan_id: str, task: int) -> str:
    """Of one task of a plan: its worker delivers under it."""
    return f"{PREFIX}{plan_id}-{task}"
