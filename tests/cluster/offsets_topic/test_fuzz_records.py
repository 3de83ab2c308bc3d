"""No bytes in ``__consumer_offsets`` make reading it raise, loop, or say two things: batches, records, events."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import kafka.codec
import pytest
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.offsets_topic.commit_runs import CommitRun
from kgroup.cluster.offsets_topic.decode import decode, key_prefix, usual_commit
from kgroup.cluster.offsets_topic.events import ending_of, event_of
from kgroup.cluster.offsets_topic.record_batches import (
    BatchMatches,
    KeyFilter,
    LogEntry,
    Marker,
    RawRecord,
    batches,
    key_head,
    records_in_range,
)
from kgroup.model.group_log import CommitWritten, Event, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError
from tests.helpers.fuzzing import LONG, QUICK_AND_LONG, REAL, broken, events_of, fuzz, records

ALL = LogRange(0, 1 << 62)
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = [
    codec
    for codec, there in (
        (NONE, True),
        (GZIP, True),
        (SNAPPY, kafka.codec.has_snappy()),
        (LZ4, kafka.codec.has_lz4()),
        (ZSTD, kafka.codec.has_zstd()),
    )
    if there
]


class Everything:
    """Heads of keys of which each one is wanted."""

    def __contains__(self, head: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1 << 30


def batch_of(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    *,
    offset: int = 0,
    magic: int = 2,
    codec: int = NONE,
    producer: int | None = None,
    skip: Sequence[int] = (),
    headers: Sequence[tuple[str, bytes]] = (),
    times: Sequence[int] = (),
) -> bytes:
    """A batch as kafka-python writes it; after the records at ``skip`` some offsets are left out, as by compaction."""
    transaction = {} if producer is None else {"producer_id": producer, "producer_epoch": 1, "base_sequence": 0}
    first = 0 if magic == 2 else offset  # of a batch the broker sets it
    builder = MemoryRecordsBuilder(
        magic, codec, 1 << 20, offset=first, transactional=producer is not None, **transaction
    )
    for number, (key, value) in enumerate(pairs):
        time = times[number % len(times)] if times else 1_000 + number
        builder.append(time, key, value, list(headers) if magic == 2 else [])
        if number in skip:
            builder.skip(100)
    builder.close()
    data = bytes(builder.buffer())
    return offset.to_bytes(8) + data[8:] if magic == 2 else data


KEYS, VALUES = st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=40)
PAIRS = st.lists(st.tuples(KEYS, VALUES) | st.sampled_from(REAL), min_size=1, max_size=4)
OFFSETS = st.sampled_from((0, 5, 1 << 33))


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """One to three batches, of Kafka's records and others."""
    found = b""
    offset = draw(OFFSETS)
    for _ in range(draw(st.integers(1, 3))):
        pairs = draw(PAIRS) * draw(st.sampled_from((1, 1, 30)))
        skip = draw(st.sets(st.integers(0, len(pairs)), max_size=3))
        found += batch_of(
            pairs,
            offset=offset,
            codec=draw(st.sampled_from(CODECS)),
            producer=draw(st.none() | st.integers(0, 9)),
            skip=sorted(skip),
            headers=draw(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2)),
            times=draw(st.lists(st.integers(0, 1 << 42), max_size=3)),
        )
        offset += len(pairs) + 100 * len(skip) + draw(st.integers(0, 3))
    return found


def kafkas(data: bytes, span: LogRange) -> list[RawRecord]:
    """What kafka-python's own parser finds."""
    return [
        RawRecord(
            record.offset, record.timestamp, record.key, record.value,
            batch.producer_id if batch.is_transactional else None,
        )
        for batch in MemoryRecords(data)
        for record in batch
        if span.start <= record.offset < span.end and record.key is not None and len(record.key) >= 4
    ]  # fmt: skip


def read(data: bytes, span: LogRange, wanted: KeyFilter) -> tuple[list[LogEntry], int, int]:
    """(entries, records, from where on none is missing), as a window adds them up."""
    entries: list[LogEntry] = []
    counted, following, whole_from = 0, span.start, span.start
    for batch in batches(data):
        found = records_in_range(batch, span, wanted, following)
        entries += found.entries
        counted += found.records
        following = found.following
        whole_from = whole_from if found.gap_until is None else found.gap_until
    return entries, counted, whole_from


