"""What a check is about, and how it says what it found."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.migration.check import Check, CheckStatus


@dataclass(frozen=True, slots=True)
class Subject:
    """A row of the table of checks.

    ``id`` is stable and kebab-case, ``meaning`` says in a line what is looked at, ``source`` is where the rule comes
    from, ``label`` what it is called where groups are counted: ``static members (8)``.
    """

    id: str
    meaning: str
    source: str
    label: str

    def ok(self, evidence: str, *, remedy: str | None = None) -> Check:
        """Nothing stands in the way."""
        return Check(self.id, CheckStatus.OK, evidence, self.source, remedy=remedy)

    def info(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> Check:
        """Worth saying, without weight for the verdict."""
        return Check(self.id, CheckStatus.INFO, evidence, self.source, brief, remedy, offline_only)

    def unknown(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> Check:
        """It could not be told."""
        return Check(self.id, CheckStatus.UNKNOWN, evidence, self.source, brief, remedy, offline_only)

    def warning(self, evidence: str, *, brief: str, remedy: str | None = None) -> Check:
        """It can move, but something will be different, or may go wrong."""
        return Check(self.id, CheckStatus.WARNING, evidence, self.source, brief, remedy)

    def blocked(self, evidence: str, *, brief: str, remedy: str | None = None) -> Check:
        """It can't move as things are."""
        return Check(self.id, CheckStatus.BLOCKED, evidence, self.source, brief, remedy)
