"""What users install: the files in it, and that it runs where there is nothing else: no clone, no environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kgroup
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.install.containerfile import Replay

pytestmark = [pytest.mark.soak, pytest.mark.programs("bash")]

NAME = f"kgroup-{kgroup.__version__}"
SOURCES = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "kgroup").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
COMPLETIONS = {
    "share/bash-completion/completions/kgroup",
    "share/fish/vendor_completions.d/kgroup.fish",
    "share/zsh/site-functions/_kgroup",
}


@dataclass(frozen=True, slots=True)
class Installed:
    """A kgroup and the whole environment that it is run in."""

    program: str
    environment: dict[str, str]

    def __call__(self, *arguments: str, cwd: Path) -> str:
        """What it prints on stdout."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that .ci/build makes."""
    made = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / ".ci" / "build", made], env=os.environ | {"PYTHON": sys.executable}, check=True)
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with this version of Python, outside of this environment, before what every machine has."""
    directory = tmp_path_factory.mktemp("bin")
    for name in ("python", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        (directory / name).write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} "$@"\n')
        (directory / name).chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


@pytest.fixture(scope="module")
def from_wheel(dist: Path, path: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("home")
    venv = home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (wheel,) = dist.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--quiet", wheel], check=True
    )
    assert {found for found in COMPLETIONS if (venv / found).is_file()} == COMPLETIONS
    return Installed(str(venv / "bin" / "kgroup"), {"HOME": str(home), "PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module")
def from_file(dist: Path, path: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(str(dist / "kgroup.pyz"), {"HOME": str(tmp_path_factory.mktemp("home")), "PATH": path})


@pytest.fixture(scope="module")
def from_containerfile(path: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    top = tmp_path_factory.mktemp("container")
    replay = Replay(ROOT, top / "root", top, {"PATH": path})
    replay.run((ROOT / "Containerfile").read_text(encoding="utf-8"))
    assert replay.entrypoint == '["kgroup"]'
    assert Path(replay.env["KGROUP_STATE_DIR"]).is_dir()
    return Installed("kgroup", replay.env)


@pytest.fixture(params=["from_wheel", "from_file", "from_containerfile"])
def installed(request: pytest.FixtureRequest) -> Installed:
    found: Installed = request.getfixturevalue(request.param)
    return found


def test_files_of_the_wheel(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        files = set(wheel.namelist())
    metadata = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    metadata.add(f"{NAME}.dist-info/licenses/LICENSE")
    assert files == SOURCES | metadata | {f"{NAME}.data/data/{name}" for name in COMPLETIONS}
    assert "kgroup/py.typed" in files


def test_files_of_the_sdist(dist: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as sdist:
        files = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    beside = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert files == SOURCES | beside


def test_it_runs_where_there_is_nothing_else(
    installed: Installed,
    kgroup_cli: CommandLine,
    world: KafkaWorld,
    name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    group = name("installed")
    world.commit(group, {(world.topic(group), 0): 1})

    assert installed("--version", cwd=tmp_path).startswith(f"kgroup {kgroup.__version__} (")
    assert installed("--help", cwd=tmp_path) == kgroup_cli("--help").stdout
    listed = installed("list", "-b", world.bootstrap, "--regex", re.escape(group), "-o", "csv", cwd=tmp_path)
    assert [row.split(",")[0] for row in listed.splitlines()[1:]] == [group]
    assert list(tmp_path.iterdir()) == []


def test_a_python_that_the_file_is_not_for_is_told(dist: Path, path: str, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(dist / "kgroup.pyz") as file, zipfile.ZipFile(other, "w") as changed:
        for info in file.infolist():
            changed.writestr(info.filename.replace("cimpl.cpython-3", "cimpl.cpython-4"), file.read(info))
    done = subprocess.run(
        ["python", other, "--version"],
        env={"HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.fullmatch(r"kgroup: this kgroup\.pyz needs cpython-4\d+-\S+; this Python is cpython-3\d+\n", done.stderr)
    assert (done.returncode, done.stdout) == (1, "")
