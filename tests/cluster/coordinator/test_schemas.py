"""The messages that kgroup brings itself are those of Kafka: their fields are compared with the schemas in its jar.

What the tests send and forge (``tests.helpers.conversion``, ``tests.helpers.kafka_proxy``) is made of the same files,
so that a wrong field would be wrong on both sides.
"""

from __future__ import annotations

import json
import re
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from kgroup.cluster.coordinator import schemas
from kgroup.sandbox.cluster import find_distribution
from tests.helpers.command_line import QuietReporter

OURS = {path.name: path.read_text() for path in files(schemas).iterdir() if path.name.endswith(".json")}
ON_THE_WIRE = ("name", "versions", "nullableVersions", "taggedVersions", "tag")
"""What decides over the bytes of a field, beside its type and its own fields."""


def parsed(text: str) -> dict[str, Any]:
    """A schema without the lines of comment."""
    return dict(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)))


def on_the_wire(schema: dict[str, Any]) -> dict[str, Any]:
    """Api key, versions and fields, the common structs where they are used."""
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}

    def shape(field: dict[str, Any]) -> dict[str, Any]:
        name = field["type"].removeprefix("[]")
        own = field.get("fields") or common.get(name, ())
        kind = field["type"].replace(name, "struct") if own else field["type"]
        return {**{key: field.get(key) for key in ON_THE_WIRE}, "type": kind, "fields": [shape(one) for one in own]}

    facts = {key: schema[key] for key in ("apiKey", "type", "name", "validVersions", "flexibleVersions")}
    return {**facts, "fields": [shape(field) for field in schema["fields"]]}


@pytest.fixture(scope="module")
def jar() -> Path:
    """The jar of Kafka's clients."""
    paths = find_distribution(None, QuietReporter()).classpath
    return next(path for path in paths if path.name.startswith("kafka-clients-"))


@pytest.mark.parametrize("name", sorted(OURS))
def test_they_are_kafkas_own(jar: Path, name: str) -> None:
    with zipfile.ZipFile(jar) as archive:
        theirs = parsed(archive.read(f"common/message/{name}").decode())
    assert on_the_wire(parsed(OURS[name])) == on_the_wire(theirs)
    assert on_the_wire(theirs)["fields"]
