"""The everyday command needs Python and Java alone: as a run of its own, on a PATH that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

_TESTS = """
import os, shutil, sys
import pytest
from pathlib import Path
from tests.helpers import programs

def found(*names):
    return [name for name in names if shutil.which(name)]

@pytest.fixture
@programs.needs("mkdir", "fish-of-nowhere")
def shell():
    return "never made"

def test_unmarked():
    assert found("java", "keytool", "python3", "sh", "bash", "ls", "env") == ["java", "keytool", "python3"]

@pytest.mark.programs("ls")
def test_marked():
    assert found("ls", "java") == ["ls", "java"]

def test_unmarked_afterwards():
    assert found("ls") == []

def test_with_a_fixture(shell):
    assert False, "nothing runs without its programs"

@pytest.mark.situations
def test_that_is_asked_for():
    pass

@pytest.mark.soak
@pytest.mark.programs("nothing-that-is-said")
def test_for_long():
    assert False
"""


def run(tmp_path: Path, path: str, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of pytest on the tests above, with our plugin, started with this PATH."""
    (tmp_path / "test_sample.py").write_text(_TESTS)
    environ = {name: value for name, value in os.environ.items() if name not in ("PATH_OF_MACHINE", "PYTEST_ADDOPTS")}
    command = ("-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", "-p", "tests.helpers.programs")
    done = subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider", "-q", *arguments, str(tmp_path / "test_sample.py")],
        env=environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout.splitlines()


def test_everyday_tests_find_python_and_java_alone_and_one_line_names_the_rest(tmp_path: Path) -> None:
    """The machine of this run has no more: what this test's own PATH has."""
    assert shutil.which("sh") is None
    code, lines = run(tmp_path, os.environ["PATH"], "-m", "everyday", "-n", "1")
    assert code == 0, lines
    assert [line for line in lines if ".ci/run" in line] == [
        "2 tests need fish-of-nowhere, ls, mkdir: .ci/run runs them"
    ]
    assert "2 passed" in lines[-1]


@pytest.mark.programs("ls", "mkdir")
def test_the_others_have_the_programs_of_the_machine_or_fail(tmp_path: Path) -> None:
    code, lines = run(tmp_path, os.environ["PATH"], "-m", "not soak")
    assert code == 1, lines
    assert "3 passed, 2 deselected, 1 error" in lines[-1]
    (error,) = [line for line in lines if line.startswith("ERROR")]
    assert "test_with_a_fixture - Failed: fish-of-nowhere: not installed here" in error


@pytest.mark.parametrize(
    ("expression", "passed"),
    [("situations", "1 passed"), ("situations or everyday", "3 passed"), ("everyday", "2 passed")],
)
def test_situations_are_played_where_they_are_asked_for(tmp_path: Path, expression: str, passed: str) -> None:
    code, lines = run(tmp_path, os.environ["PATH"], "-m", expression)
    assert code == 0, lines
    assert passed in lines[-1]
