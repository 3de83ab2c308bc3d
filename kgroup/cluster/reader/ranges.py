"""Read ranges of offsets to their end, record by record, and prove that none was missed (see ``batches``).

Importable in Spark's workers without kafka-python.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer

from kgroup.cluster.librdkafka import ClientWatch, client
from kgroup.cluster.reader.batches import RECORDS_GONE, REQUIRED, BatchReader, check_partition, partitions_of
from kgroup.model.records import ConsumerRecord, LostOffsets, OffsetRange, merged
from kgroup.support.errors import Refused

_TUNING = {
    # How long it may take to go from the end of one partition to the next one, and to close the client.
    "fetch.wait.max.ms": 10,
    # Bounds the memory used, together with one response of each broker.
    "queued.max.messages.kbytes": 16_384,
    "fetch.max.bytes": 8_388_608,
}
_FETCHED_AHEAD = 20_000
"""So few offsets of many partitions are fetched at the same time. More than that is worth a request for each."""


def read_ranges(
    config: Mapping[str, Any], ranges: Sequence[OffsetRange], *, timeout_s: float, isolation: str = "read_committed"
) -> Generator[ConsumerRecord, None, None]:
    """Every visible record of the ranges, each once, in the order of topics, partitions and offsets.

    ``config`` is from ``librdkafka_config``. The iterator ends only when the position in every partition has reached
    the end of its range; otherwise it raises. Records before an error are valid but incomplete. Ranges may overlap.
    ``timeout_s`` is how long to wait without any progress; the caller's time per record does not count. To close the
    connection, close the iterator or read it to its end.

    Raises NotFound for a topic or partition that does not exist; NotAuthorized; Refused with code ``records-gone`` (the
    log start has passed the position), ``open-transaction`` (one holds the last stable offset below the end) or
    ``beyond-log-end``; AuthenticationFailed and Unreachable if no broker answers.
    """
    merged_ranges = merged(ranges)
    if not merged_ranges:
        return
    with BatchReader({**_TUNING, **config}, timeout_s=timeout_s, isolation=isolation) as reader:
        for item in merged_ranges:
            check_partition(reader.partitions(item.topic), item)
        if (
            len({item.tp for item in merged_ranges}) == len(merged_ranges)
            and sum(item.offsets for item in merged_ranges) <= _FETCHED_AHEAD
        ):
            reader.fetch_ahead(merged_ranges)
        for item in merged_ranges:
            for batch in reader.batches(item.topic, item.partition, item.start, item.end):
                if isinstance(batch, LostOffsets):
                    raise Refused(
                        f"{item.tp}: offsets {batch.start} to {batch.end - 1} are gone, the log "
                        f"starts at {reader.log_start} now",
                        hint="retention or another client deleted them; the others can be read from there on",
                        code=RECORDS_GONE,
                    )
                yield from batch.records()


def check_topic(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> None:
    """Raise NotFound if the topic does not exist, or what ``read_ranges`` raises if that cannot be determined.

    It uses a consumer: a producer's metadata request could create the topic, if brokers create topics automatically.
    """
    watch = ClientWatch(timeout_s)
    consumer = client(Consumer, {**config, **REQUIRED}, watch)
    try:
        partitions_of(consumer, watch, topic)
    finally:
        consumer.close()
