"""The subject of a check; it makes the Check from what was found."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.migration.check import Check, CheckStatus


@dataclass(frozen=True, slots=True)
class Subject:
    """A row of the table of checks.

    ``id`` is stable and kebab-case. ``meaning`` is one line about what is checked, ``source`` is where the rule comes
    from. ``label`` is its name in counts of groups: ``static members (8)``.
    """

    id: str
    meaning: str
    source: str
    label: str

    def ok(self, evidence: str, *, remedy: str | None = None) -> Check:
        """Nothing prevents the migration."""
        return Check(self.id, CheckStatus.OK, evidence, self.source, remedy=remedy)

    def info(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> Check:
        """A remark that does not change the readiness."""
        return Check(self.id, CheckStatus.INFO, evidence, self.source, brief, remedy, offline_only)

    def unknown(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> Check:
        """It could not be determined."""
        return Check(self.id, CheckStatus.UNKNOWN, evidence, self.source, brief, remedy, offline_only)

    def warning(self, evidence: str, *, brief: str, remedy: str | None = None) -> Check:
        """The group can migrate, but something will change or may fail."""
        return Check(self.id, CheckStatus.WARNING, evidence, self.source, brief, remedy)

    def blocked(self, evidence: str, *, brief: str, remedy: str | None = None) -> Check:
        """The group cannot migrate in its present state."""
        return Check(self.id, CheckStatus.BLOCKED, evidence, self.source, brief, remedy)
