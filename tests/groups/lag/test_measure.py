"""A group measured: phantom lag, the last stable offset, ages, retention; sums, bounds, order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kgroup.groups.history.runs import Run
from kgroup.groups.lag.checks import LagBounds, check_lag, parse_status
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    EvidenceSource,
    FirstUnread,
    GroupChurn,
    Isolation,
    LagEvidence,
    LogPoint,
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
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag, RowLevel, SortBy, is_quiet, rows_of, sort_rows
from kgroup.groups.lag.status import IN_TURN, JUST_BACK, LEFT_BEFORE, REBALANCES, WAITS, LagStatus, status_words
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.model.commit import Commit
from kgroup.model.group_log import GenerationWritten
from kgroup.model.groups import LoggedCommit, LogRange, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.lag_documents import lag_document
from tests.helpers.cases import history
from tests.helpers.cases.lag import HOUR, MINUTE, NOW, SECOND, Part, at, evidence, group, member, steady

COMMITTED = Isolation.READ_COMMITTED


def one(
    committed: int | None,
    log: tuple[int, int] | None,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    **known: Any,
) -> PartitionLag:
    commit = None if committed is None else Commit(committed, None, "")
    partition = Partition(TopicPartition("orders", 0), commit, None if log is None else LogRange(*log), None, None)
    about = structs.replace(group([]), partitions=(partition,))
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
        (Retention(3000, 40 * KB, 100 * KB), UnreadPart(50, 100, NOW - 9000, 10.0), RetentionLeft(0, "size")),
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
    assert total.outlook.pace is LagTrend.NOT_AT_THIS_RATE


def test_what_is_unknown_of_one_partition_is_not_known_of_all() -> None:
    total = measured(*FINE, UNREAD).total

    assert (total.lag, total.unknown, total.time_lag_ms, total.status) == (903, 1, None, None)
    assert total.rates == Rates(None, None)
    assert total.outlook.pace is LagTrend.UNKNOWN
    assert total.missing == "orders:4: its log could not be read"


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
                "orders-enrich: lag unknown (orders:4: its log could not be read), the limit is 5000",
                "orders-enrich: age of the oldest unread record unknown (orders:4: its log could not be read), "
                "the limit is 1m",
                "orders-enrich: status unknown (its log could not be read), better than STOP is required",
            ],
        ),
        # ... also beside one that is seen to be a little bad.
        (
            [Part(0, 60_000, 200.0, 100.0), UNREAD],
            LagBounds(fail_on=LagStatus.STALL),
            ["orders-enrich: status unknown (its log could not be read), better than STALL is required"],
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
             "the limit is 1m"],
        ),
    ],
)  # fmt: skip
def test_a_check_is_one_line_a_violation(parts: list[Part], bounds: LagBounds, lines: list[str]) -> None:
    rows = rows_of([measured(*parts)], RowLevel.GROUP)

    assert [str(violation) for violation in check_lag(rows, bounds, NOW)] == lines


TOOL = structs.replace(at(MINUTE, 10_000_000), by_tool=True)
CONSUMER_LEFT = (*steady(10_000_000, 100, 6 * MINUTE),)


@pytest.mark.parametrize(
    ("state", "empty_ago", "part", "status"),
    [
        # The consumers stopped, records arrive: at once, whatever their commits were like.
        ("Empty", 5 * MINUTE, Part(0, 15_382, 49, commits=CONSUMER_LEFT), LagStatus.NO_READER),
        ("Empty", 5 * MINUTE, Part(0, 15_382, 49, commits=(at(6 * MINUTE, 10_000_000),)), LagStatus.NO_READER),
        # ... also where the last member left in order just now.
        ("Empty", 2 * SECOND, Part(0, 900, 49, last_ago=3 * SECOND), LagStatus.NO_READER),
        ("Empty", 5 * MINUTE, Part(0, 900, 49, commits=CONSUMER_LEFT, age=20 * SECOND), LagStatus.NO_READER),
        # ... and where a reset came after them.
        ("Empty", 20 * SECOND,
         Part(0, 900, 49, commits=(*CONSUMER_LEFT, structs.replace(TOOL, timestamp_ms=NOW - SECOND))),
         LagStatus.NO_READER),
        # ... and where the commits show nothing.
        ("Empty", SECOND, Part(0, 50, 49, commits=(at(2 * SECOND, 10_000_000),), age=3 * SECOND), LagStatus.NO_READER),
        # Nothing arrives: what is unread has no reader either.
        ("Empty", HOUR, Part(0, 900, 0, last_ago=2 * HOUR, age=3 * HOUR), LagStatus.NO_READER),
        ("Empty", MINUTE, Part(0, 900, 0, commits=(at(65 * SECOND, 10_000_000),), age=3 * HOUR), LagStatus.NO_READER),
        ("Empty", 2 * SECOND, Part(0, 900, 0, outgoing=100, last_ago=3 * SECOND), LagStatus.NO_READER),
        ("Empty", HOUR, Part(0, 900, 0, commits=(TOOL,), age=3 * HOUR), LagStatus.NO_READER),
        ("Empty", HOUR, Part(0, 900, 0, last_ago=2 * HOUR, age=HOUR // 2), LagStatus.NO_READER),
        # It never had members: a tool made it.
        ("Empty", None, Part(0, 900, 49, commits=(TOOL,), age=HOUR), LagStatus.NO_READER),
        # A consumer with assign() reads; one that stopped is a STOP, and after five minutes no reader.
        ("Empty", HOUR, Part(0, 900, 100), LagStatus.OK),
        ("Empty", None, Part(0, 900, 100), LagStatus.OK),
        ("Empty", HOUR, Part(0, 90_000, 100, last_ago=299 * SECOND), LagStatus.STOP),
        ("Empty", HOUR, Part(0, 90_000, 100, last_ago=5 * MINUTE), LagStatus.NO_READER),
        ("Empty", None, Part(0, 90_000, 100, last_ago=5 * MINUTE), LagStatus.NO_READER),
        # ... but later if its last commits took longer.
        ("Empty", HOUR,
         Part(0, 90_000, 100, commits=tuple(at(n * 6 * MINUTE, 10_000_001 - n) for n in (3, 2, 1))), None),
        # Nothing is unread, or there are members.
        ("Empty", HOUR, Part(0, 0, 49, commits=(TOOL,)), LagStatus.OK),
        ("Stable", HOUR, Part(0, 15_382, 49, commits=CONSUMER_LEFT, age=5 * MINUTE), LagStatus.STOP),
    ],
)  # fmt: skip
def test_a_group_without_a_reader(state: str, empty_ago: int | None, part: Part, status: LagStatus | None) -> None:
    since_ms = None if empty_ago is None else NOW - empty_ago
    report = measure_lag(group([part], state=state), evidence([part], state_since_ms=since_ms))

    assert report.total.status is status
    if status is LagStatus.NO_READER:
        assert report.total.outlook.pace is LagTrend.NOT_AT_THIS_RATE
        assert report.total.rates.outgoing == 0
        assert report.total.status_result.since_ms is not None


LEFT_AT = tuple(NOW - ago * SECOND for ago in (200, 150, 100, 50, 5))
STOOD = tuple(at(ago * SECOND, 10_000_000 - ago) for ago in range(300, 240, -5))


@pytest.mark.parametrize(
    ("emptied_ms", "other", "status"),
    [
        pytest.param(LEFT_AT, {}, LagStatus.STOP, id="members come and go"),
        pytest.param(LEFT_AT[-1:], {}, LagStatus.NO_READER, id="the last one left once"),
        pytest.param(LEFT_AT, {"age": 20 * SECOND}, LagStatus.NO_READER, id="the record came after them"),
        pytest.param(
            LEFT_AT, {"commits": (*STOOD, at(20 * SECOND, 10_000_000))}, LagStatus.NO_READER, id="one of them read"
        ),
        pytest.param(
            LEFT_AT,
            {"commits": (*STOOD, at(20 * SECOND, 9_999_755))},
            LagStatus.NO_READER,
            id="not stuck while it lives",
        ),
        pytest.param(LEFT_AT[:2], {}, LagStatus.NO_READER, id="none came back for longer than before"),
        pytest.param((NOW - 190 * SECOND, NOW - 70 * SECOND), {}, LagStatus.STOP, id="it may come back yet"),
    ],
)
def test_the_status_of_a_crash_loop_is_the_same_between_two_lives(
    emptied_ms: tuple[int, ...], other: dict[str, Any], status: LagStatus
) -> None:
    given: dict[str, Any] = {"commits": STOOD, "committed": 9_999_755, "age": 4 * MINUTE}
    part = Part(0, 900, 49, **(given | other))
    known = evidence([part], emptied_ms=emptied_ms, state_since_ms=emptied_ms[-1])

    assert measure_lag(group([part], state="Empty"), known).total.status is status
    if status is LagStatus.STOP:
        assert measure_lag(group([part], state="Stable"), known).total.status is status


def test_an_old_commit_says_nothing_of_how_often_a_reader_with_assign_commits() -> None:
    """The doctor adds the commit of a partition that is older than the log that it read."""
    read = Part(0, 90_000, 100, commits=tuple(at(n * 6 * MINUTE, 10_000_001 - n) for n in (3, 2)))
    quiet = Part(1, 900, 0, commits=(at(50 * HOUR, 10_000_000),))

    total = measure_lag(
        group([read, quiet], state="Empty"),
        evidence([read, quiet], state_since_ms=NOW - 2 * HOUR),
    ).total

    assert total.status is LagStatus.NO_READER


@pytest.mark.parametrize(
    ("last_stable", "status"),
    # With a commit above it the group reads all records, and does not wait.
    [(10_000_000, None), (10_000_001, LagStatus.STOP), (9_999_999, LagStatus.STOP)],
)
def test_who_waits_for_an_open_transaction_is_not_stuck(last_stable: int, status: LagStatus | None) -> None:
    part = Part(0, 900, 49, last_ago=10 * MINUTE, age=10 * MINUTE, last_stable=last_stable)

    (row,) = measure_lag(group([part]), evidence([part])).partitions

    assert (row.status, row.status_result.why) == (status, None if status else WAITS)
    assert row.rates.outgoing == (0 if status else None)


def test_no_reader_counts_from_when_the_group_was_empty_or_something_to_read_came() -> None:
    def since(empty_ago: int | None, **other: Any) -> int | None:
        part = Part(0, 900, 49, commits=(TOOL,), **other)
        known = evidence([part], state_since_ms=None if empty_ago is None else NOW - empty_ago)
        return measure_lag(group([part], state="Empty"), known).total.status_result.since_ms

    assert since(HOUR, age=2 * HOUR) == NOW - HOUR
    assert since(HOUR, age=40 * SECOND) == NOW - 40 * SECOND
    assert since(None, age=HOUR) == NOW - MINUTE


@pytest.mark.parametrize("unknown", [{EvidenceSource.COMMITS: "no READ on __consumer_offsets"}, {}])
def test_without_the_log_no_reader_is_unknown(unknown: dict[EvidenceSource, str]) -> None:
    part = Part(0, 900, 49, commits=())

    known = evidence([part], unknown=unknown)
    unread = {tp: structs.replace(facts, read_since_ms=None) for tp, facts in known.partitions.items()}
    total = measure_lag(group([part], state="Empty"), structs.replace(known, partitions=unread)).total

    assert (total.status, total.rates.outgoing) == (None, None)


def test_what_is_not_read_is_sorted_by_lag_then_age_whatever_its_name() -> None:
    def lagging(name: str, part: Part, state: str = "Stable") -> GroupLag:
        about = structs.replace(group([part], state=state), name=name)
        return measure_lag(about, evidence([part], state_since_ms=NOW - HOUR))

    rows = [
        lagging("fine", FINE[0]).total,
        lagging("blue-orders", Part(0, 1836, 49, last_ago=38 * MINUTE, age=38 * MINUTE)).total,
        lagging("billing-export", Part(0, 202_752, 49, commits=(at(2 * HOUR, 10_000_000),)), "Empty").total,
        lagging("younger", Part(0, 1836, 49, last_ago=20 * MINUTE, age=20 * MINUTE)).total,
    ]

    assert [row.name for row in sort_rows(rows)] == ["billing-export", "blue-orders", "younger", "fine"]


def test_groups_that_nobody_reads_and_nothing_arrives_for_come_after_what_is_bad_now() -> None:
    """Jobs that run once a day look so; a stuck group must not be the 25th row."""

    def group_of(name: str, part: Part, state: str = "Stable") -> LagSum:
        about = structs.replace(group([part], state=state), name=name)
        return measure_lag(about, evidence([part], state_since_ms=NOW - HOUR)).total

    left = (at(2 * HOUR, 10_000_000),)
    rows = [
        group_of("daily", Part(0, 90_000, 0, age=HOUR, commits=left), "Empty"),
        group_of("unknown", Part(0, None)),
        group_of("rewound", Part(0, 500, 10, commits=(at(HOUR, 9_000), at(50 * SECOND, 10), at(40 * SECOND, 40)))),
        group_of("slow", Part(0, 60_000, 100, 50)),
        group_of("deserted", Part(0, 300, 5, age=HOUR, commits=left), "Empty"),
        group_of("fine", FINE[0]),
        group_of("stopped", Part(0, 200, 0, last_ago=38 * MINUTE, age=38 * MINUTE)),
    ]

    order = ["deserted", "stopped", "rewound", "slow", "daily", "unknown", "fine"]
    assert [row.name for row in sort_rows(rows)] == order
    assert [row.name for row in rows if is_quiet(row)] == ["daily"]
    assert [row.name for row in sort_rows(rows, top=7)] == order
    assert [row.name for row in sort_rows(rows, top=2)] == ["deserted", "daily"], "the largest is never hidden"
    assert [row.name for row in sort_rows(rows, SortBy.NAME, top=2)] == ["daily", "deserted"]


def test_no_reader_fails_a_check_for_it_and_every_milder_one() -> None:
    part = Part(0, 15_382, 49, commits=CONSUMER_LEFT)
    rows = rows_of(
        [measure_lag(group([part], state="Empty"), evidence([part], state_since_ms=NOW - 5 * MINUTE))], RowLevel.GROUP
    )

    for text in ("no-reader", "stop", "warn"):
        (violation,) = check_lag(rows, LagBounds(fail_on=parse_status(text)), NOW)
        assert violation.text == "NO-READER 5m on orders:0"
    stopped = rows_of([measured(STUCK)], RowLevel.GROUP)
    assert check_lag(stopped, LagBounds(fail_on=parse_status("no-reader")), NOW) == ()


def test_bounds_hold_for_each_row_of_the_level() -> None:
    report = measured(STUCK, *FINE)

    def subjects(level: RowLevel) -> list[str]:
        return [v.subject for v in check_lag(rows_of([report], level), LagBounds(max_lag=301), NOW)]

    assert subjects(RowLevel.GROUP) == ["orders-enrich"]
    assert subjects(RowLevel.TOPIC) == ["orders-enrich orders"]
    assert subjects(RowLevel.PARTITION) == ["orders-enrich orders:2", "orders-enrich orders:7"]


READER = member("enrich-1", partitions=(0, 1, 2))
LEFT = [Part(0, 9_000, age=HOUR, topic="old"), Part(1, None, topic="old")]


@pytest.mark.parametrize(
    ("parts", "level", "bounds", "failed"),
    [
        ([*FINE, *LEFT], RowLevel.GROUP, LagBounds(max_lag=1000, max_lag_time_s=600, fail_on=LagStatus.STOP), 1),
        ([*FINE, *LEFT], RowLevel.GROUP, LagBounds(max_lag=1000, max_lag_time_s=600), 0),
        ([*FINE, *LEFT], RowLevel.TOPIC, LagBounds(max_lag=1000, max_lag_time_s=600), 0),
        ([*FINE, LEFT[0]], RowLevel.PARTITION, LagBounds(max_lag=1000, max_lag_time_s=600), 0),
        (LEFT, RowLevel.GROUP, LagBounds(max_lag=1000, max_lag_time_s=600), 0),
        ([*FINE, *LEFT], RowLevel.GROUP, LagBounds(max_lag=902), 1),
        ([*FINE, LEFT[0]], RowLevel.GROUP, LagBounds(fail_on=LagStatus.WARN), 1),
        ([*FINE, LEFT[0]], RowLevel.GROUP, LagBounds(fail_on=LagStatus.REWIND), 0),
        ([*FINE, UNREAD, *LEFT], RowLevel.GROUP, LagBounds(max_lag=1000, max_lag_time_s=600), 2),
        ([replace(LEFT[0], topic="orders"), *LEFT], RowLevel.GROUP, LagBounds(max_lag=1000, max_lag_time_s=600), 2),
    ],
)
def test_the_lag_of_a_topic_that_the_group_has_left_breaks_no_bound(
    parts: list[Part], level: RowLevel, bounds: LagBounds, failed: int
) -> None:
    report = measure_lag(group(parts, [READER]), evidence(parts))

    assert {p.status for p in report.partitions if p.partition.topic == "old" and p.lag} == {LagStatus.UNSUBSCRIBED}
    assert len(check_lag(rows_of([report], level), bounds, NOW)) == failed


@pytest.mark.parametrize(
    ("parts", "time_lag_ms", "oldest"),
    [
        ([*FINE, LEFT[0]], measured(*FINE).total.time_lag_ms, measured(*FINE).total.oldest),
        ([Part(0, 0), LEFT[0]], 0, None),
        (LEFT[:1], HOUR, "old"),
    ],
)
def test_a_group_is_not_late_with_a_topic_that_it_has_left(
    parts: list[Part], time_lag_ms: int, oldest: PartitionLag | str | None
) -> None:
    """Unless there is no other: then the row of the topic, too, has its age."""
    total = measure_lag(group(parts, [READER]), evidence(parts)).total

    assert total.time_lag_ms == time_lag_ms
    found = None if total.oldest is None else total.oldest.partition.topic
    assert found == (oldest if oldest is None or isinstance(oldest, str) else oldest.partition.topic)
    assert total.largest is not None
    assert total.largest.partition.topic == "old"


@pytest.mark.parametrize(
    ("state", "topics", "status"),
    [
        ("PreparingRebalance", ("orders",), None),
        ("PreparingRebalance", ("orders", "old"), LagStatus.STOP),
        ("PreparingRebalance", None, LagStatus.STOP),
        ("Stable", ("orders",), LagStatus.UNSUBSCRIBED),
    ],
)
def test_a_topic_that_the_group_had_left_before_a_rebalance(
    state: str, topics: tuple[str, ...] | None, status: LagStatus | None
) -> None:
    """A member that reads it may be joining, so that it is not known to be left, and does not stand for a stuck one."""
    parts = [*FINE, *(replace(part, last_ago=20 * MINUTE, age=20 * MINUTE) for part in LEFT)]
    of_member = history.member("a", topics=None if topics is None else frozenset(topics))
    newest = GenerationWritten(1, NOW - HOUR, 7, "consumer", "range", "a", None, (of_member,))

    report = measure_lag(group(parts, [READER], state), evidence(parts, generation=newest))

    found = [p.status_result for p in report.partitions if p.partition.topic == "old" and p.lag]
    assert {result.status for result in found} == {status}
    assert {result.why for result in found} == ({LEFT_BEFORE} if status is None else {None})


@pytest.mark.parametrize(
    ("state", "silent_s", "expected"),
    [
        ("PreparingRebalance", 40, (None, REBALANCES)),
        ("CompletingRebalance", 59, (None, REBALANCES)),
        ("PreparingRebalance", 60, (LagStatus.STOP, None)),
        ("Stable", 40, (LagStatus.STOP, None)),
        ("Reconciling", 40, (None, REBALANCES)),
    ],
)
def test_a_restart_is_no_stop_while_its_rebalance_is_under_way(
    state: str, silent_s: int, expected: tuple[LagStatus | None, str | None]
) -> None:
    parts = [
        Part(
            0,
            600,
            last_ago=silent_s * SECOND,
            age=silent_s * SECOND,
            commits=tuple(steady(10_000_000, 100, silent_s * SECOND, SECOND)),
        )
    ]

    (found,) = measure_lag(group(parts, [READER], state), evidence(parts)).partitions

    assert (found.status, found.status_result.why) == expected


CLOSED = Run(NOW - HOUR, NOW - 3 * MINUTE, left=True)


@pytest.mark.parametrize(
    ("back_s", "other", "expected"),
    [
        (29, {}, (None, JUST_BACK)),
        (30, {}, (LagStatus.STOP, None)),
        # It did not leave by itself, did not leave at all, came back again and again, or dies at a record.
        (4, {"runs": (structs.replace(CLOSED, left=False),)}, (LagStatus.STOP, None)),
        (4, {"runs": ()}, (LagStatus.STOP, None)),
        (4, {"churn": GroupChurn(3, 9 * SECOND)}, (LagStatus.STOP, None)),
        (4, {"crash_loops": (CrashLoop("orders", 0, 10_000_000, ()),)}, (LagStatus.STOP, None)),
    ],
)
def test_members_that_have_just_come_back_have_not_stopped(
    back_s: int, other: dict[str, Any], expected: tuple[LagStatus | None, str | None]
) -> None:
    """They were away for three minutes, and read nothing meanwhile."""
    part = Part(0, 600, last_ago=3 * MINUTE, age=3 * MINUTE)
    known: dict[str, Any] = {"runs": (CLOSED,), "churn": GroupChurn(1, back_s * SECOND), **other}

    (row,) = measure_lag(
        group([part], [READER]), evidence([part], state_since_ms=NOW - back_s * SECOND, **known)
    ).partitions

    assert (row.status, row.status_result.why) == expected


@pytest.mark.parametrize(
    ("silent_s", "other", "expected"),
    [
        (40, {}, (None, IN_TURN)),
        (60, {"back_s": 60}, (LagStatus.STOP, None)),
        (40, {"lag": 99}, (LagStatus.STOP, None)),  # a member that keeps up there has the time
        (40, {"last_ago": 41 * SECOND}, (LagStatus.STOP, None)),  # and one that stopped there first, too
        (40, {"owner": member("other")}, (LagStatus.STOP, None)),
        (40, {"back_s": 121}, (LagStatus.STOP, None)),
    ],
)
def test_a_client_reads_what_it_has_fetched_of_one_partition_then_of_the_next(
    silent_s: int, other: dict[str, Any], expected: tuple[LagStatus | None, str | None]
) -> None:
    silent_ms, back_ms = silent_s * SECOND, NOW - {"back_s": 50, **other}["back_s"] * SECOND
    other = {name: value for name, value in other.items() if name != "back_s"}
    commits = tuple(steady(10_000_000, 100, silent_ms, SECOND))
    waits = Part(0, 6000, last_ago=silent_ms, age=silent_ms, commits=commits, owner=READER)
    reads = Part(1, **{"lag": 20_000, "age": MINUTE, "owner": READER, **other})
    parts = [waits, reads]

    known: dict[str, Any] = {"runs": (CLOSED,), "churn": GroupChurn(1, SECOND), "state_since_ms": back_ms}

    row, _ = measure_lag(group(parts, [READER, member("other")]), evidence(parts, **known)).partitions

    assert (row.status, row.status_result.why) == expected


def test_who_has_read_all_reads_nothing_since() -> None:
    """Eleven hundred records in a minute, and none for nine."""
    part = Part(0, 0, incoming=2, outgoing=20, last_ago=9 * MINUTE)

    (row,) = measure_lag(group([part], [READER]), evidence([part])).partitions

    assert row.rates.outgoing == pytest.approx(1100 / 595)


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


def test_the_oldest_known_age_is_a_lower_bound() -> None:
    total = measured(STUCK, UNREAD).total
    assert (total.time_lag_ms, total.time_lag_at_least_ms) == (None, 38 * MINUTE)
    total = measured(STUCK, *FINE).total
    assert (total.time_lag_ms, total.time_lag_at_least_ms) == (38 * MINUTE, 38 * MINUTE)
    assert measured(UNREAD).total.time_lag_at_least_ms is None

    younger = structs.replace(measured(STUCK, UNREAD).total, group="hidden-age")
    rows = [measured(Part(0, 600, age=20 * SECOND)).total, younger]
    assert [row.name for row in sort_rows(rows, SortBy.TIME)] == ["hidden-age", "orders-enrich"]


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
    document = lag_document(report)
    assert len(document.partitions) == len(parts)
    assert sum(p.lag or 0 for p in document.partitions) == (document.lag or 0)
    for row in report.partitions:
        assert row.lag is None or row.lag >= 0
        assert row.time_lag_ms is None or row.time_lag_ms >= 0


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
    assert outlook_words(row.outlook) == "not at this rate"
    assert trend_words(drains.rates) == "-3/s (1m)"
    assert outlook_words(drains.outlook) == "3m20s"
    assert trend_words(Rates(100.0, 101.0)) == "flat"
    assert trend_words(Rates(100.0, None)) is None


OLD = 14 * 24 * HOUR
KEEPS_UP, READS_NOTHING = steady(100, 5, 2 * SECOND), steady(100, 0, 2 * SECOND)


@pytest.mark.parametrize("unusable_ms", [-1, 0, NOW // 1000, NOW + 3 * HOUR])
def test_from_times_that_are_not_usable_no_age_follows(unusable_ms: int) -> None:
    row = one(100, (0, 110), commits=tuple(KEEPS_UP), read_since_ms=NOW - HOUR, first_unread=FirstUnread(100),
              retention=Retention(12 * HOUR), unusable_ms=unusable_ms)  # fmt: skip

    assert (row.lag, row.time_lag_ms, row.status_result.caught_up) == (10, None, True)
    assert row.rates.incoming is None
    assert row.rates.outgoing == pytest.approx(5)
    assert row.outlook.pace is LagTrend.KEEPS_UP
    assert row.retention_left == RetentionLeft(None)
    assert (row.time_why or "").startswith("timestamps of orders:0 are ")
    (violation,) = check_lag([row], LagBounds(max_lag_time_s=60), NOW)
    assert (violation.known, violation.text) == (
        False,
        f"age of the oldest unread record unknown ({row.time_why}), the limit is 1m",
    )


def test_a_stopped_reader_is_found_whatever_the_times_are() -> None:
    """With a first unread record of the future it seemed to wait for it."""
    about: dict[str, Any] = {"first_unread": FirstUnread(100), "unusable_ms": NOW + HOUR, "read_since_ms": NOW - HOUR}

    stalled = one(100, (0, 110), commits=tuple(steady(100, 0, 2 * SECOND, times=70)), **about)
    assert stalled.status is LagStatus.STALL
    stopped = one(100, (0, 110), commits=tuple(steady(100, 5, 20 * MINUTE)), **about)
    assert (stopped.status, stopped.status_result.since_ms) == (LagStatus.STOP, NOW - 20 * MINUTE)


def test_what_is_read_or_not_read_needs_no_time() -> None:
    assert one(110, (0, 110), unusable_ms=0).time_why is None, "its age is 0"
    assert one(110, (0, 110), unusable_ms=0).time_lag_ms == 0
    assert one(100, (0, 110)).time_why is None, "it was not read"


@pytest.mark.parametrize(
    ("lag", "commits", "ends", "age", "incoming"),
    [
        (10, KEEPS_UP, (110, 110), OLD, None),  # it reads what arrives, and by time nothing does
        (0, KEEPS_UP, (100, 100), None, None),
        (10, KEEPS_UP, (), OLD, None),
        (10, KEEPS_UP, (60, 105), 2 * SECOND, 50 / 600),
        (10, KEEPS_UP, (60, 110), 2 * MINUTE, 50 / 600),
        (10_000, KEEPS_UP, (10_100, 10_100), OLD, 0),  # a backlog
        (10, READS_NOTHING, (110, 110), OLD, 0),
        (10, steady(100, 5, 2 * MINUTE), (110, 110), OLD, 0),  # it read, and has stopped
        (0, READS_NOTHING, (100, 100), None, 0),
        (10, [], (110, 110), OLD, 0),
    ],
)
def test_records_with_the_times_of_older_events_show_no_rate(
    lag: int, commits: list[LoggedCommit], ends: tuple[int, ...], age: int | None, incoming: float | None
) -> None:
    points = tuple(LogPoint(NOW - ago, end) for ago, end in zip((10 * MINUTE, MINUTE), ends, strict=False))
    first = None if age is None else FirstUnread(100, NOW - age)

    row = one(100, (0, 100 + lag), commits=tuple(commits), read_since_ms=NOW - HOUR, ends=points, first_unread=first)

    assert row.spans[-1].incoming == (None if incoming is None else pytest.approx(incoming))
    assert row.time_lag_ms == (age or 0), "their age is true, as that of an event"
