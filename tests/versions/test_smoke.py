"""The smoke leaves no verb out, and every version has its file and its jars."""

from __future__ import annotations

import re
from pathlib import Path

from kgroup.sandbox.manifest import sandbox_manifest
from tests.cli.test_app import COMMANDS
from tests.helpers.manual import page
from tests.versions.kafka import MANIFESTS, manifest_of
from tests.versions.smoke import SMOKE, WITHOUT_A_CLUSTER

VERSIONS = [*sorted(path.stem for path in MANIFESTS.glob("*.txt")), sandbox_manifest().kafka_version]


def test_every_verb_is_in_it() -> None:
    assert SMOKE.keys() | WITHOUT_A_CLUSTER == {" ".join(command) for command in COMMANDS}
    assert not SMOKE.keys() & WITHOUT_A_CLUSTER


def test_the_manual_names_the_versions() -> None:
    (header,) = re.findall(r"^\| verb \| (\d.*) \|$", page("compatibility.md"), re.M)
    assert header.split(" | ") == VERSIONS


def test_every_version_has_its_file_and_its_jars() -> None:
    files = {path.stem.removeprefix("test_").replace("_", ".") for path in Path(__file__).parent.glob("test_[0-9]*.py")}
    assert files == set(VERSIONS)
    assert {version: manifest_of(version).kafka_version for version in VERSIONS} == {one: one for one in VERSIONS}
