"""Owners of a partition that come and go, and a commit that does not move; which of them make a crash loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kgroup.groups.history.crash_loops import crash_loop_words, crash_loops
from kgroup.groups.lag.from_log import from_log
from kgroup.groups.timeline.steps import CrashLoop, SignatureKind
from kgroup.model.group_log import RebalanceProtocol, TransactionEnd
from tests.helpers.cases.history import T0, TOPIC, Log, member, of
from tests.helpers.cases.lag import group

COMMIT = 10


def begun() -> Log:
    """Two partitions, of which the app has committed 10 on the second one."""
    return Log().at(0).generation(1, member("app/0", 0, 1)).at(1).commit(1, COMMIT)


def killed(log: Log, times: int = 4, every: float = 20) -> Log:
    """Each time another process has both partitions, and the one before it is gone without a trace."""
    for life in range(1, times + 1):
        log.at(life * every).generation(1 + life, member(f"app/{life}", 0, 1))
    return log


def left(log: Log, times: int = 4) -> Log:
    """Each process leaves, and the group is Empty until the next one."""
    for life in range(1, times + 1):
        log.at(life * 20 - 5).generation(2 * life).at(life * 20).generation(2 * life + 1, member(f"app/{life}", 0, 1))
    return log


def beside(log: Log, times: int = 4) -> Log:
    """One process reads partition 0; the other one dies of what is on partition 1."""
    for life in range(1, times + 1):
        log.at(life * 20).generation(1 + life, member("stays/0", 0), member(f"app/{life}", 1)).commit(0, life * 5)
    return log


def consumers(log: Log, times: int = 4) -> Log:
    """The next process gets partition 1 before the coordinator notices that the one before it is dead."""
    log = Log().at(0).member("app/0").epoch(1).target(1, **{"app/0": of(0, 1)}).has("app/0", 1, 0, 1)
    log.at(1).commit(1, COMMIT)
    for life in range(1, times + 1):
        old, new = f"app/{life - 1}", f"app/{life}"
        log.at(life * 20).member(new).epoch(2 * life).target(2 * life, **{old: of(0), new: of(1)})
        log.has(new, 2 * life).at(life * 20 + 3).left(old).epoch(2 * life + 1)
        log.target(2 * life + 1, **{new: of(0, 1)}).has(new, 2 * life + 1, 0, 1)
    return log


def slow(log: Log, times: int = 4) -> Log:
    """Each process exceeds its poll interval, as regular commits before show."""
    log.commits([0], 1, 30, every=1)
    for life in range(1, times + 1):
        log.at(30 + life * 20).generation(
            1 + life, member(f"app/{life}", 0, 1, rebalance_timeout_ms=20_000, session_timeout_ms=90_000)
        )
    return log


def moved(log: Log) -> Log:
    return killed(log).commit(1, COMMIT + 1)


def moved_between(log: Log) -> Log:
    return killed(log.at(0), 2).commit(1, COMMIT + 1).at(60).generation(5, member("app/9", 0, 1))


def creeping(log: Log, times: int = 6, by: int = 1) -> Log:
    """Each process commits a record before it handles it, and that ends it."""
    for life in range(1, times + 1):
        log.at(life * 20).generation(1 + life, member(f"app/{life}", 0, 1)).commit(1, COMMIT + life * by)
    return log


def creeping_at_times(log: Log) -> Log:
    """A retry counter: each record ends three processes."""
    for life in range(1, 10):
        log.at(life * 20).generation(1 + life, member(f"app/{life}", 0, 1)).commit(1, COMMIT + life // 3)
    return log


def lived_long(log: Log) -> Log:
    """One process handles many records, and those after it one each."""
    creeping(log).at(130).generation(8, member("app/7", 0, 1)).commit(1, 100)
    for life in range(8, 14):
        log.at(life * 20).generation(1 + life, member(f"app/{life}", 0, 1)).commit(1, 100 + life - 7)
    return log


def rewound(log: Log) -> Log:
    return creeping(log).at(125).commit(1, 3)


def two_records_in_a_life(log: Log) -> Log:
    """The third of six processes handles two records, one after the other."""
    creeping(log, 3).commit(1, COMMIT + 4)
    for life in range(4, 7):
        log.at(life * 20).generation(1 + life, member(f"app/{life}", 0, 1)).commit(1, COMMIT + life + 1)
    return log


def scaled(log: Log) -> Log:
    """An autoscaler adds a second process six times; in between the one that stays handles two slow records."""
    done = COMMIT
    for turn in range(1, 7):
        log.at(turn * 200).generation(2 * turn, member("stays/0", 0), member(f"app/{turn}", 1))
        log.at(turn * 200 + 50).commit(1, done + 1)
        log.at(turn * 200 + 100).generation(2 * turn + 1, member("stays/0", 0, 1))
        log.at(turn * 200 + 140).commit(1, done + 2).at(turn * 200 + 180).commit(1, done + 3)
        done += 3
    return log


def rolled_slowly(log: Log) -> Log:
    """Two rollouts of three, one after the other, each process handles one record of partition 1."""
    lives = ["a/1", "b/1", "c/1"]
    log.at(2).generation(2, *(member(each, n) for n, each in enumerate(lives)))
    for turn in range(6):
        rest = [each for n, each in enumerate(lives) if n != turn % 3]
        log.at(20 + 20 * turn).generation(3 + 2 * turn, member(rest[0], 0, 1), member(rest[1], 2))
        log.commit(1, COMMIT + 1 + turn).commit(0, 100 * turn).commit(2, 100 * turn)
        lives[turn % 3] = f"{'abc'[turn % 3]}/{2 + turn // 3}"
        log.at(30 + 20 * turn).generation(4 + 2 * turn, *(member(each, n) for n, each in enumerate(lives)))
    return log


def same_offset(log: Log) -> Log:
    """A commit of the same offset, as a client makes when it closes."""
    return killed(log).commit(1, COMMIT)


def rolled(log: Log) -> Log:
    """A rollout of three members, one after the other; each is given partition 1 before it goes."""
    lives = ["a/1", "b/1", "c/1"]
    log.at(2).generation(2, *(member(each, n) for n, each in enumerate(lives)))
    for turn in range(3):
        rest = [each for n, each in enumerate(lives) if n != turn]
        log.at(20 + 20 * turn).generation(3 + 2 * turn, member(rest[0], 0, 1), member(rest[1], 2))
        lives[turn] = lives[turn].replace("1", "2")
        log.at(30 + 20 * turn).generation(4 + 2 * turn, *(member(each, n) for n, each in enumerate(lives)))
    return log


def found_in(log: Log, now: float = 100) -> tuple[CrashLoop, ...]:
    tracked = log.track(to_log_start=True)
    return crash_loops(tracked.steps, [one.commit for one in tracked.commits], T0 + round(now * 1000))


@pytest.mark.parametrize(
    ("write", "loops"),
    [
        (killed, {0: (None, 4), 1: (COMMIT, 4)}),
        (left, {0: (None, 4), 1: (COMMIT, 4)}),
        (beside, {1: (COMMIT, 4)}),
        (consumers, {0: (None, 4), 1: (COMMIT, 4)}),
        (same_offset, {0: (None, 4), 1: (COMMIT, 4)}),
        (moved, {0: (None, 4)}),
        (moved_between, {0: (None, 3)}),
        (lambda log: killed(log, 2), {}),
        (lambda log: killed(log, 3).at(70).commit(1, 11, ending=TransactionEnd.ABORTED),
         {0: (None, 3), 1: (COMMIT, 3)}),
        (lambda log: killed(log, 3, every=601), {}),
        (lambda log: killed(log, 3).gone(RebalanceProtocol.CLASSIC), {0: (None, 3), 1: (COMMIT, 3)}),
        (rolled, {}),
        (creeping, {0: (None, 6), 1: (COMMIT + 6, 6)}),
        (creeping_at_times, {0: (None, 9), 1: (COMMIT + 3, 9)}),
        (lambda log: creeping(log, 5), {0: (None, 5), 1: (COMMIT + 5, 5)}),
        (lambda log: creeping(log, 4), {0: (None, 4)}),
        (lambda log: creeping(log, 6, by=2), {0: (None, 6)}),
        (two_records_in_a_life, {0: (None, 6)}),
        (lived_long, {0: (None, 13), 1: (106, 6)}),
        (rewound, {0: (None, 6)}),
        (scaled, {}),
        (rolled_slowly, {}),
    ],
)  # fmt: skip
def test_what_is_a_crash_loop(write: Callable[[Log], Log], loops: dict[int, tuple[int | None, int]]) -> None:
    log = write(begun())

    found = found_in(log, max(100, (log.now_ms - T0) // 1000 + 10))

    assert {loop.partition: (loop.offset, len(loop.gone)) for loop in found} == loops


def test_slow_members_are_none() -> None:
    assert found_in(slow(begun()), 200) == ()


@pytest.mark.parametrize(("now", "is_over"), [(679, False), (681, True)])
def test_it_is_over_ten_minutes_after_the_last(now: float, is_over: bool) -> None:
    assert (found_in(killed(begun()), now) == ()) is is_over


@pytest.mark.parametrize(("unread_at", "count"), [(None, 4), (19, 4), (39, 3), (41, None)])
def test_only_those_count_that_went_after_the_record_was_written(unread_at: float | None, count: int | None) -> None:
    loop = next(each for each in found_in(killed(begun())) if each.partition == 1)

    found = loop.since(None if unread_at is None else T0 + round(unread_at * 1000))

    assert (None if found is None else len(found.gone)) == count
    assert loop.least_since_ms == T0 + 40_000


def committed_each(seconds: float) -> Log:
    """A group that committed so often before its members began to end, at 10 in the end."""
    log = Log().at(0).generation(1, member("app/0", 0, 1))
    for turn in range(10):
        log.at(1 + turn * seconds).commit(1, turn)
    return log.commit(1, COMMIT)


def lives(log: Log, each: float = 20, *, session_ms: int = 10_000, leaves: bool = False) -> Log:
    """Processes that live for so many seconds, to the end of a session or until they leave."""
    start = (log.now_ms - T0) / 1000
    for life in range(1, 5):
        last = member(f"app/{life}", 0, 1, session_timeout_ms=session_ms)
        log.at(start + life * each).generation(2 * life, *(() if leaves else (last,)))
        if leaves:
            log.at(start + life * each).generation(2 * life + 1, last)
    return log


@pytest.mark.parametrize(
    ("write", "longest_s"),
    [
        pytest.param(lambda: lives(committed_each(60)), 20, id="a life is shorter than a commit interval"),
        pytest.param(lambda: lives(committed_each(5)), None, id="a life had time for two commits"),
        pytest.param(lambda: lives(committed_each(5), 15), 15, id="it was dead for its session"),
        pytest.param(lambda: lives(committed_each(60), leaves=True), 20, id="each left"),
        pytest.param(lambda: killed(begun()), 20, id="how often it commits is not known"),
        pytest.param(lambda: same_offset(begun()).at(100).generation(9), None, id="a life committed"),
        pytest.param(lambda: beside(begun()), None, id="another member commits"),
        pytest.param(lambda: consumers(begun()), None, id="the session is not in the log"),
    ],
)
def test_lives_that_may_be_too_short_for_a_commit(write: Callable[[], Log], longest_s: int | None) -> None:
    log = write()
    loop = next(each for each in found_in(log, (log.now_ms - T0) / 1000 + 10) if each.partition == 1)

    assert loop.uncommitted_ms == (None if longest_s is None else longest_s * 1000)


def test_words() -> None:
    zero, one = (
        replace(each, uncommitted_ms=None)
        for each in sorted(found_in(killed(begun())), key=lambda loop: loop.partition)
    )
    words = (
        "crash loop at orders:1 offset 10: 4 members came and went in 1m, the last 20s ago, and none committed past it"
    )

    assert crash_loop_words([one], T0 + 100_000) == words
    assert crash_loop_words([replace(one, uncommitted_ms=20_000)], T0 + 100_000) == (
        f"{words}; none committed anything, and each ended within 20s: at a record there, or whatever the record, "
        "before its first commit, the log does not show which"
    )
    assert crash_loop_words([zero, one], T0 + 100_000).startswith("crash loop at orders:0 or orders:1 offset 10: ")


def test_one_that_creeps() -> None:
    loop = next(each for each in found_in(creeping(begun()), 140) if each.partition == 1)

    # A record that was written while they went is none that five of them could have handled.
    assert [loop.since(T0 + at * 1000) is None for at in (0, 39, 41, 101)] == [False, False, True, True]
    assert loop.least_since_ms == T0 + 40_000
    assert [loop.is_at(offset) for offset in (15, 16, 17, 18)] == [False, True, True, False]
    assert crash_loop_words([loop], T0 + 140_000).endswith("the last 20s ago, and none committed more than one record")


@pytest.mark.parametrize("write", [killed, left, beside, consumers, creeping])
def test_lag_finds_what_history_suspects(write: Callable[[Log], Log]) -> None:
    log = write(begun())

    facts = from_log(log.events, log.reach(to_log_start=True), group([]), T0 + 100_000, {})

    history = log.history(until=100, reach={"to_log_start": True})
    assert facts.crash_loops == history.suspects
    assert facts.crash_loops


def test_topics_that_are_identified_by_id() -> None:
    log = Log().at(0).epoch(1).at(1).commit(1, COMMIT)
    for life in range(4):
        log.at(life * 20).member(f"app/{life}").epoch(2 * life + 2)
        log.target(2 * life + 2, **{f"app/{life}": of(1, topic="id-of-orders")})
        log.at(life * 20 + 10).left(f"app/{life}").epoch(2 * life + 3)

    facts = from_log(log.events, log.reach(), group([]), T0 + 100_000, {"id-of-orders": TOPIC})

    assert [(loop.tp, loop.offset) for loop in facts.crash_loops] == [((TOPIC, 1), COMMIT)]


def test_a_confirmed_one_is_a_signature_in_the_place_of_its_parts() -> None:
    log = beside(begun(), 6)
    before = log.history(until=200, reach={"to_log_start": True})

    history = before.confirmed(before.suspects)

    (signature,) = history.signatures
    assert (signature.kind, signature.rebalances) == (SignatureKind.CRASH_LOOP, 6)
    assert signature.text == "orders:1 offset 10: 6 members came and went, and none committed past it"
    assert before.confirmed(()).signatures == before.signatures
