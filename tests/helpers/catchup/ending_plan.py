"""A process that writes the end of a plan and stops at a step of it, to be killed there.

One argument: JSON with ``bootstrap``, ``ledger``, ``plan`` and ``step``. The steps are before the transaction, after
each of its records, before its commit, and after it. It prints ``step N`` when the log has what was written before.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.cluster.transactions import Transactions
from kgroup.groups.catchup.model import PlanState, StateRecord


class Stopping(Transactions):
    """Stops after so many calls."""

    left: int

    def _step(self) -> None:
        if not Stopping.left:
            sys.stdout.write(f"step {STEP}\n")
            sys.stdout.flush()
            sys.stdin.read()
        Stopping.left -= 1

    def begin(self) -> None:
        self._step()
        super().begin()

    def produce(self, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
        super().produce(topic, key, value, partition)
        assert self.producer.flush(30) == 0
        self._step()

    def commit(self) -> None:
        self._step()
        super().commit()
        self._step()


def main(what: dict[str, Any]) -> None:
    config = {"bootstrap.servers": what["bootstrap"]}
    with Ledger(config, what["ledger"], timeout_s=30) as ledger:
        runner = ledger.take_over(what["plan"], who="me@here", now_ms=1)
        Stopping.left = what["step"]
        assert runner._transactions is not None
        runner._transactions.__class__ = Stopping
        runner.write(StateRecord(PlanState.DONE, 1, "me@here", 0))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    STEP = asked["step"]
    main(asked)
