"""Read ranges of offsets in batches of messages, one range after the other, and prove that no record was missed.

A range is complete when the consumer's *position* has reached its end. The number of records proves nothing, since
there are fewer records than offsets (compaction, aborted transactions, control records). The end of partition proves
nothing either: it is only where the log, or its last stable offset, ended at that moment. After control records,
aborted records and gaps there is always a record, or the end-of-partition event, that moves the position. If the log
start has passed it, the read does not end: it reports the exact range that is lost, and continues after it. Partitions
are assigned manually and nothing is committed, so no group is created. Importable in Spark's workers without
kafka-python.
"""

from __future__ import annotations

import gc
import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kgroup.cluster.librdkafka import ClientWatch, client, is_transient, topic_client_error
from kgroup.model.kafka_tools import find_hanging
from kgroup.model.records import ConsumerRecord, LostOffsets, OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused, refusal_code

RECORDS_GONE = refusal_code(
    "records-gone",
    "reset --save-skipped",
    "Retention has deleted a record that would be skipped.",
    "Leave --save-skipped out.",
)
OPEN_TRANSACTION = refusal_code(
    "open-transaction",
    "reset --save-skipped",
    "A record that would be skipped belongs to an open transaction.",
    "End the transaction, or leave --save-skipped out.",
)
BEYOND_LOG_END = refusal_code(
    "beyond-log-end",
    "reset --save-skipped",
    "An offset that would be skipped is beyond the log end.",
    "Leave --save-skipped out.",
)

MOST = 2000
"""Maximum number of messages in a batch: larger batches are slower."""

_POLL_S = 0.1  # how long ctrl-C may wait
_GATHER_S = 0.005
_ASK_S = 1.0
_MOST_AHEAD = 33_554_432
"""Bytes of values that are kept for ranges not read yet, in addition to what librdkafka queues."""

_TUNING = {
    # With the default, the fetcher sleeps for a second each time its queue is full: an eighth of the speed.
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 4_194_304,
    # Bounds the memory used, together with one response of each broker.
    "queued.max.messages.kbytes": 65_536,
    # The caller may be slow: a slow handler, a rate limit.
    "max.poll.interval.ms": 86_400_000,
}
REQUIRED = {
    "group.id": "kgroup-reader",  # librdkafka requires one; the broker never stores it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # otherwise it silently skips deleted records
}

_KEY, _VALUE, _OFFSET = Message.key, Message.value, Message.offset
_TIMESTAMP, _HEADERS, _ERROR = Message.timestamp, Message.headers, Message.error
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

HeaderList = list[tuple[str, bytes | None]]


class _Collector:
    """Makes Python's garbage collector run less often while a reader is open.

    By default it scans young objects after each 700 allocations, while thousands of messages are alive that are in no
    cycle. That is a sixth of the time of copying small records, and 40 % of the time of converting them to Arrow.
    """

    _SELDOM = 50_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._before = gc.get_threshold()

    def enter(self) -> None:
        with self._lock:
            self._readers += 1
            if self._readers == 1 and gc.get_threshold()[0]:  # 0: the process has switched it off
                self._before = gc.get_threshold()
                gc.set_threshold(max(self._SELDOM, self._before[0]), *self._before[1:])

    def leave(self) -> None:
        with self._lock:
            self._readers -= 1
            if self._readers == 0 and gc.get_threshold()[0]:
                gc.set_threshold(*self._before)


_COLLECTOR = _Collector()


