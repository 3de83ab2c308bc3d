"""Selects the groups of a command, by name or pattern, filtered by state, type and topic. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from kgroup.groups.reset_targets import TopicChoice, parse_topics
from kgroup.model.groups import ALL_TYPES, Group, ListedGroup, RowError
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.streaming_query import QUERY
from kgroup.model.topic_partition import GroupTopicPartition
from kgroup.support.errors import NotAuthorized, NotFound, Refused, UsageError, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import plural

UNEXPECTED_COUNT = refusal_code(
    "unexpected-count",
    "verbs with --expect",
    "The number of rows or groups is not the number of --expect.",
    "Check which groups and partitions are chosen.",
)

_NEAR = 3
_LONGEST_NAME_BYTES = 32_767
_UNSET = "A variable of the script may be unset."
TYPES = (*ALL_TYPES, QUERY)
STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
    "InBatch",
    "BatchDone",
    "New",
)


@dataclass(frozen=True, slots=True)
class Groups:
    """The options that select groups; None: the option was not given.

    ``names`` and ``group`` are names, ``regex`` is a pattern for whole names, ``in_state`` and ``type`` are filters.
    """

    names: list[str] | None = None
    group: list[str] | None = None
    all_groups: bool = False
    regex: str | None = None
    in_state: list[str] | None = None
    type: list[str] | None = None


class TopicFilter(msgspec.Struct, frozen=True):
    """Topics with their partitions, from ``--topic``. Without any, it has all partitions."""

    choices: tuple[TopicChoice, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The topics, in the order in which the user typed them."""
        return tuple(choice.topic for choice in self.choices)

    def has(self, topic: str, partition: int) -> bool:
        return not self.choices or any(
            choice.topic == topic and (choice.partitions is None or partition in choice.partitions)
            for choice in self.choices
        )

    def narrow(self, group: Group) -> Group:
        """The group with only these partitions: the lag of others would hide theirs."""
        if not self.choices:
            return group
        return replace(group, partitions=tuple(p for p in group.partitions if self.has(p.topic, p.partition)))

    def has_whole(self, topic: str) -> bool:
        """Whether the topic is one of them, with all its partitions."""
        return any(choice.topic == topic and choice.partitions is None for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Selection(Groups):
    """``Groups`` with a filter by topic and an expected number of groups, for commands that only read."""

    topic: list[str] | None = None
    expect: int | None = None

    @property
    def topics(self) -> TopicFilter:
        """The parsed ``--topic`` options: ``orders``, or ``orders:0,1``. Raises UsageError."""
        return TopicFilter(parse_topics(self.topic or ()))


def names_of(selection: Groups) -> tuple[str, ...]:
    """The named groups without duplicates, in the order in which the user typed them."""
    return tuple(dict.fromkeys((*(selection.names or ()), *(selection.group or ()))))


def names_only(selection: Groups) -> bool:
    """Whether groups are selected by name alone, so that no listing is needed."""
    narrowed = selection.in_state or selection.type
    return bool(names_of(selection)) and not (narrowed or selection.regex or selection.all_groups)


def named_groups(selection: Groups) -> frozenset[str] | None:
    """The groups of a selection by name alone, None for another selection."""
    return frozenset(names_of(selection)) if names_only(selection) else None


def chooses_type(selection: Groups, kind: str) -> bool:
    """Whether ``--type`` names this type; False without the option."""
    return kind in [word.lower() for word in _words(selection.type)]


def check_selection(selection: Selection) -> None:
    """Raise UsageError for an invalid selection, before any request to the cluster."""
    check_groups(selection)
    if selection.expect is not None and selection.expect < 0:
        raise UsageError(f"--expect must be 0 or greater, not {selection.expect}")
    check_topics(selection.topics.names)


def check_topics(topics: Iterable[str]) -> None:
    """Raise UsageError for an invalid topic name."""
    for topic in topics:
        if not topic:
            raise UsageError("--topic is empty", hint=_UNSET)
        _check_name(topic)


def check_groups(selection: Groups) -> None:
    """Raise UsageError for invalid options that select groups, before any request to the cluster."""
    named = names_of(selection)
    if named and selection.all_groups:
        raise UsageError("group names and --all-groups are mutually exclusive")
    if "" in named:
        raise UsageError("a group's name is empty", hint=_UNSET)
    if selection.regex == "":
        raise UsageError("--regex is empty", hint=_UNSET)
    for name in named:
        _check_name(name)
    if selection.regex is not None:
        _pattern(selection.regex)
    _check_values(selection.in_state, STATES, "--in-state")
    _check_values(selection.type, TYPES, "--type")


class GroupChoice(msgspec.Struct, frozen=True):
    """The selected groups. ``missing`` is the error for names of groups that do not exist, None if all exist."""

    groups: tuple[ListedGroup, ...]
    missing: NotFound | None


def _check_name(name: str) -> None:
    """Raise UsageError if the name is not UTF-8 of at most 32,767 bytes, the protocol's limit."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name!r} is not UTF-8, so no group or topic has this name") from error
    if len(encoded) > _LONGEST_NAME_BYTES:
        raise UsageError(f"{name[:20]}... is too long for a name: {len(encoded)} bytes")


def select_groups(selection: Groups, listed: Sequence[ListedGroup], cluster: str) -> GroupChoice:
    """The selected groups of the listing, in its order. ``cluster`` is the name of the cluster for messages.

    Raises NotFound, with similar names, if the pattern matches no group, or if none of the named groups exists. It is
    no error if the filters leave no group.
    """
    named, selected, missing = names_of(selection), list(listed), None
    if named or selection.regex is not None:
        by_name = {group.name: group for group in listed}
        selected_names = set(named)
        if selection.regex is not None:
            pattern = _pattern(selection.regex)
            matching = {name for name in by_name if pattern.fullmatch(name)}
            if not matching:
                raise _no_match(selection.regex, listed, cluster)
            selected_names |= matching
        selected = [group for group in listed if group.name in selected_names]
        absent = [name for name in named if name not in by_name]
        missing = unknown_groups(absent, listed, cluster) if absent else None
        if missing and not selected:
            raise missing
    states = {_folded(state) for state in _words(selection.in_state)}
    types = {kind.lower() for kind in _words(selection.type)}
    filtered = (
        group
        for group in selected
        if (not states or _folded(group.state) in states) and (not types or group.type in types)
    )
    return GroupChoice(tuple(filtered), missing)


def uses_topic(group: Group, topics: TopicFilter) -> bool:
    """Whether the group commits to, or is assigned, one of the partitions, or is subscribed to a whole topic."""
    members = group.members or ()
    return (
        any(topics.has(partition.topic, partition.partition) for partition in group.partitions)
        or any(topics.has_whole(topic) for member in members for topic in member.subscription or ())
        or any(
            topics.has(item.topic, number)
            for member in members
            for item in member.assignment or ()
            for number in item.partitions
        )
    )


def visibility_note(listed: Sequence[ListedGroup], complete: bool) -> str | None:
    """A note for a listing that may be incomplete; None if it is complete.

    Raises NotAuthorized if nothing is listed at all: an empty list would look like an empty cluster.
    """
    if complete:
        return None
    if not listed:
        raise NotAuthorized(
            "no group can be listed: this user has DESCRIBE neither on the Cluster nor on any Group",
            hint=acl_hint("Describe", "cluster"),
        )
    return "this user lacks DESCRIBE on the Cluster: groups that it may not see may be missing"


def check_expected(selection: Selection, count: int) -> None:
    """Raise Refused if ``--expect`` has another number than ``count``."""
    if selection.expect is not None and selection.expect != count:
        raise Refused(
            f"{plural(count, 'group')} chosen, {selection.expect} expected (--expect)",
            code=UNEXPECTED_COUNT,
        )


def unknown_groups(missing: Sequence[str], listed: Sequence[ListedGroup], cluster: str) -> NotFound:
    """The error for groups that do not exist on the cluster ``cluster``, with similar names."""
    named = ", ".join(f'"{name}"' for name in missing)
    near = [group for name in missing for group in near_misses(name, listed)]
    return NotFound(f"no group {named} on {cluster}", details=_near(near), hint=Hint("{}", ("list",)))


def near_misses(name: str, listed: Sequence[ListedGroup]) -> list[ListedGroup]:
    """Up to three groups with a name similar to ``name``, or containing it, or contained in it; case is ignored."""
    folded = name.lower()
    names = dict.fromkeys(group.name.lower() for group in listed)
    close = get_close_matches(folded, names, n=_NEAR)
    parts = [other for other in names if len(folded) > 2 and (folded in other or other in folded)]
    by_folded: dict[str, list[ListedGroup]] = {}
    for group in listed:
        by_folded.setdefault(group.name.lower(), []).append(group)
    near_names = dict.fromkeys((*close, *parts))
    return [group for other in near_names for group in by_folded[other]][:_NEAR]


def _near(groups: Sequence[ListedGroup]) -> tuple[str, ...]:
    text = ", ".join(f"{group.name} ({group.type}, {group.state})" for group in dict.fromkeys(groups))
    return (f"Near: {text}",) if groups else ()


def _no_match(regex: str, listed: Sequence[ListedGroup], cluster: str) -> NotFound:
    inside = sum(re.search(regex, group.name) is not None for group in listed)
    hint = f"the pattern must match the whole name; .*({regex}).* matches {inside}" if inside else Hint("{}", ("list",))
    # The pattern without its special characters is roughly the name that the user had in mind.
    near = [] if inside else near_misses(re.sub(r"\\.|\W*[.*+?^$|()\[\]{}]+", "", regex), listed)
    return NotFound(f"no group on {cluster} matches {regex!r}", details=_near(near), hint=hint)


def _pattern(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        raise UsageError(f"--regex {regex!r}: {error}") from error


def _check_values(values: Sequence[str] | None, known: Sequence[str], option: str) -> None:
    folded = {_folded(word): word for word in known}
    for word in _words(values):
        if not word:
            raise UsageError(f"{option} is empty", hint=_UNSET)
        if _folded(word) not in folded:
            near = get_close_matches(_folded(word), folded, n=1)
            raise UsageError(
                f"{option} {word}: unknown",
                hint=f"did you mean {folded[near[0]]}?" if near else f"choose one of: {', '.join(known)}",
            )


def _words(values: Sequence[str] | None) -> list[str]:
    """Split at commas: ``["Stable,Empty"]`` is two words, as in kafka-consumer-groups.sh."""
    return [word.strip() for part in values or () for word in part.split(",")]


def _folded(word: str) -> str:
    """Normalize a word: ``completing-rebalance`` and ``CompletingRebalance`` are the same state."""
    return re.sub(r"[^a-z]", "", word.lower())


class SelectedGroups(msgspec.Struct, frozen=True):
    """Groups with their commits, and failures. ``created`` are the names of groups that do not exist yet.

    ``share`` is whether those become share groups.
    """

    groups: tuple[Group, ...]
    errors: tuple[RowError, ...]
    created: frozenset[str] = frozenset()
    share: bool = False

    @property
    def unread(self) -> dict[GroupTopicPartition, RowError]:
        """The errors of commits that could not be read, by (group, topic, partition)."""
        return {
            (error.group, error.topic, error.partition): error
            for error in self.errors
            if error.group is not None and error.topic is not None and error.partition is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All names; those of groups to be created come last."""
        return (*(group.name for group in self.groups), *sorted(self.created))


def without_unread_groups(
    groups: Iterable[Group], errors: Sequence[RowError], created: Collection[str] = (), *, share: bool = False
) -> SelectedGroups:
    """The groups without those that failed as a whole: these cannot be changed, even with --partial."""
    unread = {error.group for error in errors if error.topic is None}
    return SelectedGroups(
        tuple(group for group in groups if group.name not in unread), tuple(errors), frozenset(created), share
    )
