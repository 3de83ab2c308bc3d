"""Members of groups, each a process of its own that signals reach."""

import dataclasses
import json
import subprocess
import sys
from typing import Self

from tests.situations.row import Spec


class Nursery:
    """Starts members, and knows which ended; the rest end with the block."""

    def __init__(self) -> None:
        self._living: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in self._living.values():
            process.kill()
        for process in self._living.values():
            process.wait()

    def start(self, spec: Spec) -> int:
        """Its process id."""
        words = [sys.executable, "-m", "tests.situations.programs.member", json.dumps(dataclasses.asdict(spec))]
        self._living[spec.id] = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        return self._living[spec.id].pid

    def signal(self, id_: str, number: int) -> None:
        """Send a signal to a member, if it lives."""
        if id_ in self._living:
            self._living[id_].send_signal(number)

    def ended(self) -> dict[str, int]:
        """The exit codes of members that ended since the last call."""
        codes = {name: code for name, process in self._living.items() if (code := process.poll()) is not None}
        for name in codes:
            del self._living[name]
        return codes
