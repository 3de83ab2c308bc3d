"""The application of ``--to-group``: tests/helpers/application.py with a group of its own, and what it processed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.waiting import wait_for

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 15_000, "heartbeat.interval.ms": 100},
    "consumer": {"group.protocol": "consumer"},
}
_APPLICATION = Path(__file__).parents[1] / "application.py"


@dataclass(frozen=True)
class SecondApplication:
    """``processed`` is its file."""

    process: subprocess.Popen[bytes]
    processed: Path

    @property
    def records(self) -> list[str]:
        """``orders:0:70``, in the order of processing."""
        return [line.replace(" ", ":") for line in self.processed.read_text(encoding="utf-8").splitlines()]

    def has(self, count: int) -> None:
        """Wait until it has processed so many records."""
        wait_for(lambda: self.processed.exists() and len(self.records) >= count, f"{count} records")

    def ended(self) -> None:
        """Wait until it has ended by itself, and left its group."""
        self.process.wait(60)

    def stop(self) -> None:
        """End it: it leaves its group."""
        self.process.terminate()
        self.process.wait(30)


@contextmanager
def second_application(
    bootstrap: str, group: str, topic: str, processed: Path, *, protocol: str = "classic", most: int | None = None
) -> Iterator[SecondApplication]:
    """It reads from its commits on until the block ends, or ``most`` records."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": "0", **PROTOCOLS[protocol]}
    words = (json.dumps(settings), topic, str(processed), *(() if most is None else (str(most),)))
    process = subprocess.Popen([sys.executable, str(_APPLICATION), *words], stderr=subprocess.DEVNULL)
    application = SecondApplication(process, processed)
    try:
        yield application
        application.stop()
    finally:
        process.kill()
        process.wait(10)
