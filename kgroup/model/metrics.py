"""Metrics for a monitoring system, as values; ``kgroup.output`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One number with its labels: (name, value) pairs in the order in which they are written."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge: its name, one sentence of help, and its samples. A gauge without samples is not written."""

    name: str
    help: str
    samples: tuple[MetricSample, ...]


@dataclass(frozen=True, slots=True)
class ExportedMetrics:
    """Metrics and where to write them: to ``path`` (a temporary file, then renamed), or to stdout if None."""

    metrics: Callable[[], tuple[Metric, ...]]
    path: str | None = None
