"""The loop of a run, with a clock of its own and stages that only say what is true: pure."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.situations import run as module
from tests.situations.conclude import Cell, Worth
from tests.situations.fleet import FLEET, look_at_fleet
from tests.situations.harm import State
from tests.situations.judge import Judged
from tests.situations.programs.nursery import Nursery
from tests.situations.results import Result
from tests.situations.row import Moment, Program, Row
from tests.situations.schedule import Repeats
from tests.situations.stage import Stage

ROW = Row(id="row", cause="", programs=(Program(commit="each"),), warm_s=40)
MOMENTS = (Moment.HALF_A_MINUTE, Moment.TWO_MINUTES)


class Clock:
    """A second is as short as it can be."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Played:
    """A stage that holds, but in some looks."""

    groups: Mapping[str, str] = {}
    topics: Mapping[str, str] = {}

    def __init__(self, row: Row, directory: Path, void_at: tuple[int, ...] = ()) -> None:
        self.row, self.directory, self.begun_s = row, directory, cast("float | None", None)
        self._void_at, self.looks = void_at, 0

    def start(self, begins_s: float) -> None: ...
    def tick(self, now_s: float, ended: Mapping[str, int]) -> None: ...
    def symbols(self) -> Mapping[str, int]:
        return {}

    def state(self) -> State:
        return State(0, {}, {})

    def is_fed(self) -> bool:
        return True

    def running(self) -> list[str]:
        return []

    def environment(self) -> dict[str, str]:
        return {"KGROUP_BOOTSTRAP_SERVER": "nowhere:1"}

    def begin(self, now_s: float) -> None:
        self.begun_s = now_s

    def holds(self, now_s: float, moment: Moment) -> str:
        self.looks += 1
        return "why" if self.looks in self._void_at else ""


class Nobody:
    def ended(self) -> dict[str, int]:
        return {}


class Judges:
    """Answer at once, so much later than they were asked."""

    def __init__(self, clock: Clock, late_s: float) -> None:
        self._clock, self._late_s = clock, late_s

    def submit(self, what: Callable[..., Any], *_: Any) -> Future[Any]:
        done: Future[Any] = Future()
        if what is look_at_fleet:
            done.set_result((Cell("lag", Worth.WRONG, "why"),))
            return done
        done.set_result(Judged(self._clock.now_s + self._late_s, 1.0, (Cell("lag", Worth.RIGHT),), {}))
        return done


