"""Buckets of keys: how many, whose, and what they tell of a plan: its proof, what is owed, what a cancel comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kgroup.catchup.buckets import (
    MOST_BUCKETS,
    MOST_TASKS,
    assign_readers,
    bucket_count,
    bucket_of,
    buckets_with_progress,
    by_chunk,
    delivered_buckets,
    numbers,
    progress_of,
    sum_shares,
    tasks,
    unfinished,
    with_buckets,
)
from kgroup.catchup.chunks import RateLimit, cut_into_chunks
from kgroup.catchup.decisions import cancel, resume
from kgroup.catchup.delivered import lowest_undelivered, started_chunks, undelivered
from kgroup.catchup.documents import plan_document
from kgroup.catchup.ledger.records import Value, encode, key_of
from kgroup.catchup.ledger.view import LedgerView
from kgroup.catchup.model import (
    BucketShare,
    Chunk,
    ChunkProgress,
    Delivery,
    LostOffsets,
    Order,
    PlanSnapshot,
    PlanState,
    StateRecord,
)
from kgroup.catchup.release_evidence import ReleaseEvidence
from kgroup.catchup.service.replay import ReplayOptions, delivery_of
from kgroup.catchup.steps import MoveBack, Refuse, Replay, Situation
from kgroup.catchup.verification import ChunkResult, verify
from kgroup.model.groups import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import Refused
from tests.support.catchup.plans import PLAN_ID, gap_range, ledgered, make_plan

MILLION = 1_000_000
CHUNKS = (Chunk(0, "orders", 0, 70, 100), Chunk(1, "orders", 0, 100, 120), Chunk(2, "orders", 1, 70, 120))
PLAN = make_plan(gap_range(), gap_range(1), chunks=CHUNKS)
TO = with_buckets(PLAN, "topic", {"topic": "copy"})
TWO = replace(TO, buckets=2, tasks=tasks(PLAN, 2))


@pytest.mark.parametrize(
    ("records", "size", "parallelism", "rate", "expected"),
    [
        (0, 0, 1, None, 1),
        (50, 5_000, 1, None, 1),
        (50, 5_000, 8, None, 1),
        (MILLION, 100 * MILLION, 1, None, 4),
        (MILLION, 1_024 * MILLION, 1, None, 11),
        (MILLION, None, 1, None, 4),
        (MILLION, 100 * MILLION, 8, None, 32),  # as a gap is cut: something to do for all of them
        (9_000, 0, 1, RateLimit(100), 3),  # 3,000 records take 30 s
        (9_000, 0, 2, RateLimit(100), 6),
        (9_000, 90_000, 1, RateLimit(bytes_per_s=1_000), 3),
        (10**12, 10**15, 1, None, MOST_BUCKETS),
    ],
)
def test_a_bucket_fits_into_a_transaction(
    records: int, size: int | None, parallelism: int, rate: RateLimit | None, expected: int
) -> None:
    halves = [gap_range(part, 0, 10**13, records=records // 2, size=size and size // 2) for part in range(2)]

    assert bucket_count(halves, parallelism=parallelism, rate=rate) == expected


def test_offsets_count_where_records_are_not_known() -> None:
    assert bucket_count([gap_range(0, 0, MILLION)]) == 4
    assert bucket_count([]) == 1


@pytest.mark.parametrize("buckets", [1, 2, MOST_TASKS, MOST_TASKS + 1, MOST_BUCKETS])
def test_each_bucket_is_in_one_task(buckets: int) -> None:
    delivery = replace(TO, buckets=buckets, tasks=tasks(PLAN, buckets))

    assert sorted(number for task in delivery.tasks for number in task.chunks) == list(numbers(PLAN, delivery))
    assert len(delivery.tasks) == min(buckets, MOST_TASKS)
    assert numbers(PLAN, delivery).start == 3
    assert all((number - 3) % len(delivery.tasks) == task.number for task in delivery.tasks for number in task.chunks)


def test_a_bucket_is_the_same_on_every_machine() -> None:
    assert [bucket_of(key, 0, 5, 8) for key in (b"a", b"b", b"", None)] == [3, 1, 0, 5]
    assert bucket_of(b"a", 3, 9, 8) == bucket_of(b"a", 0, 0, 8)
    assert {bucket_of(None, 1, offset, 8) for offset in range(8)} == set(range(8))


def test_readers_read_a_partition_by_offset() -> None:
    ranges = [gap_range(0, 0, 3 * MILLION), gap_range(1, 0, 10)]
    plan = make_plan(*ranges, chunks=cut_into_chunks(ranges))

    dealt = assign_readers(plan, 2)

    assert sorted(chunk.number for some in dealt for chunk in some) == [chunk.number for chunk in plan.chunks]
    assert len(dealt) == 2
    for some in dealt:
        assert list(some) == sorted(some, key=lambda chunk: (chunk.partition, chunk.start))


def bucket(number: int, *shares: BucketShare, delivered: int = 1) -> ChunkProgress:
    return progress_of(number, delivered, shares, 5, 1)


def share(chunk: int, records: int, filtered: int = 0, *, dead: int = 0, may_repeat: int = 0) -> BucketShare:
    return BucketShare(chunk, records, filtered, dead, 10 * (records - filtered), may_repeat)


def found(*progress: ChunkProgress, delivery: Delivery = TWO, state: PlanState = PlanState.RELEASED) -> PlanSnapshot:
    """As the ledger's view puts it together."""
    known = {one.chunk: one for one in progress}
    return ledgered(PLAN, state, tuple(by_chunk(PLAN, delivery, known).values()), delivery=delivery)


