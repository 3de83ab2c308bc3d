"""The transactional ids of the ledger's writers: a writer that takes an id fences the previous one. Pure."""

from __future__ import annotations

PREFIX = "kgroup-catchup-"
"""The common prefix of all ids, so that one prefixed ACL grants them: a plan's id is only known when it is created."""

PROBE = f"{PREFIX}check"
"""Taken to check the rights; no record is ever written with it."""


def of_group(group: str | None) -> str:
    """The id to create plans of a group, one at a time. None: the id for ranges without a group."""
    return f"{PREFIX}ranges" if group is None else f"{PREFIX}group-{group}"


def of_plan(plan_id: str) -> str:
    """The id of a plan's runner."""
    return f"{PREFIX}{plan_id}"


def of_task(plan_id: str, task: int) -> str:
    """The id of a task's worker, which delivers with it."""
    return f"{PREFIX}{plan_id}-{task}"


def of_throttle(plan_id: str) -> str:
    """The id to throttle a plan with: the runner keeps its own."""
    return f"{PREFIX}{plan_id}-throttle"
