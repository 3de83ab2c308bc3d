"""A check of a group, its subject, and the result of all checks."""

from __future__ import annotations

import msgspec

from kgroup.support.errors import refusal_code
from kgroup.support.json_types import ExplainedEnum

BLOCKED = refusal_code(
    "blocked",
    "migrate",
    "A check found that the group cannot move as it is. The plan names the check and the remedy.",
    "Do what the check asks for.",
)


class CheckStatus(ExplainedEnum):
    """The result of a check. INFO is a remark, UNKNOWN means not determined; neither changes the readiness."""

    OK = "ok", "fine"
    INFO = "info", "a remark"
    UNKNOWN = "unknown", "not known"
    WARNING = "warning", "it may go wrong"
    BLOCKED = "blocked", "it prevents the migration"


class ReadinessResult(ExplainedEnum):
    """Whether a group is ready to migrate."""

    DONE = "done", "the group uses the protocol already"
    READY = "ready", "the group can migrate"
    WARNING = "warning", "it can migrate, and a check warns"
    BLOCKED = "blocked", "a check prevents it"


class MigrationPath(ExplainedEnum):
    """How a group migrates."""

    NOW = "now", "the group is Empty"
    ROLLING = "rolling", "instance by instance"
    STOP = "stop", "only while it is Empty"
    NONE = "-"


class MigrationCheck(msgspec.Struct, frozen=True):
    """One check of one group.

    ``id`` is stable and kebab-case. ``evidence`` is what was found, ``brief`` the same in a few words for a table of
    many groups, None if it is not shown there. ``remedy`` is what to do, None if nothing. ``source`` is where the rule
    comes from (a KIP, a Kafka issue). ``offline_only``: the group can migrate, but not while it runs.
    """

    id: str
    status: CheckStatus
    evidence: str
    source: str
    brief: str | None = None
    remedy: str | None = None
    offline_only: bool = False


class Readiness(msgspec.Struct, frozen=True):
    """The result of a group's checks: the main ``reason`` in a few words, and how many ``more`` block or warn."""

    group: str
    checks: tuple[MigrationCheck, ...]
    result: ReadinessResult
    how: MigrationPath
    reason: str | None
    more: int = 0


class CheckSubject(msgspec.Struct, frozen=True):
    """A row of the table of checks.

    ``id`` is stable and kebab-case. ``meaning`` is one line about what is checked, ``source`` is where the rule comes
    from. ``label`` is its name in counts of groups: ``static members (8)``.
    """

    id: str
    meaning: str
    source: str
    label: str

    def ok(self, evidence: str, *, remedy: str | None = None) -> MigrationCheck:
        """Nothing prevents the migration."""
        return MigrationCheck(self.id, CheckStatus.OK, evidence, self.source, remedy=remedy)

    def info(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> MigrationCheck:
        """A remark that does not change the readiness."""
        return MigrationCheck(self.id, CheckStatus.INFO, evidence, self.source, brief, remedy, offline_only)

    def unknown(
        self, evidence: str, *, brief: str | None = None, remedy: str | None = None, offline_only: bool = False
    ) -> MigrationCheck:
        """It could not be determined."""
        return MigrationCheck(self.id, CheckStatus.UNKNOWN, evidence, self.source, brief, remedy, offline_only)

    def warning(self, evidence: str, *, brief: str, remedy: str | None = None) -> MigrationCheck:
        """The group can migrate, but something will change or may fail."""
        return MigrationCheck(self.id, CheckStatus.WARNING, evidence, self.source, brief, remedy)

    def blocked(self, evidence: str, *, brief: str, remedy: str | None = None) -> MigrationCheck:
        """The group cannot migrate in its present state."""
        return MigrationCheck(self.id, CheckStatus.BLOCKED, evidence, self.source, brief, remedy)
