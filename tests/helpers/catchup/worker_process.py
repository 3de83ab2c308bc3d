"""A worker in a process of its own, to be killed. One argument: the file of a pickled TaskSpec.

It says that it works, four times a second, and ``finished`` at the end.
"""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path

from kgroup.catchup.sinks.run_task import run_task


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Pulse:
    """Never asks the task to stop."""

    def __init__(self) -> None:
        self._said_s = time.monotonic()

    def __call__(self) -> bool:
        if time.monotonic() - self._said_s >= 0.25:
            self._said_s = time.monotonic()
            say("works")
        return False


def main(path: str) -> None:
    spec = pickle.loads(Path(path).read_bytes())
    result = run_task(spec, stop=Pulse())
    say("finished" if result.finished else "unfinished")


if __name__ == "__main__":
    main(sys.argv[1])
