"""A reading that a coordinator's move may have made incomplete is repeated, by each reader. Without a broker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kgroup.cluster.coordinator import groups as groups_module
from kgroup.cluster.coordinator.client import CoordinatorClient, _Observed
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline

SETTLING_S = 0.05


class NoBrokers(CoordinatorClient):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline, self._observed = deadline, _Observed()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Reading:
    """A reading that counts how often it is made; a coordinator moves during the first ``moves`` of them."""

    def __init__(self, client: CoordinatorClient, moves: int = 0) -> None:
        self.client, self.moves, self.count = client, moves, 0

    async def __call__(self) -> int:
        self.count += 1
        if self.count <= self.moves:
            self.client.note_move()
        return self.count


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> NoBrokers:
    monkeypatch.setattr(groups_module, "SETTLING_S", SETTLING_S)
    return NoBrokers(Deadline.after(60))


def run(coordinators: GroupCoordinators, *readings: Reading) -> None:
    async def all_of_them() -> Any:
        return await asyncio.gather(*map(coordinators.read_settled, readings))

    asyncio.run(all_of_them())


def test_each_of_two_readers_learns_of_a_move(client: NoBrokers) -> None:
    one, other = Reading(client), Reading(client)
    client.note_move()

    run(GroupCoordinators(client), one, other)

    assert (one.count, other.count) == (2, 2)


def test_a_move_through_one_view_is_seen_through_another(client: NoBrokers) -> None:
    reading = Reading(client)
    client.within(Deadline.after(1)).note_move()

    run(GroupCoordinators(client).within(Deadline.after(60)), reading)

    assert reading.count == 2


def test_it_is_repeated_until_nothing_moves(client: NoBrokers) -> None:
    reading = Reading(client, moves=3)

    run(GroupCoordinators(client), reading)

    assert reading.count == 4


def test_a_move_that_has_settled_costs_nothing(client: NoBrokers) -> None:
    reading = Reading(client)
    client._observed.moved_at = time.monotonic() - 2 * SETTLING_S

    run(GroupCoordinators(client), reading)

    assert reading.count == 1


def test_at_the_deadline_what_was_read_counts() -> None:
    client = NoBrokers(Deadline.after(0))
    reading = Reading(client, moves=9)

    run(GroupCoordinators(client), reading)

    assert reading.count == 1
