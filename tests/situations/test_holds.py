"""What is void, since a row's group did not do what the row says: pure."""

from dataclasses import replace
from typing import Any

import pytest

from tests.situations.holds import Body, Seen, why_not
from tests.situations.programs.logs import fold
from tests.situations.row import Action, Feed, Program, Row

APP = Program(commit="each", bad="seek")
SICK = Row(id="sick", cause="", programs=(APP,), begin=(Action(0, "poison", "t:0"),), topics={"t": 1})
WELL = replace(SICK, id="h-well", healthy=True, begin=())


def body(program: Program = APP, *, lives: bool = True, started: bool = True, ended_s: float | None = None) -> Body:
    return Body("app-0", program, lives, started, ended_s)


def seen(
    *lines: str,
    bodies: tuple[Body, ...] = (body(),),
    poison: tuple[int, ...] | None = None,
    unread: int = 0,
    now_ms: int = 130_000,
) -> Seen:
    """Begun at 10 s, looked at last at 40 s, and now at 130 s."""
    return Seen(
        bodies,
        {"g": fold({"app-0": lines}, {"app-0"})},
        {} if poison is None else {"t:0": poison},
        {("g", "t:0"): unread},
        {"t:0": ("x.t", 0)},
        begun_ms=10_000,
        since_ms=40_000,
        now_ms=now_ms,
    )


def of(**habits: Any) -> Row:
    return replace(SICK, programs=(replace(APP, **habits),))


TRIES = [
    (SICK, ("50000 F x.t:0 7",), ""),
    (SICK, ("30000 F x.t:0 7",), "t:0 7 was not tried by app since the last look"),
    (SICK, ("50000 F x.t:0 8",), "t:0 7 was not tried by app since the last look"),
    (of(bad="pause"), ("30000 F x.t:0 7",), ""),
    (of(bad="pause"), ("9000 F x.t:0 7",), "t:0 7 was not tried by app since the beginning"),
    (of(bad="kill9"), ("30000 F x.t:0 7",), ""),
    (of(bad="kill9", restart_s=2), ("30000 F x.t:0 7",), "t:0 7 was not tried by app since the last look"),
    (of(bad="throw", restart_s=2), ("30000 F x.t:0 7",), "t:0 7 was not tried by app since the last look"),
    (of(bad="throw", restart_s=2, commit="auto"), ("30000 F x.t:0 7",), ""),
    (of(bad="dlq"), (), ""),
    (of(bad="retry:3"), (), ""),
    (of(waits=True), (), ""),
]


@pytest.mark.parametrize(("row", "lines", "why"), TRIES)
def test_a_poison_was_tried(row: Row, lines: tuple[str, ...], why: str) -> None:
    assert why_not(row, seen(*lines, poison=(7,))) == why


def test_a_poison_that_was_not_written_is_none() -> None:
    assert why_not(SICK, seen(poison=())) == "no poison was written to t:0"


LIVES = [
    (body(), ""),
    (body(started=False, lives=False), ""),
    (body(lives=False), "app-0 ended, and the row does not say so"),
    (body(replace(APP, bad="kill9"), lives=False), ""),
    (body(replace(APP, restart_s=2), lives=False), ""),
    (body(replace(APP, life="8s"), lives=False), ""),
    (body(lives=False, ended_s=20), ""),
    (body(ended_s=5), ""),
    (body(ended_s=20), "app-0 was ended, and lives"),
]


@pytest.mark.parametrize(("one", "why"), LIVES)
def test_what_should_live_lives_and_what_was_ended_is_dead(one: Body, why: str) -> None:
    assert why_not(SICK, seen(bodies=(one,))) == why


GOES_ON = [
    ((), 0, ""),  # it had read all, and nothing need have come
    ((), 5, ""),  # some were on the way to it
    (("50000 P x.t:0 7",), 9, ""),
    (("30000 P x.t:0 7",), 9, "g read nothing of t:0 since the last look, when 9 records were unread"),
]


@pytest.mark.parametrize(("lines", "unread", "why"), GOES_ON)
def test_a_healthy_group_goes_on(lines: tuple[str, ...], unread: int, why: str) -> None:
    row = replace(WELL, begin=(Action(0, "start"),))
    assert why_not(row, seen(*lines, unread=unread)) == why


def test_a_client_reads_one_partition_for_a_while_and_then_another() -> None:
    row = replace(WELL, begin=(Action(0, "start"),))
    of_another = "50000 P x.t:1 7"
    assert why_not(row, seen(of_another, unread=9, now_ms=70_000)) == ""
    assert why_not(row, seen(unread=9, now_ms=70_000)) != ""
    assert why_not(row, seen(of_another, unread=9)) != ""


def test_a_job_between_two_runs_need_not_read() -> None:
    job = replace(APP, bad="none", life="20s:close", restart_s=220)
    assert why_not(replace(WELL, programs=(job,)), seen(bodies=(body(job, lives=False),), unread=90)) == ""


def test_members_to_whom_nothing_happens_process_records() -> None:
    row = replace(SICK, begin=(), feed=Feed(per_s=3))
    assert why_not(row, seen("50000 P x.t:0 7")) == ""
    assert why_not(row, seen("30000 P x.t:0 7")) == "g processed nothing since the last look"
    seldom = replace(row, feed=Feed(burst=(1, 45)))
    assert why_not(seldom, seen("30000 P x.t:0 7")) == ""
    assert why_not(seldom, seen("30000 P x.t:0 7", unread=1)) == "g processed nothing since the last look"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("50000 P x.t:0 7", ""),
        ("30000 P x.t:0 7", "no member read t:0 since the last look"),
        ("50000 P x.t:1 7", "no member read t:0 since the last look"),
        ("50000 F x.t:0 7", "no member read t:0 since the last look"),
    ],
)
def test_what_a_row_says_is_read_is_read(line: str, why: str) -> None:
    assert why_not(replace(WELL, begin=(Action(0, "start"),), reads=("t:0",)), seen(line)) == why


def test_a_connector_writes_no_log() -> None:
    connector = (Program(commit="timer:60", client="connect"),)
    assert why_not(replace(WELL, programs=connector), seen(unread=9)) == ""
    assert why_not(replace(SICK, programs=connector), seen(poison=(7,))) == ""