class Batch:
    """Records of one partition in the order of their offsets. Each column is made on request.

    All offsets of the range below ``position`` are read. A batch may have no records: only the position moved, or
    nothing came for a moment.
    """

    __slots__ = ("_messages", "partition", "position", "topic")

    def __init__(self, topic: str, partition: int, messages: Sequence[Any], position: int) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def offsets(self) -> list[int]:
        """Ascending, with gaps."""
        return list(map(_OFFSET, self._messages))

    def keys(self) -> list[bytes | None]:
        """None is no key, which differs from an empty key."""
        return list(map(_KEY, self._messages))

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        return list(map(_VALUE, self._messages))

    def timestamps(self) -> list[tuple[int, int]]:
        """(type, ms): type 1 is set by the producer, 2 by the broker, 0 means that there is no timestamp."""
        return list(map(_TIMESTAMP, self._messages))

    def headers(self) -> list[HeaderList | None]:
        """In their order; a name may occur several times. None: no headers."""
        return list(map(_HEADERS, self._messages))

    def size(self) -> int:
        """Bytes of keys and values."""
        # A message's length is that of its value.
        return sum(map(len, self._messages)) + sum(map(len, filter(None, map(_KEY, self._messages))))

    def part(self, first: int, stop: int) -> Batch:
        """The records with index ``first`` up to, but not including, ``stop``."""
        if first == 0 and stop >= len(self._messages):
            return self
        position = self.position if stop >= len(self._messages) else _OFFSET(self._messages[stop])
        return Batch(self.topic, self.partition, self._messages[first:stop], position)

    def records(self) -> list[ConsumerRecord]:
        """Single records, for callers that are slow anyway."""
        columns = zip(self.offsets(), self.timestamps(), self.keys(), self.values(), self.headers(), strict=True)
        return [
            ConsumerRecord(
                self.topic,
                self.partition,
                offset,
                None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
                key,
                value,
                tuple(headers) if headers else (),
            )
            for offset, (kind, timestamp_ms), key, value, headers in columns
        ]


@dataclass(slots=True)
class _RangeAhead:
    """A range that is fetched before it is read, and the messages that have come, events included."""

    offset_range: OffsetRange
    messages: list[Any] = field(default_factory=list)
    complete: bool = False

    def add(self, message: Any) -> bool:
        """Add the next message of the partition; returns whether the range is complete by it."""
        if self.complete:
            return False
        self.messages.append(message)
        self.complete = message.error() is None and message.offset() >= self.offset_range.end - 1
        return self.complete


