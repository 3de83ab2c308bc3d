"""The options of a catch-up: which part of a gap, the safety of its execution, the ledger."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.cli.help_parts import SAFETY

PART = "Which part"
LEDGER = "Ledger"

OPTIONS: dict[str, dict[str, Any]] = {
    "GapOptions": {
        "topic": typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            rich_help_panel=PART,
            help=("A topic, or some of its partitions: orders:0,3 (repeatable; default: all committed partitions)."),
        ),
        "range": typer.Option(
            "--range",
            metavar="TOPIC:P=START-END",
            rich_help_panel=PART,
            help="Replay these offsets, without END, and move no group (repeatable).",
        ),
        "skipped_by": typer.Option(
            "--skipped-by",
            metavar="CHANGE",
            rich_help_panel=PART,
            help=("Replay what this reset or undo skipped, by the journal of this machine, and move no group."),
        ),
        "missing": typer.Option(
            "--missing",
            metavar="earliest|latest|leave",
            rich_help_panel=PART,
            help="Where a partition without a commit starts; leave does not move it.",
        ),
        "skip_before": typer.Option(
            "--skip-before",
            metavar="TIME",
            rich_help_panel=PART,
            help="Skip records older than TIME: 2026-11-21T03:05Z. Requires --accept skip.",
        ),
        "until": typer.Option(
            "--until",
            metavar="TIME",
            rich_help_panel=PART,
            help="Release the group at the first record since TIME, instead of the log end.",
        ),
    },
    "SafetyOptions": {
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has exactly N partitions."
        ),
        "reason": typer.Option(
            "--reason", metavar="TEXT", rich_help_panel=SAFETY, help="The reason, for the ledger (KGROUP_REASON)."
        ),
        "partial": typer.Option(
            "--partial",
            rich_help_panel=SAFETY,
            help="Continue with the partitions that can be caught up, skip the others.",
        ),
        "backup": None,
    },
    "ExecuteOptions": {"expect": None, "accept": None, "reason": None},
    "LedgerOptions": {
        "ledger_topic": typer.Option(
            "--ledger-topic",
            metavar="TOPIC",
            rich_help_panel=LEDGER,
            help=(
                "The ledger; plans in another ledger are not visible (KGROUP_LEDGER_TOPIC; default: _kgroup_ledger)."
            ),
        ),
    },
}
