"""Imports run one way: cli -> commands -> {cluster, groups} -> model, errors; read from the sources with ast."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from kgroup.catchup.spark.session import PRIVATE_NAMES as OF_PYSPARK
from kgroup.catchup.spark.worker_package import SHIPPED
from kgroup.cli.options import MODULE_OF
from kgroup.cluster.coordinator.client import PRIVATE_NAMES as OF_KAFKA_PYTHON
from tests.helpers.parsing import product
from tests.helpers.places import ROOT

PACKAGE = ROOT / "kgroup"


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


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(product()[path]))


def imports_of(path: Path) -> Iterator[Import]:
    yield from _walk(product()[path], module_name(path), typing=False, lazy=False)


def _walk(node: ast.AST, by: str, *, typing: bool, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(by, alias.name, child.lineno, typing, lazy)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{by}:{child.lineno}: relative"
            for alias in child.names:
                yield Import(by, _target(child.module or "", alias.name), child.lineno, typing, lazy)
        elif not isinstance(child, ast.expr):  # which has no import in it
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(child, by, typing=typing or guarded, lazy=lazy or inside)


def _target(module: str, name: str) -> str:
    """``from kgroup import paths`` is an import of the module kgroup.settings.paths."""
    if module.split(".")[0] == "kgroup":
        inside = PACKAGE.joinpath(*module.split(".")[1:], name)
        if inside.is_dir() or inside.with_suffix(".py").exists():
            return f"{module}.{name}"
    return module


FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def imports() -> tuple[Import, ...]:
    """All of the product."""
    return tuple(found for path in FILES for found in imports_of(path))


def running() -> list[Import]:
    """Those that happen when the program runs."""
    return [found for found in imports() if not found.typing]


def under(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def offending(by: tuple[str, ...], modules: tuple[str, ...], *, but: tuple[str, ...] = ()) -> list[str]:
    """Imports of ``modules`` in ``by`` (less ``but``) that happen when the program runs."""
    return [
        str(found)
        for found in imports()
        if not found.typing and under(found.by, *by) and not under(found.by, *but) and under(found.module, *modules)
    ]


EVERYTHING = ("kgroup",)


def test_the_sources_were_found() -> None:
    assert len(FILES) > 40
    assert any(under(found.module, "kafka") for found in imports())


@pytest.mark.parametrize(
    ("by", "modules", "but"),
    [
        # Clients and other heavy packages, each in one place.
        (EVERYTHING, ("kafka", "confluent_kafka"), ("kgroup.cluster",)),
        (EVERYTHING, ("rich",), ("kgroup.output",)),
        (EVERYTHING, ("pyspark", "pandas"), ("kgroup.catchup",)),
        (EVERYTHING, ("pyarrow",), ("kgroup.catchup",)),
        (EVERYTHING, ("obstore", "hdfs_native"), ("kgroup.cluster.checkpoints.stores",)),
        (
            EVERYTHING,
            ("typer",),
            (
                *("kgroup.cli.app", "kgroup.cli.tree", "kgroup.cli.typer_adapter", "kgroup.cli.options"),
                *("kgroup.cli.panels", "kgroup.commands"),
            ),
        ),
        (EVERYTHING, ("click", "requests", "numpy"), ()),
        (EVERYTHING, ("kafka.net",), ("kgroup.cluster.coordinator", "kgroup.cluster.login")),
        # Within the command line: only the entry point imports the application, verbs are named in a table.
        (EVERYTHING, ("kgroup.cli.app",), ("kgroup.__main__",)),
        (EVERYTHING, ("kgroup.cli.options",), ("kgroup.cli.typer_adapter",)),
        (("kgroup.commands",), ("kgroup.cli.typer_adapter",), ()),
        # kgroup help knows the words of other tools, as a mistyped command does.
        (("kgroup.commands",), ("kgroup.cli.hints",), ("kgroup.commands.help",)),
        (
            ("kgroup.commands",),
            ("kgroup.output.terminal", "kgroup.output.formats", "kgroup.output.present", "kgroup.output.reporter"),
            (),
        ),
        (("kgroup.groups",), ("kgroup.model.outcome", "kgroup.model.reporter", "kgroup.model.blocks"), ()),
        (("kgroup.catchup",), ("kgroup.model.outcome", "kgroup.model.blocks"), ()),
        (("kgroup.output.pages",), ("kgroup.output.terminal", "kgroup.output.formats", "kgroup.output.watch"), ()),
        # Of a catch-up, what runs in workers is below Spark's part, and what starts a replay above it.
        (
            ("kgroup.catchup",),
            ("kgroup.catchup.sinks",),
            ("kgroup.catchup.sinks", "kgroup.catchup.spark", "kgroup.catchup.service"),
        ),
        (("kgroup.catchup",), ("kgroup.catchup.spark",), ("kgroup.catchup.spark", "kgroup.catchup.service")),
        (("kgroup.catchup",), ("kgroup.catchup.service",), ("kgroup.catchup.service",)),
        # Within cluster: offsets_topic asks the coordinator, which finds out by diagnosis why it does not answer.
        (("kgroup.cluster.coordinator",), ("kgroup.cluster.offsets_topic",), ()),
        (("kgroup.cluster.diagnosis",), ("kgroup.cluster.coordinator", "kgroup.cluster.offsets_topic"), ()),
        (("kgroup.cluster.offsets_topic",), ("kgroup.cluster.diagnosis",), ()),
        # The coordinator's private side stays in its package.
        (("kgroup.commands",), ("kgroup.cluster.coordinator", "kgroup.cluster.byte_reader"), ()),
    ],
)
def test_arrows_run_one_way(by: tuple[str, ...], modules: tuple[str, ...], but: tuple[str, ...]) -> None:
    assert offending(by, modules, but=but) == []


def test_errors_stand_on_the_name_of_a_cluster_and_the_model_on_errors() -> None:
    def of(module: str) -> set[str]:
        return {i.module for i in imports() if i.by == module and not i.typing and under(i.module, "kgroup")}

    assert of("kgroup.support.cluster_ref") == set()
    assert of("kgroup.support.errors") == {"kgroup.support.cluster_ref"}
    assert of("kgroup.model.blocks") == set()
    assert of("kgroup.support.units") == set()
    assert of("kgroup.support.json_types") == set()
    assert of("kgroup.model.topic_partition") == {"kgroup.support.json_types"}
    assert of("kgroup.model.commit") == {"kgroup.model.numbers"}
    assert of("kgroup.model.groups") == {
        "kgroup.model.commit",
        "kgroup.model.share_group",
        "kgroup.model.streaming_query",
        "kgroup.model.streams_group",
        "kgroup.model.topic_partition",
        "kgroup.support.errors",
        "kgroup.support.json_types",
    }
    assert of("kgroup.model.reporter") == set()


def test_a_public_class_or_alias_has_its_name_for_itself() -> None:
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node in product()[path].body:
            if (name := type_named_by(node)) and not name.startswith("_"):
                found.setdefault(name, []).append(module_name(path))

    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def type_named_by(node: ast.stmt) -> str | None:
    """The class of a statement, or the alias of a type that it makes: ``Name = ...``, and not ``NAME = ...``."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name if name[0].isupper() and not name.isupper() else None
    return None


