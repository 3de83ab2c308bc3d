"""The rows of a reset: the partitions, the target offset of each, and warnings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from kgroup.groups.change_plan import ChangeRow, stalled, unusual_commits, unusual_shift
from kgroup.groups.change_result import Refusal
from kgroup.groups.offset_files import FileRow
from kgroup.groups.reset_targets import RequestedOffset, ResetScenario, ResetTarget, ShiftBy, TopicChoice, ToRequested
from kgroup.groups.selection import Groups, names_of, names_only
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Positions, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, KgroupError, NotFound, Refused, UsageError, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import human_count, some_of

OTHER_TOPICS = refusal_code(
    "other-topics",
    "reset",
    "A file that names no groups has offsets of topics that the group has no commit on and does not read.",
    "Check that it is the file of this group. If it is meant: --accept other-topics.",
)
_NAMED = 5

PartitionsByTopic = Mapping[str, frozenset[int] | KgroupError]
"""The partitions of each topic, or the error of reading them."""


def partitions_of(
    topics: Sequence[TopicChoice] | None, commits: Iterable[TopicPartition], partitions: PartitionsByTopic
) -> list[TopicPartition]:
    """The partitions that ``--topic`` selects; without it, those with a commit of the group.

    A topic without numbers selects all its partitions, with or without a commit, as in kafka-consumer-groups.sh.
    """
    if topics is None:
        return sorted(commits)
    selected: set[TopicPartition] = set()
    for choice in topics:
        known = partitions.get(choice.topic)
        numbers = choice.partitions
        if numbers is None:
            numbers = () if known is None or isinstance(known, KgroupError) else tuple(known)
        selected.update(TopicPartition(choice.topic, number) for number in numbers)
    return sorted(selected)


def filter_partitions(
    topics: Sequence[TopicChoice] | None, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Those of ``partitions`` that ``--topic`` selects; all of them without ``--topic``."""
    if topics is None:
        return sorted(partitions)
    by_topic = {choice.topic: choice.partitions for choice in topics}
    return sorted(
        TopicPartition(topic, number)
        for topic, number in partitions
        if topic in by_topic and ((numbers := by_topic[topic]) is None or number in numbers)
    )


def reset_row(
    group: str,
    tp: TopicPartition,
    scenario: ResetScenario,
    old: Commit | None,
    log: Positions | KgroupError | None,
    partitions: PartitionsByTopic,
) -> ChangeRow:
    """The row of one partition; it has an error if the partition cannot be reset."""
    if missing := _missing(tp, partitions):
        return ChangeRow(group, *tp, old, None).failing(missing)
    if log is None or isinstance(log, KgroupError):
        reason = log or KgroupError("its log could not be read")
        return ChangeRow(group, *tp, old, None).failing(RowError.of(reason))
    target = scenario.target(tp, old, log)
    span = log.range
    if not isinstance(target, ResetTarget):
        return ChangeRow(group, *tp, old, None, span).failing(target)
    return ChangeRow(group, *tp, old, target.commit, span, target.clamped, target.note)


def _missing(tp: TopicPartition, partitions: PartitionsByTopic) -> RowError | None:
    topic, number = tp
    known = partitions.get(topic)
    if isinstance(known, KgroupError):
        return RowError.of(known)
    if known is not None and number not in known:
        return RowError(
            "unknown-partition",
            f"there is no such partition; {topic} has {len(known)}",
            exit_code=ExitCode.NOT_FOUND,
        )
    return None


def missing_topics(
    group: str, topics: Sequence[TopicChoice] | None, partitions: PartitionsByTopic, committed: Iterable[str]
) -> Iterator[ChangeRow]:
    """Rows with an error for topics that are named without partitions and cannot be read or do not exist.

    ``committed`` are the group's own topics; the error suggests those with a similar name, in case of a typo.
    """
    known = sorted(set(committed))
    for choice in topics or ():
        fault = partitions.get(choice.topic)
        if choice.partitions is not None or not isinstance(fault, KgroupError):
            continue
        error = RowError.of(fault, topic=choice.topic)
        if isinstance(fault, NotFound):
            near = get_close_matches(choice.topic, known, n=3)
            details = (f"Near: {', '.join(near)}",) if near else ()
            error = replace(error, message=f"there is no topic {choice.topic}", details=details)
        yield ChangeRow(group, choice.topic, None, None, None).failing(error)


def out_of_range(rows: Iterable[ChangeRow]) -> Iterator[ChangeRow]:
    """The rows with an error, and those whose old commit is outside the log, with a note on what can still be read."""
    for row in rows:
        if row.error or (row.gone and row.log):
            yield replace(row, note=row.note or _loss_note(row))


