"""An application that does not get past a record: it seeks back and tries again, for ever.

``python -m tests.helpers.stuck_application SETTINGS TOPIC HABIT`` prints a line for each try. HABIT is when it commits:

``delivery``  librdkafka does, by auto commit: what it has delivered
``each``      after each record, and the offset of the one that fails at each try
``batch``     after each batch, and the start of the batch that fails at each try
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, TopicPartition

POISON = b"poison"


def main(settings: dict[str, str], topic: str, habit: str) -> None:
    """Run until it is killed."""
    automatic = {"enable.auto.commit": habit == "delivery", "auto.commit.interval.ms": 100, "fetch.wait.max.ms": 20}
    consumer = Consumer(settings | automatic | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while True:
        batch = consumer.consume(100 if habit == "batch" else 1, timeout=0.05)
        places = [TopicPartition(topic, record.partition() or 0, record.offset() or 0) for record in batch]
        failed = next((at for at, record in enumerate(batch) if record.value() == POISON), None)
        if not batch:
            continue
        if failed is not None:
            again = places[failed] if habit != "batch" else places[0]
            if habit != "delivery":
                consumer.commit(offsets=[again], asynchronous=False)
            consumer.seek(again)
            sys.stdout.write("again\n")
            sys.stdout.flush()
        elif habit != "delivery":
            after = TopicPartition(topic, places[-1].partition, places[-1].offset + 1)
            consumer.commit(offsets=[after], asynchronous=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