def test_modules_of_a_package_have_different_names() -> None:
    """But for two: those of ``groups`` come in the same parts for each subject, and the ledger's topic is no sink."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in FILES:
        parts = module_name(path).split(".")
        if len(parts) > 2 and parts[1] != "groups" and path.name != "__init__.py":
            found.setdefault((parts[1], parts[-1]), []).append(module_name(path))

    twice = {name: modules for (_, name), modules in found.items() if len(modules) > 1}
    assert twice == {"topic": ["kgroup.catchup.ledger.topic", "kgroup.catchup.sinks.topic"]}


def test_public_functions_have_no_names_that_nobody_would_search_for() -> None:
    """The field has better words for these."""
    avoided = {"again", "asked", "chosen", "forget", "found", "given", "judged", "keeping", "opened", "place"}
    avoided |= {"places", "said", "say", "stands", "told", "twice", "want", "wants"}
    found = [
        f"{module_name(path)}:{node.lineno} {node.name}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in avoided
    ]
    assert found == []


def test_a_topic_and_a_partition_have_one_type() -> None:
    values = (
        node.value for path in FILES for node in product()[path].body if isinstance(node, ast.Assign | ast.AnnAssign)
    )
    assert "tuple[str, int]" not in {ast.unparse(value) for value in values if value is not None}


def test_commands_do_not_import_each_other() -> None:
    # The second half of the demo is a module of its own, and so is what all changing verbs do.
    found = offending(("kgroup.commands",), ("kgroup.commands",), but=("kgroup.commands.sandbox",))
    assert [one for one in found if not one.endswith("imports kgroup.commands.make_change")] == []


def test_commands_lay_out_no_page() -> None:
    """A verb parses, asks, decides and returns; tables are made in ``output/pages``."""
    tables = {"kgroup.model.blocks.Table", "kgroup.model.blocks.Column"}
    used = {
        f"{path.stem} {alias.name}"
        for path in FILES
        if path.parent == PACKAGE / "commands"
        for node in ast.walk(product()[path])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in tables
    }
    assert used == set()


def test_commands_ask_no_cluster() -> None:
    """A verb hands the cluster on, to a query or a change, and shows its name and time."""
    asked = {
        f"{path.stem} {ast.unparse(node.func)}"
        for path in FILES
        if path.parent == PACKAGE / "commands"
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value).rpartition(".")[2] == "cluster"
        and node.func.attr != "now_ms"
    }
    assert asked == set()


def test_pure_modules_do_no_input_or_output() -> None:
    decoding = ("kgroup.cluster.offsets_topic.decode", "kgroup.cluster.offsets_topic.records")
    pure = ("kgroup.groups", "kgroup.output.pages", "kgroup.cluster.assemble_group", *decoding)

    assert offending(pure, ("socket", "subprocess", "os", "pathlib", "time", "random", "threading")) == []


@pytest.mark.parametrize("by", ["kgroup.groups", "kgroup.output.pages", "kgroup.commands", "kgroup.cluster"])
def test_only_output_prints(by: str) -> None:
    assert offending((by,), ("sys",)) == []


EDGES = """
__main__: catchup cli support
catchup: changes cluster groups kgroup model queries settings support
changes: cluster groups model queries settings support
cli: cluster kgroup model output settings support
cluster: kgroup model settings support
commands: catchup changes cli cluster groups model output queries sandbox settings support
consumer: catchup cluster groups model support
groups: model support
model: support
output: groups model settings support
queries: cluster groups model support
sandbox: cluster model settings support
settings: model support
spark: catchup model settings
"""
"""Which of the top-level names of kgroup (packages, and the modules beside them) import which, when the program runs.

