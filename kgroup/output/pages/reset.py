"""What only the page of a reset has: its first line, the time that was understood, and a command safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated

from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.change_result import OffsetChange
from kgroup.groups.reset_targets import ResetScenario, ShiftBy, ToTime
from kgroup.model.blocks import Block, LabelledLine, Text
from kgroup.model.json_lines import RecordDocument, record_document
from kgroup.model.records import ConsumerRecord
from kgroup.output.pages.records import VALUE_WIDTH, records_blocks
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import human_count, plural

_SHOWN_INSTEAD = 5


def target_time(scenario: ResetScenario | None, now_ms: int) -> tuple[Block, ...]:
    """The time that was understood: what the user typed does not show the assumed day and time zone."""
    if not isinstance(scenario, ToTime):
        return ()
    moment_ms = scenario.timestamp_ms
    ago = format_duration(max(0, now_ms - moment_ms) / 1000)
    return (LabelledLine("TO", f"the first record since {rfc3339(moment_ms, 'seconds')}, {ago} ago"),)


def skipped_blocks(
    records: tuple[ConsumerRecord, ...] | None, target: str | None, *, verbose: bool = False
) -> tuple[Block, ...]:
    """The records that the plan skips, None if they were not read, and where they will be kept.

    ``target`` is that of ``--save-skipped``, None without the option.
    """
    if records is None and target is None:
        return ()
    if records == ():
        return (Text(("SKIPPED RECORDS  none: the skipped offsets hold no record",)),)
    if target is None:
        keeps = "--save-skipped FILE keeps them"
    elif target == "-":
        keeps = "will be written to stdout"
    else:
        keeps = f"will be kept in {target.removeprefix('topic:')}"
    table = records_blocks(records, width=None if verbose else VALUE_WIDTH) if records else ()
    return (Text((f"SKIPPED RECORDS  ({keeps})",)), *table)


class ResetRow(OffsetChange, frozen=True):
    """A row of a reset with the records that it skips."""

    skipped_records: Annotated[
        tuple[RecordDocument, ...] | None,
        "The skipped records of a plan that skips up to five offsets in all; null if it skips more, if they cannot be "
        "read, and after --execute.",
    ]


def with_skipped_records(row: ChangeRow, change_id: str | None, records: Sequence[ConsumerRecord] | None) -> ResetRow:
    """The row with those of ``records`` that it skips (None: not read). Several groups may skip the same ones."""
    return ResetRow.of(row, change_id, skipped_records=_skipped_by(row, records))


def _skipped_by(row: ChangeRow, records: Sequence[ConsumerRecord] | None) -> tuple[RecordDocument, ...] | None:
    if row.error or row.skipped is None:
        return None
    if (skipped := row.skipped_range) is None:
        return ()
    if records is None:
        return None
    return tuple(
        record_document(each) for each in records if each.tp == row.tp and skipped.start <= each.offset < skipped.end
    )


def subject(plan: ChangePlan) -> str:
    """``pay-svc: 1 of 24 partitions, 1 offset skipped``."""
    names = plan.affected_groups
    if not names:
        return ""
    moves = zip(plan.moves, ("skipped", "repeated"), strict=True)
    moved = "".join(f", {human_count(n)} offset{'s' * (n != 1)} {word}" for n, word in moves if n)
    if len(names) > 1:
        return f"{plural(len(names), 'group')}: {plural(len(plan.rows), 'partition')}{moved}"
    of_all = {group.name: len(committed(group)) for group in plan.groups}
    count, total = len(plan.rows), of_all.get(names[0], 0)
    scope = f"{count} of {total} partitions" if count < total else plural(count, "partition")
    new = " (a new group)" if names[0] in plan.created else ""
    return f"{names[0]}{new}: {scope}{moved}"


def repeatable_command(
    plan: ChangePlan, scenario: ResetScenario | None, target: str | None, command: Callable[..., str]
) -> str | None:
    """The equivalent ``--to-offset`` of a small ``--shift-by``: repeated by accident, ``--shift-by`` skips twice.

    ``target`` is that of ``--save-skipped``.
    """
    if not isinstance(scenario, ShiftBy):
        return None
    able = (row for row in plan.rows if row.new and not row.error)
    rows = list(islice(able, _SHOWN_INSTEAD + 1))
    names = {row.group for row in rows}
    if len(names) != 1 or len(rows) > _SHOWN_INSTEAD:
        return None
    offsets = ",".join(f"{row.name}={row.new.offset}" for row in rows if row.new)
    keeps = () if target is None else ("--save-skipped", target)
    same = command("reset", names.pop(), "--to-offset", offsets, *keeps)
    return f"The same plan, safe to repeat:  {same}"
