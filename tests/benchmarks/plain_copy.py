"""A plain consumer and producer in one process, without transactions: the peer of ``--to-topic``.

    python -m tests.benchmarks.plain_copy BOOTSTRAP SOURCE TARGET ENDS

It keeps keys, values, timestamps, headers and partitions, as anybody would write it; settings as quick as ours.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_READING: dict[str, Any] = {
    "group.id": "plain",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 4_194_304,
    "queued.max.messages.kbytes": 65_536,
}
_WRITING: dict[str, Any] = {
    "linger.ms": 20,
    "batch.size": 500_000,
    "batch.num.messages": 10_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
}


def copy(bootstrap: str, source: str, target: str, ends: list[int], *, headers: bool = False) -> None:
    """Copy all of a topic below these ends; with ``headers``, two more of the kind that kgroup adds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **_READING})
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **_WRITING})
    consumer.assign([TopicPartition(source, number, 0) for number in range(len(ends))])
    left = sum(ends)
    while left:
        for message in consumer.consume(min(2000, left), 0.1):
            assert message.error() is None, message.error()
            had = message.headers()
            if headers:
                where = f"{source}:{message.partition()}:{message.offset()}"
                had = [*(had or ()), ("kgroup.plan", "cu-xxxx"), ("kgroup.source", where)]
            more = {} if had is None else {"headers": had}
            while True:
                try:
                    producer.produce(
                        target,
                        message.value(),
                        message.key(),
                        message.partition(),
                        timestamp=message.timestamp()[1],
                        **more,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            left -= 1
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer.close()


if __name__ == "__main__":
    copy(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
