"""The outcome of a change to offsets: the same page, rows and exit code for every verb that makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kgroup.groups.change_result import Result
from kgroup.model.blocks import Block, Records
from kgroup.model.outcome import Document, Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.change import Wording, records, screen
from kgroup.support.cluster_ref import ClusterRef

_NAMED_GROUPS = 4


def outcome(
    result: Result,
    wording: Wording,
    cluster: ClusterRef,
    reporter: Reporter,
    command: Callable[..., str],
    *,
    nothing: str | None,
    table: Callable[[], Sequence[Block]] | None = None,
) -> Outcome:
    """What a verb returns; ``nothing`` is noted where there is nothing to do, ``table`` stands in for the usual one.

    ``command`` makes a command line of words, with the connection as it was typed.
    """
    if nothing and not result.plan.size and not result.errors:
        reporter.note(nothing)
    wording = replace(
        wording,
        undo=lambda change: command("undo", change, "--execute"),
        restore=lambda backup: command(*_restore(result, backup)),
    )
    return Outcome(
        data=result.documents,
        screen=lambda: screen(result, wording, table() if table else None),
        records=lambda: records(result),
        cluster=cluster,
        errors=result.errors,
        executed=result.executed,
        decided=result.exit_code,
    )


def with_rows(outcome: Outcome, data: tuple[Document, ...], records: Callable[[], Records]) -> Outcome:
    """The same, for a verb whose subjects are not partitions."""
    return replace(outcome, data=data, records=records)


def _restore(result: Result, backup: str) -> tuple[str, ...]:
    """The command that takes a change back with its backup; without a journal our own commits look foreign."""
    names = result.plan.concerned
    # Groups that are to come into being again have to be named.
    groups = names if result.plan.deleted or len(names) <= _NAMED_GROUPS else ("--all-groups",)
    create = ("--create",) if result.plan.deleted else ()
    accept = ("--accept", "active-committer")
    return ("reset", *groups, *create, "--from-file", backup, *accept, "--execute")
