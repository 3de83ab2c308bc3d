"""The page of a rollout that was followed, made from the documents of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgroup.model.blocks import BlankLine, Column, Records, Screen, Table, Text, Title
from kgroup.support.durations import format_duration
from kgroup.support.quoting import quote
from kgroup.support.units import plural

_ROWS = 20
_HEADER = (
    "group", "type", "state", "finished", "members", "classic", "consumer", "group_epoch", "partitions_moved",
    "turned_back", "waited_ms",
)  # fmt: skip
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column("CLASSIC", right=True),
    Column("CONSUMER", right=True),
    Column("EPOCH", right=True, drop=1),
    Column("MOVED", right=True),
    Column("TURNED BACK", right=True),
    Column("WAITED", right=True, drop=2),
)

Documents = Sequence[Mapping[str, Any]]


def page(groups: Documents, target: str) -> Screen:
    """One row per group, unfinished groups first."""
    if not groups:
        return Screen(())
    missing = sum(not group["finished"] for group in groups)
    subject = groups[0]["group"] if len(groups) == 1 else plural(len(groups), "group")
    word = "NOT YET" if missing else "DONE"
    ranked = sorted(groups, key=lambda group: group["finished"])
    rows = [
        (
            group["group"],
            group["type"],
            group["state"],
            group["members_by_protocol"].get("classic", 0),
            group["members_by_protocol"].get("consumer", 0),
            group["group_epoch"],
            group["partitions_moved"],
            group["turned_back"] or None,
            format_duration(round(group["waited_ms"] / 1000)),
        )
        for group in ranked[:_ROWS]
    ]
    title = Title(f"{word}  rollout of {subject} to the {target} protocol")
    table = Table(_COLUMNS, rows, sparse=frozenset({"EPOCH", "TURNED BACK"}))
    more = (Text((f"{len(ranked) - _ROWS} more: -o csv has all rows",)),) if len(ranked) > _ROWS else ()
    remaining = [
        f"{group['group']}: {member['client_id']} {member['host']}" for group in ranked for member in group["remaining"]
    ][:_ROWS]
    remaining_blocks = (
        (BlankLine(), Text((f"Members that do not speak {target} yet:", *(f"  {line}" for line in remaining))))
        if remaining
        else ()
    )
    turned_back = [group["group"] for group in ranked if group["turned_back"] and group["type"] not in (None, target)]
    turned_back_blocks = (
        (BlankLine(), Text(tuple(_convert_again_line(name, target) for name in turned_back[:_ROWS])))
        if turned_back
        else ()
    )
    return Screen((title, table, *more, *remaining_blocks, *turned_back_blocks))


def _convert_again_line(name: str, target: str) -> str:
    return f"-> stop {name}, then convert it again: kgroup migrate {quote(name)} --protocol {target} --wait-empty"


def records(groups: Documents) -> Records:
    """The same rows for CSV."""
    rows = []
    for group in groups:
        counts = {protocol: group["members_by_protocol"].get(protocol, 0) for protocol in ("classic", "consumer")}
        named = {**group, **counts, "finished": str(group["finished"]).lower()}
        rows.append(tuple(named[name] for name in _HEADER))
    return Records(_HEADER, rows)
