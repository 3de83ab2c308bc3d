"""Kafka's own command line tools, run one after the other in one JVM (``KafkaTools.java``)."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

from kgroup.model.reporter import NullReporter
from kgroup.sandbox.cluster import distribution
from kgroup.sandbox.jvm import QUICK_FLAGS
from tests.support.places import DATA

SOURCE = str(DATA / "KafkaTools.java")


class KafkaTools:
    """Starts a tool in 0.1 s instead of 1.5; one call at a time. ``command`` None: Java with the sandbox's jars."""

    def __init__(self, command: Sequence[str] | None = None, directory: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command or distribution(None, NullReporter()).command(SOURCE, flags=QUICK_FLAGS, quiet=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=directory,
        )

    def __enter__(self) -> KafkaTools:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()

    def __call__(self, main_class: str, *arguments: str) -> CompletedProcess[str]:
        """Run a tool to its end. The caller checks ``returncode``, stdout and stderr."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join((main_class, *arguments)) + "\n")
        self._process.stdin.flush()
        code, *said = self._process.stdout.readline().rstrip("\n").split(" ")
        stdout, stderr = (base64.b64decode(text).decode(errors="replace") for text in said)
        return CompletedProcess(arguments, int(code), stdout, stderr)
