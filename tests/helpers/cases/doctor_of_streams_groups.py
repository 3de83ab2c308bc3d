"""Cases of the rules about streams groups."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kgroup.groups.doctor.snapshot import GroupSnapshot, Rebalance, RebalanceHistory
from kgroup.groups.lag.evidence import LagEvidence, PartitionEvidence
from kgroup.model.streams_group import StreamsGroup, StreamsMember, StreamsTask, Subtopology, TaskRole
from tests.helpers.cases import described
from tests.helpers.cases.doctor import CRITICAL, EARLY, INFO, NOW, PARTLY, UNKNOWN, WARNING, Case, H, M, partition

COUNT = Subtopology("0", ("orders",), (), ("wc-count-changelog",))


def tasks(*numbers: int) -> dict[TaskRole, tuple[StreamsTask, ...]]:
    return {role: tuple(StreamsTask("0", n) for n in numbers if role is TaskRole.ACTIVE) for role in TaskRole}


def member(*numbers: int, epoch: int = 3) -> StreamsMember:
    return StreamsMember("p", epoch, tasks(*numbers), tasks(*numbers))


BOTH = StreamsGroup(3, (COUNT,), {"a-id": member(0), "b-id": member(1)}, {"orders": 2}, ())


def snapshot(
    streams: StreamsGroup | None = BOTH, *, state: str = "Stable", rebalanced_ms: int | None = None, **other: Any
) -> GroupSnapshot:
    """An application ``wc`` of two instances; ``rebalanced_ms`` is how long ago it had its last rebalance.

    ``streams`` None: a topic of it may not be described, so the broker shows neither its topology nor its members.
    """
    names = [] if state == "Empty" or streams is None else list(streams.members)
    rows = [partition(number) for number in range(2)]
    group = described.group(
        rows,
        None
        if streams is None
        else [described.member(name, client_id=name.removesuffix("-id"), epoch=4, assignment=()) for name in names],
        **{"name": "wc", "type": "streams", "protocol_type": "streams", "state": state, "streams": streams} | other,
    )
    history = None
    if rebalanced_ms is not None:
        history = RebalanceHistory(NOW - H, (Rebalance(NOW - rebalanced_ms),))
    known = {row.tp: PartitionEvidence() for row in rows}
    return GroupSnapshot(group, NOW, logs=known, history=history, read=LagEvidence(now_ms=NOW, partitions=known))


LONE = replace(BOTH, members={"a-id": member(0)})
ROLLING = replace(BOTH, members={"a-id": member(0), "b-id": member(1, epoch=2)})
HIDDEN = replace(BOTH, topology_epoch=None, subtopologies=None, missing=None)
WAITING = replace(BOTH, members={"a-id": member(), "b-id": member()}, counts={}, missing=("orders",))

CASES = (
    Case("streams-not-ready", "it has tasks", snapshot(), None),
    Case("streams-not-ready", "its topics are not shown", snapshot(HIDDEN), PARTLY, "do not show its topology"),
    Case(
        "streams-not-ready", "a source topic", snapshot(WAITING, state="NotReady"), CRITICAL, "exist: orders; 2 members"
    ),
    Case(
        "streams-not-ready",
        "another topic",
        snapshot(BOTH, state="NotReady"),
        CRITICAL,
        "an internal topic or a number",
    ),
    Case("streams-not-ready", "not shown", snapshot(HIDDEN, state="NotReady"), CRITICAL, "does not fit; 2 members"),
    Case("streams-not-ready", "no right", snapshot(None), PARTLY, "its members may not be seen"),
    Case("streams-not-ready", "waits, no right", snapshot(None, state="NotReady"), CRITICAL, "fit; 0 topics named"),
    Case("streams-tasks-without-owner", "all run", snapshot(), None),
    Case("streams-tasks-without-owner", "stopped", snapshot(LONE, state="Empty"), None),
    Case("streams-tasks-without-owner", "one", snapshot(LONE), CRITICAL, "1 of 2 tasks without an owner: 0_1"),
    Case(
        "streams-tasks-without-owner", "moving", snapshot(LONE, state="Reconciling"), EARLY, "a rebalance is under way"
    ),
    Case("streams-tasks-without-owner", "topics missing", snapshot(WAITING, state="NotReady"), None),
    Case("streams-tasks-without-owner", "not shown", snapshot(HIDDEN), UNKNOWN, "do not show its topology"),
    Case("streams-tasks-without-owner", "no right", snapshot(None), UNKNOWN, "its members may not be seen"),
    Case("streams-other-topology", "one topology", snapshot(), None),
    Case("streams-other-topology", "stopped", snapshot(None, state="Empty"), None),
    Case("streams-other-topology", "rolling out", snapshot(ROLLING, rebalanced_ms=M), INFO, "group's epoch 3: b"),
    Case("streams-other-topology", "unknown since when", snapshot(ROLLING), INFO, "1 of 2 members"),
    Case(
        "streams-other-topology", "for long", snapshot(ROLLING, rebalanced_ms=30 * M), WARNING, "no rebalance for 30m"
    ),
    Case("streams-other-topology", "not shown", snapshot(HIDDEN), UNKNOWN, "do not show its topology"),
    Case("streams-other-topology", "no right", snapshot(None), UNKNOWN, "its members may not be seen"),
)
