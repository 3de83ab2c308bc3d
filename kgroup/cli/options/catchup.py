"""The options of a catch-up: which part of a gap, the safety of its execution, the ledger."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from kgroup.cli.panels import FILE_SINK, safety_option

part_option = partial(typer.Option, rich_help_panel="Which part")
ledger_option = partial(typer.Option, rich_help_panel="Ledger")

OPTIONS: dict[str, dict[str, Any]] = {
    "GapOptions": {
        "topic": part_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="A topic, or some of its partitions: orders:0,3 (repeatable; default: all committed partitions).",
        ),
        "range": part_option(
            "--range",
            metavar="TOPIC:P=START-END",
            help="Replay these offsets, without END, and move no group (repeatable).",
        ),
        "skipped_by": part_option(
            "--skipped-by",
            metavar="CHANGE",
            help="Replay what this reset or undo skipped, by the journal of this machine, and move no group.",
        ),
        "from_dead_letters": part_option(
            "--from-dead-letters",
            metavar="TOPIC",
            help="Deliver the dead letters of this topic again, and move no group; --topic: only of these sources.",
        ),
        "missing": part_option(
            "--missing",
            metavar="earliest|latest|leave",
            help="Where a partition without a commit starts; leave does not move it.",
        ),
        "skip_before": part_option(
            "--skip-before",
            metavar="TIME",
            help="Skip records older than TIME: 2026-11-21T03:05Z. Requires --accept skip.",
        ),
        "until": part_option(
            "--until",
            metavar="TIME",
            help="Release the group at the first record since TIME, instead of the log end; only older dead letters.",
        ),
        "since": part_option("--since", metavar="DURATION|TIME", help="Only dead letters from then on."),
        "error": part_option(
            "--error", metavar="TEXT", help="Only dead letters with TEXT in their error or its message (repeatable)."
        ),
        "key": part_option("--key", metavar="KEY", help="Only dead letters with this key (repeatable)."),
        "max_attempts": part_option(
            "--max-attempts",
            metavar="N",
            help="Leave a dead letter that came back so often, by its header kgroup.redrives (default: 3).",
        ),
        "load": part_option(
            "--load",
            metavar="FILE",
            help="First write the records of FILE, saved by reset --save-skipped, to that topic; each of them once.",
        ),
    },
    "SafetyOptions": {
        "expect": safety_option("--expect", metavar="N", help="Exit 6 unless the plan has exactly N partitions."),
        "reason": safety_option("--reason", metavar="TEXT", help="The reason, for the ledger (KGROUP_REASON)."),
        "partial": safety_option(
            "--partial", help="Continue with the partitions that can be caught up, skip the others."
        ),
        "backup": None,
        "if_behind": safety_option(
            "--if-behind",
            metavar="10m|100k",
            help="Only if a partition is more than this behind.",
        ),
        "if_empty": safety_option("--if-empty", help="If the group has members: a note, and exit 0."),
        "file_sink": FILE_SINK,
    },
    "ExecuteOptions": {"expect": None, "accept": None, "reason": None},
    "LedgerOptions": {
        "ledger_topic": ledger_option(
            "--ledger-topic",
            metavar="TOPIC",
            help="The ledger; plans in another ledger are not visible (KGROUP_LEDGER_TOPIC; default: _kgroup_ledger).",
        ),
    },
}
