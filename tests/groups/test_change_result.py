"""The exit code of a plan: what its execution would return, and of several reasons the one that waiting cannot mend."""

from __future__ import annotations

import pytest

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import Refusal, Result
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.support.errors import NOT_YET_CODES, ExitCode, KgroupError, NotAuthorized, NotFound, Refused, decisive

ROW = ChangeRow("svc", "orders", 0, Commit(5, None, ""), Commit(9, None, ""), LogRange(0, 9))
GONE = ROW.failing(RowError.of(NotFound("there is no topic", code="unknown-topic")))
READ = ROW.failing(RowError.of(Refused("a member reads it", code="subscribed")))
PENDING = ROW.failing(RowError.of(Refused("a transaction is open", code="pending-transaction")))
LIVE = Refused("svc has members", code="not-empty")
COUNT = Refused("7 expected", code="unexpected-count")
DONE, NOT_FOUND, REFUSED, PARTLY, NOT_YET = (ExitCode(code) for code in (0, 5, 6, 7, 9))


@pytest.mark.parametrize(
    ("rows", "refusals", "partial", "now", "after_the_wait"),
    [
        ((ROW,), (), False, DONE, DONE),
        ((ROW,), (LIVE,), False, NOT_YET, DONE),
        ((READ, ROW), (), False, NOT_YET, DONE),
        ((PENDING, ROW), (LIVE,), False, NOT_YET, DONE),
        ((GONE,), (LIVE,), False, NOT_FOUND, NOT_FOUND),
        ((ROW,), (LIVE, COUNT), False, REFUSED, REFUSED),
        ((ROW,), (LIVE, NotAuthorized("no READ")), False, ExitCode.NOT_AUTHORIZED, ExitCode.NOT_AUTHORIZED),
        ((GONE, READ), (), False, NOT_FOUND, NOT_FOUND),
        ((GONE, ROW), (), True, PARTLY, PARTLY),
        ((GONE, READ), (), True, NOT_FOUND, PARTLY),
        ((GONE, ROW), (LIVE,), True, NOT_FOUND, PARTLY),
    ],
)
def test_the_exit_code_of_a_plan(
    rows: tuple[ChangeRow, ...],
    refusals: tuple[KgroupError, ...],
    partial: bool,
    now: ExitCode,
    after_the_wait: ExitCode,
) -> None:
    found = tuple(Refusal("svc", error) for error in refusals)
    for waits, code in ((False, now), (True, after_the_wait)):
        assert Result(ChangePlan((), rows), found, partial=partial, waits=waits).exit_code is code


def test_the_decisive_exit_code() -> None:
    assert decisive([NOT_YET, NOT_YET]) is NOT_YET
    assert decisive([NOT_YET, REFUSED, NOT_FOUND]) is REFUSED


def test_a_refusal_exits_by_its_code() -> None:
    assert {Refused("x", code=code).exit_code for code in NOT_YET_CODES} == {NOT_YET}
    assert {Refused("x", code=code).exit_code for code in ("open-transaction", "blocked", "moved-since")} == {REFUSED}
