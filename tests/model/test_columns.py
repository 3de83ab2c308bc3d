"""Values in columns are the values that were given, and take a small part of their memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from msgspec import Struct

from kgroup.groups.change_plan import ChangeRow
from kgroup.model.columns import Columns, column, joined
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, Partition, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from tests.helpers.memory import bytes_of

LARGEST = 2**63 - 1
MANY = range(20_000)
LOG = LogRange(0, 100)


def row(number: int, old: Commit | None, new: Commit | None, **more: object) -> ChangeRow:
    return ChangeRow("svc", "orders", number, old, new, LOG, **more)  # type: ignore[arg-type]


def at(offset: int, epoch: int | None = None, metadata: str = "") -> Commit:
    return Commit(offset, epoch, metadata)


CASES: dict[str, Sequence[ChangeRow]] = {
    "none": (),
    "one": (row(0, at(5), at(4)),),
    "all alike": (row(0, at(5), at(4)),) * 3,
    "large and small offsets": (row(0, at(0), at(-1)), row(1, at(LARGEST), at(LARGEST - 1))),
    "offsets larger than the protocol's": (row(0, at(5), at(LARGEST + 1)), row(1, at(5), at(7))),
    "some without a commit": (row(0, None, at(4)), row(1, at(5), None), row(2, None, None)),
    "none with a commit": (row(0, None, at(4)), row(1, None, at(4))),
    "epochs and metadata": (row(0, at(1, 3, "a"), at(2, None, "")), row(1, at(1, None, ""), at(2, 4, "b"))),
    "without a partition": (ChangeRow("svc", "orders", None, None, None), row(0, at(1), at(2))),
    "errors": (row(0, at(1), None).failing(RowError("a", "b", hint="c")), row(1, at(1), at(2))),
    "executed": (row(0, at(1), at(2), done=True, read_back=at(2)), row(1, at(1), at(2), done=False, unread=True)),
    "many": tuple(row(number, at(number), at(number + 1)) for number in range(2_500)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_values_are_those_that_were_given(name: str) -> None:
    given = CASES[name]
    found = Columns.of(iter(given))
    assert (len(found), [*found], [*found]) == (len(given), [*given], [*given])
    assert [found[number] for number in range(-len(given), len(given))] == [*given, *given]
    assert (found == given, found == Columns.of(given), found == (*given, row(7, None, None))) == (True, True, False)
    assert found[1:2] == [*given[1:2]]
    with pytest.raises(IndexError):
        found[len(given)]
    assert [*joined([found, Columns(), found])] == [*given, *given]


class Measured(Struct, frozen=True):
    count: int | None
    rate: float | None


SMALLEST = -(2**63)
MEASURED: dict[str, Sequence[tuple[int | None, float | None]]] = {
    "all known": ((5, 0.5), (-1, 0.0), (2**40, 1e300)),
    "some unknown": ((5, None), (None, 0.1 + 0.2), (0, -0.0), (None, None)),
    "the only known one": ((None, None), (7, 7.5)),
    "the smallest and the largest": ((SMALLEST + 1, -inf), (None, inf), (LARGEST, None)),
    "no number is left for None": ((SMALLEST, -inf), (None, None)),
    "bytes and negative ones": ((-128, -0.5), (None, None), (127, 0.5)),
}


@pytest.mark.parametrize("name", MEASURED)
def test_unknown_numbers_are_none(name: str) -> None:
    given = [Measured(*values) for values in MEASURED[name]]
    found = Columns.of(given)
    assert [repr(value) for value in found] == [repr(found[at]) for at in range(len(given))] == [*map(repr, given)]
    assert [*column(found, "count")] == [value.count for value in given]


def test_unknown_numbers_take_no_more_memory_than_known_ones() -> None:
    rows = Columns.of(Measured(None if number % 3 else number, 1 / number if number % 2 else None) for number in MANY)
    assert bytes_of(rows) < len(MANY) * 20


@pytest.mark.parametrize("path", [("group",), ("partition",), ("old",), ("old", "offset"), ("error", "code"), ("log",)])
@pytest.mark.parametrize("name", CASES)
def test_a_field_is_that_of_the_values(name: str, path: tuple[str, ...]) -> None:
    given = CASES[name]
    expected = [getattr(value, path[0]) for value in given]
    if len(path) == 2:
        expected = [None if value is None else getattr(value, path[1]) for value in expected]
    assert [*column(Columns.of(given), *path)] == [*column(given, *path)] == expected


def test_equal_hints_keep_their_own_words() -> None:
    hints = [Hint("{}", ("undo", word)) for word in ("ch-aaaa", "ch-bbbb")]
    rows = [row(0, None, None, error=RowError("a", "b", hint=hint)) for hint in hints]
    assert [one.error.hint for one in Columns.of(rows) if one.error] == hints
    assert all(one.error.hint is hint for one, hint in zip(Columns.of(rows), hints, strict=True) if one.error)


def test_owners_and_errors_of_partitions_are_kept() -> None:
    given = (
        Partition(TopicPartition("orders", 0), at(5), None, None, "unreadable"),
        Partition(TopicPartition("audit", 0), None, None, None, None),
    )
    assert [*Columns.of(given)] == [*given]


def test_a_row_takes_a_tenth_of_its_memory() -> None:
    rows = Columns.of(row(number % 100, at(10**12 + number), at(10**12 - number)) for number in range(20_000))
    assert bytes_of(rows) < 20_000 * 40
