"""Imports run one way: cli -> commands -> {cluster, groups} -> model, errors; read from the sources with ast."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgroup.cluster.coordinator.client import PRIVATE_NAMES

PACKAGE = Path(__file__).parent.parent / "kgroup"


@dataclass(frozen=True)
class Import:
    """``module`` is imported in ``by``; ``typing`` where only a type checker sees it, ``lazy`` inside a function."""

    by: str
    module: str
    line: int
    typing: bool
    lazy: bool

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.module}"


def module_name(path: Path) -> str:
    parts = ("kgroup", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[Import]:
    yield from _walk(ast.parse(path.read_text(encoding="utf-8")), module_name(path), typing=False, lazy=False)


def _walk(node: ast.AST, by: str, *, typing: bool, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(by, alias.name, child.lineno, typing, lazy)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{by}:{child.lineno}: relative"
            for alias in child.names:
                yield Import(by, _target(child.module or "", alias.name), child.lineno, typing, lazy)
        else:
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, by, typing=typing or guarded, lazy=lazy or inside)


def _target(module: str, name: str) -> str:
    """``from kgroup import paths`` is an import of the module kgroup.paths."""
    if module.split(".")[0] == "kgroup":
        inside = PACKAGE.joinpath(*module.split(".")[1:], name)
        if inside.is_dir() or inside.with_suffix(".py").exists():
            return f"{module}.{name}"
    return module


FILES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = [found for path in FILES for found in imports_of(path)]


def under(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def offending(by: tuple[str, ...], modules: tuple[str, ...], *, but: tuple[str, ...] = ()) -> list[str]:
    """Imports of ``modules`` in ``by`` (less ``but``) that happen when the program runs."""
    return [
        str(found)
        for found in IMPORTS
        if not found.typing and under(found.by, *by) and not under(found.by, *but) and under(found.module, *modules)
    ]


EVERYTHING = ("kgroup",)
OPTIONS = ("kgroup.options", "kgroup.catchup_options", "kgroup.replay_options")
ABOVE_COMMANDS = ("kgroup.cli", "kgroup.__main__", "kgroup.help_pages", "kgroup.habits", "kgroup.verbs")


def test_the_sources_were_found() -> None:
    assert len(FILES) > 40
    assert any(under(found.module, "kafka") for found in IMPORTS)


@pytest.mark.parametrize(
    ("by", "modules", "but"),
    [
        # Clients and other heavy packages, each in one place.
        (EVERYTHING, ("kafka", "confluent_kafka"), ("kgroup.cluster",)),
        (EVERYTHING, ("rich",), ("kgroup.output",)),
        (EVERYTHING, ("pyspark", "pyarrow", "pandas"), ("kgroup.catchup",)),
        (EVERYTHING, ("typer",), ("kgroup.cli", "kgroup.verbs", *OPTIONS, "kgroup.commands")),
        (EVERYTHING, ("click", "requests", "numpy"), ()),
        (EVERYTHING, ("kafka.net",), ("kgroup.cluster.coordinator",)),
        # Nothing imports what stands above it.
        (EVERYTHING, ("kgroup.cli",), ("kgroup.__main__",)),
        (EVERYTHING, ("kgroup.commands",), ("kgroup.cli",)),
        (("kgroup.cluster",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.screens", *OPTIONS), ()),
        (("kgroup.catchup",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.screens", "kgroup.changing", *OPTIONS), ()),
        (("kgroup.groups",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.screens", "kgroup.cluster"), ()),
        (("kgroup.groups",), ("kgroup.sandbox", "kgroup.settings"), ()),
        (("kgroup.screens",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.cluster", *OPTIONS), ()),
        (("kgroup.output",), (*ABOVE_COMMANDS, "kgroup.cluster", "kgroup.groups", "kgroup.settings"), ()),
        (("kgroup.settings",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.cluster", "kgroup.groups"), ()),
        (("kgroup.sandbox",), (*ABOVE_COMMANDS, "kgroup.output", "kgroup.groups", "kgroup.screens"), ()),
        (("kgroup.commands",), ("kgroup.cli", "kgroup.__main__", "kgroup.verbs", "kgroup.habits", "kgroup.output"), ()),
        # The coordinator's private side stays in its package.
        (("kgroup.commands",), ("kgroup.cluster.coordinator", "kgroup.cluster.wire"), ()),
    ],
)
def test_arrows_run_one_way(by: tuple[str, ...], modules: tuple[str, ...], but: tuple[str, ...]) -> None:
    assert offending(by, modules, but=but) == []


def test_errors_stand_on_the_name_of_a_cluster_and_the_model_on_errors() -> None:
    def of(module: str) -> set[str]:
        return {i.module for i in IMPORTS if i.by == module and not i.typing and under(i.module, "kgroup")}

    assert of("kgroup.cluster_ref") == set()
    assert of("kgroup.errors") == {"kgroup.cluster_ref"}
    assert of("kgroup.screen") == set()
    assert of("kgroup.units") == set()
    assert of("kgroup.model") <= {"kgroup.cluster_ref", "kgroup.errors", "kgroup.screen", "kgroup.clock"}


def test_commands_do_not_import_each_other() -> None:
    assert offending(("kgroup.commands",), ("kgroup.commands",)) == []


def test_pure_modules_do_no_input_or_output() -> None:
    pure = ("kgroup.groups", "kgroup.screens", "kgroup.cluster.assembly", "kgroup.cluster.offsets_log.records")

    assert offending(pure, ("socket", "subprocess", "os", "pathlib", "time", "random", "threading")) == []


@pytest.mark.parametrize("by", ["kgroup.groups", "kgroup.screens", "kgroup.commands", "kgroup.cluster"])
def test_only_output_prints(by: str) -> None:
    assert offending((by,), ("sys",)) == []


def test_no_wheel_goes_round() -> None:
    """Modules that import each other when they are loaded have no order at all."""
    graph: dict[str, set[str]] = {}
    for found in IMPORTS:
        if not found.typing and not found.lazy and under(found.module, "kgroup"):
            graph.setdefault(found.by, set()).add(found.module)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


@pytest.mark.parametrize("owner", PRIVATE_NAMES)
def test_the_private_names_that_we_rely_on_exist(owner: str) -> None:
    module, _, class_name = owner.partition(":")
    cls = getattr(importlib.import_module(module), class_name)
    source = inspect.getsource(cls)

    missing = [name for name in PRIVATE_NAMES[owner] if not hasattr(cls, name) and f"self.{name} =" not in source]
    assert missing == []


@pytest.mark.parametrize(
    ("prefixes", "owner"),
    [
        (("self._manager",), "kafka.net.manager:KafkaConnectionManager"),
        (("self._net",), "kafka.net.selector:NetworkSelector"),
        (("self._manager.cluster",), "kafka.cluster:ClusterMetadata"),
    ],
)
def test_the_list_of_private_names_is_complete(prefixes: tuple[str, ...], owner: str) -> None:
    used = set()
    for path in (PACKAGE / "cluster").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in prefixes:
                used.add(node.attr)

    known = set(PRIVATE_NAMES[owner])
    if owner.endswith("ClusterMetadata"):
        known |= {"cluster_id"}
    assert used <= known


def test_underscored_names_of_kafka_python_are_nowhere_imported() -> None:
    assert [str(i) for i in IMPORTS if under(i.module, "kafka") and "._" in i.module] == []


def test_every_client_is_made_where_it_is_told_never_to_create_a_topic() -> None:
    """A producer's questions bring back a topic that was deleted, where brokers create topics that are asked for."""
    made = {"AdminClient", "Consumer", "Producer"}
    direct = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in made
    ]

    assert {where.partition(":")[0] for where in direct} == {"cluster/demo_clients.py"}, direct
    assert "**NEVER_CREATES" in (PACKAGE / "cluster" / "librdkafka.py").read_text(encoding="utf-8")
    assert "**NEVER_CREATES" in (PACKAGE / "cluster" / "demo_clients.py").read_text(encoding="utf-8")
