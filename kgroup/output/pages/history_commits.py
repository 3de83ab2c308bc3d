"""The jumps of committed offsets in a history: each jump, who made it, and the rebalance near it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from msgspec.structs import replace

from kgroup.groups.commit_tags import is_plan_id
from kgroup.groups.history.offset_jumps import (
    CommitAuthor,
    CommitMove,
    CommitReport,
    OffsetJump,
    undo_jump,
)
from kgroup.groups.history.summary import GroupHistory
from kgroup.groups.next_commands import deliver_passed_over, undo_change
from kgroup.groups.repeated_falls import Writers
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Prose, Styled, Table, Text
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339, short_time, utc_datetime
from kgroup.support.units import human_count, plural

_ROWS = 20
_PARTITIONS = 5
"""So many partitions of each jump are shown without --verbose."""
_COMMANDS = 5
_SAME_MS = 1_000

COMMITS_HEADER = (
    "group",
    "recorded_at",
    "move",
    "author",
    "author_name",
    "topic",
    "partition",
    "old_offset",
    "new_offset",
    "step_number",
    "rebalance_distance_ms",
)

_JUMP_COLUMNS = (
    Column("AT"),
    Column("AUTHOR", fold=True),
    Column("PARTITION", fold=True),
    Column("OLD", right=True),
    Column("NEW", right=True),
    Column("JUMP"),
    Column("NEAR", drop=1),
)


def commits_blocks(history: GroupHistory, commits: CommitReport, verbose: bool) -> Iterator[Block]:
    """Jumps, resets and deletions, and the command that undoes each."""
    rows = _rows(commits.jumps)
    shown = rows if verbose else rows[-_ROWS:]
    if shown:
        now_ms, most = history.span.now_ms, None if verbose else _PARTITIONS
        yield Table(_JUMP_COLUMNS, [cells for jumps in shown for cells in _jump_cells(jumps, now_ms, most)])
        omitted = [f"{len(rows) - len(shown)} earlier"] if len(shown) < len(rows) else []
        if most is not None and any(len(_together(jumps).partitions) > most for jumps in shown):
            omitted.append("all partitions")
        if omitted:
            yield Text((f"{'; '.join(omitted)}: --verbose",))
        alternating = [alternation_text(jump, now_ms) for jumps in shown for jump in jumps if jump.alternation]
        if alternating:
            yield BlankLine()
            yield Prose(tuple(f"{text}." for text in alternating))
        passed = [one for jumps in shown for jump in jumps for one in jump.passed]
        if passed:
            yield BlankLine()
            yield Prose(tuple(f"{one.leap.tp}: {one.words}." for one in passed))
            yield Text(tuple(f"  {command}" for command in deliver_passed_over(passed)))
        yield from _commands(history, shown if verbose else shown[-_COMMANDS:])
    else:
        yield Text(("No offset jumped, and none was reset or deleted.",))
    if commits.aborted or commits.open:
        yield Text((f"left out: {commits.aborted} commits of aborted transactions, {commits.open} of open ones",))


def _commands(history: GroupHistory, rows: Sequence[Sequence[OffsetJump]]) -> Iterator[Block]:
    """The command that undoes each of these jumps, the newest first; undoing an older one undoes the later ones too."""
    commands = [
        (jumps[0].at_ms, command)
        for jumps in reversed(rows)
        if (command := undo_jump(history.group, jumps[0], history.span.closed)) is not None
    ]
    if commands:
        yield BlankLine()
        yield Text(("Back to just before a jump, the newest first:",))
        yield Text(tuple(f"  {short_time(at_ms, history.span.now_ms)}  {command}" for at_ms, command in commands))


def undo_lines(history: GroupHistory, closed: Container[str]) -> Iterator[str]:
    """Two lines for each of the newest jumps, the newest first: what happened, and the command that undoes it.

    ``closed`` are catch-ups that are finished.
    """
    jumps = () if history.commits is None else history.commits.jumps
    for row in reversed(_rows(jumps)[-_COMMANDS:]):
        command = undo_jump(history.group, row[0], closed)
        if command is None and row[0].by is CommitAuthor.KGROUP and row[0].who and not is_plan_id(row[0].who):
            command = undo_change(row[0].who)
        if command is not None:
            whole = _together(row)
            yield f"  {rfc3339(whole.at_ms, 'seconds')}  {jump_line(whole, history.span.now_ms)}"
            yield f"    {command}"


def _rows(jumps: Sequence[OffsetJump]) -> list[list[OffsetJump]]:
    """One row per jump; jumps of several members within a second share a row, as after a rebalance."""
    rows: list[list[OffsetJump]] = []
    for jump in jumps:
        first = rows[-1][0] if rows else None
        if (
            first is not None
            and (first.move, first.by, first.step) == (jump.move, jump.by, jump.step)
            and jump.by in (CommitAuthor.MEMBER, CommitAuthor.A_MEMBER)
            and 0 <= jump.at_ms - first.at_ms <= _SAME_MS
        ):
            rows[-1].append(jump)
        else:
            rows.append([jump])
    return rows


def _together(jumps: Sequence[OffsetJump]) -> OffsetJump:
    """The first jump, with the partitions of all."""
    known = [jump.moved for jump in jumps if jump.moved is not None]
    partitions = tuple(partition for jump in jumps for partition in jump.partitions)
    return replace(jumps[0], moved=sum(known) if known else None, partitions=partitions)


def _jump_cells(jumps: Sequence[OffsetJump], now_ms: int, most: int | None) -> Iterator[tuple[Cell, ...]]:
    """A row for each partition, ``most`` at most; what is the same for all of them stands in the first."""
    whole = _together(jumps)
    at, move, near = short_time(whole.at_ms, now_ms), Styled(move_text(whole), "warn"), context_text(whole, now_ms)
    authors = [author_text(jump) for jump in jumps for _ in jump.partitions]
    for number, jumped in enumerate(whole.partitions[:most]):
        author = authors[number] if number == 0 or authors[number] != authors[number - 1] else ""
        cells = author, f"{jumped.topic}:{jumped.partition}", jumped.old_offset, jumped.new_offset
        yield (at, *cells, move, near) if number == 0 else ("", *cells, "", "")
    if most is not None and len(whole.partitions) > most:
        yield ("", "", f"{len(whole.partitions) - most} more", "", "", "", "")


def jump_line(jump: OffsetJump, now_ms: int) -> str:
    """A jump as a line of ``--follow``: ``no member: +30.1M reset of 4 partitions, Empty since 03:06:40Z``."""
    if jump.alternation is not None:
        return f"{author_text(jump)}: {alternation_text(jump, now_ms)}"
    partitions = plural(len(jump.partitions), "partition")
    return f"{author_text(jump)}: {move_text(jump)} of {partitions}, {context_text(jump, now_ms)}"


def commits_rows(histories: Sequence[GroupHistory]) -> Iterator[tuple[str | int | None, ...]]:
    """One row per partition of each jump, oldest first."""
    for history in histories:
        for jump in history.commits.jumps if history.commits is not None else ():
            for jumped in jump.partitions:
                yield (
                    history.group,
                    rfc3339(jump.at_ms),
                    jump.move.value,
                    jump.by.value,
                    jump.who,
                    jumped.topic,
                    jumped.partition,
                    jumped.old_offset,
                    jumped.new_offset,
                    jump.step,
                    jump.rebalance_distance_ms,
                )


def author_text(jump: OffsetJump) -> str:
    """``any member (owner then: enrich-3)``, ``no member``, ``kgroup cu-7f3a``, ``kgroup, change ch-7k2f``."""
    match jump.by:
        case CommitAuthor.MEMBER:
            return f"{jump.who}"
        case CommitAuthor.A_MEMBER:
            return f"any member (owner then: {jump.who})"
        case CommitAuthor.NO_MEMBER:
            return "no member"
        case CommitAuthor.TRANSACTION:
            return f"producer {jump.who}"
        case CommitAuthor.KGROUP:
            return f"kgroup {jump.who}" if jump.who and is_plan_id(jump.who) else f"kgroup, change {jump.who}"
        case CommitAuthor.UNKNOWN:
            return "unknown"


def move_text(jump: OffsetJump) -> str:
    """``+30.1M reset``, ``-412 back``."""
    if jump.move is CommitMove.DELETED:
        if jump.by is CommitAuthor.KGROUP:
            return "deleted"
        return "deleted with its topic" if jump.is_of_old_topic else "deleted or expired"
    if jump.move is CommitMove.ALTERNATING:
        return "back and forth"
    if jump.moved is None:
        return f"{jump.move.value} from unknown offsets"
    sign = "-" if jump.moved < 0 else "+"
    return f"{sign}{human_count(abs(jump.moved))} {jump.move.value}"


def alternation_text(jump: OffsetJump, now_ms: int) -> str:
    """``orders:0: two writers since 15:02:10Z, one at 10, one at 5000 to 5400, 12 falls``."""
    found = jump.alternation
    if found is None:
        return ""
    low, high = (
        f"{first}" if first == last else f"{first} to {last}"
        for first, last in (
            (found.first_low_offset, found.last_low_offset),
            (found.first_high_offset, found.last_high_offset),
        )
    )
    where, since = (
        f"{jump.partitions[0].topic}:{jump.partitions[0].partition}",
        short_time(found.first_fall_at_ms, now_ms),
    )
    falls = plural(found.fall_count, "fall")
    match found.writers:
        case Writers.TWO:
            return f"{where}: two writers since {since}, one at {low}, one at {high}, {falls}"
        case Writers.ONE:
            return f"{where}: one client tries again since {since}, from {low} to {high}, {falls}"
        case Writers.UNKNOWN:
            what = "two writers, or one that tries again"
            return f"{where}: {what}, since {since}, at {low} and {high}, {falls}"


def context_text(jump: OffsetJump, now_ms: int) -> str:
    """What happened near the jump: ``Empty since 03:06:40Z``, ``3s after a rebalance (now 88)``, ``generation 88``."""
    if jump.empty_since_ms is not None:
        return f"Empty since {short_time(jump.empty_since_ms, now_ms)}"
    if jump.step is None and jump.by is CommitAuthor.NO_MEMBER:
        return "no members before"
    if jump.rebalance_distance_ms is not None:
        word = "before" if jump.rebalance_distance_ms < 0 else "after"
        return f"{duration(abs(jump.rebalance_distance_ms))} {word} a rebalance (now {jump.step})"
    return "unknown" if jump.step is None else f"generation {jump.step}"


def duration(milliseconds: int | None) -> str:
    """``8s``, or ``unknown`` for None."""
    return "unknown" if milliseconds is None else format_duration(milliseconds / 1000)


def clock(timestamp_ms: int, *, seconds: bool = False) -> str:
    """``03:02Z``, ``03:02:11Z``; ``unknown`` for a time outside the calendar."""
    moment = utc_datetime(timestamp_ms)
    if moment is None:
        return "unknown"
    return f"{moment:%H:%M:%SZ}" if seconds else f"{moment:%H:%MZ}"
