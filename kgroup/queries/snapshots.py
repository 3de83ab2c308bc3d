"""Selects the groups of a verb, and reads their current state in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.snapshot import DESCRIBED_TYPES, Cluster, Snapshot, SnapshotRequest
from kgroup.groups.selection import (
    GroupChoice,
    Selection,
    check_expected,
    names_of,
    names_only,
    select_groups,
    unknown_groups,
    uses_topic,
    visibility_note,
)
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.reporter import Reporter
from kgroup.support.errors import NotFound, Refused
from kgroup.support.quoting import quote
from kgroup.support.units import plural


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """The selected groups, and errors for what could not be read."""

    groups: tuple[ListedGroup, ...]
    errors: tuple[RowError, ...]


def choose_groups(reporter: Reporter, cluster: Cluster, which: Selection) -> ListedGroups:
    """The groups that ``which`` selects, ordered by name.

    Raises NotFound and NotAuthorized as ``kgroup.groups.selection`` does, and Refused if ``--expect`` is another
    number. If no group matches and a broker did not answer, raises that broker's error. Notes go to the reporter.
    """
    listing = cluster.list_groups()
    if note := visibility_note(listing.groups, listing.complete):
        reporter.note(note)
    choice = _choice(which, listing, cluster.ref.label)
    groups = choice.groups
    errors = tuple(RowError.of(error) for error in (*listing.failures, choice.missing) if error)
    if which.topic:
        for topic in cluster.check_topics(which.topic):
            reporter.note(f'there is no topic "{topic}"')
        # This user may describe these topics, checked above; hidden commits on other topics do not matter here.
        snapshot = cluster.describe(groups, SnapshotRequest(logs=False, generation_budget_s=0, hidden_budget_s=0))
        about = {group.name for group in snapshot.groups if uses_topic(group, which.topic)}
        groups = tuple(group for group in groups if group.name in about)
        errors += snapshot.errors
    check_expected(which, len(groups))
    return ListedGroups(groups, errors)


def _choice(which: Selection, listing: GroupListing, cluster: str) -> GroupChoice:
    try:
        return select_groups(which, listing.groups, cluster)
    except NotFound:
        if listing.failures:
            # The group may be on the broker that did not answer.
            raise listing.failures[0] from None
        raise


def snapshots(
    reporter: Reporter,
    cluster: Cluster,
    which: Selection,
    request: SnapshotRequest,
    at_a_time: int | None = None,
    verb: str = "",
) -> Iterator[Snapshot]:
    """The groups that ``which`` selects, ``at_a_time`` groups in each snapshot (None: all in one).

    Groups that are only named are described directly, without a listing. Raises NotFound, Refused and NotAuthorized as
    ``choose_groups`` does. Raises Refused for a named group of a type without committed offsets, as ``refuse_foreign``
    does for this ``verb``.
    """
    if names_only(which) and not which.topic:
        yield _by_name(cluster, which, request, verb)
        return
    listed = choose_groups(reporter, cluster, which)
    described = _described(reporter, which, listed.groups, verb)
    if listed.errors:
        yield Snapshot((), listed.errors, ())
    step = at_a_time or max(1, len(described))
    for at in range(0, len(described), step):
        yield _without_vanished(cluster, cluster.describe(described[at : at + step], request))


def _by_name(cluster: Cluster, which: Selection, request: SnapshotRequest, verb: str) -> Snapshot:
    """The named groups; the others are listed only if one is missing."""
    names = names_of(which)
    snapshot = cluster.describe(names, request)
    known_names = {group.name for group in snapshot.groups}
    missing = [e.group for e in snapshot.errors if e.code == NotFound.code and e.group and e.group not in known_names]
    if not missing:
        check_expected(which, len(known_names))
        return snapshot
    listing = cluster.list_groups()
    refuse_foreign([group for group in listing.groups if group.name in missing], verb)
    unknown = unknown_groups(missing, listing.groups, cluster.ref.label)
    if not known_names:
        raise unknown
    check_expected(which, len(known_names))
    others = tuple(error for error in snapshot.errors if error.group not in missing)
    return replace(snapshot, errors=(*others, RowError.of(unknown)))


def _described(
    reporter: Reporter, which: Selection, groups: Sequence[ListedGroup], verb: str
) -> tuple[ListedGroup, ...]:
    """The groups that kgroup can describe. Raises Refused for a named one that it cannot."""
    foreign = exclude_foreign(reporter, which, groups, verb=verb)
    return tuple(group for group in groups if group.name not in foreign)


def exclude_foreign(
    reporter: Reporter, which: Selection, groups: Sequence[ListedGroup], source: str = "", verb: str = ""
) -> frozenset[str]:
    """The names of the share and streams groups among these, with a note. Raises Refused for a named one."""
    foreign = [group for group in groups if group.type not in DESCRIBED_TYPES]
    refuse_foreign([group for group in foreign if group.name in names_of(which)], verb)
    if foreign:
        reporter.note(f"left out, {plural(len(foreign), 'share or streams group')}: kgroup list{source}")
    return frozenset(group.name for group in foreign)


def _without_vanished(cluster: Cluster, snapshot: Snapshot) -> Snapshot:
    """A group deleted between listing and describing is not an error; one that is still listed is."""
    missing = {error.group for error in snapshot.errors if error.code == NotFound.code and not error.topic}
    errors = (error for error in snapshot.errors if error.code != NotFound.code or error.topic)
    return replace(snapshot, errors=(*errors, *cluster.denied(filter(None, missing))))


_THEIR_FLAGS = {
    "share": {
        "reset": "--reset-offsets --dry-run --all-topics --to-earliest",
        "delete": "--delete",
        "delete-offsets": "--delete-offsets --topic TOPIC",
    },
    "streams": {
        "reset": "--reset-offsets --dry-run --all-input-topics --to-earliest",
        "delete": "--delete",
        "delete-offsets": "--delete-offsets --input-topic TOPIC",
    },
}


def refuse_foreign(groups: Sequence[ListedGroup], verb: str = "") -> None:
    """Raise Refused for a group of another type, with the command of Kafka's tool that corresponds to ``verb``.

    For a verb without a corresponding command (the default) that is the command that describes the group.
    """
    for group in groups:
        if group.type not in DESCRIBED_TYPES:
            flags = _THEIR_FLAGS.get(group.type, {}).get(verb, "--describe")
            raise Refused(
                f"{group.name} is a {group.type} group: kgroup reads and changes classic and consumer groups only",
                code="foreign-owner",
                hint=f"kafka-{group.type}-groups.sh --bootstrap-server BROKER {flags} --group {quote(group.name)}",
            )
