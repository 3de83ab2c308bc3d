"""Members that left as they did not poll, and where they may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroup.groups.history.slow_polls import slow_poll_words, slow_polls
from kgroup.groups.lag.from_log import from_log
from kgroup.groups.timeline.steps import StepKind
from tests.helpers.cases.history import T0, TOPIC, Log, member, of
from tests.helpers.cases.lag import group

POLL = {"rebalance_timeout_ms": 30_000}


def works(until: float = 40) -> Log:
    """It commits each second, and then no more."""
    return Log().at(0).generation(1, member("app/0", 0, 1, **POLL)).commits([0, 1], 1, until)


def hangs(log: Log) -> Log:
    return log.at(70).generation(2)


def comes_back(log: Log) -> Log:
    """Each batch takes 45 seconds, and it commits none."""
    for n in range(3):
        log.at(75 + n * 45).generation(3 + 2 * n, member(f"app/{n + 1}", 0, 1, **POLL))
        log.at(105 + n * 45).generation(4 + 2 * n)
    return log


def never_commits(log: Log, lives: float = 30) -> Log:
    log = Log()
    for n in range(3):
        log.at(n * 45).generation(1 + 2 * n, member(f"app/{n}", 0, 1, **POLL))
        log.at(n * 45 + lives).generation(2 + 2 * n)
    return log


def once(log: Log) -> Log:
    return Log().at(0).generation(1, member("app/0", 0, 1, **POLL)).at(30).generation(2)


def killed(log: Log) -> Log:
    return never_commits(log, lives=20)


def closed(log: Log) -> Log:
    return log.at(44).generation(2)


def passes(log: Log) -> Log:
    return comes_back(hangs(log)).at(200).generation(9, member("app/4", 0, 1, **POLL)).commit(0, 9000).commit(1, 9000)


def passes_one(log: Log) -> Log:
    return comes_back(hangs(log)).at(200).generation(9, member("app/4", 0, 1, **POLL)).commit(0, 9000)


def beside(log: Log) -> Log:
    """Another member has the other partition, and goes on."""
    log = Log().at(0).generation(1, member("app/0", 0, **POLL), member("stays/0", 1)).commits([0, 1], 1, 40)
    return log.commits([1], 40, 70).at(70).generation(2, member("stays/0", 0, 1)).commits([1], 71, 99)


def recreated(log: Log) -> Log:
    return hangs(log).at(80).commit(0, None).commit(1, None)


@pytest.mark.parametrize(
    ("write", "left", "places"),
    [
        (hangs, ["app"], [0, 1]),
        (lambda log: comes_back(hangs(log)), ["app"] * 4, [0, 1]),
        (never_commits, ["app"] * 3, [0, 1]),
        (passes_one, ["app"] * 4, [1]),
        (beside, ["app"], [0]),
        (once, [], []),
        (killed, [], []),
        (closed, [], []),
        (passes, [], []),
        (recreated, [], []),
    ],
)
def test_members_that_did_not_poll(write: Callable[[Log], Log], left: list[str], places: list[int]) -> None:
    log = write(works())

    found = log.history(since=3000, now=211).slow_polls

    assert [one.name for one in (found.left if found else ())] == left
    assert (sorted(of(*places)) if places else None) == (list(found.places) if found else None)
    assert from_log(log.events, log.reach(), group([], (), "Empty"), T0 + 211_000, {}).slow_polls == found
    assert from_log(log.events, log.reach(), group([], (), "Empty"), T0 + 211_000).slow_polls is None


def test_one_that_has_the_place_for_longer_polls() -> None:
    log = comes_back(hangs(works())).at(220).generation(9, member("app/4", 0, 1, **POLL))
    steps = log.steps()
    assert steps[-1].kind is StepKind.REBALANCE
    commits = [one.commit for one in log.track().commits]
    assert slow_polls(steps, commits, T0 + 259_000) is not None
    assert slow_polls(steps, commits, T0 + 261_000) is None


def test_topics_that_are_identified_by_id() -> None:
    named = of(0, 1, topic="id-of-orders")
    log = Log()
    for n in range(2):
        log.at(n * 45).generation(1 + 2 * n, member(f"app/{n}", partitions=named, **POLL)).at(n * 45 + 30)
        log.generation(2 + 2 * n)
    found = slow_polls(log.steps(), (), T0 + 99_000, {"id-of-orders": TOPIC})
    assert found is not None
    assert found.places == tuple(sorted(of(0, 1)))


def test_words() -> None:
    once, again = hangs(works()), comes_back(hangs(works()))
    words = []
    for log in (once, again):
        found = slow_polls(log.steps(), [one.commit for one in log.track().commits], T0 + 211_000)
        assert found is not None
        words.append(slow_poll_words(found, "orders:0 offset 12", T0 + 211_000))
    assert words == [
        "its last member app left 2m21s ago as it did not poll for 30s (max.poll.interval.ms): its process may live, "
        "and hang at orders:0 offset 12",
        "members left 4 times at orders:0 offset 12, the last 16s ago, as they did not poll for 30s "
        "(max.poll.interval.ms): a batch needs longer, or a call hangs, the log does not show which",
    ]
