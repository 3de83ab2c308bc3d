"""Selects the groups of a verb: lists, chooses, narrows by topic, and checks their number."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.selection import GroupChoice, Selection, check_expected, choose, uses_topic, visibility_note
from kgroup.model.groups import ListedGroup, RowError
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import NotFound


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """The selected groups, and errors for what could not be read."""

    groups: tuple[ListedGroup, ...]
    errors: tuple[RowError, ...]


def choose_groups(run: Invocation, cluster: Cluster, which: Selection) -> ListedGroups:
    """The groups that ``which`` selects, ordered by name.

    Raises NotFound and NotAuthorized as ``kgroup.groups.selection`` does, and Refused if ``--expect`` is another
    number. If no group matches and a broker did not answer, raises that broker's error. Notes go to the reporter.
    """
    listing = cluster.list_groups()
    if note := visibility_note(listing.groups, listing.complete):
        run.reporter.note(note)
    choice = _choice(which, listing, cluster.ref.label)
    groups = choice.groups
    errors = tuple(RowError.of(error) for error in (*listing.failures, choice.missing) if error)
    if which.topic:
        for topic in cluster.check_topics(which.topic):
            run.reporter.note(f'there is no topic "{topic}"')
        # This user may describe these topics, checked above; hidden commits on other topics do not matter here.
        snapshot = cluster.describe(groups, SnapshotRequest(logs=False, generation_budget_s=0, hidden_budget_s=0))
        about = {group.name for group in snapshot.groups if uses_topic(group, which.topic)}
        groups = tuple(group for group in groups if group.name in about)
        errors += snapshot.errors
    check_expected(which, len(groups))
    return ListedGroups(groups, errors)


def _choice(which: Selection, listing: GroupListing, cluster: str) -> GroupChoice:
    try:
        return choose(which, listing.groups, cluster)
    except NotFound:
        if listing.failures:
            # The group may be on the broker that did not answer.
            raise listing.failures[0] from None
        raise
