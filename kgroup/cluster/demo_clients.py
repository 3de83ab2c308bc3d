"""The clients of ``kgroup sandbox demo``: producers, and a consumer that may commit less than it processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kgroup.cluster.librdkafka import NEVER_CREATES
from kgroup.support.errors import SandboxError

SESSION_TIMEOUT_MS = 2_000
"""Short, so that the group notices the crash while the user watches; the sandbox's brokers allow it."""

_TIMEOUT_S = 15.0
_SLICE_S = 0.2
_POLL_S = 0.1
_PARTITION = 0


def topics(bootstrap_servers: str) -> frozenset[str]:
    """The topics that exist. Raises SandboxError."""
    with _as_sandbox_error("list topics"):
        return frozenset(AdminClient(_settings(bootstrap_servers)).list_topics(timeout=_TIMEOUT_S).topics)


def create_topic(bootstrap_servers: str, topic: str) -> None:
    """Create a topic with one partition. Raises SandboxError."""
    admin = AdminClient(_settings(bootstrap_servers))
    with _as_sandbox_error(f"create {topic}"):
        for future in admin.create_topics([NewTopic(topic, num_partitions=1)]).values():
            future.result(_TIMEOUT_S)


def produce(bootstrap_servers: str, topic: str, offsets: range) -> None:
    """Write one record per offset, so that it gets that offset. Raises SandboxError if one is not acknowledged."""
    producer = Producer(_settings(bootstrap_servers) | {"acks": "all"})
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)

    with _as_sandbox_error(f"write to {topic}"):
        for offset in offsets:
            key = f"customer-{offset % 7}"
            producer.produce(topic, f"order {offset}", key, _PARTITION, on_delivery=delivered)
        until = time.monotonic() + _TIMEOUT_S
        # Not flush: a signal ends it early, although nothing has failed.
        while len(producer) and time.monotonic() < until:
            producer.poll(_SLICE_S)
        if len(producer) or errors:
            raise KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))


class OrderWriter:
    """Writes orders one by one while a consumer reads at the log end; the first order is ``number``."""

    def __init__(self, bootstrap_servers: str, topic: str, number: int) -> None:
        self._producer = Producer(_settings(bootstrap_servers) | {"linger.ms": 0})
        self._topic = topic
        self.next = number

    def write(self) -> None:
        """Write the next order. Raises SandboxError."""
        with _as_sandbox_error(f"write to {self._topic}"):
            self._producer.produce(self._topic, f"order {self.next}", f"customer-{self.next % 7}", _PARTITION)
            self.next += 1
            self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all records are written, at most 15 s."""
        self._producer.flush(_TIMEOUT_S)


def consume(
    bootstrap_servers: str, topic: str, group: str, commit_at: int | None, stop: Callable[[], bool]
) -> Iterator[int]:
    """Join ``group`` and yield the offset of each record.

    It commits once, when the committed offset is ``commit_at``; None: after each record. A consumer that commits once
    is meant to crash, so its session timeout is short. The other kind runs on in parallel with what the demo starts.
    When ``stop`` returns True it leaves the group and ends. Raises SandboxError.
    """
    short = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 4}
    consumer = Consumer(
        _settings(bootstrap_servers)
        | {
            "group.id": group,
            "client.id": "demo-consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        | (short if commit_at is not None else {})
    )
    with _as_sandbox_error(f"consume {topic}"):
        consumer.subscribe([topic])
        while not stop():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            offset = message.offset()
            assert offset is not None
            yield offset
            if commit_at is None or offset + 1 == commit_at:
                committed = TopicPartition(topic, _PARTITION, offset + 1)
                consumer.commit(offsets=[committed], asynchronous=False)
        consumer.close()


@contextmanager
def _as_sandbox_error(action: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise SandboxError(f"the demo could not {action}: {error.args[0]}") from error
    except TimeoutError as error:
        raise SandboxError(f"the demo could not {action}: no answer in {_TIMEOUT_S:g} s") from error


def _settings(bootstrap_servers: str) -> dict[str, str | int | bool]:
    return {"bootstrap.servers": bootstrap_servers, "log_level": 3, **NEVER_CREATES}
