"""``--if-behind``: what it takes, and what it decides on the lag of a group."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.start_condition import Behind, Unstarted, UnstartedReason, decide_start
from kgroup.groups.lag.checks import LagBounds, Violation, check_lag
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag
from kgroup.support.errors import UsageError
from tests.helpers.cases.lag import MINUTE, Part, evidence, group


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("2500", LagBounds(max_lag=2500)),
        ("0", LagBounds(max_lag=0)),
        (" 100k ", LagBounds(max_lag=100_000)),
        ("10m", LagBounds(max_lag_time_s=600)),
        ("2h", LagBounds(max_lag_time_s=7200)),
        ("1h30m", LagBounds(max_lag_time_s=5400)),
    ],
)
def test_a_bound_is_a_number_of_records_or_an_age(text: str, bounds: LagBounds) -> None:
    assert Behind.parse(text) == Behind(text.strip(), bounds)


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5k", "10M", "10 m", "100K", "ten", "1k5", "20y"])
def test_what_is_neither_is_refused(text: str) -> None:
    """``10M`` is close to ten minutes: millions are written as thousands."""
    with pytest.raises(UsageError) as raised:
        Behind.parse(text)

    assert "100k for unread records" in str(raised.value.hint)


def measured(*parts: Part) -> GroupLag:
    return measure_lag(group(list(parts)), evidence(list(parts)))


FRESH = [Part(n, 300 + n) for n in range(3)]  # 3 s old
OLD = Part(7, 200, age=11 * MINUTE)
LARGE = Part(8, 100_001, incoming=1000)
UNTIMED = Part(4, 5, timed=False)
UNREAD = Part(5, None)


@pytest.mark.parametrize(
    ("parts", "bound", "decided"),
    [
        # Each partition by itself: the sum of three is over it, none of them is.
        (FRESH, "302", UnstartedReason.NOT_BEHIND),
        (FRESH, "301", "orders-enrich orders:2: lag 302 is over 301"),
        ([*FRESH, OLD], "10m", "orders-enrich orders:7: oldest unread record is 11m old, over 10m"),
        ([*FRESH, OLD], "11m", UnstartedReason.NOT_BEHIND),  # what equals the bound is not over it
        ([*FRESH, OLD], "100k", UnstartedReason.NOT_BEHIND),
        ([*FRESH, LARGE], "100k", "orders-enrich orders:8: lag 100001 is over 100k"),
        # One that is known to be over it is enough, whatever is unknown of others.
        ([UNREAD, OLD], "10m", "orders-enrich orders:7: oldest unread record is 11m old, over 10m"),
        ([UNTIMED, OLD], "10m", "orders-enrich orders:7: oldest unread record is 11m old, over 10m"),
        # What is unknown moves nothing, also if it is a lower bound of the group's age.
        ([UNREAD, *FRESH], "10m", UnstartedReason.LAG_UNKNOWN),
        ([UNREAD, *FRESH], "100k", UnstartedReason.LAG_UNKNOWN),
        ([UNTIMED, *FRESH], "10m", UnstartedReason.LAG_UNKNOWN),
        ([UNTIMED, *FRESH], "100k", UnstartedReason.NOT_BEHIND),
        ([Part(0, 0)], "0", UnstartedReason.NOT_BEHIND),
        ([], "0", UnstartedReason.NO_COMMIT),
    ],
)
def test_one_partition_over_the_bound_starts_it(parts: list[Part], bound: str, decided: str | UnstartedReason) -> None:
    found = decide_start("orders-enrich", measured(*parts), Behind.parse(bound))

    if isinstance(decided, UnstartedReason):
        assert isinstance(found, Unstarted)
        assert found.reason is decided
    else:
        assert isinstance(found, Violation)
        assert str(found).replace("100000", "100k") == decided


@pytest.mark.parametrize("bound", ["0", "301", "302", "2s", "4s", "10m", "11m", "100k"])
@pytest.mark.parametrize("parts", [FRESH, [*FRESH, OLD], [UNTIMED, *FRESH], [UNREAD, OLD], [LARGE]])
def test_it_decides_as_lag_by_partition_checks(parts: list[Part], bound: str) -> None:
    """``kgroup lag GROUP --by partition --max-lag-time 10m`` has exit code 0 if and only if it is not behind."""
    report, behind = measured(*parts), Behind.parse(bound)

    found = decide_start("orders-enrich", report, behind)

    passes = not check_lag(report.partitions, behind.bounds, report.now_ms)
    assert passes == (isinstance(found, Unstarted) and found.reason is UnstartedReason.NOT_BEHIND)


def test_the_reason_has_the_numbers() -> None:
    found = decide_start("orders-enrich", measured(*FRESH, OLD), Behind.parse("2h"))
    unknown = decide_start("orders-enrich", measured(UNREAD, *FRESH), Behind.parse("10m"))

    assert isinstance(found, Unstarted)
    assert found.text == (
        "orders-enrich is not 2h behind on any partition: lag 1103, at most 302 on orders:2; "
        "the oldest unread record is 11m old, on orders:7"
    )
    assert found.lag is not None
    assert (found.lag.lag, found.lag.time_lag_ms) == (1103, 11 * MINUTE)
    assert isinstance(unknown, Unstarted)
    assert unknown.text.startswith("orders-enrich is not known to be 10m behind: orders-enrich orders:5: ")
    assert "its log could not be read" in unknown.text


def test_commits_that_are_hidden_may_be_behind() -> None:
    about = replace(group(FRESH), hidden_commits=(("audit", 0),))

    found = decide_start("orders-enrich", measure_lag(about, evidence(FRESH)), Behind.parse("10m"))

    assert isinstance(found, Unstarted)
    assert found.reason is UnstartedReason.LAG_UNKNOWN


def test_a_group_that_does_not_exist_is_not_behind() -> None:
    found = decide_start("orders-enrich", None, Behind.parse("10m"))

    assert isinstance(found, Unstarted)
    assert found.reason is UnstartedReason.NO_COMMIT