class BatchReader:
    """Reads ranges one after the other through one client. A context manager.

    ``config`` is from ``librdkafka_config``. ``timeout_s`` is how long to wait without any progress; the caller's time
    per batch does not count.
    """

    def __init__(self, config: Mapping[str, Any], *, timeout_s: float, isolation: str = "read_committed") -> None:
        self.log_start = 0
        """The log start that the last LostOffsets is due to."""
        self._watch = ClientWatch(timeout_s)
        settings = {**_TUNING, **config, **REQUIRED, "isolation.level": isolation}
        self._consumer: Any = client(Consumer, settings, self._watch)
        self._partitions: dict[str, frozenset[int]] = {}
        self._last_partition: TopicPartition | None = None
        self._assignment: Any = None
        """Where to go with the next poll. A client that is closed right after it was assigned a partition again never
        ends (librdkafka 2.16.0, one of a hundred)."""
        self._position = 0
        self._ended_at: int | None = None
        self._unsure = False
        self._remaining: list[Any] = []
        """Messages after the last range; the next range may start with them."""
        self._ahead: dict[TopicPartition, _RangeAhead] = {}
        self._ahead_size = 0
        self._mixed = False
        """Whether several partitions are fetched at the same time."""
        self._closed = False
        _COLLECTOR.enter()

    def __enter__(self) -> BatchReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            _COLLECTOR.leave()
        self._consumer.close()

    def partitions(self, topic: str, *, again: bool = False) -> frozenset[int]:
        """The partitions of a topic, read once or ``again``.

        Raises NotFound, NotAuthorized, AuthenticationFailed, Unreachable.
        """
        if again or topic not in self._partitions:
            self._watch.progress()
            self._partitions[topic] = partitions_of(self._consumer, self._watch, topic)
        return self._partitions[topic]

    def fetch_ahead(self, ranges: Sequence[OffsetRange]) -> None:
        """Fetch ranges of different partitions at the same time, to be read next.

        One by one, each of them waits 0.1 s: the broker still holds the fetch of the partition before it (4.3.1). What
        comes early stays in memory; above 32 MiB the incomplete ranges are left to be fetched in their turn.
        """
        self._assignment = None
        self._consumer.assign([ClientPartition(item.topic, item.partition, item.start) for item in ranges])
        self._ahead, self._ahead_size, self._mixed = {item.tp: _RangeAhead(item) for item in ranges}, 0, True

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | LostOffsets]:
        """All records of [start, end), in order. If nothing came for a moment, yields a batch without records.

        The last item's end is ``end``: the iterator ends only when the position has reached it. A range that starts at
        the end of the last one continues the same stream. Raises NotFound for a topic or partition that does not exist;
        NotAuthorized, AuthenticationFailed, Unreachable; Refused with code ``open-transaction`` (one holds the last
        stable offset below the end), ``beyond-log-end``, or ``records-gone`` if the log start is not the reason.
        """
        if start >= end:
            return
        offset_range = OffsetRange(topic, partition, start, end)
        self._start_range(offset_range)
        self._last_partition = None  # a caller that stops in the middle starts a new stream
        self._watch.progress()
        while True:
            before = self._position
            messages, broken = self._next(offset_range) if before < end else ([], None)
            yield Batch(topic, partition, messages, self._position)
            if self._position > before:
                self._watch.answered()
            if broken is not None:
                lost = self._lost_range(offset_range, broken)
                if lost is not None:
                    yield lost
                    self._watch.progress()
            if self._position >= end:
                break
            if self._watch.over:
                raise self._no_progress(offset_range)
        if self._mixed:
            self._unassign(offset_range)
        else:
            self._last_partition = offset_range.tp

    def _unassign(self, offset_range: OffsetRange) -> None:
        with suppress(KafkaException):  # it is not assigned any more
            self._consumer.incremental_unassign([ClientPartition(offset_range.topic, offset_range.partition)])

    def _start_range(self, offset_range: OffsetRange) -> None:
        """Move to the start of the range, or later if the end-of-partition event showed that no record is before."""
        check_partition(self.partitions(offset_range.topic), offset_range)
        ahead = self._ahead.pop(offset_range.tp, None)
        if ahead is not None and ahead.offset_range == offset_range:
            self._position, self._ended_at, self._remaining = offset_range.start, None, ahead.messages
        elif self._last_partition != offset_range.tp or self._position != offset_range.start:
            self._go_to(offset_range, offset_range.start)
        elif not self._remaining and self._ended_at is not None:
            # librdkafka reports the end of the partition only once.
            self._position = min(max(offset_range.start, self._ended_at), offset_range.end)

    def _go_to(self, offset_range: OffsetRange, position: int) -> None:
        self._assignment = ClientPartition(offset_range.topic, offset_range.partition, position)
        self._position, self._ended_at, self._remaining, self._unsure = position, None, [], True
        self._ahead, self._mixed = {}, False

    def _next(self, offset_range: OffsetRange) -> tuple[list[Any], KafkaError | None]:
        """The next messages of the range, and the error after them, if any. Moves the position."""
        messages, self._remaining = self._remaining, []
        if self._assignment is not None:
            self._consumer.assign([self._assignment])
            self._assignment = None
        if not messages:
            # consume() waits for a full batch or its whole time limit, even if records have come: so the limit is
            # short.
            first = self._consumer.poll(_POLL_S)
            if first is None:
                return [], None
            more = min(MOST, offset_range.end - self._position) - 1
            messages = [first, *(self._consumer.consume(more, _GATHER_S) if more > 0 else ())]
        broken = None
        if any(map(_ERROR, messages)) or self._unsure or self._mixed:
            messages, broken = self._split_off_events(offset_range, messages)
        if messages:
            last = _OFFSET(messages[-1])
            if last >= offset_range.end:
                cut = bisect_left(messages, offset_range.end, key=_OFFSET)
                messages, self._remaining = messages[:cut], messages[cut:]
                last = offset_range.end - 1
            self._position = max(self._position, last + 1)
        self._position = min(self._position, offset_range.end) if not self._remaining else offset_range.end
        return messages, broken

    def _split_off_events(self, offset_range: OffsetRange, messages: list[Any]) -> tuple[list[Any], KafkaError | None]:
        """The records among the messages: the first ones may be left from an earlier range, and some are events."""
        records, own = [], offset_range.tp
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if error is not None and place[0] is None:
                # From the group coordinator, which librdkafka searches although it is not needed, and may not be
                # allowed to.
                self._watch.on_error(error)
            elif place != own:
                self._keep_ahead(TopicPartition(*place), message)
            elif error is None:
                if message.offset() >= self._position:
                    records.append(message)
                    self._unsure = False
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended_at = message.offset()
                if not records or records[-1].offset() < offset_range.end:
                    self._position = max(self._position, message.offset())
            else:
                return records, error
        return records, None

    def _keep_ahead(self, tp: TopicPartition, message: Any) -> None:
        ahead = self._ahead.get(tp)
        if ahead is None:
            return
        if ahead.add(message):
            self._unassign(ahead.offset_range)
        self._ahead_size += len(message)
        if self._ahead_size > _MOST_AHEAD:
            for incomplete in [one for one in self._ahead.values() if not one.complete]:
                self._unassign(incomplete.offset_range)
                del self._ahead[incomplete.offset_range.tp]

    def _lost_range(self, offset_range: OffsetRange, error: KafkaError) -> LostOffsets | None:
        """The range that the log start has passed; moves to its end. None: try again. Raises any other error."""
        name = f"{offset_range.tp}"
        if error.code() not in _OUT_OF_RANGE:
            raise topic_client_error(error, offset_range.topic, name, "Read")
        position = self._position
        try:
            low, high = self._consumer.get_watermark_offsets(
                ClientPartition(offset_range.topic, offset_range.partition), _ASK_S
            )
        except KafkaException as raised:
            if not is_transient(raised.args[0]):
                raise topic_client_error(raised.args[0], offset_range.topic, name, "Read") from raised
            low, high = position, offset_range.end
        if low > position:
            end = min(low, offset_range.end)
            self._go_to(offset_range, end)
            self.log_start = low
            return LostOffsets(position, end, f"the log start had passed them: it was {low}")
        if high < offset_range.end:
            raise beyond_end(offset_range, high)
        if self._watch.over:
            raise Refused(f"{name} cannot be read from offset {position} on: {error.str()}", code=RECORDS_GONE)
        self._go_to(offset_range, position)
        return None

    def _no_progress(self, offset_range: OffsetRange) -> KgroupError:
        tp = ClientPartition(offset_range.topic, offset_range.partition)
        if not self._watch.disturbed and self._ended_at is not None and self._ended_at >= self._position:
            # From the last response: the high watermark, whatever the isolation level.
            _, high = self._consumer.get_watermark_offsets(tp, cached=True)
            if high >= offset_range.end:
                return held_back(offset_range, self._ended_at, self._watch.timeout_s)
            if high >= 0:
                return beyond_end(offset_range, high)
        return self._watch.fault(f"{offset_range.tp} at {self._position} could not be read up to {offset_range.end}")


