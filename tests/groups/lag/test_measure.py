"""A group measured: phantom lag, the last stable offset, ages, retention; sums, bounds, order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.groups.lag.checks import LagBounds, check_lag, parse_status
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    FirstUnread,
    Isolation,
    LagEvidence,
    PartitionEvidence,
    Retention,
)
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.rates import (
    LagTrend,
    Rates,
    RetentionLeft,
    UnreadPart,
    outlook_words,
    rate_words,
    retention_left,
    trend_words,
)
from kgroup.groups.lag.report import GroupLag, PartitionLag, RowLevel, SortBy, rows_of, sort_rows
from kgroup.groups.lag.status import LagStatus, status_words
from kgroup.model.groups import Commit, Group, LogRange, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError
from tests.support.cases.lag import HOUR, MINUTE, NOW, Part, evidence, group

COMMITTED = Isolation.READ_COMMITTED


def one(
    committed: int | None,
    log: tuple[int, int] | None,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    **known: Any,
) -> PartitionLag:
    commit = None if committed is None else Commit(committed, None, "")
    partition = Partition("orders", 0, commit, None if log is None else LogRange(*log), None, None)
    about = replace(group([]), partitions=(partition,))
    found = LagEvidence(NOW, isolation, {TopicPartition("orders", 0): PartitionEvidence(**known)})
    return measure_lag(about, found).partitions[0]


def unread(offset: int | None, ago_ms: int = 5000) -> FirstUnread:
    return FirstUnread(offset, NOW - ago_ms)


@pytest.mark.parametrize(
    ("row", "lag", "phantom"),
    [
        (one(70, (0, 120)), 50, 0),
        (one(5, (100, 120)), 20, 0),  # what retention took is no lag
        (one(70, (0, 120), first_unread=unread(70)), 50, 0),
        (one(70, (0, 120), first_unread=unread(95)), 25, 25),  # compacted, aborted or emptied
        (one(119, (0, 120), first_unread=FirstUnread(None)), 0, 1),  # a transaction's marker at the end
        (one(70, (0, 120), first_unread=FirstUnread(None)), 0, 50),
        (one(120, (0, 120), first_unread=FirstUnread(None)), 0, 0),
        (one(70, (0, 120), first_unread=unread(60)), 50, 0),  # read before the last commit
        (one(70, (0, 120), first_unread=unread(130)), 0, 50),  # read after the log's end was
        (one(5, (100, 120), first_unread=unread(110)), 10, 10),
        (one(0, (0, 0)), 0, 0),
        (one(70, (0, 120), isolation=COMMITTED, last_stable=90), 20, 0),
        (one(90, (0, 120), isolation=COMMITTED, last_stable=90), 0, 0),
        (one(100, (0, 120), isolation=COMMITTED, last_stable=90), 0, 0),  # committed by a read_uncommitted consumer
        (one(70, (0, 120), isolation=COMMITTED, last_stable=90, first_unread=unread(80)), 10, 10),
        (one(70, (0, 120), last_stable=90), 50, 0),
        (one(130, (0, 120)), None, 0),
        (one(None, (0, 120)), None, 0),
        (one(70, None), None, 0),
        (one(70, (0, 120), isolation=COMMITTED), None, 0),
    ],
)  # fmt: skip
def test_only_records_that_are_there_are_lag(row: PartitionLag, lag: int | None, phantom: int) -> None:
    assert (row.lag, row.phantom) == (lag, phantom)
    assert (row.why is None) == (lag is not None)
    if lag == 0:
        assert row.time_lag_ms == 0
        assert row.status is LagStatus.OK
        assert row.outlook.pace is LagTrend.KEEPS_UP


def test_a_transaction_is_named_where_it_holds_records_back() -> None:
    transaction = BlockingTransaction(4711, 3, 90, NOW - HOUR, "pay-tx")

    held = one(90, (0, 120), isolation=COMMITTED, last_stable=90, open_transaction=transaction)
    free = one(90, (0, 120), isolation=COMMITTED, last_stable=120, open_transaction=transaction)

    assert (held.lag, held.held_back, held.open_transaction) == (0, 30, transaction)
    assert (free.lag, free.held_back, free.open_transaction) == (30, 0, None)


@pytest.mark.parametrize(
    ("found", "behind_ms"),
    [
        (unread(70, 38 * MINUTE), 38 * MINUTE),
        (unread(70, -5000), 0),  # a producer's clock is ahead
        (FirstUnread(70, -1), None),  # a record without a timestamp
        (FirstUnread(70, None), None),
        (None, None),
    ],
)
def test_lag_in_time_is_the_age_of_the_first_unread_record(found: FirstUnread | None, behind_ms: int | None) -> None:
    assert one(70, (0, 120), first_unread=found).time_lag_ms == behind_ms


KB = 1024


@pytest.mark.parametrize(
    ("retention", "left", "expected"),
    [
        (
            Retention(12 * HOUR),
            UnreadPart(50, 100, NOW - 38 * MINUTE, 10.0),
            RetentionLeft(11 * HOUR + 22 * MINUTE, "time"),
        ),
        (Retention(HOUR), UnreadPart(50, 100, NOW - 2 * HOUR, 10.0), RetentionLeft(0, "time")),
        (Retention(HOUR), UnreadPart(50, 100, None, 10.0), RetentionLeft(None)),
        (Retention(None), UnreadPart(50, 100, NOW - HOUR, 10.0), RetentionLeft(None, endless=True)),
        (
            Retention(HOUR, compacted=True, deletes=False),
            UnreadPart(5, 9, NOW, 1.0),
            RetentionLeft(None, None, True, True),
        ),
        # 100 offsets are 100 kB, 50 of them unread; 10 a second fill the other 50 kB in 5 s.
        (Retention(None, 100 * KB, 100 * KB), UnreadPart(50, 100, None, 10.0), RetentionLeft(5000, "size")),
        (Retention(HOUR, 100 * KB, 100 * KB), UnreadPart(50, 100, NOW - 1000, 10.0), RetentionLeft(5000, "size")),
        (Retention(3000, 100 * KB, 100 * KB), UnreadPart(50, 100, NOW - 1000, 10.0), RetentionLeft(2000, "time")),
        (Retention(None, 40 * KB, 100 * KB), UnreadPart(50, 100, None, 10.0), RetentionLeft(0, "size")),
        (Retention(None, 100 * KB, 100 * KB), UnreadPart(50, 100, None, None), RetentionLeft(None)),
        (Retention(None, 100 * KB), UnreadPart(50, 100, None, 10.0), RetentionLeft(None)),
    ],
)
def test_headroom(retention: Retention, left: UnreadPart, expected: RetentionLeft) -> None:
    assert retention_left(retention, left, NOW) == expected


STUCK = Part(7, 3_940_025, incoming=1700, last_ago=38 * MINUTE, age=38 * MINUTE)
FINE = [Part(n, 300 + n, incoming=100, outgoing=100) for n in range(3)]
UNREAD = Part(4, None)


def measured(*parts: Part, **other: Any) -> GroupLag:
    return measure_lag(group(parts), evidence(parts, **other))


def test_sums() -> None:
    total = measured(STUCK, *FINE, Part(1, 9, topic="audit", incoming=5, outgoing=5)).total

    assert total.lag == 3_940_025 + 300 + 301 + 302 + 9
    assert total.largest is not None
    assert total.largest.where == "orders:7"
    assert total.oldest is total.largest
    assert total.time_lag_ms == 38 * MINUTE
    assert total.status is LagStatus.STOP
    assert total.rates.incoming == pytest.approx(1700 + 300 + 5)
    assert total.rates.outgoing == pytest.approx(305)
    assert total.outlook.pace is LagTrend.NEVER


def test_what_is_unknown_of_one_partition_is_not_known_of_all() -> None:
    total = measured(*FINE, UNREAD).total

    assert (total.lag, total.unknown, total.time_lag_ms, total.status) == (903, 1, None, None)
    assert total.rates == Rates(None, None)
    assert total.outlook.pace is LagTrend.UNKNOWN
    assert total.missing == "orders:4: its log could not be read"


def test_a_bad_status_shows_through_what_is_unknown() -> None:
    assert measured(STUCK, UNREAD).total.status is LagStatus.STOP


def test_a_group_without_partitions_knows_nothing() -> None:
    total = measured().total

    assert (total.lag, total.status, total.largest, total.time_lag_ms) == (None, None, None, None)
    assert total.missing is not None


@pytest.mark.parametrize(
    ("parts", "bounds", "lines"),
    [
        (FINE, LagBounds(), []),
        (FINE, LagBounds(max_lag=903), []),
        (FINE, LagBounds(max_lag=902), ["orders-enrich: lag 903 is over 902, 33% of it on orders:2"]),
        (FINE, LagBounds(max_lag_time_s=10), []),
        (
            [STUCK, *FINE],
            LagBounds(max_lag=1000, max_lag_time_s=60, fail_on=LagStatus.WARN),
            [
                "orders-enrich: lag 3940928 is over 1000, 100% of it on orders:7",
                "orders-enrich: oldest unread record on orders:7 is 38m old, over 1m",
                "orders-enrich: STOP 38m on orders:7",
            ],
        ),
        (FINE, LagBounds(fail_on=LagStatus.WARN), []),
        (
            [STUCK, replace(STUCK, number=8)],
            LagBounds(fail_on=LagStatus.STOP),
            ["orders-enrich: STOP 38m on orders:7 and 1 more"],
        ),
        # What could not be seen is no pass.
        (
            [*FINE, UNREAD],
            LagBounds(max_lag=5000, max_lag_time_s=60, fail_on=LagStatus.STOP),
            [
                "orders-enrich: lag unknown (orders:4: its log could not be read), at most 5000 is asked for",
                "orders-enrich: age of the oldest unread record unknown (orders:4: its log could not be read), "
                "1m is asked for",
                "orders-enrich: status unknown (its log could not be read), better than STOP is asked for",
            ],
        ),
        # ... also beside one that is seen to be a little bad.
        (
            [Part(0, 60_000, 200.0, 100.0), UNREAD],
            LagBounds(fail_on=LagStatus.STALL),
            ["orders-enrich: status unknown (its log could not be read), better than STALL is asked for"],
        ),
        ([Part(0, 60_000, 200.0, 100.0)], LagBounds(fail_on=LagStatus.STALL), []),
        (
            [Part(0, 60_000, 200.0, 100.0), UNREAD],
            LagBounds(fail_on=LagStatus.WARN),
            ["orders-enrich: WARN on orders:0"],
        ),
        # ... but a bound that is broken by what was seen is broken.
        ([*FINE, UNREAD], LagBounds(max_lag=500), ["orders-enrich: lag 903 is over 500, 33% of it on orders:2"]),
        (
            [replace(FINE[0], timed=False)],
            LagBounds(max_lag_time_s=60),
            ["orders-enrich: age of the oldest unread record unknown (the first unread record was not read), "
             "1m is asked for"],
        ),
    ],
)  # fmt: skip
def test_a_check_is_one_line_a_violation(parts: list[Part], bounds: LagBounds, lines: list[str]) -> None:
    rows = rows_of([measured(*parts)], RowLevel.GROUP)

    assert [str(violation) for violation in check_lag(rows, bounds, NOW)] == lines


def test_bounds_hold_for_each_row_of_the_level() -> None:
    report = measured(STUCK, *FINE)

    def subjects(level: RowLevel) -> list[str]:
        return [v.subject for v in check_lag(rows_of([report], level), LagBounds(max_lag=301), NOW)]

    assert subjects(RowLevel.GROUP) == ["orders-enrich"]
    assert subjects(RowLevel.TOPIC) == ["orders-enrich orders"]
    assert subjects(RowLevel.PARTITION) == ["orders-enrich orders:2", "orders-enrich orders:7"]


def test_statuses_to_fail_on() -> None:
    assert parse_status("stop") is LagStatus.STOP
    for text in ("OK", "bad", ""):
        with pytest.raises(UsageError):
            parse_status(text)


def numbers(report: GroupLag, by: SortBy, top: int | None = None) -> list[int]:
    return [row.partition.partition for row in sort_rows(report.partitions, by, top)]


def test_order() -> None:
    quick = Part(3, 5000, incoming=100, outgoing=400)  # drains
    parts = [*FINE, STUCK, UNREAD, quick]
    report = measured(*parts)

    assert numbers(report, SortBy.STATUS) == [7, 4, 3, 2, 1, 0]
    assert numbers(report, SortBy.LAG) == [7, 3, 2, 1, 0, 4]
    assert numbers(report, SortBy.TIME)[0] == 7
    assert numbers(report, SortBy.TREND)[0] == 7
    assert numbers(report, SortBy.TREND)[-1] == 3
    assert numbers(report, SortBy.NAME) == [0, 1, 2, 3, 4, 7]
    assert numbers(report, SortBy.LAG, top=2) == [7, 3]


PARTS = st.builds(
    Part,
    number=st.integers(0, 5),
    lag=st.one_of(st.none(), st.integers(0, 10**9)),
    incoming=st.one_of(st.just(0.0), st.floats(0.001, 1e5)),
    outgoing=st.floats(0, 1e4),
    last_ago=st.integers(-10_000, 10**8),
    age=st.one_of(st.none(), st.integers(-(10**6), 10**9)),
    log_start=st.sampled_from([0, 10_000_000]),
    timed=st.booleans(),
)


@given(st.lists(PARTS, max_size=6, unique_by=lambda p: p.number), st.sampled_from(SortBy), st.sampled_from(RowLevel))
def test_any_group_can_be_measured_ordered_checked_and_written(parts: list[Part], by: SortBy, level: RowLevel) -> None:
    report = measured(*parts)
    rows = rows_of([report], level)

    assert sorted(map(id, sort_rows(rows, by))) == sorted(map(id, rows))
    for violation in check_lag(rows, LagBounds(0, 0.0, LagStatus.WARN), NOW):
        assert "\n" not in str(violation)
    document = report.document()
    assert len(document["partitions"]) == len(parts)
    assert sum(p["lag"] or 0 for p in document["partitions"]) == (document["lag"] or 0)
    for row in report.partitions:
        assert row.lag is None or row.lag >= 0
        assert row.time_lag_ms is None or row.time_lag_ms >= 0


def test_the_document_of_a_stuck_partition() -> None:
    document = measured(STUCK).document()

    assert document["lag_status"] == "STOP"
    assert document["topics"][0]["topic"] == "orders"
    (row,) = document["partitions"]
    assert row["lag"] == 3_940_025
    assert row["lag_ms"] == 38 * MINUTE
    assert row["lag_status_since_ms"] == NOW - 38 * MINUTE
    assert row["lag_status_since"] == "2026-11-21T00:58:40.000Z"
    assert row["out_per_s"] == 0
    assert row["pace"] == "never"
    assert row["caught_up_in_ms"] is None
    assert row["retention_left_ms"] == 11 * HOUR + 22 * MINUTE


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0, "0"), (0.4, "0.4/s"), (3.0, "3/s"), (17.4, "17/s"), (40_000, "40.0k/s"), (0.05, "3.0/min"), (0.001, "3.6/h")],
)
def test_rate_words(rate: float, text: str) -> None:
    assert rate_words(rate) == text


def test_words() -> None:
    row = measured(STUCK).partitions[0]
    drains = measured(Part(0, 600, incoming=10, outgoing=13)).partitions[0]

    assert status_words(row.status_result, NOW) == "STOP 38m"
    assert trend_words(row.rates) == "+1700/s"
    assert outlook_words(row.outlook) == "never"
    assert trend_words(drains.rates) == "-3/s"
    assert outlook_words(drains.outlook) == "3m20s"
    assert trend_words(Rates(100.0, 101.0)) == "flat"
    assert trend_words(Rates(100.0, None)) is None


def test_without_any_evidence_there_is_the_lag_in_records() -> None:
    about: Group = group([STUCK, *FINE])

    report = measure_lag(about, LagEvidence(NOW))

    assert report.total.lag == about.totals.lag
    assert report.total.status is None
    assert report.total.time_lag_ms is None
