"""The options of shared bundles: each field has one, and each one has a field."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from inspect import get_annotations

import pytest

from kgroup import cli_options
from kgroup.cli_options import MODULE_OF, field_annotations
from kgroup.settings.connection import Connection


def declared() -> dict[str, dict[type, set[str]]]:
    """The fields that have options, by module and bundle."""
    modules = sorted(set(MODULE_OF.values()))
    found = {name: import_module(f"{cli_options.__name__}.{name}").OPTIONS for name in modules}
    return {name: {bundle: set(options) for bundle, options in table.items()} for name, table in found.items()}


def test_each_field_has_an_option_and_each_option_a_field() -> None:
    for table in declared().values():
        for bundle, options in table.items():
            assert options == set(get_annotations(bundle)), bundle
            assert set(field_annotations(bundle)) == {field.name for field in fields(bundle)}


def test_the_modules_of_the_bundles_are_known() -> None:
    assert {bundle.__name__: module for module, table in declared().items() for bundle in table} == MODULE_OF


def test_a_field_without_an_option_is_an_error() -> None:
    @dataclass(frozen=True)
    class Farther(Connection):
        hops: int = 0

    with pytest.raises(TypeError, match=r"Farther\.hops: no option"):
        field_annotations(Farther)
