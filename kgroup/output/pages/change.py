"""The outcome of a change to offsets and its page: the plan or its result, the refusals, the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.change_result import NOT_EMPTY, UNKNOWN, Refusal, Result
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    LabelledLine,
    Records,
    Screen,
    Style,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import Group
from kgroup.model.outcome import Document, Outcome
from kgroup.model.reporter import Reporter
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.units import human_count, plural, some_of

ROWS_ON_A_PAGE = 20
_NAMED_MEMBERS = 4
_INDENT = " " * 9
_NAMED_GROUPS = 4
_REFUSALS = 5

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("PARTITION", fold=True),
    Column("OLD", right=True),
    Column("NEW", right=True),
    Column("SKIPPED", right=True),
    Column("REPEATED", right=True),
    Column("EPOCH", right=True, wide=True),
    Column("LOG-START", right=True, wide=True),
    Column("LOG-END", right=True, wide=True),
    Column("READ BACK"),
    Column("NOTE", fold=True),
)
HEADER = (
    "group", "topic", "partition", "old", "new", "skipped", "repeated", "clamped", "note", "done", "error"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wording:
    """What a verb adds to the page.

    ``what`` and ``subject`` form the first line; ``command`` is what the user typed. ``head`` goes above the table,
    ``before_end`` between the table and the refusals; ``instead`` is a line below the command to run. ``listed`` holds
    refusal codes of groups that the table already shows. ``undo`` makes the command that undoes the change with the
    given id; ``restore`` makes the command that restores the given backup. Either is None if there is no such command.
    """

    what: str
    subject: str
    command: CommandLine
    head: tuple[Block, ...] = ()
    before_end: tuple[Block, ...] = ()
    instead: str | None = None
    verbose: bool = False
    listed: frozenset[str] = frozenset()
    undo: Callable[[str], str] | None = None
    restore: Callable[[str], str] | None = None


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
        restore=lambda backup: command(*_restore_words(result, backup)),
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


def screen(result: Result, wording: Wording, table: Sequence[Block] | None = None) -> Screen:
    """The page, empty if there are no rows and no errors; ``table`` replaces the table of partitions."""
    if not (result.plan.size or result.errors):
        return Screen(())
    blocks: list[Block] = [Title(f"{_status_word(result)}  {wording.what} {wording.subject}".rstrip()), *wording.head]
    blocks += table if table is not None else partition_table(result, verbose=wording.verbose)
    blocks += [
        LabelledLine("UNUSUAL", line) if not at else Text((" " * 9 + line,))
        for at, line in enumerate(result.plan.unusual)
    ]
    blocks += [BlankLine(), *wording.before_end] if wording.before_end else []
    refusals = list(_refusal_blocks(result, wording.listed))
    blocks += [BlankLine(), *refusals] if refusals else []
    blocks += [BlankLine()] if len(blocks) > 1 else []
    return Screen((*blocks, Text(tuple(_closing_lines(result, wording)))))


def partition_table(result: Result, *, verbose: bool) -> list[Block]:
    """One row per partition, and totals; unless ``verbose`` only 20: errors first, then the largest moves."""
    rows = list(result.plan.rows)
    shown = rows if verbose else _most_relevant(rows)
    if not shown:
        return []
    several = len({row.group for row in rows}) > 1
    skip = 0 if several else 1
    sparse = frozenset({"NOTE", "READ BACK", "SKIPPED", "REPEATED"})
    cells = [_cells(row)[skip:] for row in shown]
    blocks: list[Block] = [Table(_COLUMNS[skip:], cells, sparse=sparse)]
    if len(shown) < len(rows):
        blocks.append(Text((f"{len(rows) - len(shown)} more: --verbose",)))
    if len(rows) > 1:
        groups = f" of {plural(len({row.group for row in rows}), 'group')}" if several else ""
        moved = any(row.new and row.old for row in rows)
        skipped, repeated = result.plan.moves
        moves = f": {_records(skipped)} skipped, {human_count(repeated)} read again" if moved else ""
        blocks.append(LabelledLine("TOTAL", f"{plural(len(rows), 'partition')}{groups}{moves}"))
    return blocks


def records(result: Result) -> Records:
    """The rows for CSV."""
    return Records(
        HEADER,
        [
            (
                row.group,
                row.topic,
                row.partition,
                row.old.offset if row.old else None,
                row.new.offset if row.new and not row.error else None,
                None if row.error else row.skipped,
                None if row.error else row.repeated,
                row.clamped,
                row.note,
                None if row.done is None else str(row.done).lower(),
                row.error.code if row.error else None,
            )
            for row in result.plan.rows
        ],
    )


def _status_word(result: Result) -> str:
    if not result.executed:
        return "PLAN"
    if result.interrupted is not None:
        return "STOPPED"
    return (
        "DONE"
        if not result.errors
        else "PARTLY DONE"
        if result.changed_count
        else "UNKNOWN"
        if result.unknown
        else "FAILED"
    )


def _most_relevant(rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    if len(rows) <= ROWS_ON_A_PAGE:
        return list(rows)
    weight = {id(row): (row.error is None, -((row.skipped or 0) + (row.repeated or 0))) for row in rows}
    return sorted(rows, key=lambda row: weight[id(row)])[:ROWS_ON_A_PAGE]


def _cells(row: ChangeRow) -> tuple[Cell, ...]:
    failed = row.error is not None
    new: Cell = None if failed or row.new is None else row.new.offset
    if row.done is None:
        read_back: Cell = Styled("UNKNOWN", "bad") if row.error and row.error.code == UNKNOWN else None
    elif not row.done:
        read_back = Styled("NOT DONE", "bad")
    else:
        read_back = "yes" if row.verified else "-"
    return (
        row.group,
        row.name,
        row.old.offset if row.old else None,
        new,
        None if failed else row.skipped,
        None if failed else row.repeated,
        None if failed or row.new is None else row.new.leader_epoch,
        row.log.start if row.log else None,
        row.log.end if row.log else None,
        read_back,
        _note(row),
    )


def _note(row: ChangeRow) -> Cell:
    if row.error:
        return Styled(f"{row.error.code}: {row.error.message}", "bad")
    text = "; ".join(part for part in (row.clamped, row.note) if part)
    return Styled(text, "warn") if text else None


def _refusal_blocks(result: Result, listed: frozenset[str]) -> Iterator[Block]:
    """The refusals and errors that block the plan, or blocked its execution."""
    groups = {group.name: group for group in result.plan.groups}
    refusals = [refusal for refusal in result.refusals if refusal.group is None or refusal.error.code not in listed]
    shown = refusals[:_REFUSALS]
    for refusal in shown:
        yield from refusal_block(refusal, groups.get(refusal.group or ""))
    if len(refusals) > len(shown):
        yield Text((f"{len(refusals) - len(shown)} more groups are refused: -o json has all",))
    waiting = {
        (row.group, row.error.message): row.error
        for row in result.plan.rows
        if row.error and row.error.code in _NOT_YET
    }
    for error in waiting.values():
        yield LabelledLine("NOT YET", f"{error.message}.", _WARN)
        if error.hint:
            yield Text((f"         {error.hint}",))
    for error in result.plan.errors:
        yield LabelledLine("ERROR", f"{error.message} [{error.code}]", "bad")
        if error.details:
            yield Text(tuple(f"       {line}" for line in error.details))


def refusal_block(refusal: Refusal, group: Group | None, *advice: str) -> Iterator[Block]:
    """Why a change is refused; for a group that is not Empty, its members and ``advice``, lines of the page."""
    error = refusal.error
    if error.code != NOT_EMPTY or group is None:
        yield LabelledLine("REFUSED", f"{error.message} [{error.code}]", _BAD)
        yield Text(tuple(f"  {line}" for line in (*error.details, *((error.hint,) if error.hint else ()))))
        return
    members = group.members or ()
    named = some_of([f"{member.client_id} {member.host}" for member in members], _NAMED_MEMBERS)
    count = plural(len(members), "member") if group.members is not None else "members that you may not see"
    yield LabelledLine("NOT YET", f"{group.name} is {group.state}: {count}{f' ({named})' if named else ''}.", _WARN)
    if lines := (*((error.hint,) if error.hint else ()), *advice):
        yield Text(tuple(f"{_INDENT}{line}" for line in lines))


_ACCEPTABLE = frozenset({"active-committer", "clock-skew", "foreign-owner", "hidden-commits", "moved-since"})
_NOT_YET = frozenset({NOT_EMPTY, "subscribed"})
"""Error codes that no longer apply once the members are stopped."""

_BAD: Style = "bad"
_WARN: Style = "warn"


def _closing_lines(result: Result, wording: Wording) -> Iterator[str]:
    return _executed_lines(result, wording) if result.executed else _planned_lines(result, wording)


def _executed_lines(result: Result, wording: Wording) -> Iterator[str]:
    if result.changed_count:
        unit = "group" if result.plan.converted else "row"
        yield "Done." if not result.errors else f"Done for {plural(result.changed_count, unit)}."
        if result.id and wording.undo:
            yield f"Take it back:  {wording.undo(result.id)}"
        elif result.backup and wording.restore:
            yield "There is no journal; the backup takes it back:"
            yield f"  {wording.restore(result.backup)}"
    elif not result.unknown:
        yield "Nothing was changed."
    if result.unknown:
        yield f"It is not known whether {plural(result.unknown, 'row')} changed, or will in a moment: look what stands"
        yield "there now. What stands as it was to be, kgroup undo takes back."


def _planned_lines(result: Result, wording: Wording) -> Iterator[str]:
    if not result.errors or (result.partial and result.possible.size) or _may_be_accepted(result):
        yield "Nothing was changed. To apply:"
        yield f"  {wording.command.executing()}"
        if result.errors and result.possible.size and not result.partial:
            yield "Nothing at all is applied while a part of the plan can't be; --partial applies the rest."
    elif result.possible.size:
        yield "Nothing was changed: a part of the plan can't be applied. To apply the rest:"
        yield f"  {wording.command.with_option('--partial').executing()}"
    else:
        yield "Nothing was changed."
    if wording.instead:
        yield wording.instead


def _records(count: int) -> str:
    return f"{human_count(count)} record{'s' * (count != 1)}"


def _may_be_accepted(result: Result) -> bool:
    """Whether all errors are groups that are not empty yet, or errors that ``--accept`` overrides."""
    final = [error for error in result.errors if error.code not in _NOT_YET and error.code not in _ACCEPTABLE]
    return not final


def _restore_words(result: Result, backup: str) -> tuple[str, ...]:
    """The command that restores the backup; without a journal, kgroup's own commits look like another client's."""
    names = result.plan.affected_groups
    # Groups that have to be created again must be named.
    groups = names if result.plan.deleted or len(names) <= _NAMED_GROUPS else ("--all-groups",)
    create = ("--create",) if result.plan.deleted else ()
    accept = ("--accept", "active-committer")
    return ("reset", *groups, *create, "--from-file", backup, *accept, "--execute")
