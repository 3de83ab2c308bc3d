"""OffsetFetch (v8 and v9), whose response is decoded into commits, of which a large cluster has millions.

kafka-python makes an object of each partition first. With the commits made of these it takes more than twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgspec
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from kgroup.cluster.broker_errors import group_error
from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition, shared_tp
from kgroup.support.errors import KgroupError

OLDEST, NEWEST = 8, 9
"""The versions that are decoded: several groups in a request (KIP-709), and topics by name; from 10 on by id."""

CommittedOffsets = dict[TopicPartition, Commit | KgroupError]
"""The committed offsets of one group, with an error for each that could not be read."""

_BEFORE_METADATA = Struct(">iqib")
"""A partition's number, offset, leader epoch, and the length of its metadata; longer metadata has a longer length."""

_AFTER_METADATA = Struct(">hb")
"""A partition's error code, and how many tagged fields follow."""

_BEFORE, _AFTER = _BEFORE_METADATA.size, _AFTER_METADATA.size


class CommitsOfGroup(msgspec.Struct, frozen=True):
    """The response's part about one group; ``error_code`` is 0, or why its offsets are missing."""

    group: str
    error_code: int
    committed: CommittedOffsets


class CommitsResponse(msgspec.Struct, frozen=True):
    """A response to OffsetFetch. kafka-python waits ``throttle_time_ms`` with the next request, as the broker asks."""

    throttle_time_ms: int
    groups: tuple[CommitsOfGroup, ...]


def decode_commits(body: bytes) -> CommitsResponse:
    """The commits in a response without its header. Raises ValueError if it is not one of these versions."""
    reader = ByteReader(body)
    try:
        response = CommitsResponse(reader.i32(), reader.compact_array(lambda: _group(reader)))
        reader.tags()
        return response
    except (MalformedRecord, *FAULTS) as error:
        raise ValueError(f"no response to OffsetFetch: {error}") from error


def _group(reader: ByteReader) -> CommitsOfGroup:
    group = reader.compact_string()
    commits: CommittedOffsets = {}
    for _ in range(reader.uvarint() - 1):
        _read_topic(reader, group, commits)
    error_code = reader.i16()
    reader.tags()
    return CommitsOfGroup(group, error_code, commits)


def _read_topic(reader: ByteReader, group: str, commits: CommittedOffsets) -> None:
    topic, count = reader.compact_string(), reader.uvarint() - 1
    data, pos = reader.data, reader.pos
    # With local variables, and without a method for each field: it runs for each partition of each group.
    for _ in range(count):
        partition, offset, epoch, length = _BEFORE_METADATA.unpack_from(data, pos)
        pos += _BEFORE
        metadata = ""
        if length > 1:
            end = pos + length - 1
            metadata = data[pos:end].decode()
            pos = end
        elif length < 0:  # a length of several bytes
            reader.pos = pos - 1
            metadata = reader.compact_string()
            pos = reader.pos
        error_code, tags = _AFTER_METADATA.unpack_from(data, pos)
        pos += _AFTER
        if tags:
            reader.pos = pos - 1
            reader.tags()
            pos = reader.pos
        if error_code:
            commits[shared_tp(topic, partition)] = group_error(error_code, group)
        elif offset >= 0:
            commits[shared_tp(topic, partition)] = Commit(offset, epoch if epoch >= 0 else None, metadata)
    reader.pos = pos
    reader.tags()


class _Response:
    """What kafka-python calls for the bytes of a response: first for its header, then for the rest."""

    parse_header = staticmethod(OffsetFetchResponse[NEWEST].parse_header)

    @staticmethod
    def decode(buffer: Any) -> CommitsResponse:
        return decode_commits(buffer.read())


class _Header(RequestHeader, init=False):  # type: ignore[call-arg, misc]
    """The header of a request, which kafka-python asks how to decode the response."""

    def get_response_class(self) -> type[_Response]:
        return _Response


class CommitsRequest(OffsetFetchRequest, init=False):  # type: ignore[call-arg, misc]
    """An OffsetFetch of these versions, whose response is a CommitsResponse."""

    header_class = _Header

    def __init__(self, groups: Sequence[str], *, stable: bool) -> None:
        """All offsets of the groups; with ``stable``, errors for those that an open transaction is about to replace."""
        entries = [self.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
        super().__init__(groups=entries, require_stable=stable, min_version=OLDEST, max_version=NEWEST)
