"""What fuzz tests share: a quick run that is the same every time and a long one that never is, broken bytes, and
nasty names.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import msgspec.structs
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kgroup.cluster.offsets_topic.events import ending_of, event_of
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.model.group_log import Event
from tests.helpers.places import DATA

T = TypeVar("T")

LONG = 800
QUICK_AND_LONG = pytest.mark.parametrize("examples", [40, pytest.param(LONG, marks=pytest.mark.soak)])
"""For tests that call ``fuzz``: the everyday run, and the soak."""

SEED = int(os.environ.get("KGROUP_TEST_SEED") or random.SystemRandom().randrange(2**32))
"""Of the long runs of this process; a failed test prints it, and the variable repeats it."""

LINES = [json.loads(line) for line in (DATA / "records.jsonl").read_text("utf-8").splitlines()]
REAL = [
    (bytes.fromhex(line["key"]), None if line["value"] is None else bytes.fromhex(line["value"]))
    for line in LINES
    if line["kind"] in ("record", "skipped")
]
"""Records as Kafka's own classes write them: key and value."""

NASTY = (
    "",
    "\x00",
    "a\x1b[31mred",
    "line\r\nbreak\ttab",
    "\u202egnirts",
    "\u200f\u2066x\u2069",
    "\ud800",
    "e\u0301\u0301\u0301",
    "\U0001f9d1\u200d\U0001f680",
    "[bold]x[/bold]",
    "[/]",
    "|`*_\\",
    "=cmd()",
    "x" * 300,
    "\uff21" * 60,
    "-",
    "a" * 249,
)
"""Names that no cluster should have, and some do: control characters, right to left, markup, half a character."""


def fuzz(examples: int, strategy: st.SearchStrategy[T], check: Callable[[T], None]) -> None:
    """Let ``check`` loose on so many examples: few are always the same, so that a change alone can make it fail; many
    are others each time.
    """
    sys.stdout.write(f"KGROUP_TEST_SEED={SEED}\n")

    def one(example: T) -> None:
        check(example)

    run = seed(SEED)(given(strategy)(one))
    settings(
        max_examples=examples,
        derandomize=examples < LONG,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )(run)()


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes in which a few were changed, taken out or put in, or the end is gone."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(("set", "set", "cut", "put", "end"))):
            case "set" if data:
                data[at] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 9))]
            case "put":
                data[at:at] = draw(st.binary(min_size=1, max_size=9))
            case "end":
                del data[at:]
    return bytes(data)


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A key and a value: Kafka's own, of one record or of two, broken or not; or anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60)), draw(st.none() | st.binary(max_size=120))
    key, value = draw(st.sampled_from(REAL))
    if draw(st.integers(0, 9)) == 0:
        value = draw(st.sampled_from(REAL))[1]
    if draw(st.integers(0, 4)) == 0:
        key = draw(broken(st.just(key)))
    if value is not None and draw(st.booleans()):
        value = draw(broken(st.just(value)))
    return key, value


def renamed(value: Any, name: Callable[[str], str]) -> Any:
    """The same value, tuple or set with every text in it replaced; members of enumerations are no texts."""
    match value:
        case Enum():
            return value
        case str():
            return name(value)
        case tuple():
            items = [renamed(item, name) for item in value]
            return value._make(items) if hasattr(value, "_make") else tuple(items)
        case frozenset():
            return frozenset(renamed(item, name) for item in value)
        case msgspec.Struct():
            texts = {field: renamed(getattr(value, field), name) for field in value.__struct_fields__}
            return msgspec.structs.replace(value, **texts)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: renamed(getattr(value, f.name), name) for f in fields(value)})
        case _:
            return value


def events_of(entries: Sequence[RawRecord | Marker], topics: Mapping[str, str] | None = None) -> tuple[Event, ...]:
    """The events of entries in the log's order, each with the marker behind it, as the readers pair them."""
    ends: dict[int, Marker] = {}
    found: list[Event] = []
    for entry in reversed(entries):
        if isinstance(entry, Marker):
            ends[entry.producer_id] = entry
            continue
        end = None if entry.producer_id is None else ends.get(entry.producer_id)
        if (event := event_of(entry, ending_of(entry, end), topics or {})) is not None:
            found.append(event)
    return tuple(reversed(found))
