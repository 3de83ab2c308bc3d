"""Read ranges of offsets to their end, and prove that no record in them was missed.

A range is complete when the consumer's *position* has reached its end. The number of records proves nothing, since
there are fewer records than offsets (compaction, aborted transactions, control records). The end of partition proves
nothing either: it is only where the log, or its last stable offset, ended at that moment. Partitions are assigned
manually and nothing is committed, so no group is created. Importable in Spark's workers without kafka-python.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kgroup.cluster.librdkafka import ClientWatch, client, is_transient, topic_client_error
from kgroup.model.records import ConsumerRecord as ConsumerRecord
from kgroup.model.records import OffsetRange as OffsetRange
from kgroup.model.records import merged
from kgroup.model.topic_partition import TopicPartition
from kgroup.model.transactions_hint import find_hanging
from kgroup.support.errors import KgroupError, Refused

_POLL_S = 0.1  # how long ctrl-C may wait
_ASK_S = 0.5
_BATCH = 1000
_TUNING = {
    # With the default, the fetcher sleeps for a second each time its queue is full: an eighth of the speed.
    "fetch.queue.backoff.ms": 1,
    # How long the end-of-partition event, and closing the client, may take.
    "fetch.wait.max.ms": 100,
    # Bounds the memory used, together with one response of each broker.
    "queued.max.messages.kbytes": 16_384,
    "fetch.max.bytes": 8_388_608,
    "fetch.message.max.bytes": 4_194_304,
}
REQUIRED = {
    "group.id": "kgroup-reader",  # librdkafka requires one; the broker never stores it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # otherwise it silently skips deleted records
}


def read_ranges(
    config: Mapping[str, Any], ranges: Sequence[OffsetRange], *, timeout_s: float, isolation: str = "read_committed"
) -> Generator[ConsumerRecord, None, None]:
    """Every visible record of the ranges, each once, in offset order within its partition.

    ``config`` is from ``librdkafka_config``. The iterator ends only when the position in every partition has reached
    the end of its range; otherwise it raises. Records before an error are valid but incomplete. Ranges may overlap.
    ``timeout_s`` is how long to wait without any progress; the caller's time per record does not count. To close the
    connection, close the iterator or read it to its end.

    Raises NotFound for a topic or partition that does not exist; NotAuthorized; Refused with code ``records-gone`` (the
    log start has passed the position), ``open-transaction`` (one holds the last stable offset below the end) or
    ``beyond-log-end``; AuthenticationFailed and Unreachable if no broker answers.
    """
    wanted = merged(ranges)
    if not wanted:
        return
    watch = ClientWatch(timeout_s)
    consumer = client(Consumer, {**_TUNING, **config, **REQUIRED, "isolation.level": isolation}, watch)
    try:
        _check_partitions(consumer, watch, wanted)
        for disjoint in _rounds(wanted):
            yield from _Reading(consumer, watch, disjoint).records()
    finally:
        consumer.close()


def check_topic(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> None:
    """Raise NotFound if the topic does not exist, or what ``read_ranges`` raises if that can't be determined.

    It uses a consumer: a producer's metadata request could create the topic, if brokers create topics automatically.
    """
    watch = ClientWatch(timeout_s)
    consumer = client(Consumer, {**config, **REQUIRED}, watch)
    try:
        partitions_of(consumer, watch, topic)
    finally:
        consumer.close()


def _rounds(wanted: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """The ranges in sets with at most one range per partition, lower ranges first."""
    by_partition = [list(items) for _, items in groupby(wanted, key=lambda item: (item.topic, item.partition))]
    for number in range(max(map(len, by_partition))):
        yield [items[number] for items in by_partition if number < len(items)]


def _check_partitions(consumer: Any, watch: ClientWatch, wanted: Sequence[OffsetRange]) -> None:
    """Raise if a topic or partition does not exist or may not be read; librdkafka reports that late or never."""
    for topic, items in groupby(wanted, key=lambda item: item.topic):
        known = partitions_of(consumer, watch, topic)
        for item in items:
            if item.partition not in known:
                unknown = KafkaError(KafkaError._UNKNOWN_PARTITION)
                raise topic_client_error(unknown, topic, f"{topic}:{item.partition}", "Read")


def partitions_of(consumer: Any, watch: ClientWatch, topic: str) -> frozenset[int]:
    """The topic's partitions. Raises NotFound, NotAuthorized, AuthenticationFailed and Unreachable."""
    while True:
        try:
            found = consumer.list_topics(topic, _ASK_S).topics[topic]
        except KafkaException:
            consumer.poll(0)  # runs error_cb with connection errors
            if watch.over:
                raise watch.fault(f"the partitions of {topic} could not be asked for") from None
            continue
        error = found.error
        if error is None:
            watch.progress()
            return frozenset(found.partitions)
        if not is_transient(error) or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or watch.over:
            raise topic_client_error(error, topic, topic, "Read")
        consumer.poll(_POLL_S)


