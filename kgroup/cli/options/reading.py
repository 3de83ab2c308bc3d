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
            help=("Refresh until q quits; p pauses. In a pipe, print one line of JSON per refresh."),
        ),
        "every": typer.Option(
            "--every", metavar="DURATION", rich_help_panel=WHAT, help="Interval of --watch (default: 2s)."
        ),
    },
    "LogBounds": {
        "scan_time": typer.Option(
            "--scan-time",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help="Time limit for scanning __consumer_offsets (default: 1m; of describe without --from-log: 1s).",
        ),
        "scan_bytes": typer.Option(
            "--scan-bytes",
            metavar="SIZE",
            rich_help_panel=WHAT,
            help="Size limit for scanning __consumer_offsets: 500MB, 2GiB (default: no limit).",
        ),
    },
    "AsOf": {
        "as_of": typer.Option(
            "--as-of",
            metavar="TIME|AGO",
            rich_help_panel=WHAT,
            help=(
                "Read the offsets of that time from __consumer_offsets: 2026-11-21T03:05Z, 03:05Z, or 5m "
                "for 5 minutes ago."
            ),
        ),
    },
    "FromLog": {
        "from_log": typer.Option(
            "--from-log",
            rich_help_panel=WHAT,
            help=("Read groups from __consumer_offsets, for when the coordinator is down or stuck loading."),
        ),
    },
}
