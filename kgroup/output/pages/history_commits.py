"""Offsets over time in a history: each jump, who made it, the rebalance near it; and the rate of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kgroup.groups.history.offset_jumps import CommitAuthor, CommitMove, CommitReport, CommitTrend, OffsetJump
from kgroup.groups.history.summary import GroupHistory
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Styled, Table, Text
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339, utc_datetime
from kgroup.support.units import human_count, plural

_ROWS = 20
_SAME_MS = 1_000

COMMITS_HEADER = (
    "group",
    "at",
    "move",
    "by",
    "who",
    "topic",
    "partition",
    "old",
    "new",
    "during",
    "beside_rebalance_ms",
)

_JUMP_COLUMNS = (
    Column("AT (Z)"),
    Column("WHO", fold=True),
    Column("PARTITIONS", right=True),
    Column("JUMP"),
    Column("BESIDE", drop=1),
)
_TREND_COLUMNS = (
    Column("PARTITION", fold=True),
    Column("COMMITS", right=True),
    Column("FIRST", right=True, drop=3),
    Column("LAST", right=True),
    Column("RATE", right=True),
    Column("RATES", drop=1),
    Column("BACK", right=True),
    Column("FORWARD", right=True),
    Column("SAME", right=True, drop=2),
)


def commits_blocks(history: GroupHistory, commits: CommitReport, verbose: bool) -> Iterator[Block]:
    """Jumps, resets and deletions, then each partition with its rate."""
    rows = _rows(commits.jumps)
    shown = rows if verbose else rows[-_ROWS:]
    if shown:
        yield Table(_JUMP_COLUMNS, [_jump_row(jumps) for jumps in shown])
        if len(shown) < len(rows):
            yield Text((f"{len(rows) - len(shown)} earlier: --verbose",))
    else:
        yield Text(("No offset jumped, and none was reset or deleted.",))
    ranked = sorted(commits.trends, key=lambda trend: (-(trend.back + trend.forward), trend.topic, trend.partition))
    trends = ranked if verbose else ranked[:_ROWS]
    if trends:
        yield BlankLine()
        yield Table(_TREND_COLUMNS, [_trend_row(trend) for trend in trends])
        slice_s = (history.span.until_ms - history.span.since_ms) / 1000 / max(1, len(trends[0].rates))
        yield Text((f"RATES = slices of {format_duration(slice_s)}, 9 is the row's highest, . no commits to tell by",))
    if len(trends) < len(ranked):
        yield Text((f"{len(ranked) - len(trends)} more partitions: --verbose",))
    if commits.aborted or commits.open:
        yield Text((f"left out: {commits.aborted} commits of aborted transactions, {commits.open} of open ones",))


def _rows(jumps: Sequence[OffsetJump]) -> list[list[OffsetJump]]:
    """One row per jump; jumps of several members within a second share a row, as after a rebalance."""
    rows: list[list[OffsetJump]] = []
    for jump in jumps:
        first = rows[-1][0] if rows else None
        if (
            first is not None
            and (first.move, first.by, first.step) == (jump.move, jump.by, jump.step)
            and jump.by is CommitAuthor.MEMBER
            and 0 <= jump.at_ms - first.at_ms <= _SAME_MS
        ):
            rows[-1].append(jump)
        else:
            rows.append([jump])
    return rows


def _jump_row(jumps: Sequence[OffsetJump]) -> tuple[Cell, ...]:
    first = jumps[0]
    author = author_text(first) if len(jumps) == 1 else f"{first.who} and {len(jumps) - 1} more (owners)"
    known = [jump.moved for jump in jumps if jump.moved is not None]
    together = replace(first, moved=sum(known) if known else None)
    partitions = sum(len(jump.changes) for jump in jumps)
    return (
        clock(first.at_ms, seconds=True),
        author,
        partitions,
        Styled(move_text(together), "warn"),
        context_text(first),
    )


def jump_line(jump: OffsetJump) -> str:
    """A jump as a line of ``--follow``: ``admin (no member): +30.1M reset of 4 partitions, Empty since 03:06:40Z``."""
    return f"{author_text(jump)}: {move_text(jump)} of {plural(len(jump.changes), 'partition')}, {context_text(jump)}"


def commits_rows(histories: Sequence[GroupHistory]) -> Iterator[tuple[str | int | None, ...]]:
    """One row per partition of each jump, oldest first."""
    for history in histories:
        for jump in history.commits.jumps if history.commits is not None else ():
            for topic, partition, old, new in jump.changes:
                columns = (topic, partition, old, new)
                at = rfc3339(jump.at_ms)
                yield (
                    history.group,
                    at,
                    jump.move.value,
                    jump.by.value,
                    jump.who,
                    *columns,
                    jump.step,
                    jump.rebalance_distance_ms,
                )


def author_text(jump: OffsetJump) -> str:
    """``admin (no member)``, ``enrich-3 (owner)``, ``kgroup cu-7f3a``."""
    match jump.by:
        case CommitAuthor.MEMBER:
            return f"{jump.who} (owner)"
        case CommitAuthor.ADMIN:
            return "admin (no member)"
        case CommitAuthor.OUTSIDER:
            return "no member, again and again"
        case CommitAuthor.TRANSACTION:
            return f"producer {jump.who}"
        case CommitAuthor.KGROUP:
            return f"kgroup {jump.who}"
        case CommitAuthor.DELETION:
            return "deletion of the group"
        case CommitAuthor.UNKNOWN:
            return "unknown"


def move_text(jump: OffsetJump) -> str:
    """``+30.1M reset``, ``-412 back``."""
    if jump.move is CommitMove.DELETED:
        return "deleted" if jump.by is CommitAuthor.DELETION else "deleted or expired"
    if jump.moved is None:
        return f"{jump.move.value}, from where is unknown"
    sign = "-" if jump.moved < 0 else "+"
    return f"{sign}{human_count(abs(jump.moved))} {jump.move.value}"


def context_text(jump: OffsetJump) -> str:
    """What happened near the jump: ``Empty since 03:06:40Z``, ``3s after a rebalance (now 88)``, ``generation 88``."""
    if jump.empty_since_ms is not None:
        return f"Empty since {clock(jump.empty_since_ms, seconds=True)}"
    if jump.rebalance_distance_ms is not None:
        word = "before" if jump.rebalance_distance_ms < 0 else "after"
        return f"{duration(abs(jump.rebalance_distance_ms))} {word} a rebalance (now {jump.step})"
    return "unknown" if jump.step is None else f"generation {jump.step}"


def _trend_row(trend: CommitTrend) -> tuple[Cell, ...]:
    return (
        f"{trend.topic}:{trend.partition}",
        trend.commits,
        trend.first,
        trend.last,
        None if trend.rate is None else f"{human_count(round(trend.rate))}/s",
        _digits(trend.rates),
        trend.back,
        trend.forward,
        trend.repeated if trend.repeated > 1 else "",
    )


def _digits(rates: Sequence[float | None]) -> str:
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    return "".join(
        "." if rate is None else str(min(9, max(0, round(9 * rate / highest)))) if highest > 0 else "0"
        for rate in rates
    )


def duration(milliseconds: int | None) -> str:
    """``8s``, or ``unknown`` for None."""
    return "unknown" if milliseconds is None else format_duration(milliseconds / 1000)


def clock(timestamp_ms: int, *, seconds: bool = False) -> str:
    """``03:02Z``, ``03:02:11Z``; ``unknown`` for a time outside the calendar."""
    moment = utc_datetime(timestamp_ms)
    if moment is None:
        return "unknown"
    return f"{moment:%H:%M:%SZ}" if seconds else f"{moment:%H:%MZ}"
