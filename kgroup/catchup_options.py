"""The options of ``kgroup catchup``: which part of a gap, how carefully, which ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kgroup.catchup.choice import Missing, Wish, parse_ranges
from kgroup.changing.execution import ACCEPTED_BY_START, Change, Execution
from kgroup.clock import utc_now
from kgroup.errors import UsageError
from kgroup.groups.selection import check_topics
from kgroup.groups.targets import parse_moment, parse_topics
from kgroup.help_parts import SAFETY, accept_help

PART = "Which part"
LEDGER = "Ledger"


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of the gap is meant."""

    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:P,...]",
            rich_help_panel=PART,
            help="A topic, or some of its partitions: orders:0,3; may be repeated. Without it all that is committed.",
        ),
    ] = None
    range: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="TOPIC:P=START-END",
            rich_help_panel=PART,
            help="These offsets, END left out, without moving any group; may be repeated.",
        ),
    ] = None
    skipped_by: Annotated[
        str | None,
        typer.Option(
            "--skipped-by",
            metavar="CHANGE",
            rich_help_panel=PART,
            help="What that reset or undo skipped, by the journal of this machine, without moving any group.",
        ),
    ] = None
    missing: Annotated[
        Missing | None,
        typer.Option(
            "--missing",
            metavar="earliest|latest|leave",
            rich_help_panel=PART,
            help="Where a partition without a commit begins; leave does not move it.",
        ),
    ] = None
    skip_before: Annotated[
        str | None,
        typer.Option(
            "--skip-before",
            metavar="TIME",
            rich_help_panel=PART,
            help="Nobody gets what is older than TIME, 2026-11-21T03:05Z; it takes --accept skip.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            rich_help_panel=PART,
            help="Release the group at the first record since TIME, and not at the head.",
        ),
    ] = None

    def wish(self, group: str | None) -> Wish:
        """The same, read. Raises UsageError for what has no meaning."""
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
        return Wish(
            topics,
            parse_ranges(self.range or ()),
            self.missing,
            parse_moment(self.skip_before, now, "--skip-before") if self.skip_before is not None else None,
            parse_moment(self.until, now, "--until") if self.until is not None else None,
        )

    def _check_alone(self, group: str | None) -> None:
        """Refuse what has no meaning beside offsets that are named; a change may have moved several groups."""
        said: dict[str, object] = {"--missing": self.missing, "--skip-before": self.skip_before, "--until": self.until}
        if self.range:
            said = {"GROUP": group, "--topic": self.topic, "--skipped-by": self.skipped_by, **said}
        one, why = ("--range", "a range that is named") if self.range else ("--skipped-by", "what was skipped")
        for option, given in said.items():
            if given is not None:
                raise UsageError(f"{one} and {option}: {why} moves no group, and is whole")


@dataclass(frozen=True, slots=True)
class Care:
    """Whether it is done, and what may stand in its way."""

    execute: Annotated[
        bool, typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, the plan is shown.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only show the plan, which is the default.")
    ] = False
    expect: Annotated[
        int | None,
        typer.Option("--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has N partitions."),
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE",
            rich_help_panel=SAFETY,
            help=accept_help(ACCEPTED_BY_START),
        ),
    ] = None
    partial: Annotated[
        bool,
        typer.Option("--partial", rich_help_panel=SAFETY, help="Go on with the partitions that can be caught up."),
    ] = False
    wait_empty: Annotated[
        bool, typer.Option("--wait-empty", rich_help_panel=SAFETY, help="Wait until the group is empty, then go on.")
    ] = False
    within: Annotated[
        str | None,
        typer.Option(
            "--within", metavar="DURATION", rich_help_panel=SAFETY, help="How long --wait-empty waits, 5m by default."
        ),
    ] = None
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", rich_help_panel=SAFETY, help="Why, for the ledger (KGROUP_REASON)."),
    ] = None

    @property
    def change(self) -> Change:
        """The same, as other verbs have it."""
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
class Decided:
    """Whether it is done."""

    execute: Annotated[
        bool, typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, it is only said.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only say it, which is the default.")
    ] = False

    @property
    def execution(self) -> Execution:
        """The same, as other verbs have it."""
        return Execution(self.execute, self.dry_run)


@dataclass(frozen=True, slots=True)
class Books:
    """Which ledger."""

    ledger_topic: Annotated[
        str | None,
        typer.Option(
            "--ledger-topic",
            metavar="TOPIC",
            rich_help_panel=LEDGER,
            help="The ledger, _kgroup_ledger by default (KGROUP_LEDGER_TOPIC); plans in another can't be seen.",
        ),
    ] = None
