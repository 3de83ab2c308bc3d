"""How long a replay still takes: until its slowest part ends, not as long as the mean of all parts. Pure.

For Spark's workers: imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable


def time_left_s(parts: Iterable[tuple[float, float]]) -> float | None:
    """Seconds until all parts have ended; each is what is left of it and how much it does a second.

    Parts are what one worker does alone: tasks, or partitions. A part that waits or has just begun is taken to be as
    fast as the mean of those that move. None: nothing moves. 100 left at 50/s, 1,000 left at 10/s: 100 s, not 18.
    """
    unfinished = [(left, per_s) for left, per_s in parts if left > 0]
    if not unfinished:
        return 0.0
    moving = [per_s for _, per_s in unfinished if per_s > 0]
    if not moving:
        return None
    usual, whole = sum(moving) / len(moving), sum(left for left, _ in unfinished)
    return max(whole / sum(moving), *(left / (per_s if per_s > 0 else usual) for left, per_s in unfinished))
