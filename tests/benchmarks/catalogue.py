"""All benchmarks: their names, what each compares, how one is run, and where results are stored.

A benchmark is a module here with a function ``measurements`` that yields rows, whose arguments are its sizes, and with
``TINY``: sizes that show only that it runs. Its docstring begins with what it compares.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.measurement import Machine, Measurement, Result, rounded
from tests.benchmarks.table import cells

BENCHMARKS = (
    "describe",
    "reset",
    "migrate",
    "scale",
    "decode",
    "decode_records",
    "catchup_read",
    "catchup_files",
    "catchup_topic",
    "catchup_handlers",
    "catchup_release",
    "catchup_first",
    "catchup_partitions",
    "catchup_fleet",
    "catchup_listener",
    "catchup_live",
    "catchup_whole",
)

RESULTS = Path(__file__).with_name("results.json")
"""What docs/benchmarks.md is made from."""


def about(name: str) -> str:
    """The first paragraph of the benchmark's docstring, on one line."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())


def stored(path: Path) -> list[Result]:
    """The results in a file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Result])


def run(name: str, settings: Iterable[str], *, tiny: bool = False, note: str = "") -> Result:
    """Run one benchmark in this process; each row is also printed to stderr when it is there.

    ``settings`` are ``BENCHMARK.SIZE=VALUE``; those of other benchmarks are left alone.
    """
    module = importlib.import_module(f"tests.benchmarks.{name}")
    sizes = {**(module.TINY if tiny else {}), **sizes_of(name, settings, module.measurements)}
    began, load = datetime.now(UTC), os.getloadavg()[0]
    rows: list[Measurement] = []
    for row in module.measurements(**sizes):
        rows.append(rounded(row))
        print(f"{name}: {'  '.join(cells(rows[-1], 0)[:-1])}", file=sys.stderr, flush=True)
    return Result(name, began.isoformat(timespec="seconds"), this_machine(), load, tuple(rows), sizes, note)


def sizes_of(name: str, settings: Iterable[str], benchmark: Callable[..., object]) -> Mapping[str, Any]:
    """The arguments of the benchmark that are set, with the types of its defaults; SystemExit: it has no such one."""
    defaults = {each.name: each.default for each in inspect.signature(benchmark).parameters.values()}
    found: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        whose, _, size = key.partition(".")
        if whose != name:
            continue
        if size not in defaults:
            raise SystemExit(f"{name} has no {size!r}; choose from: {', '.join(defaults)}")
        found[size] = _typed(value, defaults[size])
    return found


def _typed(value: str, default: Any) -> Any:
    if isinstance(default, list | tuple):
        return [type(default[0])(each) for each in value.split(",")]
    return type(default)(value)


def this_machine() -> Machine:
    """The machine that this process runs on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        os.cpu_count() or 1,
        round(memory / 2**30),
        _processor(),
        f"{platform.system()} {platform.machine()}",
        platform.python_version(),
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