Play = Callable[..., tuple[list[Result], list[str]]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Plays rows, each void at some of its looks; the results and what was told."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)

    def played(
        void_at: Mapping[str, tuple[int, ...]],
        *,
        most_s: float = 10_000.0,
        late_s: float = 0.0,
        with_fleet: bool = False,
        most_plays: int = 2,
        again_void_at: tuple[int, ...] = (),
        has_brokers: bool = True,
        replicas: tuple[tuple[int, ...], ...] = (),
    ) -> tuple[list[Result], list[str]]:
        def again(row: Row, _: str) -> Stage:
            if not has_brokers:
                raise RuntimeError("no brokers")
            return cast(Stage, Played(row, tmp_path, again_void_at))

        told: list[str] = []
        row = replace(ROW, replicas=replicas)
        stages = {name: cast(Stage, Played(replace(row, id=name), tmp_path, at)) for name, at in void_at.items()}
        running = module._Run(
            stages,
            again,
            MOMENTS,
            cast(Nursery, Nobody()),
            cast(ProcessPoolExecutor, Judges(clock, late_s)),
            told.append,
            Repeats(lambda result: bool(result.void), most_plays),
            clock.now_s + most_s,
            with_fleet=with_fleet,
        )
        return running.to_the_end(), told

    return played


def test_each_row_is_looked_at_at_each_moment(play: Play) -> None:
    results, told = play({"a": (), "b": ()})
    assert sorted((result.row, result.moment) for result in results) == [
        (row, moment) for row in "ab" for moment in sorted(MOMENTS)
    ]
    assert not any("second" in line for line in told)


def test_a_row_is_played_again_until_what_was_void(play: Play) -> None:
    results, told = play({"a": (1,), "b": ()})
    assert [result.void for result in results] == [""] * 4
    assert "     a: is played again, until 30s" in told
    assert sum("(try 2)" in line for line in told) == 1


def test_a_row_that_cannot_be_played_again_ends_no_run(play: Play) -> None:
    results, told = play({"a": (1,), "b": ()}, has_brokers=False)
    assert "     a: cannot be played again: RuntimeError('no brokers')" in told
    assert [result.void for result in results] == ["why", "", "", ""]


def test_only_what_was_void_is_replaced(play: Play) -> None:
    results, told = play({"a": (2,)}, again_void_at=(1,))
    assert "     a: is played again, until 2m" in told
    assert [(result.moment, result.void) for result in results] == [("30s", ""), ("2m", "")]


def test_what_is_void_again_is_played_as_often_as_is_asked_for(play: Play) -> None:
    results, told = play({"a": (1,)}, again_void_at=(1,), most_plays=3)
    assert [result.void for result in results] == ["why", ""]
    assert sum("is played again" in line for line in told) == 2


def test_a_row_is_played_again_when_only_last_looks_are_to_come(play: Play) -> None:
    """Of any row: what is played again must not make other looks late."""
    results, told = play({"a": (1,), "b": ()})
    again = told.index("     a: is played again, until 30s")
    assert [line.split()[:2] for line in told[:again]] == [["30s", "a"], ["30s", "b"]]
    assert [(result.row, result.moment, result.void) for result in results] == [
        (row, moment, "") for row in "ab" for moment in MOMENTS
    ]


def test_a_row_whose_brokers_fail_is_played_again_when_its_looks_are_over(play: Play) -> None:
    _, told = play({"a": (1,)}, replicas=((1,),))
    again = told.index("     a: is played again, until 30s")
    assert [line.split()[:2] for line in told[:again]] == [["30s", "a"], ["2m", "a"]]


def test_a_row_whose_last_look_was_void_too_is_played_once_more(play: Play) -> None:
    results, told = play({"a": (1, 2)}, most_plays=3)
    assert [result.void for result in results] == ["", ""]
    assert [line for line in told if "again" in line] == [
        "     a: is played again, until 30s",
        "     a: is played again, until 2m",
    ]


def test_only_a_few_are_played_again_at_once(play: Play) -> None:
    rows = dict.fromkeys("abcdefghi", (1,))
    results, told = play(rows)
    assert [result.void for result in results] == [""] * 18
    again = [n for n, line in enumerate(told) if "is played again" in line]
    first_end = next(n for n, line in enumerate(told) if "(try 2)" in line)
    assert sum(n < first_end for n in again) == 6
    assert len(again) == 9


def test_without_time_for_another_play_the_first_results_count(play: Play) -> None:
    results, told = play({"a": (2,)}, most_s=200)
    assert [(result.moment, result.void) for result in results] == [("30s", ""), ("2m", "why")]
    assert "     a: no time is left to play it again" in told


def test_what_is_not_looked_at_in_time_has_no_result(play: Play) -> None:
    results, _ = play({"a": ()}, most_s=100)
    assert [result.moment for result in results] == [Moment.HALF_A_MINUTE]


def test_what_is_looked_at_late_is_void(play: Play) -> None:
    results, _ = play({"a": ()}, late_s=16, most_s=200)
    assert [result.void for result in results] == ["late", ""]


def test_the_fleet_is_looked_at_when_all_else_is(play: Play) -> None:
    results, told = play({"a": (), "b": ()}, with_fleet=True)
    assert [result.row for result in results] == ["a", "a", "b", "b", FLEET]
    assert told[-1].endswith("wrong: lag (why)")
