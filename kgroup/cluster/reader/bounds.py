"""The log bounds of topics through confluent-kafka, for Spark's processes, which do not have kafka-python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from kgroup.cluster.admin_client import admin_client
from kgroup.cluster.librdkafka import NOT_YET, ClientWatch, topic_client_error
from kgroup.cluster.reader.batches import BatchReader
from kgroup.model.topic_partition import TopicPartition

_PAUSE_S = 0.02
_LEVELS = {"read_committed": IsolationLevel.READ_COMMITTED, "read_uncommitted": IsolationLevel.READ_UNCOMMITTED}


def partitions(config: Mapping[str, Any], topics: Iterable[str], *, timeout_s: float) -> tuple[TopicPartition, ...]:
    """All partitions of these topics. Raises NotFound, NotAuthorized, AuthenticationFailed, Unreachable."""
    with BatchReader(config, timeout_s=timeout_s) as reader:
        return tuple(TopicPartition(topic, number) for topic in topics for number in sorted(reader.partitions(topic)))


def bounds(
    config: Mapping[str, Any], partitions: Iterable[TopicPartition], *, timeout_s: float, isolation: str
) -> dict[TopicPartition, tuple[int, int]]:
    """(log start, end), with ``read_committed`` up to the last stable offset. Raises what ``partitions`` raises."""
    watch = ClientWatch(timeout_s)
    admin: Any = admin_client(config, watch)
    wanted = [ClientPartition(*tp) for tp in partitions]
    level = _LEVELS[isolation]
    asked = [
        admin.list_offsets(dict.fromkeys(wanted, spec), isolation_level=level, request_timeout=timeout_s)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        if wanted
    ]
    found = [
        {TopicPartition(tp.topic, tp.partition): _answer(admin, watch, tp, future) for tp, future in answers.items()}
        for answers in asked
    ]
    return {tp: (found[0][tp], found[1][tp]) for tp in found[0]} if found else {}


def _answer(admin: Any, watch: ClientWatch, tp: TopicPartition, asked: Future[Any]) -> int:
    where = f"{tp.topic}:{tp.partition}"
    watch.progress()
    while True:
        try:
            return int(asked.result(_PAUSE_S).offset)
        except TimeoutError:
            admin.poll(0)  # runs error_cb with connection errors
            if watch.over and watch.disturbed:
                raise watch.fault(f"the offsets of {where} could not be asked for") from None
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise topic_client_error(error.args[0], tp.topic, where, "Read") from error
            raise watch.fault(f"the offsets of {where} could not be asked for") from error
