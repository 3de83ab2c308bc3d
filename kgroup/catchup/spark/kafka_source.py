"""Ranges of topics through Spark's own Kafka source, for workers where librdkafka cannot log in or is not installed.

pyspark is imported only inside functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from kgroup.catchup.spark.source import ddl
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SERVERS = "kafka.bootstrap.servers"
_OURS = {"includeHeaders": "true", "failOnDataLoss": "true", "kafka.isolation.level": "read_committed"}
_RANGES = ("assign", "subscribe", "subscribePattern", "startingOffsets", "endingOffsets")
_TIMES = ("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")


def source_options(options: Mapping[str, str], servers: str) -> dict[str, str]:
    """All options but the ranges; ``servers`` unless others are named. Raises UsageError for one that kgroup sets."""
    taken = {name.lower() for name in (*_OURS, *_RANGES, *_TIMES)}
    for name in options:
        if name.lower() in taken:
            raise UsageError(f"kafka_options: {name} is set by kgroup, since the plan has the ranges")
    return {_SERVERS: servers, **options, **_OURS}


def rounds(ranges: Iterable[OffsetRange]) -> tuple[dict[TopicPartition, OffsetRange], ...]:
    """The ranges as Spark's source can load them: adjacent ones joined, and at most one of a partition at a time."""
    joined: dict[TopicPartition, list[OffsetRange]] = {}
    for item in sorted(ranges, key=lambda one: (one.tp, one.start)):
        own = joined.setdefault(item.tp, [])
        if own and own[-1].end == item.start:
            own[-1] = OffsetRange(*item.tp, own[-1].start, item.end)
        else:
            own.append(OffsetRange(*item.tp, item.start, item.end))
    most = max((len(own) for own in joined.values()), default=0)
    return tuple({tp: own[number] for tp, own in joined.items() if number < len(own)} for number in range(most))


def frame(spark: SparkSession, ranges: Sequence[OffsetRange], options: Mapping[str, str]) -> DataFrame:
    """The DataFrame of these ranges. Nothing is read before an action."""
    loads = [_load(spark, each, options) for each in rounds(ranges)]
    if not loads:
        return spark.createDataFrame([], ddl())
    return reduce(lambda some, more: some.union(more), loads)


def _load(spark: SparkSession, ranges: Mapping[TopicPartition, OffsetRange], options: Mapping[str, str]) -> DataFrame:
    starts, ends = _by_topic(ranges, lambda one: one.start), _by_topic(ranges, lambda one: one.end)
    assigned = {topic: [int(number) for number in offsets] for topic, offsets in starts.items()}
    reader = spark.read.format("kafka").options(**options).option("assign", json.dumps(assigned))
    return reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends)).load()


def _by_topic(
    ranges: Mapping[TopicPartition, OffsetRange], edge: Callable[[OffsetRange], int]
) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = {}
    for tp, item in ranges.items():
        offsets.setdefault(tp.topic, {})[str(tp.partition)] = edge(item)
    return offsets
