"""Burrow's rules on a history of commits, the log's end at their times, and rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.lag.evidence import LogEnds, LogPoint
from kgroup.groups.lag.rates import (
    Arrivals,
    LagTrend,
    Outlook,
    Rates,
    keeps_up,
    outgoing_rate,
    outlook,
    rates_by_span,
    rates_of,
    slowest,
)
from kgroup.groups.lag.status import (
    CommitReading,
    LagStatus,
    StatusResult,
    StatusRules,
    evaluate_status,
    last_rewind,
    recent_commits,
    usual_pause_ms,
)
from kgroup.model.groups import LoggedCommit
from tests.helpers.cases.lag import HOUR, MINUTE, NOW, SECOND, at, steady

OK, WARN, REWIND, STALL, STOP = LagStatus.OK, LagStatus.WARN, LagStatus.REWIND, LagStatus.STALL, LagStatus.STOP


def judged(
    commits: Sequence[LoggedCommit],
    end: int,
    *,
    past: Sequence[LogPoint] = (),
    unread_ago: int | None = None,
    read_since: int | None = None,
    keeps_up: bool = False,
    group_span: int | None = None,
    rules: StatusRules | None = None,
) -> StatusResult:
    committed = commits[-1].offset if commits else 0
    points = list(past)
    if unread_ago is not None:
        points.append(LogPoint(NOW - unread_ago, committed))
    reading = CommitReading(
        lag=max(0, end - committed),
        commits=commits,
        ends=LogEnds.of(points, LogPoint(NOW, end)),
        now_ms=NOW,
        waiting_since_ms=None if unread_ago is None else NOW - unread_ago,
        read_since_ms=None if read_since is None else NOW - read_since,
        keeps_up=keeps_up,
        group_span_ms=group_span,
    )
    return evaluate_status(reading, rules or StatusRules())


def past(ago_ms: int, end: int) -> LogPoint:
    return LogPoint(NOW - ago_ms, end)


def each_second(last_ago: int) -> list[LoggedCommit]:
    return [at(last_ago + n * SECOND, 500) for n in reversed(range(60))]


SAME = [at(n * 5 * SECOND, 500) for n in reversed(range(1, 13))]


def rhythm(*offsets: int, pause: int = SECOND, ago: int = 0) -> list[LoggedCommit]:
    """Commits of these offsets in a rhythm, the last one so long ago."""
    return [at(ago + n * pause, offset) for n, offset in enumerate(reversed(offsets))][::-1]


FLIPS = [1000, 1001] * 20
"""A record that fails: the client seeks back to it, and its next commit is again one further."""
BESIDE_OWNER = [offset for n in range(20) for offset in (10, 5030 + 10 * n)]
CREEPING = [offset for n in range(20) for offset in (1000 + n, 1002 + n)]
BATCH = [*range(990, 1001)]
"""Each record of a batch of which the last one fails."""


@pytest.mark.parametrize(
    ("status", "found"),
    [
        # Nothing unread: whatever the commits say.
        (OK, judged(steady(1000, 10, 40 * MINUTE), 1000)),
        (OK, judged(SAME, 500)),
        (OK, judged([], 0)),
        (OK, judged(steady(1000, 10, 2000), 1005, rules=StatusRules(allowed=5))),
        # STOP: silence longer than the last ten commits took together.
        (STOP, judged(steady(1000, 10, 38 * MINUTE), 9000, unread_ago=38 * MINUTE)),
        (STOP, judged(steady(1000, 10, 46 * SECOND), 9000, past=[past(10 * MINUTE, 2000)])),
        # ... but not while there was nothing to read: the record came two seconds ago.
        (OK, judged(steady(1000, 10, 38 * MINUTE), 1001, unread_ago=2 * SECOND)),
        # ... nor within half a minute, however quick the rhythm was.
        (OK, judged(steady(1000, 10, 20 * SECOND, pause_ms=1000), 1100, unread_ago=10 * SECOND)),
        # Reached the end once and stopped then: Burrow calls this OK for ever.
        (STOP, judged(steady(1000, 10, 38 * MINUTE), 9000, past=[past(39 * MINUTE, 1000)], unread_ago=37 * MINUTE)),
        # A single commit: compaction may have deleted the others.
        (STOP, judged([at(11 * MINUTE, 100)], 200, unread_ago=11 * MINUTE)),
        (STOP, judged([at(301 * SECOND, 100)], 200, unread_ago=10 * MINUTE)),
        (None, judged([at(299 * SECOND, 100)], 200, unread_ago=10 * MINUTE)),
        (None, judged([at(9 * MINUTE, 100)], 200, unread_ago=299 * SECOND)),
        # ... of a group whose other partitions commit: as long as its last commits took together.
        (STOP, judged([at(51 * SECOND, 100)], 200, unread_ago=HOUR, group_span=50 * SECOND)),
        (None, judged([at(49 * SECOND, 100)], 200, unread_ago=HOUR, group_span=50 * SECOND)),
        (None, judged([at(29 * SECOND, 100)], 200, unread_ago=HOUR, group_span=9 * SECOND)),
        (None, judged([at(299 * SECOND, 100)], 200, unread_ago=HOUR, group_span=HOUR)),
        (STOP, judged([], 200, read_since=MINUTE, group_span=50 * SECOND)),
        # Several within a moment, as after each record: the next record is the one.
        (STOP, judged([at(31 * SECOND + n, 100 - n) for n in (20, 10, 0)], 200, unread_ago=HOUR)),
        (None, judged([at(29 * SECOND + n, 100 - n) for n in (20, 10, 0)], 200, unread_ago=HOUR)),
        (None, judged([at(31 * SECOND + n, 100 - n) for n in (10, 0)], 200, unread_ago=HOUR)),
        (OK, judged([at(9 * MINUTE, 100)], 200, unread_ago=20 * SECOND)),
        # No commit at all in what was read.
        (STOP, judged([], 200, read_since=HOUR)),
        (None, judged([], 200, read_since=299 * SECOND)),
        (None, judged([], 200)),
        # REWIND: it went down, and has not been at the end since.
        (REWIND, judged([*steady(1000, 10, 4 * MINUTE + 5000), *steady(600, 10, 2000, times=3)], 2000)),
        (REWIND, judged([at(8000, 900), at(3000, 100)], 1000)),
        # ... remembered for ten minutes.
        (OK, judged([at(HOUR, 900), at(12 * MINUTE, 9), *steady(600, 10, 2000)], 2000, past=[past(HOUR, 1990)])),
        # ... and not where it caught up since.
        (OK, judged([at(20_000, 900), *steady(900, 10, 2000, times=3)], 901, unread_ago=1000)),
        # A rewind that nobody read on from is a STOP.
        (STOP, judged([*steady(1000, 10, 39 * MINUTE), at(38 * MINUTE, 100)], 2000, unread_ago=50 * MINUTE)),
        # STALL: commits go on, all of one offset, while something waits.
        (STALL, judged(SAME, 900, unread_ago=22 * MINUTE)),
        (STALL, judged(SAME, 900, past=[past(10 * MINUTE, 700)])),
        # ... and do not any more where a member was killed that had committed each second.
        (STOP, judged(each_second(27 * SECOND), 900, unread_ago=MINUTE)),
        (STOP, judged(each_second(11 * SECOND), 900, unread_ago=MINUTE)),
        (STALL, judged(each_second(9 * SECOND), 900, unread_ago=MINUTE)),
        # ... a single record only after five minutes: who commits the last record, not the next one, has always one.
        (WARN, judged(each_second(9 * SECOND), 501, unread_ago=MINUTE)),
        (STALL, judged([at(n * 5 * SECOND, 500) for n in reversed(range(1, 80))], 501, unread_ago=6 * MINUTE)),
        # ... unknown if it was there when its offset was first committed: the client may always have one.
        (None, judged([at(HOUR, 499), *(at(n * 5 * SECOND, 500) for n in reversed(range(1, 80)))], 501,
                      unread_ago=80 * 5 * SECOND)),
        (None, judged([at(HOUR, 499), at(40 * MINUTE, 500)], 501, unread_ago=40 * MINUTE + 1)),
        (STOP, judged([at(HOUR, 499), at(40 * MINUTE, 500)], 501, unread_ago=40 * MINUTE - 1)),
        (STOP, judged([at(HOUR, 499), at(40 * MINUTE, 500)], 502, unread_ago=40 * MINUTE + 1)),
        (OK, judged(rhythm(497, 498, 499, *[500] * 6, pause=5 * SECOND), 501, unread_ago=40 * SECOND)),
        (STOP, judged([c for c in SAME if c.timestamp_ms < NOW - 15 * SECOND], 900, unread_ago=22 * MINUTE)),
        # ... also if no more arrived than in two intervals, once a record is unread for five minutes.
        (OK, judged(SAME, 502, unread_ago=22 * MINUTE, keeps_up=True)),
        (OK, judged([at(5 * MINUTE - 1, 700), at(SECOND, 700)], 702, unread_ago=HOUR, keeps_up=True)),
        (STALL, judged([at(6 * MINUTE, 700), at(SECOND, 700)], 702, unread_ago=HOUR, keeps_up=True)),
        # ... also few of them, once a lone commit would be a STOP.
        (STALL, judged([at(6 * MINUTE, 700), at(SECOND, 700)], 900, unread_ago=HOUR)),
        (STALL, judged([at(HOUR, 600), at(6 * MINUTE, 700), at(MINUTE, 700)], 900, unread_ago=HOUR)),
        (None, judged([at(5 * MINUTE - 1, 700), at(SECOND, 700)], 900, unread_ago=HOUR)),
        (STALL, judged([c for c in SAME if c.timestamp_ms <= NOW - 15 * SECOND], 900, unread_ago=22 * MINUTE)),
        (OK, judged(SAME, 501, unread_ago=3 * SECOND)),
        # ... while it had read all at one of the last ten, that is no stall yet.
        (OK, judged(SAME, 900, unread_ago=40 * SECOND)),
        # ... three of them in fifteen seconds prove nothing.
        (WARN, judged(SAME[-3:], 900, unread_ago=22 * SECOND)),
        # One that moved among the last ten is no stall.
        (WARN, judged([*SAME[:-1], at(2000, 501)], 900, past=[past(2 * MINUTE, 600)])),
        # ... nor ends it with commits beyond, that the next one takes back; and it is worse than a REWIND.
        (STALL, judged([*SAME[:-1], at(3000, 9000), at(1000, 500)], 9500, unread_ago=HOUR)),
        (STALL, judged([*SAME[:-3], at(9000, 900), at(3000, 950), at(1000, 500)], 9500, unread_ago=HOUR)),
        (STALL, judged([at(HOUR, 450), at(2 * MINUTE, 900), *SAME[-8:]], 9500, unread_ago=HOUR)),
        # STALL: it falls back three times at least from an offset that it never gets past.
        (STALL, judged(rhythm(900, 950, *FLIPS), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(900, 950, *FLIPS, 1000), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(*range(900, 990), *BATCH * 6), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(*range(900, 990), *BATCH * 6, 990, 991), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(500, 600, 700, *[700, 800] * 9, pause=5 * SECOND), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(9000, 100, 500, *FLIPS), 9500, unread_ago=HOUR)),
        (STALL, judged(rhythm(*[994, 999, 990, 999, 992, 999] * 9), 9000, unread_ago=HOUR)),
        # ... whoever does it: an idle owner and an idle stranger.
        (STALL, judged(rhythm(*[10, 5030] * 20), 9000, unread_ago=HOUR)),
        # ... not before half a minute, and a REWIND of a retry would be undone by a skip.
        (None, judged(rhythm(*[1000, 1001] * 15), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(*[1000, 1001] * 16), 9000, unread_ago=HOUR)),
        (None, judged(rhythm(900, 950, *FLIPS), 9000, unread_ago=29 * SECOND)),
        (OK, judged(rhythm(*FLIPS), 1003, unread_ago=MINUTE, keeps_up=True)),
        # ... and it has ended with three of its pauses.
        (STOP, judged(rhythm(*FLIPS, ago=11 * SECOND), 9000, unread_ago=HOUR)),
        (STALL, judged(rhythm(*FLIPS, ago=9 * SECOND), 9000, unread_ago=HOUR)),
        # ... while it had read all at one of the last ten, or begins again each time that it has read all: no stall.
        (OK, judged(rhythm(*FLIPS, 1000), 1100, past=[past(2 * SECOND, 1001)])),
        (None, judged(rhythm(*[*range(0, 9001, 200)] * 3, *range(0, 5000, 200)), 9000, past=[past(HOUR, 9000)])),
        # ... nor does a pause of the broker within a round make progress of it.
        (None, judged([*rhythm(*[*range(1, 13)] * 6, pause=5, ago=2000), at(1990, 1), at(5, 2)], 200, unread_ago=HOUR)),
        # ... with progress there is none: two falls, a retry that succeeds, offsets that grow after the last one.
        (REWIND, judged(rhythm(1000, 1001, 1000, 1001, 1000), 9000, unread_ago=HOUR)),
        (OK, judged(rhythm(*FLIPS, *range(1002, 1012)), 1020, past=[past(10 * SECOND, 1018)])),
        (REWIND, judged(rhythm(*[9000, 100] * 3, *range(101, 150)), 9500, unread_ago=HOUR)),
        # ... replays by the client, an owner beside a stranger, what is handled of what was fetched.
        (REWIND, judged(rhythm(9000, *[*range(100, 150)] * 3, *range(100, 170)), 9500, unread_ago=HOUR)),
        (REWIND, judged(rhythm(*(o for n in range(20) for o in (5030 + 10 * n, 10))), 9000, unread_ago=HOUR)),
        (REWIND, judged(rhythm(*(o for n in range(20) for o in (1500, 1010 + 10 * n))), 9000, unread_ago=HOUR)),
        # ... also while the owner is ahead, for three rounds; retries of one client are no matter if it keeps up.
        (REWIND, judged(rhythm(*BESIDE_OWNER), 9000, unread_ago=HOUR, keeps_up=True)),
        (REWIND, judged(rhythm(*BESIDE_OWNER, ago=4 * SECOND), 9000, unread_ago=HOUR)),
        (None, judged(rhythm(*BESIDE_OWNER, ago=7 * SECOND), 9000, unread_ago=HOUR)),
        (OK, judged(rhythm(*CREEPING), 1025, unread_ago=HOUR, keeps_up=True)),
        (REWIND, judged(rhythm(*CREEPING), 9000, unread_ago=HOUR)),
        # ... what a tool has moved was no retry.
        (REWIND, judged([*rhythm(*FLIPS, ago=2000), replace(at(1000, 1001), by_tool=True), at(0, 1000)], 9000,
                        unread_ago=HOUR)),
        # A rewind is over once it is back where it was.
        (OK, judged(rhythm(900, 800, *range(860, 960, 10)), 9000, past=[past(HOUR, 5000)])),
        (REWIND, judged(rhythm(900, 800, *range(860, 900, 10)), 9000, past=[past(HOUR, 5000)])),
        # WARN: it moves, the lag grows, and never shrinks.
        (WARN, judged(steady(1000, 10, 2000), 9000, past=[past(10 * MINUTE, 2000)])),
        # OK: as fast as records arrive, if far behind: it may be late on purpose, as a retry topic with a delay.
        (OK, judged(steady(1000, 10, 2000), 9000, past=[past(10 * MINUTE, 3000)])),
        (OK, judged([at(n * 15 * SECOND, 1000 - n) for n in reversed(range(12))], 1012, past=[past(3 * MINUTE, 1000)])),
        (OK, judged(steady(1000, 10, 2000), 9000, past=[past(10 * MINUTE, 2950)])),
        # OK: it shrinks.
        (OK, judged(steady(1000, 10, 2000), 1500, past=[past(10 * MINUTE, 1400)])),
        # Steady, and no further behind than its commits explain.
        (OK, judged(steady(1000, 10, 2000), 1020, past=[past(10 * MINUTE, 20)], keeps_up=True)),
        # Too little to tell.
        (None, judged(steady(1000, 10, 2000), 9000)),
        (None, judged(steady(1000, 10, 2000, times=2), 9000, past=[past(10 * MINUTE, 3000)])),
    ],
)  # fmt: skip
def test_status(status: LagStatus | None, found: StatusResult) -> None:
    assert found.status == status
    assert (found.why is None) == (status is not None)


@pytest.mark.parametrize(
    ("found", "since_ago", "at_least"),
    [
        (judged(steady(1000, 10, 38 * MINUTE), 9000, unread_ago=40 * MINUTE), 38 * MINUTE, False),
        # From when there was something to read.
        (judged(steady(1000, 10, 38 * MINUTE), 9000, unread_ago=30 * MINUTE), 30 * MINUTE, False),
        (judged([], 200, read_since=HOUR), HOUR, True),
        (judged([], 200, read_since=HOUR, unread_ago=20 * MINUTE), 20 * MINUTE, False),
        (judged(SAME, 900, unread_ago=22 * MINUTE), 60 * SECOND, True),
        (judged([at(5 * MINUTE, 499), *SAME], 900, unread_ago=22 * MINUTE), 60 * SECOND, False),
        (judged(SAME, 900, unread_ago=55 * SECOND), 55 * SECOND, False),
        (judged([at(8000, 900), at(3000, 100)], 1000), 3 * SECOND, False),
        # From the first commit of the offset that it does not get past.
        (judged(rhythm(900, *FLIPS), 9000, unread_ago=HOUR), 38 * SECOND, False),
        (judged(rhythm(*FLIPS[1:]), 9000, unread_ago=HOUR), 38 * SECOND, True),
        (judged(rhythm(900, *FLIPS), 9000, unread_ago=35 * SECOND), 35 * SECOND, False),
        (judged(rhythm(900, *FLIPS, ago=11 * SECOND), 9000, unread_ago=HOUR), 11 * SECOND, False),
    ],
)
def test_since_when(found: StatusResult, since_ago: int, at_least: bool) -> None:
    assert found.since_ms == NOW - since_ago
    assert found.at_least == at_least


def test_a_stall_counts_its_attempts_and_a_rewind_says_how_far() -> None:
    assert judged([at(5 * MINUTE, 499), *SAME], 900, unread_ago=22 * MINUTE).repeats == 12
    assert judged([at(8000, 900), at(3000, 100)], 1000).back == 800
    flips = judged(rhythm(900, *FLIPS), 9000, unread_ago=HOUR)
    assert (flips.repeats, flips.lowest, flips.highest, flips.back, flips.back_at_ms) == (39, 1000, 1001, None, None)
    for low in (10, 5000):  # a stranger beside the owner: an undo would give one of them its way for a moment
        strange = judged(rhythm(*(o for n in range(20) for o in (5030 + 10 * n, low))), 9000, unread_ago=HOUR)
        assert (strange.status, strange.back, strange.since_ms) == (REWIND, None, NOW)
    batch = judged(rhythm(*range(900, 990), *BATCH * 6), 9000, unread_ago=HOUR)
    assert (batch.lowest, batch.highest, batch.back) == (990, 1000, None)


def test_severity_is_in_the_order_of_harm() -> None:
    assert sorted(LagStatus, key=lambda s: s.severity) == [
        OK, LagStatus.UNSUBSCRIBED, WARN, REWIND, STALL, STOP, LagStatus.NO_READER
    ]  # fmt: skip
    assert [s.severity for s in (OK, WARN, REWIND, STALL, STOP)] == [*range(5)], "as in Burrow"
    assert LagStatus.UNSUBSCRIBED.severity == WARN.severity
    assert [s for s in LagStatus if s.is_stuck] == [STALL, STOP, LagStatus.NO_READER]


@pytest.mark.parametrize(
    ("points", "now", "asked", "lag"),
    [
        ([(0, 100)], (10_000, 200), (5_000, 130), 20),
        ([(0, 100)], (10_000, 200), (5_000, 150), 0),
        ([(0, 100)], (10_000, 200), (5_000, 180), 0),  # a commit shows that the log was there already
        ([(0, 100)], (10_000, 200), (0, 60), 40),
        ([(0, 100)], (10_000, 200), (10_000, 60), 140),
        ([(0, 100)], (10_000, 200), (99_000, 60), 140),  # a broker's clock ahead of ours
        ([(5_000, 100)], (10_000, 200), (1_000, 60), None),  # before all that is known
        ([(5_000, 100)], (10_000, 200), (1_000, 100), 0),  # but it had read all that was there
        ([], (10_000, 200), (5_000, 60), None),
        ([], (10_000, 200), (5_000, 200), 0),
        ([(5_000, 300)], (10_000, 200), (7_000, 60), None),  # contradicts what is there now
        ([(20_000, 150)], (10_000, 200), (7_000, 60), None),  # a producer's clock in the future
        ([(0, 100), (5_000, 200)], (10_000, 200), (7_000, 60), 140),
    ],
)
def test_lag_at_a_commit(
    points: list[tuple[int, int]], now: tuple[int, int], asked: tuple[int, int], lag: int | None
) -> None:
    ends = LogEnds.of([LogPoint(*point) for point in points], LogPoint(*now))

    assert ends.lag_at(*asked) == lag


@pytest.mark.parametrize(
    ("offset", "written"),
    [(90, 0), (100, 0), (150, 5_000), (199, 9_900), (200, 20_000), (249, 29_800), (250, None), (900, None)],
)
def test_when_a_record_was_written(offset: int, written: int | None) -> None:
    ends = LogEnds.of([LogPoint(0, 100), LogPoint(10_000, 200), LogPoint(20_000, 200)], LogPoint(30_000, 250))

    assert ends.written_ms(offset) == written
    assert ends.end_at(25_000) == 225
    assert ends.end_at(-1) is None
    assert ends.end_at(99_000) == 250


COMMITS = st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), max_size=30).map(
    lambda pairs: [at(ago, offset) for ago, offset in sorted(pairs, reverse=True)]
)
POINTS = st.lists(st.builds(LogPoint, st.integers(NOW - 10**8, NOW + 10**8), st.integers(0, 10**6)), max_size=6)


@given(COMMITS, POINTS, st.integers(0, 10**6), st.one_of(st.none(), st.integers(0, 10**8)), st.booleans())
def test_any_history_has_a_status_or_a_reason(
    commits: list[LoggedCommit], points: list[LogPoint], lag: int, ago: int | None, close: bool
) -> None:
    end = (commits[-1].offset if commits else 0) + lag
    ends = LogEnds.of(points, LogPoint(NOW, end))
    reading = CommitReading(lag, commits, ends, NOW, None if ago is None else NOW - ago, None, close)

    found = evaluate_status(reading)

    assert (found.status is None) == (found.why is not None)
    if lag == 0:
        assert found.status is OK
    if found.status is REWIND:
        assert last_rewind(commits) is not None
    if found.lowest is not None:
        assert found.status is STALL
        assert found.lowest <= commits[-1].offset <= (found.highest or 0)
    if found.since_ms is not None:
        assert found.since_ms <= NOW or any(c.timestamp_ms == found.since_ms for c in commits)
    for commit in commits:
        behind = ends.lag_at(commit.timestamp_ms, commit.offset)
        assert behind is None or 0 <= behind <= max(0, end - commit.offset)


@given(COMMITS)
def test_recent_commits_are_apart_and_end_with_the_newest(commits: list[LoggedCommit]) -> None:
    recent = recent_commits(commits)

    assert len(recent) <= 10
    assert recent[-1:] == commits[-1:]
    assert all(b.timestamp_ms - a.timestamp_ms >= 1000 for a, b in pairwise(recent))


@pytest.mark.parametrize(
    ("commits", "status", "rate"),
    [
        (steady(1000, 10, 2000), OK, 10.0),
        (steady(1000, 10, 40 * MINUTE), STOP, 0.0),
        (SAME, STALL, 0.0),
        (SAME, None, 0.0),
        ([at(2000, 5)], None, None),
        ([], None, None),
        ([], STOP, 0.0),
        ([at(2500, 5), at(2000, 6)], None, None),
        ([at(60_000, 10_000), *steady(100, 10, 2000, times=5)], REWIND, 10.0),  # a reset is no reading
    ],
)
def test_outgoing_rate(commits: list[LoggedCommit], status: LagStatus | None, rate: float | None) -> None:
    assert outgoing_rate(commits, status) == rate


@pytest.mark.parametrize(
    ("since_ago", "rate"),
    [(HOUR, 8.6), (40_000, 12.29), (20_000, 5.0), (16_000, 5.0), (15_000, 5.0), (10_000, 5.0), (0, 5.0)],
)
def test_outgoing_rate_since_a_moment(since_ago: int, rate: float) -> None:
    commits = [at(60_000, 0), at(20_000, 380), at(15_000, 405), at(10_000, 430)]

    assert outgoing_rate(commits, None, NOW - since_ago) == pytest.approx(rate, abs=0.01)


def _grown(*parts: tuple[int, float]) -> LogEnds:
    """A log with 1,000 offsets ten minutes ago, and since then (ms, records a second), as a look knows it."""
    seconds_ago, end, ends = 600.0, 1000.0, {}
    for passed_ms, rate in parts:
        seconds_ago, end = seconds_ago - passed_ms / 1000, end + rate * passed_ms / 1000
        ends[seconds_ago] = round(end)
    points = [LogPoint(NOW - 10 * MINUTE, 1000), LogPoint(NOW - MINUTE, ends[60.0])]
    return LogEnds.of(points, LogPoint(NOW, ends[0.0]))


@pytest.mark.parametrize(
    ("ends", "commits", "growth"),
    [
        # Quiet for eight minutes, then 20 a second, of which 15 are read: the mean would say that it shrinks.
        (_grown((480_000, 0), (60_000, 20), (60_000, 20)), steady(2800, 15, 1000, times=24), 5.0),
        # The other way round: it grew for nine minutes, and is caught up on now.
        (_grown((540_000, 20), (60_000, 5)), steady(6000, 15, 1000, times=120), -10.0),
        # A little more in one minute by chance turns nothing round.
        (_grown((540_000, 10), (60_000, 10.4)), steady(6000, 10.2, 1000, times=120), -0.16),
        # Two commits in the last minute tell nothing of it.
        (_grown((540_000, 10), (60_000, 20)), steady(6000, 15, 1000, pause_ms=40_000, times=20), -4.0),
    ],
)
def test_what_the_last_minute_clearly_says_counts(ends: LogEnds, commits: list[LoggedCommit], growth: float) -> None:
    arrivals = Arrivals.of(ends, NOW)
    rates = rates_of(rates_by_span(commits, arrivals, None, NOW), commits, arrivals, None, NOW)

    assert rates.growth == pytest.approx(growth, abs=0.02)


def _burst() -> LogEnds:
    """399 a second over ten minutes, 49 a second in the last one."""
    return LogEnds.of([LogPoint(NOW - 10 * MINUTE, 0), LogPoint(NOW - MINUTE, 236_460)], LogPoint(NOW, 239_400))


@pytest.mark.parametrize(
    ("commits", "status", "rates"),
    [
        # The consumer has read for two minutes: both rates are those of the last one, in which the lag grew.
        (steady(2000, 45, 1000, times=24), None, Rates(49.0, 45.0, MINUTE)),
        # It has read all the time.
        (steady(240_000, 400, 1000, times=125), None, Rates(399.0, 400.0, 10 * MINUTE)),
        # It commits each 90 s, for six minutes: since then.
        (steady(2000, 10, 1000, pause_ms=90_000, times=5), None, Rates(None, 10.0, 361_000)),
        # Only a reset was committed, or one commit since: what is read is unknown; stuck is none at all.
        ([replace(at(5 * MINUTE, 9), by_tool=True)], None, Rates(399.0, None, 10 * MINUTE)),
        ([*steady(500, 10, 3 * MINUTE), replace(at(2 * MINUTE, 190_000), by_tool=True), at(SECOND, 190_100)], None,
         Rates(399.0, None, 10 * MINUTE)),
        ([replace(at(5 * MINUTE, 9), by_tool=True)], LagStatus.NO_READER, Rates(399.0, 0.0, 10 * MINUTE)),
    ],
)  # fmt: skip
def test_both_rates_are_of_one_span(commits: list[LoggedCommit], status: LagStatus | None, rates: Rates) -> None:
    arrivals = Arrivals.of(_burst(), NOW)
    spans = rates_by_span(commits, arrivals, status, NOW)
    found = rates_of(spans, commits, arrivals, status, NOW)

    assert found.span_ms == rates.span_ms
    assert (found.outgoing is None) == (rates.outgoing is None)
    if rates.outgoing is not None:
        assert found.outgoing == pytest.approx(rates.outgoing, rel=0.02)
    if rates.incoming is not None:
        assert found.incoming == pytest.approx(rates.incoming, rel=0.02)


@pytest.mark.parametrize(
    ("lag", "incoming", "outgoing", "close", "expected"),
    [
        (600, 10.0, 13.0, False, Outlook(LagTrend.DRAINING, 200.0)),
        (600, 10.0, 10.0, False, Outlook(LagTrend.NOT_AT_THIS_RATE)),
        (600, 10.0, 9.0, False, Outlook(LagTrend.NOT_AT_THIS_RATE)),
        (
            600,
            10.0,
            10.1,
            False,
            Outlook(LagTrend.NOT_AT_THIS_RATE),
        ),  # about as many: the next look would say the other way
        (600, None, 0.0, False, Outlook(LagTrend.NOT_AT_THIS_RATE)),
        (600, 0.0, 0.0, False, Outlook(LagTrend.NOT_AT_THIS_RATE)),
        (600, None, 9.0, False, Outlook(LagTrend.UNKNOWN)),
        (600, 10.0, None, False, Outlook(LagTrend.UNKNOWN)),
        (0, None, None, False, Outlook(LagTrend.KEEPS_UP, 0.0)),
        (60, 10.0, 10.0, True, Outlook(LagTrend.KEEPS_UP, 0.0)),
        (None, 10.0, 13.0, False, Outlook(LagTrend.UNKNOWN)),
        (10**12, 10.0, 10.001, False, Outlook(LagTrend.NOT_AT_THIS_RATE)),  # in thirty thousand years
    ],
)
def test_outlook(
    lag: int | None, incoming: float | None, outgoing: float | None, close: bool, expected: Outlook
) -> None:
    assert outlook(lag, Rates(incoming, outgoing), close=close) == expected


def test_a_group_has_caught_up_when_its_last_partition_has() -> None:
    short, long_ = Outlook(LagTrend.DRAINING, 20.0), Outlook(LagTrend.DRAINING, 90.0)
    up, never, unknown = Outlook(LagTrend.KEEPS_UP, 0.0), Outlook(LagTrend.NOT_AT_THIS_RATE), Outlook(LagTrend.UNKNOWN)

    assert slowest([short, long_, up]) == long_
    assert slowest([up, up]) == up
    assert slowest([short, unknown]) == unknown
    assert slowest([unknown, never, short]) == never
    assert slowest([]) == unknown


def test_a_lag_that_the_rhythm_of_commits_explains_is_none() -> None:
    commits = steady(1000, 3000, 2000)

    assert usual_pause_ms(commits) == 5000
    assert keeps_up(30_000, commits, 3000.0)
    assert not keeps_up(30_001, commits, 3000.0)
    assert not keeps_up(1, commits, None)
    assert not keeps_up(1, commits[-1:], 3000.0)
