"""The newest record of each key: sifted by readers and gathered by buckets, against a plain reading of the rule."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from zlib import crc32

import pytest

from kgroup.catchup.buckets import bucket_of
from kgroup.catchup.model import LostOffsets
from kgroup.catchup.worker.newest_per_key import Bucket, KeptRecord, NewestMerge, NewestPerKey, ReaderTally, RowBatch
from kgroup.support.errors import KgroupError
from tests.support.for_each import for_each

Record = tuple[str, int, int, "bytes | None", "bytes | None", int]
"""(topic, partition, offset, key, value, timestamp in ms); -1 is no timestamp"""

FIRST = 100


def rows(records: Iterable[Record]) -> list[KeptRecord]:
    return [KeptRecord(offset, (int(ms >= 0), ms), key, value, None, 0) for _, _, offset, key, value, ms in records]


def sent_by(
    records: Sequence[Record], buckets: int, reader: int, *, left: frozenset[int] | None = None, most: int = 1 << 20
) -> list[tuple[int, bytes]]:
    """What a reader sends of these; a chunk is a partition of ten offsets."""
    wanted = frozenset(range(buckets)) if left is None else left
    sift = NewestPerKey(buckets, wanted, most)
    sent: list[tuple[int, bytes]] = []
    by_chunk: dict[tuple[str, int, int], list[Record]] = {}
    for record in records:
        by_chunk.setdefault((record[0], record[1], record[2] // 10), []).append(record)
    for topic, partition, chunk in sorted(by_chunk):
        some = by_chunk[topic, partition, chunk]
        for at in range(0, len(some), 3):
            sent += sift.add(chunk, RowBatch(topic, partition, rows(some[at : at + 3]), 0))
    sent += sift.flush()
    return sent + [(bucket, pickle.dumps(sift.tally(reader, bucket, {}, {}))) for bucket in sorted(wanted)]


def gathered(sent: Sequence[tuple[int, bytes]], buckets: int, readers: int) -> dict[int, Bucket]:
    found = {}
    for bucket in {bucket for bucket, _ in sent}:
        gather = NewestMerge(FIRST + bucket, readers)
        for number, blob in sent:
            if number == bucket:
                gather.add(blob)
        found[bucket] = gather.bucket()
    return found


def delivered(buckets: dict[int, Bucket]) -> set[tuple[str, int, int]]:
    places = [
        (batch.topic, batch.partition, offset)
        for bucket in buckets.values()
        for batch in bucket.batches
        for offset in batch.offsets()
    ]
    assert len(set(places)) == len(places)
    return set(places)


def expected(records: Sequence[Record]) -> set[tuple[str, int, int]]:
    """The rule, word for word."""
    loose = {record[:3] for record in records if record[3] is None}
    newest: dict[tuple[str, bytes, int], Record] = {}
    for record in sorted(records, key=lambda one: one[2]):
        if record[3] is not None:
            newest[record[0], record[3], record[1]] = record
    best: dict[tuple[str, bytes], Record] = {}
    for (topic, key, _), record in newest.items():
        other = best.get((topic, key))
        if other is None or (other[5], other[1]) < (record[5], record[1]):
            best[topic, key] = record
    return loose | {record[:3] for record in best.values()}


A, B = b"a", b"b"


@pytest.mark.parametrize(
    ("records", "newest"),
    [
        ([], []),
        ([("t", 0, 0, A, b"1", 5), ("t", 0, 7, A, b"2", 5)], [("t", 0, 7)]),
        # By offset in a partition, whatever the timestamps say.
        ([("t", 0, 0, A, b"1", 9), ("t", 0, 1, A, b"2", 5)], [("t", 0, 1)]),
        # A tombstone is kept, and an empty key is one.
        ([("t", 0, 0, b"", b"1", 5), ("t", 0, 3, b"", None, 6)], [("t", 0, 3)]),
        ([("t", 0, 0, None, b"1", 5), ("t", 0, 3, None, None, 6)], [("t", 0, 0), ("t", 0, 3)]),
        # In several partitions: by timestamp, but among the newest of each.
        ([("t", 0, 9, A, b"1", 5), ("t", 1, 2, A, b"2", 6)], [("t", 1, 2)]),
        ([("t", 0, 1, A, b"1", 99), ("t", 0, 2, A, b"2", 5), ("t", 1, 1, A, b"3", 6)], [("t", 1, 1)]),
        ([("t", 0, 1, A, b"1", 5), ("t", 1, 1, A, b"3", 5)], [("t", 1, 1)]),
        ([("t", 0, 1, A, b"1", 5), ("t", 1, 1, A, b"3", -1)], [("t", 0, 1)]),
        # Of each topic.
        (
            [("t", 0, 9, A, b"1", 5), ("u", 0, 2, A, b"2", 6), ("u", 0, 3, B, b"2", 6)],
            [("t", 0, 9), ("u", 0, 2), ("u", 0, 3)],
        ),
    ],
)
@pytest.mark.parametrize("readers", [1, 2])
def test_which_is_the_newest(records: list[Record], newest: list[tuple[str, int, int]], readers: int) -> None:
    assert expected(records) == set(newest)
    parts = [records] if readers == 1 else [records[::2], records[1::2]]
    sent = [item for number, part in enumerate(parts) for item in sent_by(part, 3, number)]

    buckets = gathered(sent, 3, readers)

    assert delivered(buckets) == set(newest)
    assert sum(share.records for one in buckets.values() for share in one.shares) == len(records)
    assert sum(share.filtered for one in buckets.values() for share in one.shares) == len(records) - len(newest)


@for_each("seed", range(40))
def test_readers_and_buckets_in_any_number_come_to_the_same(seed: int) -> None:
    random_ = random.Random(seed)
    keys = [None, *(str(number).encode() for number in range(random_.choice([1, 5, 30])))]
    records: list[Record] = [
        (
            random_.choice("tu"),
            partition,
            offset,
            random_.choice(keys),
            random_.choice([None, b"v" * 9]),
            random_.randrange(9),
        )
        for partition in range(random_.choice([1, 3]))
        for offset in range(60)
        if random_.random() < 0.8
    ]
    records = list({record[:3]: record for record in records}.values())
    buckets, readers = random_.choice([1, 2, 7]), random_.choice([1, 2, 5])
    dealt: list[list[Record]] = [[] for _ in range(readers)]
    for record in records:  # whole chunks
        dealt[crc32(f"{record[0]}:{record[1]}:{record[2] // 10}".encode()) % readers].append(record)
    sent = [
        item
        for number, some in enumerate(dealt)
        for item in sent_by(some, buckets, number, most=random_.choice([1, 2000, 1 << 20]))
    ]
    random_.shuffle(sent)

    found = gathered(sent, buckets, readers)

    assert delivered(found) == expected(records)
    for bucket, one in found.items():
        assert one.number == FIRST + bucket
        for batch in one.batches:
            assert batch.offsets() == sorted(batch.offsets())
            where = [
                bucket_of(key, batch.partition, offset, buckets)
                for key, offset in zip(batch.keys(), batch.offsets(), strict=True)
            ]
            assert set(where) == {bucket}
        assert sum(share.size for share in one.shares) == sum(batch.size() for batch in one.batches)


def test_buckets_that_are_delivered_are_read_for_nothing() -> None:
    records: list[Record] = [("t", 0, number, str(number % 7).encode(), b"v", 0) for number in range(50)]
    records += [("t", 0, 50 + number, None, b"v", 0) for number in range(9)]

    some = gathered(sent_by(records, 4, 0, left=frozenset({1, 3})), 4, 1)

    everything = gathered(sent_by(records, 4, 0), 4, 1)
    assert set(some) == {1, 3}
    for bucket, one in some.items():
        assert one.shares == everything[bucket].shares
        assert delivered({bucket: one}) == delivered({bucket: everything[bucket]})


def test_what_does_not_arrive_is_noticed() -> None:
    records: list[Record] = [("t", 0, number, str(number).encode(), b"v", 0) for number in range(50)]
    sent = sent_by(records, 1, 0)
    only_rows = [item for item in sent if not isinstance(pickle.loads(item[1]), ReaderTally)]
    assert len(only_rows) == len(sent) - 1

    for broken in (sent[1:], only_rows, [*only_rows, *sent]):
        with pytest.raises(KgroupError, match="were sent") as caught:
            gathered(broken, 1, 1)
        assert caught.value.code == "not-counted"
    with pytest.raises(KgroupError, match="50 records of 1 readers were sent, and 50 arrived of 2"):
        gathered(sent, 1, 2)


def test_what_a_filter_left_out_and_what_is_lost_is_counted() -> None:
    records: list[Record] = [("t", 0, number, A, b"v", 0) for number in range(4)]
    sift = NewestPerKey(1, frozenset({0}))
    sent = [*sift.add(0, RowBatch("t", 0, rows(records), 0)), *sift.flush()]
    assert sift.left_out({0: 4}) == {}
    left_out = sift.left_out({0: 10, 1: 5})
    assert left_out == {0: 6, 1: 5}
    lost = {2: (LostOffsets(20, 25, "gone"),)}
    sent.append((0, pickle.dumps(sift.tally(0, 0, lost, left_out))))

    (bucket,) = gathered(sent, 1, 1).values()

    assert [(share.chunk, share.records, share.filtered, share.lost) for share in bucket.shares] == [
        (0, 10, 9, ()),
        (1, 5, 5, ()),
        (2, 0, 0, (LostOffsets(20, 25, "gone"),)),
    ]


def test_a_reader_that_failed_is_heard() -> None:
    tally = replace(ReaderTally(0, {}, {}), broken="why")
    gather = NewestMerge(0, 2)
    gather.add(pickle.dumps(ReaderTally(1, {}, {})))
    assert gather.broken is None
    gather.add(pickle.dumps(tally))
    assert gather.broken == "why"


def test_what_is_kept_is_bounded() -> None:
    """With few keys nothing is sent before the end; with one a record, as often as it is more than allowed."""
    few = [("t", 0, number, str(number % 5).encode(), b"v" * 100, 0) for number in range(3000)]
    many = [("t", 0, number, str(number).encode(), b"v" * 100, 0) for number in range(3000)]

    assert [bucket for bucket, _ in sent_by(few, 1, 0, most=20_000)] == [0, 0]
    assert len(sent_by(many, 1, 0, most=20_000)) > 30
