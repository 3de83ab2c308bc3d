"""Reads the YAML tables of ``kgroup/data``. The tests check their rows, so nothing checks them here."""

from __future__ import annotations

from importlib.resources import files
from typing import Any


def read_tables(name: str) -> dict[str, Any]:
    """The tables of a file, by name."""
    import yaml  # imported here: few verbs read these files

    text = files("kgroup").joinpath("data", name).read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tables
