"""The lag of the last hour in steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.evidence import FirstUnread, Isolation, LogPoint
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.past import LagPast, group_past, lags_of_rows, quiet_partitions
from kgroup.groups.lag.report import RowLevel
from kgroup.model.groups import LoggedCommit, LogRange
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import MINUTE, NOW, Part, at, evidence, group


def ends(*offsets: int) -> tuple[LogPoint, ...]:
    """The log ends an hour ago, 50 minutes ago, ... ten minutes ago."""
    return tuple(LogPoint(NOW - (60 - 10 * n) * MINUTE, end) for n, end in enumerate(offsets))


def commits(*offsets: int | None, partition: int = 0) -> tuple[LoggedCommit, ...]:
    """A commit of each offset, 65, 55, ... 5 minutes ago; None: there was none."""
    return tuple(
        at((65 - 10 * n) * MINUTE, offset, partition) for n, offset in enumerate(offsets) if offset is not None
    )


STEADY = ends(100, 200, 300, 400, 500, 600)


@pytest.mark.parametrize(
    ("part", "past"),
    [
        (
            Part(0, 10, committed=690, past_ends=STEADY, commits=commits(90, 190, 290, 390, 490, 590, 690)),
            LagPast((10,) * 7, (100,) * 6, (100,) * 6),
        ),
        (  # it stopped half an hour ago
            Part(0, 310, committed=390, past_ends=STEADY, commits=commits(90, 190, 290, 390)),
            LagPast((10, 10, 10, 10, 110, 210, 310), (100,) * 6, (100, 100, 100, 0, 0, 0)),
        ),
        (  # it stopped long ago: the last commit is known at any age
            Part(0, 660, committed=40, past_ends=STEADY, commits=(at(300 * MINUTE, 40),)),
            LagPast((60, 160, 260, 360, 460, 560, 660), (100,) * 6, (0,) * 6),
        ),
        (  # a reset to 0 is no reading
            Part(0, 700, committed=0, past_ends=STEADY, commits=commits(90, 190, 290, 390, 490, 590, 0)),
            LagPast((10, 10, 10, 10, 10, 10, 700), (100,) * 6, (100, 100, 100, 100, 100, 0)),
        ),
        (  # what was committed before the oldest known commit is unknown
            Part(0, 10, committed=690, past_ends=STEADY, commits=commits(None, None, None, None, 490, 590, 690)),
            LagPast((None, None, None, None, 10, 10, 10), (100,) * 6, (None, None, None, None, 100, 100)),
        ),
        (  # what retention has deleted since is not counted
            Part(0, 660, committed=40, log_start=500, past_ends=STEADY, commits=(at(300 * MINUTE, 40),)),
            LagPast((0, 0, 0, 0, 0, 100, 200), (100,) * 6, (0,) * 6),
        ),
        (Part(0, 10, committed=690), None),  # no log ends were read
        (Part(0, None, committed=690, past_ends=STEADY), None),
    ],
    ids=["steady", "stopped", "stopped long ago", "reset", "unknown", "deleted", "not read", "no log"],
)
def test_a_partition(part: Part, past: LagPast | None) -> None:
    known = evidence([part])
    assert group_past(measure_lag(group([part]), known), known) == past


def test_offsets_without_a_record_are_no_lag_in_the_past_either() -> None:
    """A transaction's marker after all that was read: nothing has drained."""
    part = Part(0, 1, committed=1000, past_ends=ends(*(1001,) * 6), commits=(at(180 * MINUTE, 1000),))
    known = evidence([part])
    tp = part.partition.tp
    known = replace(known, partitions={tp: replace(known.partitions[tp], first_unread=FirstUnread(None))})

    past = group_past(measure_lag(group([part]), known), known)

    assert past == LagPast((0,) * 7, (0,) * 6, (0,) * 6)
    held = replace(known, isolation=Isolation.READ_COMMITTED)
    held = replace(held, partitions={tp: replace(known.partitions[tp], last_stable=1000)})
    assert group_past(measure_lag(group([part]), held), held) is None


def test_a_sum_is_unknown_where_a_part_is() -> None:
    whole = Part(0, 10, committed=690, past_ends=STEADY, commits=commits(90, 190, 290, 390, 490, 590, 690))
    younger = Part(1, 30, committed=670, past_ends=STEADY, commits=commits(None, None, None, 370, 470, 570, 670))
    unread = Part(2, 5, committed=10)
    known = evidence([whole, younger, unread])
    report = measure_lag(group([whole, younger, unread]), known)

    past = group_past(report, known)

    assert past is not None
    assert past.lag == (None, None, None, 40, 40, 40, 40)
    assert past.incoming == (200,) * 6
    assert lags_of_rows(report, known, RowLevel.GROUP) == {"orders-enrich": past.lag}
    assert lags_of_rows(report, known, RowLevel.PARTITION) == {
        "orders-enrich orders:0": (10,) * 7,
        "orders-enrich orders:1": (None, None, None, 30, 30, 30, 30),
    }


@pytest.mark.parametrize(
    ("lag", "drawn"),
    [((0,) * 7, False), ((None,) * 5 + (3, 3), False), ((None,) * 4 + (0, 0, 3), True), ((5,) * 7, True)],
)
def test_what_is_worth_drawing(lag: Sequence[int | None], drawn: bool) -> None:
    assert LagPast(tuple(lag), (), ()).is_curve == drawn


QUIET: dict[str, Any] = {"incoming": 0.0, "outgoing": 0.0}
FED: dict[str, Any] = {"incoming": 1.0}


@pytest.mark.parametrize(
    ("parts", "quiet"),
    [
        pytest.param([Part(0, 0, **QUIET), Part(1, 5, **QUIET)], [0, 1], id="nothing arrives"),
        pytest.param([Part(0, 0, **QUIET), Part(1, 5, **FED)], [], id="something does on another partition"),
        pytest.param([Part(0, 0, **QUIET), Part(1, 0, **FED, topic="clicks")], [0], id="on another topic"),
        pytest.param([Part(0, 0, incoming=0.0)], [], id="what is read has the times of older events"),
        pytest.param([Part(0, 0, **QUIET), Part(1, None)], [], id="a log is unknown"),
        pytest.param([Part(0, 0, **QUIET), Part(1, 0, **QUIET, committed=7, log_start=7)], [0], id="a log is empty"),
    ],
)
def test_topics_on_which_nothing_arrives(parts: list[Part], quiet: list[int]) -> None:
    found = quiet_partitions(group(parts), evidence(parts))

    assert found == {
        TopicPartition("orders", part.number): LogRange(0, part.committed + (part.lag or 0))
        for part in parts
        if part.number in quiet
    }
