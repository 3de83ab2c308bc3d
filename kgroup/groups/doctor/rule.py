"""A row of the table of rules, and how a rule says what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kgroup.groups.doctor.finding import Answer, Finding, NotLooked, Severity
from kgroup.support.durations import format_duration

Unit = Literal["", "ms", "%", "x"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number at which a rule begins to speak, and why it is this one.

    ``unit`` is ``ms``, ``%``, ``x`` (times) or "" for a count of what ``name`` says.
    """

    name: str
    value: int
    unit: Unit
    reason: str

    @property
    def text(self) -> str:
        """``5m``, ``80%``, ``1000``."""
        return format_duration(self.value / 1000) if self.unit == "ms" else f"{self.value}{self.unit}"


@dataclass(frozen=True, slots=True)
class Rule:
    """``id`` is stable and kebab-case, ``meaning`` says in a line what is wrong when it fires, ``source`` where it is
    from. ``thresholds`` are all that it uses. ``scope`` is ``cluster`` for what concerns every group.
    """

    id: str
    meaning: str
    source: str
    thresholds: tuple[Threshold, ...] = ()
    scope: Literal["group", "cluster"] = "group"

    def found(
        self,
        severity: Severity,
        evidence: str,
        *,
        remedy: str,
        numbers: Mapping[str, int],
        places: Sequence[str] = (),
        commands: Sequence[str] = (),
    ) -> Answer:
        """It is so."""
        return (Finding(self.id, severity, evidence, remedy, self.source, numbers, tuple(places), tuple(commands)),)

    def unknown(self, why: str) -> Answer:
        """It could not look."""
        return (NotLooked(self.id, why),)

    def partly(self, why: str | None) -> Answer:
        """It looked at a part, and the rest could not be read; None: all was looked at."""
        return () if why is None else (NotLooked(self.id, why, partly=True),)
