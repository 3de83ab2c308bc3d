"""The detailed explanation of a rule (``doctor --explain``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.groups.doctor.rules import BY_ID


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rule checks, why it matters, how to see the problem and how to fix it; ``Rule`` has the rest."""

    rule: str
    what: str
    why: str
    see: tuple[str, ...]
    mend: tuple[str, ...]

    def document(self) -> Mapping[str, Any]:
        """Its JSON form, with the rule's meaning, source and thresholds."""
        rule = BY_ID[self.rule]
        return {
            "rule": self.rule,
            "scope": rule.scope,
            "meaning": rule.meaning,
            "what": self.what,
            "why": self.why,
            "see": list(self.see),
            "mend": list(self.mend),
            "thresholds": [
                {"name": t.name, "value": t.value, "unit": t.unit or None, "reason": t.reason} for t in rule.thresholds
            ],
            "source": rule.source,
        }
