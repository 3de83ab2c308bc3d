"""Each code of a refusal is declared once, where it is raised, and help knows all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from kgroup.cli.refusals import DATA, REFUSALS
from kgroup.model.accept_codes import ACCEPTED
from tests.helpers.parsing import parsed
from tests.helpers.places import ROOT
from tests.helpers.refusal_codes import data_file, declared


@cache
def used() -> tuple[frozenset[str], tuple[tuple[str, object], ...]]:
    """The names that the modules read, and (place, value) of each constant that may be the code of an error."""
    names, values = set[str](), list[tuple[str, object]]()
    for path in (ROOT / "kgroup").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.Call):
                values += [(f"{path.relative_to(ROOT)}:{node.lineno}", each.value) for each in constants_of(node)]
    return frozenset(names), tuple(values)


def constants_of(call: ast.Call) -> Iterator[ast.Constant]:
    """What may be the code of the error that the call makes."""
    codes = [each.value for each in call.keywords if each.arg == "code"]
    if isinstance(call.func, ast.Name) and call.func.id in ("RowError", "_refuse"):
        codes += call.args[:1]
    yield from (each for each in codes if isinstance(each, ast.Constant))


def test_help_knows_what_the_modules_declare() -> None:
    assert data_file() == DATA.read_text(encoding="utf-8"), "make the file again: python -m tests.generate"
    assert list(REFUSALS) == [each["code"] for each in declared().values()]


def test_each_code_is_declared_once_and_raised() -> None:
    codes = [each["code"] for each in declared().values()]
    names, _ = used()
    assert "not-empty" in codes
    assert len(codes) == len(set(codes))
    assert sorted(set(declared()) - names) == []


def test_an_error_has_the_constant_of_its_code() -> None:
    """A string would be explained nowhere, or in a module that nobody looks for."""
    codes = {each["code"] for each in declared().values()}
    _, values = used()
    strings = [f"{place} {value!s}" for place, value in values if value in codes]
    assert strings == []


def test_accept_passes_refusals() -> None:
    assert {code for codes in ACCEPTED.values() for code in codes} <= set(REFUSALS)