HALF = bucket(3, share(0, 20, 15), share(2, 50, 40, dead=1))
REST = bucket(4, share(0, 10, 0), share(1, 20, 19))


@pytest.mark.parametrize(
    ("progress", "left", "owed", "delivered", "filtered", "complete"),
    [
        ([], [3, 4], {0: 70, 1: 70}, 0, 0, False),
        ([HALF], [4], {0: 70, 1: 70}, 14, 55, False),
        ([REST], [3], {0: 70, 1: 70}, 11, 19, False),
        ([HALF, REST], [], {}, 25, 74, True),
        ([HALF, bucket(4)], [], {}, 14, 55, True),
        ([bucket(3), bucket(4)], [], {}, 0, 0, True),
        ([HALF, bucket(4, share(0, 10, may_repeat=10), delivered=0)], [4], {0: 70, 1: 70}, 24, 55, False),
    ],
)
def test_chunks_are_delivered_when_all_buckets_are(
    progress: list[ChunkProgress],
    left: list[int],
    owed: dict[int, int],
    delivered: int,
    filtered: int,
    complete: bool,
) -> None:
    now = found(*progress)
    proof = verify(now)

    assert list(unfinished(PLAN, TWO, now.progress)) == left
    assert lowest_undelivered(PLAN, now.progress) == {("orders", part): offset for part, offset in owed.items()}
    assert bool(undelivered(PLAN, now.progress)) is bool(owed)
    totals = proof.totals()
    assert (proof.delivered, totals["filtered"], proof.complete) == (delivered, filtered, complete)
    assert delivered_buckets(PLAN, TWO, now.progress) == 2 - len(left)
    decision = resume(Situation(now, 1))
    assert isinstance(decision, Replay)
    assert bool(decision.chunks) is bool(owed)
    document = plan_document(now, proof)
    assert (document["buckets"], document["buckets_done"], document["order"]) == (2, 2 - len(left), "none")


def test_what_was_lost_is_lost_once_whichever_bucket_tells_of_it() -> None:
    lost = (LostOffsets(70, 75, "the log start"),)
    one = bucket(3, BucketShare(0, 5, 0, 0, 50, lost=lost))
    two = bucket(4, BucketShare(0, 7, 0, 0, 70, lost=(*lost, LostOffsets(80, 81, "later"))))

    proof = verify(found(one, two))

    assert [(row.start, row.end) for row in proof.lost] == [(70, 75), (80, 81)]
    assert not proof.complete
    assert not proof.undelivered
    assert sum_shares([], 9) == BucketShare(9, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (ChunkResult(3, 0, 1, 70, 14, 55, 1), None),
        (ChunkResult(3, 0, 1, 70, 13, 55, 1), "bucket 0 [0, 1): 70 records were read, and 69"),
        (ChunkResult(4, 0, 1, 1, 1, 0, 0), "bucket 1 [0, 1): the worker went on to 1, and the ledger has 0"),
        (ChunkResult(5, 0, 1, 0, 0, 0, 0), "a worker tells of chunk 5"),
    ],
)
def test_what_a_worker_counted_must_fit(result: ChunkResult, sentence: str | None) -> None:
    disputed = verify(found(HALF), [result]).contradictions

    assert len(disputed) == (sentence is not None)
    assert all(text.startswith(sentence or "") for text in disputed)


def situation(now: PlanSnapshot) -> Situation:
    released = {TopicPartition("orders", part): Commit(120, 4, "") for part in (0, 1)}
    return Situation(now, 2, dict.fromkeys(released, ReleaseEvidence.RELEASED), released)


