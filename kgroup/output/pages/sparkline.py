"""A series of values in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
_HIGHEST = len(BLOCKS) - 1


def sparkline(values: Sequence[float | None]) -> str:
    """The values, the newest at the right; a blank is an unknown value.

    The scale runs from the smallest to the largest of them, so that movement is visible however large they are. If all
    are equal, each is the lowest step. ``sparkline([0, 5, 10])`` is ``▁▅█``.
    """
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, span = min(known), max(known) - min(known)

    def step(value: float) -> str:
        return BLOCKS[int((2 * _HIGHEST * (value - low) + span) // (2 * span))] if span else BLOCKS[0]

    return "".join(" " if value is None else step(value) for value in values)