It may only shrink: an edge that is missing here fails, and so does one here that is no more. After a move,
``python -m tests.test_architecture`` prints the text anew; read its diff.
"""

EDGES_FOR_TYPES = """
cluster: groups
"""
"""... and which import others for the type checker alone."""

CIRCLES_OF_FILES: list[set[str]] = []
"""Files that import each other inside of functions, or for the type checker. It may only shrink."""

CIRCLES_OF_PACKAGES: list[set[str]] = []
"""Top-level names that import each other when the program runs. It may only shrink."""


def edges(given: Iterable[Import], depth: int | None = None) -> dict[str, set[str]]:
    """Who imports whom within kgroup; with ``depth`` 1 between its top-level names."""
    graph: dict[str, set[str]] = {}
    for found in given:
        by, module = (shortened(name, depth) for name in (found.by, found.module))
        if under(found.module, "kgroup") and by != module:
            graph.setdefault(by, set()).add(module)
    return graph


def shortened(module: str, depth: int | None) -> str:
    """``kgroup.cluster.byte_reader`` is ``cluster`` at depth 1; the package's own file stays ``kgroup``."""
    return module if depth is None else ".".join(module.split(".")[1 : depth + 1]) or module


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules each of which reaches all the others."""

    def reached(start: str) -> set[str]:
        seen, left = set[str](), [start]
        while left:
            new = graph.get(left.pop(), set()) - seen
            seen |= new
            left += new
        return seen

    reach = {module: reached(module) for module in graph}
    round_of = {frozenset(other for other in reach[m] if m in reach.get(other, ())) for m in graph if m in reach[m]}
    return sorted((set(found) for found in round_of), key=sorted)


def of_text(text: str) -> set[tuple[str, str]]:
    """The edges of a table: ``by: module module``, where an indented line belongs to the one before."""
    lines = text.strip().replace("\n ", " ").splitlines()
    return {(line.partition(":")[0], module) for line in lines for module in line.partition(":")[2].split()}


def as_text(graph: dict[str, set[str]]) -> str:
    """A table for ``of_text``."""
    lines = (f"{by}: {' '.join(sorted(graph[by]))}" for by in sorted(graph))
    return "\n".join(textwrap.fill(line, 118, subsequent_indent="  ") for line in lines)


def flat(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    return {(by, module) for by, modules in graph.items() for module in modules}


def graph() -> dict[str, set[str]]:
    """The edges between top-level names when the program runs."""
    return edges(running(), depth=1)


def graph_for_types() -> dict[str, set[str]]:
    """... and those that are there for the type checker alone."""
    known = graph()
    return {by: more for by, modules in edges(imports(), depth=1).items() if (more := modules - known.get(by, set()))}


@pytest.mark.parametrize(("made", "table"), [(graph, EDGES), (graph_for_types, EDGES_FOR_TYPES)], ids=["run", "types"])
def test_only_these_edges_exist(made: Callable[[], dict[str, set[str]]], table: str) -> None:
    found = made()
    added = flat(found) - of_text(table)
    where = [str(i) for i in imports() if (shortened(i.by, 1), shortened(i.module, 1)) in added]
    assert where == [], "top-level names import each other in a new way: do without, or add the edge to the table"
    assert of_text(table) - flat(found) == set(), "edges that are no more: remove them from the table"


def test_no_wheel_goes_round() -> None:
    """Modules that import each other when they are loaded have no order at all."""
    assert circles(edges(found for found in running() if not found.lazy)) == []


def test_no_new_circle_of_files_or_packages() -> None:
    assert circles(edges(imports())) == CIRCLES_OF_FILES
    assert circles(graph()) == CIRCLES_OF_PACKAGES


def test_circles_are_found_and_each_is_one() -> None:
    graph = {"a": {"b"}, "b": {"c", "x"}, "c": {"a"}, "x": {"y"}, "y": {"x"}, "z": {"a"}}

    assert circles(graph) == [{"a", "b", "c"}, {"x", "y"}]
    assert circles({"a": {"b"}, "b": {"c"}}) == []


@pytest.mark.parametrize(
    ("owner", "names"), [*OF_KAFKA_PYTHON.items(), *OF_PYSPARK.items()], ids=[*OF_KAFKA_PYTHON, *OF_PYSPARK]
)
def test_the_private_names_that_we_rely_on_exist(owner: str, names: tuple[str, ...]) -> None:
    module, _, name = owner.partition(":")
    found = getattr(importlib.import_module(module), name)
    source = inspect.getsource(found)

    missing = [n for n in names if not hasattr(found, n) and f"self.{n}" not in source and f'"{n}"' not in source]
    assert missing == []


def test_the_list_of_pyspark_s_private_names_is_complete() -> None:
    """Attributes of other objects, names in getattr, and variables that begin with an underscore."""
    own = {f"_{name}" for name in ("asdict", "make", "replace", "fields")}
    used = set()
    for path in (PACKAGE / "spark.py", *(PACKAGE / "catchup" / "spark").rglob("*.py")):
        for node in nodes_of(path):
            match node:
                case ast.Attribute(attr=name, value=value) if name.startswith("_") and not name.startswith("__"):
                    used |= {name} if ast.unparse(value) not in ("self", "cls", "os") else set()
                case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                    used |= {name} if name.startswith("_") else set()
                case ast.Constant(value=str(name)) if name.startswith("_PYSPARK"):
                    used.add(name)

    assert used - own - {name for names in OF_PYSPARK.values() for name in names} == set()


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
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in prefixes:
                used.add(node.attr)

    known = set(OF_KAFKA_PYTHON[owner])
    if owner.endswith("ClusterMetadata"):
        known |= {"cluster_id"}
    assert used <= known


def dataclasses_of(path: Path) -> Iterator[tuple[str, str]]:
    """Frozen slotted dataclasses that print all their fields: the name, and the source."""
    for node in product()[path].body:
        if (
            isinstance(node, ast.ClassDef)
            and "dataclass(frozen=True, slots=True" in ast.unparse(node).split("class ")[0]
        ):
            source = ast.unparse(node)
            if "repr=False" not in source and "def __repr__" not in source:
                yield node.name, source


def test_values_are_structs() -> None:
    """msgspec makes them faster; the command line reads the fields of its options."""
    options = {*MODULE_OF, "BrokerFacts", "Layout", "Node"}
    found = [
        f"{path.relative_to(PACKAGE)} {name}"
        for path in FILES
        if module_name(path) not in SHIPPED
        for name, source in dataclasses_of(path)
        if name not in options and "Annotated[" not in source
    ]

    assert found == [], "write class Name(msgspec.Struct, frozen=True), and msgspec.structs.replace"


def test_what_tries_a_worker_needs_nothing_that_may_be_missing_there() -> None:
    """Else Spark reports it, and not the try."""
    at_once = [found for found in running() if not found.lazy]
    graph, tried, left = edges(at_once), set[str](), ["kgroup.catchup.spark.in_worker"]
    while left:
        if (module := left.pop()) not in tried:
            tried.add(module)
            left += graph.get(module, ())

    assert [str(i) for i in at_once if i.by in tried and under(i.module, "msgspec", "confluent_kafka")] == []


def test_underscored_names_of_kafka_python_are_nowhere_imported() -> None:
    assert [str(i) for i in imports() if under(i.module, "kafka") and "._" in i.module] == []


def test_nobody_changes_an_error_of_another() -> None:
    """Context is added to a copy: ``KgroupError.with_context``."""
    of_errors = {"message", "details", "hint", "args", "exit_code"}
    changed = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(target)}"
        for path in FILES
        if path != PACKAGE / "support" / "errors.py"
        for node in nodes_of(path)
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr in of_errors and ast.unparse(target.value) != "self"
    ]

    assert changed == []


def test_handlers_of_signals_have_one_owner() -> None:
    """``support.signals`` installs them; others may name signals, and send them to processes."""
    handling = {"signal", "setitimer", "alarm", "sigaction", "pthread_sigmask", "set_wakeup_fd"}
    installed = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        if path != PACKAGE / "support" / "signals.py"
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in handling and ast.unparse(node.value) == "signal"
    ]

    assert installed == []


def test_environment_variables_are_read_in_one_place() -> None:
    """Others name a variable to ``settings.environment``, or get the variables as an argument."""
    read = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        if path != PACKAGE / "settings" / "environment.py"
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.environb", "os.getenv")
    ]

    assert read == []


def test_every_client_is_made_where_it_is_told_never_to_create_a_topic() -> None:
    """A producer's questions bring back a topic that was deleted, where brokers create topics that are asked for."""
    made = {"AdminClient", "Consumer", "Producer"}
    direct = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in made
    ]

    assert {where.partition(":")[0] for where in direct} == {"cluster/demo_clients.py"}, direct
    assert "**NEVER_CREATES" in (PACKAGE / "cluster" / "librdkafka.py").read_text(encoding="utf-8")
    assert "**NEVER_CREATES" in (PACKAGE / "cluster" / "demo_clients.py").read_text(encoding="utf-8")


if __name__ == "__main__":
    for made in (graph, graph_for_types):
        sys.stdout.write(as_text(made()) + "\n\n")
