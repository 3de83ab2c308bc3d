"""The outcome of a change to offsets and its page: the plan or its result, the refusals, the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest

import msgspec
from msgspec.structs import replace

from kgroup.groups.active_committers import ACTIVE_COMMITTER
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import UNKNOWN, OffsetChange, Refusal, Result
from kgroup.model.accept_codes import ACCEPTED
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
from kgroup.model.groups import Group, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.model.streaming_query import is_query
from kgroup.output.pages.share_changes import share_blocks
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import NOT_EMPTY, SUBSCRIBED
from kgroup.support.hint import Hint
from kgroup.support.units import human_count, plural, some_of

ROWS_ON_A_PAGE = 20
_NAMED_MEMBERS = 4
_INDENT = " " * 9
_MEMBER_LINES = 6
_NAMED_GROUPS = 4
_REFUSALS = 5

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("PARTITION", fold=True),
    Column("OLD-OFFSET", right=True),
    Column("NEW-OFFSET", right=True),
    Column("SKIPPED", right=True),
    Column("REPEATED", right=True),
    Column("LEADER-EPOCH", right=True, wide=True),
    Column("LOG-START", right=True, wide=True),
    Column("LOG-END", right=True, wide=True),
    Column("READ-BACK"),
    Column("NOTE", fold=True),
)
HEADER = (
    "group", "topic", "partition", "old_offset", "new_offset", "skipped_count", "repeated_count", "clamped_reason",
    "note", "done", "error_code", "error_message",
)  # fmt: skip


class Wording(msgspec.Struct, frozen=True):
    """What a verb adds to the page."""

    what: str
    subject: str
    """The first line is ``what`` and ``subject``."""
    command: CommandLine
    """What the user typed."""
    head: tuple[Block, ...] = ()
    """Above the table."""
    before_end: tuple[Block, ...] = ()
    """Between the table and the refusals."""
    instead: str | None = None
    """A line below the command to run."""
    apply: str = "To apply"
    """The words before the command to run."""
    verbose: bool = False
    listed: frozenset[str] = frozenset()
    """Refusal codes of groups that the table already shows."""
    start: str | None = None
    """What follows a change that was made (``Start the consumers``), None if nothing does."""
    wait: Callable[[Sequence[str], Iterable[str]], str] | None = None
    """Makes the command that waits for the given groups, with the types that they were converted to."""
    undo: Callable[[str], str] | None = None
    """Makes the command that undoes the change with the given id."""
    undo_when: str | None = None
    """The condition of ``undo`` (``once g is Empty``), None without one."""
    restore: Callable[[str], str] | None = None
    """Makes the command that restores the given backup."""


def start_text(plan: ChangePlan) -> str:
    """What follows a change of offsets: the start of what was stopped, after a migration with its protocol."""
    if all(map(is_query, plan.affected_groups)):
        return "Start the query"
    types = set(plan.converted.values())
    return f"Start the consumers with group.protocol={types.pop()}" if len(types) == 1 else "Start the consumers"


def outcome(
    result: Result,
    wording: Wording,
    cluster: ClusterRef,
    reporter: Reporter,
    command: Callable[..., str],
    *,
    nothing: str | None,
    table: Callable[[], Sequence[Block]] | None = None,
    item: Callable[[ChangeRow, str | None], OffsetChange] = OffsetChange.of,
) -> Outcome:
    """The outcome of a change; ``nothing`` is noted if there is nothing to do, ``table`` replaces the usual table.

    ``item`` makes the JSON of a row with the id of the change.

    ``command`` makes a command line from words, with the connection options as the user typed them.
    """
    if nothing and not result.plan.size and not result.errors:
        reporter.note(nothing)
    wording = replace(
        wording,
        wait=lambda groups, types: command("wait", *_wait_words(groups, types)),
        undo=lambda change: command("undo", change, *(("--wait-empty",) if wording.undo_when else ()), "--execute"),
        restore=lambda backup: command(*_restore_words(result, backup)),
    )
    return Outcome(
        data=tuple(partial(item, row, result.id) for row in result.plan.rows),
        screen=lambda: screen(result, wording, table() if table else None),
        records=lambda: records(result),
        cluster=cluster,
        errors=result.errors,
        executed=result.executed,
        decided=result.exit_code,
        on_screen=_errors_on_screen(result, wording.listed),
    )


def with_rows(outcome: Outcome, data: tuple[msgspec.Struct, ...], header: tuple[str, ...]) -> Outcome:
    """The outcome with other data and rows, for a verb whose subjects are not partitions."""
    return replace(outcome, data=data, records=lambda: Records.of(header, data))


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
    blocks += [] if result.executed else share_blocks(result.plan)
    blocks += [BlankLine(), *wording.before_end] if wording.before_end else []
    refusals = list(_refusal_blocks(result, wording.listed))
    blocks += [BlankLine(), *refusals] if refusals else []
    blocks += [BlankLine()] if len(blocks) > 1 else []
    return Screen((*blocks, Text(tuple(_closing_lines(result, wording)))))


def partition_table(result: Result, *, verbose: bool) -> list[Block]:
    """One row per partition, and totals; unless ``verbose`` only 20: errors first, then the largest moves."""
    rows = result.plan.rows
    shown = rows if verbose else _most_relevant(rows)
    if not shown:
        return []
    several = len({row.group for row in rows}) > 1
    skip = 0 if several else 1
    sparse = frozenset({"NOTE", "READ-BACK", "SKIPPED", "REPEATED"})
    cells = [_cells(row)[skip:] for row in shown]
    blocks: list[Block] = [Table(_COLUMNS[skip:], cells, sparse=sparse)]
    if len(shown) < len(rows):
        blocks.append(Text((f"{len(rows) - len(shown)} more: --verbose",)))
    return [*blocks, *total_line(result)]


def total_line(result: Result) -> Iterator[Block]:
    """The number of partitions and groups, and what they skip and repeat; none for a single partition."""
    rows = result.plan.rows
    if len(rows) > 1:
        group_count = len({row.group for row in rows})
        groups = f" of {plural(group_count, 'group')}" if group_count > 1 else ""
        moved = any(row.skipped is not None for row in rows)
        skipped, repeated = result.plan.moves
        moves = f": {_offsets(skipped)} skipped, {human_count(repeated)} repeated" if moved else ""
        yield LabelledLine("TOTAL", f"{plural(len(rows), 'partition')}{groups}{moves}")


def records(result: Result) -> Records:
    # A row with an error has no new offset in CSV.
    rows = (replace(row, new=None) if row.error else row for row in result.plan.rows)
    return Records.of(HEADER, (OffsetChange.of(row, result.id) for row in rows))


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


def _most_relevant(rows: Sequence[ChangeRow]) -> Sequence[ChangeRow]:
    if len(rows) <= ROWS_ON_A_PAGE:
        return rows
    return nsmallest(
        ROWS_ON_A_PAGE, rows, key=lambda row: (row.error is None, -(row.skipped or 0) - (row.repeated or 0))
    )


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


def _unlisted_refusals(result: Result, listed: frozenset[str]) -> list[Refusal]:
    return [refusal for refusal in result.refusals if refusal.group is None or refusal.error.code not in listed]


def _errors_on_screen(result: Result, listed: frozenset[str]) -> tuple[RowError, ...]:
    """The errors that the page shows in full, with evidence and next step."""
    return (*shown_in_full(_unlisted_refusals(result, listed)[:_REFUSALS]), *result.plan.errors)


def shown_in_full(refusals: Iterable[Refusal]) -> Iterator[RowError]:
    """The errors of refusals that ``refusal_block`` shows in full: not of a group with many members."""
    for refusal in refusals:
        if refusal.error.code != NOT_EMPTY or len(refusal.error.details) <= _MEMBER_LINES:
            yield refusal.row


def _refusal_blocks(result: Result, listed: frozenset[str]) -> Iterator[Block]:
    """The refusals and errors that block the plan, or blocked its execution."""
    groups = {group.name: group for group in result.plan.groups}
    refusals = _unlisted_refusals(result, listed)
    shown = refusals[:_REFUSALS]
    for refusal in shown:
        yield from refusal_block(refusal, groups.get(refusal.group or ""))
    if len(refusals) > len(shown):
        yield Text((f"{len(refusals) - len(shown)} more groups are refused: -o json has all of them",))
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
        if lines := (*error.details, *((error.hint,) if error.hint else ())):
            yield Text(tuple(f"  {line}" for line in lines))
        return
    members = group.members or ()
    lines = error.details if len(error.details) <= _MEMBER_LINES else ()
    named = "" if lines else some_of([f"{member.client_id} {member.host}" for member in members], _NAMED_MEMBERS)
    count = plural(len(members), "member") if group.members is not None else "members that this user may not see"
    yield LabelledLine("NOT YET", f"{group.name} is {group.state}: {count}{f' ({named})' if named else ''}.", _WARN)
    if lines := (*lines, *((error.hint,) if error.hint else ()), *advice):
        yield Text(tuple(f"{_INDENT}{line}" for line in lines))


_NOT_SUGGESTED = frozenset({"not-in-ledger"})
"""``--accept`` passes it, but its hint has the command that delivers those records first."""
_NOT_YET = frozenset({NOT_EMPTY, SUBSCRIBED})
"""Error codes that no longer apply once the members are stopped."""

_BAD: Style = "bad"
_WARN: Style = "warn"


def _closing_lines(result: Result, wording: Wording) -> Iterator[str]:
    return _executed_lines(result, wording) if result.executed else _planned_lines(result, wording)


def _executed_lines(result: Result, wording: Wording) -> Iterator[str]:
    if result.changed_count:
        unit = "group" if result.plan.converted else "row"
        done = "Done." if not result.errors else f"Done for {plural(result.changed_count, unit)}."
        groups = [name for name in result.plan.affected_groups if name not in result.plan.deleted]
        if wording.start and wording.wait and groups and not result.errors:
            yield f"{done} {wording.start}, then:"
            yield f"  {wording.wait(groups, result.plan.converted.values())}"
        else:
            yield done
        if result.id and wording.undo:
            yield "To undo it:" if wording.undo_when is None else f"To undo it {wording.undo_when}:"
            yield f"  {wording.undo(result.id)}"
        elif result.backup and wording.restore:
            yield "There is no journal. To undo it with the backup:"
            yield f"  {wording.restore(result.backup)}"
    elif not result.unknown:
        yield "Nothing was changed."
    if result.unknown:
        yield f"{plural(result.unknown, 'row')}: outcome unknown, the broker's answer was lost."
        yield Hint("{} undoes the rows that were applied.", ("undo",))


def _planned_lines(result: Result, wording: Wording) -> Iterator[str]:
    if result.passes:
        yield f"Nothing was changed. {wording.apply}:"
        yield f"  {wording.command.executing()}"
    elif (passing := passing_command(wording.command, result.errors, result.refusals)) is not None:
        yield from closing_lines("To apply", passing)
        if result.possible.size:
            yield "Some rows cannot be applied, so none will be. Add --partial to apply the others."
    elif result.possible.size:
        yield "Nothing was changed: some rows cannot be applied. To apply the others:"
        yield f"  {wording.command.with_option('--partial').executing()}"
    else:
        yield "Nothing was changed."
        return
    if wording.instead:
        yield wording.instead


def _offsets(count: int) -> str:
    return f"{human_count(count)} offset{'s' * (count != 1)}"


class PassingCommand(msgspec.Struct, frozen=True):
    """A command that is not refused once ``condition`` holds; that continues "To apply", and may be empty."""

    condition: str
    command: CommandLine


def passing_command(
    typed: CommandLine,
    errors: Iterable[RowError],
    refusals: Iterable[Refusal],
    *,
    wait: bool = True,
) -> PassingCommand | None:
    """The typed command with the options that make a refused plan pass: ``--wait-empty``, ``--accept CODE``.

    None if one of the errors is neither of a group that is not empty nor one that ``--accept`` of this verb passes.
    Only refusals need --accept: the same command plans rows again. ``wait`` False: the verb has no --wait-empty.
    """
    acceptable = frozenset(ACCEPTED.get(" ".join(typed.verb[1:]), ())) - _NOT_SUGGESTED
    codes = {error.code for error in errors}
    if not codes <= _NOT_YET | acceptable:
        return None
    condition = ""
    if codes & _NOT_YET:
        condition = " once the members are stopped"
        typed = typed.with_option("--wait-empty") if wait else typed
    if accepted := sorted({refusal.error.code for refusal in refusals} & acceptable):
        condition += f"{',' * bool(condition)} despite the refusal"
        given = typed.options.get("--accept", ())
        typed = typed.with_option(*given, *(word for code in accepted for word in ("--accept", code)))
    return PassingCommand(condition, typed.executing())


def closing_lines(purpose: str, passing: PassingCommand | None) -> tuple[str, ...]:
    """The end of a plan: ``Nothing was changed. To apply:`` and the command; without a command only that sentence."""
    if passing is None:
        return ("Nothing was changed.",)
    return (f"Nothing was changed. {purpose}{passing.condition}:", f"  {passing.command}")


def _wait_words(groups: Sequence[str], types: Iterable[str]) -> tuple[str, ...]:
    """``wait``: until the groups have members that hold out for 15 s, as in a crash loop they do not."""
    names = groups if len(groups) <= _NAMED_GROUPS else ("GROUP",)
    of_type = (word for kind in sorted(set(types)) for word in ("--for", f"type={kind}"))
    if names and all(map(is_query, names)):
        return (*names, "--for", "lag=0")
    return (*names, *of_type, "--for", "stable", "--hold", "15s")


def _restore_words(result: Result, backup: str) -> tuple[str, ...]:
    """The command that restores the backup; without a journal, kgroup's own commits look like another client's."""
    names = result.plan.affected_groups
    # Groups that have to be created again must be named.
    groups = names if result.plan.deleted or len(names) <= _NAMED_GROUPS else ("--all-groups",)
    create = ("--create",) if result.plan.deleted else ()
    if result.plan.deleted and result.plan.deleted <= result.plan.share:
        create = (*create, "--type", SHARE)
    accept = ("--accept", ACTIVE_COMMITTER)
    return ("reset", *groups, *create, "--from-file", backup, *accept, "--execute")
