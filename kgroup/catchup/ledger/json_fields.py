"""Reads JSON objects that other programs may have written, and checks each field and its type. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_LARGEST = 2**63 - 1


class FieldError(ValueError):
    """A field is missing or invalid."""


class JsonFields:
    """The fields of one JSON object; FieldError is raised for a missing field or a wrong type."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def wrong(self, name: str, why: str) -> NoReturn:
        """Raise FieldError for this field."""
        raise FieldError(f"field {name!r} {why}")

    def has(self, name: str) -> bool:
        """Whether the field is present; fields of later versions may be missing."""
        return name in self._document

    def _value(self, name: str, kind: type[T]) -> T:
        if name not in self._document:
            self.wrong(name, "is missing")
        return self._checked(name, self._document[name], kind)

    def _checked(self, name: str, value: Any, kind: type[T]) -> T:
        if type(value) is not kind:  # isinstance would accept a bool as an int
            self.wrong(name, f"is not of type {kind.__name__}")
        return value

    def _sized(self, name: str, number: int) -> int:
        if not -_LARGEST <= number <= _LARGEST:
            self.wrong(name, "is larger than 64 bits")
        return number

    def maybe(self, name: str, read: Callable[[str], T]) -> T | None:
        """None if the field is null, else the result of ``read``."""
        if name not in self._document:
            self.wrong(name, "is missing")
        return None if self._document[name] is None else read(name)

    def text(self, name: str) -> str:
        """A string."""
        return self._value(name, str)

    def integer(self, name: str) -> int:
        """An integer of 64 bits."""
        return self._sized(name, self._value(name, int))

    def count(self, name: str) -> int:
        """An integer of at least 0, such as an offset, a partition or a count."""
        known = self._document.get(name)
        if type(known) is int and 0 <= known <= _LARGEST:  # in one step: a ledger may have millions of them
            return known
        number = self.integer(name)
        if number < 0:
            self.wrong(name, "is negative")
        return number

    def one_of(self, name: str, kind: type[E]) -> E:
        """A member of an enumeration, by its value."""
        try:
            return kind(self.text(name))
        except ValueError:
            self.wrong(name, f"is not one of {', '.join(kind)}")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(self._checked(name, item, str) for item in self._value(name, list))

    def counts(self, name: str) -> tuple[int, ...]:
        """A list of integers of at least 0."""
        found = tuple(self._sized(name, self._checked(name, item, int)) for item in self._value(name, list))
        if any(number < 0 for number in found):
            self.wrong(name, "has a negative number")
        return found

    def options(self, name: str) -> dict[str, str]:
        """An object with strings as values."""
        return {str(key): self._checked(name, item, str) for key, item in self._value(name, dict).items()}

    def objects(self, name: str) -> Iterator[JsonFields]:
        """A list of objects."""
        for item in self._value(name, list):
            yield JsonFields(self._checked(name, item, dict))

    def object(self, name: str) -> JsonFields:
        """A nested object."""
        return JsonFields(self._value(name, dict))

    def by_name(self, name: str) -> Iterator[tuple[str, JsonFields]]:
        """A nested object whose values are objects."""
        for key, item in self._value(name, dict).items():
            yield str(key), JsonFields(self._checked(name, item, dict))

    def span(self) -> tuple[int, int]:
        """The fields ``start`` and ``end``, in this order."""
        start, end = self.count("start"), self.count("end")
        if start > end:
            self.wrong("end", "is below the start")
        return start, end
