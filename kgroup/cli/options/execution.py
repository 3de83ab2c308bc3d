"""The options of verbs that change something: whether to execute, and under which conditions."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.changes.options import ACCEPTED
from kgroup.cli.help_parts import SAFETY, accept_help

OPTIONS: dict[str, dict[str, Any]] = {
    "Execution": {
        "execute": typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, the plan is shown."),
        "dry_run": typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only show the plan, which is the default."),
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has N rows."
        ),
        "accept": typer.Option("--accept", metavar="CODE", rich_help_panel=SAFETY, help=accept_help(ACCEPTED)),
        "reason": typer.Option(
            "--reason", metavar="TEXT", rich_help_panel=SAFETY, help="Why, for the journal (KGROUP_REASON)."
        ),
    },
    "Change": {
        "partial": typer.Option(
            "--partial", rich_help_panel=SAFETY, help="Apply the rows that can be, though others can't."
        ),
        "wait_empty": typer.Option(
            "--wait-empty", rich_help_panel=SAFETY, help="Wait until the groups are empty, then go on."
        ),
        "within": typer.Option(
            "--within", metavar="DURATION", rich_help_panel=SAFETY, help="How long --wait-empty waits, 5m by default."
        ),
        "backup": typer.Option(
            "--backup",
            metavar="FILE",
            rich_help_panel=SAFETY,
            help="Write the offsets as they were to FILE, or - for stdout; reset --from-file reads it.",
        ),
    },
}
