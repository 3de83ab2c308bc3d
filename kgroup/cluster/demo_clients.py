"""The clients of ``kgroup sandbox demo``: a producer, and a consumer that commits less than it processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kgroup.errors import SandboxError

SESSION_TIMEOUT_MS = 2_000
"""Short, so that the crash is noticed while somebody watches; the sandbox's brokers allow it."""

_TIMEOUT_S = 15.0
_PARTITION = 0


def topics(bootstrap_servers: str) -> frozenset[str]:
    """The topics that there are; raises SandboxError."""
    with _reported("list topics"):
        return frozenset(AdminClient(_settings(bootstrap_servers)).list_topics(timeout=_TIMEOUT_S).topics)


def create_topic(bootstrap_servers: str, topic: str) -> None:
    """A topic of one partition; raises SandboxError."""
    admin = AdminClient(_settings(bootstrap_servers))
    with _reported(f"create {topic}"):
        for future in admin.create_topics([NewTopic(topic, num_partitions=1)]).values():
            future.result(_TIMEOUT_S)


def produce(bootstrap_servers: str, topic: str, offsets: range) -> None:
    """Write one record for each offset, which it then has; raises SandboxError if one is not acknowledged."""
    producer = Producer(_settings(bootstrap_servers) | {"acks": "all"})
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)

    with _reported(f"write to {topic}"):
        for offset in offsets:
            key = f"customer-{offset % 7}"
            producer.produce(topic, f"order {offset}", key, _PARTITION, on_delivery=delivered)
        if producer.flush(_TIMEOUT_S) or errors:
            raise KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))


def consume(bootstrap_servers: str, topic: str, group: str, commit_at: int) -> Iterator[int]:
    """Join ``group`` and yield the offset of each record; commits once, at ``commit_at``, and never again.

    Never returns; the caller stops asking, or is killed. Raises SandboxError.
    """
    consumer = Consumer(
        _settings(bootstrap_servers)
        | {
            "group.id": group,
            "client.id": "demo-consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 4,
        }
    )
    with _reported(f"consume {topic}"):
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            offset = message.offset()
            assert offset is not None
            yield offset
            if offset + 1 == commit_at:
                committed = TopicPartition(topic, _PARTITION, commit_at)
                consumer.commit(offsets=[committed], asynchronous=False)


@contextmanager
def _reported(action: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise SandboxError(f"the demo could not {action}: {error.args[0]}") from error


def _settings(bootstrap_servers: str) -> dict[str, str | int | bool]:
    return {"bootstrap.servers": bootstrap_servers, "log_level": 3}
