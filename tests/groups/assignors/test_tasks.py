"""The tasks of Streams applications: equal to what Kafka's own classes gave, step by step (TaskVectors.java)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgroup.groups.assignors.java_order import JavaHeap
from kgroup.groups.assignors.tasks import TaskMember, TaskTopology, by_broker, by_clients
from kgroup.model.streams_group import StreamsTask
from tests.helpers.for_each import for_each
from tests.helpers.places import DATA

CHAINS = [
    line for text in (DATA / "tasks.jsonl").read_text("utf-8").splitlines() if "steps" in (line := json.loads(text))
]
_ENOUGH = 10_000


def tasks(names: list[str]) -> tuple[StreamsTask, ...]:
    return tuple(StreamsTask(sub, int(number)) for sub, number in (name.split("_") for name in names))


def topology_of(chain: dict[str, Any]) -> TaskTopology:
    return TaskTopology(chain["tasks"], frozenset(chain["stateful"]), chain["standbys"])


def members_of(step: dict[str, Any], before: dict[str, TaskMember]) -> list[TaskMember]:
    """The members of a step with the tasks of the step before; who reported a larger offset has less lag."""
    return [
        TaskMember(
            member_id,
            process_id,
            before[member_id].active if member_id in before else (),
            before[member_id].standby if member_id in before else (),
            {tasks([name])[0]: _ENOUGH - offset for name, offset in step["offsets"][member_id].items()},
        )
        for process_id, members in step["broker"].items()
        for member_id in members
    ]


def as_expected(step: dict[str, Any]) -> dict[str, TaskMember]:
    return {
        member_id: TaskMember(member_id, process_id, tasks(row["active"]), tasks(row["standby"]))
        for process_id, members in step["broker"].items()
        for member_id, row in members.items()
    }


@for_each("chain", CHAINS)
def test_the_broker_gives_the_same_tasks(chain: dict[str, Any]) -> None:
    before: dict[str, TaskMember] = {}
    for number, step in enumerate(chain["steps"]):
        given = by_broker(members_of(step, before), topology_of(chain))
        before = as_expected(step)
        found = {each.member_id: (sorted(each.active), sorted(each.standby)) for each in given}
        assert found == {name: (sorted(e.active), sorted(e.standby)) for name, e in before.items()}, number


@for_each("chain", CHAINS)
def test_clients_give_the_same_tasks(chain: dict[str, Any]) -> None:
    for number, step in enumerate(chain["steps"]):
        threads = {process_id: len(members) for process_id, members in step["broker"].items()}
        found = by_clients(threads, topology_of(chain))
        assert found == {
            process_id: (set(tasks(row["active"])), set(tasks(row["standby"])))
            for process_id, row in step["clients"].items()
        }, number


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([1, 1, 1], [0, 2, 1]),  # of equal ones, the last that was added comes second
        ([2, 1, 3, 0], [3, 1, 0, 2]),
        ([], []),
    ],
)
def test_the_order_of_javas_heap(keys: list[float], order: list[int]) -> None:
    heap = JavaHeap(range(len(keys)), keys.__getitem__)
    assert [heap.pop() for _ in keys] == order
    assert not heap
