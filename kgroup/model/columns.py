"""Many frozen values in little memory: a column for each field, and the values made when they are used."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from math import inf
from operator import attrgetter, eq
from typing import Any, TypeVar, overload

from msgspec import Struct
from msgspec.structs import astuple

from kgroup.model.commit import Commit

_AT_A_TIME = 1_000
_INTEGERS = "bhiq"
"""The types of arrays, the smallest first; a column takes the first that holds all its values."""
_PLAIN = {int, str, bool, type(None)}

T = TypeVar("T", covariant=True)


class Columns(Sequence[T]):
    """Values of one type, such as the rows of a plan: each is made again when it is used, equal to what was given.

    A million rows take some 20 MB instead of 380. ``column`` reads single fields without making values.
    """

    def __init__(self, parts: Iterable[_Part] = ()) -> None:
        self._parts = tuple(parts)
        self._ends = tuple(accumulate(map(len, self._parts)))

    @classmethod
    def of(cls, values: Iterable[T]) -> Columns[T]:
        """Take the values one after another, so that they need not exist at the same time."""
        remaining = iter(values)
        return cls(map(_part, iter(lambda: list(islice(remaining, _AT_A_TIME)), [])))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        index = range(len(self))[at]
        part = bisect_right(self._ends, index)
        value: T = self._parts[part][index - self._ends[part]]
        return value

    def __eq__(self, other: object) -> bool:
        """Whether it has the same values, as columns or as a tuple."""
        if not isinstance(other, Columns | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def fields(self, path: tuple[str, ...]) -> Iterator[Any]:
        """A field of each value, in order."""
        return chain.from_iterable(part.fields(path) for part in self._parts)


def column(values: Iterable[Any], *path: str) -> Iterator[Any]:
    """A field of each value, in order. ``column(rows, "old", "offset")`` has None where ``old`` is None."""
    if isinstance(values, Columns):
        return values.fields(path)
    return _along(map(attrgetter(path[0]), values), path[1:])


def joined(sequences: Iterable[Columns[T]]) -> Columns[T]:
    """All their values, in order."""
    return Columns(part for each in sequences for part in each._parts)


def _along(values: Iterable[Any], path: tuple[str, ...]) -> Iterator[Any]:
    for name in path:
        values = _field(name, values)
    return iter(values)


def _field(name: str, values: Iterable[Any]) -> Iterator[Any]:
    get = attrgetter(name)
    return (None if value is None else get(value) for value in values)


class _Part:
    """Some values: for each field of their type a column."""

    __slots__ = ("_columns", "_count", "_type")

    def __init__(self, kind: type[Any], count: int, columns: tuple[Any, ...]) -> None:
        self._type = kind
        self._count = count
        self._columns = columns

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return map(self._type, *self._columns)

    def __getitem__(self, at: int) -> Any:
        return self._type(*(column[at] for column in self._columns))

    def fields(self, path: tuple[str, ...]) -> Iterator[Any]:
        column, rest = self._columns[self._type.__match_args__.index(path[0])], path[1:]
        if rest and isinstance(column, _Part):
            return column.fields(rest)
        if isinstance(column, _Same):
            return repeat(next(_along([column.value], rest)), self._count)
        return _along(column, rest)


class _Same:
    """A column with the same value in each row."""

    __slots__ = ("_count", "value")

    def __init__(self, value: Any, count: int) -> None:
        self.value = value
        self._count = count

    def __iter__(self) -> Iterator[Any]:
        return repeat(self.value, self._count)

    def __getitem__(self, at: int) -> Any:
        return self.value


class _OrNone:
    """A column of numbers, some of them None: ``none`` is a number that no other row has."""

    __slots__ = ("_none", "_numbers")

    def __init__(self, numbers: array[Any], none: float) -> None:
        self._numbers = numbers
        self._none = none

    def __iter__(self) -> Iterator[Any]:
        # A generator needs three times as long.
        return map({self._none: None}.get, self._numbers, self._numbers)

    def __getitem__(self, at: int) -> Any:
        number = self._numbers[at]
        return None if number == self._none else number


def _part(values: Sequence[Any]) -> _Part:
    kind = type(values[0])
    fields = astuple if issubclass(kind, Struct) else attrgetter(*kind.__match_args__)
    return _Part(kind, len(values), tuple(map(_column, zip(*map(fields, values), strict=True))))


def compact_column(values: Sequence[Any], order: Sequence[int]) -> Iterable[Any]:
    """The values in this order, a permutation of their positions; in less memory if there is a way."""
    if not values:
        return ()
    same = _same(values)
    compact: Iterable[Any] = _column([*map(values.__getitem__, order)]) if same is None else same
    return compact


def _same(values: Sequence[Any]) -> _Same | None:
    first = values[0]
    # Other values that are equal may differ all the same: a hint also has the words of a command.
    count = values.count(first) if type(first) in _PLAIN else [*map(id, values)].count(id(first))
    return _Same(first, count) if count == len(values) else None


def _column(values: Sequence[Any]) -> Any:
    if same := _same(values):
        return same
    types = set(map(type, values))
    if types == {Commit}:
        return _part(values)
    if type(None) not in types:
        return _numbers(values, types) or values
    known = [value for value in values if value is not None]
    types -= {type(None)}
    if types == {float}:
        none = -inf
    elif types == {int}:
        none = min(known) - 1
    else:
        return values
    numbers = None if none in known else _numbers([none if value is None else value for value in values], types)
    return values if numbers is None else _OrNone(numbers, none)


def _numbers(values: Sequence[Any], types: set[type[Any]]) -> array[Any] | None:
    if types == {float}:
        return array("d", values)
    for code in _INTEGERS if types == {int} else ():
        try:
            return array(code, values)
        except OverflowError:
            continue
    return None
