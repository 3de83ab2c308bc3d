"""Read a topic of one partition up to an end read beforehand, even if transactions are open.

A read_committed consumer stops at the first open transaction and reports that as the end of the partition. Records
that others committed after it are hidden. So the end is the read_uncommitted one, and the *position* must reach it.
The reader waits for open transactions, which the broker aborts at their timeout. To know what an earlier producer has
committed, fence it first and read the end afterwards. Importable in Spark's workers without kafka-python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kgroup.cluster.librdkafka import ClientWatch, client, is_transient, topic_client_error
from kgroup.cluster.reader.batches import OPEN_TRANSACTION, RECORDS_GONE, REQUIRED
from kgroup.cluster.transactions import ABORT_SCAN_S, LONGEST_S
from kgroup.model.kafka_tools import find_hanging
from kgroup.support.errors import KgroupError, NotFound, Refused

PATIENCE_S = LONGEST_S + 2 * ABORT_SCAN_S
"""How long to wait for an open transaction: the broker aborts it earlier, unless it hangs."""

_POLL_S = 0.02
_ASK_S = 0.5
_TELL_AFTER_S = 1.0
_BATCH = 1000
_TUNING = {
    # The delay until the end of the partition is reported; each read takes up to twice that. While waiting for an open
    # transaction, this is also the interval between fetches: 2 % of a core, here and on the broker.
    "fetch.wait.max.ms": 3,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 1,
    "queued.max.messages.kbytes": 16_384,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1000,
}
Item = tuple[int, bytes | None, bytes | None]
"""(offset, key, value); a value of None is a tombstone."""


class CommittedReader:
    """Reads partition 0 of ``topic``; each read goes from the given start to the present end. A context manager.

    ``timeout_s`` is how long to wait without any response. ``on_wait`` is called at most once per read, when an open
    transaction has delayed it for a second. Its argument is the maximum wait in seconds.
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
        """The end offset of the last read, even if that read failed before it."""
        self._config = {**_TUNING, **config, **REQUIRED}
        self._watch = ClientWatch(timeout_s)
        self._on_wait = on_wait
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> CommittedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for consumer in self._clients.values():
            consumer.close()
        self._clients.clear()

    def connect(self) -> None:
        """Connect in advance, so that the first read is quick. Raises what ``bounds`` raises."""
        self.bounds()
        with suppress(KafkaException):
            self._client("read_committed").get_watermark_offsets(TopicPartition(self.topic, 0), _ASK_S)

    def bounds(self, *, unknown_s: float = 0.0) -> tuple[int, int]:
        """(log start, log end), where the end includes open transactions.

        ``unknown_s`` is how long a topic that was just created may be unknown to the broker that answers. Raises
        NotFound if the topic does not exist, NotAuthorized, AuthenticationFailed, Unreachable.
        """
        consumer = self._client("read_uncommitted")
        self._watch.progress()
        known_by = time.monotonic() + unknown_s
        while True:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), _ASK_S)
            except KafkaException as raised:
                error = raised.args[0]
            else:
                return low, high
            consumer.poll(0)  # runs error_cb with connection errors
            if error.code() in _NO_TOPIC:
                try:
                    _require_topic(consumer, self.topic)
                except NotFound:
                    if time.monotonic() >= known_by:
                        raise
                    time.sleep(_POLL_S)
            elif not is_transient(error):
                raise topic_client_error(error, self.topic, self.topic, "Read")
            if self._watch.over:
                raise self._watch.fault(f"the end of {self.topic} could not be read")

    def committed(self, start: int | None = None, *, patience_s: float = PATIENCE_S) -> Iterator[Item]:
        """The committed records from ``start`` (None: the log start) to the present end.

        ``patience_s`` is how long open transactions may delay the read. Raises Refused with code ``open-transaction``
        if one lasts longer, or ``records-gone``; and what ``bounds`` raises.
        """
        low, end = self.bounds()
        return self._read("read_committed", low if start is None else start, end, patience_s)

    def everything(self, start: int | None = None) -> Iterator[Item]:
        """All records from ``start`` to the present end, committed or not; does not wait for transactions."""
        low, end = self.bounds()
        return self._read("read_uncommitted", low if start is None else start, end, 0.0)

    def _client(self, isolation: str) -> Any:
        if isolation not in self._clients:
            self._clients[isolation] = client(Consumer, {**self._config, "isolation.level": isolation}, self._watch)
        return self._clients[isolation]

    def _read(self, isolation: str, start: int, end: int, patience_s: float) -> Iterator[Item]:
        self.end = end
        consumer = self._client(isolation)
        try:
            consumer.assign([TopicPartition(self.topic, 0, start)])
        except KafkaException as raised:
            raise topic_client_error(raised.args[0], self.topic, self.topic, "Read") from raised
        self._watch.progress()
        try:
            yield from _Reading(consumer, self.topic, self._watch, start, end).items(patience_s, self._on_wait)
        finally:
            consumer.unassign()


class _Reading:
    """One read from ``position`` to ``end``.

    Records move the position. Control records, aborted records and gaps have no message: after them the
    end-of-partition event moves it. That event ends the read only if it has reached ``end``.
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
        reported = on_wait is None
        while self._position < self._end:
            before = self._position
            yield from self._batch()
            if self._position > before or (self._held_since is not None and self._answers()):
                self._watch.answered()
            elif self._watch.over:
                raise self._watch.fault(f"{self._topic} could not be read from offset {self._position}")
            held_s = 0.0 if self._held_since is None else time.monotonic() - self._held_since
            if self._held_since is None or self._position >= self._end:
                continue
            if held_s >= patience_s:
                raise self._hidden(held_s)
            if held_s >= _TELL_AFTER_S and not reported and on_wait is not None:
                reported = True
                on_wait(patience_s)

    def _batch(self) -> Iterator[Item]:
        # consume() with a time limit waits for a full batch or the whole time, even if records have come.
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
                self._watch.on_error(error)  # from the group coordinator, which is not needed here
            else:
                raise self._broken(error)

    def _answers(self) -> bool:
        """Whether the broker answers. While a transaction is open, there is no other sign of that."""
        if not self._watch.disturbed:
            return True
        try:
            self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _ASK_S)
        except KafkaException:
            return False
        return True

    def _hidden(self, held_s: float) -> Refused:
        return Refused(
            f"{self._topic}: an open transaction hides the records after offset {self._position}",
            details=(f"The last stable offset has not reached {self._end} for {held_s:.0f} s.",),
            hint=f"search for a hanging one: {find_hanging(self._topic, 0)}",
            code=OPEN_TRANSACTION,
        )

    def _broken(self, error: KafkaError) -> KgroupError:
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return topic_client_error(error, self._topic, self._topic, "Read")
        span = error.str()
        with suppress(KafkaException):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), self._watch.timeout_s)
            span = f"Its log spans {low} to {high}."
        return Refused(
            f"{self._topic} cannot be read from offset {self._position} on",
            details=(span,),
            hint="its records were deleted, or the topic was recreated",
            code=RECORDS_GONE,
        )


def _require_topic(consumer: Any, topic: str) -> None:
    """Raise only a broker's answer: a client without connections also reports the topic as unknown."""
    with suppress(KafkaException):
        error = consumer.list_topics(topic, _ASK_S).topics[topic].error
        if error is not None and (error.code() in _NO_TOPIC or not is_transient(error)):
            raise topic_client_error(error, topic, topic, "Read")


_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
