"""A reading that a coordinator's move may have made incomplete is repeated, by each reader. Without a broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

from kgroup.cluster.coordinator import groups as groups_module
from kgroup.cluster.coordinator.client import CoordinatorClient, _Observed
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline
from kgroup.model.groups import ListedGroup
from kgroup.support.errors import KgroupError

SETTLING_S = 0.05


class NoBrokers(CoordinatorClient):
    refresh_takes_s = 0.0

    def __init__(self, deadline: Deadline) -> None:
        self._deadline, self._observed = deadline, _Observed()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def refresh_brokers(self) -> None:
        await asyncio.sleep(self.refresh_takes_s)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
        return list(await asyncio.gather(*coroutines))


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


@pytest.mark.parametrize(("moved_s_ago", "count"), [(2 * SETTLING_S, 2), (30.0, 1)])
def test_that_a_group_does_not_exist_is_believed_later_after_a_move(
    client: NoBrokers, moved_s_ago: float, count: int
) -> None:
    """Its first answer lacks a group, which is there at the second."""
    reading = Reading(client)
    client._observed.moved_at = time.monotonic() - moved_s_ago

    asyncio.run(GroupCoordinators(client).read_settled(reading, lambda answer: answer == 1))

    assert reading.count == count


class Rounds(GroupCoordinators):
    """Each round of requests finds so many partitions without a coordinator, and these groups."""

    def __init__(self, client: CoordinatorClient, *rounds: tuple[int, set[str]]) -> None:
        super().__init__(client)
        self.absent = [absent for absent, _ in rounds]
        self.found = [groups for _, groups in rounds]

    async def can_describe_cluster(self) -> bool:
        return True

    async def _count_unready_partitions(self) -> tuple[int, int]:
        return self.absent.pop(0), 0

    async def _list_once(self) -> tuple[dict[str, ListedGroup], list[Callable[[], KgroupError]]]:
        return {name: ListedGroup(name, "classic", "Empty", "consumer", None) for name in self.found.pop(0)}, []


def test_a_listing_that_began_before_all_coordinators_were_ready_does_not_count(client: NoBrokers) -> None:
    """The second round lists before the last coordinator is ready, and asks each partition for it afterwards.

    A slow machine takes longer than a move takes to settle before it begins that round.
    """
    client.refresh_takes_s = 2 * SETTLING_S
    rounds = Rounds(client, (1, {"a"}), (0, {"a"}), (0, {"a", "b"}))

    listing = asyncio.run(rounds.list_groups())

    assert [group.name for group in listing.groups] == ["a", "b"]
    assert listing.failures == ()


def test_a_listing_that_the_deadline_cuts_short_does_not_count() -> None:
    """A broker is gone for good: the last of many rounds has no time left for the others."""
    client = NoBrokers(Deadline.after(2 * SETTLING_S))
    client.refresh_takes_s = SETTLING_S
    rounds = Rounds(client, (3, {"a"}), (3, {"a", "b"}), (9, set()), (9, set()), (9, set()))

    listing = asyncio.run(rounds.list_groups())

    assert [group.name for group in listing.groups] == ["a", "b"]
    assert [str(failure).split(" ")[3] for failure in listing.failures] == ["3"]


def test_at_the_deadline_what_was_read_counts() -> None:
    client = NoBrokers(Deadline.after(0))
    reading = Reading(client, moves=9)

    run(GroupCoordinators(client), reading)

    assert reading.count == 1
