"""What a group alone tells, without further evidence: its lag, what is out of range, and what stands out.

Apart from the rest of the verdict: pages that show no more need not pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.model.groups import Group, Partition
from kgroup.model.hidden_commits import hidden_words
from kgroup.support.units import human_count, percent, plural

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
LEFT_FOR_A_MOMENT = -2
"""The member epoch of a static member that left and whose place is kept (KIP-848)."""


def lag_line(group: Group) -> str:
    """Largest partition before the total: ``3.94M on orders:7, 96% of 4.10M``; of a group alone, without evidence."""
    known = [(lag, f"{p.topic}:{p.partition}") for p in group.partitions if (lag := p.lag) is not None]
    return amount(group, known)


def amount(group: Group, known: Sequence[tuple[int, str]]) -> str:
    """The same of any measurement: (lag, partition) of each whose lag is known."""
    hidden = hidden_words(group.hidden_commits)
    hides = f"; {hidden}" if hidden else ""
    if not known:
        return f"unknown: {_why_unknown(group)}{hides}"
    total = sum(lag for lag, _ in known)
    lag, where = max(known, key=lambda pair: pair[0])
    unknown = len(group.partitions) - len(known)
    beside = (f"; unknown on {plural(unknown, 'other partition')}" if unknown else "") + hides
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
        return "no committed offset, and no partition is assigned"
    if any(partition.error for partition in group.partitions):
        return "the offsets or the logs could not be read"
    if any(partition.out_of_range for partition in group.partitions):
        return "committed above the log end"
    if any(partition.commit for partition in group.partitions):
        return "the logs could not be read"
    return "nothing is committed yet"


def range_line(outside: Sequence[Partition]) -> str:
    """What is gone, or why an offset can't be right, of the first such partition; and how many more there are."""
    first = outside[0]
    assert first.commit is not None
    assert first.log is not None
    where, offset = f"{first.topic}:{first.partition}", first.commit.offset
    if first.out_of_range == "BELOW_START":
        gone = first.log.start - offset
        what = f"committed {offset} lies below the log start {first.log.start}: {plural(gone, 'offset')} gone"
    else:
        what = f"committed {offset} lies above the log end {first.log.end}: topic recreated, or log truncated?"
    more = f"; {len(outside) - 1} more out of range" if len(outside) > 1 else ""
    return f"{where} {what}{more}"


def next_line(group: Group) -> str | None:
    """What stands out of a group alone, the most pressing; None where nothing does."""
    return of_members(group) or of_assignment(group)


def of_members(group: Group) -> str | None:
    """What its state and members show; None where that is nothing."""
    gone = [member for member in group.members or () if member.epoch == LEFT_FOR_A_MOMENT]
    if gone:
        label = gone[0].instance_id or gone[0].client_id or gone[0].member_id
        return f"static member {label} left for a moment; its place is kept until its session ends"
    if group.state in REBALANCING:
        return f"a rebalance is under way ({group.state}); look again in a moment"
    if group.state == "Empty" and group.totals.lag:
        what = "no member reads; its consumers, once started, go on at the committed offsets"
        return what if not group.is_simple else "no member reads here; whoever uses assign() is not visible"
    return None


def of_assignment(group: Group) -> str | None:
    """Members without partitions, partitions without a member; None where there are none."""
    totals = group.totals
    if totals.members and totals.idle_members:
        return f"{totals.idle_members} of {plural(totals.members, 'member')} idle: no partition assigned"
    if group.members and totals.unassigned_partitions:
        return f"{plural(totals.unassigned_partitions, 'partition')} without an owner"
    return None
