"""Reading ranges of offsets to their end, with proof that nothing in them was missed.

A range is read when the consumer's *position* has reached its end: records are fewer than offsets (compaction,
aborted transactions, control records), so counting them proves nothing, and neither does an end of partition,
which is only where the log, or its last stable offset, ended at that moment. Partitions are assigned by hand and
nothing is committed, so no group comes into being. Importable in Spark's workers without kafka-python.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kgroup.cluster.librdkafka import ClientWatch, client, may_pass, of_topic
from kgroup.model.records import ConsumerRecord as ConsumerRecord
from kgroup.model.records import OffsetRange as OffsetRange
from kgroup.model.records import merged
from kgroup.model.transactions_hint import find_hanging
from kgroup.support.errors import KgroupError, Refused

_POLL_S = 0.1  # how long ctrl-C may wait
_ASK_S = 0.5
_BATCH = 1000
_TUNING = {
    # With the default of a second, the fetcher sleeps that long each time its queue is full: an eighth of the speed.
    "fetch.queue.backoff.ms": 1,
    # How long the end of a partition, and closing the client, may take.
    "fetch.wait.max.ms": 100,
    # What bounds memory, together with one answer of each broker.
    "queued.max.messages.kbytes": 16_384,
    "fetch.max.bytes": 8_388_608,
    "fetch.message.max.bytes": 4_194_304,
}
REQUIRED = {
    "group.id": "kgroup-reader",  # librdkafka insists on a name; the broker never keeps it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # else it jumps over what is gone without a word
}

_Place = tuple[str, int]


def read_ranges(
    config: Mapping[str, Any], ranges: Sequence[OffsetRange], *, timeout_s: float, isolation: str = "read_committed"
) -> Generator[ConsumerRecord, None, None]:
    """Every record of the ranges that a consumer would see, each once, in offset order within its partition.

    ``config`` is from ``librdkafka_config``. It ends only when the position in every partition has reached the
    end of its range, and raises otherwise; the records that came before an error are good, but not all. Ranges
    may overlap. ``timeout_s`` is how long nothing at all may come; the time that the caller takes for a record
    does not count. Close the iterator, or read it to its end, to close the connection.

    Raises NotFound for a topic or partition that does not exist; NotAuthorized; Refused with code
    ``records-gone`` (the log start has passed the position), ``open-transaction`` (one holds the last stable
    offset below the end) or ``beyond-log-end``; AuthenticationFailed and Unreachable, where no broker answers.
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
    """Raise NotFound where the topic does not exist, and as ``read_ranges`` does where that can't be known.

    A producer's question would create it, where brokers create topics by themselves; a consumer's does not.
    """
    watch = ClientWatch(timeout_s)
    consumer = client(Consumer, {**config, **REQUIRED}, watch)
    try:
        partitions_of(consumer, watch, topic)
    finally:
        consumer.close()


