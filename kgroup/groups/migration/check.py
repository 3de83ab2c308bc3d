"""A check and what all checks of a group come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckStatus(StrEnum):
    """How a check ended. INFO is worth saying, UNKNOWN could not be told; neither changes the verdict."""

    OK = "ok"
    INFO = "info"
    UNKNOWN = "unknown"
    WARNING = "warning"
    BLOCKED = "blocked"


class ReadinessResult(StrEnum):
    """Whether a group is fit to move."""

    DONE = "DONE"
    READY = "READY"
    WARNING = "WARNING"
    BLOCKED = "BLOCKED"


class How(StrEnum):
    """How it moves: now (it is Empty), rolling (online, instance by instance), stop (offline only)."""

    NOW = "now"
    ROLLING = "rolling"
    STOP = "stop"
    NONE = "-"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one group.

    ``id`` is stable and kebab-case. ``evidence`` is what was seen, ``brief`` the same in a few words for a table of
    many groups (None where it is not worth a place there). ``remedy`` is what to do, None where there is nothing to do.
    ``source`` is where the rule comes from (a KIP, a Kafka issue). ``offline_only`` says that the group can move, but
    not while it runs.
    """

    id: str
    status: CheckStatus
    evidence: str
    source: str
    brief: str | None = None
    remedy: str | None = None
    offline_only: bool = False

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "id": self.id,
            "status": self.status.value,
            "evidence": self.evidence,
            "remedy": self.remedy,
            "source": self.source,
            "offline_only": self.offline_only,
        }


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the checks of a group come to; ``reason`` is the weightiest in a few words, ``more`` how many others."""

    group: str
    checks: tuple[Check, ...]
    verdict: ReadinessResult
    how: How
    reason: str | None
    more: int = 0

    def document(self) -> Mapping[str, Any]:
        """Its JSON form."""
        return {
            "group": self.group,
            "verdict": self.verdict.value,
            "how": None if self.how is How.NONE else self.how.value,
            "reason": self.reason,
            "checks": [check.document() for check in self.checks],
        }
