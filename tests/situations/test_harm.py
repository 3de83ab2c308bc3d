"""What a command did, from members' logs and offsets: a table of cases."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.situations.harm import Group, Harm, Log, State, beyond, harm, not_calmer, useless
from tests.situations.programs.logs import fold

T0, T1 = ("t", 0), ("t", 1)
EXECUTED_MS = 100_000
SEEN_MS = 145_000


def seen(at_ms: int, lines: str, committed: Mapping[tuple[str, int], int], **of_group: Any) -> State:
    """A group `g` of one member, which wrote these lines; 20 records in each partition, 12 of t:0 is poison."""
    did = fold({"app-0": [line.strip() for line in lines.split(";") if line.strip()]}, ["app-0"])
    group = Group(did, committed, **{"members": frozenset({"app-0"}), "pids": {"app-0": 7}, **of_group})
    return State(at_ms, {"g": group}, {T0: Log(0, 20, frozenset({12})), T1: Log(0, 20)})


def words(before: State, after: State, said_repeated: int = 0) -> list[str]:
    return [str(each) for each in harm(before, after, said_repeated)]


def processed(ms: int, place: str, *offsets: int) -> str:
    return ";".join(f"{ms} P {place} {offset}" for offset in offsets)


TEN = processed(50_000, "t:0", *range(12))
"""It stands at 12: 0 to 11 are done."""
STANDS = seen(EXECUTED_MS, f"{TEN}; 99000 F t:0 12", {T0: 12})
REST = processed(110_000, "t:0", *range(13, 20))


@pytest.mark.parametrize(
    ("lines", "committed", "said", "expected"),
    [
        pytest.param(f"{TEN};{REST}", 20, 0, [], id="poison alone is passed"),
        pytest.param(TEN, 13, 0, [], id="nothing after it is read yet"),
        pytest.param(TEN, 14, 0, ["skipped 1 of t:0, from 13"], id="a healthy record is passed"),
        pytest.param(TEN, 20, 0, ["skipped 7 of t:0, from 13"], id="to the end"),
        pytest.param(f"{TEN};{processed(110_000, 't:0', 5, 6)}", 12, 0, ["repeated 2 of t:0, from 5"], id="read again"),
        pytest.param(f"{TEN};{processed(110_000, 't:0', 5, 6)}", 12, 2, [], id="read again, as its plan said"),
        pytest.param(f"{TEN};110000 P t:0 11;111000 P t:0 11", 11, 1, [], id="one record, though more than once"),
    ],
)
def test_records_skipped_and_repeated(lines: str, committed: int, said: int, expected: list[str]) -> None:
    assert words(STANDS, seen(SEEN_MS, lines, {T0: committed}), said) == expected


def test_what_was_not_committed_may_be_read_again() -> None:
    before = seen(EXECUTED_MS, TEN, {T0: 8})
    assert words(before, seen(SEEN_MS, f"{TEN};{processed(110_000, 't:0', *range(8, 12))}", {T0: 12})) == []
    again = f"{TEN};{processed(110_000, 't:0', *range(7, 12))}"
    assert words(before, seen(SEEN_MS, again, {T0: 12})) == ["repeated 1 of t:0, from 7"]


def test_what_is_committed_at_delivery_is_in_flight() -> None:
    assert words(STANDS, seen(SEEN_MS, TEN, {T0: 14}, in_flight=1)) == []


def test_what_others_had_skipped_before_is_no_harm_of_the_command() -> None:
    before = seen(EXECUTED_MS, TEN, {T0: 18})
    assert words(before, seen(SEEN_MS, TEN, {T0: 18})) == []


def test_deleted_records_are_not_skipped() -> None:
    after = replace(seen(SEEN_MS, TEN, {T0: 18}), logs={T0: Log(18, 20), T1: Log(0, 20)})
    assert words(STANDS, after) == []


@pytest.mark.parametrize(
    ("members", "pids", "expected"),
    [
        ({"app-0"}, {"app-0": 7}, []),
        (set(), {"app-0": 7}, ["evicted app-0, which worked"]),
        (set(), {"app-0": 8}, []),  # it was started again
        (set(), {}, []),  # it died
    ],
)
def test_a_member_that_worked_is_evicted(members: set[str], pids: dict[str, int], expected: list[str]) -> None:
    before = seen(EXECUTED_MS, f"{TEN};99000 P t:1 3", {T0: 12})
    after = seen(SEEN_MS, f"{TEN};99000 P t:1 3", {T0: 12}, members=frozenset(members), pids=pids)
    assert words(before, after) == expected


def test_records_of_a_topic_that_was_made_again_are_new() -> None:
    shorter = {T0: Log(0, 8), T1: Log(0, 20)}
    after = seen(SEEN_MS, f"{TEN};{processed(110_000, 't:0', 8, 9)}", {T0: 12})
    assert words(replace(STANDS, logs=shorter), replace(after, logs=shorter)) == []


def test_one_that_hung_may_be_evicted() -> None:
    before = seen(EXECUTED_MS, TEN, {T0: 12})
    assert words(before, seen(SEEN_MS, TEN, {T0: 12}, members=frozenset())) == []


def test_another_group_is_touched() -> None:
    other = ("other", 0)
    assert words(replace(STANDS, others={other: 1}), replace(STANDS, others={other: 2})) == [
        "changed offsets of another group"
    ]


@pytest.mark.parametrize(
    ("lines", "committed", "expected"),
    [
        pytest.param(f"{TEN};{REST}", {T0: 20}, "", id="it goes on"),
        pytest.param(TEN, {T0: 13}, "no progress of t:0 of g", id="it stands elsewhere"),
        pytest.param(f"{TEN};{REST}", {T0: 12}, "no progress of t:0 of g", id="it processes, and commits nothing"),
        pytest.param(f"{TEN};110000 P t:0 13", {T0: 14}, "no progress of t:0 of g", id="one more, and it stands again"),
        pytest.param(TEN, {}, "", id="the group has no offset there any more"),
    ],
)
def test_what_stood_goes_on_or_it_was_of_no_use(
    lines: str, committed: Mapping[tuple[str, int], int], expected: str
) -> None:
    assert useless(STANDS, seen(SEEN_MS, lines, committed)) == expected


def test_it_goes_on_to_the_next_poison_and_that_is_another_situation() -> None:
    after = seen(SEEN_MS, f"{TEN};110000 P t:0 13", {T0: 14})
    assert useless(STANDS, replace(after, logs={T0: Log(0, 20, frozenset({12, 14})), T1: Log(0, 20)})) == ""


def test_records_that_others_had_skipped_are_read() -> None:
    skipped = seen(EXECUTED_MS, TEN, {T0: 20})
    assert useless(skipped, seen(SEEN_MS, TEN, {T0: 20})) == "nothing stood before it, and nothing is better"
    assert useless(skipped, seen(SEEN_MS, f"{TEN};{REST}", {T0: 20})) == ""


def repeats(count: int, place: str = "t:0") -> Harm:
    return Harm("repeated", place, count, "")


OWN = [
    pytest.param([repeats(9)], [], 1.0, True, id="it does not do so by itself"),
    pytest.param([repeats(9)], [repeats(7)], 1.0, False, id="as often by itself"),
    pytest.param([repeats(9)], [repeats(4)], 1.0, True, id="more than twice as often"),
    pytest.param([repeats(9)], [repeats(4)], 2.0, False, id="in twice the time"),
    pytest.param([repeats(9)], [repeats(9, "t:1")], 1.0, True, id="elsewhere by itself"),
    pytest.param([repeats(9)], [Harm("skipped", "t:0", 9, "")], 1.0, True, id="another kind by itself"),
    pytest.param([Harm("evicted", "app-0", 1, "")], [Harm("evicted", "app-1", 1, "")], 1.0, True, id="another member"),
]


@pytest.mark.parametrize(("found", "own", "times", "is_harm"), OWN)
def test_what_a_group_does_by_itself_hides_no_more_than_that(
    found: list[Harm], own: list[Harm], times: float, is_harm: bool
) -> None:
    assert beyond(found, own, times) == (found if is_harm else [])


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (4, 1, ""),
        (1, 0, ""),
        (4, 2, "partitions were given 4 times before it, and 2 times after it"),
        (0, 0, "partitions were given 0 times before it, and 0 times after it"),
    ],
)
def test_a_setting_helps_where_partitions_change_hands_less_often(was: int, now: int, expected: str) -> None:
    """Those of before the two windows do not count."""
    early = "10000 A t:0;10001 A t:0"
    before = f"{early};{';'.join(f'{70_000 + n} A t:0 t:1' for n in range(was))}"
    after = f"{before};{';'.join(f'{120_000 + n} A t:0' for n in range(now))}"
    assert not_calmer(seen(EXECUTED_MS, before, {}), seen(SEEN_MS, after, {}), 45_000) == expected
