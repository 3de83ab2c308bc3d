"""The page of a planned catch-up: the steps, the partitions, the risks and the checks."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.catchup.dead_letters import DeadLetters
from kgroup.groups.catchup.gap import Gap
from kgroup.groups.catchup.model import GapRange, ReleasePoint
from kgroup.groups.catchup.results import StartPlan
from kgroup.groups.catchup.risks import RiskLevel
from kgroup.groups.member_sessions import WHILE_PODS_RESTART
from kgroup.groups.reset_targets import NO_COMMIT
from kgroup.model.blocks import BlankLine as Space
from kgroup.model.blocks import Block, Cell, Column, LabelledLine, Prose, Records, Screen, Styled, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.record_times import usable_ms
from kgroup.output.pages.change import ROWS_ON_A_PAGE, closing_lines, passing_command, refusal_block, shown_in_full
from kgroup.support.command_line import CommandLine
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import human_bytes, human_count, plural

_COLUMNS = (
    Column("PARTITION", fold=True),
    Column("OLD-OFFSET", right=True),
    Column("NEW-OFFSET", right=True),
    Column("RECORDS", right=True),
    Column("SIZE", right=True, drop=3),
    Column("OLDEST-RECORD", right=True, drop=2),
    Column("RETENTION-LEFT", right=True, drop=1),
    Column("NOTE", fold=True),
)
_OF_RANGES = (Column("START", right=True), Column("END", right=True))
"""Replace OLD-OFFSET and NEW-OFFSET if no group is moved."""
_LETTERS = (
    Column("SOURCE", fold=True),
    Column("ERROR", fold=True),
    Column("RECORDS", right=True),
    Column("FATE"),
    Column("WHY", fold=True),
)
HEADER = (
    "group", "topic", "partition", "old_offset", "new_offset", "start", "end", "estimated_record_count",
    "estimated_bytes", "oldest_record_at", "maybe_processed_until", "retention_deadline_at", "error_code",
    "error_message"
)  # fmt: skip
_INDENT = " " * 9


def plan_screen(plan: StartPlan, command: CommandLine, *, verbose: bool) -> Screen:
    """The page; empty if there are no ranges, no excluded partitions and no refusals."""
    gap = plan.gap
    if not gap.ranges and not gap.not_moved and not plan.refusals and not (plan.letters and plan.letters.rows):
        return Screen(())
    subject = gap.group or plural(len(gap.ranges), "range")
    letters: list[Block] = []
    if plan.letters is not None:
        subject = f"dead letters of {plan.letters.topic}"
        letters = [Space(), *_letters(plan.letters, verbose=verbose)]
    if not gap.ranges and not gap.errors and not plan.refusals:
        title = Title(f"PLAN  catch up {subject}: nothing to do")
        body = (*_partitions(plan, verbose=verbose), *letters)
        return Screen((title, *body, Space(), Text(("Nothing was changed.",))))
    blocks: list[Block] = [Title(f"PLAN  catch up {subject}")]
    blocks.append(Text(tuple(_steps(plan))))
    blocks += [Space(), *_partitions(plan, verbose=verbose)]
    blocks += letters
    to_read = [
        f" {risk.code}: {risk.message}" for risk in plan.risks if risk.level is RiskLevel.NOTE and risk.code != "skew"
    ]
    if to_read:
        blocks += [Space(), Text(("READ THIS",)), Prose(tuple(to_read), len(_INDENT))]
    checks = list(_checks(plan))
    if checks:
        blocks += [Space(), Text(("CHECKS",)), *checks]
    return Screen((*blocks, Space(), Text(tuple(_end(plan, command)))))


def _steps(plan: StartPlan) -> Iterator[str]:
    gap = plan.gap
    if gap.group is not None:
        where = "the log end" if gap.release_point is ReleasePoint.LOG_END else "--until"
        yield f" 1 release  {plural(len(gap.ranges), 'partition')} to {where}, about 1 s; then the group may start"
    else:
        yield " 1 release  nothing: no group is moved"
    size = "" if gap.size is None else f", {human_bytes(gap.size)}"
    destination = "no destination yet: resume --to-... sets it"
    if plan.destination is not None:
        destination = f"{plan.destination}, {plan.guarantee}"
    yield f" 2 replay   {_records(gap)}{size} -> {destination}"
    took = "" if plan.takes_s is None else f"; about {format_duration(plan.takes_s)}"
    yield f"            {plural(len(plan.chunks), 'chunk')}{took}"
    yield from (f"            {text}" for text in plan.of_context)
    yield " 3 verify   every record is delivered once, or listed by its offset"


def _records(gap: Gap) -> str:
    if gap.records is None:
        return f"up to {human_count(gap.offsets)} records"
    return f"{human_count(gap.records)} record{'s' * (gap.records != 1)}"


def _partitions(plan: StartPlan, *, verbose: bool) -> Iterator[Block]:
    gap = plan.gap
    ranked = sorted(gap.ranges, key=lambda item: item.start - item.end)
    rows = [_row(item, plan.at_ms, of_group=gap.group is not None) for item in ranked]
    rows += [
        (row.name, *(None,) * 6, Styled(row.reason, "bad") if row.is_error else row.reason) for row in gap.not_moved
    ]
    shown = rows if verbose else rows[:ROWS_ON_A_PAGE]
    if shown:
        columns = _COLUMNS if gap.group is not None else (_COLUMNS[0], *_OF_RANGES, *_COLUMNS[3:])
        yield Table(columns, shown, sparse=frozenset({"NOTE", "SIZE", "OLDEST-RECORD", "RETENTION-LEFT", "RECORDS"}))
    if more := len(rows) - len(shown):
        yield Text((f"{more} more: --verbose",))
    yield from (Text((f"{risk.code}: {risk.message}",)) for risk in plan.risks if risk.code == "skew")


def _row(item: GapRange, now_ms: int, *, of_group: bool) -> tuple[Cell, ...]:
    left, oldest_ms = item.retention_deadline_ms, usable_ms(item.oldest_ms, now_ms)
    return (
        f"{item.tp}",
        item.start if item.before is None else item.before.offset,
        item.end,
        item.records if item.records is not None else item.offsets,
        None if item.size is None else human_bytes(item.size),
        None if oldest_ms is None else format_duration(max(0, now_ms - oldest_ms) / 1000),
        None if left is None else format_duration(max(0, left - now_ms) / 1000),
        "no commit" if of_group and item.before is None else None,
    )


def _letters(letters: DeadLetters, *, verbose: bool) -> Iterator[Block]:
    """The dead letters by source and error, and what the plan does with them."""
    if not letters.complete:
        yield Text((f"of the first {plural(letters.records, 'record')}:",))
    shown = letters.rows if verbose else letters.rows[:ROWS_ON_A_PAGE]
    rows = [
        (row.source_topic, row.error, row.record_count, row.fate.value, row.fate.meaning if row.fate.stays else None)
        for row in shown
    ]
    yield Table(_LETTERS, rows, sparse=frozenset({"ERROR", "WHY"}))
    if more := len(letters.rows) - len(shown):
        yield Text((f"{more} more: --verbose",))


def _checks(plan: StartPlan) -> Iterator[Block]:
    for check in plan.checks:
        yield Text((f" ok       {check}",))
    for risk in plan.risks:
        if risk.level is not RiskLevel.NOTE:
            bad = risk.level is RiskLevel.BLOCKED
            yield LabelledLine(risk.level.value.upper(), risk.message, "bad" if bad else "warn")
            if risk.hint:
                yield Text((f"{_INDENT}{risk.hint}",))
    for row in plan.gap.not_moved:
        if row.is_error:
            yield LabelledLine("ERROR", f"{row.name}: {row.reason} [{row.code}]", "bad")
            if row.hint:
                yield Text((f"{_INDENT}{row.hint}",))
    for refusal in plan.refusals:
        yield from refusal_block(refusal, plan.group, WHILE_PODS_RESTART)


def errors_on_screen(plan: StartPlan) -> tuple[RowError, ...]:
    """The errors that the page shows in full; those of partitions that could not be read are not on it."""
    refused = {refusal.row for refusal in plan.refusals} - set(shown_in_full(plan.refusals))
    return tuple(error for error in plan.errors if error not in plan.unread and error not in refused)


def _end(plan: StartPlan, command: CommandLine) -> Iterator[str]:
    if plan.letters is not None and plan.destination is None:
        command = command.with_option("--to-source")
    elif plan.destination is None and "--release-only" not in command.options:
        command = command.with_option("--release-only")
    if not plan.possible:
        passing = passing_command(command, plan.errors, plan.refusals) if plan.gap.ranges else None
        yield from closing_lines("To do it", passing)
        if passing is None and plan.gap.errors and plan.gap.ranges and not plan.refusals:
            if {row.code for row in plan.gap.errors} == {NO_COMMIT}:
                yield "To take the partitions without a commit from their log start:"
                yield f"  {command.with_option('--missing', 'earliest').executing()}"
            yield "A part of the plan cannot be executed. To execute the rest:"
            yield f"  {command.with_option('--partial').executing()}"
        return
    grown = human_count(round(plan.gap_input.growth_per_s * 60))
    grows = f"The gap grew by {grown} in the last minute; it is measured again at --execute:"
    open_ended = plan.gap.group is not None and plan.gap.release_point is ReleasePoint.LOG_END
    yield f"Nothing was changed. {grows if open_ended and plan.gap_input.growth_per_s >= 1 else 'To do it:'}"
    yield f"  {command.executing()}"


def plan_records(gap: Gap) -> Records:
    rows: list[tuple[str | int | None, ...]] = [
        (
            gap.group,
            item.topic,
            item.partition,
            None if item.before is None else item.before.offset,
            None if gap.group is None else item.end,
            item.start,
            item.end,
            item.records,
            item.size,
            rfc3339(item.oldest_ms),
            item.maybe_processed_until,
            rfc3339(item.retention_deadline_ms),
            None,
            None,
        )
        for item in gap.ranges
    ]
    rows += [
        (gap.group, row.topic, row.partition, *(None,) * 9, *((row.code, row.reason) if row.is_error else (None, None)))
        for row in gap.not_moved
    ]
    return Records(HEADER, rows)
