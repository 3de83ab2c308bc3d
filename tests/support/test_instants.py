"""Instants as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kgroup.support.instants import TimeUnit, rfc3339, short_time

AT = 1_795_225_000_250  # 2026-11-21T01:36:40.250Z


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("milliseconds", "2026-11-21T01:36:40.250Z"),
        ("seconds", "2026-11-21T01:36:40Z"),
    ],
)
def test_units(unit: TimeUnit, text: str) -> None:
    assert rfc3339(AT, unit) == text


@pytest.mark.parametrize("impossible", [None, -1, 10**15, 2**63 - 1, -(2**63)])
def test_an_impossible_timestamp_is_none(impossible: int | None) -> None:
    assert rfc3339(impossible) is None


def test_a_time_of_another_zone_is_converted() -> None:
    assert rfc3339(datetime(2026, 11, 21, 3, 5, tzinfo=timezone(timedelta(hours=2)))) == "2026-11-21T01:05:00.000Z"


def test_short_times() -> None:
    now = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)

    texts = [short_time(at, round(now.timestamp() * 1000)) for at in (AT, AT - 86_400_000, 2**63 - 1)]

    assert texts == ["01:36:40Z", "2026-11-20 01:36Z", "an unknown time"]
