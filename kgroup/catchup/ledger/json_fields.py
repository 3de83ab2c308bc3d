"""JSON objects that somebody else may have written, field by field and type by type. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_LARGEST = 2**63 - 1


class FieldError(ValueError):
    """What is the matter with a field."""


class JsonFields:
    """The fields of one JSON object; ``FieldError`` is raised for what is missing or of another type."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def wrong(self, name: str, why: str) -> NoReturn:
        """Say what is the matter with a field."""
        raise FieldError(f"field {name!r} {why}")

    def has(self, name: str) -> bool:
        """Whether it is there: what was added later may be missing."""
        return name in self._document

    def _value(self, name: str, kind: type[T]) -> T:
        if name not in self._document:
            self.wrong(name, "is missing")
        return self._checked(name, self._document[name], kind)

    def _checked(self, name: str, value: Any, kind: type[T]) -> T:
        if type(value) is not kind:  # a bool is an int to isinstance
            self.wrong(name, f"is not of type {kind.__name__}")
        return value

    def _sized(self, name: str, number: int) -> int:
        if not -_LARGEST <= number <= _LARGEST:
            self.wrong(name, "is larger than any number of Kafka's")
        return number

    def maybe(self, name: str, read: Callable[[str], T]) -> T | None:
        """None where the field is null, else as ``read`` reads it."""
        if name not in self._document:
            self.wrong(name, "is missing")
        return None if self._document[name] is None else read(name)

    def text(self, name: str) -> str:
        """A string."""
        return self._value(name, str)

    def integer(self, name: str) -> int:
        """A number of 64 bits."""
        return self._sized(name, self._value(name, int))

    def count(self, name: str) -> int:
        """A number from 0 on: an offset, a partition, how many."""
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
        """A list of numbers from 0 on."""
        found = tuple(self._sized(name, self._checked(name, item, int)) for item in self._value(name, list))
        if any(number < 0 for number in found):
            self.wrong(name, "has a negative number")
        return found

    def options(self, name: str) -> dict[str, str]:
        """Strings by name."""
        return {str(key): self._checked(name, item, str) for key, item in self._value(name, dict).items()}

    def objects(self, name: str) -> Iterator[JsonFields]:
        """A list of objects."""
        for item in self._value(name, list):
            yield JsonFields(self._checked(name, item, dict))

    def object(self, name: str) -> JsonFields:
        """An object in this one."""
        return JsonFields(self._value(name, dict))

    def by_name(self, name: str) -> Iterator[tuple[str, JsonFields]]:
        """An object of objects."""
        for key, item in self._value(name, dict).items():
            yield str(key), JsonFields(self._checked(name, item, dict))

    def span(self) -> tuple[int, int]:
        """``start`` and ``end``, in this order."""
        start, end = self.count("start"), self.count("end")
        if start > end:
            self.wrong("end", "lies below the start")
        return start, end