class _Reading:
    """Reads one range of each partition, all partitions in parallel."""

    def __init__(self, consumer: Any, watch: ClientWatch, ranges: Sequence[OffsetRange]) -> None:
        self._consumer = consumer
        self._watch = watch
        self._left: dict[TopicPartition, OffsetRange] = {item.tp: item for item in ranges}
        self._position: dict[TopicPartition, int] = {tp: item.start for tp, item in self._left.items()}
        self._ended_at: dict[TopicPartition, int] = {}

    def records(self) -> Iterator[ConsumerRecord]:
        self._consumer.assign([ClientPartition(*tp, self._position[tp]) for tp in self._left])
        self._watch.progress()
        while self._left:
            batch = self._next_batch()
            for message in batch:
                record = self._record(message)
                if record is not None:
                    yield record
                    self._watch.progress()
            if not batch and self._left:
                self._ask_positions()
                if self._left and self._watch.over:
                    raise self._stuck()

    def _next_batch(self) -> list[Message]:
        # consume() with a time limit waits for a full batch or the whole time, even if records have come.
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH - 1, 0)]

    def _record(self, message: Message) -> ConsumerRecord | None:
        """The record, if its range is still being read; None also for events that only move the position."""
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None and (topic is None or partition is None):
            # From the group coordinator, which librdkafka searches although it is not needed, and may not be allowed
            # to.
            self._watch.on_error(error)
            return None
        tp = TopicPartition(topic, partition)
        wanted = self._left.get(tp)
        if wanted is None:
            return None
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._broken(wanted, error)
            self._ended_at[tp] = offset
            self._advance(tp, wanted, offset)
            return None
        if offset < wanted.end:
            self._advance(tp, wanted, offset + 1)
            return _stored(topic, partition, offset, message)
        self._advance(tp, wanted, offset)
        return None

    def _advance(self, tp: TopicPartition, wanted: OffsetRange, position: int) -> None:
        if position > self._position[tp]:
            self._position[tp] = position
            self._watch.progress()
        if position >= wanted.end:
            del self._left[tp]
            self._consumer.incremental_unassign([ClientPartition(*tp)])

    def _ask_positions(self) -> None:
        """Ask for positions, since control records, aborted records and gaps move them without a message."""
        for found in self._consumer.position([ClientPartition(*tp) for tp in self._left]):
            tp = found.tp
            if found.offset >= 0 and found.error is None:
                self._advance(tp, self._left[tp], found.offset)

    def _broken(self, wanted: OffsetRange, error: KafkaError) -> KgroupError:
        where = f"{wanted.tp}"
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return topic_client_error(error, wanted.topic, where, "Read")
        position = self._position[wanted.tp]
        try:
            low, high = self._consumer.get_watermark_offsets(
                ClientPartition(wanted.topic, wanted.partition), self._watch.timeout_s
            )
        except KafkaException:
            low, high = None, None
        if low is not None and low > position:
            return Refused(
                f"{where}: offsets {position} to {min(low, wanted.end) - 1} are gone, the log starts at {low} now",
                hint="retention, or somebody, deleted them: what is left can be read from there on",
                code="records-gone",
            )
        if high is not None and high < wanted.end:
            return beyond_end(wanted, high)
        return Refused(f"{where} can't be read from offset {position} on: {error.str()}", code="records-gone")

    def _stuck(self) -> KgroupError:
        for tp, wanted in self._left.items():
            ended_at = self._ended_at.get(tp)
            if self._watch.disturbed or ended_at is None or ended_at < self._position[tp]:
                continue
            # From the last response: the high watermark, whatever the isolation level.
            _, high = self._consumer.get_watermark_offsets(ClientPartition(*tp), cached=True)
            if high >= wanted.end:
                return held_back(wanted, ended_at, self._watch.timeout_s)
            if high >= 0:
                return beyond_end(wanted, high)
        partitions = [
            f"{topic}:{number} at {self._position[TopicPartition(topic, number)]}" for topic, number in self._left
        ]
        more = f" and {len(partitions) - 3} more" if len(partitions) > 3 else ""
        return self._watch.fault(f"{', '.join(partitions[:3])}{more} could not be read on")


def held_back(wanted: OffsetRange, ended_at: int, stood_s: float) -> Refused:
    """The error for an open transaction that holds the last stable offset below the end of the range."""
    return Refused(
        f"{wanted.tp}: an open transaction hides what lies between offset {ended_at} and {wanted.end}",
        details=(f"The last stable offset stood at {ended_at} for {stood_s:g} s.",),
        hint=f"Wait until it ends, or look for a hanging one: {find_hanging(wanted.topic, wanted.partition)}",
        code="open-transaction",
    )


def beyond_end(wanted: OffsetRange, end: int) -> Refused:
    """The error for a log that ends below the end of the range."""
    return Refused(
        f"{wanted.tp} ends at {end}, and was to be read up to {wanted.end}",
        hint="the log was cut, or the topic made anew: look at it again",
        code="beyond-log-end",
    )


def _stored(topic: str, partition: int, offset: int, message: Message) -> ConsumerRecord:
    kind, timestamp_ms = message.timestamp()
    key: Any = message.key()
    value: Any = message.value()
    headers: Any = message.headers()
    return ConsumerRecord(
        topic,
        partition,
        offset,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key,
        value,
        tuple(headers) if headers else (),
    )
