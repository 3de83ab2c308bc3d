"""The exact jars of a sandbox: ``kgroup/data/sandbox_jars.txt``."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec


class Artifact(msgspec.Struct, frozen=True):
    """A jar by its Maven coordinates, with its size and SHA-256."""

    organisation: str
    module: str
    revision: str
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name in a repository and in a Kafka distribution."""
        return f"{self.module}-{self.revision}.jar"

    def has_size(self, path: Path) -> bool:
        """Whether the file exists with the right length: the quick check at every start."""
        try:
            return path.stat().st_size == self.size_bytes
        except FileNotFoundError:
            return False

    def is_whole(self, path: Path) -> bool:
        """Whether the file is exactly this jar, by SHA-256."""
        if not self.has_size(path):
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256


class Manifest(msgspec.Struct, frozen=True):
    """All jars, in class path order."""

    artifacts: tuple[Artifact, ...]

    @property
    def kafka_version(self) -> str:
        """The version of the broker's own jar."""
        return next(a.revision for a in self.artifacts if a.module.startswith("kafka_2."))

    def paths(self, directory: Path) -> tuple[Path, ...]:
        return tuple(directory / artifact.file_name for artifact in self.artifacts)


def parse_manifest(text: str) -> Manifest:
    """Parse lines of ``organisation module revision size sha256``; lines that begin with ``#`` are comments."""
    rows = (line.split() for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return Manifest(tuple(Artifact(org, mod, rev, int(size), sha) for org, mod, rev, size, sha in rows))


@cache
def sandbox_manifest() -> Manifest:
    return parse_manifest(data_text("sandbox_jars.txt"))


def data_text(name: str) -> str:
    """A text file of ``kgroup/data``."""
    return files("kgroup").joinpath("data", name).read_text(encoding="utf-8")
