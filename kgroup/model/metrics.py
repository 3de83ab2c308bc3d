"""Metrics for a monitoring system, as values; ``kgroup.output`` writes them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Labels = tuple[tuple[str, str], ...]


class MetricSample(msgspec.Struct, frozen=True):
    """One number with its labels: (name, value) pairs in the order in which they are written."""

    labels: Labels
    value: float


class Metric(msgspec.Struct, frozen=True):
    """A gauge: its name, one sentence of help, and its samples. A gauge without samples is not written."""

    name: str
    help: str
    samples: tuple[MetricSample, ...]


class ExportedMetrics(msgspec.Struct, frozen=True):
    """Metrics and where to write them: to ``path`` (a temporary file, then renamed), or to stdout if None."""

    metrics: Callable[[], tuple[Metric, ...]]
    path: str | None = None
