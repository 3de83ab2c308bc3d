"""The fields of documents, read from Structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest

from kgroup.queries.json_shapes import Field, Shapes
from kgroup.support.errors import KgroupError
from kgroup.support.json_types import Count, ExplainedEnum, Instant


class LagStatus(ExplainedEnum):
    """An enumeration."""

    OK = "ok", "it keeps up"
    UNKNOWN = "unknown"


class InnerShape(msgspec.Struct):
    """Within another."""

    outer: Annotated[OuterShape | None, "The outer one."]


class OuterShape(msgspec.Struct):
    """Every form of type."""

    text: Annotated[str, "A text."]
    count: Annotated[Count, "A count."]
    rate: Annotated[float | None, "A rate."]
    status: Annotated[LagStatus | None, "A status."]
    source: Annotated[str | None, "source or null", "Of a named enumeration."]
    code: Annotated[str | None, LagStatus, "The text of a status."]
    inner: Annotated[tuple[InnerShape, ...] | None, "Others."]
    counts: Annotated[Mapping[str, Count | None], "Some counts."]
    value: Annotated[Any, "Anything."] = msgspec.field(name="as_json")
    at: Annotated[Instant | msgspec.UnsetType, "When."] = msgspec.UNSET


class WithoutMeaning(msgspec.Struct):
    """A field that nobody explains."""

    lag: int


def test_a_shape_is_read_from_a_struct_and_those_within_it() -> None:
    found = Shapes()
    name, shapes = found.add(f"{__name__}:OuterShape"), found.fields

    assert (name, list(shapes)) == ("outer shape", ["outer shape", "inner shape"])
    assert found.enumerations == {"lag status": {"ok": "it keeps up"}}
    assert shapes["inner shape"] == (Field("outer", "outer shape or null", "The outer one."),)
    assert [(field.name, field.type) for field in shapes["outer shape"]] == [
        ("text", "text"),
        ("count", "count"),
        ("rate", "number or null"),
        ("status", "lag status or null"),
        ("source", "source or null"),
        ("code", "lag status or null"),
        ("inner", "list of inner shape or null"),
        ("counts", "map of nullable count"),
        ("as_json", "any"),
        ("at", "instant"),
    ]
    assert [field.name for field in shapes["outer shape"] if field.optional] == ["at"]


def test_a_field_without_a_meaning_is_an_error() -> None:
    with pytest.raises(KgroupError, match=r"WithoutMeaning\.lag has no meaning"):
        Shapes().add(f"{__name__}:WithoutMeaning")
