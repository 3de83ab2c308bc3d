"""Verifies a plan: for each partition what was read, delivered, filtered and lost, in exact ranges. Pure.

Counts of offsets verify nothing, because compaction, aborted transactions and control records leave holes. A plan is
verified if the reader's position reached the end, the log start offset never passed the position, and every visible
record was delivered, filtered or dead-lettered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from kgroup.groups.catchup.delivered import delivered_to, undelivered_range
from kgroup.groups.catchup.model import (
    CatchupPlan,
    Chunk,
    ChunkProgress,
    ExplainedRange,
    GapRange,
    PlanSnapshot,
    PlanTotals,
    RangeVerification,
)
from kgroup.groups.catchup.release_evidence import OffsetRewind, move_back_target
from kgroup.model.records import OffsetRange, merged
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import Bytes, Count

_NOT_VERIFIED = "not verified: "


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """A worker's result for the part [start, position) of a chunk that it read, counted apart from the ledger.

    The reader returned ``visible`` records. Of them the sink received ``delivered``, ``filtered`` were not wanted, and
    ``dead`` are in the dead-letter topic or named.
    """

    chunk: int
    start: int
    position: int
    visible: int
    delivered: int
    filtered: int
    dead: int


class CatchupTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a plan; what is None was not verified, or is unknown."""

    partition_count: Annotated[Count, "Number of ranges."]
    offset_count: Annotated[Count, "Number of offsets."]
    pending_offset_count: Annotated[
        Count | None, "Offsets of an open plan that are not delivered yet; 0 for a closed plan."
    ] = None
    estimated_record_count: Annotated[Count | None, "Estimated number of records."] = None
    estimated_bytes: Annotated[Bytes | None, "Estimated size."] = None
    chunk_count: Annotated[Count, "Number of chunks."]
    read_to_end_count: Annotated[Count | None, "Ranges whose offsets were all read."] = None
    record_count: Annotated[Count | None, "Records that were read."] = None
    delivered_count: Annotated[Count | None, "Records that were delivered."] = None
    filtered_count: Annotated[Count | None, "Records that were filtered."] = None
    dead_lettered_count: Annotated[Count | None, "Records that were dead-lettered."] = None
    bytes: Annotated[Bytes | None, "Size of what was read."] = None
    lost_offset_count: Annotated[Count | None, "Offsets that could not be read."] = None
    undelivered_offset_count: Annotated[Count | None, "Offsets that are not delivered."] = None
    possible_duplicate_count: Annotated[Count | None, "Records that may be delivered twice."] = None
    finished_chunk_count: Annotated[Count | None, "Chunks that are delivered to their end."] = None
    verified: Annotated[bool | None, "Whether every record is delivered, filtered or dead-lettered."] = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The verification of a plan, by topic, partition, offset.

    ``rewinds`` are ranges that the group reads too, because its offsets were moved back after the release.
    """

    plan_id: str
    partitions: tuple[RangeVerification, ...]
    rewinds: tuple[OffsetRewind, ...]
    contradictions: tuple[str, ...] = ()
    """Contradictions that belong to no range."""

    def __repr__(self) -> str:
        """``3 chunks, 1,200 records: done``: what a notebook shows of it, as all of its fields fill a cell."""
        totals = self.totals()
        counts = [(totals.chunk_count, "chunk"), (self.delivered, "record")]
        if totals.possible_duplicate_count:
            counts.append((totals.possible_duplicate_count, "possible duplicate"))
        shown = ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
        return f"{shown}: {'done' if self.complete else 'not verified'}"

    @property
    def records(self) -> int:
        """Records that were visible."""
        return sum(item.records for item in self.partitions)

    @property
    def delivered(self) -> int:
        """Records that the sink has."""
        return sum(item.delivered for item in self.partitions)

    @property
    def lost(self) -> tuple[ExplainedRange, ...]:
        """All ranges that could not be read."""
        return tuple(row for item in self.partitions for row in item.lost)

    @property
    def undelivered(self) -> tuple[OffsetRange, ...]:
        """All ranges that are still pending."""
        return tuple(row for item in self.partitions for row in item.undelivered)

    @property
    def complete(self) -> bool:
        """Whether the plan is verified; otherwise the command exits 8."""
        return not self.contradictions and all(item.complete for item in self.partitions)

    def totals(self) -> CatchupTotals:
        """The sums, as far as the ledger's progress shows them."""
        return CatchupTotals(
            partition_count=len(self.partitions),
            offset_count=sum(item.offsets for item in self.partitions),
            chunk_count=sum(item.chunks for item in self.partitions),
            read_to_end_count=sum(item.read_to_end for item in self.partitions),
            record_count=self.records,
            delivered_count=self.delivered,
            filtered_count=sum(item.filtered for item in self.partitions),
            dead_lettered_count=sum(item.dead for item in self.partitions),
            bytes=sum(item.size for item in self.partitions),
            lost_offset_count=sum(row.offsets for row in self.lost),
            undelivered_offset_count=sum(row.offsets for row in self.undelivered),
            possible_duplicate_count=sum(item.may_repeat for item in self.partitions),
            finished_chunk_count=sum(item.finished_chunks for item in self.partitions),
            verified=self.complete,
        )


