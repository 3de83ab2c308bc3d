"""A deadline for requests to the cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline ``seconds`` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds that remain, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Milliseconds that remain, at least 1: clients read 0 as "no limit"."""
        return max(1, int(self.left_s * 1000))

    @property
    def passed(self) -> bool:
        """Whether nothing remains."""
        return time.monotonic() >= self.at
