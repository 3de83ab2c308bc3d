"""A line of a verdict: a fixed word, a text and its severity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LineSeverity = Literal["bad", "warn"]
"""``bad``: records are lost or not read now. ``warn``: they may be lost or not be read soon."""


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """A line that begins with a fixed upper-case word (LAG, STUCK, RATE, ...). ``style`` None: nothing unusual."""

    word: str
    text: str
    style: LineSeverity | None = None
