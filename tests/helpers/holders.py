"""Runs that hold a group, each in a process of its own: to be stopped, killed, interrupted and woken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kgroup.model.topic_partition import TopicPartition
from tests.helpers.places import ROOT
from tests.helpers.waiting import read_line


class Holder:
    """The process of ``holder_process``."""

    def __init__(
        self, bootstrap: str, group: str, kind: str, places: Sequence[TopicPartition], session_ms: int | None
    ) -> None:
        what = {"bootstrap": bootstrap, "group": group, "kind": kind, "places": list(places), "session_ms": session_ms}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.holder_process", json.dumps(what)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    def says(self) -> dict[str, Any]:
        """Its next line."""
        said: dict[str, Any] = json.loads(read_line(self.process.stdout) or "{}")
        return said

    def ask(self, command: str) -> str | None:
        """The answer to ``commit OFFSET`` or ``alone``: None, or the code of the refusal."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        answer: str | None = self.says()["answer"]
        return answer

    def leave(self) -> dict[str, Any]:
        """Let it come to its end; its last line."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.says()

    def stop(self) -> None:
        """SIGSTOP: it stands still, with all its connections."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def interrupt(self) -> None:
        """ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(10)


@contextmanager
def holder(
    bootstrap: str, group: str, kind: str, places: Sequence[TopicPartition], session_ms: int | None = None
) -> Iterator[Holder]:
    """Start one; killed when the block ends. ``session_ms`` is its session in a classic group."""
    made = Holder(bootstrap, group, kind, places, session_ms)
    try:
        yield made
    finally:
        made.kill()
        for pipe in (made.process.stdin, made.process.stdout):
            assert pipe
            pipe.close()
