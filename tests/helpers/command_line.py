"""The real entry point: in this process where only the result matters, as a process where that matters."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from kgroup.cli import app
from kgroup.model.reporter import Progress, ProgressPart
from tests.helpers.json_documents import faults


@dataclass(frozen=True, slots=True)
class Result:
    """What a command said, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The envelope on stdout."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def data(self) -> list[dict[str, Any]]:
        """The subjects of the envelope."""
        data: list[dict[str, Any]] = self.json["data"]
        return data

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of csv on stdout, by heading."""
        return list(csv.DictReader(io.StringIO(self.stdout)))


class CommandLine:
    """``kgroup("describe", group, exit_code=0)``: runs the command line and asserts its exit code."""

    def __call__(self, *arguments: str, exit_code: int | None = 0) -> Result:
        """Run in this process; ``exit_code`` None is for looks at something that is still changing."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code = int(app.run(arguments))
        return _checked(Result(code, stdout.getvalue(), stderr.getvalue()), arguments, exit_code)

    def process(self, *arguments: str, exit_code: int = 0, env: Mapping[str, str] | None = None) -> Result:
        """Run as a process of its own, with ``env`` added to the environment."""
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", *arguments],
            capture_output=True,
            text=True,
            encoding=(env or {}).get("PYTHONIOENCODING"),
            env=os.environ | (env or {}),
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return _checked(Result(done.returncode, done.stdout, done.stderr), arguments, exit_code)

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start as a process, for tests that send signals."""
        return subprocess.Popen(
            [sys.executable, "-m", "kgroup", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ | (env or {}),
        )


def _checked(result: Result, arguments: tuple[str, ...], exit_code: int | None) -> Result:
    assert exit_code is None or result.exit_code == exit_code, (
        f"kgroup {' '.join(arguments)} exited {result.exit_code}, not {exit_code}\n"
        f"--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
    )
    _check_documents(result.stdout)
    return result


def _check_documents(stdout: str) -> None:
    """Each document on stdout has the fields of its kind, and no others."""
    if not stdout.startswith(('{"kind": "kgroup.', '{\n  "kind": "kgroup.')):
        return
    for text in stdout.splitlines() if stdout.startswith('{"kind"') else [stdout]:
        found = faults(json.loads(text))
        assert found == [], "\n".join(found)


class QuietReporter:
    """A Reporter that keeps what it is told, for tests below the command line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, word: str, text: str) -> None:
        """Keep the line."""
        self.lines.append(f"{word} {text}")

    def note(self, text: str) -> None:
        """Keep the line."""
        self.lines.append(f"note: {text}")

    def warn(self, text: str) -> None:
        """Keep the line."""
        self.lines.append(f"WARNING {text}")

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None:
        """Nothing: only an error or a signal would show it."""

    def box(self, lines: Sequence[str]) -> None:
        """Keep the lines."""
        self.lines += lines

    @contextmanager
    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> Iterator[Progress]:
        """Count nothing."""
        yield _NoProgress()


class _NoProgress:
    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        """Nobody looks."""
