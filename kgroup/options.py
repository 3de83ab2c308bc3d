"""The options that verbs share, as dataclasses.

A verb asks for them by type: ``def describe(run: Run, which: Selection)``. ``cli`` turns each field into an
option and hands the verb the assembled value. Connection and output options belong to every verb.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kgroup.help_parts import SAFETY, WHAT, WHICH, accept_help

ACCEPTED = ("active-committer", "clock-skew", "foreign-owner", "hidden-commits", "moved-since")
"""The refusals that ``--accept`` passes; the broker's own, not-empty, can't be passed."""

ACCEPTED_BY_START = ("active-committer", "foreign-owner", "not-in-ledger", "skip", "twice")
ACCEPTED_BY_CANCEL = ("twice",)
"""The same of ``catchup start`` and ``catchup cancel``."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups, chosen the one way."""

    names: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups by name.", show_default=False)
    ] = None
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", rich_help_panel=WHICH, help="A group; may be repeated."),
    ] = None
    all_groups: Annotated[bool, typer.Option("--all-groups", "-A", rich_help_panel=WHICH, help="Every group.")] = False
    regex: Annotated[
        str | None,
        typer.Option(
            "--regex",
            metavar="PATTERN",
            rich_help_panel=WHICH,
            help="Groups whose whole name matches.",
        ),
    ] = None
    in_state: Annotated[
        list[str] | None,
        typer.Option(
            "--in-state", metavar="STATE", rich_help_panel=WHICH, help="Only groups in this state (or these)."
        ),
    ] = None
    type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", rich_help_panel=WHICH, help="Only classic, consumer, share or streams."),
    ] = None


@dataclass(frozen=True, slots=True)
class Selection(Groups):
    """Which groups a verb looks at."""

    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            rich_help_panel=WHICH,
            help="Only groups that commit to, or are assigned, this topic.",
        ),
    ] = None
    expect: Annotated[
        int | None,
        typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless exactly N groups are chosen."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Whether a verb that looks goes on looking, and how often."""

    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            rich_help_panel=WHAT,
            help="Look again and again: q quits, p pauses. In a pipe, a line of JSON for each look.",
        ),
    ] = False
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="DURATION", rich_help_panel=WHAT, help="How often --watch looks, 2s by default."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of ``__consumer_offsets`` a verb reads at most."""

    log_budget: Annotated[
        str | None,
        typer.Option(
            "--log-budget",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help="How long to read __consumer_offsets at most, 1m by default.",
        ),
    ] = None
    log_bytes: Annotated[
        str | None,
        typer.Option(
            "--log-bytes",
            metavar="SIZE",
            rich_help_panel=WHAT,
            help="How much of it to read at most: 500MB, 2GiB; as much as there is by default.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """Of which moment a group's offsets are meant."""

    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            rich_help_panel=WHAT,
            help="The offsets as they stood then, out of __consumer_offsets: 2026-11-21T03:05Z, or 03:05Z.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class FromLog(LogBounds):
    """Whether groups are read out of ``__consumer_offsets`` instead of being asked for."""

    from_log: Annotated[
        bool,
        typer.Option(
            "--from-log",
            rich_help_panel=WHAT,
            help="Read the groups out of __consumer_offsets: for when their coordinator is down or loads for ever.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Execution:
    """Whether a verb that changes something does it, or only shows its plan."""

    execute: Annotated[
        bool, typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, the plan is shown.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only show the plan, which is the default.")
    ] = False
    expect: Annotated[
        int | None,
        typer.Option("--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has N rows."),
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE",
            rich_help_panel=SAFETY,
            help=accept_help(ACCEPTED),
        ),
    ] = None
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", rich_help_panel=SAFETY, help="Why, for the journal (KGROUP_REASON)."),
    ] = None


@dataclass(frozen=True, slots=True)
class Change(Execution):
    """How a verb that changes offsets goes about it."""

    partial: Annotated[
        bool,
        typer.Option("--partial", rich_help_panel=SAFETY, help="Apply the rows that can be, though others can't."),
    ] = False
    wait_empty: Annotated[
        bool,
        typer.Option("--wait-empty", rich_help_panel=SAFETY, help="Wait until the groups are empty, then go on."),
    ] = False
    within: Annotated[
        str | None,
        typer.Option(
            "--within", metavar="DURATION", rich_help_panel=SAFETY, help="How long --wait-empty waits, 5m by default."
        ),
    ] = None
    backup: Annotated[
        str | None,
        typer.Option(
            "--backup",
            metavar="FILE",
            rich_help_panel=SAFETY,
            help="Write the offsets as they were to FILE, or - for stdout; reset --from-file reads it.",
        ),
    ] = None
