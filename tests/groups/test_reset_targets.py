"""Where each scenario of a reset moves an offset, and what the words of the command line mean."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from kgroup.groups.reset_targets import (
    RequestedOffset,
    ResetScenario,
    ResetTarget,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicChoice,
    ToRequested,
    ToTime,
    parse_ago,
    parse_moment,
    parse_moment_or_ago,
    parse_offset,
    parse_topics,
    resolved_text,
)
from kgroup.model.commit import Commit
from kgroup.model.groups import Position, Positions, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

PLACE = TopicPartition("orders", 3)
LOG = Positions(Position(10, 1), Position(20, 4), Position(15, 3))
START, END, AT_TIME = Commit(10, 1, ""), Commit(20, 4, ""), Commit(15, 3, "")
KEPT = Commit(12, 7, "by hand")


def wanted(offset: int | None, leader_epoch: int | None = None, metadata: str | None = None) -> ToRequested:
    return ToRequested({PLACE: RequestedOffset(offset, leader_epoch, metadata)})


@pytest.mark.parametrize(
    ("scenario", "old", "commit", "clamped"),
    [
        (ToEarliest(), KEPT, START, None),
        (ToEarliest(), None, START, None),
        (ToLatest(), KEPT, END, None),
        (ToLatest(), Commit(20, None, "stays"), Commit(20, None, "stays"), None),
        (ToTime(0), KEPT, AT_TIME, None),
        (ToCurrent(), KEPT, KEPT, None),
        (ToCurrent(), Commit(99, 7, "out of range"), Commit(99, 7, "out of range"), None),
        (ToCurrent(), None, END, None),
        (ToOffset(11), KEPT, Commit(11, None, ""), None),
        (ToOffset(11), None, Commit(11, None, ""), None),
        (ToOffset(12), KEPT, KEPT, None),
        (ToOffset(9), KEPT, START, "log start 10"),
        (ToOffset(21), KEPT, END, "log end 20"),
        (ToOffset(-1), KEPT, START, "log start 10"),
        (ShiftBy(3), KEPT, Commit(15, None, ""), None),
        (ShiftBy(-1), KEPT, Commit(11, None, ""), None),
        (ShiftBy(0), KEPT, KEPT, None),
        (ShiftBy(9), KEPT, END, "log end 20"),
        (ShiftBy(-3), KEPT, START, "log start 10"),
        (ShiftBy(3), Commit(5, None, ""), START, "log start 10"),
        (wanted(13), KEPT, Commit(13, None, ""), None),
        (wanted(13, 2, "twin"), KEPT, Commit(13, 2, "twin"), None),
        (wanted(5, 2), KEPT, START, "log start 10"),
        (wanted(25, 2), None, END, "log end 20"),
        (wanted(None), KEPT, None, None),
    ],
)
def test_targets(scenario: ResetScenario, old: Commit | None, commit: Commit | None, clamped: str | None) -> None:
    found = scenario.target(PLACE, old, LOG)
    assert isinstance(found, ResetTarget)
    assert found.commit == commit
    assert (found.clamped is None) == (clamped is None)
    assert (clamped or "") in (found.clamped or "")


def test_the_ends_themselves_are_in_range() -> None:
    for offset in (10, 20):
        found = ToOffset(offset).target(PLACE, KEPT, LOG)
        assert found.commit
        assert (found.commit.offset, found.clamped) == (offset, None)


def test_a_moment_after_the_last_record_is_the_log_end() -> None:
    found = ToTime(0).target(PLACE, KEPT, Positions(Position(10, 1), Position(20, 4)))
    assert found.commit == END
    assert found.note


def test_a_shift_needs_a_commit() -> None:
    found = ShiftBy(1).target(PLACE, None, LOG)
    assert isinstance(found, RowError)
    assert found.code == "no-commit"


NOW = datetime(2026, 11, 21, 3, 30, tzinfo=UTC)


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-11-21T03:05:00.000Z", ms(2026, 11, 21, 3, 5)),
        ("2026-11-21T03:05:00.250", ms(2026, 11, 21, 3, 5) + 250),
        ("2026-11-21T03:05:00.000+05:30", ms(2026, 11, 20, 21, 35)),
        ("2026-11-21T03:05:00.000-03:00", ms(2026, 11, 21, 6, 5)),
        ("2026-11-21T03:05", ms(2026, 11, 21, 3, 5)),
        ("2026-11-21", ms(2026, 11, 21)),
        ("03:05Z", ms(2026, 11, 21, 3, 5)),
        ("03:30", ms(2026, 11, 21, 3, 30)),
        ("2026-11-20T03:35Z", ms(2026, 11, 20, 3, 35)),
        ("1970-01-01T00:00:00Z", 0),
        ("1697726906352", 1697726906352),
        ("999999999999", 999999999999),
    ],
)
def test_moments(text: str, timestamp_ms: int) -> None:
    assert parse_moment(text, NOW) == timestamp_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-02-30T00:00:00Z", "2026-11-21T25:00:00Z", "17000000000000", "1969-12-31T23:59:59Z"]
)
def test_moments_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--to-datetime"):
        parse_moment(text, NOW)


def test_seconds_since_1970_are_an_error_with_the_milliseconds() -> None:
    with pytest.raises(UsageError, match="seconds since 1970 are not supported") as raised:
        parse_moment("1697726906", NOW)

    assert raised.value.hint == "in milliseconds: --to-datetime 1697726906000"


@pytest.mark.parametrize("text", ["03:35Z", "03:30:01", "23:59Z"])
def test_a_time_of_today_in_the_future_is_an_error_that_names_yesterdays(text: str) -> None:
    with pytest.raises(UsageError, match="in the future; it is 2026-11-21T03:30:00Z") as raised:
        parse_moment(text, NOW, "--as-of")

    assert str(raised.value.hint).startswith(f"yesterday's: --as-of 2026-11-20T{text.removesuffix('Z')}")


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("5m", 300),
        (" 90s ", 90),
        ("1h30m", 5400),
        ("PT2H", 7200),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("03:05Z", 1500),
        ("20261121", 12_600),
        ("2026-11-21T03", 1800),
        ("1795231800000", 0),
    ],
)
def test_a_moment_or_a_duration_before_now(text: str, ago_s: float) -> None:
    assert parse_moment_or_ago(text, NOW, "--as-of") == round((NOW.timestamp() - ago_s) * 1000)


@pytest.mark.parametrize(
    ("text", "message"),
    [("5", "5: the unit is missing"), ("5m5", "not a duration"), ("yesterday", "not a date and time")],
)
def test_what_is_neither_of_them(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        parse_moment_or_ago(text, NOW, "--since")

    assert ("or a duration before now, like 30m" in str(raised.value.hint)) == (text == "yesterday")


def test_a_resolved_instant_has_its_date() -> None:
    assert resolved_text("03:05Z", parse_moment("03:05Z", NOW), "--since") == "--since 03:05Z is 2026-11-21T03:05:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT2H", 7200),
        ("P1DT12H", 129600),
        ("P2D", 172800),
        ("PT1H30M5S", 5405),
        ("PT0.5S", 0.5),
        ("PT0S", 0),
        ("2h", 7200),
        ("2h30m", 9000),
        ("-PT1H", -3600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_ago(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1M", "P1Y", "5", "PT5", "1H P", "PT1S1H", "inf", "nan"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--by-duration"):
        parse_ago(text)


def test_offsets() -> None:
    assert parse_offset(["17"]) == ToOffset(17)
    each = {TopicPartition("orders", 0): RequestedOffset(17), TopicPartition("a.b", 1): RequestedOffset(20)}
    assert parse_offset(["orders:0=17,a.b:1=20"]) == ToRequested(each)
    assert parse_offset(["orders:0=17", "a.b:1=20"]) == ToRequested(each)


@pytest.mark.parametrize(
    "given",
    [
        ["x"], [""], ["1.5"], ["1_000"], ["17", "18"], ["17", "orders:0=1"], ["orders=1"], ["orders:0"], ["orders:0="],
        ["orders:x=1"], ["orders:-1=1"], [":0=1"], ["orders:0=1,orders:0=2"], ["orders:0=1,"], ["9223372036854775808"],
    ],
)  # fmt: skip
def test_offsets_that_are_none(given: list[str]) -> None:
    with pytest.raises(UsageError, match="--to-offset"):
        parse_offset(given)


def test_topics() -> None:
    assert parse_topics(["orders:1,0", "audit"]) == (TopicChoice("orders", (0, 1)), TopicChoice("audit", None))


@pytest.mark.parametrize(
    "text", ["", ":0", "orders:", "orders:a", "orders:0,", "orders:-1", "orders:1-3", "orders:1.5"]
)
def test_topics_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--topic"):
        parse_topics([text])
