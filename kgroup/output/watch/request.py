"""``--watch``: a verb that looks at the cluster again and again over one connection. ``output.watch`` shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError

DEFAULT_EVERY = "2s"
SHORTEST_EVERY_S = 0.5
"""A look may be a request to each broker, and many people may watch at the same time."""

_FORMS = (Format.TABLE, Format.WIDE, Format.JSON)

Look = Callable[[], Iterable[Outcome]]
"""One look at the cluster; raises KgroupError where it fails. Never called while it is running."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Whether a verb that looks goes on looking, and how often: a duration as it was typed."""

    watch: bool = False
    every: str | None = None


@dataclass(frozen=True, slots=True)
class WatchedVerb:
    """What a verb returns for ``--watch``, instead of outcomes.

    ``opened`` connects, and says things to the reporter that it is given. ``form`` is TABLE or WIDE for pages, JSON for
    a line a look.
    """

    every_s: float
    form: Format
    opened: Callable[[Reporter], AbstractContextManager[Look]]


def watched(
    run: Invocation, watch: Watch, opened: Callable[[Invocation], AbstractContextManager[Look]]
) -> WatchedVerb | None:
    """The verb as it is to be watched; None without ``--watch``.

    ``opened`` is given a Run whose format and reporter are the watch's own. Pages are for a terminal, or for who says
    ``-o table``; whatever else reads gets JSON. Raises UsageError for a format that tells no look from the next.
    """
    if not watch.watch:
        if watch.every is not None:
            raise UsageError("--every is for --watch", hint="add --watch")
        return None
    form = _form(run)
    return WatchedVerb(_every_s(watch), form, lambda reporter: opened(run.showing(form, reporter)))


def draws_blocks() -> bool:
    """Whether stdout has the characters of sparklines; others are written as escapes."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _every_s(watch: Watch) -> float:
    every_s = parse_duration(watch.every or DEFAULT_EVERY, "--every")
    if every_s < SHORTEST_EVERY_S:
        raise UsageError(
            f"--every {watch.every}: twice a second at most, every look asks brokers",
            hint=f"--every {SHORTEST_EVERY_S * 1000:.0f}ms",
        )
    return every_s


def _form(run: Invocation) -> Format:
    asked = run.format
    if asked not in _FORMS:
        raise UsageError(
            f"-o {asked} with --watch: its rows would not say at which look they were so",
            hint="-o json writes a line of JSON for each look, with its time",
        )
    if asked is Format.TABLE and not run.format_said and not sys.stdout.isatty():
        return Format.JSON
    return asked