SPANS = st.one_of(st.just(ALL), st.builds(lambda a, n: LogRange(a, a + n), st.integers(0, 300), st.integers(1, 300)))


@pytest.mark.soak
@QUICK_AND_LONG
def test_batches_are_read_as_kafka_python_reads_them(examples: int) -> None:
    def check(given: tuple[bytes, LogRange]) -> None:
        data, span = given
        theirs = [record for record in kafkas(data, span) if _head_is_whole(record.key)]
        entries, counted, whole_from = read(data, span, KeyFilter(Everything()))
        assert entries == theirs
        offsets = [r.offset for batch in MemoryRecords(data) for r in batch if span.start <= r.offset < span.end]
        assert counted == len(offsets)
        gaps = [now for before, now in zip([span.start - 1, *offsets], offsets, strict=False) if now != before + 1]
        assert whole_from == (gaps[-1] if gaps else span.start)

    fuzz(examples, st.tuples(written(), SPANS), check)


def _head_is_whole(key: bytes) -> bool:
    return len(key_head(key)) == 4 + int.from_bytes(key[2:4])


@QUICK_AND_LONG
def test_looking_for_a_group_first_finds_the_same_as_looking_at_each_record(examples: int) -> None:
    def check(given: tuple[bytes, tuple[bytes, bytes | None], LogRange]) -> None:
        data, (key, _), span = given
        few = {key_head(key)}
        many = few | {key_prefix(1, f"other-{number}") for number in range(100)}
        assert read(data, span, KeyFilter(few)) == read(data, span, KeyFilter(many))

    fuzz(examples, st.tuples(written(), st.sampled_from(REAL), SPANS), check)


def text(value: bytes, *, compact: bool = False) -> bytes:
    return (bytes([len(value) + 1]) if compact else len(value).to_bytes(2)) + value


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[bytes, bytes | None]]:
    """Commits of few groups and topics, many of them alike; some are tombstones, or have bytes that Kafka ignores."""
    found: list[tuple[bytes, bytes | None]] = []
    for _ in range(draw(st.integers(1, 6))):
        version = draw(st.sampled_from((3, 4)))
        compact, tags = version == 4, draw(st.sampled_from((b"\x00", b"\x01\x00\x10" + bytes(range(16)))))
        head = (
            b"\x00\x01" + text(draw(st.sampled_from((b"g", b"h", b"\xff")))) + text(draw(st.sampled_from((b"t", b"u"))))
        )
        rest = draw(st.sampled_from((b"", b"", b"", bytes(4))))
        for _ in range(draw(st.sampled_from((1, 2, 5, 70, 200)))):
            partition, offset, epoch = len(found) % 3 * 77, len(found) << 20, len(found) % 5 - 1
            metadata = text(
                draw(st.sampled_from((b"", b"", b"", b"a", b"\xc3\xa9", b"\xff\xff", b"m" * 70))), compact=compact
            )
            value = version.to_bytes(2) + offset.to_bytes(8) + epoch.to_bytes(4, signed=True) + metadata + b"\x01" * 8
            gone = draw(st.integers(0, 50)) == 0
            found.append((head + partition.to_bytes(4) + rest, None if gone else value + tags * compact))
    return found


@st.composite
def batches_of_commits(draw: st.DrawFn) -> bytes:
    pairs = draw(commits())
    return batch_of(
        pairs,
        offset=draw(OFFSETS),
        codec=draw(st.sampled_from((NONE, GZIP))),
        producer=draw(st.sampled_from((None, None, None, 7))),
        skip=sorted(draw(st.sets(st.integers(0, len(pairs)), max_size=2))),
        times=draw(st.sampled_from(((5,), (5,), (5, 6), ()))),
    )


def events_read(data: bytes, span: LogRange, wanted: KeyFilter) -> tuple[list[Event | Marker | None], int, int] | None:
    """What ``read`` finds, as events; None where the bytes are malformed."""
    try:
        entries, counted, whole_from = read(data, span, wanted)
    except KgroupError:
        return None
    found: list[Event | Marker | None] = []
    for entry in entries:
        match entry:
            case CommitRun(commits=commits):
                found += commits
            case RawRecord():
                found.append(event_of(entry, ending_of(entry, None), {}))
            case Marker():
                found.append(entry)
    return found, counted, whole_from


