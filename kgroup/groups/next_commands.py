"""The commands that follow from a finding about committed offsets, for pages and documents. Pure.

None of them has ``--execute``: a pasted command shows a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kgroup.groups.passed_over import PassedOver
from kgroup.groups.stuck_record import StuckRecord
from kgroup.model.groups import Member
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from kgroup.support.instants import rfc3339

MOST_RANGES = 10
"""So many ranges are in one command."""

READ_STREAMS = frozenset({"describe", "doctor", "history", "lag", "list", "peek", "wait"})
"""The verbs that read streams groups; the others refuse them."""


def group_history(group: str) -> Hint:
    """``kgroup history``: the group's rebalances, and who comes and goes."""
    return Hint("{}", ("history", group))


def describe_group(group: str) -> Hint:
    """``kgroup describe``: another group that matters for the one that was asked about."""
    return Hint("{}", ("describe", group))


def commit_history(group: str) -> Hint:
    """``kgroup history --commits``: who may have moved its offsets, and when."""
    return Hint("{}", ("history", group, "--commits"))


def peek_group(group: str) -> Hint:
    """``kgroup peek``: the records at the committed offsets of the group's stuck partitions."""
    return Hint("{}", ("peek", group))


def read_from(tp: TopicPartition, offset: int) -> Hint:
    """``kgroup peek TOPIC:P --offset N``: the first records from an offset on, of a partition without its group."""
    return Hint("{}", ("peek", f"{tp}", "--offset", f"{offset}"))


def skip_record(group: str, record: StuckRecord | None) -> Iterator[Hint]:
    """``kgroup reset``: skip the record, and keep it in a file; none unless it is known which one it is.

    Repeated, the command skips nothing more.
    """
    if record is not None and record.is_known:
        file = f"{record.topic}-{record.partition}-{record.offset}.jsonl"
        after = f"{record.tp}={record.offset + 1}"
        yield Hint("{}", ("reset", group, "--to-offset", after, "--save-skipped", file))


def delete_offsets(group: str, topics: Sequence[str]) -> Hint:
    """``kgroup delete-offsets``: of topics that no member subscribes to, which a running group allows."""
    return Hint("{}", ("delete-offsets", group, *(word for topic in topics for word in ("--topic", topic))))


def catch_up(group: str) -> Hint:
    """``kgroup catchup start``: the plan that releases the group at the log end, and replays its gap in parallel."""
    return Hint("{}", ("catchup", "start", group))


def deliver_skipped(group: str, change_id: str) -> Hint:
    """``kgroup catchup start --skipped-by``: the plan that delivers what a change skipped; it moves no group."""
    return Hint("{}", ("catchup", "start", group, "--skipped-by", change_id))


def deliver_ranges(ranges: Iterable[tuple[TopicPartition, int, int]]) -> Hint:
    """``kgroup catchup start --range``: the plan that delivers these offsets, without the last; it moves no group."""
    words = [word for tp, start, end in ranges for word in ("--range", f"{tp}={start}-{end}")]
    return Hint("{}", ("catchup", "start", *words))


def deliver_passed_over(passed: Iterable[PassedOver]) -> Iterator[Hint]:
    """The plan that delivers what is still there of records that a group may have passed over; none without any."""
    ranges = [(one.leap.tp, *one.left) for one in passed if one.left is not None]
    if ranges:
        yield deliver_ranges(ranges[:MOST_RANGES])


def evict_member(group: str, member: Member) -> Hint:
    """``kgroup evict``: remove one member, by its instance id if it has one."""
    who = ("--member", member.member_id) if member.instance_id is None else ("--instance", member.instance_id)
    return Hint("{}", ("evict", group, *who))


def add_member(group: str) -> Hint:
    """``kgroup simulate``: what one more member would read."""
    return Hint("{}", ("simulate", group, "--add", "1"))


def undo_change(change_id: str) -> Hint:
    """``kgroup undo``: take a change of the journal back."""
    return Hint("{}", ("undo", change_id))


def undo_move(group: str, at_ms: int) -> Hint | None:
    """``kgroup undo --as-of``: restore the offsets of just before a move at ``at_ms`` (ms since 1970).

    A move at 12:45:44.250 is undone with 12:45:44.249. None for a time outside the calendar.
    """
    before = rfc3339(at_ms - 1)
    return None if before is None else Hint("{}", ("undo", group, "--as-of", before))
