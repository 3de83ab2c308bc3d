"""Selects the groups of a verb, and reads their current state in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from kgroup.cluster.broker_errors import denied_group
from kgroup.cluster.checkpoints.queries import listed_query
from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.group_partition import partition_of
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.foreign_owners import LEFT_BEHIND, streams_steps
from kgroup.groups.selection import (
    GroupChoice,
    Selection,
    check_expected,
    chooses_type,
    names_of,
    names_only,
    select_groups,
    unknown_groups,
    uses_topic,
    visibility_note,
)
from kgroup.model.groups import ALL_TYPES, DESCRIBED_TYPES, WITH_SHARE, WITH_STREAMS, ListedGroup, RowError
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.model.streaming_query import QUERY, StreamingQuery, is_query
from kgroup.model.streams_group import STREAMS
from kgroup.support.errors import FOREIGN_OWNER, KgroupError, NotFound, Refused, Unreachable
from kgroup.support.hint import Hint
from kgroup.support.quoting import quote
from kgroup.support.units import plural

STATE_ONLY = SnapshotRequest(offsets=False, logs=False, generation_budget_s=0)
GROUPS_AT_A_TIME = 250
"""How many groups are read at once where their number must not decide how much memory is needed."""


class ListedGroups(msgspec.Struct, frozen=True):
    """The selected groups, and errors for what could not be read."""

    groups: tuple[ListedGroup, ...]
    errors: tuple[RowError, ...]


def choose_groups(
    reporter: Reporter,
    cluster: Cluster,
    which: Selection,
    *,
    all_types: bool = False,
    queries: bool = True,
    share: bool = False,
) -> ListedGroups:
    """The groups that ``which`` selects, ordered by name; with ``all_types`` also the context's ``queries``.

    With ``share``, the topics that narrow the selection are looked for in share groups too.

    Raises NotFound and NotAuthorized as ``kgroup.groups.selection`` does, and Refused if ``--expect`` is another
    number, and NotFound for topics that do not exist and that no group uses. If no group matches and a broker did not
    answer, raises that broker's error. Notes go to the reporter.
    """
    listing = cluster.list_groups()
    if note := visibility_note(listing.groups, listing.complete):
        reporter.note(note)
    read = _read_queries(cluster, which) if all_types and queries else {}
    listed = (*listing.groups, *(listed_query(name, query) for name, query in read.items()))
    listing = replace(listing, groups=tuple(sorted(listed, key=lambda group: group.name)))
    choice = _choice(which, listing, cluster.ref.label)
    missing: KgroupError | None = choice.missing
    if missing and listing.failures:  # it may be on the broker that did not answer
        missing = Unreachable(f"{missing.message}, as far as brokers answered", code=listing.failures[0].code)
    errors = tuple(RowError.of(error) for error in (*listing.failures, missing) if error)
    unread = {name: error for name, error in read.items() if isinstance(error, KgroupError)}
    errors += tuple(
        RowError.of(unread[group.name], group=group.name) for group in choice.groups if group.name in unread
    )
    groups = tuple(group for group in choice.groups if group.name not in unread)
    if which.topic:
        unknown = cluster.check_topics(which.topics.names)
        # This user may describe these topics, checked above; hidden commits on other topics do not matter here.
        request = SnapshotRequest(
            logs=False, generation_budget_s=0, hidden_budget_s=0, all_types=all_types, share=share
        )
        about: set[str] = set()
        for at in range(0, len(groups), GROUPS_AT_A_TIME):
            snapshot = cluster.describe(groups[at : at + GROUPS_AT_A_TIME], request)
            about |= {group.name for group in snapshot.groups if uses_topic(group, which.topics)}
            errors += snapshot.errors
        groups = tuple(group for group in groups if group.name in about)
        if unknown and not groups and not errors:
            raise _no_topic(unknown)
        for topic in unknown:  # a group may subscribe to it still
            reporter.note(f'there is no topic "{topic}"')
    check_expected(which, len(groups))
    return ListedGroups(groups, errors)


def _read_queries(cluster: Cluster, which: Selection) -> dict[str, StreamingQuery | KgroupError]:
    """The streaming queries that are named, and those of the context unless the choice is of others alone."""
    named = [name for name in names_of(which) if is_query(name)]
    others = bool(which.type) and QUERY not in ",".join(which.type or ()).lower()
    by_name = bool(names_of(which)) and which.regex is None
    return cluster.queries.read(named if others or by_name else (*cluster.queries.names, *named))


def require_topics(cluster: Cluster, which: Selection) -> None:
    """Raise NotFound if a topic that narrows the selection does not exist, NotAuthorized if it may not be seen."""
    if which.topic and (missing := cluster.check_topics(which.topics.names)):
        raise _no_topic(missing)


def _no_topic(missing: Sequence[str]) -> NotFound:
    return NotFound(f"there is no topic {', '.join(missing)}", hint=Hint("{} shows its topics", ("describe", "GROUP")))


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
    listed = describable_groups(
        reporter,
        cluster,
        which,
        verb,
        all_types=request.all_types,
        share=request.share,
        streams=request.streams,
    )
    yield from batches(cluster, listed, request, at_a_time)


def describable_groups(
    reporter: Reporter,
    cluster: Cluster,
    which: Selection,
    verb: str = "",
    *,
    all_types: bool = False,
    queries: bool = True,
    share: bool = False,
    streams: bool = False,
) -> ListedGroups:
    """The groups that ``which`` selects and kgroup can describe. Raises as ``snapshots`` does.

    With ``share`` the share groups are among them that are named, or that ``--type share`` chooses; with ``streams``
    all streams groups are.
    """
    listed = choose_groups(reporter, cluster, which, all_types=all_types, queries=queries, share=share)
    types = ALL_TYPES if all_types else WITH_STREAMS if streams else DESCRIBED_TYPES
    foreign = exclude_foreign(reporter, which, listed.groups, verb=verb, types=types, share=share)
    return ListedGroups(tuple(group for group in listed.groups if group.name not in foreign), listed.errors)


def batches(
    cluster: Cluster, listed: ListedGroups, request: SnapshotRequest, at_a_time: int | None = None
) -> Iterator[Snapshot]:
    """Snapshots of ``at_a_time`` groups each (None: one of all); the errors of the listing are in one of their own."""
    if listed.errors:
        yield Snapshot((), listed.errors, ())
    step = at_a_time or max(1, len(listed.groups))
    for at in range(0, len(listed.groups), step):
        yield _without_vanished(cluster, cluster.describe(listed.groups[at : at + step], request))


def in_parts(
    reporter: Reporter, cluster: Cluster, which: Selection, request: SnapshotRequest, *, at_once: bool = False
) -> tuple[int, Iterator[tuple[int, Snapshot]]]:
    """How many groups ``which`` selects; and snapshots of parts of them, each with the number of groups to be read.

    Groups that are only named are in one part, and so are all ``at_once``. Raises as ``snapshots`` does.
    """
    if at_once or names_only(which):
        read = list(snapshots(reporter, cluster, which, request))
        return sum(len(each.groups) for each in read), ((len(each.groups), each) for each in read)
    listed = describable_groups(reporter, cluster, which, all_types=request.all_types)
    parts = by_log_partition(listed.groups, cluster.count_log_partitions(), GROUPS_AT_A_TIME)
    failed = [(0, Snapshot((), listed.errors, ()))] if listed.errors else []
    read_parts = ((len(part), _without_vanished(cluster, cluster.describe(part, request))) for part in parts)
    return len(listed.groups), chain(failed, read_parts)


def by_log_partition(groups: Sequence[ListedGroup], partitions: int, at_a_time: int) -> list[tuple[ListedGroup, ...]]:
    """Parts of about ``at_a_time`` groups; groups of one partition of ``__consumer_offsets`` are in the same part.

    So reading the log of each part reads each partition of the log once. ``partitions`` is the number of its
    partitions; if it is 0 (unknown), the log cannot be read, and the parts are in the order of the groups.
    """
    by_partition: dict[int, list[ListedGroup]] = {}
    for at, group in enumerate(groups):
        number = partition_of(group.name, partitions) if partitions else at // at_a_time
        by_partition.setdefault(number, []).append(group)
    parts: list[tuple[ListedGroup, ...]] = []
    for _, together in sorted(by_partition.items()):
        if parts and len(parts[-1]) + len(together) <= at_a_time:
            parts[-1] += tuple(together)
        else:
            parts.append(tuple(together))
    return [tuple(sorted(part, key=lambda group: group.name)) for part in parts]


def _by_name(cluster: Cluster, which: Selection, request: SnapshotRequest, verb: str) -> Snapshot:
    """The named groups; the others are listed only if one is missing."""
    names = names_of(which)
    snapshot = cluster.describe(names, request)
    known_names = {group.name for group in snapshot.groups}
    not_found = (error.group for error in snapshot.errors if error.code == NotFound.code and error.group)
    missing = [name for name in not_found if name not in known_names and not is_query(name)]
    if not missing:
        check_expected(which, len(known_names))
        return snapshot
    listing = cluster.list_groups()
    of_them = [group for group in listing.groups if group.name in missing]
    refuse_foreign(of_them, verb, types=request.types)
    if off := [group for group in of_them if group.type not in DESCRIBED_TYPES]:
        # Where share or streams groups are switched off, the brokers do not say which of all names is one.
        again, names_off = cluster.describe(off, request), {group.name for group in off}
        others = [error for error in snapshot.errors if error.group not in names_off]
        snapshot = Snapshot((*snapshot.groups, *again.groups), (*others, *again.errors), snapshot.notes)
        known_names |= {group.name for group in again.groups}
        missing = [name for name in missing if name not in names_off]
    listed = {group.name for group in listing.groups}
    absent = [name for name in missing if name not in listed]
    unknown = unknown_groups(absent, listing.groups, cluster.ref.label)
    if not known_names and absent == missing:
        raise unknown
    check_expected(which, len(known_names))
    others = [error for error in snapshot.errors if error.group not in missing]
    # The listing is newer: its coordinator shows the group now.
    others += [RowError.of(denied_group(), group=name) for name in missing if name in listed]
    return replace(snapshot, errors=(*others, *([RowError.of(unknown)] if absent else ())))


def exclude_foreign(
    reporter: Reporter,
    which: Selection,
    groups: Sequence[ListedGroup],
    source: str = "",
    verb: str = "",
    *,
    types: tuple[str, ...] = DESCRIBED_TYPES,
    share: bool = False,
) -> frozenset[str]:
    """The names of the share and streams groups among these, with a note. Raises Refused for a named one.

    ``types`` are those that the verb knows; with ``share`` it knows share groups too that are chosen as such.
    """
    named = names_of(which)
    typed = share and chooses_type(which, SHARE)
    known = WITH_SHARE if typed else types
    foreign = [
        group
        for group in groups
        if _is_foreign(group, known) and not (share and group.type == SHARE and group.name in named)
    ]
    refuse_foreign([group for group in foreign if group.name in named], verb)
    if foreign:
        hint = Hint("{}", ("list", *([source] if source else ())))
        what = {ALL_TYPES: "group of another type", WITH_SHARE: "streams group", WITH_STREAMS: "share group"}.get(
            known, "share or streams group"
        )
        reporter.note(f"left out, {plural(len(foreign), what)}: {hint}{_BY_TYPE if share and not typed else ''}")
    return frozenset(group.name for group in foreign)


def _without_vanished(cluster: Cluster, snapshot: Snapshot) -> Snapshot:
    """A group deleted between listing and describing is not an error; one that is still listed is."""
    missing = {error.group for error in snapshot.errors if error.code == NotFound.code and not error.topic}
    errors = (error for error in snapshot.errors if error.code != NotFound.code or error.topic)
    return replace(snapshot, errors=(*errors, *cluster.denied(filter(None, missing))))


_BY_TYPE = "; --type share chooses share groups"


def _is_foreign(group: ListedGroup, types: Sequence[str]) -> bool:
    return group.type not in (*types, QUERY)


_NO_OFFSETS = "this verb needs committed offsets, and a share group has none"
_NOT_KNOWN = "this verb knows no groups of that type"


def refuse_foreign(groups: Sequence[ListedGroup], verb: str = "", *, types: Sequence[str] = DESCRIBED_TYPES) -> None:
    """Raise Refused for a group of another type, with the command of Kafka's tool that corresponds to ``verb``.

    For a verb without a corresponding command that is the command that describes the group; for one that moves offsets
    of a streams group, the right steps are shown. Those of these ``types`` are not refused.
    """
    for group in groups:
        if _is_foreign(group, types):
            moves = group.type == STREAMS and verb in ("reset", "delete-offsets")
            left = LEFT_BEHIND if group.type == STREAMS and verb == "delete" else ()
            flags = "--delete" if left else "--describe"
            raise Refused(
                f"{group.name} is a {group.type} group: {_NO_OFFSETS if group.type == SHARE else _NOT_KNOWN}",
                code=FOREIGN_OWNER,
                details=streams_steps(group.name, new=True) if moves else left,
                hint=None
                if moves
                else f"kafka-{group.type}-groups.sh --bootstrap-server BROKER {flags} --group {quote(group.name)}",
            )
