"""A member of a group inside its own ``on_assign``: what is committed, where the logs end, and a commit as this member.

The commit carries the member id and the generation or epoch. A member that the coordinator has expelled is refused, so
it moves nothing that another member owns now. Everything goes through the application's own consumer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kgroup.cluster.librdkafka import is_transient
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable

LOG_END = -1
"""A timestamp that stands for the log end (ListOffsets), as the consumer's isolation level shows it."""

_NO_OFFSET = -1

T = TypeVar("T")


class GroupMember:
    """A consumer that has just been assigned partitions. Until ``until_s`` (monotonic) its requests may take."""

    def __init__(self, consumer: Any, until_s: float) -> None:
        self._consumer = consumer
        self.until_s = until_s

    @property
    def left_s(self) -> float:
        """The time that is left, never 0, which librdkafka would take for no limit."""
        return max(0.001, self.until_s - time.monotonic())

    @property
    def is_late(self) -> bool:
        """Whether the time is over: the process may have been paused, and another member may own the partitions."""
        return time.monotonic() >= self.until_s

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        """The commits, None if there is none; a partition whose commit cannot be read is left out. Raises KgroupError.

        Metadata is exact only if confluent-kafka has written it: of other clients' it reads past the end (2.16), which
        may be no UTF-8. So it serves to recognize the marks of members, and for nothing else.
        """
        wanted = list(partitions)
        try:
            rows = self._fetch(wanted)
        except UnicodeDecodeError:
            rows = []
            for tp in wanted:
                try:
                    rows += self._fetch([tp])
                except UnicodeDecodeError:
                    continue
        return {
            TopicPartition(row.topic, row.partition): None
            if row.offset < 0
            else Commit(row.offset, row.leader_epoch, row.metadata or "")
            for row in rows
            if row.error is None
        }

    def _fetch(self, partitions: list[TopicPartition]) -> list[Any]:
        asked = [ClientPartition(*tp) for tp in partitions]
        rows: list[Any] = self._ask(
            lambda: self._consumer.committed(asked, self.left_s), "the commits could not be read"
        )
        return rows

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset since a time in ms, or LOG_END; None if no record is that new. Raises KgroupError.

        One request for each leader. A partition that cannot be read is left out.
        """
        asked = [ClientPartition(*tp, time_ms) for tp in partitions]
        rows = self._ask(lambda: self._consumer.offsets_for_times(asked, self.left_s), "offsets could not be read")
        return {
            TopicPartition(row.topic, row.partition): None if row.offset == _NO_OFFSET else row.offset
            for row in rows
            if row.error is None
        }

    def commit(self, commits: Mapping[TopicPartition, Commit]) -> None:
        """Commit in one request as this member. Raises KgroupError; then the group's log alone shows what is stored."""
        self._store(commits, "the release could not be committed")

    def require_membership(self, tp: TopicPartition, commit: Commit) -> None:
        """Raise KgroupError if the coordinator has expelled this member: store a commit of its own again.

        If it is stored, the partition has had no other owner since, and no earlier owner can commit any more.
        """
        self._store({tp: commit}, "whether this member is in the group is unknown")

    def _store(self, commits: Mapping[TopicPartition, Commit], what: str) -> None:
        rows = [
            ClientPartition(*tp, commit.offset, commit.metadata, commit.leader_epoch)
            if commit.leader_epoch is not None
            else ClientPartition(*tp, commit.offset, commit.metadata)
            for tp, commit in commits.items()
        ]
        stored = self._ask(lambda: self._consumer.commit(offsets=rows, asynchronous=False), what)
        for row in stored:
            if row.error is not None:
                raise KgroupError(f"{row.topic}:{row.partition}: {row.error.str()}", code="broker-error")

    def _ask(self, call: Callable[[], T], what: str) -> T:
        try:
            return call()
        except KafkaException as raised:
            error = raised.args[0]
            kind = Unreachable if is_transient(error) else KgroupError
            raise kind(f"{what}: {error.str()} ({error.name()})", code="broker-error") from raised