def test_a_cancel_moves_all_back_of_what_nothing_was_delivered() -> None:
    decision = cancel(situation(found()))

    assert isinstance(decision, MoveBack)
    assert [(move.partition, move.offset) for move in decision.moves] == [(0, 70), (1, 70)]
    assert not decision.reprocessed


@pytest.mark.parametrize(
    ("progress", "twice"),
    [
        ([HALF], [(0, 70, 100, "5 records delivered"), (1, 70, 120, "9 records delivered")]),
        # Nothing of partition 1 was in it: of that, nothing comes twice.
        ([REST], [(0, 70, 100, "10 records delivered"), (0, 100, 120, "1 record delivered")]),
        ([bucket(3, BucketShare(2, 0, 0, 0, 0, 7), delivered=0)], [(1, 70, 120, "up to 7 records handled")]),
    ],
)
def test_a_cancel_says_what_comes_twice(progress: list[ChunkProgress], twice: list[tuple[int, int, int, str]]) -> None:
    refused = cancel(situation(found(*progress)))
    decision = cancel(situation(found(*progress)), ["twice"])

    assert isinstance(refused, Refuse)
    assert refused.error.code == "twice"
    assert isinstance(decision, MoveBack)
    assert [(move.partition, move.offset) for move in decision.moves] == [(0, 70), (1, 70)]
    rows = [(row.partition, row.start, row.end, row.why) for row in decision.reprocessed]
    assert rows == [(*row[:3], f"{row[3]} by the replay") for row in twice]


def test_of_what_is_delivered_whole_nothing_is_moved_back() -> None:
    refused = cancel(situation(found(HALF, REST)))

    assert isinstance(refused, Refuse)
    assert refused.error.code == "delivered"


def test_the_view_of_the_ledger_puts_chunks_together() -> None:
    values: list[Value] = [PLAN, StateRecord(PlanState.RELEASED, 1, "me", 1), TWO, HALF, REST]
    items = [(offset, key_of(PLAN_ID, value).encode(), encode(value)) for offset, value in enumerate(values)]

    now = LedgerView().add(items).ledgered(PLAN_ID)
    half = LedgerView().add(items[:-1]).ledgered(PLAN_ID)

    assert now.delivery == TWO
    assert {number: one.delivered_to for number, one in now.progress.items()} == {0: 100, 1: 120, 2: 120, 3: 1, 4: 1}
    assert now.progress[3] == HALF
    assert {number: one.delivered_to for number, one in half.progress.items()} == {0: 70, 2: 70, 3: 1}
    assert [chunk.number for chunk in started_chunks(PLAN, half.progress)] == [0, 2]


@pytest.mark.parametrize(
    ("known", "progress", "wanted", "expected"),
    [
        (None, (), ReplayOptions("topic", {"topic": "copy"}, latest=True), "new"),
        (TO, (), ReplayOptions(), "kept"),
        (TO, (), ReplayOptions("topic", {"topic": "copy"}), "kept"),
        (TO, (), ReplayOptions("files", {"dir": "/x"}), "new"),
        # One with nothing in it was delivered: its number would count for another delivery's bucket.
        (TO, (bucket(3),), ReplayOptions("files", {"dir": "/x"}), "sink-set"),
        (TO, (bucket(3),), ReplayOptions(), "kept"),
        (Delivery("topic", Order.PARTITION, (), {"topic": "copy"}), (), ReplayOptions(latest=True), "new"),
        (
            Delivery("topic", Order.PARTITION, (), {"topic": "copy"}),
            (ChunkProgress(0, 80, 10, 0, 0, 10, 1, 1),),
            ReplayOptions(latest=True),
            "sink-set",
        ),
    ],
)
def test_that_only_the_newest_are_wanted_is_said_once(
    known: Delivery | None, progress: Sequence[ChunkProgress], wanted: ReplayOptions, expected: str
) -> None:
    now = ledgered(PLAN, PlanState.RELEASED, tuple(progress), delivery=known)
    if expected == "sink-set":
        with pytest.raises(Refused) as caught:
            delivery_of(now, wanted)
        assert caught.value.code == expected
        return

    delivery = delivery_of(now, wanted)

    assert delivery.buckets > 0
    assert (delivery == known) is (expected == "kept")


def test_a_bucket_that_had_nothing_is_begun() -> None:
    assert list(buckets_with_progress(PLAN, found(bucket(3)).progress)) == [3]
    assert list(buckets_with_progress(PLAN, {0: ChunkProgress(0, 70, 0, 0, 0, 0, 0, 0)})) == []
