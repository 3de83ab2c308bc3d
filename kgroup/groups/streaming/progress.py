"""What the batches of a streaming query show, in the form in which the log of a group shows its commits."""

from __future__ import annotations

from itertools import pairwise

from kgroup.model.group_log import CommitWritten, ScannedRange, TransactionEnd
from kgroup.model.streaming_query import QueryBatch, StreamingQuery

_REPEATED = 3
"""A pause that came so often is usual; one that came once or twice may have been an outage."""
_GRACE_PERCENT = 150


def commits_of(query: StreamingQuery) -> tuple[CommitWritten, ...]:
    """Its done batches as commits of their ends, oldest first; the number of the batch is the offset of the record."""
    return tuple(commit for batch in query.batches for commit in _commits(batch))


def reach_of(query: StreamingQuery) -> ScannedRange:
    """How far back its batches are known: no batch is missing since the first that its checkpoint keeps."""
    if query.done is None:
        return ScannedRange(0, 0, None, None, to_log_start=False)
    first = query.batches[0]
    return ScannedRange(first.number, query.done.number + 1, first.done_ms, first.number, to_log_start=False)


def usual_silence_ms(query: StreamingQuery) -> int | None:
    """How long it may be silent by what it did before, or by what its context says of its job; None: not known.

    It is half as long again as the third longest pause between two batches, or as the time between two runs of its job.
    """
    done = [batch.done_ms for batch in query.batches if batch.done_ms is not None]
    pauses = sorted((later - earlier for earlier, later in pairwise(done)), reverse=True)
    usual = [*pauses[_REPEATED - 1 : _REPEATED], *([] if query.every_s is None else [round(query.every_s * 1000)])]
    return max(usual) * _GRACE_PERCENT // 100 if usual else None


def _commits(batch: QueryBatch) -> tuple[CommitWritten, ...]:
    return tuple(
        CommitWritten(
            log_offset=batch.number,
            at_ms=batch.done_ms or 0,
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
            metadata="",
            topic_id=None,
            producer_id=None,
            ending=TransactionEnd.PLAIN,
        )
        for tp, offset in batch.ends.items()
    )
