"""The page of ``kgroup wait``, and its rows for csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.member_labels import labels
from kgroup.groups.member_sessions import evict_text, session_text
from kgroup.groups.wait_conditions import Condition
from kgroup.groups.wait_result import GroupWaitResult, WaitResult
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Records, Screen, Table, Text, Title
from kgroup.support.durations import format_duration
from kgroup.support.units import plural

_ROWS = 20
_GROUPS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=2),
    Column("STATE"),
    Column("MEMBERS", right=True, drop=1),
    Column("LAG", right=True),
    Column("WAITED", right=True, drop=3),
    Column("NOT-MET"),
)
_MEMBERS = (
    Column("GROUP", fold=True, drop=3),
    Column("MEMBER", fold=True),
    Column("MEMBER-ID", wide=True),
    Column("INSTANCE-ID", wide=True),
    Column("HOST"),
    Column("SESSION"),
)
_HEADER = ("group", "type", "state", "member_count", "lag", "condition", "holds", "observed", "waited_ms")


def records(waited: WaitResult) -> Records:
    """A row for each condition of each group."""
    return Records(_HEADER, [row for group in waited.groups for row in _rows(group)])


def screen(waited: WaitResult, conditions: Sequence[Condition], within_s: float, hold_s: float) -> Screen:
    """The page: what holds for which group, and which members remain."""
    return Screen(tuple(_blocks(waited, conditions, within_s, hold_s)) if waited.groups else ())


def _blocks(waited: WaitResult, conditions: Sequence[Condition], within_s: float, hold_s: float) -> Iterator[Block]:
    groups = waited.groups
    what = groups[0].name if len(groups) == 1 else plural(len(groups), "group")
    wanted = ", ".join(condition.text for condition in conditions)
    held = f", held {format_duration(waited.held_s)}" if hold_s > 0 else ""
    if waited.reached:
        yield Title(f"DONE  wait {what}: {wanted}{held}")
    elif waited.missing:
        yield Title(f"NOT YET  wait {what}: {wanted}, not within {format_duration(within_s)}")
    else:
        yield Title(f"NOT YET  wait {what}: {wanted}{held} of {format_duration(hold_s)}")
    ranked = sorted(groups, key=lambda group: group.holds)
    rows = [_group_row(group) for group in ranked[:_ROWS]]
    yield Table(_GROUPS, rows, frozenset({"LAG", "NOT-MET"}))
    if len(ranked) > _ROWS:
        yield Text((f"{len(ranked) - _ROWS} more, {_summary_of_rest(ranked[_ROWS:])}: -o csv has all rows",))
    yield from _member_blocks(waited)


def _summary_of_rest(rest: Sequence[GroupWaitResult]) -> str:
    missing = sum(not group.holds for group in rest)
    return f"{missing} of them do not meet the conditions" if missing else "all of them meet the conditions"


def _group_row(group: GroupWaitResult) -> tuple[Cell, ...]:
    missing = [f"{j.condition.text}: {j.observed}" for j in group.results if not j.holds]
    return (
        group.name,
        group.group.type if group.group else None,
        group.group.state if group.group else None,
        group.member_count,
        group.lag,
        format_duration(round(group.waited_s)),
        "; ".join(missing) or None,
    )


def _member_blocks(waited: WaitResult) -> Iterator[Block]:
    """The members that remain, and how to evict static members that may be gone."""
    rows: list[tuple[Cell, ...]] = []
    evicting: list[str] = []
    for waiting in waited.missing:
        if waiting.group is None or not waiting.remaining:
            continue
        names = labels(waiting.group)
        rows += [
            (
                waiting.name,
                names[item.member.member_id],
                item.member.member_id,
                item.member.instance_id,
                item.member.host,
                session_text(item.member, item.session),
            )
            for item in waiting.remaining
        ]
        if text := evict_text(waiting.group, waiting.sessions):
            evicting.append(text)
    if rows:
        yield BlankLine()
        yield Table(_MEMBERS, rows[:_ROWS])
    if len(rows) > _ROWS:
        yield Text((f"{len(rows) - _ROWS} more members: -o json has all of them",))
    if evicting:
        yield Text((f"-> {evicting[0]}",))


def _rows(group: GroupWaitResult) -> Iterator[tuple[str | int | None, ...]]:
    document = group.document()
    same = tuple(document[key] for key in _HEADER[:5])
    for condition in document["conditions"]:
        holds = "true" if condition["holds"] else "false"
        yield (*same, condition["condition"], holds, condition["observed"], document["waited_ms"])
