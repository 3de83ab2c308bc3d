"""``kgroup delete-offsets``: delete what groups have committed on a topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.changes.execute import ChangeContext
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.changes.select_groups import reload_groups, select_groups
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.topics import TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import PlannedChange, make_change
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.reset_plan import filter_partitions
from kgroup.groups.reset_targets import TopicChoice, parse_topics
from kgroup.groups.selection import Groups, SelectedGroups, check_groups, check_topics, names_of
from kgroup.model.groups import Group, Member, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.change import Wording, outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import KgroupError, NotFound, Refused, UsageError
from kgroup.support.units import plural, some_of

_NAMED = 10


def delete_offsets(
    run: Invocation,
    groups: Groups,
    how: Change,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            rich_help_panel=WHAT,
            help="The topic, or some of its partitions: orders:0,1 (repeatable).",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", rich_help_panel=WHAT, help="Show every partition.")
    ] = False,
) -> Outcome:
    """Delete a group's committed offsets of a topic.

    A running group keeps the offsets of topics to which a member is subscribed (GROUP_SUBSCRIBED_TO_TOPIC). Offsets of
    other topics can be deleted while the group runs. If the group reads the topic again later, it starts at its
    auto.offset.reset. kgroup undo restores the offsets, once the group is Empty.

    Examples:
    # the plan for one group
    kgroup delete-offsets orders-svc --topic orders-old
    # delete the offsets of a topic in all groups
    kgroup delete-offsets --all-groups --topic orders-old --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143
    """
    check_groups(groups)
    if not topic:
        raise UsageError("--topic is required", hint="--topic TOPIC, or --topic TOPIC:0,1")
    topics = parse_topics(topic)
    check_topics(choice.topic for choice in topics)
    check_some_named(groups)
    prepare_change(run, how)
    with ChangingCluster(run.settings) as cluster:
        found = select_groups(run.reporter, cluster, groups, [choice.topic for choice in topics], verb=run.verb)
        change, result = make_change(
            run,
            cluster,
            how,
            _planned(cluster, found, topics, names_of(groups)),
            lambda: _planned(cluster, reload_groups(cluster, found), topics, names_of(groups)),
        )
    plan = change.plan
    live = {group.name for group in plan.groups if not group.is_empty} & {row.group for row in plan.rows}
    wording = Wording("delete-offsets", change.context.subject, run.command_line, verbose=verbose)
    if live and not result.errors and not how.wait_empty:
        when = f"once {some_of(sorted(live))} {'is' if len(live) == 1 else 'are'} Empty"
        wording = replace(wording, undo_when=when, instead=f"kgroup undo restores the offsets only {when}.")
    return outcome(
        result,
        wording,
        cluster.ref,
        run.reporter,
        run.command,
        nothing="nothing to do: no group has committed offsets there",
    )


def _planned(
    cluster: ChangingCluster, found: SelectedGroups, topics: Sequence[TopicChoice], named: Sequence[str]
) -> PlannedChange[None]:
    layouts = cluster.layouts([choice.topic for choice in topics])
    rows = [row for group in found.groups for row in _rows(group, topics, named)]
    ranges = cluster.positions(layouts, [row.tp for row in rows if isinstance(layouts[row.topic], TopicLayout)])
    logs = {tp: log.range for tp, log in ranges.items() if not isinstance(log, KgroupError)}
    rows = [replace(row, log=logs.get(row.tp)) for row in rows]
    errors = (*found.errors, *_nothing_there(found.groups, named, topics, rows))
    context = ChangeContext("delete-offsets", _subject(rows), layouts, live=True)
    return PlannedChange(ChangePlan(found.groups, tuple(rows), errors=errors), context, None)


def _rows(group: Group, topics: Sequence[TopicChoice], named: Collection[str]) -> Iterator[ChangeRow]:
    """One row per commit to delete; with an error if a live member is subscribed to the topic.

    In a named group that has such commits, a named partition without a commit is a row with an error.
    """
    commits = committed(group)
    members = () if group.is_empty else group.members or ()
    partitions = set(filter_partitions(topics, commits))
    if group.name in named and partitions:
        partitions |= {TopicPartition(choice.topic, number) for choice in topics for number in choice.partitions or ()}
    for tp in sorted(partitions):
        row = ChangeRow(group.name, *tp, commits.get(tp), None)
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
        code="subscribed",
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
            has = f"It has commits on {', '.join(there[:_NAMED])}" if there else "It has no commits."
            what = ", ".join(
                choice.topic if choice.partitions is None else f"{choice.topic}:{','.join(map(str, choice.partitions))}"
                for choice in topics
            )
            yield RowError.of(NotFound(f"{group.name} has no commits on {what}", hint=has), group=group.name)


def _subject(rows: Sequence[ChangeRow]) -> str:
    names = list(dict.fromkeys(row.group for row in rows))
    if not names:
        return ""
    what = names[0] if len(names) == 1 else plural(len(names), "group")
    return f"{what}: {plural(len(rows), 'commit')}"
