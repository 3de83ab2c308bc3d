"""The refusals that kgroup's modules declare with ``refusal_code``, read from the sources."""

from __future__ import annotations

import ast
import inspect
import json
from functools import cache
from typing import Any

from kgroup.support.errors import refusal_code
from tests.helpers.parsing import parsed
from tests.helpers.places import ROOT


@cache
def declared() -> dict[str, dict[str, Any]]:
    """The arguments of each declaration by the name of its constant, in the order of verbs and codes."""
    found: dict[str, dict[str, Any]] = {}
    for path in (ROOT / "kgroup").rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                name, call = ast.unparse(node.targets[0]), node.value
                if ast.unparse(call.func) == "refusal_code":
                    assert name not in found, f"{name} is declared twice"
                    words = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
                    bound = inspect.signature(refusal_code).bind(*map(ast.literal_eval, call.args), **words)
                    found[name] = dict(bound.arguments)
    return dict(sorted(found.items(), key=lambda item: (item[1]["verbs"], item[1]["code"])))


def data_file() -> str:
    """The text of ``kgroup/data/refusals.json``: a code a line."""
    return "[\n" + ",\n".join(map(json.dumps, declared().values())) + "\n]\n"
