"""What a rule of the doctor answers: a finding with its evidence, or that it could not look, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is.

    INFO can be better, WARNING goes wrong one day or costs something now, CRITICAL loses records or stops reading now.
    """

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for INFO, 2 for CRITICAL: words do not sort by weight."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a group or the cluster.

    ``rule`` is the id of its rule. ``evidence`` says what was seen, ``numbers`` the same for programs (counts, records,
    offsets; durations end in ``_ms``). ``places`` are all partitions, members, topics or brokers that it is about, the
    worst first; the evidence names some. ``remedy`` is what to do, ``commands`` are the finished commands or settings
    for it: none of them changes a group as it stands. ``source`` is a KIP, a Kafka issue or Kafka's documentation.
    """

    rule: str
    severity: Severity
    evidence: str
    remedy: str
    source: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "evidence": self.evidence,
            "numbers": dict(self.numbers),
            "places": list(self.places),
            "remedy": self.remedy,
            "commands": list(self.commands),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class NotLooked:
    """A rule that could not look, and why; with ``partly`` it did look at what could be read."""

    rule: str
    why: str
    partly: bool = False

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"rule": self.rule, "why": self.why, "partly": self.partly}


Answer = tuple[Finding | NotLooked, ...]
"""What a rule says: nothing where all is well."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found of one group, or of the cluster (``group`` None); findings worst first.

    ``looked`` is how many rules could look, those that could in part included.
    """

    group: str | None
    findings: tuple[Finding, ...]
    not_looked: tuple[NotLooked, ...]
    looked: int

    @property
    def subject(self) -> str:
        """The group's name; ``the cluster`` for the cluster."""
        return "the cluster" if self.group is None else self.group

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding, None where there is none."""
        return self.findings[0].severity if self.findings else None

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def document(self) -> Mapping[str, Any]:
        """Its JSON form; ``group`` is null for the cluster."""
        return {
            "group": self.group,
            "scope": "cluster" if self.group is None else "group",
            "worst": self.worst.value if self.worst else None,
            "counts": {severity.value: self.count(severity) for severity in Severity},
            "findings": [finding.document() for finding in self.findings],
            "rules_looked_at": self.looked,
            "not_looked_at": [missing.document() for missing in self.not_looked],
        }


def ranked(findings: Sequence[Finding], order: Sequence[str]) -> tuple[Finding, ...]:
    """Worst first, then as the rules stand in the table (``order``: their ids)."""
    return tuple(sorted(findings, key=lambda found: (-found.severity.rank, order.index(found.rule))))