def check_partition(existing: frozenset[int], offset_range: OffsetRange) -> None:
    """Raise NotFound if the partition is not one of the topic's; librdkafka reports that late or never."""
    if offset_range.partition not in existing:
        raise topic_client_error(
            KafkaError(KafkaError._UNKNOWN_PARTITION), offset_range.topic, str(offset_range.tp), "Read"
        )


def partitions_of(consumer: Any, watch: ClientWatch, topic: str) -> frozenset[int]:
    """The topic's partitions. Raises NotFound, NotAuthorized, AuthenticationFailed and Unreachable."""
    while True:
        try:
            metadata = consumer.list_topics(topic, _ASK_S).topics[topic]
        except KafkaException:
            consumer.poll(0)  # runs error_cb with connection errors
            if watch.over:
                raise watch.fault(f"the partitions of {topic} could not be read") from None
            continue
        error = metadata.error
        if error is None:
            watch.answered()
            return frozenset(metadata.partitions)
        if not is_transient(error) or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or watch.over:
            raise topic_client_error(error, topic, topic, "Read")
        consumer.poll(_POLL_S)


def held_back(offset_range: OffsetRange, ended_at: int, held_s: float) -> Refused:
    """The error for an open transaction that holds the last stable offset below the end of the range."""
    hanging = find_hanging(offset_range.topic, offset_range.partition)
    return Refused(
        f"{offset_range.tp}: an open transaction hides the records from offset {ended_at} to {offset_range.end}",
        details=(f"The last stable offset stayed at {ended_at} for {held_s:g} s.",),
        hint=f"Wait until it ends, or search for a hanging one: {hanging}",
        code=OPEN_TRANSACTION,
    )


def beyond_end(offset_range: OffsetRange, end: int) -> Refused:
    """The error for a log that ends below the end of the range."""
    return Refused(
        f"{offset_range.tp} ends at {end} and cannot be read up to {offset_range.end}",
        hint="the log was truncated or the topic recreated: run the command again",
        code=BEYOND_LOG_END,
    )
