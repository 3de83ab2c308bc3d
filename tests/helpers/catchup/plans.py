"""Plans and what belongs to them, as small as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.groups.catchup.model import (
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    ExplainedRange,
    GapRange,
    PlanHead,
    PlanSnapshot,
    PlanState,
    StateRecord,
)
from kgroup.groups.catchup.release_evidence import OffsetRewind
from kgroup.model.commit import Commit
from kgroup.model.records import LostOffsets
from kgroup.support.instants import rfc3339

NOW_MS = 1_700_000_000_000
ME = "me@here"

PLAN_ID = "cu-7f3a"
OWN = Commit(70, 3, "the app's own\x00")


def gap_range(
    partition: int = 0,
    start: int = 70,
    end: int = 120,
    before: Commit | None = OWN,
    *,
    topic: str = "orders",
    records: int | None = None,
    size: int | None = None,
    deadline_ms: int | None = None,
    maybe: int | None = None,
) -> GapRange:
    return GapRange(topic, partition, start, end, before, 4, "id", maybe, records, size, None, deadline_ms)


def rewind(start: int, at_ms: int = 1_000, *, deleted: bool = False) -> OffsetRewind:
    return OffsetRewind("orders", 0, start, 120, rfc3339(at_ms), at_ms, deleted)


def whole_chunks(ranges: Sequence[GapRange]) -> tuple[Chunk, ...]:
    """A chunk for each range."""
    full = [item for item in ranges if item.start < item.end]
    return tuple(Chunk(item.topic, item.partition, item.start, item.end, number) for number, item in enumerate(full))


def make_plan(
    *ranges: GapRange,
    chunks: tuple[Chunk, ...] | None = None,
    group: str | None = "orders-svc",
    abandoned: tuple[ExplainedRange, ...] = (),
) -> CatchupPlan:
    given = ranges or (gap_range(),)
    cut = whole_chunks(given) if chunks is None else chunks
    kind = None if group is None else "classic"
    return CatchupPlan(
        PLAN_ID, group, kind, "cluster", 1_000, "me@here", None, ("kgroup",), given, abandoned, chunks=cut
    )


def made(
    chunk: int, delivered_to: int, records: int = 0, *, may_repeat: int = 0, lost: tuple[LostOffsets, ...] = ()
) -> ChunkProgress:
    return ChunkProgress(chunk, delivered_to, records, 0, 0, 10 * records, 5, 1, lost, may_repeat)


def head_of(plan: CatchupPlan, state: PlanState = PlanState.RELEASED, offset: int = 3) -> PlanHead:
    return PlanHead(plan.id, plan.group, plan.who, plan.created_ms, plan.reason, offset, state)


def ledgered(
    plan: CatchupPlan,
    state: PlanState = PlanState.RELEASED,
    progress: Sequence[ChunkProgress] = (),
    *,
    delivery: Delivery | None = None,
    targets: Mapping[int, int] | None = None,
    expected: Mapping[int, int | None] | None = None,
) -> PlanSnapshot:
    """``targets`` and ``expected`` by partition, for CANCELLING."""
    record = StateRecord(
        state,
        10,
        "me@here",
        1,
        500,
        tuple(("orders", partition, offset) for partition, offset in (targets or {}).items()),
        tuple(("orders", partition, offset) for partition, offset in (expected or {}).items()),
    )
    return PlanSnapshot(plan, 3, record, None, delivery, {item.chunk: item for item in progress})
