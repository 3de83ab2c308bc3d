"""The retention left: the time until retention deletes the first unread record."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.lag.evidence import Retention


@dataclass(frozen=True, slots=True)
class Unread:
    """The unread part of a log.

    ``offsets`` is the number of unread offsets, ``log_offsets`` that of the whole log. ``first_ms`` is the timestamp
    of the first unread record, ``incoming`` the arriving offsets per second; None if unknown.
    """

    offsets: int
    log_offsets: int
    first_ms: int | None
    incoming: float | None


@dataclass(frozen=True, slots=True)
class Headroom:
    """The time until retention may delete the first unread record; 0: at any moment, None: unknown.

    It is the earliest moment: a broker deletes whole segments, and checks every five minutes. ``by`` is ``time`` or
    ``size``. ``endless`` is whether retention never deletes records here. ``compacted`` is whether compaction may
    replace unread records by newer ones with the same key.
    """

    left_ms: int | None
    by: str | None = None
    endless: bool = False
    compacted: bool = False


def headroom(retention: Retention, unread: Unread, now_ms: int) -> Headroom:
    """The retention left of a partition with unread records.

    Example: ``retention.ms`` 12 h and a first unread record 38 m old leave 11 h 22 m. By size it is the estimated time
    until the unread records alone reach ``retention.bytes`` at the present rate, with records of equal size.
    """
    if not retention.deletes:
        return Headroom(None, endless=True, compacted=retention.compacted)
    candidates = []
    by_time = by_size = None
    if retention.time_ms is not None and unread.first_ms is not None:
        by_time = max(0, unread.first_ms + retention.time_ms - now_ms)
        candidates.append((by_time, "time"))
    if retention.limit_bytes is not None:
        by_size = _until_full_ms(retention, unread)
        if by_size is not None:
            candidates.append((by_size, "size"))
    if not candidates:
        endless = retention.time_ms is None and retention.limit_bytes is None
        return Headroom(None, endless=endless, compacted=retention.compacted)
    left_ms, by = min(candidates)
    return Headroom(left_ms, by, compacted=retention.compacted)


def _until_full_ms(retention: Retention, unread: Unread) -> int | None:
    if retention.size_bytes is None or retention.limit_bytes is None or unread.log_offsets <= 0:
        return None
    each = retention.size_bytes / unread.log_offsets
    free = retention.limit_bytes - each * unread.offsets
    if free <= 0:
        return 0
    grows = each * (unread.incoming or 0)
    return round(free * 1000 / grows) if grows > 0 else None
