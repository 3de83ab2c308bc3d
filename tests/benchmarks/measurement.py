"""What a benchmark returns: samples of kgroup and of what it is compared with, and the bounds that it has to keep."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bound of a figure: of the ratio, of ``ours``, or of one of ``also`` by its name."""

    at_most: float | None = None
    at_least: float | None = None
    of: str = "ratio"

    def __str__(self) -> str:
        what = "" if self.of == "ratio" else f"{self.of} "
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        return what + " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)

    def keeps(self, figure: float) -> bool:
        """Whether the figure is within the bound."""
        return (self.at_most is None or figure <= self.at_most) and (self.at_least is None or figure >= self.at_least)


class Measurement(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row. Samples of the same number were taken in turns, so that they are compared pair by pair.

    A floor is the least that the task needs; it is what ``ours`` is compared with where there is no peer. ``also`` has
    figures of ours that come with it, such as peak memory; their names carry their units.
    """

    name: str
    unit: str
    ours: tuple[float, ...]
    peer: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    holds: tuple[Hold, ...] = ()
    also: dict[str, float] = {}

    @property
    def ratio(self) -> float | None:
        """Ours to the peer's, or to the floor, in the middle; 4 s against 2 s is 2. None: nothing to compare with."""
        return statistics.median(self._ratios()) if self.peer or self.floor else None

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest: of the ratios, or of ours where there is nothing to compare with."""
        figures = self._ratios() if self.peer or self.floor else self.ours
        return min(figures), max(figures)

    def missed(self) -> list[Hold]:
        """The bounds that are not kept."""
        figures = {**self.also, "ours": statistics.median(self.ours)}
        if self.ratio is not None:
            figures["ratio"] = self.ratio
        return [hold for hold in self.holds if not hold.keeps(figures[hold.of])]

    def _ratios(self) -> list[float]:
        base = self.peer or self.floor
        if len(base) == len(self.ours):
            return [ours / other for ours, other in zip(self.ours, base, strict=True)]
        return [ours / statistics.median(base) for ours in self.ours]


class Machine(msgspec.Struct, frozen=True):
    """Where a benchmark was run; nothing that names the machine or a path."""

    cores: int
    memory_gb: int
    processor: str
    system: str
    python: str

    def __str__(self) -> str:
        return f"{self.cores} cores ({self.processor}), {self.memory_gb} GB, {self.system}, Python {self.python}"


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One benchmark, as it was run once."""

    benchmark: str
    measured_at: str
    machine: Machine
    load_before: float
    """The load average of one minute before it began: 0 is an idle machine."""

    measurements: tuple[Measurement, ...]
    sizes: dict[str, Any] = {}
    """What was not as the benchmark has it by default."""

    note: str = ""


def rounded(measurement: Measurement) -> Measurement:
    """The same with four digits of each figure, as it is stored."""
    samples = {name: _rounded(getattr(measurement, name)) for name in ("ours", "peer", "floor")}
    also = dict(zip(measurement.also, _rounded(measurement.also.values()), strict=True))
    return msgspec.structs.replace(measurement, **samples, also=also)


def _rounded(figures: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{figure:.4g}") for figure in figures)


def per_second(records: int, seconds: Iterable[float]) -> tuple[float, ...]:
    """Records a second, from the seconds that each turn needed for all of them."""
    return tuple(records / each for each in seconds)


def of_rates(name: str, records: int, ours: Iterable[float], peer: Iterable[float], *holds: Hold) -> Measurement:
    """Records a second, from the seconds that each turn needed for all of them."""
    return Measurement(name, "records/s", per_second(records, ours), per_second(records, peer), holds=holds)


def merged(stored: Sequence[Result], new: Iterable[Result], order: Sequence[str]) -> list[Result]:
    """The stored results with new ones in place of those of the same benchmark; in this order, without unknown ones."""
    newest = {result.benchmark: result for result in (*stored, *new)}
    return [newest[name] for name in order if name in newest]
