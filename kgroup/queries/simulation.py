"""Reads what ``kgroup simulate`` needs of groups: their topics, measured durations, and lag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgroup.cluster.lag_reading import Need
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import topic_shapes
from kgroup.groups.assignors.model import AssignorTopic
from kgroup.groups.history.summary import HistoryQuery, group_history
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.simulation.durations import KnownDurations, measured_rebalances
from kgroup.groups.simulation.lag_effect import MeasuredLag
from kgroup.groups.simulation.subject import topics_of
from kgroup.model.groups import Group, RowError
from kgroup.model.reporter import Reporter
from kgroup.queries.facts import read_facts
from kgroup.support.errors import KgroupError, NotFound

_LOG_BUDGET_S = 1.5
_MOST_MEASURED = 20
"""Lag and rates are read for so many groups at most: the commits of each are read from the log."""
_LOG_BACK_MS = 24 * 3_600_000


def read_topics(
    cluster: Cluster, groups: Iterable[Group]
) -> tuple[dict[str, list[AssignorTopic]], tuple[RowError, ...]]:
    """The topics of each group; a group with a topic that may not be seen is left out, with an error."""
    wanted = {group.name: topics_of(group) for group in groups}
    shapes = cluster.ask(topic_shapes, {topic for topics in wanted.values() for topic in topics})
    topics_by_group: dict[str, list[AssignorTopic]] = {}
    errors = []
    for group, names in wanted.items():
        answers = {name: shapes[name] for name in names if name in shapes}
        hidden = {
            name: shape
            for name, shape in answers.items()
            if isinstance(shape, KgroupError) and not isinstance(shape, NotFound)
        }
        errors += [RowError.of(error, group=group, topic=name) for name, error in hidden.items()]
        if not hidden:
            topics_by_group[group] = [
                AssignorTopic(shape.name, shape.partitions, shape.replica_racks, shape.id)
                for shape in answers.values()
                if not isinstance(shape, KgroupError)
            ]
    return topics_by_group, tuple(errors)


def read_durations(
    reporter: Reporter, cluster: Cluster, groups: Sequence[Group], given: KnownDurations
) -> dict[str, KnownDurations]:
    """Durations measured in the cluster, by group; a session timeout or rebalance time that was given is not read."""
    there = [group for group in groups if group.members]
    sessions = cluster.session_timeouts(there) if there and given.session_s is None else None
    logs = None
    now_ms = cluster.now_ms()
    if there and given.rebalance_s is None:
        try:
            logs = cluster.group_logs({group.name: now_ms - _LOG_BACK_MS for group in there}, _LOG_BUDGET_S)
        except KgroupError as error:
            reporter.note(f"how long rebalances take is unknown: {error.message}")
    durations = {}
    for group in there:
        timeouts = sessions.of(group).values() if sessions is not None else ()
        past = None
        if logs is not None and (log := logs.logs.get(group.name)):
            asked = HistoryQuery(since_ms=now_ms - _LOG_BACK_MS, until_ms=now_ms, now_ms=now_ms, jumps=False)
            past = measured_rebalances(group.type, group_history(group.name, log.events, log.reach, asked).steps)
        durations[group.name] = KnownDurations(
            session_s=max(timeouts) / 1000 if timeouts else None,
            rebalance_s=None if past is None else past.median_s,
            rebalances_seen=None if past is None else past.count,
        )
    return durations


def read_lags(reporter: Reporter, cluster: Cluster, names: Sequence[str]) -> dict[str, MeasuredLag]:
    """Lag and rates of a few groups, measured as ``kgroup lag`` measures them; empty if they cannot be read."""
    if not 0 < len(names) <= _MOST_MEASURED:
        return {}
    try:
        groups = cluster.describe(names, SnapshotRequest(generation_budget_s=0)).groups
        read = read_facts(cluster, groups, Need(_LOG_BUDGET_S))
    except KgroupError as error:
        reporter.note(f"what the change does to the lag is unknown: {error.message}")
        return {}
    totals = {group.name: measure_lag(group, read[group.name].evidence).total for group in groups}
    return {
        name: MeasuredLag(total.lag, total.rates, total.outlook.pace is LagTrend.KEEPS_UP)
        for name, total in totals.items()
    }
