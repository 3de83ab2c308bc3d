"""An application that does not get past a record: it seeks back and tries again, for ever, or ends.

``python -m tests.helpers.stuck_application SETTINGS TOPIC HABIT`` prints a line for each try. HABIT is when it commits:

``delivery``  librdkafka does, by auto commit: what it has delivered
``each``      after each record, and the offset of the one that fails at each try
``batch``     after each batch, and the start of the batch that fails at each try
``flip``      after each record; at each try the offset of the one that fails, and the one after it
``batch-end`` after each record of a batch; it begins again with the first one of the batch that fails
``creep``     before each record, which ends it: it leaves
"""

from __future__ import annotations

import json
import os
import sys

from confluent_kafka import Consumer, TopicPartition

POISON = b"poison"


def main(settings: dict[str, str], topic: str, habit: str) -> None:
    """Run until it is killed, or a record ends it."""
    automatic = {"enable.auto.commit": habit == "delivery", "auto.commit.interval.ms": 100, "fetch.wait.max.ms": 20}
    consumer = Consumer(settings | automatic | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while True:
        batch = consumer.consume(100 if habit.startswith("batch") else 1, timeout=0.05)
        offsets = [record.offset() or 0 for record in batch]
        failed = next((at for at, record in enumerate(batch) if record.value() == POISON), None)
        if not batch:
            continue
        partition = batch[0].partition() or 0
        commits = [offsets[-1] + 1]
        if failed is not None:
            again, poison = offsets[0], offsets[failed]
            commits = {"batch": [again], "flip": [poison, poison + 1]}.get(habit, [poison])
        if habit == "batch-end":
            commits = [offset + 1 for offset in offsets[:failed]]
        if habit != "delivery":
            for offset in commits:
                consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        if habit == "creep":
            consumer.close()
            os._exit(1)
        if failed is not None:
            consumer.seek(TopicPartition(topic, partition, again if habit.startswith("batch") else poison))
            sys.stdout.write("again\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
