"""A deadline for requests to the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec


class Deadline(msgspec.Struct, frozen=True):
    """A moment on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds that remain, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Milliseconds that remain, at least 1: clients read 0 as "no limit"."""
        return max(1, int(self.left_s * 1000))

    def at_least(self, seconds: float) -> Deadline:
        """This deadline, or one so many seconds from now, whichever is later."""
        return Deadline(max(self.at, time.monotonic() + seconds))

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at


class SharedTime(msgspec.Struct):
    """A time limit for reading many groups in parts: each part has its share, and what earlier parts left of theirs."""

    limit_s: float
    groups: int
    left_s: float = -1.0

    def __post_init__(self) -> None:
        self.left_s = self.limit_s

    @contextmanager
    def part(self, groups: int) -> Iterator[float]:
        """How long the block for the next part, of so many groups, may take; later parts lose no time to it."""
        share_s = self.left_s * groups / self.groups if self.groups > groups else self.left_s
        self.groups -= groups
        began_s = time.monotonic()
        try:
            yield share_s
        finally:
            self.left_s = max(0.0, self.left_s - min(time.monotonic() - began_s, share_s))