def _rounds(wanted: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """The ranges in sets that hold one of each partition at most, the lower ones first."""
    by_place = [list(items) for _, items in groupby(wanted, key=lambda item: (item.topic, item.partition))]
    for number in range(max(map(len, by_place))):
        yield [items[number] for items in by_place if number < len(items)]


def _check_partitions(consumer: Any, watch: ClientWatch, wanted: Sequence[OffsetRange]) -> None:
    """What librdkafka would say after half a minute, or never: a topic that is not there or may not be seen."""
    for topic, items in groupby(wanted, key=lambda item: item.topic):
        known = partitions_of(consumer, watch, topic)
        for item in items:
            if item.partition not in known:
                unknown = KafkaError(KafkaError._UNKNOWN_PARTITION)
                raise of_topic(unknown, topic, f"{topic}:{item.partition}", "Read")


def partitions_of(consumer: Any, watch: ClientWatch, topic: str) -> frozenset[int]:
    """The topic's partitions. Raises NotFound, NotAuthorized, AuthenticationFailed and Unreachable."""
    while True:
        try:
            found = consumer.list_topics(topic, _ASK_S).topics[topic]
        except KafkaException:
            consumer.poll(0)  # hands over what is wrong with the connections
            if watch.over:
                raise watch.fault(f"the partitions of {topic} could not be asked for") from None
            continue
        error = found.error
        if error is None:
            watch.progress()
            return frozenset(found.partitions)
        if not may_pass(error) or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or watch.over:
            raise of_topic(error, topic, topic, "Read")
        consumer.poll(_POLL_S)


class _Reading:
    """One range of each partition, read side by side."""

    def __init__(self, consumer: Any, watch: ClientWatch, ranges: Sequence[OffsetRange]) -> None:
        self._consumer = consumer
        self._watch = watch
        self._left: dict[_Place, OffsetRange] = {(item.topic, item.partition): item for item in ranges}
        self._position: dict[_Place, int] = {place: item.start for place, item in self._left.items()}
        self._ended_at: dict[_Place, int] = {}

    def records(self) -> Iterator[ConsumerRecord]:
        self._consumer.assign([TopicPartition(*place, self._position[place]) for place in self._left])
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
        # consume() with a time limit waits for a full batch or the whole time, whatever has come.
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH - 1, 0)]

    def _record(self, message: Message) -> ConsumerRecord | None:
        """The record, if it lies in a range that is still being read; None too for what only moves the position."""
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None and (topic is None or partition is None):
            # Of the group coordinator, which is asked for though nothing of it is needed, and may not be seen.
            self._watch.on_error(error)
            return None
        place = (topic, partition)
        wanted = self._left.get(place)
        if wanted is None:
            return None
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise self._broken(wanted, error)
            self._ended_at[place] = offset
            self._advance(place, wanted, offset)
            return None
        if offset < wanted.end:
            self._advance(place, wanted, offset + 1)
            return _stored(topic, partition, offset, message)
        self._advance(place, wanted, offset)
        return None

    def _advance(self, place: _Place, wanted: OffsetRange, position: int) -> None:
        if position > self._position[place]:
            self._position[place] = position
            self._watch.progress()
        if position >= wanted.end:
            del self._left[place]
            self._consumer.incremental_unassign([TopicPartition(*place)])

    def _ask_positions(self) -> None:
        """Control records, aborted ones and holes move the position without a message."""
        for found in self._consumer.position([TopicPartition(*place) for place in self._left]):
            place = (found.topic, found.partition)
            if found.offset >= 0 and found.error is None:
                self._advance(place, self._left[place], found.offset)

    def _broken(self, wanted: OffsetRange, error: KafkaError) -> KgroupError:
        where = f"{wanted.topic}:{wanted.partition}"
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return of_topic(error, wanted.topic, where, "Read")
        position = self._position[wanted.topic, wanted.partition]
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(wanted.topic, wanted.partition), self._watch.timeout_s
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
        for place, wanted in self._left.items():
            ended_at = self._ended_at.get(place)
            if self._watch.disturbed or ended_at is None or ended_at < self._position[place]:
                continue
            # What the last answer said: the high watermark, whatever the isolation level.
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            if high >= wanted.end:
                return held_back(wanted, ended_at, self._watch.timeout_s)
            if high >= 0:
                return beyond_end(wanted, high)
        places = [f"{topic}:{number} at {self._position[topic, number]}" for topic, number in self._left]
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        return self._watch.fault(f"{', '.join(places[:3])}{more} could not be read on")


def held_back(wanted: OffsetRange, ended_at: int, stood_s: float) -> Refused:
    """An open transaction holds the last stable offset below the end of the range, to be raised."""
    return Refused(
        f"{wanted.topic}:{wanted.partition}: an open transaction hides what lies between offset "
        f"{ended_at} and {wanted.end}",
        details=(f"The last stable offset stood at {ended_at} for {stood_s:g} s.",),
        hint=f"Wait until it ends, or look for a hanging one: {find_hanging(wanted.topic, wanted.partition)}",
        code="open-transaction",
    )


def beyond_end(wanted: OffsetRange, end: int) -> Refused:
    """The log ends below the end of the range, to be raised."""
    return Refused(
        f"{wanted.topic}:{wanted.partition} ends at {end}, and was to be read up to {wanted.end}",
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
