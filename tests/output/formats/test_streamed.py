"""A JSON or YAML document that is written while its data arrives."""

from __future__ import annotations

import io
import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Any

import msgspec
import pytest
import yaml

from kgroup.model.blocks import Records, Screen
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.formats.envelope import of_outcomes
from kgroup.output.formats.streamed import HELD_SUBJECTS
from kgroup.output.present import present
from kgroup.output.remarks import Remarks
from kgroup.output.reporter import StderrReporter
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode, NotAuthorized, NotFound, Unreachable
from kgroup.support.json_line import plain

CLUSTER = ClusterRef("cluster-1", "b1:9092", "prod")
LOADED: dict[Format, Callable[[str], Any]] = {Format.JSON: json.loads, Format.YAML: yaml.safe_load}
FORMS = list(LOADED)
MANY = 50


class Form(msgspec.Struct):
    """The JSON form of a subject."""

    group: str
    partitions: list[dict[str, Any]]
    verdict: dict[str, Any]


class Subject:
    """A group; it can be referred to weakly."""

    def __init__(self, name: str) -> None:
        self.name = name

    def document(self) -> Form:
        return Form(self.name, [{"topic": "grüße\x1b", "lag": None}], {})


def outcome(*subjects: Subject, **other: Any) -> Outcome:
    return Outcome(
        tuple(each.document for each in subjects),
        lambda: Screen(()),
        lambda: Records((), ()),
        **{"cluster": CLUSTER} | other,
    )


def show(outcomes: Iterator[Outcome], form: Format) -> tuple[ExitCode, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    reporter = StderrReporter(err)
    reporter.note("some rights are unknown")
    with redirect_stdout(out):
        code = present("describe", outcomes, form, ("kgroup",), reporter)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 20, 21, MANY])
def test_the_document_is_the_same_however_many_subjects_there_are(form: Format, count: int) -> None:
    failed = RowError.of(NotFound("gone"), group="a")
    outcomes = [outcome(Subject(f"g{number}"), errors=(failed,) * (number == 3)) for number in range(count)]

    _, stdout, _ = show(iter(outcomes), form)

    expected = of_outcomes("describe", outcomes, Remarks(notes=("some rights are unknown",)))
    assert json.dumps(LOADED[form](stdout)) == json.dumps(plain(expected))


def test_many_subjects_have_a_line_each() -> None:
    _, stdout, _ = show(iter([outcome(*(Subject(f"g{number}") for number in range(MANY)), executed=True)]), Format.JSON)

    lines = stdout.splitlines()
    assert lines[0] == "{"
    assert lines[1:4] == [
        '  "kind": "kgroup.describe/v1",',
        '  "cluster": {"id":"cluster-1","context":"prod","bootstrap_servers":"b1:9092"},',
        '  "executed": true,',
    ]
    assert lines[4] == '  "data": ['
    assert [json.loads(line.rstrip(","))["group"] for line in lines[5 : 5 + MANY]] == [f"g{n}" for n in range(MANY)]
    assert lines[5 + MANY :] == [
        "  ],",
        '  "errors": [],',
        '  "warnings": [],',
        '  "notes": [',
        '    "some rights are unknown"',
        "  ]",
        "}",
    ]


@pytest.mark.parametrize("form", FORMS)
def test_only_the_first_subjects_are_held(form: Format) -> None:
    subjects: list[weakref.ref[Subject]] = []
    most = 0

    def outcomes() -> Iterator[Outcome]:
        nonlocal most
        for number in range(MANY):
            subject = Subject(f"g{number}")
            subjects.append(weakref.ref(subject))
            yield outcome(subject)
            del subject
            most = max(most, sum(reference() is not None for reference in subjects))

    assert len(LOADED[form](show(outcomes(), form)[1])["data"]) == MANY
    assert most <= HELD_SUBJECTS


@pytest.mark.parametrize("form", FORMS)
def test_an_error_in_the_midst_is_the_last_one_of_the_document(form: Format) -> None:
    def outcomes() -> Iterator[Outcome]:
        yield outcome(*(Subject(f"g{number}") for number in range(MANY)), errors=(RowError.of(NotAuthorized("no")),))
        raise Unreachable("broker 1 is gone")

    code, stdout, stderr = show(outcomes(), form)

    document = LOADED[form](stdout)
    assert (code, len(document["data"])) == (Unreachable("").exit_code, MANY)
    assert [error["message"] for error in document["errors"]] == ["no", "broker 1 is gone"]
    assert "broker 1 is gone" in stderr
