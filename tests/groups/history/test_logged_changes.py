"""Changes of share and streams groups that are no steps: when they began, when they were done, and of what."""

from __future__ import annotations

import pytest

from kgroup.groups.history.logged_changes import logged_changes
from kgroup.model.group_log import RebalanceProtocol
from tests.helpers.cases.history import T0, Log, of

NONE = of()


def seen(log: Log) -> list[tuple[str, int, str, int | None]]:
    """Kind, seconds since T0, text, and how long it took."""
    return [(one.kind.value, (one.at_ms - T0) // 1000, one.text, one.took_ms) for one in logged_changes(log.events)]


def used() -> Log:
    return Log().at(0).states(of(0, 1), NONE).at(2).states(NONE, of(0, 1))


FIRST = ("offsets-initialized", 0, "orders (2 partitions)", 2_000)
CLICKS = of(0, topic="clicks")
CASES: dict[str, tuple[Log, list[tuple[str, int, str, int | None]]]] = {
    "first use": (used(), [FIRST]),
    "not written yet": (Log().states(of(0), NONE), [("offsets-initialized", 0, "orders (1 partition)", None)]),
    "a reset": (
        used().at(9).states(of(1), of(0, 1)).at(10).states(NONE, of(0, 1)),
        [FIRST, ("offsets-set", 9, "orders (1 partition)", 1_000)],
    ),
    "a reset, and the log that was read begins with it": (
        Log().at(9).states(of(1), of(0, 1)).at(10).states(NONE, of(0, 1)),
        [("offsets-set", 9, "orders (1 partition)", 1_000)],
    ),
    "a reset while other partitions are used for the first time": (
        used().at(9).states(CLICKS, of(0, 1)).at(10).states(CLICKS | of(0), of(0, 1))
        .at(11).states(of(0), of(0, 1) | CLICKS).at(12).states(NONE, of(0, 1) | CLICKS),
        [
            FIRST,
            ("offsets-initialized", 9, "clicks (1 partition)", 2_000),
            ("offsets-set", 10, "orders (1 partition)", 2_000),
        ],
    ),
    "offsets deleted": (
        used().at(9).states(NONE, NONE, "orders").at(10).states(NONE, NONE),
        [FIRST, ("offsets-deleted", 9, "orders (2 partitions)", 1_000)],
    ),
    "offsets deleted, of partitions that are not known": (
        Log().at(9).states(NONE, of(0), "clicks").at(10).states(NONE, of(0)),
        [("offsets-deleted", 9, "clicks", 1_000)],
    ),
    "their topic deleted": (
        used().at(9).states(NONE, NONE),
        [FIRST, ("topic-deleted", 9, "orders (2 partitions)", None)],
    ),
    "deleted with the group": (
        used().at(9).states(NONE, NONE, "orders").no_states().gone(RebalanceProtocol.SHARE),
        [FIRST],
    ),
    "deleted with the group, and used by the next of its name": (
        used().at(9).states(NONE, NONE, "orders").no_states().gone(RebalanceProtocol.SHARE).at(20).states(of(0), NONE),
        [FIRST, ("offsets-initialized", 20, "orders (1 partition)", None)],
    ),
    "an unknown partition leaves an empty list": (used().at(9).states(NONE, of(0, 1)), [FIRST]),
    "a topology, and another": (
        Log().topology(0, orders="0").at(5).topology(1, orders="0", clicks="1"),
        [("topology", 0, "epoch 0, 1 subtopology", None), ("topology", 5, "epoch 1, 2 subtopologies", None)],
    ),
    "settings": (
        Log().streams_epoch(2).at(3).streams_epoch(3, standbys=None)
        .at(5).streams_epoch(4, standbys=1).streams_epoch(5, standbys=1),
        [("settings", 5, "num.standby.replicas 0 -> 1", None)],
    ),
    "settings that are new": (
        Log().epoch(2, settings=()).at(5).streams_epoch(3),
        [("settings", 5, "num.standby.replicas unset -> 0", None)],
    ),
    "settings of another group of the name": (
        Log().streams_epoch(2).gone(RebalanceProtocol.STREAMS).streams_epoch(2, standbys=1),
        [],
    ),
    "a consumer group": (Log().member("a/1").epoch(1), []),
}  # fmt: skip


@pytest.mark.parametrize(("log", "expected"), CASES.values(), ids=CASES)
def test_changes(log: Log, expected: list[tuple[str, int, str, int | None]]) -> None:
    assert seen(log) == expected


def test_those_of_the_span_and_of_the_topics() -> None:
    log = used().at(9).states(CLICKS, of(0, 1)).at(10).states(NONE, of(0, 1) | CLICKS)

    assert [one.text for one in log.history(since=5).changes] == ["clicks (1 partition)"]
    assert [
        one.text for one in log.history(includes=lambda topic, number: (topic, number) == ("orders", 1)).changes
    ] == ["orders (2 partitions)"]
