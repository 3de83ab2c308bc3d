"""Write records to an existing topic, each acknowledged by all in-sync replicas."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kgroup.cluster.librdkafka import ClientWatch, client, record_client_error
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.model.records import Headers
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.errors import KgroupError

_POLL_S = 0.1  # how long ctrl-C may wait
_LARGEST_MESSAGE = 1_000_000_000
_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    # A broker may refuse the first request for a new topic and take the second; it then answers that the first, sent
    # again, is a duplicate, and its records are lost, though acknowledged (seen on 4.4.0: 4 of 300 topics).
    "max.in.flight": 1,
    "linger.ms": 5,
    # A record may have been compressed at its source, and exceed the topic's limit when uncompressed.
    "compression.type": "lz4",
    # The broker decides what is too large: the topic's limit counts, not the client's default.
    "message.max.bytes": _LARGEST_MESSAGE,
    # Bounds the memory used.
    "queue.buffering.max.kbytes": 16_384,
    # Java's partitioner, so that a key goes to the same partition as with the topic's other producers.
    "partitioner": "murmur2_random",
}


def read_settings(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> TopicSettings | None:
    """The topic's settings; None if they cannot be read (it needs DESCRIBE_CONFIGS)."""
    try:
        description = TopicAdmin(config, timeout_s=timeout_s).describe(topic)
    except KgroupError:
        return None
    return None if description is None else description.settings


class TopicWriter:
    """Writes to one topic. A context manager that discards unsent records if its block fails.

    ``timeout_s`` is how long to wait without any record being acknowledged. ``add`` and ``finish`` raise for *any*
    record that was refused: NotAuthorized, NotFound, Refused with code ``too-large`` or ``not-accepted``, Unreachable.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, *, timeout_s: float) -> None:
        self.topic = topic
        self.acknowledged = 0
        self._watch = ClientWatch(timeout_s)
        self._failed: KafkaError | None = None
        self._producer = client(Producer, {**config, **_SETTINGS}, self._watch)

    def __enter__(self) -> TopicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(KafkaException):  # raised by a producer that has failed; its error is already known
            if kind is not None:
                self._producer.purge()
            self._producer.flush(_POLL_S)

    def add(self, key: bytes | None, value: bytes | None, timestamp_ms: int | None, headers: Headers) -> None:
        """Queue one record; waits while the queue is full. A timestamp of None or 0 becomes the present time."""
        if not len(self._producer):
            self._watch.progress()
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    value,
                    key,
                    timestamp=max(0, timestamp_ms or 0),
                    headers=list(headers),
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self._wait()
            except KafkaException as error:
                raise self._refused(error.args[0]) from error
        self._serve(0)

    def finish(self) -> None:
        """Wait until every record is acknowledged."""
        while len(self._producer):
            self._wait()
        self._check()

    def _wait(self) -> None:
        self._serve(_POLL_S)
        if self._watch.over:
            raise self._watch.fault(f"{self.topic} does not accept records")

    def _serve(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # fatal: the producer can send nothing more
            raise self._refused(error.args[0]) from error
        self._check()

    def _check(self) -> None:
        if self._failed is not None:
            raise self._refused(self._failed)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
            self._watch.progress()
        elif self._failed is None:
            self._failed = error

    def _refused(self, error: KafkaError) -> KgroupError:
        return record_client_error(error, self.topic, "keep the records in a file")
