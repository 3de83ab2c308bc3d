"""Decode commits that follow each other in a batch and differ in few bytes: a coordinator writes most of them so.

Commits of one request differ in partition, offset and leader epoch, and perhaps in their metadata. The first one is
decoded field by field. The numbers of the next ones are unpacked in one step, and all their other bytes are compared
with the first one's. Where any byte differs, the run ends: nothing is guessed.

It is the one place where speed costs reading, because the log is read within 5 s: a commit of a run takes 0.5 us, of
100 in a batch, and 2.6 us where each is decoded by itself: a million commits take 0.5 s instead of 2.6 s.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kgroup.cluster.offsets_topic.decode import usual_commit
from kgroup.model.group_log import CommitWritten, TransactionEnd


class CommitRun(NamedTuple):
    """Plain commits of one group, in log order. ``key_head`` is their type and group, as made by ``key_prefix``."""

    key_head: bytes
    commits: list[CommitWritten]


_MORE = 128
"""The bit of a varint's byte that another byte follows."""

PARTITION_BYTES = 4
"""A commit's key ends with the partition."""

_METADATA_AT, _TIME_BYTES = 14, 8
"""A value is version, offset, leader epoch; metadata; time, and tags."""

_PLAIN = TransactionEnd.PLAIN


def commits_like(body: bytes, at: int, stop: int, base: int, at_ms: int, most: int) -> list[CommitWritten] | None:
    """The commit in ``body[at:stop]``, and those of the next ``most`` records that repeat its bytes; all of one length.

    ``base`` is the offset of the batch, ``at_ms`` the time of these records. None if it is not a usual commit, or if no
    record of its length is left. It pays if the next record has the same key up to the partition.
    """
    size = stop - at
    delta_at = _varint(body, _varint(body, at)[1] + 1)[1]
    delta, key_length_at = _varint(body, delta_at)
    key_length, key_at = _varint(body, key_length_at)
    key_end = key_at + (key_length >> 1)
    fixed_at, partition_at = delta_at + 1, key_end - PARTITION_BYTES
    most = min(most, (len(body) - stop) // size)
    value_length, value_at = _varint(body, key_end)
    key, value = body[key_at:key_end], body[value_at : value_at + (value_length >> 1)]
    usual = None if most < 1 or value_length & 1 else usual_commit(key, value)
    if usual is None or _partition_at(key) + PARTITION_BYTES != len(key):
        return None
    topic, partition, offset, epoch, metadata, topic_id = usual
    length_bytes, text_bytes = _metadata_length(value)
    numbers_at, text_at = value_at + 2, value_at + _METADATA_AT
    tail_at = text_at + length_bytes + text_bytes + _TIME_BYTES
    layout = _layout(
        f">{delta_at - at}sB{partition_at - fixed_at}si{numbers_at - key_end}sqi"
        f"{length_bytes + text_bytes}s{_TIME_BYTES}x{stop - tail_at}s"
    )
    start, low, fixed, _, head, _, _, text, tail = layout.unpack_from(body, at)
    log_offset = base + (delta >> 1)
    commits = [CommitWritten(log_offset, at_ms, topic, partition, offset, metadata, topic_id, None, _PLAIN, epoch)]
    # The varints of 64 offsets in succession differ in their first byte only, by two.
    lows = range(low + 2, _MORE if low < _MORE else 2 * _MORE, 2)[:most]
    following = memoryview(body)[stop : stop + size * len(lows)]
    for expected, values in zip(lows, layout.iter_unpack(following), strict=True):
        its_start, low, its_fixed, partition, its_head, offset, epoch, its_text, its_tail = values
        if low != expected or its_start != start or its_fixed != fixed or its_head != head or its_tail != tail:
            break
        if its_text != text:
            if its_text[:length_bytes] != text[:length_bytes] or (read := _text(its_text[length_bytes:])) is None:
                break
            text, metadata = its_text, read
        log_offset += 1
        if epoch == -1:
            epoch = None
        commits.append(
            CommitWritten(log_offset, at_ms, topic, partition, offset, metadata, topic_id, None, _PLAIN, epoch)
        )
    return commits


_layout = lru_cache(maxsize=1024)(Struct)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """(the number, position after it)"""
    number = body[at]
    at += 1
    if number < _MORE:
        return number, at
    number &= 127
    shift = 7
    while True:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < _MORE:
            return number, at
        shift += 7


def _partition_at(key: bytes) -> int:
    """Where the partition is in a commit's key: after type, group and topic."""
    topic_at = 6 + int.from_bytes(key[2:4])
    return topic_at + int.from_bytes(key[topic_at - 2 : topic_at])


def _metadata_length(value: bytes) -> tuple[int, int]:
    """(bytes of the length, bytes of the text) of the metadata of a usual commit."""
    if value[1] == 3:
        return 2, int.from_bytes(value[_METADATA_AT : _METADATA_AT + 2])
    return 1, value[_METADATA_AT] - 1


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
