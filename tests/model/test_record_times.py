"""Which timestamps of records are times, and what is written about those that are not."""

from __future__ import annotations

import pytest

from kgroup.model.record_times import unusable_words, usable_ms
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import HOUR, MINUTE, NOW, SECOND

YEAR = 365 * 24 * HOUR
Y1971 = 31_536_000_000


@pytest.mark.parametrize(
    "timestamp_ms",
    [
        NOW,
        NOW - 1,
        NOW + MINUTE,  # clocks differ
        NOW - 14 * 24 * HOUR,  # an event of two weeks ago, older than a usual retention
        NOW - 50 * YEAR,  # ... and a very old one
        Y1971,
    ],
)
def test_a_time(timestamp_ms: int) -> None:
    assert usable_ms(timestamp_ms, NOW) == timestamp_ms


@pytest.mark.parametrize(
    ("timestamp_ms", "fault"),
    [
        (-1, "missing"),
        (0, "of 1970 (1970-01-01T00:00:00Z)"),
        (86_400_000, "of 1970 (1970-01-02T00:00:00Z)"),  # a device that has run for a day
        (NOW // 1000, "of 1970 (1970-01-21T18:40:25Z, probably in seconds)"),
        (Y1971 - 1, "of 1970 (1970-12-31T23:59:59Z)"),
        (NOW + MINUTE + 1, "1m in the future (2026-11-21T01:37:40Z)"),
        (NOW + 3 * HOUR + 5 * SECOND, "3h in the future (2026-11-21T04:36:45Z)"),
        (NOW + 7 * YEAR, "2555d in the future (2033-11-19T01:36:40Z)"),
        (NOW * 1000, f"in the far future ({NOW}000, probably in microseconds)"),
        (NOW * 1_000_000, f"in the far future ({NOW}000000, probably in nanoseconds)"),
    ],
)
def test_no_time(timestamp_ms: int, fault: str) -> None:
    assert usable_ms(timestamp_ms, NOW) is None
    words = unusable_words({TopicPartition("orders", 3): timestamp_ms}, NOW)
    assert words == f"timestamps of orders:3 are {fault}: the producer's clock"


def test_without_a_timestamp_there_is_no_time() -> None:
    assert usable_ms(None, NOW) is None


def test_two_partitions_are_named() -> None:
    times_ms = {TopicPartition("orders", number): 0 for number in (4, 1, 0, 2)} | {TopicPartition("clicks", 0): -1}
    assert unusable_words(times_ms, NOW) == (
        "timestamps of clicks:0 are missing and of orders:0 are of 1970 (1970-01-01T00:00:00Z) "
        "(and 3 more partitions): the producer's clock"
    )
