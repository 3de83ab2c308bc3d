"""A heartbeat runs in parallel with questions, and neither changes the other's time limit. Without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import GroupCoordinators
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.membership.exclusive import ExclusiveMembership

TIMEOUT_S = 30.0


class Recording(CoordinatorClient):
    """A connection without brokers, which notes how much time each request had."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self.left_s: list[float] = []

    async def send(self, request: Any, node_id: int, patience_ms: int | None = None) -> Any:
        self.left_s.append(self.deadline.left_s)
        return SimpleNamespace(error_code=0, member_epoch=1)


class OneCoordinator(GroupCoordinators):
    async def locate(self, groups: Any) -> None:
        self._node_of.update(dict.fromkeys(groups, 1))


async def unused(*_: Any) -> Any:
    raise AssertionError


@pytest.mark.parametrize("left_s", [0.0, 0.3, 600.0])
def test_a_heartbeat_has_its_own_deadline(left_s: float) -> None:
    client = Recording(Deadline.after(left_s))
    before = client.deadline
    membership = ExclusiveMembership(OneCoordinator(client), unused, TIMEOUT_S, "svc", "consumer", ())

    assert asyncio.run(membership._send_heartbeat())

    assert client.deadline is before
    assert client.left_s == [pytest.approx(TIMEOUT_S, abs=5)]
