"""The plan of ``kgroup delete-offsets``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from kgroup.changes.execute import ChangeContext, PlannedChange
from kgroup.cluster.topics import TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.reset_plan import filter_partitions
from kgroup.groups.reset_targets import TopicChoice
from kgroup.groups.selection import SelectedGroups
from kgroup.groups.share_changes import lags_of
from kgroup.model.groups import Group, Member, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import SUBSCRIBED, KgroupError, NotFound, Refused
from kgroup.support.units import plural

_NAMED = 10


def plan_delete_offsets(
    cluster: ChangingCluster, selected: SelectedGroups, topics: Sequence[TopicChoice], named: Sequence[str]
) -> PlannedChange[None]:
    layouts = cluster.layouts([choice.topic for choice in topics])
    rows = [row for group in selected.groups for row in _rows(group, topics, named)]
    ranges = cluster.positions(layouts, [row.tp for row in rows if isinstance(layouts[row.topic], TopicLayout)])
    logs = {tp: log.range for tp, log in ranges.items() if not isinstance(log, KgroupError)}
    rows = [replace(row, log=logs.get(row.tp)) for row in rows]
    errors = (*selected.errors, *_nothing_there(selected.groups, named, topics, rows))
    context = ChangeContext("delete-offsets", _subject(selected.groups, rows), layouts, live=True)
    return PlannedChange(ChangePlan(selected.groups, tuple(rows), errors=errors), context, None)


def _rows(group: Group, topics: Sequence[TopicChoice], named: Collection[str]) -> Iterator[ChangeRow]:
    """One row per commit to delete; with an error if a live member is subscribed to the topic.

    In a named group that has such commits, a named partition without a commit is a row with an error.
    """
    commits = committed(group)
    lags = lags_of(group)
    # Members of a share group prevent the deletion of any of its start offsets, which is a refusal.
    members = () if group.is_empty or group.is_share else group.members or ()
    partitions = set(filter_partitions(topics, commits))
    if group.name in named and partitions:
        partitions |= {TopicPartition(choice.topic, number) for choice in topics for number in choice.partitions or ()}
    for tp in sorted(partitions):
        row = ChangeRow(group.name, *tp, commits.get(tp), None, counted=lags.get(tp))
        readers = [member for member in members if tp.topic in (member.subscription or ())]
        if tp not in commits:
            row = row.failing(RowError.of(NotFound(f"{group.name} has no commit on this partition")))
        elif readers:
            row = row.failing(RowError.of(_subscribed(group, tp.topic, readers)))
        yield row


def _subscribed(group: Group, topic: str, readers: Sequence[Member]) -> Refused:
    members = "a member is" if len(readers) == 1 else "members are"
    return Refused(
        f"{group.name} is {group.state}, and {members} subscribed to {topic}: GROUP_SUBSCRIBED_TO_TOPIC",
        details=tuple(f"{member.client_id} {member.host}" for member in readers[:_NAMED]),
        hint="The broker keeps the offsets of topics that a member is subscribed to. Stop it, or add --wait-empty.",
        code=SUBSCRIBED,
    )


def _nothing_there(
    groups: Sequence[Group], named: Sequence[str], topics: Sequence[TopicChoice], rows: Sequence[ChangeRow]
) -> Iterator[RowError]:
    """An error for each named group without such a commit: the topic may be mistyped."""
    with_rows = {row.group for row in rows}
    for group in groups:
        if group.name in named and group.name not in with_rows:
            asked = {choice.topic for choice in topics}
            known = sorted({topic for topic, _ in committed(group)})
            there = [f"{topic}:{number}" for topic, number in sorted(committed(group)) if topic in asked] or known
            things = "start offsets" if group.is_share else "commits"
            has = f"It has {things} on {', '.join(there[:_NAMED])}" if there else f"It has no {things}."
            what = ", ".join(
                choice.topic if choice.partitions is None else f"{choice.topic}:{','.join(map(str, choice.partitions))}"
                for choice in topics
            )
            yield RowError.of(NotFound(f"{group.name} has no {things} on {what}", hint=has), group=group.name)


def _subject(groups: Sequence[Group], rows: Sequence[ChangeRow]) -> str:
    names = list(dict.fromkeys(row.group for row in rows))
    if not names:
        return ""
    what = names[0] if len(names) == 1 else plural(len(names), "group")
    share = {group.name for group in groups if group.is_share}
    return f"{what}: {plural(len(rows), 'start offset' if share.issuperset(names) else 'commit')}"
