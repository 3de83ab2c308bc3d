"""Each document of the contracts has the fields of its Structs, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kgroup.groups.migration.rollout import FollowedGroup
from kgroup.queries.json_schemas import field_table, kinds_of, schema
from kgroup.support.json_line import one_line_json
from kgroup.support.json_types import ExplainedEnum
from tests.cli.test_app import COMMANDS, help_flag
from tests.helpers.command_line import CommandLine
from tests.helpers.json_documents import faults
from tests.settings.test_contexts import CHANGING

DATA = Path(__file__).with_name("data")
PLACEHOLDERS = {"<number>": 1, "<time>": "2026-01-01T00:00:00Z"}
TABLE = field_table()
OPTION = r"(?<![\w-])--[a-z][a-z-]*[a-z]"


def recorded() -> list[dict[str, Any]]:
    """The documents of the contracts, files included."""
    return [real(case["json"]) for case in cases() if isinstance(case.get("json"), dict)]


@cache
def cases() -> tuple[dict[str, Any], ...]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.yaml"))]
    return tuple(case for text in texts for case in yaml.load(text, Loader=loader))


def real(value: Any) -> Any:
    """A value with the types that placeholders are for."""
    if isinstance(value, dict):
        return {name: real(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [real(inner) for inner in value]
    return PLACEHOLDERS.get(value, value) if isinstance(value, str) else value


def test_each_recorded_document_has_the_fields_of_the_table() -> None:
    documents = recorded()

    assert {kind for kind in TABLE.kinds if not any(document["kind"] == kind for document in documents)} == {
        "kgroup/v1",  # these five are errors alone
        *(f"kgroup.{verb}/v1" for verb in ("catchup", "completion", "help", "sandbox")),
        "kgroup.catchup.stop/v1",  # its plan is that of list
        "kgroup.migrate.rollout/v1",
        "kgroup.sandbox.demo/v1",
    }
    assert list(dict.fromkeys(fault for document in documents for fault in faults(document))) == []


def test_a_rollout_has_the_fields_of_the_table() -> None:
    """No contract records one: it takes a group that is being upgraded."""
    rollout = json.loads(one_line_json(FollowedGroup("pay-svc", "consumer").rollout(0.0)))

    assert faults(of_kind("kgroup.migrate/v1") | {"kind": "kgroup.migrate.rollout/v1", "data": [rollout]}) == []


def of_kind(kind: str, has: Callable[[Any], bool] = lambda item: True) -> Any:
    """A recorded document that has data."""
    return next(doc for doc in recorded() if doc["kind"] == kind and any(has(item) for item in doc["data"]))


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("data", 0, "speed"), 1, "'speed' was unexpected"),
        (("data", 0, "partitions", 0, "speed"), 1, "'speed' was unexpected"),
        (("data", 0, "partitions", 0, "log_end"), "7", "'7' is not of type 'integer', 'null'"),
        (("data", 0, "partitions", 0, "topic"), None, "None is not of type 'string'"),
        (("data", 0, "source"), "hearsay", "'hearsay' is not one of ['coordinator', 'log', 'checkpoint']"),
        (("executed",), None, "None is not of type 'boolean'"),
        (("kind",), "kgroup.list/v1", "kgroup.list/v1"),
        (("kind",), "kgroup.list/v2", "kgroup.list/v2 is not a kind"),
    ],
)
def test_a_field_of_another_name_or_type_is_a_fault(path: tuple[Any, ...], value: Any, fault: str) -> None:
    document = at = of_kind("kgroup.describe/v1")
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value

    assert any(fault in text for text in faults(document)), faults(document)


@pytest.mark.parametrize("where", [("data", 0), ("data", 0, "partitions", 0), ()])
def test_a_field_that_is_missing_is_a_fault(where: tuple[Any, ...]) -> None:
    document = at = of_kind("kgroup.describe/v1")
    for step in where:
        at = at[step]
    missing = list(at)[-3]
    del at[missing]

    assert any(f"'{missing}' is a required property" in text for text in faults(document))


@pytest.mark.parametrize("kind", TABLE.kinds)
def test_a_schema_is_one_and_lets_later_versions_add_fields(kind: str) -> None:
    open_, closed = schema(kind), schema(kind, closed=True)

    for each in (open_, closed):
        Draft202012Validator.check_schema(each)
    assert "additionalProperties" not in open_["$defs"]["error"]
    assert closed["$defs"]["error"]["additionalProperties"] is False


def test_each_shape_and_enumeration_is_used_and_exists() -> None:
    used = {name for kind in TABLE.kinds for name in TABLE.shapes_of(kind)}

    assert used == {*TABLE.shapes, *TABLE.enumerations} - {"envelope"}


ENDINGS = {"instant": "_at", "epoch ms": "_at_ms", "ms": "_ms"}
OTHER_NAMES = {"at", "timestamp", "timestamp_ms", "as_of", "from"}
"""Instants of a document and of a record, of an export, and where a scan begins."""


def test_a_name_shows_its_type() -> None:
    """Instants end in _at, milliseconds since 1970 in _at_ms, durations in _ms, numbers of things in _count."""
    fields = [
        (f"{shape}.{field.name}", field.name, field.type.removesuffix(" or null"))
        for shape, fields in TABLE.shapes.items()
        for field in fields
        if field.name not in OTHER_NAMES
    ]

    assert [place for place, name, type_ in fields if type_ in ENDINGS and not name.endswith(ENDINGS[type_])] == []
    assert [place for place, name, type_ in fields if name.endswith("_ms") and type_ not in ENDINGS] == []
    assert [place for place, name, type_ in fields if name.endswith("_at") and type_ != "instant"] == []
    assert [place for place, name, type_ in fields if name.endswith("_count") and "count" not in type_] == []
    assert [place for place, name, type_ in fields if type_.startswith("list of") and name.endswith("_count")] == []


NUMBERS = ("bytes", "count", "epoch ms", "integer", "ms", "number", "offset", "per second")
FORMS = {**dict.fromkeys(NUMBERS, "number"), "boolean": "boolean", "any": "any"}
SEVERAL_FORMS = {"id", "key", "value", "partition_count", "rebalance_count", "moved_partition_count"}
"""Ids of Kafka are numbers, of checks words; keys and values are of records and settings; a simulation has ranges."""


def test_a_name_has_one_form_in_all_documents() -> None:
    """A list in one place is a list everywhere, and what is a number is nowhere a text."""
    found: dict[str, set[str]] = {}
    for fields in TABLE.shapes.values():
        for field in fields:
            type_ = field.type.removesuffix(" or null")
            form = type_.split()[0] if type_.startswith(("list of", "map of")) else FORMS.get(type_)
            found.setdefault(field.name, set()).add(form or ("object" if type_ in TABLE.shapes else "text"))

    assert {name for name, forms in found.items() if len(forms) > 1} == SEVERAL_FORMS


def test_each_meaning_is_a_sentence() -> None:
    lines = [(f"{shape}.{field.name}", field.meaning) for shape, fields in TABLE.shapes.items() for field in fields]
    lines += [(kind.name, kind.meaning) for kind in TABLE.kinds.values()]

    assert [line for line in lines if not (line[1][:1].isupper() or line[1][:1].islower()) or line[1][-1] != "."] == []


def test_values_of_enumerations_are_kebab_case() -> None:
    """Those of Kafka's settings isolation.level and process.roles are as Kafka writes them."""
    values = {(name, value) for name, values in TABLE.enumerations.items() for value in values}
    others = {name for name, value in values if not re.fullmatch(r"[a-z]+(-[a-z]+)*", value)}

    assert others == {"isolation", "process role"}


