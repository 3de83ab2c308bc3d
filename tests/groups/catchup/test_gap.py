"""What becomes of each partition of a group: a range, or the reason why it is not moved."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from kgroup.groups.catchup.gap import SKIPPED, UNREAD, Gap, LastActivity, LastCommit, PartitionLog, plan_gap
from kgroup.groups.catchup.gap_request import GapRequest, Missing, parse_ranges
from kgroup.groups.catchup.model import ExplainedRange, GapRange
from kgroup.groups.lag.evidence import Retention
from kgroup.groups.reset_targets import TopicChoice, parse_topics
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, Partition
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError
from tests.helpers.for_each import for_each

NOW_MS = 10_000_000
SINCE_MS = 5_000_000
"""The time of --skip-before and --until; a log has the offset."""
HERE = TopicPartition("orders", 0)
NOTHING = LastActivity()


def group_at(*commits: int | None, topic: str = "orders", unread: dict[int, str] | None = None) -> Group:
    partitions = tuple(
        Partition(
            TopicPartition(topic, number),
            None if offset is None else Commit(offset, 2, f"m{number}"),
            None,
            None,
            (unread or {}).get(number),
        )
        for number, offset in enumerate(commits)
    )
    return Group("svc", "classic", "Empty", "consumer", None, None, None, None, None, None, (), partitions)


def log_of(start: int = 0, last_stable: int = 120, high_watermark: int | None = None, **more: Any) -> PartitionLog:
    return PartitionLog(start, last_stable, 7, last_stable if high_watermark is None else high_watermark, "id", **more)


def planned(
    commit: int | None,
    log: PartitionLog | None = None,
    gap_request: GapRequest | None = None,
    work: LastActivity = NOTHING,
) -> Gap:
    """The gap of a group with one partition."""
    return plan_gap(group_at(commit), {HERE: log or log_of()}, gap_request or GapRequest(), work, NOW_MS)


def spans(gap: Gap) -> list[tuple[int, int]]:
    return [(item.start, item.end) for item in gap.ranges]


def test_the_example_of_kip_333() -> None:
    gap = planned(70)

    assert gap == Gap(
        "svc",
        "classic",
        (GapRange("orders", 0, 70, 120, Commit(70, 2, "m0"), 7, "id", None, 50, None, None, None),),
        (),
        (),
        (),
    )
    assert (gap.offsets, gap.records, gap.size, gap.errors, gap.skips) == (50, 50, None, (), False)


@pytest.mark.parametrize(
    ("commit", "log", "gap_request", "span", "gone", "abandoned"),
    [
        (70, log_of(high_watermark=130), GapRequest(), (70, 120), (), ()),
        (0, log_of(), GapRequest(), (0, 120), (), ()),
        (119, log_of(), GapRequest(), (119, 120), (), ()),
        # The log start has passed the commit.
        (70, log_of(90), GapRequest(), (90, 120), ((70, 90),), ()),
        (70, log_of(120), GapRequest(), (120, 120), ((70, 120),), ()),
        # --missing
        (None, log_of(5), GapRequest(missing=Missing.EARLIEST), (5, 120), (), ()),
        (None, log_of(5), GapRequest(missing=Missing.LATEST), (120, 120), (), ((5, 120, UNREAD),)),
        (None, log_of(5, 110, 120), GapRequest(missing=Missing.LATEST), (110, 110), (), ((5, 110, UNREAD),)),
        (None, log_of(120), GapRequest(missing=Missing.LATEST), (120, 120), (), ()),
        (None, log_of(120), GapRequest(missing=Missing.EARLIEST), (120, 120), (), ()),
        (70, log_of(), GapRequest(missing=Missing.LATEST), (70, 120), (), ()),
        # --skip-before
        (70, log_of(skip_to=90), GapRequest(skip_before_ms=SINCE_MS), (90, 120), (), ((70, 90, SKIPPED),)),
        (70, log_of(skip_to=60), GapRequest(skip_before_ms=SINCE_MS), (70, 120), (), ()),
        (70, log_of(skip_to=500), GapRequest(skip_before_ms=SINCE_MS), (120, 120), (), ((70, 120, SKIPPED),)),
        (70, log_of(), GapRequest(skip_before_ms=SINCE_MS), (120, 120), (), ((70, 120, SKIPPED),)),
        (70, log_of(80, skip_to=90), GapRequest(skip_before_ms=SINCE_MS), (90, 120), ((70, 80),), ((80, 90, SKIPPED),)),
        # --until
        (70, log_of(until=100), GapRequest(until_ms=SINCE_MS), (70, 100), (), ()),
        (70, log_of(until=500), GapRequest(until_ms=SINCE_MS), (70, 120), (), ()),
        (70, log_of(), GapRequest(until_ms=SINCE_MS), (70, 120), (), ()),
        (
            70,
            log_of(until=100, skip_to=90),
            GapRequest(until_ms=SINCE_MS, skip_before_ms=SINCE_MS),
            (90, 100),
            (),
            ((70, 90, SKIPPED),),
        ),
    ],
)
def test_what_is_replayed_and_what_is_not(
    commit: int | None,
    log: PartitionLog,
    gap_request: GapRequest,
    span: tuple[int, int],
    gone: tuple[tuple[int, int], ...],
    abandoned: tuple[tuple[int, int, str], ...],
) -> None:
    gap = planned(commit, log, gap_request)

    assert spans(gap) == [span]
    assert tuple((row.start, row.end) for row in gap.already_deleted) == gone
    assert gap.abandoned == tuple(ExplainedRange("orders", 0, *row) for row in abandoned)
    assert gap.skips == any(why == SKIPPED for _, _, why in abandoned)
    assert gap.not_moved == ()


@pytest.mark.parametrize(
    ("commit", "log", "gap_request", "code", "error", "says"),
    [
        (120, log_of(), GapRequest(), "nothing-to-do", False, "there is no record above its committed offset 120"),
        (
            120,
            log_of(high_watermark=125),
            GapRequest(),
            "hanging-transaction",
            False,
            "at 120, 5 offsets below the log end",
        ),
        (121, log_of(high_watermark=125), GapRequest(), "hanging-transaction", False, "open transaction"),
        (70, log_of(90, 90, 95), GapRequest(), "hanging-transaction", False, "open transaction"),
        (None, log_of(90, 90, 95), GapRequest(missing=Missing.EARLIEST), "hanging-transaction", False, "at 90"),
        (126, log_of(high_watermark=125), GapRequest(), "above-log-end", True, "126 is above the log end 125"),
        (None, log_of(5), GapRequest(), "no-commit", True, "its log is [5, 120)"),
        (None, log_of(5), GapRequest(missing=Missing.LEAVE), "left", False, "--missing is leave"),
        (
            70,
            log_of(until=70),
            GapRequest(until_ms=SINCE_MS),
            "nothing-to-do",
            False,
            "--until is offset 70, which is not above",
        ),
        (70, log_of(until=10), GapRequest(until_ms=SINCE_MS), "nothing-to-do", False, "its committed offset 70"),
        (
            None,
            log_of(50, until=10),
            GapRequest(until_ms=SINCE_MS, missing=Missing.LATEST),
            "nothing-to-do",
            False,
            "log start 50",
        ),
        (
            None,
            log_of(50, until=10),
            GapRequest(until_ms=SINCE_MS, missing=Missing.EARLIEST),
            "nothing-to-do",
            False,
            "log start 50",
        ),
    ],
)
def test_why_a_partition_is_not_moved(
    commit: int | None, log: PartitionLog, gap_request: GapRequest, code: str, error: bool, says: str
) -> None:
    gap = planned(commit, log, gap_request)

    (row,) = gap.not_moved
    assert (row.name, row.code, row.is_error) == ("orders:0", code, error)
    assert says in row.reason
    assert (gap.ranges, gap.abandoned, gap.already_deleted) == ((), (), ())
    assert gap.errors == ((row,) if error else ())


def test_what_could_not_be_read_is_an_error_of_its_own_and_hides_nothing() -> None:
    logs = {TopicPartition("orders", number): log_of() for number in (0, 2)}
    gap = plan_gap(group_at(70, 70, 70, unread={2: "not authorized"}), logs, GapRequest(), NOTHING, NOW_MS)

    assert spans(gap) == [(70, 120)]
    assert [(row.name, row.code, row.reason) for row in gap.errors] == [
        ("orders:1", "unread", "its log could not be read"),
        ("orders:2", "unread", "not authorized"),
    ]


def test_partitions_without_a_commit_are_found_in_the_logs() -> None:
    logs = {TopicPartition("orders", number): log_of() for number in range(3)}

    gap = plan_gap(group_at(70), logs, GapRequest(missing=Missing.EARLIEST), NOTHING, NOW_MS)

    assert spans(gap) == [(70, 120), (0, 120), (0, 120)]
    assert [item.before for item in gap.ranges] == [Commit(70, 2, "m0"), None, None]


@pytest.mark.parametrize(
    ("topics", "found", "missing"),
    [
        ((), [("audit", 0), ("orders", 0), ("orders", 1)], []),
        (("orders",), [("orders", 0), ("orders", 1)], []),
        (("orders:1",), [("orders", 1)], []),
        (("orders:1,5", "audit"), [("audit", 0), ("orders", 1)], ["orders:5"]),
        (("order",), [], ["order"]),
        (("order:0",), [], ["order"]),
    ],
)
def test_topics_and_partitions_are_chosen(
    topics: tuple[str, ...], found: list[TopicPartition], missing: list[str]
) -> None:
    group = group_at(70, 70)
    logs = {
        place: log_of()
        for place in (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0))
    }
    gap_request = GapRequest(parse_topics(topics), missing=Missing.EARLIEST)

    gap = plan_gap(group, logs, gap_request, NOTHING, NOW_MS)

    assert [item.tp for item in gap.ranges] == found
    assert [(row.name, row.code) for row in gap.errors] == [(name, "not-found") for name in missing]


@pytest.mark.parametrize(
    ("wanted", "log", "span", "gone", "code"),
    [
        ((70, 120), log_of(), (70, 120), None, None),
        ((70, 100), log_of(), (70, 100), None, None),
        ((70, 120), log_of(80), (80, 120), (70, 80), None),
        ((70, 120), log_of(200, 300), None, (70, 120), "nothing-to-do"),
        ((70, 121), log_of(), None, None, "above-log-end"),
        ((70, 121), log_of(high_watermark=130), None, None, "hanging-transaction"),
        ((70, 120), None, None, None, "unread"),
    ],
)
def test_named_ranges_move_no_group(
    wanted: tuple[int, int],
    log: PartitionLog | None,
    span: tuple[int, int] | None,
    gone: tuple[int, int] | None,
    code: str | None,
) -> None:
    gap_request = GapRequest(ranges=(OffsetRange("orders", 0, *wanted),))

    gap = plan_gap(group_at(5), {} if log is None else {HERE: log}, gap_request, NOTHING, NOW_MS)

    assert (gap.group, gap.group_type) == (None, None)
    assert spans(gap) == ([span] if span else [])
    assert [(row.start, row.end) for row in gap.already_deleted] == ([gone] if gone else [])
    assert [row.code for row in gap.not_moved] == ([code] if code else [])
    assert [row.is_error for row in gap.not_moved] == ([code != "nothing-to-do"] if code else [])
    assert all(item.before is None and item.end_leader_epoch is None for item in gap.ranges)


def test_what_a_range_that_is_cut_off_is_committed_with() -> None:
    """A leader epoch that belongs to another offset would look like a log that was cut."""
    assert [item.end_leader_epoch for item in planned(70).ranges] == [7]
    until = planned(70, log_of(until=100), GapRequest(until_ms=SINCE_MS))
    assert [item.end_leader_epoch for item in until.ranges] == [None]
    assert planned(70).release_point == "log-end"
    assert until.release_point == "until"


@pytest.mark.parametrize(
    ("log", "records", "size"),
    [
        (log_of(0, 100, 100), 30, None),
        (log_of(0, 100, 100, size=10_000), 30, 3_000),
        (log_of(50, 100, 100, size=10_000), 30, 6_000),
        (log_of(0, 100, 100, size=0), 30, 0),
        (log_of(0, 100, 100, retention=Retention(None, compacted=True)), None, None),
    ],
)
def test_records_and_bytes_are_estimated(log: PartitionLog, records: int | None, size: int | None) -> None:
    gap = planned(70, log)

    assert (gap.records, gap.size) == (records, size)


@pytest.mark.parametrize(
    ("log", "deadline_ms"),
    [
        (log_of(), None),
        (log_of(retention=Retention(3_600_000)), None),
        (log_of(oldest_ms=5_000_000), None),
        (log_of(oldest_ms=5_000_000, retention=Retention(None)), None),
        (log_of(oldest_ms=5_000_000, retention=Retention(3_600_000)), 8_600_000),
        # 50 offsets of 100 bytes lie from 70 on; 1,000 more bytes are 10 offsets, 2 a second.
        (log_of(retention=Retention(None, 6_000, 12_000), growth_per_s=2), NOW_MS + 5_000),
        (log_of(retention=Retention(None, 4_000, 12_000), growth_per_s=2), NOW_MS),
        (log_of(retention=Retention(None, 4_000, 12_000)), NOW_MS),
        (log_of(retention=Retention(None, 6_000, 12_000)), None),
        (log_of(oldest_ms=NOW_MS, retention=Retention(1, 6_000, 12_000), growth_per_s=2), NOW_MS + 1),
    ],
)
def test_when_retention_takes_the_first_record(log: PartitionLog, deadline_ms: int | None) -> None:
    (item,) = planned(70, log).ranges

    assert item.retention_deadline_ms == deadline_ms


@pytest.mark.parametrize(
    ("work", "until"),
    [
        (NOTHING, None),
        # Committed at 70, ten offsets a second, fenced 3 s later.
        (LastActivity(6_000, {HERE: LastCommit(3_000, 10.0)}), 100),
        (LastActivity(6_000, {HERE: LastCommit(3_000, 0.0)}), 70),
        (LastActivity(3_001, {HERE: LastCommit(3_000, 0.1)}), 71),
        (LastActivity(2_000, {HERE: LastCommit(3_000, 10.0)}), 70),
        (LastActivity(60_000, {HERE: LastCommit(3_000, 10.0)}), 120),
        # What was not there yet when it stopped was not handled.
        (LastActivity(6_000, {HERE: LastCommit(3_000, 10.0)}, {HERE: 95}), 95),
        (LastActivity(6_000, {HERE: LastCommit(3_000)}, {HERE: 95}), 95),
        (LastActivity(6_000, {}, {HERE: 60}), 70),
        (LastActivity(None, {HERE: LastCommit(3_000, 10.0)}), None),
        (LastActivity(6_000, {TopicPartition("orders", 1): LastCommit(3_000, 10.0)}), None),
    ],
)
def test_what_may_have_been_handled_before_the_crash(work: LastActivity, until: int | None) -> None:
    (item,) = planned(70, work=work).ranges

    assert item.maybe_processed_until == until


def test_without_a_commit_nothing_can_have_been_handled_after_it() -> None:
    work = LastActivity(6_000, {HERE: LastCommit(3_000, 10.0)}, {HERE: 95})

    (item,) = planned(None, gap_request=GapRequest(missing=Missing.EARLIEST), work=work).ranges

    assert item.maybe_processed_until is None


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        (["t:0=70-120"], [("t", 0, 70, 120)]),
        (["t:1=5-9,t:0=70-120"], [("t", 0, 70, 120), ("t", 1, 5, 9)]),
        (["t:0=70-120", "t:0=120-130"], [("t", 0, 70, 120), ("t", 0, 120, 130)]),
        (["a.b-c_d:12=0-9223372036854775807"], [("a.b-c_d", 12, 0, 2**63 - 1)]),
    ],
)
def test_ranges_are_parsed(given: list[str], ranges: list[tuple[str, int, int, int]]) -> None:
    assert parse_ranges(given) == tuple(OffsetRange(*row) for row in ranges)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["t:0"], "not TOPIC:PARTITION=START-END"),
        (["t=70-120"], "not TOPIC:PARTITION=START-END"),
        (["t:0=70"], "not TOPIC:PARTITION=START-END"),
        (["t:0=70-120,"], "not TOPIC:PARTITION=START-END"),
        (["t:0=-70-120"], "not TOPIC:PARTITION=START-END"),
        (["t:0=70-9223372036854775808"], "not TOPIC:PARTITION=START-END"),
        (["t:2147483648=1-2"], "not TOPIC:PARTITION=START-END"),
        (["t:0=\u0667-\u0669"], "not TOPIC:PARTITION=START-END"),
        ([""], "not TOPIC:PARTITION=START-END"),
        (["t:0=70-70"], "START must be below END"),
        (["t:0=70-60"], "START must be below END"),
        (["t:0=70-120", "t:0=119-130"], "overlap"),
    ],
)
def test_what_is_no_range(given: list[str], says: str) -> None:
    with pytest.raises(UsageError, match="--range") as caught:
        parse_ranges(given)

    assert says in str(caught.value)


@for_each("seed", range(40))
def test_whatever_is_read_every_offset_is_accounted_for(seed: int) -> None:
    """From the commit to the end, each offset is to be replayed, given up, gone, or in a partition that stays."""
    pick = random.Random(seed)
    commits = [pick.choice([None, pick.randrange(200)]) for _ in range(20)]
    skips, ends = pick.random() < 0.5, pick.random() < 0.5
    logs = {}
    for number in range(20):
        start = pick.randrange(100)
        last_stable = start + pick.randrange(80)
        logs[TopicPartition("orders", number)] = log_of(
            start,
            last_stable,
            last_stable + pick.choice([0, 0, 9]),
            skip_to=pick.randrange(200) if skips and pick.random() < 0.8 else None,
            until=pick.randrange(200) if ends and pick.random() < 0.8 else None,
        )
    gap_request = GapRequest(
        (TopicChoice("orders", None),),
        missing=pick.choice([None, *Missing]),
        skip_before_ms=SINCE_MS if skips else None,
        until_ms=SINCE_MS if ends else None,
    )

    gap = plan_gap(group_at(*commits), logs, gap_request, NOTHING, NOW_MS)

    ranges = {item.partition: item for item in gap.ranges}
    stay = {row.partition for row in gap.not_moved}
    assert ranges.keys() | stay == set(range(20))
    assert not ranges.keys() & stay
    for number, item in ranges.items():
        log, commit = logs[TopicPartition("orders", number)], commits[number]
        assert log.start <= item.start <= item.end <= log.last_stable
        covered = [(item.start, item.end)]
        covered += [(row.start, row.end) for row in (*gap.abandoned, *gap.already_deleted) if row.partition == number]
        covered = sorted(span for span in covered if span[0] < span[1])
        assert all(one[1] == other[0] for one, other in pairwise(covered))
        first = log.start if commit is None else commit
        assert (covered or [(item.end, item.end)])[0][0] == first
        assert (covered or [(item.end, item.end)])[-1][1] == item.end
