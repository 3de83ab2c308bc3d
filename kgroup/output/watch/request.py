"""The request for ``--watch``: a verb that reads the cluster repeatedly over one connection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec

from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError

DEFAULT_EVERY = "2s"
SHORTEST_EVERY_S = 0.5
"""A refresh may send a request to each broker, and many people may watch at the same time."""

_WATCH_FORMATS = (Format.TABLE, Format.WIDE, Format.JSON)

Refresh = Callable[[], Iterable[Outcome]]
"""One refresh from the cluster; raises KgroupError if it fails. Calls never overlap."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Whether a reading verb refreshes, and how often: a duration as the user typed it."""

    watch: bool = False
    every: str | None = None


class WatchedVerb(msgspec.Struct, frozen=True):
    """What a verb returns for ``--watch``, instead of outcomes.

    ``connect`` opens the connection; it reports to the reporter that it gets. ``form`` is TABLE or WIDE for pages, JSON
    for one line per refresh.
    """

    every_s: float
    form: Format
    connect: Callable[[Reporter], AbstractContextManager[Refresh]]


def watched(
    run: Invocation, watch: Watch, connect: Callable[[Invocation], AbstractContextManager[Refresh]]
) -> WatchedVerb | None:
    """The verb to be watched; None without ``--watch``.

    ``connect`` gets an Invocation with the watch's own format and reporter. A terminal, or an explicit ``-o table``,
    gets pages; everything else gets JSON. Raises UsageError for a format whose rows do not show their refresh.
    """
    if not watch.watch:
        if watch.every is not None:
            raise UsageError("--every is for --watch", hint="add --watch")
        return None
    form = _watch_format(run)
    return WatchedVerb(_every_s(watch), form, lambda reporter: connect(run.showing(form, reporter)))


def _every_s(watch: Watch) -> float:
    every_s = parse_duration(watch.every or DEFAULT_EVERY, "--every")
    if every_s < SHORTEST_EVERY_S:
        raise UsageError(
            f"--every {watch.every}: must be at least {SHORTEST_EVERY_S * 1000:.0f}ms: each refresh sends requests",
            hint=f"--every {SHORTEST_EVERY_S * 1000:.0f}ms",
        )
    return every_s


def _watch_format(run: Invocation) -> Format:
    output = run.format
    if output not in _WATCH_FORMATS:
        raise UsageError(
            f"-o {output} and --watch are mutually exclusive: rows have no time",
            hint="-o json writes a line of JSON per refresh, with its time",
        )
    if output is Format.TABLE and not run.format_given and not sys.stdout.isatty():
        return Format.JSON
    return output