@pytest.mark.soak
@QUICK_AND_LONG
def test_runs_of_commits_are_the_same_events_as_each_record(examples: int) -> None:
    everything, of_one = KeyFilter(Everything(), Everything()), {key_prefix(1, "g")}

    def check(given: tuple[bytes, LogRange]) -> None:
        data, span = given
        assert events_read(data, span, everything) == events_read(data, span, KeyFilter(Everything()))
        assert events_read(data, span, KeyFilter(of_one, of_one)) == events_read(data, span, KeyFilter(of_one))

    fuzz(examples, st.tuples(batches_of_commits() | broken(batches_of_commits()) | written(), SPANS), check)


def some_commits(version: int, metadata: Sequence[bytes], count: int) -> bytes:
    """A batch of commits that differ in partition, offset and metadata."""
    key, tags = b"\x00\x01" + text(b"g") + text(b"t"), b"\x01\x00\x10" + bytes(range(16))
    pairs = []
    for number in range(count):
        written = text(metadata[number % len(metadata)], compact=version == 4) + b"\x01" * 8 + tags * (version == 4)
        value = version.to_bytes(2) + number.to_bytes(8) + b"\xff" * 4 + written
        pairs.append((key + number.to_bytes(4), value))
    return batch_of(pairs, times=[5])


def test_a_run_is_as_long_as_its_varints_first_byte() -> None:
    wanted = {key_prefix(1, "g")}

    entries, *_ = read(some_commits(3, [b""], 300), ALL, KeyFilter(wanted, wanted))

    lengths = [len(entry.commits) if isinstance(entry, CommitRun) else 1 for entry in entries]
    assert lengths == [64, 64, 64, 64, 44]


@pytest.mark.parametrize("count", [3, 67])
@pytest.mark.parametrize("metadata", [[b""], [b"aa", b"bb"], [b"m" * 70]])
@pytest.mark.parametrize("version", [3, 4])
def test_no_byte_is_overlooked(version: int, metadata: Sequence[bytes], count: int) -> None:
    data, everything = some_commits(version, metadata, count), Everything()
    size = len(some_commits(version, metadata, 67)) - len(some_commits(version, metadata, 66))

    for at in range(len(data) - 3 * size, len(data)):
        for byte in (data[at] ^ 1, data[at] ^ 2, data[at] ^ 128, data[at] - 1 & 255, 255, 0):
            changed = data[:at] + bytes([byte]) + data[at + 1 :]
            in_runs = events_read(changed, ALL, KeyFilter(everything, everything))
            assert in_runs == events_read(changed, ALL, KeyFilter(everything)), (at - len(data), byte)


def test_bytes_after_the_partition_are_ignored() -> None:
    key, value = key_prefix(1, "g") + text(b"t") + bytes(4), b"\x00\x03" + bytes(22)
    data = batch_of([(key + number.to_bytes(4), value) for number in range(5)], times=[5])
    wanted = {key_head(key)}

    found = events_read(data, ALL, KeyFilter(wanted, wanted))

    assert found is not None
    assert [event.partition for event in found[0] if isinstance(event, CommitWritten)] == [0] * 5


@QUICK_AND_LONG
def test_broken_batches_are_malformed_or_read(examples: int) -> None:
    def check(given: tuple[bytes, LogRange]) -> None:
        data, span = given
        with suppress(KgroupError):
            entries, counted, _ = read(data, span, KeyFilter(Everything()))
            assert len(entries) <= counted <= len(data)
            assert all(isinstance(e, RawRecord | Marker) and span.start <= e.offset < span.end for e in entries)

    legacy = st.builds(
        lambda pairs, magic: batch_of(pairs, magic=magic, codec=GZIP if magic else NONE),
        st.lists(st.sampled_from(REAL), min_size=1, max_size=5),
        st.sampled_from((0, 1)),
    )
    fuzz(examples, st.tuples(broken(written() | legacy) | st.binary(max_size=100), SPANS), check)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_from_before_kafka_0_11(magic: int, codec: int) -> None:
    if codec == ZSTD or (magic == 0 and codec == LZ4):
        return  # which came later, or with a broken checksum
    key, value = REAL[0]
    data = batch_of([(key, value)] * 3, offset=7 if codec == NONE else 0, magic=magic, codec=codec)

    entries, counted, whole_from = read(data, ALL, KeyFilter({key_head(key)}))

    first = 7 if codec == NONE else 0
    assert [e.offset for e in entries if isinstance(e, RawRecord)] == [first, first + 1, first + 2]
    assert {(e.key, e.value, e.timestamp_ms >= 0) for e in entries if isinstance(e, RawRecord)} == {
        (key, value, magic == 1)
    }
    assert (counted, whole_from) == (3, first)


