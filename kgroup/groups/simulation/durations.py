"""The durations of a simulation: from options, else from the cluster, else defaults."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from kgroup.groups.simulation.model import SimulationTiming
from kgroup.groups.simulation.report import DurationSource, DurationSources
from kgroup.groups.timeline.steps import HistoryStep, StepKind

_FEWEST = 3
"""The least number of rebalances whose median is used."""


class KnownDurations(msgspec.Struct, frozen=True):
    """Known durations in seconds, None if unknown; ``rebalance_s`` is the median of ``rebalances_seen``."""

    restart_s: float | None = None
    session_s: float | None = None
    rebalance_s: float | None = None
    rebalances_seen: int | None = None


class ChosenDurations(msgspec.Struct, frozen=True):
    """The durations that a simulation uses, and their sources."""

    timing: SimulationTiming
    sources: DurationSources


class MeasuredRebalances(msgspec.Struct, frozen=True):
    """The median duration of ``count`` rebalances."""

    median_s: float
    count: int


def choose_durations(protocol: str, options: KnownDurations, known: KnownDurations) -> ChosenDurations:
    """``options`` on the command line, else ``known`` from the cluster, else the default.

    A given or known ``rebalance_s`` applies to the group's own protocol; the other protocol gets the default.
    """
    usual = SimulationTiming()
    took_s = options.rebalance_s if options.rebalance_s is not None else known.rebalance_s
    option, default = DurationSource.OPTION, DurationSource.DEFAULT
    measured = DurationSource.LOG if known.rebalance_s is not None else default
    source = option if options.rebalance_s is not None else measured
    classic = protocol == "classic"
    session_s = options.session_s if options.session_s is not None else known.session_s
    return ChosenDurations(
        SimulationTiming(
            restart_s=usual.restart_s if options.restart_s is None else options.restart_s,
            session_timeout_s=usual.session_timeout_s if session_s is None else session_s,
            rebalance_s=took_s if took_s is not None and classic else usual.rebalance_s,
            handover_s=took_s if took_s is not None and not classic else usual.handover_s,
        ),
        DurationSources(
            restart=default if options.restart_s is None else option,
            session=option if options.session_s is not None else default if session_s is None else DurationSource.GROUP,
            rebalance=source if classic else default,
            handover=default if classic else source,
            rebalances_seen=known.rebalances_seen if source is DurationSource.LOG else None,
        ),
    )


def measured_rebalances(protocol: str, steps: Sequence[HistoryStep]) -> MeasuredRebalances | None:
    """The median duration of the rebalances; None if fewer than three durations are known.

    Classic: from the last commit before the rebalance to the assignment, because the log does not show the joining. A
    longer time than the rebalance timeout does not count: joining cannot take longer, so the group had nothing to
    commit. Consumer: from the epoch until every member has its target.
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
