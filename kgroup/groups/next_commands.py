"""The commands that follow from a finding about committed offsets, for pages and documents. Pure.

None of them has ``--execute``: a pasted command shows a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.history.model import CrashLoop
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from kgroup.support.instants import rfc3339


def group_history(group: str) -> Hint:
    """``kgroup history``: the group's rebalances, and who comes and goes."""
    return Hint("{}", ("history", group))


def peek_group(group: str) -> Hint:
    """``kgroup peek``: the records at the committed offsets of the group's stuck partitions."""
    return Hint("{}", ("peek", group))


def skip_words(group: str, tp: TopicPartition, offset: int) -> tuple[str, ...]:
    """``kgroup reset``: skip the record at ``offset``, and keep it in a file. Repeated, it skips nothing more."""
    file = f"{tp.topic}-{tp.partition}-{offset}.jsonl"
    return ("reset", group, "--to-offset", f"{tp}={offset + 1}", "--save-skipped", file)


def skip_record(group: str, tp: TopicPartition, offset: int | None) -> Iterator[Hint]:
    """The command of ``skip_words``; none if the offset is unknown."""
    if offset is not None:
        yield Hint("{}", skip_words(group, tp, offset))


def catch_up(group: str) -> Hint:
    """``kgroup catchup start``: the plan that releases the group at the log end, and replays its gap in parallel."""
    return Hint("{}", ("catchup", "start", group))


def add_member(group: str) -> Hint:
    """``kgroup simulate``: what one more member would read."""
    return Hint("{}", ("simulate", group, "--add", "1"))


def leave_crash_loop(group: str, loops: Sequence[CrashLoop]) -> Iterator[Hint]:
    """``kgroup peek``, and the command that skips the record. Of several partitions, the records show which it is."""
    yield peek_group(group)
    if len(loops) == 1:
        yield from skip_record(group, loops[0].tp, loops[0].offset)


def undo_move(group: str, at_ms: int) -> Hint | None:
    """``kgroup undo --as-of``: restore the offsets of just before a move at ``at_ms`` (ms since 1970).

    A move at 12:45:44.250 is undone with 12:45:44.249. None for a time outside the calendar.
    """
    before = rfc3339(at_ms - 1)
    return None if before is None else Hint("{}", ("undo", group, "--as-of", before))
