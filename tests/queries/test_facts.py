"""What is known of the other groups that read a topic, from the logs' ends."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import structs

from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.first_records import First, FirstRecord
from kgroup.cluster.lag_reading import LagFacts, LookBack, OtherGroups
from kgroup.cluster.offsets_topic.group_log import GroupLogs
from kgroup.cluster.topics import LogView
from kgroup.groups.lag.evidence import LogEnds, LogPoint, Sibling
from kgroup.groups.thresholds import LATE_SIBLING
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, Position
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries import facts as group_facts
from kgroup.support.errors import KgroupError
from tests.helpers.cases.lag import Part, group

NOW = 1_000_000_000
TEN_MINUTES, ONE_MINUTE, HOUR = 600_000, 60_000, 3_600_000
BACK = LookBack((NOW - TEN_MINUTES, NOW - ONE_MINUTE), {}, NOW - HOUR)


def facts(committed: dict[str, dict[str, int]], last_ms: dict[str, int | None] | None = None) -> LagFacts:
    """Both partitions of ``orders`` had 100 records 10 minutes ago, 160 a minute ago, and have 200 of [20, 200) now."""
    view = LogView(20, 200, Position(200, 0), (100, 160))
    views: dict[TopicPartition, LogView | KgroupError] = {TopicPartition("orders", number): view for number in (0, 1)}
    views[TopicPartition("gone", 0)] = KgroupError("no leader")
    read: dict[str, CommittedOffsets] = {
        group: {
            TopicPartition(topic, int(number)): Commit(offset, None, "")
            for (topic, _, number), offset in ((place.partition(":"), offset) for place, offset in commits.items())
        }
        for group, commits in committed.items()
    }
    others = OtherGroups(read, last_ms or {}, empty=frozenset({"empty"}))
    return LagFacts({}, views, GroupLogs({}, {}), {}, {}, others=others)


@pytest.mark.parametrize(
    ("commits", "known"),
    [
        ({"orders:0": 200, "orders:1": 200}, [("orders", 0, None)]),
        ({"orders:0": 200, "orders:1": 180}, [("orders", 20, NOW - ONE_MINUTE // 2)]),
        ({"orders:0": 180, "orders:1": 160}, [("orders", 60, NOW - ONE_MINUTE)]),
        ({"orders:0": 5, "orders:1": 180}, [("orders", 200, NOW - TEN_MINUTES)]),  # from 20, its start
        ({"orders:0": 201, "orders:1": 180}, [("orders", None, NOW - ONE_MINUTE // 2)]),  # of a log that is gone
        ({"orders:0": 190, "gone:0": 7}, [("orders", 10, NOW - ONE_MINUTE // 4), ("gone", None, None)]),
    ],
)
def test_another_group_of_the_topic(commits: dict[str, int], known: list[tuple[str, int | None, int | None]]) -> None:
    found = group_facts._siblings(facts({"svc": commits}), BACK, NOW)

    assert found == tuple(Sibling("svc", topic, behind, None, since_ms) for topic, behind, since_ms in known)


def test_when_it_was_last_active_and_whether_it_has_members() -> None:
    committed = {name: {"orders:0": 200} for name in ("empty", "quiet", "active")}

    found = group_facts._siblings(facts(committed, {"quiet": None, "active": NOW - 5}), BACK, NOW)

    assert found is not None
    assert [(each.group, each.last_commit_ms, each.is_empty) for each in found] == [
        ("empty", None, True),
        ("quiet", NOW - HOUR - 1, False),
        ("active", NOW - 5, False),
    ]


def test_the_ends_of_a_log_are_made_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 groups they took half of the time of describe."""
    made: list[LogPoint] = []
    of = LogEnds.of

    def counted(points: Iterable[LogPoint], now: LogPoint) -> LogEnds:
        made.append(now)
        return of(points, now)

    monkeypatch.setattr(LogEnds, "of", counted)
    found = group_facts._siblings(facts({f"svc-{n}": {"orders:0": 30, "orders:1": n} for n in range(200)}), BACK, NOW)

    assert found is not None
    assert len(found) == 200
    assert len(made) == 2


