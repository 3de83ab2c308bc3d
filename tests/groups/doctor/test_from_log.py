"""What the doctor makes of a group's log: which rebalances are unrest, which members restarted, which commits stand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from msgspec.structs import replace

from kgroup.groups.doctor.about_rebalances import rebalance_storm
from kgroup.groups.doctor.finding import Finding, Severity, duration
from kgroup.groups.doctor.from_log import DoctorLogFacts, from_log, history_of
from kgroup.groups.doctor.snapshot import MemberRestart
from kgroup.groups.history.summary import HistoryQuery
from kgroup.model.group_log import GenerationMember, TransactionEnd
from tests.helpers.cases.doctor import EMPTY, HEALTHY, A, B, having, partition
from tests.helpers.cases.history import T0, TOPIC, Log, member

_HOUR_MS = 3_600_000


def told(log: Log, **reach: object) -> DoctorLogFacts:
    now_ms = log.now_ms + 1000
    return from_log(
        log.events, log.reach(**reach), EMPTY.group.name, HistoryQuery(T0 - _HOUR_MS, now_ms, now_ms, 45_000)
    )


def some(number: int) -> tuple[GenerationMember, ...]:
    """So many members, with ten partitions among them."""
    return tuple(member(f"m{at}/1", *range(at, 10, number)) for at in range(number))


def started(log: Log, members: int = 10) -> Log:
    """One generation for each member that comes."""
    for at in range(members):
        log.at(at * 2).generation(at + 1, *some(at + 1))
    return log


def stopped(log: Log, members: int = 10, after: float = 300) -> Log:
    for at in range(members):
        log.at(after + at * 2).generation(members + at + 1, *some(members - at - 1))
    return log


def stopped_leader_first(log: Log) -> Log:
    """Each time the member that has been there longest goes, which is the leader."""
    started(log, 12)
    for at in range(12):
        log.at(at * 2 + 30).generation(13 + at, *some(12)[at + 1 :])
    return log


def started_epochs(log: Log) -> Log:
    for at in range(10):
        log.at(at * 2).member(f"m{at}").epoch(at + 1)
    return log


def two_starts_and_stops(log: Log) -> Log:
    """A job that runs twice an hour: each of its members comes twice, and that is no storm by itself."""
    started(log, 4)
    stopped(log, 4, after=60)
    return log


def scaled_up_and_down(log: Log) -> Log:
    log.at(0).generation(1, *some(2))
    for at in range(3, 9):
        log.at(60 + at).generation(at, *some(at))
    return log


def flapping(log: Log) -> Log:
    """The same client comes and goes; who stays has nothing to do with it."""
    log.at(0).generation(1, member("stays/1", 0, 1))
    for at in range(7):
        log.at(20 * at + 5).generation(2 * at + 2, member("stays/1", 0), member(f"flaky/{at}", 1))
        log.at(20 * at + 15).generation(2 * at + 3, member("stays/1", 0, 1))
    return log


def alone(log: Log) -> Log:
    """A group of one that crashes over and over: all its generations are starts and stops."""
    for at in range(7):
        log.at(20 * at).generation(2 * at + 1, member(f"flaky/{at}", 0))
        log.at(20 * at + 10).generation(2 * at + 2)
    return log


def new_names(log: Log) -> Log:
    """Crashes that get a new name each time."""
    log.at(0).generation(1, member("stays/1", 0, 1))
    for at in range(7):
        log.at(20 * at + 5).generation(2 * at + 2, member("stays/1", 0), member(f"pod-{at}/1", 1))
        log.at(20 * at + 15).generation(2 * at + 3, member("stays/1", 0, 1))
    return log


def never_completed(log: Log) -> Log:
    log.at(0).generation(1, member("a/1", 0))
    return log.at(30).generation(8, member("a/1", 0), member("b/1", 1))


def largest_number(log: Log) -> Log:
    """A damaged record: as many generations as a number holds are counted, not listed."""
    log.at(0).generation(1, member("a/1", 0))
    return log.at(30).generation(2**31 - 1, member("a/1", 0), member("b/1", 1))


def catch_ups(log: Log, own: str = "kgroup-1", instance_id: str | None = "kgroup-catchup", stays: int = 0) -> Log:
    """Three catch-ups, each between a stop and a start of two members one after another. kgroup joins twice each time,
    and a generation that is not written counts too. ``stays`` is the member that stops last; 0 is the leader."""
    number = count(1)
    for at in range(0, 180, 60):
        log.at(at).generation(next(number), *some(1)).at(at + 1).generation(next(number), *some(2))
        log.at(at + 20).generation(next(number), some(2)[stays]).at(at + 21).generation(next(number))
        next(number)
        log.at(at + 30).generation(next(number), member(f"{own}/{at}", instance_id=instance_id))
        log.at(at + 31).generation(next(number))
    log.at(190).generation(next(number), *some(1)).at(191)
    return log.generation(next(number), *some(2))


def conversions(log: Log) -> Log:
    return catch_ups(log, "kgroup-migrate-1", None)


def catch_ups_of_a_group_that_flaps(log: Log) -> Log:
    """That kgroup held the group in between does not make it healthy."""
    number = count(1)
    for at in range(0, 300, 100):
        log.at(at).generation(next(number), member(f"flaky/{at}", 0)).at(at + 5).generation(next(number))
        log.at(at + 10).generation(next(number), member("kgroup-1/1", instance_id="kgroup-catchup"))
        log.at(at + 15).generation(next(number))
        for more in range(20, 90, 20):
            log.at(at + more).generation(next(number), member(f"flaky/{at + more}", 0))
            log.at(at + more + 10).generation(next(number))
    return log


def rolled_out(log: Log, done: int = 5) -> Log:
    """A deployment: each of five goes and comes back once, as far as it is done."""
    names = [f"m{at}" for at in range(5)]
    log.at(0).generation(1, *(member(f"{name}/1", at) for at, name in enumerate(names)))
    ages = dict.fromkeys(names, 1)
    number = 1
    for name in names[:done]:
        log.commits(range(5), number * 10 - 9, number * 10)
        log.at(number * 10)
        number += 1
        log.generation(number, *(member(f"{n}/{ages[n]}", at) for at, n in enumerate(names) if n != name))
        ages[name] = 2
        number += 1
        log.at(number * 10).generation(number, *(member(f"{n}/{ages[n]}", at) for at, n in enumerate(names)))
    return log


@pytest.mark.parametrize(
    ("write", "storm"),
    [
        (started, False),
        (started_epochs, False),
        (lambda log: stopped(started(log)), False),
        (stopped_leader_first, False),
        (two_starts_and_stops, False),
        (scaled_up_and_down, False),
        (rolled_out, False),
        (lambda log: rolled_out(log, 3), False),
        (catch_ups, False),
        (lambda log: catch_ups(log, stays=1), False),
        (conversions, False),
        (catch_ups_of_a_group_that_flaps, True),
        (flapping, True),
        (alone, True),
        (new_names, True),
        (never_completed, True),
        (largest_number, True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_a_storm_and_what_is_not(write: Callable[[Log], Log], storm: bool) -> None:
    log = write(Log())
    snapshot = replace(HEALTHY, now_ms=log.now_ms + 1000, history=told(log).history)

    found = rebalance_storm(snapshot)

    assert [isinstance(item, Finding) for item in found] == ([True] if storm else [])


def crashing(log: Log, *, commits: bool) -> Log:
    """Each life ends 6 s after it began; with ``commits`` it commits once at its start."""
    log.at(0).generation(1, member("c/0", 0, 1))
    for life in range(1, 17):
        if commits:
            log.at(life * 6 - 5.9).commit(0, 970 + life).commit(1, life * 100)
        log.at(life * 6).generation(1 + life, member(f"c/{life}", 0, 1), joined=0.002)
    return log


@pytest.mark.parametrize(("commits", "stopped_ms"), [(False, 96_000), (True, 94_400)])
def test_history_and_doctor_have_one_measure(commits: bool, stopped_ms: int) -> None:
    """Of how long a group did not work: the joining alone, 2 ms each, would be nothing."""
    log = crashing(Log(), commits=commits)
    known = told(log, to_log_start=True).history
    totals = log.history(until=100, reach={"to_log_start": True}).totals
    late = replace(having((A, B), (partition(0, end=1005),)), now_ms=log.now_ms + 1000)

    (found,) = rebalance_storm(replace(late, history=replace(known, crash_loops=())))

    assert isinstance(found, Finding)
    assert (found.numbers["stopped_ms"], totals.quiet_ms) == (stopped_ms, stopped_ms)
    assert f"without commits for {duration(stopped_ms)}" in found.evidence


@pytest.mark.parametrize("write", [flapping, catch_ups_of_a_group_that_flaps])
def test_the_flapping_client_is_named_and_kgroup_is_not(write: Callable[[Log], Log]) -> None:
    log = write(Log())

    (found,) = rebalance_storm(replace(HEALTHY, now_ms=log.now_ms + 1000, history=told(log).history))

    assert isinstance(found, Finding)
    assert (found.severity, found.affected[0]) == (Severity.CRITICAL, "flaky")
    assert not any("kgroup" in name for name in found.affected)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (
            lambda log: flapping(log),
            [MemberRestart("flaky", None, 10_000)] * 6,
        ),
        (
            # Replaced while its place was kept: how long it was away is not in the log.
            lambda log: (
                log.at(0)
                .generation(1, member("i/1", 0, instance_id="i"), member("b/1", 1))
                .at(5)
                .generation(1, member("i/2", 0, instance_id="i"), member("b/1", 1))
            ),
            [MemberRestart("i", "i", None)],
        ),
        (
            # It was noticed when its session was over, which counts: 10 s, and 20 s until it came back.
            lambda log: (
                log.commits([0, 1], 0, 50)
                .at(60)
                .generation(1, member("i/1", 0, instance_id="i"), member("b/1", 1))
                .commits([0, 1], 61, 100)
                .commits([1], 101, 110)
                .at(110)
                .generation(2, member("b/1", 0, 1))
                .at(130)
                .generation(3, member("i/2", 0, instance_id="i"), member("b/1", 1))
            ),
            [MemberRestart("i", "i", 30_000)],
        ),
        (lambda log: scaled_up_and_down(log), []),
        (lambda log: catch_ups(log), []),
    ],
    ids=["flapping", "static-in-time", "static-too-late", "scaled", "kgroup-itself"],
)
def test_restarts(write: Callable[[Log], Log], expected: list[MemberRestart]) -> None:
    assert list(told(write(Log())).history.restarts) == expected


def test_what_was_not_read_is_not_claimed() -> None:
    log = Log().at(0).generation(1, member("a", 0))
    timeline = log.history(since=-3600, until=10)

    assert history_of(timeline).since_ms == T0 - 3_600_000
    assert history_of(replace(timeline, reach=log.reach(oldest_ms=T0 - 1000))).since_ms == T0 - 1000
    assert history_of(replace(timeline, reach=log.reach(oldest_ms=None))).since_ms == timeline.span.now_ms
    whole = log.reach(oldest_ms=T0 - 1000, to_log_start=True)
    assert history_of(replace(timeline, reach=whole)).since_ms == T0 - 3_600_000


def test_the_newest_topic_id_of_a_commit_that_stands() -> None:
    log = Log().at(0).commit(0, 5, topic_id="old").at(1).commit(0, 6, topic_id="new").at(2)
    log.commit(0, 99, topic_id="aborted", producer_id=7, ending=TransactionEnd.ABORTED)
    log.commit(1, 3).commit(1, None)

    assert told(log).topic_ids == {(TOPIC, 0): "new"}
