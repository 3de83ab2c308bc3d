"""A row of numbers in a few characters: how a lag went over the last looks of ``--watch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For a terminal that has no block characters."""

LOOKS = 20


def sparkline(values: Sequence[int | None], width: int = LOOKS, steps: str = BLOCKS) -> str:
    """The last ``width`` values, the newest at the right; a blank is a value that was unknown.

    Between the smallest and the largest of them, so that movement shows however large the lag; all equal is the
    lowest line. ``sparkline([0, 5, 10])`` is ``▁▅█``.
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
class Looks:
    """The values of the last looks under their names, oldest first; None where a name was not seen."""

    count: int = 0
    values: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def and_then(self, now: Mapping[str, int | None], most: int = LOOKS) -> Looks:
        """With one look more, the oldest forgotten; names that were not seen at any look that is kept are dropped."""
        count = min(self.count + 1, most)
        found = {}
        for name in {**self.values, **now}:
            earlier = self.values.get(name, (None,) * self.count)
            row = (*earlier, now.get(name))[-most:]
            if any(value is not None for value in row) or name in now:
                found[name] = row
        return Looks(count, found)

    def line(self, name: str, steps: str = BLOCKS) -> str | None:
        """The sparkline of one name; None where nothing was seen of it, or only one look was made."""
        row = self.values.get(name)
        return sparkline(row, steps=steps) if row and self.count > 1 else None
