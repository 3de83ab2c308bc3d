"""A rule of the doctor, its thresholds, and how it builds its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kgroup.groups.doctor.finding import Answer, Finding, NotChecked, Severity
from kgroup.support.durations import format_duration

Unit = Literal["", "ms", "%", "x"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number from which a rule reports a finding, and the reason for this number.

    ``unit`` is ``ms``, ``%``, ``x`` (times), or "" for a count; ``name`` describes what is counted.
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
    """A rule of the doctor. ``id`` is stable and kebab-case, ``meaning`` is the problem in one line.

    ``source`` is its reference, ``thresholds`` are all that it uses. ``scope`` ``cluster`` affects every group.
    """

    id: str
    meaning: str
    source: str
    thresholds: tuple[Threshold, ...] = ()
    scope: Literal["group", "cluster"] = "group"

    def finding(
        self,
        severity: Severity,
        evidence: str,
        *,
        remedy: str,
        numbers: Mapping[str, int],
        places: Sequence[str] = (),
        commands: Sequence[str] = (),
    ) -> Answer:
        """The answer of a rule that found the problem."""
        return (Finding(self.id, severity, evidence, remedy, self.source, numbers, tuple(places), tuple(commands)),)

    def unknown(self, why: str) -> Answer:
        """The answer of a rule that could not check anything, with the reason."""
        return (NotChecked(self.id, why),)

    def partly(self, why: str | None) -> Answer:
        """The answer of a rule that checked only a part, with the reason; empty for None: everything was checked."""
        return () if why is None else (NotChecked(self.id, why, partly=True),)
