"""A task's share of ``--rate``, and of the notes that the ledger gets. Pure: the caller passes the time and sleeps."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.catchup.chunks import TRANSACTION_S, RateLimit

MOST_NOTES_PER_S = 200
"""How many notes of handlers the ledger gets in all: all tasks write to one partition (docs/catchup/scale.md)."""

COMMIT_EVERY_S = 5.0
"""The longest duration of a transaction of few tasks: what is committed is the progress that the user sees."""

_COMMITS_PER_S = 40

_STEP_S = 0.25
_CREDIT_S = 1.0


def share(rate: RateLimit | None, tasks_at_once: int) -> RateLimit | None:
    """The rate of each task when ``tasks_at_once`` run: 500/s over 4 tasks are 125/s each."""
    if rate is None:
        return None
    parts = max(1, tasks_at_once)
    return RateLimit(
        None if rate.records_per_s is None else rate.records_per_s / parts,
        None if rate.bytes_per_s is None else rate.bytes_per_s / parts,
    )


def note_gap_s(tasks_at_once: int) -> float:
    """The least seconds between two notes of one task. 4 tasks: 0.02 s, so 50 a second each; 800: 4 s."""
    return max(1, tasks_at_once) / MOST_NOTES_PER_S


def commit_every_s(tasks_at_once: int) -> float:
    """The longest duration of a transaction. 4 tasks: 5 s; 800: 20 s, so that all together commit 40 times a second."""
    return min(TRANSACTION_S, max(COMMIT_EVERY_S, tasks_at_once / _COMMITS_PER_S))


@dataclass(slots=True)
class NoteSchedule:
    """When a task may write its next note: ``gap_s`` after the one before, however many are wanted."""

    gap_s: float
    _due_s: float

    @classmethod
    def of_task(cls, number: int, gap_s: float, now_s: float) -> NoteSchedule:
        """The schedule of a task that begins now. Tasks that begin together write their first notes one by one."""
        return cls(gap_s, now_s + (number / MOST_NOTES_PER_S % gap_s if gap_s else 0.0))

    def wait_s(self, now_s: float) -> float:
        """Seconds to wait before the next note, 0 if it may be written."""
        return max(0.0, self._due_s - now_s)

    def noted(self, now_s: float) -> None:
        """A note is being written now."""
        self._due_s = now_s + self.gap_s


@dataclass(slots=True)
class Throttle:
    """When the next records are due, in seconds of the caller's clock.

    At most one second of delay is caught up, so that a stall does not end in a burst.
    """

    rate: RateLimit | None
    _due_s: float | None = None

    def change(self, rate: RateLimit | None, now_s: float) -> None:
        """Keep to another rate from now on: what was handed over at the old one delays by a quarter of a second."""
        if rate != self.rate:
            self.rate = rate
            self._due_s = None if self._due_s is None or rate is None else min(self._due_s, now_s + _STEP_S)

    def piece(self, records: int, size: int) -> int:
        """How many of these records to hand over at once: what the rate allows in a quarter of a second, at least 1."""
        if self.rate is None:
            return records
        allowed = float(records)
        if self.rate.records_per_s is not None:
            allowed = min(allowed, self.rate.records_per_s * _STEP_S)
        if self.rate.bytes_per_s is not None and size > 0:
            allowed = min(allowed, self.rate.bytes_per_s * _STEP_S * records / size)
        return max(1, int(allowed))

    def wait_s(self, now_s: float) -> float:
        """Seconds to wait before the next records, 0 if they are due."""
        return 0.0 if self._due_s is None else max(0.0, self._due_s - now_s)

    def took(self, records: int, size: int, now_s: float) -> None:
        """Charge records that were handed over to the rate."""
        if self.rate is None:
            return
        needs_s = 0.0
        if self.rate.records_per_s is not None:
            needs_s = records / self.rate.records_per_s
        if self.rate.bytes_per_s is not None:
            needs_s = max(needs_s, size / self.rate.bytes_per_s)
        since_s = now_s if self._due_s is None else max(self._due_s, now_s - _CREDIT_S)
        self._due_s = since_s + needs_s
