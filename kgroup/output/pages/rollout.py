"""The page of a rollout that was followed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from kgroup.groups.migration.rollout import GroupRollout
from kgroup.model.blocks import BlankLine, Column, Records, Screen, Table, Text, Title
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_ROWS = 20
_HEADER = (
    "group", "type", "state", "finished", "member_count", "classic_member_count", "consumer_member_count",
    "group_epoch", "moved_partition_count", "reverted_count", "waited_ms",
)  # fmt: skip
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column("CLASSIC", right=True),
    Column("CONSUMER", right=True),
    Column("GROUP-EPOCH", right=True, drop=1),
    Column("MOVED", right=True),
    Column("REVERTED", right=True),
    Column("WAITED", right=True, drop=2),
)


def page(groups: Sequence[GroupRollout], target: str) -> Screen:
    """One row per group, unfinished groups first."""
    if not groups:
        return Screen(())
    missing = sum(not group.finished for group in groups)
    subject = groups[0].group if len(groups) == 1 else plural(len(groups), "group")
    word = "NOT YET" if missing else "DONE"
    ranked = sorted(groups, key=lambda group: group.finished)
    rows = [
        (
            group.group,
            group.type,
            group.state,
            group.classic_member_count,
            group.consumer_member_count,
            group.group_epoch,
            group.moved_partition_count,
            group.reverted_count or None,
            format_duration(round(group.waited_ms / 1000)),
        )
        for group in ranked[:_ROWS]
    ]
    title = Title(f"{word}  rollout of {subject} to the {target} protocol")
    table = Table(_COLUMNS, rows, sparse=frozenset({"GROUP-EPOCH", "REVERTED"}))
    more = (Text((f"{len(ranked) - _ROWS} more: -o csv has all rows",)),) if len(ranked) > _ROWS else ()
    remaining = [
        f"{group.group}: {member.client_id} {member.host}" for group in ranked for member in group.remaining_members
    ][:_ROWS]
    remaining_blocks = (
        (
            BlankLine(),
            Text((f"Members that do not use the {target} protocol yet:", *(f"  {line}" for line in remaining))),
        )
        if remaining
        else ()
    )
    reverted = [group.group for group in ranked if group.reverted_count and group.type not in (None, target)]
    reverted_blocks = (
        (BlankLine(), Text(tuple(_convert_again_line(name, target) for name in reverted[:_ROWS]))) if reverted else ()
    )
    return Screen((title, table, *more, *remaining_blocks, *reverted_blocks))


def _convert_again_line(name: str, target: str) -> str:
    again = Hint("{}", ("migrate", name, "--protocol", target, "--wait-empty"))
    return f"-> stop {name}, then convert it again: {again}"


def records(groups: Sequence[GroupRollout]) -> Records:
    named = (asdict(group) | {"finished": str(group.finished).lower()} for group in groups)
    return Records(_HEADER, [tuple(fields[name] for name in _HEADER) for fields in named])
