"""The groups that a change affects: existing ones with their current state, and those to be created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_options

from msgspec.structs import replace

from kgroup.changes.execute import COMMITS, STARTS
from kgroup.cluster.snapshot import Cluster, Snapshot
from kgroup.cluster.topic_visibility import may_hide_topics
from kgroup.groups.selection import (
    Groups,
    SelectedGroups,
    Selection,
    chooses_type,
    names_of,
    names_only,
    without_unread_groups,
)
from kgroup.model.groups import WITH_SHARE, Group, RowError
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.queries.snapshots import GROUPS_AT_A_TIME, refuse_foreign, snapshots
from kgroup.support.errors import NotFound, UsageError

_CREATING = "reset"
_OF_QUERIES = ("reset", "reset --from-group")
_OF_SHARE_GROUPS = ("reset", "delete", "delete-offsets")


def groups_to_change(
    reporter: Reporter,
    cluster: Cluster,
    which: Groups,
    topics: Sequence[str] = (),
    *,
    verb: str = "",
    create: bool = False,
) -> SelectedGroups:
    """The groups that ``which`` selects; those found by a pattern only if they use one of the topics.

    ``verb`` decides the hints of errors, and whether share groups may be chosen. ``create`` allows named groups that
    do not exist; with ``--type share`` they become share groups. Raises as ``kgroup.queries.snapshots`` does.
    """
    if create:
        share = chooses_type(which, SHARE)
        if not names_only(replace_options(which, type=None) if share else which):
            raise UsageError("--create requires groups by name", hint="kgroup reset NEW --create ...")
        return _with_new(cluster, names_of(which), verb, share=share)
    narrowed = None if names_only(which) else list(topics) or None
    selection = Selection(
        which.names, which.group, which.all_groups, which.regex, which.in_state, which.type, narrowed, None
    )
    groups: list[Group] = []
    errors: list[RowError] = []
    noted: set[str] = set()
    for snapshot in _read(reporter, cluster, selection, verb):
        groups += snapshot.groups
        errors += snapshot.errors
        for note in snapshot.notes:
            if note not in noted:
                noted.add(note)
                reporter.note(note)
    return without_unread_groups(groups, errors)


def _read(reporter: Reporter, cluster: Cluster, selection: Selection, verb: str) -> Iterator[Snapshot]:
    try:
        # The search for hidden commits reads the log of all groups once, within one time limit.
        at_a_time = None if names_only(selection) or cluster.ask(may_hide_topics) else GROUPS_AT_A_TIME
        named = names_only(selection) and verb in _OF_QUERIES
        request = STARTS if verb in _OF_SHARE_GROUPS else COMMITS
        yield from snapshots(reporter, cluster, selection, replace(request, queries=named), at_a_time, verb)
    except NotFound as error:
        if verb == _CREATING and names_of(selection):
            raise error.with_context(hint="Nothing was created. For a new group with offsets: --create") from None
        raise


def _with_new(cluster: Cluster, names: Sequence[str], verb: str, *, share: bool) -> SelectedGroups:
    snapshot = cluster.describe(names, STARTS)
    existing = {group.name for group in snapshot.groups}
    if share and (other := next((group for group in snapshot.groups if not group.is_share), None)):
        raise UsageError(f"--type share: {other.name} is a {other.type} group", hint="Choose another name.")
    missing = {e.group for e in snapshot.errors if e.code == NotFound.code and e.topic is None} - existing
    if missing:
        listed = [group for group in cluster.list_groups().groups if group.name in missing]
        refuse_foreign(listed, verb, types=WITH_SHARE)
        missing -= {group.name for group in listed if group.type in WITH_SHARE}
    errors = tuple(error for error in snapshot.errors if error.group not in missing or error.topic)
    return without_unread_groups(snapshot.groups, errors, [name for name in missing if name], share=share)


def reload_groups(cluster: Cluster, before: SelectedGroups) -> SelectedGroups:
    names = [group.name for group in before.groups]
    snapshot = cluster.describe(names, replace(STARTS, queries=True))
    # Errors from before the wait are obsolete: the second read reports its own.
    errors = [error for error in before.errors if error.group not in names]
    return without_unread_groups(snapshot.groups, (*errors, *snapshot.errors), before.created, share=before.share)
