"""OffsetCommit requests, split to fit the coordinator's limit, sent as an administrator or as a member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from kafka.protocol.consumer import OffsetCommitRequest

from kgroup.model.commit import Commit
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, Commit | None]
"""Commits by partition; None means no committed offset."""

_REQUEST_BYTES = 900_000
_RECORD_BYTES = 80


class CommitPart(msgspec.Struct, frozen=True):
    """One group's commits in one request: the new commits and the old ones, None for no committed offset.

    With ``share`` it is a share group, and these are its start offsets; ``creates`` is whether it may not exist yet.
    """

    group: str
    writes: Offsets
    old: Offsets
    share: bool = False
    creates: bool = False


def parts_of(
    group: str, writes: Offsets, old: Offsets, *, share: bool = False, creates: bool = False
) -> Iterator[CommitPart]:
    """Split one group's commits into parts that each fit into one request.

    The coordinator appends the commits of a request as one batch, by default at most 1 MiB. Each commit is one record
    whose key holds the names of group and topic. A streaming query gets one batch, and a ``share`` group one request.
    """
    if is_query(group) or share:
        yield CommitPart(group, writes, old, share, creates)
        return
    chosen: dict[TopicPartition, Commit | None] = {}
    size, name_bytes = 0, len(group.encode())
    for tp, commit in sorted(writes.items()):
        more = _RECORD_BYTES + name_bytes + len(tp.topic.encode()) + (len(commit.metadata.encode()) if commit else 0)
        if chosen and size + more > _REQUEST_BYTES:
            yield CommitPart(group, chosen, {tp: old.get(tp) for tp in chosen})
            chosen, size = {}, 0
        chosen[tp] = commit
        size += more
    if chosen:
        yield CommitPart(group, chosen, {tp: old.get(tp) for tp in chosen})


def commit_request(
    group: str, commits: Mapping[TopicPartition, Commit], member: tuple[str, str | None, int] = ("", None, -1)
) -> Any:
    """An OffsetCommit by an administrator, or by ``member``: (member id, instance id, generation or member epoch)."""
    member_id, instance_id, epoch = member
    entry = OffsetCommitRequest.OffsetCommitRequestTopic
    row = entry.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, number), commit in commits.items():
        topics.setdefault(topic, []).append(
            row(
                partition_index=number,
                committed_offset=commit.offset,
                committed_leader_epoch=-1 if commit.leader_epoch is None else commit.leader_epoch,
                committed_metadata=commit.metadata,
            )
        )
    # From version 10 on, topics are identified by id instead of name.
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=-1,
        topics=[entry(name=topic, partitions=rows) for topic, rows in topics.items()],
        min_version=6 if instance_id is None else 7,
        max_version=9,
    )


def commit_rows(answer: Any, partitions: list[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row.error_code
