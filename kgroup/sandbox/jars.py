"""Download the jars once: several Ivy processes; each jar is checked, and one rename publishes all of them.

Jars are collected in ``<directory>.part``, each only with the right SHA-256. So an interrupted download continues where
it stopped, and a directory with its final name is complete.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kgroup.model.reporter import Reporter
from kgroup.sandbox.ivy import Ivy
from kgroup.sandbox.manifest import Artifact, Manifest
from kgroup.support.errors import SandboxError

PROCESSES = 4
"""Measured: 1 takes 5.1 s, 4 take 3.4 s, 8 take 5.1 s."""

_POLL_S = 0.1
_MOST_WORDS = 5
_IVYS_FRAME = re.compile(r"\.\.|--|==|problems summary|WARNINGS|ERRORS|UNRESOLVED|USE VERBOSE")
_REQUEST_COSTS_BYTES = 400_000
"""A request takes as long as transferring this many bytes; used to balance the shares."""


def are_complete(manifest: Manifest, directory: Path) -> bool:
    """Whether every jar exists, by size only: checksums were checked before the directory got its name."""
    return all(a.has_size(directory / a.file_name) for a in manifest.artifacts)


def fetch(manifest: Manifest, directory: Path, ivy: Ivy, reporter: Reporter) -> None:
    """Download all jars into ``directory``. Raises SandboxError with the names of missing or wrong jars."""
    incoming = Incoming(manifest, directory.with_name(f"{directory.name}.part"))
    incoming.resume()
    total = len(manifest.artifacts)
    with reporter.progress(f"fetching Apache Kafka {manifest.kafka_version}", total, "jars") as progress:
        shares = balanced_shares(incoming.missing(), PROCESSES)
        with _running(ivy, shares, incoming.work) as processes:
            while any(process.poll() is None for process in processes):
                incoming.collect_finished()
                progress.update(total - len(incoming.missing()))
                time.sleep(_POLL_S)
        incoming.collect_finished()
        progress.update(total - len(incoming.missing()))
    incoming.finish(directory)


def balanced_shares(artifacts: Sequence[Artifact], count: int) -> list[list[Artifact]]:
    """Split into at most ``count`` lists that take about the same time."""
    shares: list[list[Artifact]] = [[] for _ in range(min(count, len(artifacts)))]
    costs = [0] * len(shares)
    for artifact in sorted(artifacts, key=lambda a: -a.size_bytes):
        least = costs.index(min(costs))
        shares[least].append(artifact)
        costs[least] += artifact.size_bytes + _REQUEST_COSTS_BYTES
    return shares


@contextmanager
def _running(ivy: Ivy, shares: list[list[Artifact]], work: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, share in enumerate(shares):
            processes.append(ivy.start(share, work / f"share-{number}"))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass(slots=True)
class Incoming:
    """The directory of an unfinished download: complete jars, and ``work`` where Ivy writes."""

    manifest: Manifest
    directory: Path
    rejected: dict[Path, Artifact] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """The directory of Ivy's caches and logs. Each download has its own: Ivy of a killed one may still write."""
        return self.directory / f"work-{os.getpid()}"

    def resume(self) -> None:
        """Keep the complete jars of an earlier download, delete the rest."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for artifact in self.manifest.artifacts:
            path = self.directory / artifact.file_name
            if not artifact.is_whole(path):
                path.unlink(missing_ok=True)
        self.collect_finished()
        self.rejected.clear()
        self._clear()
        self.work.mkdir(exist_ok=True)

    def missing(self) -> list[Artifact]:
        return [a for a in self.manifest.artifacts if not (self.directory / a.file_name).exists()]

    def collect_finished(self) -> None:
        """Copy jars that Ivy has finished (it writes ``x.jar.part`` and renames)."""
        awaited = {artifact.file_name: artifact for artifact in self.missing()}
        for path in self.directory.glob("work-*/**/*.jar"):
            artifact = awaited.get(path.name)
            if artifact is None or path in self.rejected:
                continue
            if artifact.is_whole(path):
                awaited.pop(path.name)
                self._put(path)
            elif "cache" in path.relative_to(self.directory).parts:  # a file under "out" may still be growing
                self.rejected[path] = artifact

    def _clear(self) -> None:
        for work in self.directory.glob("work-*"):
            shutil.rmtree(work, ignore_errors=True)

    def _put(self, path: Path) -> None:
        aside = self.directory / f"{path.name}.placing"
        shutil.copyfile(path, aside)
        aside.replace(self.directory / path.name)

    def finish(self, directory: Path) -> None:
        """Rename to the final name. Raises SandboxError with Ivy's messages if jars are missing."""
        missing = self.missing()
        if missing:
            wrong = {a.file_name for a in self.rejected.values()}
            wrong |= {path.name for path in self.work.rglob("out/*.jar")}
            names = [f"{a.file_name} ({_fault(a, wrong)})" for a in missing]
            shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            raise SandboxError(
                f"{len(missing)} of {len(self.manifest.artifacts)} jars could not be fetched: {shown}",
                details=_last_words(self.work.glob("share-*/ivy.log")),
                hint="Run it again: complete files are kept. Behind a mirror, set KGROUP_IVY_SETTINGS.",
            )
        self._clear()
        if directory.exists():
            shutil.rmtree(directory)
        self.directory.replace(directory)


def _fault(artifact: Artifact, wrong: set[str]) -> str:
    return "wrong checksum" if artifact.file_name in wrong else "missing"


def _last_words(logs: Iterable[Path]) -> tuple[str, ...]:
    """Messages of the first Ivy with an error: what it did not find, where it searched, why."""
    for log in sorted(logs):
        lines = (line.strip(" :\t") for line in log.read_text(errors="replace").splitlines())
        telling = [line for line in lines if line and not _IVYS_FRAME.match(line)]
        if telling:
            return tuple(dict.fromkeys(telling))[:_MOST_WORDS]
    return ()
