"""Reads what ``start --if-behind`` decides on: the lag of the group, as ``kgroup lag`` measures it."""

from __future__ import annotations

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.start_plan import StartRequest, as_raised
from kgroup.cluster.lag_reading import Need
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.groups.catchup.start_condition import Unstarted, decide_start
from kgroup.groups.lag.checks import Violation
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag
from kgroup.groups.selection import Selection, TopicFilter
from kgroup.queries.facts import read_facts
from kgroup.queries.snapshots import snapshots
from kgroup.support.errors import NotFound

_WANT = SnapshotRequest(generation_budget_s=0, queries=True)
_NEED = Need(log_budget_s=0, no_log="--if-behind reads no commits", crash_loops=False)


def check_behind(engine: CatchupEngine, request: StartRequest) -> Violation | Unstarted | None:
    """What ``--if-behind`` decides now, as ``decide_start``; None without it. Raises as ``plan_start``."""
    behind, name = request.condition.behind, request.group
    if behind is None or name is None:
        return None
    return decide_start(name, _read_lag(engine, name, TopicFilter(request.gap.topics)), behind)


def _read_lag(engine: CatchupEngine, name: str, topics: TopicFilter) -> GroupLag | None:
    """The lag of the group on these topics; None: the group does not exist."""
    try:
        snapshot = next(snapshots(engine.reporter, engine.cluster, Selection(names=[name]), _WANT))
    except NotFound:
        return None
    if not snapshot.groups:
        raise as_raised(snapshot.errors[0])
    group = topics.narrow(snapshot.groups[0])
    return measure_lag(group, read_facts(engine.cluster, [group], _NEED)[name].evidence)
