"""The JSON Schema (2020-12) of each kind of document, made from its Structs and ``kgroup/data/json_kinds.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from kgroup.queries.data_files import read_tables
from kgroup.queries.json_shapes import Field, Shapes

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PAGE = "docs/reference/json.md in kgroup's repository has the same fields as a page"

_PRIMITIVES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "count": {"type": "integer", "minimum": 0},
    "number": {"type": "number"},
    "offset": {"type": "integer", "minimum": 0},
    "bytes": {"type": "integer", "minimum": 0, "unit": "bytes"},
    "ms": {"type": "integer", "unit": "milliseconds"},
    "per second": {"type": "number", "unit": "1/s"},
    "instant": {"type": "string", "format": "date-time"},
    "epoch ms": {"type": "integer", "unit": "milliseconds since 1970-01-01T00:00:00Z"},
    "any": {},
}
PRIMITIVES = {
    "text": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "count": "an integer, 0 or more",
    "number": "a number",
    "offset": "an offset of a log, or a number of offsets: an integer, 0 or more",
    "bytes": "a number of bytes: an integer, 0 or more",
    "ms": "a duration in milliseconds: an integer",
    "per second": "a rate per second: a number",
    "instant": "an instant in RFC 3339, in UTC: a string",
    "epoch ms": "an instant in milliseconds since 1970-01-01T00:00:00Z: an integer",
    "any": "any JSON value",
}
"""The types that are neither Structs nor enumerations, and what they are."""


class Kind(msgspec.Struct, frozen=True):
    """A kind of document: which verb writes it, and the shapes of the items of ``data``; none: ``data`` is empty."""

    name: str
    verb: str
    meaning: str
    data: tuple[str, ...]


class FieldTable(msgspec.Struct, frozen=True):
    """The whole table. ``enumerations`` has the values of each and their meanings."""

    kinds: Mapping[str, Kind]
    shapes: Mapping[str, tuple[Field, ...]]
    enumerations: Mapping[str, Mapping[str, str]]

    def named_in(self, type_: str) -> str:
        """The shape, enumeration or primitive that a type is about. Raises KeyError if there is none of that name."""
        name = re.sub(r"^nullable ", "", re.sub(r"^(list|map) of ", "", type_.removesuffix(" or null")))
        if name not in self.shapes and name not in self.enumerations and name not in _PRIMITIVES:
            raise KeyError(name)
        return name

    def in_order_of_use(self) -> FieldTable:
        """The same table, with shapes and enumerations in the order in which the kinds need them."""
        names = dict.fromkeys(("envelope", *(name for kind in self.kinds for name in self.shapes_of(kind))))
        return FieldTable(
            self.kinds,
            {name: self.shapes[name] for name in names if name in self.shapes},
            {name: self.enumerations[name] for name in names if name in self.enumerations},
        )

    def shapes_of(self, kind: str) -> tuple[str, ...]:
        """The shapes and enumerations that a kind needs, the outer before the inner."""
        found: dict[str, None] = {}

        def add(names: Iterable[str]) -> None:
            for name in names:
                if name not in found and name not in _PRIMITIVES:
                    found[name] = None
                    add(self.named_in(field.type) for field in self.shapes.get(name, ()))

        add(self.kinds[kind].data)
        add(("cluster", "error"))
        return tuple(found)


@cache
def field_table() -> FieldTable:
    """The table of the package. Raises KgroupError if the file is damaged."""
    return read_tables(_table, "json_kinds.yaml")


def kinds_of(verb: str) -> tuple[Kind, ...]:
    """The kinds that a verb writes: ``catchup start``, or all of ``catchup``; also a kind by its name."""
    return tuple(
        kind
        for kind in field_table().kinds.values()
        if verb in (kind.name, kind.verb) or kind.verb.startswith(f"{verb} ")
    )


def schema(kind: str, *, closed: bool = False) -> dict[str, Any]:
    """The schema of a kind. Later versions of kgroup may add fields; ``closed`` refuses those that are not named here.

    Raises KeyError for an unknown kind.
    """
    table = field_table()
    about = table.kinds[kind]
    items = [{"$ref": f"#/$defs/{_key(shape)}"} for shape in about.data]
    data = {"items": items[0] if len(items) == 1 else {"anyOf": items}} if items else {"maxItems": 0}
    envelope = _object(table, table.shapes["envelope"], closed=closed)
    envelope["properties"]["kind"] = {"const": kind}
    envelope["properties"]["data"] |= data
    return {
        "$schema": DIALECT,
        "$id": f"urn:kgroup:{kind}",
        "title": kind,
        "description": about.meaning,
        "$comment": _PAGE,
        **envelope,
        "$defs": {
            _key(name): _object(table, table.shapes[name], closed=closed)
            if name in table.shapes
            else {"enum": list(table.enumerations[name])}
            for name in table.shapes_of(kind)
        },
    }


def _object(table: FieldTable, fields: Iterable[Field], *, closed: bool) -> dict[str, Any]:
    fields = tuple(fields)
    return {
        "type": "object",
        "properties": {field.name: {**_type(table, field.type), "description": field.meaning} for field in fields},
        "required": [field.name for field in fields if not field.optional],
        **({"additionalProperties": False} if closed else {}),
    }


def _type(table: FieldTable, text: str) -> dict[str, Any]:
    if text.endswith(" or null"):
        return _nullable(_type(table, text.removesuffix(" or null")))
    if text.startswith("list of "):
        return {"type": "array", "items": _type(table, text.removeprefix("list of "))}
    if text.startswith("map of "):
        return {"type": "object", "additionalProperties": _type(table, text.removeprefix("map of "))}
    if text.startswith("nullable "):
        return _nullable(_type(table, text.removeprefix("nullable ")))
    return dict(_PRIMITIVES[text]) if text in _PRIMITIVES else {"$ref": f"#/$defs/{_key(table.named_in(text))}"}


def _nullable(inner: dict[str, Any]) -> dict[str, Any]:
    return {**inner, "type": [inner["type"], "null"]} if "type" in inner else {"anyOf": [inner, {"type": "null"}]}


def _key(name: str) -> str:
    return name.replace(" ", "-")


def _table(tables: Mapping[str, Any]) -> FieldTable:
    shapes = Shapes()
    kinds = {
        name: Kind(name, row["verb"], row["meaning"], tuple(map(shapes.add, row["data"])))
        for name, row in tables["kinds"].items()
    }
    shapes.add("kgroup.model.envelope:Envelope")
    return FieldTable(kinds, shapes.fields, shapes.enumerations).in_order_of_use()
