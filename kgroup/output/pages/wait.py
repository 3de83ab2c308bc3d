"""The page of ``kgroup wait``, and its rows for csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.member_labels import labels
from kgroup.groups.member_sessions import Liveness, evict_text, session_text
from kgroup.groups.wait_conditions import Condition
from kgroup.groups.wait_result import GroupWaitResult, RemainingMember, WaitResult
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Records, Screen, Table, Text, Title
from kgroup.model.topic_partition import PartitionName, partition_names
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.json_types import Count, Ms
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
    for group in groups:
        if group.archived:
            what = f"{group.name} archived {plural(group.archived, 'offset')} meanwhile, after 2 deliveries or more"
            yield Text((f"{what}: {Hint('{}', ('peek', group.name))}",))
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
    one = waited_group(group)
    for condition in one.conditions:
        holds = "true" if condition.holds else "false"
        row = (one.group, one.type, one.state, one.member_count, one.lag)
        yield (*row, condition.condition, holds, condition.observed, one.waited_ms)


class WaitCondition(msgspec.Struct, frozen=True):
    condition: Annotated[str, "The condition as it was given, such as lag=0."]
    holds: Annotated[bool, "Whether it holds."]
    observed: Annotated[str, "What was observed, for people."]


class WaitedMember(msgspec.Struct, frozen=True):
    member_id: Annotated[str, "The member id."]
    client_id: Annotated[str, "The client id."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    host: Annotated[str, "The member's address."]
    session_ends_in_ms: Annotated[Ms | None, "The longest time that a dead member stays; null if unknown."]


class WaitedGroup(msgspec.Struct, frozen=True):
    group: Annotated[str, "The group."]
    type: Annotated[str | None, "The type; null if the group does not exist."]
    state: Annotated[str | None, "The state; null if the group does not exist."]
    member_count: Annotated[Count | None, "Number of members; null if it was not read."]
    lag: Annotated[Count | None, "Unread records; null if unknown, or if no condition needs it."]
    hidden_commits: Annotated[tuple[PartitionName, ...] | None, "Partitions whose commits this user may not read."]
    conditions: Annotated[tuple[WaitCondition, ...], "The conditions."]
    waited_ms: Annotated[Ms, "How long kgroup has waited."]
    remaining_members: Annotated[tuple[WaitedMember, ...], "Members that are still in the group."]
    archived_count: Annotated[
        Count | None,
        "Offsets that a share group archived meanwhile, after two deliveries or more, at least; null if not read.",
    ]


def waited_group(waited: GroupWaitResult) -> WaitedGroup:
    group = waited.group
    return WaitedGroup(
        group=waited.name,
        type=group.type if group else None,
        state=group.state if group else None,
        member_count=waited.member_count,
        lag=waited.lag,
        hidden_commits=partition_names(group.hidden_commits if group and waited.reads_lag else ()),
        conditions=tuple(WaitCondition(each.condition.text, each.holds, each.observed) for each in waited.results),
        waited_ms=round(waited.waited_s * 1000),
        remaining_members=tuple(map(_waited_member, waited.remaining)),
        archived_count=waited.archived,
    )


def _waited_member(remaining: RemainingMember) -> WaitedMember:
    member, session = remaining.member, remaining.session
    ends_in_s = session.ends_in_s if session.life is Liveness.COUNTING else None
    ends_in_ms = None if ends_in_s is None else round(ends_in_s * 1000)
    return WaitedMember(member.member_id, member.client_id, member.instance_id, member.host, ends_in_ms)
