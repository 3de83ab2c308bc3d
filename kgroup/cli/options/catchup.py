"""The options of a catch-up: which part of a gap, the safety of its execution, the ledger."""

from __future__ import annotations

from typing import Any

import typer

from kgroup.changes.options import ACCEPTED_BY_START
from kgroup.cli.help_parts import SAFETY, accept_help

PART = "Which part"
LEDGER = "Ledger"

OPTIONS: dict[str, dict[str, Any]] = {
    "GapOptions": {
        "topic": typer.Option(
            "--topic",
            metavar="TOPIC[:P,...]",
            rich_help_panel=PART,
            help="A topic, or some of its partitions: orders:0,3; may be repeated. Without it all that is committed.",
        ),
        "range": typer.Option(
            "--range",
            metavar="TOPIC:P=START-END",
            rich_help_panel=PART,
            help="These offsets, END left out, without moving any group; may be repeated.",
        ),
        "skipped_by": typer.Option(
            "--skipped-by",
            metavar="CHANGE",
            rich_help_panel=PART,
            help="What that reset or undo skipped, by the journal of this machine, without moving any group.",
        ),
        "missing": typer.Option(
            "--missing",
            metavar="earliest|latest|leave",
            rich_help_panel=PART,
            help="Where a partition without a commit begins; leave does not move it.",
        ),
        "skip_before": typer.Option(
            "--skip-before",
            metavar="TIME",
            rich_help_panel=PART,
            help="Nobody gets what is older than TIME, 2026-11-21T03:05Z; it takes --accept skip.",
        ),
        "until": typer.Option(
            "--until",
            metavar="TIME",
            rich_help_panel=PART,
            help="Release the group at the first record since TIME, and not at the head.",
        ),
    },
    "SafetyOptions": {
        "execute": typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, the plan is shown."),
        "dry_run": typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only show the plan, which is the default."),
        "expect": typer.Option(
            "--expect", metavar="N", rich_help_panel=SAFETY, help="Exit 6 unless the plan has N partitions."
        ),
        "accept": typer.Option(
            "--accept",
            metavar="CODE",
            rich_help_panel=SAFETY,
            help=accept_help(ACCEPTED_BY_START),
        ),
        "partial": typer.Option(
            "--partial", rich_help_panel=SAFETY, help="Go on with the partitions that can be caught up."
        ),
        "wait_empty": typer.Option(
            "--wait-empty", rich_help_panel=SAFETY, help="Wait until the group is empty, then go on."
        ),
        "within": typer.Option(
            "--within", metavar="DURATION", rich_help_panel=SAFETY, help="How long --wait-empty waits, 5m by default."
        ),
        "reason": typer.Option(
            "--reason", metavar="TEXT", rich_help_panel=SAFETY, help="Why, for the ledger (KGROUP_REASON)."
        ),
    },
    "ExecuteOptions": {
        "execute": typer.Option("--execute", rich_help_panel=SAFETY, help="Do it; without this, it is only said."),
        "dry_run": typer.Option("--dry-run", rich_help_panel=SAFETY, help="Only say it, which is the default."),
    },
    "LedgerOptions": {
        "ledger_topic": typer.Option(
            "--ledger-topic",
            metavar="TOPIC",
            rich_help_panel=LEDGER,
            help="The ledger, _kgroup_ledger by default (KGROUP_LEDGER_TOPIC); plans in another can't be seen.",
        ),
    },
}
