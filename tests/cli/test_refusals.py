"""Each code of a refusal is declared once, where it is raised, and help knows all of them."""

from __future__ import annotations

import ast

from kgroup.cli.refusals import DATA, REFUSALS
from kgroup.model.accept_codes import ACCEPTED
from tests.helpers.parsing import parsed
from tests.helpers.places import ROOT
from tests.helpers.refusal_codes import data_file, declared

TREES = {path: parsed(path) for path in (ROOT / "kgroup").rglob("*.py")}


def test_help_knows_what_the_modules_declare() -> None:
    assert data_file() == DATA.read_text(encoding="utf-8"), "make the file again: python -m tests.generate"
    assert list(REFUSALS) == [each["code"] for each in declared().values()]


def test_each_code_is_declared_once_and_raised() -> None:
    codes = [each["code"] for each in declared().values()]
    loaded = {
        node.id
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert "not-empty" in codes
    assert len(codes) == len(set(codes))
    assert sorted(set(declared()) - loaded) == []


def test_an_error_has_the_constant_of_its_code() -> None:
    """A string would be explained nowhere, or in a module that nobody looks for."""
    codes = {each["code"] for each in declared().values()}
    strings = [
        f"{path.relative_to(ROOT)}:{node.lineno} {value.value!s}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for value in (
            *(each.value for each in node.keywords if each.arg == "code"),
            *(node.args[:1] if ast.unparse(node.func) in ("RowError", "_refuse") else ()),
        )
        if isinstance(value, ast.Constant) and value.value in codes
    ]
    assert strings == []


def test_accept_passes_refusals() -> None:
    assert {code for codes in ACCEPTED.values() for code in codes} <= set(REFUSALS)
