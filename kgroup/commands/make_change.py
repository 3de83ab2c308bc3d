"""What every verb does that changes offsets or types: wait for the groups, plan again, warn, guard, execute."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.catchup.service.pending import warn_of_plans
from kgroup.changes.execute import PlannedChange, Source, execute_plan
from kgroup.changes.options import Change
from kgroup.changes.preconditions import wait_empty
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_result import Result
from kgroup.settings.invocation import Invocation


def make_change(
    run: Invocation,
    cluster: ChangingCluster,
    how: Change,
    planned: PlannedChange[Source],
    plan_again: Callable[[], PlannedChange[Source]],
    before: Callable[[PlannedChange[Source]], None] = lambda planned: None,
) -> tuple[PlannedChange[Source], Result]:
    """The change and its result; without ``--execute`` the result is the plan with what prevents it.

    After ``--wait-empty`` has waited, the verb plans again. ``before`` gets the last plan, whether or not it can be
    executed. Raises as ``wait_empty`` and ``execute_plan``.
    """
    if wait_empty(run, cluster, how, planned):
        planned = plan_again()
    before(planned)
    warn_of_plans(run.reporter, run.settings, cluster, planned.plan)
    return planned, execute_plan(run, cluster, how, planned)
