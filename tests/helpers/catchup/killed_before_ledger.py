"""``kgroup`` that kills itself when records are delivered, and before the ledger shows it. Arguments: its own."""

from __future__ import annotations

import os
import signal
from typing import Any

from kgroup.__main__ import main
from kgroup.catchup.ledger.runner import Runner
from kgroup.groups.catchup.model import ChunkProgress


def write(self: Runner, *values: Any) -> None:
    if any(isinstance(value, ChunkProgress) and value.records for value in values):
        os.kill(os.getpid(), signal.SIGKILL)
    _write(self, *values)


if __name__ == "__main__":
    _write, Runner.write = Runner.write, write  # type: ignore[method-assign]
    main()
