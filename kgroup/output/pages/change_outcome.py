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
    """The outcome of a change; ``nothing`` is noted if there is nothing to do, ``table`` replaces the usual table.

    ``command`` makes a command line from words, with the connection options as the user typed them.
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
    """The same outcome with other data and rows, for a verb whose subjects are not partitions."""
    return replace(outcome, data=data, records=records)


def _restore(result: Result, backup: str) -> tuple[str, ...]:
    """The command that restores the backup; without a journal, kgroup's own commits look like another client's."""
    names = result.plan.concerned
    # Groups that have to be created again must be named.
    groups = names if result.plan.deleted or len(names) <= _NAMED_GROUPS else ("--all-groups",)
    create = ("--create",) if result.plan.deleted else ()
    accept = ("--accept", "active-committer")
    return ("reset", *groups, *create, "--from-file", backup, *accept, "--execute")
