"""How long things take: what was given, else what the cluster tells, else what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kgroup.groups.history.model import HistoryStep, StepKind
from kgroup.groups.simulation.model import Timing
from kgroup.groups.simulation.report import Sources

_FEWEST = 3
"""Rebalances whose median is believed."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Those that are known, in seconds; None: unknown. ``rebalances_seen`` are behind ``rebalance_s``."""

    restart_s: float | None = None
    session_s: float | None = None
    rebalance_s: float | None = None
    rebalances_seen: int | None = None


@dataclass(frozen=True, slots=True)
class Timed:
    """What a simulation counts with, and where it comes from."""

    timing: Timing
    sources: Sources


@dataclass(frozen=True, slots=True)
class MeasuredRebalances:
    """The median of so many rebalances."""

    median_s: float
    seen: int


def timed(protocol: str, given: Durations, known: Durations) -> Timed:
    """``given`` on the command line, else ``known`` from the cluster, else the default.

    How long a rebalance takes is told of the group's own protocol; of the other one only the default is known.
    """
    usual = Timing()
    took_s = given.rebalance_s if given.rebalance_s is not None else known.rebalance_s
    source = "option" if given.rebalance_s is not None else "log" if known.rebalance_s is not None else "default"
    classic = protocol == "classic"
    session_s = given.session_s if given.session_s is not None else known.session_s
    return Timed(
        Timing(
            restart_s=usual.restart_s if given.restart_s is None else given.restart_s,
            session_timeout_s=usual.session_timeout_s if session_s is None else session_s,
            rebalance_s=took_s if took_s is not None and classic else usual.rebalance_s,
            handover_s=took_s if took_s is not None and not classic else usual.handover_s,
        ),
        Sources(
            restart="default" if given.restart_s is None else "option",
            session="option" if given.session_s is not None else "default" if session_s is None else "group",
            rebalance=source if classic else "default",
            handover="default" if classic else source,
            rebalances_seen=known.rebalances_seen if source == "log" else None,
        ),
    )


def of_history(protocol: str, steps: Sequence[HistoryStep]) -> MeasuredRebalances | None:
    """The median of what the rebalances took; None for fewer than three of which it is known.

    Classic: from the last commit before until the assignment was there, since the joining is not in the log. A
    pause beyond the rebalance timeout (the joining can't last longer) is one without anything to commit, and does
    not count. Consumer: until every member had what it shall have.
    """
    known = []
    for step in steps:
        took_ms = step.took_ms if protocol == "consumer" else step.quiet_ms
        longest_ms = max((member.poll_ms or 0 for member in step.members), default=0)
        if (
            step.kind is StepKind.REBALANCE
            and took_ms is not None
            and (protocol == "consumer" or took_ms <= longest_ms)
        ):
            known.append(took_ms)
    return MeasuredRebalances(median(known) / 1000, len(known)) if len(known) >= _FEWEST else None