def verify(
    ledgered: PlanSnapshot,
    results: Iterable[ChunkResult] = (),
    *,
    log_starts: Mapping[TopicPartition, int] | None = None,
    rewinds: Iterable[OffsetRewind] = (),
) -> Verification:
    """The verification of a plan by the ledger, in any state of the plan.

    ``results`` are of this run's workers; those of earlier runs are only in the ledger. ``log_starts`` are the current
    log start offsets: undelivered offsets below them are lost. ``rewinds`` are from ``release_evidence.find_rewinds``.
    A plan with totals is verified by them alone.
    """
    plan, progress, totals = ledgered.plan, ledgered.progress, ledgered.totals
    note = ledgered.state.note or ""
    noted = (note.removeprefix(_NOT_VERIFIED),) if note.startswith(_NOT_VERIFIED) else ()
    if totals is not None:
        return Verification(plan.id, totals.ranges, tuple(rewinds), noted)
    disputes: dict[int, list[str]] = {}
    by_number = {chunk.number: chunk for chunk in plan.chunks}
    for result in results:
        chunk = by_number.get(result.chunk)
        disputes.setdefault(result.chunk, []).extend(_disputed(result, chunk, plan.id, progress))
    by_partition: dict[TopicPartition, list[Chunk]] = {}
    for chunk in plan.chunks:
        by_partition.setdefault(chunk.tp, []).append(chunk)
    proofs = []
    for item in sorted(plan.ranges, key=lambda one: (one.tp, one.start)):
        chunks = [chunk for chunk in by_partition.get(item.tp, ()) if item.start <= chunk.start < item.end]
        sentences = tuple(sentence for chunk in chunks for sentence in disputes.pop(chunk.number, ()))
        proofs.append(_of_range(item, chunks, progress, sentences, (log_starts or {}).get(item.tp, 0)))
    nowhere = tuple(sentence for some in disputes.values() for sentence in some)
    return Verification(plan.id, tuple(proofs), tuple(rewinds), (*nowhere, *noted))


def totals_of(ledgered: PlanSnapshot) -> PlanTotals:
    """What the ledger keeps of the chunks of a plan that ends; ``verify`` has the same result with it."""
    return PlanTotals(verify(ledgered).partitions)


def _miscounted(records: int, filtered: int, dead: int) -> tuple[str, ...]:
    if records >= filtered + dead:
        return ()
    return (f"{records} records were read, but {filtered + dead} were filtered or dead-lettered",)


