"""A real consumer in a process of its own, told what to be by JSON in its argument.

``{"bootstrap", "group", "topics", "telling": bool, "settings": {...}}``. It prints a JSON line whenever its assignment
changes (from its first rebalance on; if it is ``telling``, with the generation and the member id that the client itself
knows), commits on each line ``commit`` of its standard input, stops polling on ``hold`` until ``go``, though its
heartbeats go on, and closes gracefully when that ends.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

_JOINED = re.compile(r"JoinGroup response: GenerationId (\d+), .* my MemberId ([^,]+),")


class Joined(logging.Handler):
    """What librdkafka's debug log says of each JoinGroup: the client tells it nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.generation: int | None = None
        self.member_id: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the newest."""
        if found := _JOINED.search(record.getMessage()):
            self.generation, self.member_id = int(found[1]), found[2]


def main() -> None:
    """Poll until standard input ends."""
    what = json.loads(sys.argv[1])
    commands: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    settings = {"bootstrap.servers": what["bootstrap"], "group.id": what["group"], "enable.auto.commit": False}
    settings |= {"auto.offset.reset": "earliest"} | what["settings"]
    joined = Joined()
    if what["telling"]:
        log = logging.Logger("member")
        log.addHandler(joined)
        settings |= {"debug": "cgrp", "logger": log}
    _consume(Consumer(settings), what["topics"], commands, joined)


def _read_commands(commands: queue.Queue[str | None]) -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    commands.put(None)


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _next(commands: queue.Queue[str | None]) -> str | None:
    try:
        return commands.get_nowait()
    except queue.Empty:
        return ""


def _hold(commands: queue.Queue[str | None]) -> None:
    """Not poll until told to go on: whatever a rebalance wants of the application waits."""
    _say(holding=True)
    while commands.get() not in ("go", None):
        pass
    _say(holding=False)


def _consume(consumer: Consumer, topics: list[str], commands: queue.Queue[str | None], joined: Joined) -> None:
    rebalanced = False

    def on_rebalance(*_: Any) -> None:
        nonlocal rebalanced
        rebalanced = True

    consumer.subscribe(topics, on_assign=on_rebalance)
    shown = None
    while (command := _next(commands)) is not None:
        if command == "hold":
            _hold(commands)
        consumer.poll(0.05)
        held = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
        now = (held, joined.generation, joined.member_id)
        if now != shown and rebalanced:
            shown = now
            _say(assignment=held, generation=joined.generation, member_id=joined.member_id)
        if command == "commit" and not held:  # a rebalance came between
            commands.put(command)
        elif command == "commit":
            places = consumer.position([TopicPartition(*place) for place in held])
            reached = [TopicPartition(tp.topic, tp.partition, max(tp.offset, 0)) for tp in places]
            try:
                consumer.commit(offsets=reached, asynchronous=False)
            except KafkaException:  # a rebalance came between
                commands.put("commit")
            else:
                _say(committed=True)
    consumer.close()


if __name__ == "__main__":
    main()
