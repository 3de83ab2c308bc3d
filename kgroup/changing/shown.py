"""The outcome of a change to offsets: the same page, rows and exit code for every verb that makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kgroup.cluster.apply import ChangingCluster
from kgroup.groups.result import Result
from kgroup.outcome import Document, Outcome
from kgroup.run import Run
from kgroup.screen import Block, Records
from kgroup.screens.change import Wording, records, screen

_NAMED_GROUPS = 4


def outcome(
    run: Run,
    cluster: ChangingCluster,
    result: Result,
    wording: Wording,
    *,
    nothing: str | None,
    table: Callable[[], Sequence[Block]] | None = None,
) -> Outcome:
    """What a verb returns; ``nothing`` is noted where there is nothing to do, ``table`` stands in for the usual one."""
    if nothing and not result.plan.size and not result.errors:
        run.reporter.note(nothing)
    wording = replace(
        wording,
        undo=lambda change: run.command("undo", change, "--execute"),
        restore=lambda backup: _restore(run, result, backup),
    )
    return Outcome(
        data=result.documents,
        screen=lambda: screen(result, wording, table() if table else None),
        records=lambda: records(result),
        cluster=cluster.ref,
        errors=result.errors,
        executed=result.executed,
        decided=result.exit_code,
    )


def with_rows(outcome: Outcome, data: tuple[Document, ...], records: Callable[[], Records]) -> Outcome:
    """The same, for a verb whose subjects are not partitions."""
    return replace(outcome, data=data, records=records)


def _restore(run: Run, result: Result, backup: str) -> str:
    """The command that takes a change back with its backup; without a journal our own commits look foreign."""
    names = result.plan.concerned
    # Groups that are to come into being again have to be named.
    groups = names if result.plan.deleted or len(names) <= _NAMED_GROUPS else ("--all-groups",)
    create = ("--create",) if result.plan.deleted else ()
    accept = ("--accept", "active-committer")
    return run.command("reset", *groups, *create, "--from-file", backup, *accept, "--execute")
