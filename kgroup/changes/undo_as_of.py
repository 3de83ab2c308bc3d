"""The plan to restore a group's commits of an earlier time, from ``__consumer_offsets`` and the current commits."""

from __future__ import annotations

from kgroup.changes.execute import COMMITS
from kgroup.cluster.topics import Layouts
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, committed
from kgroup.groups.selection import Selection, without_unread_groups
from kgroup.groups.undo_plan import COMMIT_UNKNOWN, as_of_rows, partitions_of
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.from_log import choose_logged, warn_open_transactions
from kgroup.queries.log_options import LogBounds
from kgroup.queries.snapshots import refuse_foreign
from kgroup.support.errors import KgroupError, NotFound


def plan_as_of(
    reporter: Reporter, cluster: ChangingCluster, group: str, at_ms: int, bounds: LogBounds
) -> tuple[ChangePlan, Layouts]:
    """(the partitions whose commits differ from those at ``at_ms``, in ms since 1970; the layouts of their topics).

    A group that was deleted since is created again. Raises NotFound if the log has nothing of the group up to then.
    Raises Refused if the group is or was of type share or streams, and KgroupError if the log or the current group
    cannot be read.
    """
    logged = choose_logged(reporter, cluster, Selection(names=[group]), bounds, at_ms)
    errors = [error for error in logged.errors if error.code != COMMIT_UNKNOWN]  # these become rows of the plan
    snapshot = cluster.describe([group], COMMITS)
    if not snapshot.groups:  # it was deleted, or is a group of another type now
        refuse_foreign([listed for listed in cluster.list_groups().groups if listed.name == group])
    chosen = without_unread_groups(
        snapshot.groups, [e for e in snapshot.errors if e.code != NotFound.code or e.topic is not None]
    )
    if group not in logged.states or any(error.topic is None for error in chosen.errors):
        return ChangePlan(chosen.groups, (), errors=(*errors, *chosen.errors)), {}
    state = logged.states[group]
    warn_open_transactions(reporter, [state], at_ms)
    now = {tp: commit for each in chosen.groups for tp, commit in committed(each).items()}
    unread = {TopicPartition(topic, number): error for (_, topic, number), error in chosen.unread.items()}
    partitions = partitions_of(state, now, unread)
    layouts = cluster.layouts({topic for topic, _ in partitions})
    topics = {name: layout if isinstance(layout, KgroupError) else layout.id for name, layout in layouts.items()}
    known = [tp for tp in partitions if not isinstance(topics[tp.topic], KgroupError)]
    positions = cluster.positions(layouts, known)
    logs = {tp: position.range for tp, position in positions.items() if not isinstance(position, KgroupError)}
    rows = as_of_rows(state, now, unread, logs, topics)
    there = {each.name for each in chosen.groups}
    plan = ChangePlan(
        chosen.groups,
        tuple(rows),
        created=frozenset(row.group for row in rows if not row.error) - there,
        errors=tuple(errors),
    )
    return plan, layouts
