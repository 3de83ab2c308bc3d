"""What the pauses between the batches of a streaming query show."""

from __future__ import annotations

from itertools import pairwise

from kgroup.model.streaming_query import StreamingQuery

_REPEATED = 3
"""A pause that came so often is usual; one that came once or twice may have been an outage."""
_GRACE_PERCENT = 150


def usual_silence_ms(query: StreamingQuery) -> int | None:
    """How long it may be silent by what it did before, or by what its context says of its job; None: not known.

    It is half as long again as the third longest pause between two batches, or as the time between two runs of its job.
    """
    done = [batch.done_ms for batch in query.batches if batch.done_ms is not None]
    pauses = sorted((later - earlier for earlier, later in pairwise(done)), reverse=True)
    usual = [*pauses[_REPEATED - 1 : _REPEATED], *([] if query.every_s is None else [round(query.every_s * 1000)])]
    return max(usual) * _GRACE_PERCENT // 100 if usual else None
