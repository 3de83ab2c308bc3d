"""What is proved of a plan, what is still owed, what is lost; and the same in JSON."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.chunks import cut_into_chunks
from kgroup.groups.catchup.delivered import (
    delivered,
    lowest_undelivered,
    next_deadline_ms,
    started_chunks,
    undelivered,
    unfinished,
)
from kgroup.groups.catchup.documents import catchup_plan, planned_catchup
from kgroup.groups.catchup.gap import Gap, GapInput, LastActivity, NotMoved
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Delivery, ExplainedRange, GapRange, Order, PlanState, Task
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.results import StartPlan
from kgroup.groups.catchup.risks import ReplayPace, Risk, RiskLevel
from kgroup.groups.catchup.verification import (
    CatchupTotals,
    ChunkResult,
    contradiction_note,
    deleted_before,
    totals_of,
    verify,
)
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_line import plain
from tests.helpers.catchup.plans import NOW_MS, gap_range, ledgered, made, make_plan, rewind
from tests.helpers.for_each import for_each

HALVES = (Chunk("orders", 0, 70, 100, 0), Chunk("orders", 0, 100, 120, 1))
PLAN = make_plan(chunks=HALVES)


def spans(rows: tuple[OffsetRange, ...] | list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(row.partition, row.start, row.end) for row in rows]


@pytest.mark.parametrize(
    ("progress", "done", "left", "lowest"),
    [
        ([], [], [(0, 70, 120)], 70),
        ([made(0, 70)], [], [(0, 70, 120)], 70),
        ([made(0, 90)], [(0, 70, 90)], [(0, 90, 120)], 90),
        ([made(0, 100)], [(0, 70, 100)], [(0, 100, 120)], 100),
        ([made(1, 120)], [(0, 100, 120)], [(0, 70, 100)], 70),
        ([made(0, 90), made(1, 110)], [(0, 70, 90), (0, 100, 110)], [(0, 90, 100), (0, 110, 120)], 90),
        ([made(0, 100), made(1, 120)], [(0, 70, 120)], [], None),
        # What no chunk can have.
        ([made(0, 5), made(1, 500), made(9, 80)], [(0, 100, 120)], [(0, 70, 100)], 70),
    ],
)
def test_what_is_delivered_and_what_is_owed(
    progress: list[ChunkProgress],
    done: list[tuple[int, int, int]],
    left: list[tuple[int, int, int]],
    lowest: int | None,
) -> None:
    known = {item.chunk: item for item in progress}

    assert spans(delivered(PLAN, known)) == done
    assert spans(undelivered(PLAN, known)) == left
    assert lowest_undelivered(PLAN, known).get(TopicPartition("orders", 0)) == lowest
    assert [chunk.number for chunk in unfinished(PLAN, known)] == [
        chunk.number for chunk in HALVES if any(chunk.start < end and start < chunk.end for _, start, end in left)
    ]


@pytest.mark.parametrize(
    ("progress", "chunks"),
    [
        ([], []),
        ([made(0, 70)], []),
        ([made(0, 71)], [0]),
        ([made(0, 70, may_repeat=1)], [0]),
        ([made(0, 70, 1)], [0]),
        ([made(1, 120, 0)], [1]),
    ],
)
def test_which_chunks_may_have_been_handed_over(progress: list[ChunkProgress], chunks: list[int]) -> None:
    assert [chunk.number for chunk in started_chunks(PLAN, {item.chunk: item for item in progress})] == chunks


def test_a_plan_that_is_delivered() -> None:
    first = replace(made(0, 100, 30), filtered=4, dead=1)
    proof = verify(ledgered(PLAN, progress=[first, made(1, 120, 18)]))

    (item,) = proof.partitions
    assert (item.read_to_end, item.complete, item.delivered_to) == (True, True, 120)
    assert (item.records, item.delivered, item.filtered, item.dead) == (48, 43, 4, 1)
    assert proof.complete
    assert proof.totals() == CatchupTotals(
        partition_count=1,
        offset_count=50,
        read_to_end_count=1,
        record_count=48,
        delivered_count=43,
        filtered_count=4,
        dead_lettered_count=1,
        bytes=480,
        lost_offset_count=0,
        undelivered_offset_count=0,
        possible_duplicate_count=0,
        chunk_count=2,
        finished_chunk_count=2,
        verified=True,
    )


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ([made(0, 100, 1_000), made(1, 120, 200)], "2 chunks, 1,200 records: done"),
        ([made(0, 100, 1), made(1, 120, may_repeat=20)], "2 chunks, 1 record, 20 possible duplicates: done"),
        ([made(0, 100, 30)], "2 chunks, 30 records: not verified"),
    ],
)
def test_a_notebook_shows_a_line(progress: list[ChunkProgress], shown: str) -> None:
    assert repr(verify(ledgered(PLAN, progress=progress))) == shown


def test_a_plan_of_which_a_part_is_owed() -> None:
    proof = verify(ledgered(PLAN, progress=[made(0, 90, 20)]))

    (item,) = proof.partitions
    assert (item.read_to_end, item.complete, item.delivered_to, item.finished_chunks) == (False, False, 90, 0)
    assert spans(proof.undelivered) == [(0, 90, 120)]
    assert not proof.complete


def test_what_was_lost_is_named_in_as_few_rows_as_can_be() -> None:
    gone, other = "log start passed them", "the topic was made anew"
    progress = [
        made(0, 100, lost=(LostOffsets(70, 80, gone), LostOffsets(80, 85, gone), LostOffsets(90, 100, gone))),
        made(1, 120, lost=(LostOffsets(95, 105, gone), LostOffsets(105, 110, other), LostOffsets(108, 112, gone))),
    ]

    proof = verify(ledgered(PLAN, progress=progress))

    assert proof.lost == (
        ExplainedRange("orders", 0, 70, 85, gone),
        ExplainedRange("orders", 0, 90, 105, gone),
        ExplainedRange("orders", 0, 105, 110, other),
        ExplainedRange("orders", 0, 110, 112, gone),
    )
    assert not proof.complete
    assert proof.partitions[0].read_to_end
    assert proof.totals().lost_offset_count == 37


def test_what_the_log_start_has_passed_is_not_owed_any_more() -> None:
    proof = verify(ledgered(PLAN, progress=[made(0, 80, 10)]), log_starts={TopicPartition("orders", 0): 105})

    why = "the log starts at 105, and they were not delivered"
    assert proof.lost == (ExplainedRange("orders", 0, 80, 105, why),)
    assert spans(proof.undelivered) == [(0, 105, 120)]
    everything = verify(ledgered(PLAN), log_starts={TopicPartition("orders", 0): 500})
    assert [(row.start, row.end) for row in everything.lost] == [(70, 120)]
    assert everything.undelivered == ()
    assert not everything.partitions[0].read_to_end


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (ChunkResult(0, 70, 100, 30, 25, 4, 1), None),
        (ChunkResult(0, 90, 100, 10, 10, 0, 0), None),
        (ChunkResult(0, 70, 90, 20, 20, 0, 0), None),
        (ChunkResult(0, 70, 100, 30, 29, 0, 0), "[70, 100): 30 records were read, but 29 were delivered"),
        (ChunkResult(1, 100, 120, 20, 20, 0, 0), "read to 120, but the ledger has 110"),
        (ChunkResult(7, 0, 1, 0, 0, 0, 0), "chunk 7, which is not in cu-7f3a"),
    ],
)
def test_what_workers_say_has_to_fit(result: ChunkResult, says: str | None) -> None:
    proof = verify(ledgered(PLAN, progress=[made(0, 100, 30), made(1, 110, 10)]), [result])

    disputed = [*proof.contradictions, *proof.partitions[0].contradictions]
    assert len(disputed) == (0 if says is None else 1)
    assert all(says is not None and says in sentence for sentence in disputed)


@pytest.mark.parametrize("chunk", [0, 7])
def test_what_does_not_fit_is_not_proved(chunk: int) -> None:
    whole = ledgered(PLAN, progress=[made(0, 100, 30), made(1, 120, 10)])

    assert verify(whole).complete
    assert not verify(whole, [ChunkResult(chunk, 70, 100, 30, 29, 0, 0)]).complete
    assert not verify(ledgered(PLAN, progress=[replace(made(0, 100, 1), dead=2), made(1, 120)])).complete


@pytest.mark.parametrize("chunk", [0, 7])
def test_what_did_not_fit_once_is_not_proved_by_a_later_run(chunk: int) -> None:
    whole = ledgered(PLAN, progress=[made(0, 100, 30), made(1, 120, 10)])
    note = contradiction_note(verify(whole, [ChunkResult(chunk, 70, 100, 30, 29, 0, 0)]))
    assert note is not None
    assert note.startswith("not verified: ")

    later = verify(replace(whole, state=replace(whole.state, note=note)))

    assert not later.complete
    assert contradiction_note(later) == note
    assert contradiction_note(verify(whole)) is None
    assert verify(replace(whole, state=replace(whole.state, note="something else"))).complete


def test_two_ranges_of_one_partition_are_two_rows() -> None:
    plan = make_plan(gap_range(0, 200, 300, None), gap_range(0, 70, 120, None), gap_range(1, 5, 5), group=None)

    proof = verify(ledgered(plan, progress=[made(0, 300, 100)]))

    assert [(item.partition, item.start, item.complete, item.records) for item in proof.partitions] == [
        (0, 70, False, 0),
        (0, 200, True, 100),
        (1, 5, True, 0),
    ]


def test_records_that_come_twice_are_a_row_and_no_loss() -> None:
    row = rewind(90)

    proof = verify(ledgered(PLAN, progress=[made(0, 100), made(1, 120)]), rewinds=[row])

    assert proof.rewinds == (row,)
    assert proof.complete


@for_each("seed", range(40))
def test_delivered_owed_and_lost_make_up_the_gap(seed: int) -> None:
    pick = random.Random(seed)
    ranges = [
        gap_range(number, start := pick.randrange(10**6), start + pick.randrange(3_000_000)) for number in range(9)
    ]
    plan = make_plan(*ranges, chunks=cut_into_chunks(ranges, parallelism=4))
    progress = [made(c.number, pick.choice([c.start, c.end, pick.randint(c.start, c.end)])) for c in plan.chunks]
    known = ledgered(plan, progress=[item for item in progress if pick.random() < 0.8])
    starts = {item.tp: pick.randrange(4_000_000) for item in ranges if pick.random() < 0.5}

    proof = verify(known, log_starts=starts)

    done = sum(row.offsets for row in delivered(plan, known.progress))
    totals = proof.totals()
    lost, left = totals.lost_offset_count or 0, totals.undelivered_offset_count or 0
    assert done + lost + left == totals.offset_count == sum(i.end - i.start for i in ranges)
    assert proof.complete == (lost == left == 0)


@for_each("seed", range(40))
def test_totals_verify_a_plan_without_its_chunks(seed: int) -> None:
    pick = random.Random(seed)
    ranges = [
        gap_range(number // 2, start := number % 2 * 5_000_000 + pick.randrange(10**6), start + pick.randrange(10**6))
        for number in range(8)
    ]
    pick.shuffle(ranges)
    plan = make_plan(*ranges, chunks=cut_into_chunks(ranges, parallelism=4))

    def of_chunk(chunk: Chunk) -> ChunkProgress:
        to = pick.choice([chunk.start, chunk.end, pick.randint(chunk.start, chunk.end)])
        records, filtered, dead, size, may_repeat = (pick.randrange(9) for _ in range(5))
        lost = [LostOffsets(chunk.start, to, pick.choice("ab"))] if pick.random() < 0.3 else []
        return ChunkProgress(chunk.number, to, records, filtered, dead, size, 5, 1, tuple(lost), may_repeat)

    known = ledgered(plan, PlanState.DONE, [of_chunk(chunk) for chunk in plan.chunks if pick.random() < 0.8])
    known = replace(known, state=replace(known.state, note=pick.choice([None, "lost: so", "not verified: so"])))

    brief = replace(known, plan=replace(plan, chunks=()), progress={}, totals=totals_of(known))

    assert verify(brief) == verify(known)


def test_what_was_deleted_before_the_plan_is_named_to_the_end() -> None:
    plan = make_plan(
        gap_range(0, 90),
        gap_range(1, 90),
        gap_range(2, 70),
        gap_range(3, 5, 120, None),
        abandoned=(ExplainedRange("orders", 0, 80, 90, "skip"), ExplainedRange("orders", 1, 70, 90, "skip")),
    )

    assert deleted_before(plan) == (ExplainedRange("orders", 0, 70, 80, "the log started at 80"),)


# JSON


def planned(item: GapRange, risks: tuple[Risk, ...] = (), not_moved: tuple[NotMoved, ...] = ()) -> StartPlan:
    gap = GapInput(Gap("orders-svc", "classic", (item,), (), (), not_moved), {}, LastActivity())
    return StartPlan(None, gap, HALVES, risks, (), (), ReplayPace(None), False, NOW_MS, (), "topic copy")


def test_what_is_not_known_yet_is_null() -> None:
    risk, row = Risk(RiskLevel.NOTE, "skew", "so"), NotMoved("a", 1, "left", "why")
    start = planned(gap_range(records=50, size=500), (risk,), (row,))
    known = ledgered(PLAN, progress=[made(0, 90, 20)], delivery=Delivery("topic", Order.KEY, (Task(0, (0, 1)),), {}))
    state = VerifiedPlan(known, verify(known), NOW_MS)

    dry, begun, shown = planned_catchup(start), catchup_plan(state, start), catchup_plan(state)

    assert (dry.plan_id, dry.state, dry.totals.delivered_count) == (None, None, None)
    assert (begun.plan_id, begun.totals.delivered_count, begun.ranges[0].lost) == ("cu-7f3a", None, None)
    assert (shown.totals.delivered_count, shown.ranges[0].lost, shown.not_moved, shown.risks) == (20, (), (), ())
    assert dry.not_moved == begun.not_moved == (row,)
    assert dry.risks == begun.risks == (risk,)
    assert (shown.plan_id, shown.state, shown.sink, shown.order) == ("cu-7f3a", "released", "topic", "key")


def test_the_fields_of_a_range() -> None:
    dry = plain(planned_catchup(planned(gap_range(records=50, size=500, maybe=101, deadline_ms=1_795_832_390_000))))

    (row,) = dry["ranges"]
    assert {name: value for name, value in row.items() if value is not None} == {
        "topic": "orders",
        "partition": 0,
        "old_offset": 70,
        "new_offset": 120,
        "start": 70,
        "end": 120,
        "estimated_record_count": 50,
        "estimated_bytes": 500,
        "maybe_processed_until": 101,
        "retention_deadline_at": "2026-11-28T02:19:50.000Z",
        "retention_deadline_at_ms": 1_795_832_390_000,
    }
    assert {name: value for name, value in dry["totals"].items() if value is not None} == {
        "partition_count": 1,
        "offset_count": 50,
        "estimated_record_count": 50,
        "estimated_bytes": 500,
        "chunk_count": 2,
    }


def test_what_was_delivered_lost_and_doubled_is_in_it() -> None:
    known = ledgered(PLAN, progress=[made(0, 90, 20, lost=(LostOffsets(70, 75, "gone"),))])
    shown = catchup_plan(VerifiedPlan(known, verify(known, rewinds=[rewind(90)]), NOW_MS))

    (row,) = shown.ranges
    assert (row.delivered_to, row.delivered_count, row.verified, row.finished_chunk_count) == (90, 20, False, 0)
    assert row.undelivered == (OffsetRange("orders", 0, 90, 120),)
    assert row.lost == (ExplainedRange("orders", 0, 70, 75, "gone"),)
    assert [plain(each) for each in shown.rewinds] == [
        {
            "topic": "orders",
            "partition": 0,
            "start": 90,
            "end": 120,
            "rewound_at": "1970-01-01T00:00:01.000Z",
            "rewound_at_ms": 1_000,
            "commit_deleted": False,
        }
    ]


def test_the_next_deadline_is_that_of_what_is_still_owed() -> None:
    plan = make_plan(gap_range(0, deadline_ms=100), gap_range(1, deadline_ms=200), gap_range(2))

    assert next_deadline_ms(ledgered(plan)) == 100
    assert next_deadline_ms(ledgered(plan, progress=[made(0, 120)])) == 200
    assert next_deadline_ms(ledgered(plan, PlanState.DONE, [made(0, 120), made(1, 120)])) is None
