"""The tables of clients and broker defects, read from ``kgroup/data`` and checked, so that no wrong row is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from kgroup.groups.migration.rules import (
    BrokerDefect,
    Certainty,
    ClientRow,
    Defect,
    DefectLevel,
    MigrationRules,
    Product,
    Support,
)
from kgroup.groups.migration.versions import parse_version
from kgroup.support.errors import KgroupError

CLIENTS_FILE, DEFECTS_FILE = "clients.yaml", "broker_defects.yaml"
_PROTOCOLS = ("classic", "consumer")
_POLICIES = ("BIDIRECTIONAL", "UPGRADE", "DOWNGRADE", "DISABLED")

_Word = TypeVar("_Word", bound=StrEnum)
_Row = TypeVar("_Row")


@cache
def load_rules() -> MigrationRules:
    """The tables of this kgroup release. Raises KgroupError, with file and row, if they are invalid."""
    return parse_rules(_text(CLIENTS_FILE), _text(DEFECTS_FILE))


def parse_rules(clients: str, defects: str) -> MigrationRules:
    """The tables from the text of the two files. Raises KgroupError, with file and row, if they are invalid."""
    first = _File(CLIENTS_FILE, clients, ("clients", "monitors"))
    second = _File(DEFECTS_FILE, defects, ("defects", "services", "proxies"))
    rules = MigrationRules(
        clients=first.rows("clients", _client),
        monitors=first.rows("monitors", _product),
        broker_defects=second.rows("defects", _broker_defect, key="id"),
        services=second.rows("services", _product),
        proxies=second.rows("proxies", _product),
    )
    _check_names(rules.clients)
    return rules


def _check_names(clients: Sequence[ClientRow]) -> None:
    seen: dict[str, str] = {}
    for row in clients:
        for name in row.names:
            if name in seen:
                raise _broken(CLIENTS_FILE, f"{seen[name]} and {row.name} are both called {name}")
            seen[name] = row.name
    for row in clients:
        if row.follows is not None and row.follows not in {other.name for other in clients}:
            raise _broken(CLIENTS_FILE, f"{row.name}: follows {row.follows}, which is not in the table")


def _client(fields: _Fields) -> ClientRow:
    row = ClientRow(
        name=fields.text("name"),
        title=fields.text("title"),
        also=fields.texts("also"),
        support=fields.word("support", Support),
        usable_from=fields.version_or_none("usable_from"),
        recommended=fields.version_or_none("recommended"),
        wait=fields.flag("wait"),
        follows=fields.text_or_none("follows"),
        last_major=fields.number_or_none("last_major"),
        certainty=fields.word("certainty", Certainty),
        recommended_certainty=fields.word("recommended_certainty", Certainty),
        source=fields.text("source"),
        notes=fields.texts("notes"),
        defects=tuple(map(_defect, fields.inner("defects"))),
    )
    if row.support is not Support.FULL and (row.usable_from or row.recommended or row.wait):
        raise fields.wrong("has versions, though it is not of full support")
    if row.wait and row.recommended:
        raise fields.wrong("is recommended, and has to wait: which of the two?")
    return row


def _defect(fields: _Fields) -> Defect:
    found = Defect(
        id=fields.text("id"),
        what=fields.text("what"),
        fixed_in=fields.versions("fixed_in"),
        level=fields.word("level", DefectLevel),
        certainty=fields.word("certainty", Certainty),
    )
    fields.check_all_read()
    return found


def _broker_defect(fields: _Fields) -> BrokerDefect:
    return BrokerDefect(
        id=fields.text("id"),
        what=fields.text("what"),
        since=fields.version("since"),
        fixed_in=fields.versions("fixed_in"),
        level=fields.word("level", DefectLevel),
        targets=fields.some_of("targets", _PROTOCOLS, least=1),
        live=fields.flag("live"),
        static=fields.flag("static"),
        policies=fields.some_of("policies", _POLICIES),
        certainty=fields.word("certainty", Certainty),
    )


def _product(fields: _Fields) -> Product:
    return Product(
        name=fields.text("name"),
        what=fields.text("what"),
        source=fields.text("source"),
        certainty=fields.word("certainty", Certainty),
    )


class _File:
    def __init__(self, name: str, text: str, lists: Sequence[str]) -> None:
        import yaml  # imported here: few verbs read these files

        self._name = name
        try:
            data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise _broken(name, f"not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(data, dict):
            raise _broken(name, f"there is no table in it; it has {' and '.join(lists)}")
        if unknown := sorted(str(key) for key in data.keys() - set(lists)):
            raise _broken(name, f"nothing is called {', '.join(unknown)}; there are {', '.join(lists)}")
        self._data: Mapping[str, Any] = data

    def rows(self, of: str, read: Callable[[_Fields], _Row], key: str = "name") -> tuple[_Row, ...]:
        """All rows of a list, parsed; the list must not be empty, and no name may occur twice."""
        listed = self._data.get(of)
        if not isinstance(listed, list) or not listed:
            raise _broken(self._name, f"{of} is not a list of rows")
        found, names = [], set()
        for number, item in enumerate(listed, 1):
            fields = _Fields(self._name, f"{of}, row {number}", item, key)
            row = read(fields)
            fields.check_all_read()
            name = fields.text(key)
            if name in names:
                raise _broken(self._name, f"{of}: {name} is there twice")
            names.add(name)
            found.append(row)
        return tuple(found)


class _Fields:
    """The fields of a row. A missing, mistyped or unknown field is an error that names its place."""

    def __init__(self, file: str, place: str, item: object, key: str) -> None:
        self._file, self._place = file, place
        if not isinstance(item, dict):
            raise self.wrong("is not a row of fields")
        self._item: Mapping[str, Any] = item
        self._place = f"{place} ({item.get(key)})"
        self._asked: set[str] = set()

    def wrong(self, what: str) -> KgroupError:
        return _broken(self._file, f"{self._place} {what}")

    def check_all_read(self) -> None:
        if unknown := sorted(str(name) for name in self._item.keys() - self._asked):
            raise self.wrong(f"has fields that mean nothing: {', '.join(unknown)}")

    def _value(self, name: str) -> Any:
        self._asked.add(name)
        return self._item.get(name)

    def text(self, name: str) -> str:
        value = self._value(name)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"needs {name}, as text")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._value(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._value(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.wrong(f"needs {name} to be a list of texts")
        return tuple(value)

    def version(self, name: str) -> str:
        return self._checked(name, self.text(name))

    def version_or_none(self, name: str) -> str | None:
        # YAML numbers are rejected, because they lose the last zero: 4.10 is 4.1.
        return None if self._value(name) is None else self.version(name)

    def versions(self, name: str) -> tuple[str, ...]:
        if name not in self._item:
            raise self.wrong(f"needs {name}; an empty list says that it is open")
        return tuple(self._checked(name, text) for text in self.texts(name))

    def _checked(self, name: str, text: str) -> str:
        if parse_version(text) is None:
            raise self.wrong(f"has {name} {text}, which is no version")
        return text

    def flag(self, name: str) -> bool:
        value = self._value(name)
        if value not in (None, True, False):
            raise self.wrong(f"needs {name} to be true or false")
        return bool(value)

    def number_or_none(self, name: str) -> int | None:
        value = self._value(name)
        if value is not None and type(value) is not int:
            raise self.wrong(f"needs {name} to be a number")
        return value

    def word(self, name: str, words: type[_Word]) -> _Word:
        text = self.text(name)
        try:
            return words(text)
        except ValueError:
            raise self.wrong(f"has {name} {text}; it is {', '.join(words)}") from None

    def some_of(self, name: str, words: Sequence[str], least: int = 0) -> tuple[str, ...]:
        values = self.texts(name)
        if len(values) < least or not set(values) <= set(words):
            raise self.wrong(f"needs {name} to be of {', '.join(words)}")
        return values

    def inner(self, name: str) -> list[_Fields]:
        value = self._value(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(f"needs {name} to be a list of rows")
        return [_Fields(self._file, f"{self._place}, {name}, row {n}", item, "id") for n, item in enumerate(value, 1)]


def _text(name: str) -> str:
    try:
        return files("kgroup").joinpath("data", name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(name, f"can't be read: {error}") from error


def _broken(file: str, what: str) -> KgroupError:
    return KgroupError(
        f"kgroup/data/{file} is broken: {what}",
        hint="Install kgroup again; this file came with it",
        code="broken-data",
    )
