"""Warnings about pending catch-ups, for verbs that change groups."""

from __future__ import annotations

from kgroup.catchup.service.pending import has_mark, read_books
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.change_plan import ChangePlan
from kgroup.settings.invocation import Invocation
from kgroup.support.units import plural


def warn_of_plans(run: Invocation, cluster: Cluster, plan: ChangePlan) -> None:
    """Warn about what is pending, or may be, for each group that is about to be changed."""
    names = frozenset(plan.concerned)
    if not names:
        return
    books = read_books(run, cluster)
    for name in sorted(names & books.open.keys()):
        for state in books.open[name]:
            plan_id, owed = state.found.plan.id, plural(state.owed, "offset")
            run.reporter.warn(
                f"{name} has an open catch-up, {plan_id} ({state.word}), that owes {owed}: they come beside whatever "
                f"this changes; see  {run.command('catchup', 'show', plan_id)}"
            )
    for group in plan.groups:
        if group.name in names and has_mark(group):
            for row in books.unledgered(group):
                run.reporter.warn(
                    f"{group.name} may have a pending catch-up ({row.text}): {books.missing}, and only the group's "
                    f"commits still show it; see  {run.command('catchup', 'start', group.name)}"
                )
