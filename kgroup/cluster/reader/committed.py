"""Reading a topic of one partition up to an end that was taken before, whatever transactions are open in between.

A read of what is committed stops below the first open transaction and calls that the end of the partition: what others
have committed behind it is hidden. So the end is the one that a reader of everything sees, and the *position* must
reach it; open transactions are waited for, as the broker aborts them in time. Who must know what an earlier producer
has committed fences it first and takes the end afterwards. Importable in Spark's workers without kafka-python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kgroup.cluster.librdkafka import ClientWatch, client, may_pass, of_topic
from kgroup.cluster.transactions import ABORT_SCAN_S, LONGEST_S
from kgroup.model.transactions_hint import find_hanging
from kgroup.support.errors import KgroupError, Refused

PATIENCE_S = LONGEST_S + 2 * ABORT_SCAN_S
"""How long an open transaction is waited for: it is aborted sooner, unless it hangs."""

_POLL_S = 0.02
_ASK_S = 0.5
_TELL_AFTER_S = 1.0
_BATCH = 1000
_TUNING = {
    # How long the news that the end of the partition is reached may take: twice that bounds each read. While an open
    # transaction is waited for, so often is asked: 2 % of a core, on the broker as here.
    "fetch.wait.max.ms": 3,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 1,
    "queued.max.messages.kbytes": 16_384,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1000,
}
_REQUIRED = {
    "group.id": "kgroup-reader",  # librdkafka insists on a name; the broker never keeps it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}

Item = tuple[int, bytes | None, bytes | None]
"""(offset, key, value)"""


class SettledReader:
    """Reads partition 0 of ``topic``, each time from the start asked for to the end of that moment.

    ``timeout_s`` is how long no answer at all may come. ``on_wait`` is called once a read where an open transaction has
    been waited for a second, with how many seconds that may take at most. A context manager.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        timeout_s: float,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.topic = topic
        self.end = 0
        """Where the last read ended, or was to end."""
        self._config = {**_TUNING, **config, **_REQUIRED}
        self._watch = ClientWatch(timeout_s)
        self._on_wait = on_wait
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> SettledReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        for consumer in self._clients.values():
            consumer.close()
        self._clients.clear()

    def connect(self) -> None:
        """Only be connected, so that the first read is quick. Raises as ``bounds``."""
        self.bounds()
        with suppress(KafkaException):
            self._client("read_committed").get_watermark_offsets(TopicPartition(self.topic, 0), _ASK_S)

    def bounds(self) -> tuple[int, int]:
        """The log start, and the end that a reader of everything sees.

        Raises NotFound where the topic does not exist, NotAuthorized, AuthenticationFailed, Unreachable.
        """
        consumer = self._client("read_uncommitted")
        self._watch.progress()
        while True:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), _ASK_S)
            except KafkaException as raised:
                error = raised.args[0]
            else:
                return low, high
            consumer.poll(0)  # hands over what is wrong with the connections
            if error.code() in _NO_TOPIC:
                _require_topic(consumer, self.topic)
            elif not may_pass(error):
                raise of_topic(error, self.topic, self.topic, "Read")
            if self._watch.over:
                raise self._watch.fault(f"the end of {self.topic} could not be asked for")

    def committed(self, start: int | None = None, *, patience_s: float = PATIENCE_S) -> Iterator[Item]:
        """What is committed from ``start`` (None: the log start) to the end as it is now.

        ``patience_s`` is how long open transactions may hide some of it. Raises Refused with code ``open-transaction``
        where one lasts longer, or ``records-gone``; and as ``bounds``.
        """
        low, end = self.bounds()
        return self._read("read_committed", low if start is None else start, end, patience_s)

    def everything(self, start: int | None = None) -> Iterator[Item]:
        """What was written from ``start`` to the end as it is now, committed or not; nothing is waited for."""
        low, end = self.bounds()
        return self._read("read_uncommitted", low if start is None else start, end, 0.0)

    def _client(self, isolation: str) -> Any:
        if isolation not in self._clients:
            self._clients[isolation] = client(Consumer, {**self._config, "isolation.level": isolation}, self._watch)
        return self._clients[isolation]

    def _read(self, isolation: str, start: int, end: int, patience_s: float) -> Iterator[Item]:
        self.end = end
        consumer = self._client(isolation)
        consumer.assign([TopicPartition(self.topic, 0, start)])
        self._watch.progress()
        try:
            yield from _Reading(consumer, self.topic, self._watch, start, end).items(patience_s, self._on_wait)
        finally:
            consumer.unassign()


