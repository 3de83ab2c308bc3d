"""``kgroup list``: every group the cluster knows, of every kind."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.cluster.snapshot import Cluster, Want
from kgroup.groups.selection import check, check_expected, choose, concerns_topic, visibility_note
from kgroup.model import ListedGroup, Outcome, RowError
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
        listing = cluster.list_groups()
        if note := visibility_note(listing.groups, listing.complete):
            run.reporter.note(note)
        choice = choose(which, listing.groups, cluster.ref.label)
        chosen = choice.groups
        errors = tuple(RowError.of(error) for error in (*listing.failures, choice.missing) if error)
        if which.topic:
            for topic in cluster.check_topics(which.topic):
                run.reporter.note(f'there is no topic "{topic}"')
            snapshot = cluster.describe(chosen, Want(logs=False, generation_budget_s=0))
            about = {group.name for group in snapshot.groups if concerns_topic(group, which.topic)}
            chosen = tuple(group for group in chosen if group.name in about)
            errors += snapshot.errors
        check_expected(which, len(chosen))
        chosen, failed = cluster.member_counts(chosen)
        return Outcome(
            data=chosen,
            screen=lambda: _screen(chosen),
            records=lambda: Records(_HEADER, [_row(group) for group in chosen]),
            cluster=cluster.ref,
            errors=errors + failed,
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
