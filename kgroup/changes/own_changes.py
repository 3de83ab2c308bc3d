"""Which commits of a log are changes of kgroup, as far as the journal of this machine knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kgroup.changes.journal import Journal
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.thresholds import RESET_SHOWN
from kgroup.support.clock import utc_now
from kgroup.support.errors import KgroupError
from kgroup.support.instants import utc_datetime


def own_changes(cluster_id: str | None, since_ms: int) -> OwnChanges:
    """The changes to a cluster since then; none if the journal cannot be read."""
    try:
        return OwnChanges(Journal().entries(cluster_id, utc_datetime(since_ms)))
    except KgroupError:
        return OwnChanges()


def latest_changes(cluster_id: str | None) -> Callable[[], OwnChanges]:
    """Reads those that ``describe`` and ``doctor`` may show, when it is first called."""
    since_ms = round(utc_now().timestamp() * 1000) - 2 * RESET_SHOWN.value  # clocks differ
    return cache(lambda: own_changes(cluster_id, since_ms))
