"""A worker in a process of its own, to be killed. One argument: the file of a pickled TaskSpec.

It says how many records it has, each time that it tells, and ``finished`` at the end.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from kgroup.catchup.sinks.run_task import run_task
from kgroup.catchup.worker.task_progress import TaskProgress


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell(told: TaskProgress) -> None:
    say(str(told.records))


def main(path: str) -> None:
    spec = pickle.loads(Path(path).read_bytes())
    result = run_task(spec, tell, lambda: False, lambda: None)
    say("finished" if result.finished else "unfinished")


if __name__ == "__main__":
    main(sys.argv[1])
