"""Reads what a reset needs, once for all its groups, and plans it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kgroup.changes.archived import with_archived
from kgroup.changes.select_groups import groups_to_change
from kgroup.cluster.topics import Layouts
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.reset_plan import (
    PartitionsByTopic,
    ResetRequest,
    filter_partitions,
    missing_topics,
    out_of_range,
    partitions_of,
    reset_row,
    scenarios_of_file,
    topics_of,
    unusual_reset,
)
from kgroup.groups.reset_targets import RequestedOffset, ResetScenario, TopicChoice, ToRequested, ToTime
from kgroup.groups.selection import Groups, SelectedGroups, Selection, names_of
from kgroup.groups.share_changes import lags_of, start_row, unusual_starts
from kgroup.model.groups import Group, Positions, RowError
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.log_options import FromLog
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.hint import Hint


def plan_reset(
    reporter: Reporter,
    cluster: ChangingCluster,
    groups: Groups,
    selected: SelectedGroups,
    request: ResetRequest,
    source: FromLog,
) -> tuple[ChangePlan, Layouts]:
    """The plan for all groups, and the topic layouts; ``source`` is how the commits of ``--from-group`` are read."""
    read = {group.name: group for group in selected.groups}
    scenarios, errors = _scenarios(reporter, cluster, groups, selected, request, source)
    named = {choice.topic for choice in request.topics or ()}
    topics = named | {tp.topic for group in selected.groups for tp in _partitions(group)}
    topics |= {
        topic for scenario in scenarios.values() if isinstance(scenario, ToRequested) for topic, _ in scenario.offsets
    }
    layouts = cluster.layouts(topics)
    partitions = {
        topic: layout if isinstance(layout, KgroupError) else frozenset(layout.leaders)
        for topic, layout in layouts.items()
    }
    named_groups = names_of(groups)
    meant: dict[str, tuple[TopicChoice, ...] | None] = {}
    topic_partitions: dict[str, list[TopicPartition]] = {}
    shared: dict[TopicPartition, TopicPartition] = {}
    for name, scenario in scenarios.items():
        committed_to = _partitions(read[name]) if name in read else []
        meant[name] = topics_of(name, named_groups, request.topics, committed_to)
        if isinstance(scenario, ToRequested):
            chosen = filter_partitions(request.topics, scenario.offsets)
            if not chosen:
                what = ", ".join(choice.topic for choice in request.topics or ())
                errors.append(RowError.of(NotFound(f"there is no offset for {what}"), group=name))
        elif request.only_out_of_range:
            chosen = filter_partitions(request.topics, committed_to)
        else:
            chosen = partitions_of(meant[name], committed_to, partitions)
        topic_partitions[name] = [shared.setdefault(tp, tp) for tp in chosen]
    wanted = {
        tp
        for tp in shared
        if not isinstance(known := partitions.get(tp.topic), KgroupError) and known and tp.partition in known
    }
    moments = [scenario.timestamp_ms for scenario in scenarios.values() if isinstance(scenario, ToTime)]
    logs = cluster.positions(layouts, wanted, moments[0] if moments else None)
    planned = _planned_rows(read, topic_partitions, scenarios, logs, partitions, selected)
    if request.only_out_of_range:
        rows = list(out_of_range(planned))
    else:
        rows = [*planned, *_rows_of_missing_topics(read, meant, partitions)]
    if selected.share or any(group.is_share for group in selected.groups):
        rows = with_archived(cluster, rows)
    created = selected.created & {row.group for row in rows}
    unusual = unusual_reset(selected.groups, selected.created, rows, request.scenario)
    plan = ChangePlan(
        selected.groups,
        rows,
        created,
        created_share=created if selected.share else frozenset(),
        errors=(*(error for error in selected.errors if error.partition is None), *errors),
        unusual=(*unusual, *(unusual_starts(rows, partitions) if created and selected.share else ())),
    )
    return plan, layouts


def _planned_rows(
    read: Mapping[str, Group],
    topic_partitions: Mapping[str, Sequence[TopicPartition]],
    scenarios: Mapping[str, ResetScenario],
    logs: Mapping[TopicPartition, Positions | KgroupError],
    partitions: PartitionsByTopic,
    selected: SelectedGroups,
) -> Iterator[ChangeRow]:
    """One row after another, with the commits of one group at a time: those of all would be larger than the plan."""
    unread = selected.unread
    for name, chosen in topic_partitions.items():
        group = read.get(name)
        commits = committed(group) if group else {}
        share = group.is_share if group else selected.share
        lags = lags_of(group) if group and share else {}
        for tp in chosen:
            row = reset_row(name, tp, scenarios[name], commits.get(tp), logs.get(tp), partitions)
            row = start_row(row, lags.get(tp)) if share else row
            yield row.failing(unread[name, *tp]) if unread and (name, *tp) in unread else row


def _partitions(group: Group) -> list[TopicPartition]:
    """The partitions that it has committed; of a share group all of which the brokers keep a state."""
    return [each.tp for each in group.partitions] if group.is_share else list(committed(group))


def _rows_of_missing_topics(
    read: Mapping[str, Group], meant: Mapping[str, tuple[TopicChoice, ...] | None], partitions: PartitionsByTopic
) -> Iterator[ChangeRow]:
    for name, topics in meant.items():
        about = {topic for topic, _ in committed(read[name])} if topics and name in read else ()
        yield from missing_topics(name, topics, partitions, about)


def _scenarios(
    reporter: Reporter,
    cluster: ChangingCluster,
    groups: Groups,
    selected: SelectedGroups,
    request: ResetRequest,
    source: FromLog,
) -> tuple[dict[str, ResetScenario], list[RowError]]:
    """The target of each group's offsets, and errors for groups that the file does not contain."""
    if request.from_group is not None:
        of = _of_other_group if source == FromLog() else _of_logged_group
        wanted, errors = of(reporter, cluster, request.from_group, source)
        return dict.fromkeys(selected.names, wanted), list(errors)
    if not request.file_rows:
        assert request.scenario is not None
        return dict.fromkeys(selected.names, request.scenario), []
    return scenarios_of_file(request.file_rows, groups, selected.names, cluster.ref.label)


