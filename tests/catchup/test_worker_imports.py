"""What Spark's workers need of kgroup is there with confluent-kafka alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.places import ROOT

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


@pytest.mark.parametrize("module", ["kgroup.catchup.sinks.run_task", "kgroup.catchup.arrow", "kgroup.cluster.batches"])
def test_it_is_imported_with_confluent_kafka_alone(module: str) -> None:
    text = _WITHOUT.format(missing=_ALSO_HERE, module=module)

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)

    assert (done.returncode, done.stderr) == (0, "")
