"""The line of a group that is waited for, the hold and the pauses: tables of cases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kgroup.groups.member_sessions import Liveness, SessionBound
from kgroup.groups.wait_conditions import parse_conditions
from kgroup.groups.wait_progress import EventLine, GroupVersion, Hold, line_of, next_pause_s, waiting_summary
from kgroup.model.groups import Group
from tests.helpers.cases.observed_groups import STATIC, TWO, group, member, partition, sight


def line(found: Group | None, texts: Sequence[str], sessions: dict[str, SessionBound] | None = None) -> EventLine:
    conditions = parse_conditions(texts)
    seen = sight(found)
    return line_of(seen, [condition.judge(seen) for condition in conditions], sessions or {})


@pytest.mark.parametrize(
    ("found", "texts", "sessions", "text"),
    [
        (group("Stable", *(member(str(n)) for n in range(6))), ["empty"], {}, "svc Stable, 6 members"),
        (
            group("Stable", member("pay-4", key="x")),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 30.2)},
            "svc 1 member: pay-4 10.0.7.6, session ends within 31s if it is gone",
        ),
        (
            group("Stable", STATIC),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 252)},
            "svc 1 member: pay-4 10.0.7.6, static, session ends within 4m12s if it is gone; "
            "kgroup evict svc --instance pay-4 removes it now",
        ),
        (
            group("Stable", STATIC),
            ["empty"],
            {"x": SessionBound(Liveness.ALIVE, 45)},
            "svc 1 member: pay-4 10.0.7.6, static, its last heartbeat was less than 45s ago",
        ),
        (
            group("PreparingRebalance", member("p", key="x")),
            ["empty"],
            {"x": SessionBound(Liveness.REBALANCING, 45)},
            "svc 1 member: p 10.0.7.6, session ends within 45s of the rebalance if it is gone",
        ),
        (
            group("Reconciling", replace(STATIC, epoch=-2), kind="consumer"),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 5)},
            "svc 1 member: pay-4 10.0.7.6, static, has left temporarily, session ends within 5s; "
            "kgroup evict svc --instance pay-4 removes it now",
        ),
        (group("Stable", member("p")), ["empty"], {}, "svc 1 member: p 10.0.7.6, session timeout unknown"),
        (
            group("Stable", member("p", key="1"), member("p", key="2"), member("p", host="10.0.7.7")),
            ["members=2"],
            {},
            "svc 3 members: 1 10.0.7.6, session timeout unknown; 2 10.0.7.6, session timeout unknown; "
            "p 10.0.7.7, session timeout unknown",
        ),
        (group("Stable", *TWO), ["members=6", "stable"], {}, "svc Stable, 2 members"),
        (group("Empty"), ["empty"], {}, "svc is Empty"),
        (None, ["empty"], {}, "svc does not exist"),
        (None, ["stable"], {}, "svc does not exist"),
        (group(partitions=[partition(0, 60)]), ["lag=7"], {}, "svc lag 40, waiting for lag=7"),
        (
            group("Stable", *TWO, partitions=[partition(0, 60)]),
            ["members=6", "lag=7", "type=consumer"],
            {},
            "svc Stable, 2 members; lag 40, waiting for lag=7; type classic",
        ),
        (
            group("Stable", *TWO, partitions=[partition(0, 60)]),
            ["stable", "members=2", "lag=40", "type=classic"],
            {},
            "svc is Stable, 2 members; lag 40; is of type classic",
        ),
    ],
)
def test_line(found: Group | None, texts: list[str], sessions: dict[str, SessionBound], text: str) -> None:
    assert line(found, texts, sessions).text == text


def test_counts_alone_are_no_event() -> None:
    """The key stays while only seconds and records count on, and changes with what matters."""
    one = group("Stable", member("p", key="x"))
    counting = [line(one, ["empty"], {"x": SessionBound(Liveness.COUNTING, left)}) for left in (31, 12)]
    assert counting[0].key == counting[1].key
    assert counting[0].text != counting[1].text
    assert counting[0].key != line(one, ["empty"], {"x": SessionBound(Liveness.ALIVE, 45)}).key
    lags = [line(group(partitions=[partition(0, offset)]), ["lag=0"]).key for offset in (60, 70)]
    assert lags[0] == lags[1]
    assert line(group("Stable", *TWO), ["members=6"]).key != line(group("Stable", TWO[0]), ["members=6"]).key


def test_many_groups_are_one_line() -> None:
    assert waiting_summary(["a", "b", "c", "d", "e", "f", "g"], 12).text == (
        "7 of 12 groups are still waited for: a, b, c and 4 more"
    )
    assert waiting_summary(["a"], 12).text == "1 of 12 groups is still waited for: a"
    assert waiting_summary(["a", "b"], 3).key != waiting_summary(["a", "c"], 3).key


E5, E6, UNKNOWN = GroupVersion("consumer", 5), GroupVersion("consumer", 6), GroupVersion("consumer", None)


@pytest.mark.parametrize(
    ("steps", "reached_at"),
    [
        ([(0, True, E5), (5, True, E5), (10, True, E5)], 10),
        ([(0, True, E5), (5, False, E5), (6, True, E5), (12, True, E5), (16, True, E5)], 16),
        # Empty at both looks, but somebody was there in between.
        ([(0, True, E5), (5, True, E6), (10, True, E6), (15, True, E6)], 15),
        ([(0, True, E5), (5, True, UNKNOWN), (10, True, E5)], 10),
        ([(0, True, E5), (5, True, UNKNOWN), (9, True, E6), (12, True, E6)], None),
        ([(0, True, E5), (5, True, GroupVersion("classic", 5)), (12, True, GroupVersion("classic", 5))], None),
        ([(0, True, GroupVersion()), (10, True, GroupVersion())], 10),
        ([(0, False, E5)], None),
    ],
)
def test_hold(steps: list[tuple[float, bool, GroupVersion]], reached_at: float | None) -> None:
    hold, reached = Hold(10), None
    for now_s, holds, trace in steps:
        hold = hold.step(now_s, holds, [trace])
        if hold.reached(now_s) and reached is None:
            reached = now_s
    assert reached == reached_at


def test_no_hold_is_reached_at_once() -> None:
    assert Hold(0).step(3, True, []).reached(3)
    assert not Hold(0).step(3, False, []).reached(3)
    assert Hold(10).step(3, True, []).left_s(7) == 6
    assert Hold(10).left_s(7) == 10
    assert Hold(10).step(0, True, [E5]).step(5, True, [E6]).broken


def test_pauses_grow_and_are_never_short() -> None:
    pauses = [0.5]
    for _ in range(8):
        pauses.append(next_pause_s(pauses[-1], changed=False, holding=False, left_s=60))
    assert pauses[1] == 0.75
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert next_pause_s(2.0, changed=True, holding=False, left_s=60) == 0.5
    assert next_pause_s(2.0, changed=False, holding=True, left_s=60) == 1.0
    assert next_pause_s(2.0, changed=False, holding=True, left_s=0.3) == 0.3
    assert next_pause_s(2.0, changed=False, holding=False, left_s=0.01) == 0.2
