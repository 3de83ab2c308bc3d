"""The rights that verbs need, from their docstrings; those with ``Rights: as VERB`` share the row of that verb."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

from kgroup.cli.verbs import VERBS
from tests.helpers.parsing import parsed
from tests.helpers.places import ROOT


def data_file() -> str:
    """The text of ``kgroup/data/rights.json``: a row a line."""
    rows: dict[str, tuple[list[str], str, str]] = {}
    for name, docstring in _docstrings():
        rights = " ".join(docstring.partition("Rights:")[2].split())
        least, _, more = rights.partition(" More rights: ")
        if least.startswith("as "):
            rows[least.removeprefix("as ")][0].append(name)
        elif least:
            rows[name] = [name], least, more
    made = (json.dumps([", ".join(names).replace(", catchup ", ", "), *rights]) for names, *rights in rows.values())
    return "[\n" + ",\n".join(made) + "\n]\n"


def _docstrings() -> Iterator[tuple[str, str]]:
    """Verbs in the order of help. Read from the sources: importing the verbs would read the file that is made."""
    for verb in VERBS:
        module, _, function = verb.target.partition(":")
        tree = parsed(ROOT.joinpath(*module.split(".")).with_suffix(".py"))
        texts = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
        if function:
            yield verb.name, texts[function]
            continue
        (below,) = (node.value for node in tree.body if ast.unparse(node).startswith("SUBCOMMANDS = "))  # type: ignore[attr-defined]
        yield from ((f"{verb.name} {name.id.strip('_')}", texts[name.id]) for name in below.elts)
