"""The rights that each verb needs: the table of ``kgroup help rights`` and of the manual; tested on a secured broker.

G is the group, T its topics. READ, WRITE and DELETE imply DESCRIBE.
"""

from __future__ import annotations

RIGHTS: tuple[tuple[str, str, str], ...] = (
    (
        "list",
        "DESCRIBE G; or DESCRIBE cluster: all groups, without their members (exit code 7)",
        "both: all groups, with members; READ __consumer_offsets: how long they are idle",
    ),
    (
        "describe, lag, wait, export, simulate",
        "DESCRIBE G; DESCRIBE T",
        "READ __consumer_offsets: generation, status, rates, session timeouts; READ T: ages; DESCRIBE_CONFIGS T: "
        "retention left; DESCRIBE other groups: who reads the same topics; READ ledger: pending catch-ups",
    ),
    (
        "doctor",
        "DESCRIBE G; DESCRIBE T",
        "the same; DESCRIBE_CONFIGS G; DESCRIBE and DESCRIBE_CONFIGS cluster: rules that are not checked without",
    ),
    (
        "peek",
        "READ T; with a group DESCRIBE G",
        "READ __consumer_offsets: which partitions are stuck",
    ),
    (
        "history, --from-log, --as-of",
        "DESCRIBE G; READ __consumer_offsets",
        "DESCRIBE T: lag; DESCRIBE_CONFIGS G: timeouts; READ ledger: finished catch-ups, for --commits",
    ),
    (
        "reset",
        "READ G; READ T",
        "READ __consumer_offsets: clients that commit without being members; READ ledger: pending catch-ups; "
        "DESCRIBE OTHER: --from-group OTHER; WRITE topic: --save-skipped topic:NAME",
    ),
    (
        "delete",
        "DELETE G; DESCRIBE T; READ __consumer_offsets, or DESCRIBE Topic * and cluster: that no commits are hidden",
        "READ G, READ T: undo",
    ),
    ("delete-offsets", "DELETE G; READ T", "READ G: undo"),
    ("evict", "READ G; DESCRIBE T", ""),
    (
        "undo",
        "READ G; READ T; DELETE G where there was no commit before",
        "of migrate, where it set configurations: DESCRIBE_CONFIGS G, ALTER_CONFIGS G",
    ),
    (
        "migrate",
        "READ G; READ T",
        "ALTER_CONFIGS G: --session-timeout, --heartbeat-interval; READ __consumer_offsets, DESCRIBE and "
        "DESCRIBE_CONFIGS cluster: checks that are unknown without",
    ),
    (
        "catchup start, resume",
        "READ G; READ T; DESCRIBE __consumer_offsets; READ, WRITE, DESCRIBE_CONFIGS ledger (CREATE once); "
        "WRITE transactional ids kgroup-catchup-*; WRITE on --to-topic and --dead-letter-topic",
        "READ __consumer_offsets: who commits, the evidence after a crash; DESCRIBE_CONFIGS T, --to-topic: retention "
        "and size checks; DESCRIBE cluster",
    ),
    (
        "catchup cancel",
        "READ, WRITE ledger; WRITE transactional ids kgroup-catchup-*; of a released plan READ G; READ T",
        "READ __consumer_offsets: the evidence after a crash",
    ),
    ("catchup stop, prune", "READ, WRITE ledger; WRITE transactional ids kgroup-catchup-*", ""),
    ("catchup list, show", "READ ledger", ""),
)
"""(verbs, the rights that they need at least, what further rights add)."""
