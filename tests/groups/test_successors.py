"""A group that began to read when another one stopped, and that may have replaced it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kgroup.groups.successors import began_ms, candidates, partitions_left, successor
from tests.helpers.cases.history import T0, Log, member, of
from tests.helpers.cases.lag import Part, group

STOPPED = 1_000
"""Seconds after which the old group became Empty."""


def new(at: float, generation: int = 1) -> Log:
    """A group as Kafka writes it: first without members."""
    return Log().at(at).generation(generation - 1).generation(generation, member("app/1", 0))


@pytest.mark.parametrize(
    ("write", "since"),
    [
        pytest.param(lambda: new(1_010), 1_010, id="just after"),
        pytest.param(lambda: new(900), 900, id="before the old one had stopped"),
        pytest.param(lambda: new(1_601), None, id="much later"),
        pytest.param(lambda: new(399), None, id="much earlier"),
        pytest.param(lambda: new(1_010, generation=9), None, id="an old group that was started again"),
        pytest.param(lambda: Log().at(1_010).commit(0, 5), None, id="never had members"),
        pytest.param(lambda: Log().at(1_010).member("a").epoch(1), 1_010, id="of the consumer protocol"),
        pytest.param(lambda: Log().at(1_010).member("a").epoch(7), None, id="an old one of the consumer protocol"),
    ],
)
def test_when_another_group_began(write: Callable[[], Log], since: float | None) -> None:
    found = successor(T0 + STOPPED * 1000, {"orders-v2": write().events})

    assert (None if found is None else (found.names, found.since_ms)) == (
        None if since is None else (("orders-v2",), T0 + round(since * 1000))
    )


def test_the_nearest_comes_first() -> None:
    logs = {"far": new(1_300).events, "near": new(990).events, "old": new(1_000, generation=3).events}

    found = successor(T0 + STOPPED * 1000, logs)

    assert found is not None
    assert found.words(T0 + 2_000_000) == (
        "near, far began to read these partitions at 03:16:30Z, as this group stopped: they have replaced this group, "
        "or its consumers are missing, the log does not show which"
    )
    assert successor(None, logs) is None
    assert began_ms([]) is None


def test_candidates_commit_all_partitions_with_unread_records() -> None:
    committed = {"all": of(0, 1, 2), "some": of(0), "other": of(0, 1, topic="clicks")}

    assert candidates(of(0, 1), committed) == ("all",)
    assert candidates((), committed) == ()


@pytest.mark.parametrize(
    ("state", "protocol_type", "left"),
    [("Empty", "consumer", {0}), ("Stable", "consumer", set()), ("Empty", "", set())],
)
def test_partitions_that_a_group_has_left(state: str, protocol_type: str, left: set[int]) -> None:
    about = group([Part(0, 5), Part(1, 0)], (), state, protocol_type=protocol_type)

    assert {tp.partition for tp in partitions_left(about)} == left


def test_connect_knows_what_became_of_a_connector() -> None:
    sink = msgspec.structs.replace(group([Part(0, 5)], (), "Empty"), name="connect-to-s3")

    assert partitions_left(sink) == frozenset()