def control(kind: int, *, offset: int = 9, producer: int = 42) -> bytes:
    """A transaction's end: the control bit is set in a transactional batch."""
    key = b"\x00\x00" + kind.to_bytes(2)
    data = bytearray(batch_of([(key, b"\x00\x00\x00\x00\x00\x07")], offset=offset, producer=producer, times=[555]))
    data[22] |= 0x20
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "expected"), [(0, [Marker(9, 42, True, 555)]), (1, [Marker(9, 42, False, 555)]), (2, [])]
)
def test_markers(kind: int, expected: list[LogEntry]) -> None:
    (batch,) = batches(control(kind))

    assert records_in_range(batch, ALL, KeyFilter({b"x"}), 9) == BatchMatches(1, 10, None, expected)


def test_what_a_brokers_cleaning_left() -> None:
    """A transaction's batch without records, kept for its producer; tombstones, whose base time is when they may go."""
    emptied = bytes.fromhex(
        "000000000000014a000000310000000002457bd490001000000000ffffffffffffffff000001a200b31992"
        "000000000000000100000000000000000000"
    )
    tombstones = bytes.fromhex(
        "00000000000001500000009100000000025d8105dc004000000003000001a200bcdcf1000001a200b3a960"
        "ffffffffffffffffffff0000000000000004"
        "3400a1ce49002400010002673500066f72646572730000000201003400a1ce49022400010002673500066f726465727300000000"
        "01003400a1ce49042400010002673500066f72646572730000000101001c00a1ce49060c0002000267350100"
    )
    first, second = batches(emptied + tombstones)
    wanted = KeyFilter({key_prefix(1, "g5")})

    assert (first.base, first.end, first.newest_ms) == (330, 331, 1795308067218)
    assert records_in_range(first, ALL, wanted, 330) == BatchMatches(0, 330, None, [])
    found = records_in_range(second, ALL, wanted, 330)
    assert (found.records, found.following, found.gap_until) == (4, 340, 336)
    assert [tuple(entry)[:2] for entry in found.entries] == [(offset, 1795308104032) for offset in (336, 337, 338)]
    assert all(isinstance(entry, RawRecord) and entry.value is None for entry in found.entries)


def test_a_batch_that_was_cut_off_is_left_out() -> None:
    whole = batch_of(REAL[:3])

    for length in range(len(whole)):
        assert [batch.end for batch in batches(whole + whole[:length])] == [3]


@pytest.mark.parametrize("examples", [600, pytest.param(LONG, marks=pytest.mark.soak)])
def test_any_record(examples: int) -> None:
    def check(given: tuple[bytes, bytes | None]) -> None:
        key, value = given
        raw = RawRecord(1, 2, key, value, None)
        event = event_of(raw, TransactionEnd.PLAIN, {})
        try:
            record = decode(key, value, raw.offset, raw.timestamp_ms)
        except MalformedRecord:
            record = None
        usual = None if value is None else usual_commit(key, value)
        if usual is not None:
            # The quick way says what the thorough one says.
            assert record == event
            assert isinstance(event, CommitWritten)
            place = (event.topic, event.partition, event.offset)
            assert usual == (*place, event.leader_epoch, event.metadata, event.topic_id)

    fuzz(examples, records(), check)


@QUICK_AND_LONG
def test_any_log(examples: int) -> None:
    entry = st.one_of(
        st.builds(
            lambda pair, producer: RawRecord(1, 2, pair[0], pair[1], producer), records(), st.none() | st.integers(0, 3)
        ),
        st.builds(Marker, st.just(1), st.integers(0, 3), st.booleans()),
    )

    def check(entries: list[RawRecord | Marker]) -> None:
        found = events_of(entries, {"-_-_YmFyYmF6cXV4Kysv8A": "orders"})
        alone = [events_of([entry]) for entry in entries]
        assert len(found) == sum(map(len, alone)), "what is around a record never makes it an event, or none"

    fuzz(examples, st.lists(entry, max_size=20), check)
