"""The page of a plan to cancel: the offsets moved back, possible duplicates, and records that are never delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.catchup.service.results import Cancellation
from kgroup.catchup.steps import AlreadyDone, Close, MoveBack
from kgroup.model.blocks import BlankLine as Space
from kgroup.model.blocks import Block, Cell, Column, LabelledLine, Records, Screen, Table, Text, Title
from kgroup.support.quoting import execute_command
from kgroup.support.units import plural

_ROWS = 20
_MOVES = (
    Column("PARTITION", fold=True),
    Column("NOW", right=True),
    Column("BACK TO", right=True),
)
HEADER = ("plan_id", "group", "topic", "partition", "from", "to")


def ended_screen(ending: Cancellation, typed: Sequence[str]) -> Screen:
    """The page of ``catchup cancel``, before or after execution."""
    plan = ending.state.snapshot.plan
    word = "DONE" if ending.executed else "PLAN"
    blocks: list[Block] = [Title(f"{word}  cancel {plan.id}, {ending.state.word}: {ending.state.name}")]
    blocks += _body(ending)
    if ending.refusal is not None:
        error = ending.refusal
        blocks.append(LabelledLine("REFUSED", f"{error.message} [{error.code}]", "bad"))
        blocks.append(Text(tuple(f"  {line}" for line in (*error.details, *((error.hint,) if error.hint else ())))))
    if ending.executed:
        return Screen((*blocks, Text(("Done.",))))
    if ending.refusal is not None or isinstance(ending.decision, AlreadyDone):
        return Screen((*blocks, Space(), Text(("Nothing was changed.",))))
    return Screen((*blocks, Space(), Text(("Nothing was changed. To do it:", f"  {execute_command(typed)}"))))


def _body(ending: Cancellation) -> Iterator[Block]:
    decision, plan = ending.decision, ending.state.snapshot.plan
    match decision:
        case MoveBack():
            rows: list[tuple[Cell, ...]] = [
                (f"{topic}:{partition}", before, after) for topic, partition, before, after in ending.moves
            ]
            yield Table(_MOVES, rows[:_ROWS])
            if more := len(rows) - _ROWS:
                yield Text((f"{more} more: -o json has all",)) if more > 0 else Text(())
            yield Text((f"{plan.group} goes on from there, and handles the gap itself.",))
            for row in decision.reprocessed[:_ROWS]:
                what = f"{row.tp} [{row.start}, {row.end}): {row.why}"
                yield LabelledLine("TWICE", what, "warn")
        case Close(note=note, given_up=given_up):
            yield Text((f"{note[0].upper()}{note[1:]}.",))
            for lost in given_up[:_ROWS]:
                what = f"{lost.tp} [{lost.start}, {lost.end})"
                yield LabelledLine("NOBODY", f"gets {what}, {plural(lost.end - lost.start, 'offset')}", "warn")
        case AlreadyDone(why=why):
            yield Text((f"{why}: nothing to do",))  # starts with the plan id, which users paste: no capital
        case _:
            pass


def ended_records(ending: Cancellation) -> Records:
    """The moves as rows for CSV."""
    plan = ending.state.snapshot.plan
    return Records(HEADER, [(plan.id, plan.group, *move) for move in ending.moves])
