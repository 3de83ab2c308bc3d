"""The options that choose groups."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import SAFETY, WHICH

OPTIONS: dict[str, dict[str, Any]] = {
    "Groups": {
        "names": typer.Argument(metavar="[GROUP]...", help="Groups by name.", show_default=False),
        "group": typer.Option("--group", metavar="GROUP", rich_help_panel=WHICH, help="A group (repeatable)."),
        "all_groups": typer.Option("--all-groups", "-A", rich_help_panel=WHICH, help="All groups."),
        "regex": typer.Option(
            "--regex",
            metavar="PATTERN",
            rich_help_panel=WHICH,
            help="Groups whose whole name matches the pattern.",
        ),
        "in_state": typer.Option(
            "--in-state",
            metavar="STATE",
            rich_help_panel=WHICH,
            help="Only groups in this state, or in one of several: Stable,Empty.",
        ),
        "type": typer.Option(
            "--type",
            metavar="TYPE",
            rich_help_panel=WHICH,
            help="Only groups of this type: classic, consumer, share, streams.",
        ),
    },
    "Selection": {
        "topic": typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            rich_help_panel=WHICH,
            help="Only groups that commit to this topic or these partitions, or are assigned them: orders, "
            "orders:0,1 (repeatable).",
        ),
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless exactly N groups are chosen."
        ),
    },
}
