"""The options of ``kgroup catchup``: the part of the gap, the safety options, the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.catchup.gap_request import GapRequest, Missing, parse_ranges
from kgroup.changes.execution import Change, Execution
from kgroup.groups.reset_targets import parse_moment, parse_topics
from kgroup.groups.selection import check_topics
from kgroup.support.clock import utc_now
from kgroup.support.errors import UsageError


@dataclass(frozen=True, slots=True)
class GapOptions:
    """Which part of the gap to catch up."""

    topic: list[str] | None = None
    range: list[str] | None = None
    skipped_by: str | None = None
    missing: Missing | None = None
    skip_before: str | None = None
    until: str | None = None

    def gap_request(self, group: str | None) -> GapRequest:
        """The same, parsed. Raises UsageError for invalid values and combinations."""
        if group is None and not self.range and self.skipped_by is None:
            raise UsageError(
                "no group is named",
                hint="kgroup catchup start GROUP; --range orders:0=70-120 or --skipped-by CHANGE move no group",
            )
        if self.range or self.skipped_by is not None:
            self._check_alone(group)
        now = utc_now()
        topics = parse_topics(self.topic) if self.topic else ()
        check_topics(choice.topic for choice in topics)
        return GapRequest(
            topics,
            parse_ranges(self.range or ()),
            self.missing,
            parse_moment(self.skip_before, now, "--skip-before") if self.skip_before is not None else None,
            parse_moment(self.until, now, "--until") if self.until is not None else None,
        )

    def _check_alone(self, group: str | None) -> None:
        """Raise UsageError for options that named offsets exclude; --skipped-by may have GROUP, to choose one."""
        said: dict[str, object] = {"--missing": self.missing, "--skip-before": self.skip_before, "--until": self.until}
        if self.range:
            said = {"GROUP": group, "--topic": self.topic, "--skipped-by": self.skipped_by, **said}
        one, why = ("--range", "a range that is named") if self.range else ("--skipped-by", "what was skipped")
        for option, given in said.items():
            if given is not None:
                raise UsageError(f"{one} and {option}: {why} moves no group, and is whole")


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """Whether to execute, and under which conditions."""

    execute: bool = False
    dry_run: bool = False
    expect: int | None = None
    accept: list[str] | None = None
    partial: bool = False
    wait_empty: bool = False
    within: str | None = None
    reason: str | None = None

    @property
    def change(self) -> Change:
        """The same in the form of the other verbs."""
        return Change(
            self.execute,
            self.dry_run,
            self.expect,
            self.accept,
            self.reason,
            self.partial,
            self.wait_empty,
            self.within,
        )


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """Whether to execute."""

    execute: bool = False
    dry_run: bool = False

    @property
    def execution(self) -> Execution:
        """The same in the form of the other verbs."""
        return Execution(self.execute, self.dry_run)


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Which ledger."""

    ledger_topic: str | None = None
