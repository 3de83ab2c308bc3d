"""A gap that a job of the user's own delivers: kgroup names its offsets, and is told when it is done. Pure."""

from __future__ import annotations

import json

from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.model import PlanSnapshot, PlanState
from kgroup.groups.catchup.second_group import SECOND_GROUP

ELSEWHERE = "job"
"""The sink of a plan that something else has delivered. kgroup is told so, and checks nothing."""

BY = "by"
"""The option of its Delivery that says what has delivered it, in the user's words."""

NOT_READ = (SECOND_GROUP, ELSEWHERE)
"""Sinks whose records kgroup does not read: no tasks, no counts of records, no rate."""


def spark_options(snapshot: PlanSnapshot) -> dict[str, str]:
    """The gap as Spark's Kafka source takes it in a batch, by the name of the option.

    ``assign`` too, as Spark requires offsets of all partitions that it subscribes to. Empty for a plan that is not
    released, is finished or has begun, and if a partition has several ranges: Spark reads one of each.
    """
    ranges = undelivered(snapshot.plan, snapshot.progress)
    several = len({row.tp for row in ranges}) < len(ranges)
    if snapshot.state.state is not PlanState.RELEASED or snapshot.is_damaged or snapshot.progress or several:
        return {}
    options: dict[str, dict[str, dict[str, int]]] = {"startingOffsets": {}, "endingOffsets": {}}
    assigned: dict[str, list[int]] = {}
    for row in ranges:
        assigned.setdefault(row.topic, []).append(row.partition)
        for name, offset in (("startingOffsets", row.start), ("endingOffsets", row.end)):
            options[name].setdefault(row.topic, {})[str(row.partition)] = offset
    whole = {"assign": assigned, **options} if ranges else {}
    return {name: json.dumps(value, separators=(",", ":")) for name, value in whole.items()}
