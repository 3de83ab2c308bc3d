"""The options of shared bundles: each field has one, and each one has a field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import get_annotations
from typing import Any

import pytest
from typer.core import TyperCommand

from kgroup.catchup.service.options import (
    ExecuteOptions,
    GapOptions,
    LedgerOptions,
    SafetyOptions,
    SinkOptions,
    SpeedOptions,
)
from kgroup.changes.options import Change, Execution
from kgroup.cli import options as cli_options
from kgroup.cli.completion import line
from kgroup.cli.options import MODULE_OF, connection, field_annotations
from kgroup.cli.typer_adapter import command
from kgroup.groups.selection import Groups, Selection
from kgroup.model.outcome import Outcome
from kgroup.output.watch.request import Watch
from kgroup.queries.log_options import AsOf, FromLog, LogBounds
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.errors import ExitCode
from tests.helpers.command_line import QuietReporter

BUNDLES: dict[str, type] = {
    bundle.__name__: bundle
    for bundle in (
        *(Connection, Presentation, Groups, Selection, Execution, Change, Watch, LogBounds, AsOf, FromLog),
        *(GapOptions, SafetyOptions, ExecuteOptions, LedgerOptions, SinkOptions, SpeedOptions),
    )
}


def declared() -> dict[str, dict[str, set[str]]]:
    """The fields that have options, by module and name of the bundle."""
    modules = sorted(set(MODULE_OF.values()))
    found = {name: import_module(f"{cli_options.__name__}.{name}").OPTIONS for name in modules}
    return {name: {bundle: set(options) for bundle, options in table.items()} for name, table in found.items()}


def test_each_field_has_an_option_and_each_option_a_field() -> None:
    """A bundle declares the options of its own fields, and may declare one of its base again, or leave it out."""
    for module, table in declared().items():
        for name, options in table.items():
            bundle, known = BUNDLES[name], {field.name for field in fields(BUNDLES[name])}
            assert set(get_annotations(bundle)) <= options <= known, bundle
            given = import_module(f"{cli_options.__name__}.{module}").OPTIONS[name]
            assert set(field_annotations(bundle)) == known - {field for field in options if given[field] is None}


def test_the_modules_of_the_bundles_are_known() -> None:
    assert {bundle: module for module, table in declared().items() for bundle in table} == MODULE_OF


def test_a_field_without_an_option_is_an_error() -> None:
    @dataclass(frozen=True)
    class Farther(Connection):
        hops: int = 0

    with pytest.raises(TypeError, match=r"Farther\.hops: no option"):
        field_annotations(Farther)


def test_options_that_were_typed_are_typed_again() -> None:
    """In their order; of an option that is typed twice the last counts, as it does for the verb."""
    seen: list[Invocation] = []

    def verb(run: Invocation, speed: SpeedOptions, books: LedgerOptions) -> Outcome:
        raise AssertionError

    def execute(name: str, run: Invocation, call: Callable[[Invocation], Any]) -> ExitCode:
        seen.append(run)
        return ExitCode.DONE

    words = [
        "--conf",
        "a=1",
        "--ledger-topic=old",
        "--spark-log",
        "--rate",
        "-1",
        "--ledger-topic",
        "b",
        "--conf=c=2",
        "-b",
        "x:1",
    ]
    made = Invocation(Connection(), Presentation(), QuietReporter())
    command("x", verb, TyperCommand, execute).main(words, standalone_mode=False, obj=made)

    line = seen[0].line
    assert list(line.options.items()) == [
        ("--conf", ("--conf", "a=1", "--conf", "c=2")),
        ("--ledger-topic", ("--ledger-topic", "b")),
        ("--spark-log", ("--spark-log",)),
        ("--rate", ("--rate=-1",)),
        ("--bootstrap-server", ("-b", "x:1")),
    ]


def test_completion_knows_the_flags_of_a_connection_without_typer() -> None:
    """But for the time limit: a key at the prompt has its own."""
    declared_flags = {
        flag: field
        for field, option in connection.OPTIONS["Connection"].items()
        for flag in (option.default, *option.param_decls)  # Typer takes the first of them for a default
        if field != "timeout"
    }

    assert declared_flags == line._CONNECTION
