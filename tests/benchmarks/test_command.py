"""``python -m tests.benchmarks``: what is in it, and that each benchmark runs with sizes that measure nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.catalogue import BENCHMARKS, RESULTS, about, sizes_of, stored
from tests.helpers.places import ROOT

HERE = Path(__file__).parent
RUN = [
    name
    for name in BENCHMARKS
    if not name.startswith("catchup_") and name not in {"decode_records", "describe", "scale"}
]
"""With ``catchup_whole``, those that soak runs. The others cost as much, and are tried by hand when they change."""


def benchmarks(*words: str, exit_code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *words], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == exit_code, done.stderr
    return done.stdout


def test_every_benchmark_is_listed() -> None:
    """A benchmark is a module that has a function ``measurements``."""
    found = {
        path.stem
        for path in HERE.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "measurements"
    }

    assert found == set(BENCHMARKS)
    lines = benchmarks("--list").splitlines()
    assert [line.split()[0] for line in lines] == list(BENCHMARKS)
    assert all(about(name) and line.endswith(about(name)) for name, line in zip(BENCHMARKS, lines, strict=True))


def test_a_name_that_is_unknown_is_a_usage_error() -> None:
    benchmarks("unheard-of", exit_code=2)


def test_the_stored_results_are_of_benchmarks_that_exist() -> None:
    names = [result.benchmark for result in stored(RESULTS)]

    assert names == [name for name in BENCHMARKS if name in names]


def test_sizes_have_the_types_of_their_defaults() -> None:
    def benchmark(groups: Sequence[int] = (1, 2), runs: int = 3, order: str = "key") -> None: ...

    settings = ["this.groups=7,8", "that.runs=9", "this.order=none"]
    assert sizes_of("this", settings, benchmark) == {"groups": [7, 8], "order": "none"}
    with pytest.raises(SystemExit, match="this has no 'size'; choose from: groups, runs, order"):
        sizes_of("this", ["this.size=1"], benchmark)


def test_a_benchmark_prints_a_table_and_stores_its_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    for note in ("first", "second"):
        out = benchmarks("decode_records", "--tiny", "--json", str(path), "--note", note)

        (result,) = stored(path)
        assert (result.benchmark, result.note, result.sizes["records"]) == ("decode_records", note, 100)
        assert all(row.name in out for row in result.measurements)


def test_one_that_cannot_be_run_does_not_end_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    words = ("describe", "decode_records", "--tiny", "--set", "describe.unheard_of=1", "--json", str(path))

    out = benchmarks(*words, exit_code=1)

    assert [result.benchmark for result in stored(path)] == ["decode_records"]
    assert {line.split()[0] for line in out.splitlines()[1:-2]} == {"decode_records"}


@pytest.mark.soak
@pytest.mark.programs("bash")  # of a peer: a plain SparkSession is started by a script
@pytest.mark.parametrize("name", [*RUN, "catchup_whole"])
def test_it_runs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    benchmarks(name, "--tiny", "--json", str(path))

    (result,) = stored(path)
    assert result.benchmark == name
    assert result.measurements
