"""The options of verbs that only read: repeatedly, and from ``__consumer_offsets``."""

from __future__ import annotations

from typing import Any

from kgroup.cli.panels import what_option

OPTIONS: dict[str, dict[str, Any]] = {
    "Watch": {
        "watch": what_option(
            "--watch", "-w", help="Refresh until q quits; p pauses. In a pipe, print one line of JSON per refresh."
        ),
        "every": what_option("--every", metavar="DURATION", help="Interval of --watch (default: 2s)."),
    },
    "LogBounds": {
        "scan_time": what_option(
            "--scan-time",
            metavar="DURATION",
            help="Time limit for scanning __consumer_offsets (default: 1m; of describe without --from-log: 1s).",
        ),
        "scan_bytes": what_option(
            "--scan-bytes",
            metavar="SIZE",
            help="Size limit for scanning __consumer_offsets: 500MB, 2GiB (default: no limit).",
        ),
    },
    "AsOf": {
        "as_of": what_option(
            "--as-of",
            metavar="TIME|AGO",
            help=(
                "Read the offsets of that time from __consumer_offsets: 2026-11-21T03:05Z, 03:05Z, or 5m "
                "for 5 minutes ago."
            ),
        ),
    },
    "FromLog": {
        "from_log": what_option(
            "--from-log", help="Read groups from __consumer_offsets, for when the coordinator is down or stuck loading."
        ),
    },
}