def _of_other_group(
    reporter: Reporter, cluster: ChangingCluster, name: str, source: FromLog
) -> tuple[ToRequested, tuple[RowError, ...]]:
    """The commits of another group, byte for byte, and the errors of those that could not be read."""
    other = groups_to_change(reporter, cluster, Groups(names=[name]), verb="reset --from-group")
    offsets = {
        tp: RequestedOffset(commit.offset, commit.leader_epoch, commit.metadata)
        for group in other.groups
        for tp, commit in committed(group).items()
    }
    if not offsets and not other.errors:
        raise NotFound(f"{name} has no commits", hint=Hint("{}", ("describe", name)))
    return ToRequested(offsets), other.errors


def _of_logged_group(
    reporter: Reporter, cluster: ChangingCluster, name: str, source: FromLog
) -> tuple[ToRequested, tuple[RowError, ...]]:
    """The commits of another group as ``__consumer_offsets`` has them, without a request to its coordinator."""
    # Imported here: only a failed coordinator makes it necessary.
    from kgroup.groups.state_from_log import log_line
    from kgroup.queries.from_log import check_bounds, choose_logged, warn_open_transactions, without_stale

    check_bounds(source, reads=source.from_log)
    logged = without_stale(cluster, choose_logged(reporter, cluster, Selection(names=[name]), source))
    for state in logged.states.values():
        reporter.note(f"{name}: {log_line(state, cluster.now_ms())}")
    warn_open_transactions(reporter, logged.states.values())
    offsets = {
        tp: RequestedOffset(commit.offset, commit.leader_epoch, commit.metadata)
        for state in logged.states.values()
        for tp, commit in state.commits.items()
    }
    if not offsets and not logged.errors:
        raise NotFound(f"{name} has no commits", hint=Hint("{}", ("describe", name, "--from-log")))
    return ToRequested(offsets), logged.errors