def contradiction_note(verification: Verification) -> str | None:
    """The note for the ledger if results contradict each other; None: they do not.

    Only the run that counted knows of the contradiction. Without the note, a later run would verify the plan.
    """
    of_ranges = [f"{row.tp} {sentence}" for row in verification.partitions for sentence in row.contradictions]
    return (
        _NOT_VERIFIED + "; ".join((*verification.contradictions, *of_ranges))
        if of_ranges or verification.contradictions
        else None
    )


def _of_range(
    item: GapRange,
    chunks: list[Chunk],
    progress: Mapping[int, ChunkProgress],
    disputed: tuple[str, ...],
    log_start: int,
) -> RangeVerification:
    tp = item.tp
    pending = merged(undelivered_range(chunk, progress) for chunk in chunks)
    known = [progress[chunk.number] for chunk in chunks if chunk.number in progress]
    passed = [OffsetRange(*tp, row.start, min(row.end, log_start)) for row in pending if row.start < log_start]
    left = [OffsetRange(*tp, max(row.start, log_start), row.end) for row in pending if row.end > log_start]
    lost = [(row.start, row.end, row.why) for one in known for row in one.lost]
    lost += [(row.start, row.end, f"the log starts at {log_start}, and they were not delivered") for row in passed]
    records, filtered, dead = (sum(getattr(one, name) for one in known) for name in ("records", "filtered", "dead"))
    return RangeVerification(
        *tp,
        start=item.start,
        end=item.end,
        delivered_to=pending[0].start if pending else item.end,
        records=records,
        filtered=filtered,
        dead=dead,
        size=sum(one.size for one in known),
        may_repeat=sum(one.may_repeat for one in known),
        lost=tuple(_merged(tp, lost)),
        undelivered=tuple(left),
        contradictions=disputed + _miscounted(records, filtered, dead),
        chunks=len(chunks),
        finished_chunks=sum(delivered_to(chunk, progress) >= chunk.end for chunk in chunks),
    )


def _merged(tp: TopicPartition, lost: Iterable[tuple[int, int, str]]) -> Iterator[ExplainedRange]:
    """The same offsets in as few rows as possible; each row has one reason, and no offset is in two rows."""
    by_reason: dict[str, list[OffsetRange]] = {}
    seen_to = 0
    for start, end, why in sorted(lost):
        by_reason.setdefault(why, []).append(OffsetRange(*tp, max(start, seen_to), end))
        seen_to = max(seen_to, end)
    rows = [ExplainedRange(*tp, row.start, row.end, why) for why, some in by_reason.items() for row in merged(some)]
    yield from sorted(rows, key=lambda row: row.start)


def _disputed(
    result: ChunkResult, chunk: Chunk | None, plan_id: str, progress: Mapping[int, ChunkProgress]
) -> Iterator[str]:
    """Contradictions in a worker's counts, and between them and its progress in the ledger."""
    if chunk is None:
        yield f"a worker reported chunk {result.chunk}, which is not in {plan_id}"
        return
    counted = result.delivered + result.filtered + result.dead
    where = f"[{result.start}, {result.position})"
    if counted != result.visible:
        yield f"{where}: {result.visible} records were read, but {counted} were delivered, filtered or dead-lettered"
    ledger = delivered_to(chunk, progress)
    if result.position > ledger:
        yield f"{where}: the worker read to {result.position}, but the ledger has {ledger}"


def deleted_before(plan: CatchupPlan) -> tuple[ExplainedRange, ...]:
    """Offsets from the group's commit to the log start offset that retention had deleted before the plan was made."""
    rows = (_gone(plan, item) for item in plan.ranges)
    return tuple(row for row in rows if row is not None)


def _gone(plan: CatchupPlan, item: GapRange) -> ExplainedRange | None:
    first = move_back_target(plan, item)
    if item.before is None or item.before.offset >= first:
        return None
    return ExplainedRange(*item.tp, item.before.offset, first, f"the log started at {first}")
