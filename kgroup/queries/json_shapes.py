"""The shapes of JSON documents, read from the Structs that they are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, EnumType
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from kgroup.support.errors import KgroupError

_TYPES = {str: "text", bool: "boolean", int: "integer", float: "number", Any: "any"}


class Field(msgspec.Struct, frozen=True):
    """A field of a shape. ``optional``: it is missing where it does not apply; every other field is always there.

    ``type`` is one of ``json_schemas.PRIMITIVES``, a shape or an enumeration; ``list of member or null``.
    """

    name: str
    type: str
    meaning: str
    optional: bool = False


class Shapes(msgspec.Struct):
    """The fields of each Struct, and the values of each enumeration with their meanings, by name."""

    fields: dict[str, tuple[Field, ...]] = msgspec.field(default_factory=dict)
    enumerations: dict[str, Mapping[str, str]] = msgspec.field(default_factory=dict)

    def add(self, place: str) -> str:
        """Add the Struct at ``module:Class`` and all within it, and return its name.

        Raises KgroupError if a field has no meaning.
        """
        module, _, name = place.partition(":")
        return _type(getattr(import_module(module), name), self)


def _add(struct: type[msgspec.Struct], shapes: Shapes) -> None:
    shapes.fields[_words(struct)] = ()  # its place comes before that of inner ones, and one may have itself within
    hints = get_type_hints(struct, include_extras=True)
    shapes.fields[_words(struct)] = tuple(
        _field(f"{struct.__name__}.{name}", in_json, hints[name], shapes)
        for name, in_json in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    )


def _field(place: str, name: str, hint: Any, shapes: Shapes) -> Field:
    inner, *texts = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    named: list[Any]
    *named, meaning = (text for text in texts if isinstance(text, str | EnumType)) if texts else ("",)
    if not meaning:
        raise KgroupError(f"{place} has no meaning: Annotated[TYPE, MEANING]")
    words = named[0] if named else _type(inner, shapes)
    if isinstance(words, EnumType):
        words = _type(words, shapes) + " or null" * (NoneType in get_args(inner))
    return Field(name, str(words), str(meaning), msgspec.UnsetType in get_args(inner))


def _type(hint: Any, shapes: Shapes, *, within: bool = False) -> str:
    """The words for a type; a Struct or an enumeration is added to the shapes."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _TYPES:
        return _TYPES[hint]
    if origin is Annotated:
        return str(inner[1])
    if origin in (Union, UnionType):
        text = _type(next(each for each in inner if each not in (NoneType, msgspec.UnsetType)), shapes, within=within)
        return text if NoneType not in inner else f"nullable {text}" if within else f"{text} or null"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"map of {_type(inner[1], shapes, within=True)}"
    if origin is not None:
        return f"list of {_type(inner[0], shapes, within=True)}"
    if issubclass(hint, Enum):
        shapes.enumerations[_words(hint)] = {
            getattr(each, "code", each.value): each.meaning for each in hint if each.meaning
        }
    elif _words(hint) not in shapes.fields:
        _add(hint, shapes)
    return _words(hint)


def _words(class_: type) -> str:
    """``used context`` for ``UsedContext``; ``diagnosis`` for ``DiagnosisDocument``, made of a ``Diagnosis``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", class_.__name__.removesuffix("Document")).lower()
