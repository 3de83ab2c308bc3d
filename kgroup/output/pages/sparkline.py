"""A row of numbers in a few characters: how a lag changed over the last refreshes of ``--watch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For a terminal without block characters."""

LOOKS = 20


def sparkline(values: Sequence[int | None], width: int = LOOKS, steps: str = BLOCKS) -> str:
    """The last ``width`` values, the newest at the right; a blank is an unknown value.

    The scale runs from the smallest to the largest of them, so that movement is visible however large the lag is. If
    all are equal, each is the lowest step. ``sparkline([0, 5, 10])`` is ``▁▅█``.
    """
    shown = list(values)[-width:] if width > 0 else []
    known = [value for value in shown if value is not None]
    if not known:
        return " " * len(shown)
    least, span = min(known), max(known) - min(known)
    top = len(steps) - 1

    def step(value: int) -> str:
        return steps[(2 * top * (value - least) + span) // (2 * span)] if span else steps[0]

    return "".join(" " if value is None else step(value) for value in shown)


@dataclass(frozen=True, slots=True)
class RefreshValues:
    """The values of the last refreshes by name, oldest first; None where the name was absent."""

    count: int = 0
    values: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def after(self, now: Mapping[str, int | None], most: int = LOOKS) -> RefreshValues:
        """Add a refresh and drop the oldest; names that are absent from all remaining refreshes are dropped too."""
        count = min(self.count + 1, most)
        found = {}
        for name in {**self.values, **now}:
            earlier = self.values.get(name, (None,) * self.count)
            row = (*earlier, now.get(name))[-most:]
            if any(value is not None for value in row) or name in now:
                found[name] = row
        return RefreshValues(count, found)

    def line(self, name: str, steps: str = BLOCKS) -> str | None:
        """The sparkline of one name; None if the name is unknown, or there was only one refresh."""
        row = self.values.get(name)
        return sparkline(row, steps=steps) if row and self.count > 1 else None
