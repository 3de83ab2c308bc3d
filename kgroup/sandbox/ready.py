"""Wait until brokers answer *group* requests: they answer metadata requests half a second earlier."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kgroup.cluster.wire import NO_ANSWER, connected
from kgroup.support.errors import SandboxError

_LOOK_EVERY_S = 0.02
_PROBE_GROUPS = tuple(f"kgroup-probe-{number}" for number in range(16))
"""Enough names so that each of three brokers coordinates at least one (names hash to 50 partitions)."""


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a Kafka broker answers at this address."""
    try:
        with connected(host, port, timeout_s) as connection:
            connection.brokers()
    except NO_ANSWER:
        return False
    return True


def wait_until_ready(
    host: str, ports: Sequence[int], *, brokers: int, check: Callable[[], None], timeout_s: float
) -> None:
    """Return when every broker knows all brokers, and each serves the groups that it coordinates.

    ``check`` is called in every round; it raises if waiting is pointless. Raises SandboxError after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(ports)
    while True:
        check()
        waiting = [port for port in waiting if not _knows(host, port, brokers)]
        if not waiting and _groups_are_served(host, ports[0]):
            return
        if time.monotonic() > deadline:
            where = f"{host}:{ports[0]}"
            raise SandboxError(f"no answer to a group request from {where} within {timeout_s:.0f} s")
        time.sleep(_LOOK_EVERY_S)


def _knows(host: str, port: int, brokers: int) -> bool:
    try:
        with connected(host, port) as connection:
            return len(connection.brokers()) == brokers
    except NO_ANSWER:
        return False


def _groups_are_served(host: str, port: int) -> bool:
    try:
        return all(_is_served(host, port, group) for group in _PROBE_GROUPS)
    except NO_ANSWER:
        return False


def _is_served(host: str, port: int, group: str) -> bool:
    # A connection has one time limit: on a busy machine it would not be enough for all groups.
    with connected(host, port) as broker:
        error, coordinator = broker.coordinator(group)
    if error:
        return False
    with connected(coordinator.host, coordinator.port) as at_coordinator:
        return at_coordinator.offsets_error(group) == 0