class _Reading:
    """From ``position`` to ``end``. The position moves with records, and behind control records, aborted ones and holes
    with the end of the partition, which is never believed before it reaches the end that was asked for.
    """

    def __init__(self, consumer: Any, topic: str, watch: ClientWatch, position: int, end: int) -> None:
        self._consumer = consumer
        self._topic = topic
        self._watch = watch
        self._position = position
        self._end = end
        self._held_since: float | None = None
        """When the last stable offset was first seen below the end."""

    def items(self, patience_s: float, on_wait: Callable[[float], None] | None) -> Iterator[Item]:
        told = on_wait is None
        while self._position < self._end:
            before = self._position
            yield from self._batch()
            if self._position > before or (self._held_since is not None and self._answers()):
                self._watch.progress()
            elif self._watch.over:
                raise self._watch.fault(f"{self._topic} could not be read on from offset {self._position}")
            held_s = 0.0 if self._held_since is None else time.monotonic() - self._held_since
            if self._held_since is None or self._position >= self._end:
                continue
            if held_s >= patience_s:
                raise self._hidden(held_s)
            if held_s >= _TELL_AFTER_S and not told and on_wait is not None:
                told = True
                on_wait(patience_s)

    def _batch(self) -> Iterator[Item]:
        # consume() with a time limit waits for a full batch or the whole time, whatever has come.
        first = self._consumer.poll(_POLL_S)
        for message in () if first is None else (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            if error is None:
                self._position = message.offset() + 1
                if self._position <= self._end:
                    yield message.offset(), message.key(), message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                self._position = max(self._position, message.offset())
                self._held_since = self._held_since or time.monotonic()
            elif error.code() in _NO_TOPIC:
                _require_topic(self._consumer, self._topic)
            elif message.topic() is None:
                self._watch.on_error(error)  # of the group coordinator, of which nothing is needed
            else:
                raise self._broken(error)

    def _answers(self) -> bool:
        """Whether the broker is there: while a transaction is open there is nothing else to be heard of it."""
        if not self._watch.disturbed:
            return True
        try:
            self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _ASK_S)
        except KafkaException:
            return False
        return True

    def _hidden(self, held_s: float) -> Refused:
        return Refused(
            f"{self._topic}: an open transaction hides what lies behind offset {self._position}",
            details=(f"The last stable offset has not reached {self._end} for {held_s:.0f} s.",),
            hint=f"look for a hanging one: {find_hanging(self._topic, 0)}",
            code="open-transaction",
        )

    def _broken(self, error: KafkaError) -> KgroupError:
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return of_topic(error, self._topic, self._topic, "Read")
        span = error.str()
        with suppress(KafkaException):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), self._watch.timeout_s)
            span = f"Its log spans {low} to {high}."
        return Refused(
            f"{self._topic} can't be read from offset {self._position} on",
            details=(span,),
            hint="its records were deleted, or it was made anew",
            code="records-gone",
        )


def _require_topic(consumer: Any, topic: str) -> None:
    """Raise only what a broker says: a client that has lost its connections knows no topic either."""
    with suppress(KafkaException):
        error = consumer.list_topics(topic, _ASK_S).topics[topic].error
        if error is not None and (error.code() in _NO_TOPIC or not may_pass(error)):
            raise of_topic(error, topic, topic, "Read")


_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
