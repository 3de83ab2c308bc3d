"""What ``--follow`` tells: each step and jump once, an epoch when its members have reached it."""

from __future__ import annotations

from kgroup.groups.history.follow import FollowCursor, HistoryDelta
from kgroup.groups.history.summary import GroupHistory
from kgroup.model.group_log import RebalanceProtocol
from kgroup.output.pages.history import event_lines
from tests.groups.timeline.test_consumer import grown
from tests.helpers.cases.history import Log, member, of


def lines(news: HistoryDelta | None) -> list[str]:
    """What is said, without the group."""
    assert news is not None
    return [line.replace("  g  ", " ", 1) for line in event_lines(news)]


def test_each_generation_is_told_once() -> None:
    log = Log().at(0).generation(5, member("a/1", 0, 1))
    told = FollowCursor(log.history())
    assert told.news(log.history()) is None

    log.at(20).generation(6, member("a/1", 0), member("b/1", 1))
    said = ["03:00:20Z generation 6: join b; 2 members, 1 moved (1 although their owner stayed)"]
    assert lines(told.news(log.history())) == said
    assert told.news(log.history()) is None


def test_an_epoch_is_told_when_it_was_reached_or_takes_too_long() -> None:
    def later(log: Log, now: float) -> GroupHistory:
        return log.history(until=now)

    log = grown()
    told = FollowCursor(later(log, 36))
    log.at(40).member("c/1").epoch(3).has("c/1", 3).target(3, **{"c/1": of(0)})
    assert told.news(later(log, 41)) is None
    (line,) = lines(told.news(later(log, 51)))
    assert line.startswith("03:00:40Z epoch 3: join c;")
    assert told.news(later(log, 55)) is None


def test_a_rebalance_that_begins_is_told_until_it_is_over() -> None:
    log = Log().at(0).generation(5, member("a/1", 0, 1))
    told = FollowCursor(log.history())
    began = log.history(until=30, state="PreparingRebalance")
    assert lines(told.news(began)) == ["03:00:30Z a rebalance is under way (PreparingRebalance)"]
    assert told.news(began) is None
    assert told.news(log.history(until=40, state="Stable")) is None
    assert told.news(log.history(until=50, state="CompletingRebalance")) is not None


def test_a_deleted_group_takes_its_offsets_along() -> None:
    log = Log().at(0).generation(5, member("a/1", 0, 1)).commits((0, 1), 1, 3).at(4).generation(6)
    told = FollowCursor(log.history(commits=True))
    log.at(60).commit(0, None).commit(1, None).gone(RebalanceProtocol.CLASSIC)
    assert lines(told.news(log.history(commits=True))) == [
        "03:01:00Z the group was deleted",
        "03:01:00Z unknown: deleted or expired of 2 partitions, Empty since 03:00:04Z",
    ]


def test_jumps_are_told_where_commits_were_asked_for() -> None:
    log = Log().at(0).generation(5, member("a/1", 0, 1)).commits((0, 1), 1, 10)
    told = FollowCursor(log.history(commits=True))
    log.at(13).generation(6).at(30).commit(0, 3)
    assert lines(told.news(log.history(commits=True))) == [
        "03:00:13Z generation 6: leave a; 0 members",
        "03:00:30Z no member: -997 reset of 1 partition, Empty since 03:00:13Z",
    ]
    assert told.news(log.history(commits=True)) is None