def test_a_group_that_lags_is_not_asked_about_its_other_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 groups on 100 partitions they took a tenth of the time of describe."""
    asked: list[int] = []
    written_ms = LogEnds.written_ms

    def counted(ends: LogEnds, offset: int) -> int | None:
        asked.append(offset)
        return written_ms(ends, offset)

    monkeypatch.setattr(LogEnds, "written_ms", counted)
    found = group_facts._siblings(facts({"late": {"orders:0": 130, "orders:1": 110}}), BACK, NOW)

    assert found is not None
    assert found[0].lag == 160
    assert found[0].unread_since_ms is not None
    assert NOW - found[0].unread_since_ms > LATE_SIBLING.value
    assert asked == [130]

    group_facts._siblings(facts({"in time": {"orders:0": 190, "orders:1": 180}}), BACK, NOW)
    assert asked == [130, 190, 180]


@pytest.mark.parametrize(
    ("others", "there"),
    [
        ({"b": 100}, ("b",)),
        ({"c": 101, "b": 99}, ("b", "c")),  # committed as it delivers, or before
        ({"b": 98, "c": 102}, ()),
        ({"empty": 100, "quiet": 100}, ()),
        ({"svc": 100}, ()),  # itself
    ],
)
def test_others_that_are_late_at_the_same_offset(others: dict[str, int], there: tuple[str, ...]) -> None:
    assert at_the_offset(100, others) == there


def test_who_passes_or_has_read_everything_is_not_late() -> None:
    assert at_the_offset(161, {"b": 161}) == ()
    assert at_the_offset(199, {"b": 200}) == ()
    assert at_the_offset(159, {"b": 159}) == ("b",)


def at_the_offset(offset: int, others: dict[str, int]) -> tuple[str, ...]:
    """The others at the offset of ``svc`` on orders:0."""
    read = facts({name: {"orders:0": at} for name, at in others.items()}, {"quiet": None})
    svc = structs.replace(group([Part(0, 200 - offset, committed=offset)]), name="svc")
    late = group_facts._late_at(read, [svc], BACK, NOW)
    return group_facts._same_offset(svc, late).get(TopicPartition("orders", 0), ())


REAL = 1_795_225_000_000
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("firsts", "newest_ms", "unusable"),
    [
        ([], None, None),
        ([FirstRecord(30, REAL - HOUR)], REAL, None),
        ([FirstRecord(30, REAL + ONE_MINUTE)], REAL + ONE_MINUTE, None),
        ([FirstRecord(30, 0)], REAL, 0),
        ([FirstRecord(30, None)], REAL, -1),
        ([FirstRecord(30, REAL // 1000)], REAL, REAL // 1000),
        ([FirstRecord(30, REAL), FirstRecord(60, REAL + HOUR)], None, REAL + HOUR),  # of two groups
        ([None, KgroupError("no leader")], None, None),
        ([FirstRecord(30, REAL)], REAL + HOUR, REAL + HOUR),  # a later record: the log is not searched by time
        ([], -1, -1),
    ],
)
def test_a_log_with_times_that_are_not_usable(firsts: list[First], newest_ms: int | None, unusable: int | None) -> None:
    read = structs.replace(
        facts({}),
        firsts={f"svc-{number}": {ORDERS: first} for number, first in enumerate(firsts)},
        newest_ms={} if newest_ms is None else {ORDERS: newest_ms},
    )

    assert group_facts.unusable_times(read, REAL) == ({} if unusable is None else {ORDERS: unusable})


def test_past_ends_are_unknown_where_times_are_not_usable() -> None:
    log = LogRange(20, 200)
    logs = group_facts._EvidenceOfLogs(facts({}), BACK.moments_ms, {ORDERS: 0})

    without, usable = logs.of(ORDERS, log), logs.of(TopicPartition("orders", 1), log)
    assert (without.ends, without.past_ends, without.unusable_ms) == ((), (), 0)
    assert (len(usable.ends), usable.unusable_ms) == (2, None)


def test_other_groups_are_not_late_by_times_that_are_not_usable() -> None:
    read = facts({"svc": {"orders:0": 30}})
    late, unknown = (group_facts._siblings(read, BACK, NOW, unusable) for unusable in ((), {ORDERS: 0}))

    assert late == (Sibling("svc", "orders", 170, None, NOW - TEN_MINUTES),)
    assert unknown == (Sibling("svc", "orders", 170),)
    about = group([Part(0, lag=100, committed=100)])
    assert group_facts._late_at(facts({"b": {"orders:0": 100}}), [about], BACK, NOW, {ORDERS: 0}) == {}


@pytest.mark.parametrize(
    ("end", "at_times", "known"),
    [
        (200, (None, None), 2),  # nothing has arrived
        (201, (None, None), 0),  # it has, and yet by time it has not
        (201, (100, None), 0),
        (201, (100, 200), 2),
    ],
)
def test_a_log_that_grows_with_records_of_older_times(
    end: int, at_times: tuple[int | None, int | None], known: int
) -> None:
    view = LogView(20, end, Position(end, 0), at_times)

    assert len(list(group_facts._past_log_ends(LogRange(20, 200), view, BACK.moments_ms))) == known
