"""Members of groups: each a process of its own that signals reach; those of Java share one."""

import dataclasses
import json
import subprocess
import sys
from typing import Self

from tests.situations.programs.java import Connectors, JavaProcess
from tests.situations.row import Spec


class Nursery:
    """Starts members, and knows which ended; the rest end with the block."""

    def __init__(self) -> None:
        self._living: dict[str, subprocess.Popen[bytes]] = {}
        self._java = JavaProcess()
        self._connect = Connectors()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._java.end()
        self._connect.end()
        for process in self._living.values():
            process.kill()
        for process in self._living.values():
            process.wait()

    def start(self, spec: Spec) -> int:
        """Its process id."""
        match spec.client:
            case "java" | "streams":
                return self._java.start(spec)
            case "connect":
                return self._connect.start(spec)
        words = [sys.executable, "-m", "tests.situations.programs.member", json.dumps(dataclasses.asdict(spec))]
        self._living[spec.id] = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        return self._living[spec.id].pid

    def signal(self, id_: str, number: int) -> None:
        """Send a signal to a member, if it lives."""
        if id_ in self._living:
            self._living[id_].send_signal(number)
        self._java.signal(id_, number)
        self._connect.signal(id_, number)

    def ended(self) -> dict[str, int]:
        """The exit codes of members that ended since the last call."""
        codes = {name: code for name, process in self._living.items() if (code := process.poll()) is not None}
        for name in codes:
            del self._living[name]
        return codes | self._java.ended() | self._connect.ended()
