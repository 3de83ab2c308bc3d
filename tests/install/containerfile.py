"""A Containerfile without a container engine: its instructions, and what they make below a directory."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def instructions(text: str) -> list[tuple[str, str]]:
    """Names and arguments, without comments; a line that ends in a backslash goes on in the next."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    return [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines if line)]


@dataclass
class Replay:
    """Runs instructions with ``root`` for ``/``: absolute paths are moved there. A base image has ``environment``.

    Stages that are complete are moved to ``stages``, so that the last one has nothing of them but what it copies. It
    ignores owners and users: a test need not be root.
    """

    context: Path
    root: Path
    stages: Path
    environment: Mapping[str, str]
    env: dict[str, str] = field(default_factory=dict)
    entrypoint: str = ""
    _stage: str = ""
    _directory: Path = Path("/")

    def run(self, text: str) -> None:
        """Run all of a Containerfile. Raises CalledProcessError if one of its commands fails."""
        for name, arguments in instructions(text):
            getattr(self, f"_{name.lower()}")(arguments)

    def _moved(self, text: str) -> str:
        return re.sub(r"(?<![^\s=:])/(?=\w)", f"{self.root}/", text)

    def _from(self, arguments: str) -> None:
        if self._stage:
            self.root.rename(self.stages / self._stage)
        self.root.mkdir()
        self._stage = arguments.partition(" AS ")[2]
        self._directory = self.root
        self.env = dict(self.environment)

    def _workdir(self, arguments: str) -> None:
        self._directory = Path(self._moved(arguments))
        self._directory.mkdir(parents=True)

    def _copy(self, arguments: str) -> None:
        words = shlex.split(arguments)
        options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        there = self.stages / options["from"] if "from" in options else self.context
        for source in (there / source.lstrip("/") for source in sources):
            to = self._directory / self._moved(target)
            if source.is_dir():
                shutil.copytree(source, to, symlinks=True)
            else:
                shutil.copy2(source, to / source.name if target.endswith("/") else to)

    def _run(self, arguments: str) -> None:
        # The network that a build has is the machine's: its proxies, and where its pip gets packages from.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = ["sh", "-euc", self._moved(arguments)]
        subprocess.run(command, cwd=self._directory, env=environment | self.env, check=True)

    def _env(self, arguments: str) -> None:
        for word in shlex.split(arguments):
            name, _, value = word.partition("=")
            self.env[name] = self._moved(value).replace("$PATH", self.env["PATH"])

    def _user(self, arguments: str) -> None:
        """Not replayed."""

    def _entrypoint(self, arguments: str) -> None:
        self.entrypoint = arguments
