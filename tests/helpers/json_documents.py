"""What is wrong with a JSON document by its kind: a missing or unknown field, a type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from kgroup.model.outcome import Outcome, json_form
from kgroup.queries.json_schemas import field_table, schema
from kgroup.support.json_line import plain

_LONGEST = 300


def documents(outcome: Outcome) -> list[dict[str, Any]]:
    """The data of an outcome as JSON has it."""
    return [plain(json_form(item)) for item in outcome.data]


def faults(document: Any) -> list[str]:
    """The faults of a document; none: it has all fields of its kind, and no others."""
    kind = document.get("kind")
    if kind not in field_table().kinds:
        return [f"{kind} is not a kind of json_kinds.yaml"]
    return [f"{kind} {text}" for error in _validator(kind).iter_errors(document) for text in _texts(error)]


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(schema(kind, closed=True), format_checker=Draft202012Validator.FORMAT_CHECKER)


def _texts(error: ValidationError) -> Iterator[str]:
    """One text; of a value that fits none of several shapes, the faults by the shape that it is nearest to."""
    if error.validator != "anyOf" or not error.context:
        yield f"{error.json_path}: {error.message[:_LONGEST]}"
        return
    by_shape: dict[object, list[str]] = {}
    for inner in error.context:
        if error.instance is None or not _is_null(inner):
            by_shape.setdefault(inner.schema_path[0], []).extend(_texts(inner))
    yield from min(by_shape.values(), key=len)


def _is_null(error: ValidationError) -> bool:
    """Whether null was the only value that would have been valid."""
    return bool(error.validator == "type" and error.validator_value == "null")
