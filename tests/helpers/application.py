"""An application as runbooks know it, a process of its own: it processes record by record, and commits each.

A record with the value ``poison`` is too much for it: it comes no further on that partition, and goes on with the
others. SIGTERM ends it properly: it leaves its group, unless it is a static member. What it processes it writes to
a file, ``payments:3 17`` a line. After ``most`` records it ends by itself, in the same way.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_POISON = b"poison"
_REBALANCING = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)


def main(settings: dict[str, str], topic: str, processed: str, most: str = "inf") -> None:
    """Process until SIGTERM."""
    left = float(most)
    going = True

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, end)
    consumer = Consumer(settings | {"enable.auto.commit": "false", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    with Path(processed).open("a", encoding="utf-8", buffering=1) as file:
        while going and left > 0:
            record = consumer.poll(0.05)
            if record is None or record.error():
                continue
            place = TopicPartition(record.topic() or "", record.partition() or 0, record.offset() or 0)
            if record.value() == _POISON:
                consumer.pause([place])
                continue
            file.write(f"{place.topic}:{place.partition} {place.offset}\n")
            commit(consumer, record)
            left -= 1
    consumer.close()


def commit(consumer: Consumer, record: Message) -> None:
    """Commit a record that is processed, if need be when the rebalance that is under way is over."""
    while True:
        try:
            consumer.commit(record, asynchronous=False)
            return
        except KafkaException as error:
            if error.args[0].code() not in _REBALANCING:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
