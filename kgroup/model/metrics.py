"""Numbers for a monitoring system, as values; ``output`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One number under its labels, which are (name, value) in the order in which they are written."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge: its name, one sentence of help, and its samples. One without samples is not written."""

    name: str
    help: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Exported:
    """Metrics as they are to be written: to ``path``, aside and renamed, or to stdout (None)."""

    metrics: Callable[[], tuple[Metric, ...]]
    path: str | None = None
