"""The options of verbs that only read: repeatedly, and from ``__consumer_offsets``."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import WHAT

OPTIONS: dict[str, dict[str, Any]] = {
    "Watch": {
        "watch": typer.Option(
            "--watch",
            "-w",
            rich_help_panel=WHAT,
            help="Look again and again: q quits, p pauses. In a pipe, a line of JSON for each look.",
        ),
        "every": typer.Option(
            "--every", metavar="DURATION", rich_help_panel=WHAT, help="How often --watch looks, 2s by default."
        ),
    },
    "LogBounds": {
        "log_budget": typer.Option(
            "--log-budget",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help="How long to read __consumer_offsets at most, 1m by default.",
        ),
        "log_bytes": typer.Option(
            "--log-bytes",
            metavar="SIZE",
            rich_help_panel=WHAT,
            help="How much of it to read at most: 500MB, 2GiB; as much as there is by default.",
        ),
    },
    "AsOf": {
        "as_of": typer.Option(
            "--as-of",
            metavar="TIME",
            rich_help_panel=WHAT,
            help="The offsets as they stood then, out of __consumer_offsets: 2026-11-21T03:05Z, or 03:05Z.",
        ),
    },
    "FromLog": {
        "from_log": typer.Option(
            "--from-log",
            rich_help_panel=WHAT,
            help="Read the groups out of __consumer_offsets: for when their coordinator is down or loads for ever.",
        ),
    },
}
