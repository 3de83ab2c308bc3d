"""The options that choose groups."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import SAFETY, WHICH

OPTIONS: dict[str, dict[str, Any]] = {
    "Groups": {
        "names": typer.Argument(metavar="[GROUP]...", help="Groups by name.", show_default=False),
        "group": typer.Option("--group", metavar="GROUP", rich_help_panel=WHICH, help="A group; may be repeated."),
        "all_groups": typer.Option("--all-groups", "-A", rich_help_panel=WHICH, help="Every group."),
        "regex": typer.Option(
            "--regex",
            metavar="PATTERN",
            rich_help_panel=WHICH,
            help="Groups whose whole name matches.",
        ),
        "in_state": typer.Option(
            "--in-state", metavar="STATE", rich_help_panel=WHICH, help="Only groups in this state (or these)."
        ),
        "type": typer.Option(
            "--type", metavar="TYPE", rich_help_panel=WHICH, help="Only classic, consumer, share or streams."
        ),
    },
    "Selection": {
        "topic": typer.Option(
            "--topic",
            metavar="TOPIC",
            rich_help_panel=WHICH,
            help="Only groups that commit to, or are assigned, this topic.",
        ),
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless exactly N groups are chosen."
        ),
    },
}