def test_each_value_has_a_meaning() -> None:
    """Two are null in JSON."""
    kinds = [class_ for class_ in ExplainedEnum.__subclasses__() if class_.__module__.startswith("kgroup.")]

    without = {f"{kind.__name__}.{value.name}" for kind in kinds for value in kind if not value.meaning}
    assert without == {"LagTrend.UNKNOWN", "MigrationPath.NONE"}


def test_each_verb_has_a_kind() -> None:
    assert [" ".join(words) for words in COMMANDS if not kinds_of(" ".join(words))] == []
    assert {kind.verb.split()[0] for kind in TABLE.kinds.values()} <= {words[0] for words in COMMANDS} | {"kgroup"}


def test_the_options_that_its_meanings_name_exist(kgroup_cli: CommandLine) -> None:
    """In a kind's meaning, options of its own verb or of one that it names; in a shape, of any verb."""
    table = str(TABLE)
    pages = {" ".join(words): kgroup_cli(*words, help_flag(words)).stdout for words in COMMANDS}
    known = {verb: set(re.findall(OPTION, page)) for verb, page in pages.items()}
    known["kgroup"] = set(re.findall(OPTION, kgroup_cli("--help").stdout)).union(*known.values())
    connection = set(re.findall(OPTION, kgroup_cli("help", "connection").stdout))

    assert "--as-of" in re.findall(OPTION, table)
    assert sorted(set(re.findall(OPTION, table)) - known["kgroup"] - connection) == []
    for kind in TABLE.kinds.values():
        named = {verb for verb in known if verb == kind.verb or f"kgroup {verb} " in kind.meaning}
        assert set(re.findall(OPTION, kind.meaning)) <= {option for verb in named for option in known[verb]}, kind.name


@pytest.mark.parametrize("words", [[], *COMMANDS, ["catchup"], ["context"], ["sandbox"]], ids=" ".join)
def test_an_error_has_the_same_shape_for_each_verb(kgroup_cli: CommandLine, words: list[str]) -> None:
    document = kgroup_cli(*words, "--no-such-option", "-o", "json", exit_code=2).json

    assert faults(document) == []
    assert document["kind"] == ".".join(["kgroup", *words]) + "/v1"
    assert (document["data"], [error["code"] for error in document["errors"]]) == ([], ["usage"])


READING = (
    *("list", "describe g", "lag g", "peek g", "doctor g", "history g", "wait g --for empty", "simulate g --add 1"),
    *("export g", "catchup list", "catchup show cu-2222"),
)


@pytest.mark.parametrize("words", [*map(str.split, READING), *CHANGING.values()], ids=" ".join)
def test_a_broker_that_is_not_there_is_the_same_error_for_each_verb(kgroup_cli: CommandLine, words: list[str]) -> None:
    document = kgroup_cli(*words, "-b", "127.0.0.1:1", "-o", "json", exit_code=3).json

    assert (document["executed"], document["cluster"], document["data"]) == (False, None, [])
    assert [error["code"] for error in document["errors"]] == ["unreachable"]
    assert document["errors"][0]["message"] == "127.0.0.1:1 refused the connection"


def test_kinds_are_found_by_verb_group_of_verbs_and_name() -> None:
    assert [kind.name for kind in kinds_of("lag")] == ["kgroup.lag/v1"]
    assert "kgroup.migrate.rollout/v1" in [kind.name for kind in kinds_of("migrate")]
    assert {kind.verb for kind in kinds_of("sandbox")} >= {"sandbox up", "sandbox down", "sandbox status"}
    assert [kind.name for kind in kinds_of("kgroup.undo.types/v1")] == ["kgroup.undo.types/v1"]
    assert kinds_of("no-such") == ()
