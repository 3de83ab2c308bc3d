"""An application that catches up by ``kgroup.consumer``, a process of its own: it processes and commits one by one.

``{"settings", "topic", "processed", "behind", "ledger", "within_s", "connection", "at": {step: signal}, "armed"}``.
What it processes it writes to a file, ``orders:3 17`` a line; what it is assigned, and what the listener logs, to
standard output. ``connection`` is what the listener's own clients have instead of ``settings``. ``at`` names a step
inside the callback (``before-ledger``, ``before-commit``, ``after-commit``) at which the process gets a signal from
itself, in its first callback that comes so far: a killed or a paused member. ``armed`` is a directory in which a file
of a step's name has such a signal for the first process that comes so far. SIGTERM ends it properly.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from confluent_kafka import Consumer, KafkaException

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.cluster.group_member import GroupMember
from kgroup.consumer import catch_up_if_behind


def main() -> None:
    """Process until SIGTERM."""
    what = json.loads(sys.argv[1])
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="LOG %(message)s")
    going = True

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, end)
    signals_itself(what.get("at", {}), Path(what["armed"]) if "armed" in what else None)
    settings = what["settings"] | {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    listener = catch_up_if_behind(
        what["behind"],
        settings | what.get("connection", {}),
        on_assign=lambda consumer, partitions: tell("ASSIGNED", [one.partition for one in partitions]),
        ledger_topic=what["ledger"],
        within_s=what.get("within_s", 20.0),
    )
    consumer = Consumer(settings)
    consumer.subscribe([what["topic"]], on_assign=listener)
    with Path(what["processed"]).open("a", encoding="utf-8", buffering=1) as file:
        while going:
            record = consumer.poll(0.05)
            if record is None or record.error():
                continue
            file.write(f"{record.topic()}:{record.partition()} {record.offset()}\n")
            try:
                consumer.commit(record, asynchronous=False)
            except KafkaException as error:  # a rebalance: the next owner processes this record again
                tell("UNCOMMITTED", [record.partition(), record.offset(), error.args[0].name()])
    consumer.close()


def tell(word: str, value: Any) -> None:
    """A line."""
    sys.stdout.write(f"{word} {json.dumps(value)}\n")
    sys.stdout.flush()


def signals_itself(at: dict[str, int], armed: Path | None) -> None:
    """At a step of the first release: before it reads the ledger, before its commit, or after it."""
    commit: Callable[..., None] = GroupMember.commit
    prepare: Callable[..., Any] = Ledger.prepare

    def reached(step: str) -> None:
        if number := at.pop(step, None) or (armed and taken(armed, step)):
            tell(step.upper(), None)
            os.kill(os.getpid(), number)

    def committed(self: GroupMember, commits: Any) -> None:
        reached("before-commit")
        commit(self, commits)
        reached("after-commit")

    def prepared(self: Ledger) -> Any:
        reached("before-ledger")
        return prepare(self)

    Ledger.prepare = prepared  # type: ignore[method-assign]
    GroupMember.commit = committed  # type: ignore[method-assign]


def taken(armed: Path, step: str) -> int | None:
    """The signal that is armed for the step, for one process alone: its file has that one's id from then on."""
    try:
        number = int((armed / step).read_text(encoding="utf-8"))
        (armed / step).rename(armed / f"{step}-{os.getpid()}")  # whoever waits for it may remove it at once
    except FileNotFoundError:
        return None
    return number


if __name__ == "__main__":
    main()
