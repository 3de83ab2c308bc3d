"""Applications with the listener of ``kgroup.consumer``, each a process, and what they processed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT
from tests.helpers.waiting import wait_for

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


def settings_of(protocol: str, bootstrap: str, group: str, session_ms: int = 15_000, **more: Any) -> dict[str, Any]:
    """librdkafka's, for a member; the broker decides the session of the consumer protocol."""
    classic = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 100} if protocol != "consumer" else {}
    return {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, **classic, **PROTOCOLS[protocol], **more}


class ListeningApplication:
    """One member. ``what`` is that of ``listening_application.py``."""

    def __init__(self, settings: dict[str, Any], topic: str, processed: Path, ledger: str, **what: Any) -> None:
        given = {"settings": settings, "topic": topic, "processed": str(processed), "ledger": ledger, "behind": 10}
        self.file = processed
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.catchup.listening_application", json.dumps(given | what)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> ListeningApplication:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def says(self, text: str, within_s: float = 30.0) -> str:
        """Wait for a line with this text."""

        def said() -> str | None:
            return next((line for line in self.lines if text in line), None)

        return wait_for(said, f"{text!r} of {self.lines}", within_s)

    @property
    def has_partitions(self) -> bool:
        """Whether it was assigned some."""
        return any(re.match(r"ASSIGNED \[\d", line) for line in self.lines)

    def uncommitted(self, topic: str) -> list[str]:
        """What it has processed and could not commit."""
        found = (json.loads(line.partition(" ")[2]) for line in self.lines if line.startswith("UNCOMMITTED "))
        return [f"{topic}:{partition} {offset}" for partition, offset, _ in found]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self._ended()

    def close(self) -> None:
        """SIGTERM: it leaves the group."""
        self.process.send_signal(signal.SIGTERM)
        self._ended()

    def _ended(self) -> None:
        self.process.wait(60)
        self._listener.join(10)
        if self.process.stdout:
            self.process.stdout.close()


def processed(*files: Path) -> Counter[str]:
    """``orders:3 17`` and how often it was processed; a line that a kill cut short does not count."""
    lines: list[str] = []
    for file in files:
        if file.exists():
            *whole, _ = file.read_text(encoding="utf-8").split("\n")
            lines += whole
    return Counter(lines)
