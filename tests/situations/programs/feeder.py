"""The records of all situations, written by one thread."""

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.situations.row import Feed

POISON: Final = b"poison"
HEALTHY: Final = b"1"
"""As JSON a number, which `poison` is not: converters of Connect read the one and fail at the other."""

_IN_A_BURST: Final = 5
"""Before the poison and after it, in one go: that a client commits each record shows where the next one was there."""
_TURN_S: Final = 0.05

Place = tuple[str, int]


@dataclass(slots=True)
class Fed:
    """A place that gets records, the next ones at `next_s`."""

    feed: Feed
    next_s: float
    begun_s: float = field(init=False)
    count: int = 0  # of records that had a timestamp

    def __post_init__(self) -> None:
        self.begun_s = self.next_s

    def timestamp_ms(self, now_s: float) -> int:
        """Of the next record, by the clock of its producer, which runs on from where it began; 0: by the right one."""
        self.count += 1
        for began_at_s, each in self.feed.clocks.values():
            if self.count % each == 0:
                return int(1000 * (began_at_s + now_s - self.begun_s))
        return 0

    def due(self, now_s: float) -> int:
        """How many records are due and were not asked for yet, however long ago the last turn was."""
        count, every_s = self.feed.burst or (1, 1 / self.feed.per_s)
        times = max(0, math.floor((now_s - self.next_s) / every_s) + 1)
        self.next_s += times * every_s
        return times * count


class Feeder:
    """Feeds places of the broker until the block ends."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # brokers of some rows are dead for long
                "log_level": 0,
            }
        )
        self._fed: dict[Place, Fed] = {}
        self._poisoned: dict[Place, list[int]] = {}
        self._ends: dict[Place, int] = {}
        self._failed: list[KafkaError] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()
        failed = [*self._failed]
        self._producer.purge()  # what a broker that a row has stopped does not take
        self._producer.flush(30)
        assert not failed, failed

    def feed(self, topic: str, partition: int, feed: Feed) -> None:
        """From now on, until it is quiet."""
        with self._lock:
            self._fed[topic, partition] = Fed(feed, time.monotonic())

    def quiet(self, topic: str) -> None:
        """No more records of a topic."""
        with self._lock:
            self._fed = {place: fed for place, fed in self._fed.items() if place[0] != topic}

    def poison(self, topic: str, partition: int) -> None:
        """One record that its application cannot process, among others."""

        def written(error: KafkaError | None, message: Message) -> None:
            self._written(error, message)
            if error is None:
                self._poisoned.setdefault((topic, partition), []).append(self._ends[topic, partition] - 1)

        with self._lock:
            self._some(topic, partition, _IN_A_BURST)
            self._producer.produce(topic, POISON, partition=partition, on_delivery=written)
            self._some(topic, partition, _IN_A_BURST)

    def poisoned(self, topic: str, partition: int) -> tuple[int, ...]:
        """The offsets of its poison, as far as the broker has acknowledged it."""
        return tuple(self._poisoned.get((topic, partition), ()))

    def feeds(self, topic: str, partition: int) -> bool:
        """Whether more records come."""
        with self._lock:
            return (topic, partition) in self._fed

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record that the broker has acknowledged."""
        return self._ends.get((topic, partition), 0)

    def _write(self) -> None:
        while not self._over.is_set():
            now = time.monotonic()
            with self._lock:
                for (topic, partition), fed in self._fed.items():
                    for _ in range(fed.due(now)):
                        self._some(topic, partition, 1, fed.timestamp_ms(now))
            self._producer.poll(0)
            self._over.wait(_TURN_S)

    def _some(self, topic: str, partition: int, count: int, timestamp_ms: int = 0) -> None:
        for _ in range(count):
            self._producer.produce(
                topic, HEALTHY, partition=partition, timestamp=timestamp_ms, on_delivery=self._written
            )

    def _written(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self._ends[topic, partition] = offset + 1
