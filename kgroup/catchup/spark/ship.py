"""kgroup's own code for workers that do not have it: a zip of what they may import."""

from __future__ import annotations

import py_compile
import tempfile
import zipfile
from pathlib import Path

import kgroup

ROOT = Path(kgroup.__file__).parent

LEFT_OUT = (
    "changing",
    "cli.py",
    "cli_options",
    "cluster/coordinator",
    "cluster/diagnosis",
    "cluster/offsets_log",
    "commands",
    "completion",
    "data",
    "groups/assignors",
    "groups/client_config",
    "groups/doctor",
    "groups/lag",
    "groups/readiness",
    "groups/rollout.py",
    "groups/simulation",
    "groups/timeline",
    "groups/verdict",
    "groups/waiting.py",
    "help_pages.py",
    "journal.py",
    "looking",
    "output",
    "rollout.py",
    "sandbox",
    "screens",
    "table.py",
    "tables.py",
    "topics.py",
    "verbs.py",
    "waiting.py",
)
"""What belongs to the command line or needs kafka-python; no worker imports it."""

_NAME = "kgroup.zip"
_INSTALLED = ("site-packages", "dist-packages")


class Package:
    """The zip, in a temporary directory that ``remove`` takes away: Spark serves it from there while it runs."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kgroup-package-")
        self.path = Path(self._directory.name) / _NAME
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as package:
            for source in sorted(ROOT.rglob("*.py")):
                inside = source.relative_to(ROOT)
                if any(inside.is_relative_to(name) for name in LEFT_OUT):
                    continue
                name = f"{ROOT.name}/{inside.as_posix()}"
                package.write(source, name)
                # Nothing keeps what is compiled from a zip: each worker would do it again. Another version of Python
                # passes these over.
                compiled = Path(self._directory.name) / "compiled"
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(source), str(compiled), dfile=name, doraise=True, invalidation_mode=mode)
                package.write(compiled, f"{name}c")

    def remove(self) -> None:
        """Take it away."""
        self._directory.cleanup()


def import_path() -> str:
    """Where a Python of this machine finds kgroup; empty where it is installed like any other package."""
    return "" if ROOT.parent.name in _INSTALLED else str(ROOT.parent)
