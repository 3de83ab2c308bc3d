"""The page of ``kgroup evict``, and its rows for json and csv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.change_result import UNKNOWN, Refusal
from kgroup.groups.eviction import Eviction
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    Records,
    Screen,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import Group, RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.change import closing_lines, passing_command, refusal_block
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import KgroupError
from kgroup.support.json_types import Count
from kgroup.support.units import plural

_HEADER = (
    "group", "member_id", "instance_id", "client_id", "host", "partition_count", "removed",
    "error_code", "error_message",
)  # fmt: skip
_COLUMNS = (
    Column("CLIENT-ID", fold=True),
    Column("INSTANCE-ID", fold=True),
    Column("HOST"),
    Column("MEMBER-ID", wide=True),
    Column("PARTITIONS", right=True),
    Column("NOTE", fold=True),
)


def evict_outcome(
    group: Group,
    evictions: tuple[Eviction, ...],
    refusal: KgroupError | None,
    survivors: Group | KgroupError | None,
    cluster: ClusterRef,
    command_line: CommandLine,
    command: Callable[..., str],
) -> Outcome:
    """The outcome for one group; ``survivors`` is the group after an execution, or why it could not be read."""
    executed = any(eviction.removed is not None for eviction in evictions)
    errors = tuple(e.error for e in evictions if e.error)
    refusals = () if refusal is None else (Refusal(group.name, refusal),)
    errors += tuple(each.row for each in refusals)

    def screen() -> Screen:
        if not evictions and not errors:
            return Screen(())
        word = _headline(evictions) if executed else "PLAN"
        title = Title(f"{word}  evict {plural(len(evictions), 'member')} of {group.name}, which is {group.state}")
        table = Table(_COLUMNS, [_cells(eviction) for eviction in evictions], sparse=frozenset({"INSTANCE-ID", "NOTE"}))
        blocks: list[Block] = [title, *([table] if evictions else []), BlankLine()]
        for each in refusals:
            blocks += refusal_block(each, None)
        blocks.append(
            Text(
                (
                    "Eviction is not fencing: a member that is alive joins again within seconds.",
                    "A static member that was stopped does not join again by itself.",
                )
            )
        )
        if executed:
            left = _group_after(group, evictions, survivors)
            left = left if errors else f"Done. {left}"
            return Screen(
                (
                    *blocks,
                    BlankLine(),
                    Text((left, f"To see which members join again:  {command('describe', group.name, '--members')}")),
                )
            )
        passing = passing_command(command_line, errors, refusals)
        return Screen((*blocks, BlankLine(), Text(closing_lines("To apply", passing))))

    return Outcome(
        data=(members := tuple(map(_evicted, evictions))),
        screen=screen,
        records=lambda: Records.of(_HEADER, members),
        cluster=cluster,
        errors=errors,
        executed=executed,
        done=any(eviction.removed for eviction in evictions),
        on_screen=tuple(each.row for each in refusals),
    )


class EvictedMember(msgspec.Struct, frozen=True):
    group: Annotated[str, "The group."]
    member_id: Annotated[str, "The member id."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    client_id: Annotated[str, "The client id."]
    host: Annotated[str, "The member's address."]
    partition_count: Annotated[Count | None, "Number of partitions that the member has."]
    removed: Annotated[bool | None, "Whether the member was removed; null in a plan."]
    error_code: Annotated[str | None, "The stable code of what prevents the change."]
    error_message: Annotated[str | None, "What prevents the change, for people."]


def _evicted(eviction: Eviction) -> EvictedMember:
    member, error = eviction.member, eviction.error
    return EvictedMember(
        group=eviction.group,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        partition_count=member.partition_count,
        removed=eviction.removed,
        error_code=error.code if error else None,
        error_message=error.message if error else None,
    )


def _cells(eviction: Eviction) -> tuple[Cell, ...]:
    member = eviction.member
    note: Cell = None
    if eviction.error:
        note = Styled(f"{eviction.error.code}: {eviction.error.message}", "bad")
    elif eviction.removed:
        note = "removed"
    elif member.left_temporarily:
        note = "left temporarily; its partitions are kept until its session ends"
    return (member.client_id, member.instance_id, member.host, member.member_id, member.partition_count, note)


def unread_outcome(cluster: ClusterRef, errors: tuple[RowError, ...]) -> Outcome:
    """The outcome if the group could not be read; the errors have the reason."""
    return Outcome((), lambda: Screen(()), lambda: Records(_HEADER, []), cluster, errors)


def _headline(evictions: Sequence[Eviction]) -> str:
    errors = [eviction.error for eviction in evictions if eviction.error]
    if not errors:
        return "DONE"
    if any(eviction.removed for eviction in evictions):
        return "PARTLY DONE"
    return "UNKNOWN" if any(error.code == UNKNOWN for error in errors) else "FAILED"


def _group_after(before: Group, evictions: Sequence[Eviction], after: Group | KgroupError | None) -> str:
    """The group's state right after the eviction, and the members that are back already."""
    if isinstance(after, KgroupError):
        return f"The state of {before.name} after that is unknown: {after.message}."
    if after is None or not after.members:
        return f"{before.name} {'is ' + after.state if after else 'no longer exists'}: no member is left."
    evicted = {e.member.instance_id for e in evictions if e.member.instance_id is not None}
    back = [m for m in after.members if m.instance_id in evicted]
    back_text = f"; joined again: {', '.join(m.client_id for m in back[:3])}" if back else ""
    return f"{before.name} is {after.state} with {plural(len(after.members), 'member')}{back_text}."
