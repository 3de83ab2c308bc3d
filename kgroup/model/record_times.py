"""Which timestamps of records are times. The clock of a producer may be wrong, and so may the unit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural

_YEAR_MS = 31_536_000_000
_FIRST_MS = _YEAR_MS
"""The year 1970 is no time of a record: it is a clock that was not set, or seconds, which until 2969 are of 1970 too.

Later years may be true: records that are copied from elsewhere have the times of their events, however old.
"""

_AHEAD_MS = 60_000
"""By so much a producer's clock may be ahead: its records seem to be new for as long, and no bound is shorter."""

_NAMED = 2
_UNITS = (("seconds", 1000, 1), ("microseconds", 1, 1000), ("nanoseconds", 1, 1_000_000))


def usable_ms(timestamp_ms: int | None, now_ms: int) -> int | None:
    """The timestamp if an age follows from it; None if it is missing, of 1970, or over a minute in the future."""
    return timestamp_ms if timestamp_ms is not None and _FIRST_MS <= timestamp_ms <= now_ms + _AHEAD_MS else None


def unusable_words(times_ms: Mapping[TopicPartition, int], now_ms: int) -> str:
    """A line about timestamps that are not usable, one of each partition; negative: the records have none.

    ``timestamps of orders:0 are of 1970 (1970-01-21T16:33:20Z, probably in seconds): the producer's clock``.
    """
    items = sorted(times_ms.items())
    named = " and ".join(f"of {tp} are {_fault(at_ms, now_ms)}" for tp, at_ms in items[:_NAMED])
    more = f" (and {plural(len(items) - _NAMED, 'more partition')})" if len(items) > _NAMED else ""
    return f"timestamps {named}{more}: the producer's clock"


def _fault(timestamp_ms: int, now_ms: int) -> str:
    if timestamp_ms < 0:
        return "missing"
    ahead_ms, time = timestamp_ms - now_ms, rfc3339(timestamp_ms, "seconds")
    far = "in the far future" if time is None else f"{format_duration(ahead_ms // 1000)} in the future"
    units = (unit for unit, times, by in _UNITS if abs(timestamp_ms * times // by - now_ms) < _YEAR_MS)
    notes = ", ".join((time or f"{timestamp_ms}", *(f"probably in {unit}" for unit in units)))
    return f"{far if ahead_ms > 0 else 'of 1970'} ({notes})"
