"""What Spark's workers need of kgroup is shipped to them, nothing else is, and two packages are enough for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroup.catchup.spark import job, sql_job
from kgroup.catchup.spark.worker_package import SHIPPED, WORKERS_IMPORT, WorkerPackage
from tests.helpers.places import ROOT
from tests.test_architecture import edges, running

_WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import {module}
"""
_ALSO_HERE = ("kafka", "pyspark", "pyarrow", "pandas", "numpy", "typer", "rich", "yaml", "platformdirs")

NOTHING: Any = None
_IN_WORKER = """
import sys
sys.path[:] = [{package!r}] + [path for path in sys.path if "site-packages" in path or "lib/python" in path]
import kgroup
{does}
ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "kgroup"]
print({{getattr(module.__spec__.loader, "archive", module.__name__) for module in ours}})
print(sorted({{"kafka", "typer", "rich", "yaml"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    "module", ["kgroup.catchup.sinks.run_task", "kgroup.catchup.worker.arrow", "kgroup.cluster.reader.batches"]
)
def test_it_is_imported_with_confluent_kafka_and_msgspec_alone(module: str) -> None:
    text = _WITHOUT.format(missing=_ALSO_HERE, module=module)

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)

    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_shipped_is_what_workers_import() -> None:
    graph, found, left = edges(running()), set[str](), list(WORKERS_IMPORT)
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            packages = module.rpartition(".")[0]
            left += [*graph.get(module, ()), *([packages] if packages else [])]

    assert sorted(found) == list(SHIPPED)


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    package = WorkerPackage()
    yield package.path
    package.remove()


def in_worker(package: Path, does: str, given: bytes = b"") -> None:
    """Do it with our code from the zip alone, and look where all of it came from."""
    text = _IN_WORKER.format(package=str(package), does=does)
    done = subprocess.run([sys.executable, "-c", text], input=given, capture_output=True, check=False, cwd="/")

    assert done.stderr.decode() == ""
    assert done.stdout.decode().splitlines() == [str({str(package)}), "[]"]


def test_all_of_it_is_imported_from_the_zip_alone(package: Path) -> None:
    in_worker(package, f"import {', '.join(SHIPPED)}")


@pytest.mark.parametrize(
    "made",
    [
        lambda: job._mapper(NOTHING),
        lambda: sql_job._deliverer(NOTHING, {}),
    ],
    ids=["replay", "where"],
)
def test_the_functions_that_are_sent_are_found_there(made: Callable[[], Any], package: Path) -> None:
    from pyspark import cloudpickle

    sent: bytes = cloudpickle.dumps(made())  # type: ignore[no-untyped-call]

    in_worker(package, "import pickle; pickle.load(sys.stdin.buffer)", sent)
