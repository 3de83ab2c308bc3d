"""A quick test starts no Java, and so no broker and no Spark: as a run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.places import ROOT

_TESTS = """
import shutil, subprocess
import pytest
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.sandbox import Sandbox
from tests.helpers import programs
from tests.helpers.command_line import QuietReporter

@pytest.fixture(scope="module")
def broker():
    return "takes long"

@pytest.fixture
def of_broker(broker):
    return broker

def test_pure(tmp_path):
    pass

def test_with_a_broker(of_broker):
    assert False, "not quick"

@pytest.mark.soak
def test_for_long():
    assert False, "not quick"

@pytest.mark.programs("ls")
def test_with_a_program():
    assert False, "not quick"

def test_of_a_sandbox(tmp_path):
    try:
        Sandbox(tmp_path).up(reporter=QuietReporter())
    except Exception:
        pass

def test_of_spark():
    try:
        check(SparkSettings("local[1]"), timeout_s=10)
    except Exception:
        pass

def test_of_another_process():
    subprocess.run(["java", "-version"])

def test_pure_afterwards():
    pass
"""


def test_a_quick_run_starts_no_broker_and_no_spark(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(_TESTS)
    plugins = ("-p", "tests.helpers.quick", "-p", "tests.helpers.programs", "-p", "no:cacheprovider")
    command = ("-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", *plugins)
    done = subprocess.run(
        [sys.executable, *command, "-q", "-m", "quick", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert "5 passed, 3 deselected, 3 errors" in done.stdout.splitlines()[-1]
    for name in ("test_of_a_sandbox", "test_of_spark", "test_of_another_process"):
        assert f"{name} - Failed: a quick test started" in done.stdout
