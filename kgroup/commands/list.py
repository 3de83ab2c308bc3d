"""``kgroup list``: every group the cluster knows, of every kind."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.choosing import choose_groups
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import check
from kgroup.model import ListedGroup, Outcome
from kgroup.options import Selection
from kgroup.run import Run
from kgroup.screen import Column, Records, Screen, Table, Text, Title
from kgroup.screens.describe_records import coordinator_text
from kgroup.units import plural

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column("PROTOCOL", drop=3),
    Column("COORDINATOR", drop=2),
    Column("MEMBERS", right=True, drop=1),
)
_HEADER = ("group", "type", "state", "protocol_type", "coordinator", "members")


def list_(run: Run, which: Selection) -> Outcome:
    """List groups: type, state, members.

    Share and streams groups are listed as what they are.

    Examples:
    kgroup list
    kgroup list --in-state Empty --type classic
    kgroup list --topic orders -o csv | tail -n +2 | cut -d, -f1

    Exit codes: 0 2 3 4 5 6 7
    """
    check(which)
    with Cluster(run.settings) as cluster:
        chosen = choose_groups(run, cluster, which)
        groups, failed = cluster.member_counts(chosen.groups)
        return Outcome(
            data=groups,
            screen=lambda: _screen(groups),
            records=lambda: Records(_HEADER, [_row(group) for group in groups]),
            cluster=cluster.ref,
            errors=chosen.errors + failed,
        )


def _screen(groups: Sequence[ListedGroup]) -> Screen:
    title = Title(plural(len(groups), "group"), in_terminal_only=True)
    if not groups:
        return Screen((title, Text(("No groups.",))))
    return Screen((title, Table(_COLUMNS, [_row(group) for group in groups])))


def _row(group: ListedGroup) -> tuple[str | int | None, ...]:
    return (
        group.name,
        group.type,
        group.state,
        group.protocol_type or None,
        coordinator_text(group.coordinator),
        group.members,
    )