def _loss_note(row: ChangeRow) -> str | None:
    if row.log is None or row.old is None:
        return None
    readable = f"[{row.log.start}, {row.log.end}) still readable"
    if row.old.offset < row.log.start:
        return f"{human_count(row.log.start - row.old.offset)} deleted, {readable}"
    return f"{human_count(row.old.offset - row.log.end)} above the log end, {readable}"


class ResetRequest(msgspec.Struct, frozen=True):
    """A validated request for a reset.

    ``scenario`` is None if a file or another group (``from_group``) has the target offsets. ``topics`` None: all
    committed partitions. ``only_out_of_range`` selects only partitions whose commit is outside the log.
    """

    scenario: ResetScenario | None
    topics: tuple[TopicChoice, ...] | None
    only_out_of_range: bool = False
    from_group: str | None = None
    file_rows: tuple[FileRow, ...] = ()


def topics_of(
    name: str, named: Collection[str], topics: tuple[TopicChoice, ...] | None, commits: Iterable[TopicPartition]
) -> tuple[TopicChoice, ...] | None:
    """The selected topics for one group. A group that is not ``named`` gets no commits on topics new to it."""
    if topics is None or name in named:
        return topics
    known = {topic for topic, _ in commits}
    return tuple(choice for choice in topics if choice.topic in known)


def scenarios_of_file(
    rows: Sequence[FileRow], groups: Groups, names: Sequence[str], cluster: str
) -> tuple[dict[str, ResetScenario], list[RowError]]:
    """The target offsets of each of ``names`` in a file, and an error for each group missing in file or cluster.

    A file without groups applies to the only named group; UsageError if there is not exactly one.
    """
    by_group: dict[str, dict[TopicPartition, RequestedOffset]] = {}
    only = names[0] if len(names) == 1 and names_only(groups) else None
    for row in rows:
        name = row.group if row.group is not None else only
        if name is None:
            raise UsageError(
                "--from-file: the file names no groups, so exactly one group must be named",
                hint="kgroup reset GROUP --from-file FILE",
            )
        if row.offset is None and row.line:  # csv: a partition without a commit; it does not mean "delete the commit"
            continue
        by_group.setdefault(name, {})[TopicPartition(row.topic, row.partition)] = RequestedOffset(
            row.offset, row.leader_epoch, row.metadata
        )
    scenarios: dict[str, ResetScenario] = {name: ToRequested(by_group[name]) for name in names if name in by_group}
    errors = []
    if names_of(groups):
        for name in names_of(groups):
            if name in names and name not in by_group:
                error = NotFound(
                    f"--from-file has no offsets of {name}", hint=Hint("{} writes such a file", ("export", name))
                )
                errors.append(RowError.of(error, group=name))
    elif groups.all_groups:
        for name in by_group.keys() - set(names):
            error = NotFound(f"no group {name} on {cluster}", hint="To create it, name it and add --create.")
            errors.append(RowError.of(error, group=name))
    return scenarios, errors


def refuse_other_topics(groups: Sequence[Group], rows: Sequence[ChangeRow], file: Sequence[FileRow]) -> list[Refusal]:
    """A refusal for each group that gets offsets of topics not its own, from a file that names no groups.

    A file of another group is named easily, and its offsets would make this one a reader of topics that it never read.
    A group without commits has no topics of its own yet.
    """
    if not file or any(row.group is not None for row in file):
        return []
    refusals = []
    for group in groups:
        own = {p.topic for p in group.partitions} | {t for m in group.members or () for t in m.subscription or ()}
        others = sorted({row.topic for row in rows if row.group == group.name} - own)
        if others and any(p.commit is not None for p in group.partitions):
            error = Refused(
                f"the file has offsets of {some_of(others, _NAMED)}, on which {group.name} has no commit",
                details=(f"its own topics: {some_of(sorted(own), _NAMED)}",),
                hint="If that is meant: --accept other-topics.",
                code=OTHER_TOPICS,
            )
            refusals.append(Refusal(group.name, error))
    return refusals


def unusual_reset(
    groups: Sequence[Group], created: Collection[str], rows: Sequence[ChangeRow], scenario: ResetScenario | None
) -> tuple[str, ...]:
    """Warnings for a user who may have meant a single partition or another group."""
    if scenario is None or isinstance(scenario, ToRequested):
        return ()
    first = unusual_commits(rows, created)
    if not (isinstance(scenario, ShiftBy) and scenario.records > 0):
        return first
    read = {group.name: group for group in groups}
    stuck = {(name, *tp) for name, logs in _logs_by_group(rows) if name in read for tp in stalled(read[name], logs)}
    return (*unusual_shift(rows, stuck), *first)


def _logs_by_group(rows: Sequence[ChangeRow]) -> Iterator[tuple[str, dict[TopicPartition, LogRange]]]:
    """The logs of each group's rows without an error."""
    for group, own in groupby(rows, key=attrgetter("group")):
        yield group, {row.tp: row.log for row in own if row.log and not row.error}
