"""The lines that need no evidence beyond the group itself: its lag, commits out of range, and an unusual fact.

It is a separate module so that pages without a full verdict do not import the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.foreign_owners import connector_of, is_own_repartition, status_request
from kgroup.model.groups import Group, Partition, RangeStatus
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.streams_group import NOT_READY
from kgroup.support.units import human_count, percent, plural, some_of


def lag_line(group: Group) -> str:
    """The LAG line without evidence, largest partition first: ``3.94M on orders:7, 96% of 4.10M``."""
    known = [(lag, f"{p.tp}") for p in group.partitions if (lag := p.lag) is not None]
    return lag_text(group, known)


def lag_text(group: Group, known: Sequence[tuple[int, str]]) -> str:
    """The LAG line from ``known``: (lag, partition) of each partition with a known lag."""
    hidden = hidden_words(group.hidden_commits)
    hides = f"; {hidden}" if hidden else ""
    if not known:
        return f"unknown: {_why_unknown(group)}{hides}"
    total = sum(lag for lag, _ in known)
    lag, where = max(known, key=lambda pair: pair[0])
    unknown = len(group.partitions) - len(known)
    beside = (f"; unknown on {plural(unknown, 'other partition')}" if unknown else "") + hides
    inside = sum(p.lag or 0 for p in group.partitions if is_own_repartition(group.name, p.topic))
    if inside:
        beside = f"; {human_count(inside)} of it inside the application, in repartition topics{beside}"
    if total == 0:
        return f"0 on {plural(len(known), 'partition')}{beside}"
    if len(known) == 1:
        return f"{human_count(total)} on {where}{beside}"
    lagging = sum(lag > 0 for lag, _ in known)
    return (
        f"{human_count(lag)} on {where}, {percent(lag, total)} of {human_count(total)} "
        f"over {lagging} of {plural(len(known), 'partition')}{beside}"
    )


def _why_unknown(group: Group) -> str:
    if not group.partitions:
        what = "start" if group.is_share else "committed"
        if group.members is None:
            return f"no {what} offset is shown, and its members are unknown"
        return f"no {what} offset, and no partition is assigned"
    if any(partition.error for partition in group.partitions):
        return "the offsets or the logs could not be read"
    if any(partition.out_of_range for partition in group.partitions):
        return "committed above the log end"
    if any(partition.commit for partition in group.partitions):
        return "the broker does not count it" if group.is_share else "the logs could not be read"
    return "no start offset is stored yet" if group.is_share else "nothing is committed yet"


def range_line(outside: Sequence[Partition]) -> str:
    """A sentence about the first partition out of range, and the number of others."""
    first = outside[0]
    assert first.commit is not None
    assert first.log is not None
    where, offset = f"{first.tp}", first.commit.offset
    if first.out_of_range is RangeStatus.BELOW_LOG_START:
        gone = first.log.start - offset
        what = f"committed {offset} lies below the log start {first.log.start}: {plural(gone, 'offset')} gone"
    else:
        why = "the topic was recreated, or the log was truncated"
        which = "committed" if first.counted is None else "start offset"
        what = f"{which} {offset} lies above the log end {first.log.end}: {why}"
    more = f"; {len(outside) - 1} more out of range" if len(outside) > 1 else ""
    return f"{where} {what}{more}"


def next_line(group: Group) -> str | None:
    """The most urgent unusual fact about the group itself; None if there is none."""
    return members_sentence(group) or assignment_sentence(group)


def members_sentence(group: Group) -> str | None:
    """An unusual fact about the group's state and members; None if there is none."""
    gone = [member for member in group.members or () if member.left_temporarily]
    if gone:
        label = gone[0].instance_id or gone[0].client_id or gone[0].member_id
        return f"static member {label} left temporarily; its partitions are kept until its session ends"
    if group.state == NOT_READY:
        return not_ready_words(group)
    if group.is_rebalancing:
        return f"a rebalance is under way ({group.state}); check again in a moment"
    if group.is_share:
        lacks = group.is_empty and group.totals.lag
        return "no member reads; its consumers, once started, get the records that are not done" if lacks else None
    if group.state == "Empty" and group.totals.lag:
        if connector := connector_of(group.name):
            request = status_request(connector)
            what = "no member reads: by its name a sink connector, which is stopped, or whose tasks failed"
            return f"{what}; Connect knows which: {request}"
        what = "no member reads; its consumers, once started, continue at the committed offsets"
        return what if not group.is_simple else "no member reads; consumers with assign() are not visible"
    return None


def not_ready_words(group: Group) -> str:
    """Why a streams group has no tasks, as far as its topology shows it."""
    missing = group.streams.missing if group.streams else None
    if missing:
        return f"no member gets tasks until these source topics exist: {some_of(missing)}"
    if missing is None:
        return "no member gets tasks: a topic of its topology is missing, or its number of partitions does not fit"
    return "no member gets tasks: its source topics exist, an internal topic or a number of partitions does not fit"


def assignment_sentence(group: Group) -> str | None:
    """A sentence about members without partitions, or partitions without an owner; None if there are none."""
    totals = group.totals
    if group.is_share:
        return None  # a partition may have several members, and a member none
    if totals.member_count and totals.idle_member_count:
        return f"{totals.idle_member_count} of {plural(totals.member_count, 'member')} idle: no partition assigned"
    if group.members and totals.unassigned_partition_count:
        return f"{plural(totals.unassigned_partition_count, 'partition')} without an owner"
    return None
