"""The cluster as tests set it up and read it back: plain clients, none of kgroup's own code."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import kafka.errors
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.waiting import wait_for

_RETRIABLE = (
    kafka.errors.CoordinatorLoadInProgressError,
    kafka.errors.CoordinatorNotAvailableError,
    kafka.errors.NotCoordinatorError,
)


class KafkaWorld:
    """Topics, records, commits."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._groups = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})

    def __enter__(self) -> KafkaWorld:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._groups.close()
        self._groups._net.close()  # which its own close() forgets

    def topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Make a topic; returns its name."""
        new = NewTopic(name, partitions, 1, config=dict(config or {}))
        self._admin.create_topics([new])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == partitions, f"topic {name}")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the broker has forgotten it."""
        self._admin.delete_topics([name])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == 0, f"topic {name} gone")

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions."""
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == total, f"{total} partitions of {name}")

    def produce(self, topic: str, count: int, partition: int = 0, value: bytes = b"x") -> None:
        """Append ``count`` records to a partition."""
        for _ in range(count):
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(30) == 0

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start offset."""
        done = self._groups.delete_records({TopicPartition(topic, partition): before})
        assert done

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int | tuple[int, str, int | None]]) -> None:
        """Commit as an administrator: an offset, or (offset, metadata, leader epoch)."""
        wanted = {
            TopicPartition(*place): OffsetAndMetadata(*(given if isinstance(given, tuple) else (given, "", None)))
            for place, given in offsets.items()
        }

        def done() -> bool:
            with contextlib.suppress(*_RETRIABLE):
                self._groups.alter_group_offsets(group, wanted)
                return True
            return False

        wait_for(done, f"commit of {group}")

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """(offset, metadata) by (topic, partition)."""

        def read() -> Any:
            with contextlib.suppress(*_RETRIABLE):
                return (self._groups.list_group_offsets(group),)
            return None

        (found,) = wait_for(read, f"offsets of {group}")
        return (
            {(tp.topic, tp.partition): (given.offset, given.metadata) for tp, given in found[group].items()}
            if (group in found)
            else {(tp.topic, tp.partition): (given.offset, given.metadata) for tp, given in found.items()}
        )

    def _known_partitions(self, topic: str) -> int:
        metadata = self._admin.list_topics(timeout=10).topics.get(topic)
        return len(metadata.partitions) if metadata else 0


def partitions_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """(topic, partition) of rows of a describe document."""
    return [(row["topic"], row["partition"]) for row in rows]
