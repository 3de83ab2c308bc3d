"""The options of verbs that change something: whether to execute, and under which conditions."""

from __future__ import annotations

from typing import Any

from kgroup.cli.panels import safety_option

OPTIONS: dict[str, dict[str, Any]] = {
    "Execution": {
        "execute": safety_option("--execute", help="Apply the change. Without it, the change is only shown."),
        "dry_run": safety_option("--dry-run", help="Show the change only (the default)."),
        "expect": safety_option("--expect", metavar="N", help="Exit 6 unless the plan has exactly N rows."),
        "accept": safety_option("--accept", metavar="CODE", help="Override one refusal (repeatable)."),
        "reason": safety_option("--reason", metavar="TEXT", help="The reason, for the journal (KGROUP_REASON)."),
    },
    "Change": {
        "partial": safety_option("--partial", help="Apply the rows that can be applied, skip the others."),
        "wait_empty": safety_option("--wait-empty", help="With --execute, wait until the groups are empty."),
        "within": safety_option("--within", metavar="DURATION", help="Time limit of --wait-empty (default: 5m)."),
        "backup": safety_option(
            "--backup", metavar="FILE", help="Write the old offsets to FILE (- is stdout), for reset --from-file."
        ),
    },
}
