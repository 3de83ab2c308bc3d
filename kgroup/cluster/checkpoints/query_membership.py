"""Moves a streaming query where a group would be moved by its exclusive member; its checkpoint fences the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Self

from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.model.commit import Commit
from kgroup.model.streaming_query import QueryChanges, StreamingQuery
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    from kgroup.cluster.checkpoints.queries import QueryReader


class QueryMembership:
    """As ``ExclusiveMembership``, for a query. If it runs, it ends by itself at its next batch.

    Entering adds what a killed change has left out of the log of a file sink. A move holds for the checkpoint as
    ``committed`` read it last: if the query has planned a batch since, the move is refused.
    """

    leave_error: KgroupError | None = None

    def __init__(self, queries: QueryReader, group: str, how: QueryChanges, now_ms: Callable[[], int]) -> None:
        self.group = group
        self._queries, self._how, self._now_ms = queries, how, now_ms
        self._read: StreamingQuery | None = None

    def __enter__(self) -> Self:
        from kgroup.cluster.checkpoints.append import repair_file_sink

        repair_file_sink(self._queries.read_again(self.group))
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def verify_only_member(self) -> None:
        """Who reads a checkpoint, no file shows."""

    def committed(self) -> CommittedOffsets:
        """What the query has read. Raises KgroupError."""
        self._read = self._queries.read_again(self.group)
        return dict(self._read.commits)

    def check(self, topics: Collection[str]) -> None:
        """Raise KgroupError unless partitions of these topics can be moved now."""
        from kgroup.cluster.checkpoints.append import check_appendable

        check_appendable(self.group, self._queries.read_again(self.group), topics, self._how)

    def commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        """Append a batch that sets these positions: all of them, or none."""
        from kgroup.cluster.checkpoints.append import append_batch

        if self._read is None:
            self.committed()
        query, self._read = self._read, None
        assert query is not None
        try:
            append_batch(self.group, query, offsets, self._how, self._now_ms())
        except KgroupError as error:
            return dict.fromkeys(offsets, error)
        return dict.fromkeys(offsets)
