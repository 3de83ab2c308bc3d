"""The options that choose groups."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.panels import safety_option, which_option

OPTIONS: dict[str, dict[str, Any]] = {
    "Groups": {
        "names": typer.Argument(metavar="[GROUP]...", help="Groups by name.", show_default=False),
        "group": which_option("--group", metavar="GROUP", help="A group (repeatable)."),
        "all_groups": which_option("--all-groups", "-A", help="All groups."),
        "regex": which_option("--regex", metavar="PATTERN", help="Groups whose whole name matches the pattern."),
        "in_state": which_option(
            "--in-state", metavar="STATE", help="Only groups in this state, or in one of several: Stable,Empty."
        ),
        "type": which_option(
            "--type", metavar="TYPE", help="Only groups of this type: classic, consumer, share, streams."
        ),
    },
    "Selection": {
        "topic": which_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help=(
                "Only groups that commit to this topic or these partitions, or are assigned them: orders, "
                "orders:0,1 (repeatable)."
            ),
        ),
        "expect": safety_option("--expect", metavar="N", help="Exit 6 unless exactly N groups are chosen."),
    },
}
