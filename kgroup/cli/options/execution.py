"""The options of verbs that change something: whether to execute, and under which conditions."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import SAFETY

OPTIONS: dict[str, dict[str, Any]] = {
    "Execution": {
        "execute": typer.Option(
            "--execute", rich_help_panel=SAFETY, help="Apply the change. Without it, the change is only shown."
        ),
        "dry_run": typer.Option("--dry-run", rich_help_panel=SAFETY, help="Show the change only (the default)."),
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has exactly N rows."
        ),
        "accept": typer.Option(
            "--accept", metavar="CODE", rich_help_panel=SAFETY, help="Override one refusal (repeatable)."
        ),
        "reason": typer.Option(
            "--reason", metavar="TEXT", rich_help_panel=SAFETY, help="The reason, for the journal (KGROUP_REASON)."
        ),
    },
    "Change": {
        "partial": typer.Option(
            "--partial", rich_help_panel=SAFETY, help="Apply the rows that can be applied, skip the others."
        ),
        "wait_empty": typer.Option(
            "--wait-empty", rich_help_panel=SAFETY, help="With --execute, wait until the groups are empty."
        ),
        "within": typer.Option(
            "--within", metavar="DURATION", rich_help_panel=SAFETY, help="Time limit of --wait-empty (default: 5m)."
        ),
        "backup": typer.Option(
            "--backup",
            metavar="FILE",
            rich_help_panel=SAFETY,
            help="Write the old offsets to FILE (- is stdout), for reset --from-file.",
        ),
    },
}
