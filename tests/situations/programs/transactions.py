"""Records that are written in transactions: one after the other, some of them aborted; and one that stays open."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.situations.programs.feeder import HEALTHY
from tests.situations.row import Feed

_LONGEST_MS = 900_000
"""Of a broker; an open one lives as long as a situation."""


@contextmanager
def fed(bootstrap: str, topic: str, partitions: int, feed: Feed, failed: list[Exception]) -> Iterator[None]:
    """While the block runs, all partitions get the records of `feed.transaction`, one transaction after the other."""
    assert feed.transaction
    count, aborted = feed.transaction
    over = threading.Event()
    producer = _producer(bootstrap, topic)

    def write() -> None:
        number = 0
        try:
            while not over.wait(0 if feed.held else count / feed.per_s):
                number += 1
                counts = dict.fromkeys(range(partitions), count)
                _transaction(producer, topic, counts, lambda: feed.held and over.wait(1 / feed.per_s))
                if aborted and number % aborted == 0:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
        except Exception as error:  # a thread has nobody else to tell
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def left_open(bootstrap: str, topic: str, partition: int, count: int = 3) -> Iterator[None]:
    """A transaction with records of this partition; it is aborted with the block."""
    producer = _producer(bootstrap, f"{topic}-{partition}-open")
    _transaction(producer, topic, {partition: count})
    yield
    producer.abort_transaction(30)


def _producer(bootstrap: str, name: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": _LONGEST_MS}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(60)
    return producer


def _transaction(
    producer: Producer, topic: str, counts: Mapping[int, int], is_over: Callable[[], bool] = lambda: False
) -> None:
    """Records of each partition in turn; none after one of which it is over."""
    producer.begin_transaction()
    for number in range(max(counts.values())):
        for partition, count in counts.items():
            if number < count:
                producer.produce(topic, HEALTHY, partition=partition)
        producer.poll(0)
        if is_over():
            break
    assert producer.flush(30) == 0
