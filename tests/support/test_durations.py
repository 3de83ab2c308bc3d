"""Durations, as typed and as shown."""

from __future__ import annotations

import pytest

from kgroup.support.durations import format_duration, parse_duration, parse_timeout
from kgroup.support.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0),
        ("250ms", 0.25),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("7d", 604800.0),
        ("1h30m", 5400.0),
        ("1m30s500ms", 90.5),
        ("1.5h", 5400.0),
        (" 10s ", 10.0),
        ("0s", 0.0),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text, "--within") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "--within 5: the unit is missing: 5s, 5m or 5h"),
        ("0", "--within 0: the unit is missing: 0s, 0m or 0h"),
        ("90", "--within 90: the unit is missing: 90s, 90m or 90h"),
        ("1.5", "--within 1.5: the unit is missing: 1.5s, 1.5m or 1.5h"),
        ("soon", "--within soon: not a duration, like 30s, 5m or 1h30m"),
        ("-5s", "--within -5s: not a duration, like 30s, 5m or 1h30m"),
        ("5 s", "--within 5 s: not a duration, like 30s, 5m or 1h30m"),
        ("5S", "--within 5S: not a duration, like 30s, 5m or 1h30m"),
        ("5y", "--within 5y: not a duration, like 30s, 5m or 1h30m"),
        ("", "--within : not a duration, like 30s, 5m or 1h30m"),
        ("٣s", "--within ٣s: not a duration, like 30s, 5m or 1h30m"),
        ("²", "--within ²: not a duration, like 30s, 5m or 1h30m"),
    ],
)
def test_what_is_no_duration(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_duration(text, "--within")
    assert raised.value.message == message
    assert raised.value.code == "usage"


@pytest.mark.parametrize(
    ("text", "option", "seconds", "warnings"),
    [
        ("5000", "--timeout", 5.0, []),
        ("1000", "--timeout", 1.0, []),
        ("20s", "--timeout", 20.0, []),
        ("500ms", "--timeout", 0.5, []),
        (
            "30",
            "--timeout",
            0.03,
            [
                "--timeout 30 is 30 milliseconds (the unit of kafka-consumer-groups.sh); "
                "for 30 seconds write --timeout 30s"
            ],
        ),
        (
            "999",
            "KGROUP_TIMEOUT",
            0.999,
            [
                "KGROUP_TIMEOUT=999 is 999 milliseconds (the unit of kafka-consumer-groups.sh); "
                "for 999 seconds write KGROUP_TIMEOUT=999s"
            ],
        ),
    ],
)
def test_parse_timeout(text: str, option: str, seconds: float, warnings: list[str]) -> None:
    said: list[str] = []
    assert parse_timeout(text, said.append, option) == pytest.approx(seconds)
    assert said == warnings


@pytest.mark.parametrize("text", ["0", "0s", "-1", "soon", "", "²"])
def test_timeouts_that_leave_no_time(text: str) -> None:
    with pytest.raises(UsageError):
        parse_timeout(text, pytest.fail)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "0s"),
        (0.25, "250ms"),
        (0.9996, "1s"),
        (1, "1s"),
        (45.4, "45s"),
        (59.6, "1m"),
        (60, "1m"),
        (74, "1m14s"),
        (336, "5m36s"),
        (599, "9m59s"),
        (599.7, "10m"),
        (38 * 60 + 12, "38m"),
        (83 * 60, "1h23m"),
        (3600, "1h"),
        (3599, "1h"),
        (6 * 86400 + 23 * 3600, "6d23h"),
        (86400 - 1, "1d"),
        (7 * 86400, "7d"),
        (-5, "-5s"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
