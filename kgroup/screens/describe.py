"""The page of a group: verdict lines, partitions, members, plumbing, in this order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kgroup.model import ClusterRef, Group, Member, Outcome, Partition, RowError, is_of_consumers
from kgroup.screen import (
    Block,
    Cell,
    Column,
    Gap,
    Screen,
    Style,
    Styled,
    Table,
    Text,
    Title,
    Verdict,
)
from kgroup.screens.describe_records import Part, assignment_text, coordinator_text, records
from kgroup.units import human_count, percent, plural

ROWS_ON_A_PAGE = 20
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_FIRST_TO_GO = 9
LEFT_FOR_A_MOMENT = -2
"""The member epoch of a static member that left and whose place is kept (KIP-848)."""


_PARTITION_COLUMNS = (
    Column("PARTITION", fold=True),
    Column("COMMITTED", right=True),
    Column("EPOCH", right=True, wide=True),
    Column("LOG-START", right=True, wide=True),
    Column("LOG-END", right=True, drop=2),
    Column("LAG", right=True),
    Column("STATUS", drop=1),
    Column("OWNER", fold=True),
    Column("MEMBER-ID", wide=True),
    Column("HOST", wide=True),
    Column("METADATA", wide=True),
)
_MEMBER_COLUMNS = (
    Column("MEMBER", fold=True),
    Column("MEMBER-ID", wide=True),
    Column("INSTANCE", drop=3, fold=True),
    Column("HOST", drop=4),
    Column("RACK", drop=5),
    Column("PROTOCOL", drop=6),
    Column("EPOCH", right=True, drop=2),
    Column("PARTITIONS", right=True),
    Column("LAG", right=True, drop=1),
    Column("ASSIGNMENT", wide=True, fold=True),
    Column("TARGET", wide=True, fold=True),
)
_SPARSE_MEMBERS = frozenset({"INSTANCE", "RACK", "PROTOCOL", "EPOCH", "TARGET", "LAG"})
_STATE_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=5),
    Column("STATE"),
    Column("GEN/EPOCH", right=True, drop=2),
    Column("ASSIGNOR", drop=3),
    Column("COORDINATOR", drop=4),
    Column("MEMBERS", right=True, drop=1),
)


@dataclass(frozen=True, slots=True)
class Described:
    """A group, and what open catch-ups owe to it; None where nobody can tell."""

    group: Group
    owed: Sequence[Mapping[str, Any]] | None

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return self.group.document() | {"owed": None if self.owed is None else list(self.owed)}


def outcome(
    part: Part,
    groups: Sequence[Group],
    cluster: ClusterRef,
    errors: tuple[RowError, ...] = (),
    *,
    verbose: bool = False,
    owed: Mapping[str, Sequence[str]] | None = None,
    owing: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Outcome:
    """Described groups as what a command returns.

    What catch-ups owe to them is in ``owed``, in lines, and in ``owing`` in its JSON form, None where nobody can tell.
    """
    return Outcome(
        data=tuple(Described(group, None if owing is None else owing.get(group.name, ())) for group in groups),
        screen=lambda: screen(part, groups, verbose=verbose, owed=owed or {}),
        records=lambda: records(part, groups),
        cluster=cluster,
        errors=errors,
    )


def screen(
    part: Part, groups: Sequence[Group], *, verbose: bool, owed: Mapping[str, Sequence[str]] | None = None
) -> Screen:
    """The groups as a person sees them; ``verbose`` shows all rows and assignments."""
    if part is Part.STATE:
        table = Table(_STATE_COLUMNS, [_state_row(group) for group in groups])
        title_of_all = Title(plural(len(groups), "group"), in_terminal_only=True)
        return Screen((title_of_all, table) if groups else ())
    blocks: list[Block] = []
    for group in groups:
        blocks += [Gap()] if blocks else []
        blocks += _page(part, group, verbose, (owed or {}).get(group.name, ()))
    return Screen(tuple(blocks))


def _page(part: Part, group: Group, verbose: bool, owed: Sequence[str]) -> Iterator[Block]:
    yield Title(title(group))
    if part is Part.PAGE:
        yield from _verdict(group, owed)
    if part is not Part.MEMBERS and group.partitions:
        yield from _partition_blocks(group, all_rows=verbose or part is Part.OFFSETS, verbose=verbose)
    if part is not Part.OFFSETS and group.members:
        yield from _member_blocks(group, all_rows=verbose or part is Part.MEMBERS, verbose=verbose)
    yield Text((plumbing(group),))


def title(group: Group) -> str:
    """``orders-enrich  Stable  classic  generation 112``."""
    known = _age(group)
    age = f"{'epoch' if group.type == 'consumer' else 'generation'} {'-' if known is None else known}"
    kind = group.type
    if group.is_simple:
        kind, age = "classic", "offsets only"
    elif not is_of_consumers(group.protocol_type):
        kind = f"{group.type} ({group.protocol_type})"
    return f"{group.name}  {group.state}  {kind}  {age}"


def _verdict(group: Group, owed: Sequence[str]) -> Iterator[Block]:
    yield Verdict("LAG", lag_line(group))
    yield from (Verdict("OWED", line, "warn") for line in owed)
    outside = [partition for partition in group.partitions if partition.out_of_range]
    if outside:
        yield Verdict("RANGE", range_line(outside), "bad")
    if following := next_line(group):
        yield Text((f"-> {following}",))
    if group.partitions or group.members:
        yield Gap()


def lag_line(group: Group) -> str:
    """Largest partition before the total: ``3.94M on orders:7, 96% of 4.10M``."""
    known = [(lag, p) for p in group.partitions if (lag := p.lag) is not None]
    if not known:
        return "unknown: " + _why_unknown(group)
    total = sum(lag for lag, _ in known)
    lag, worst = max(known, key=lambda pair: pair[0])
    where = f"{worst.topic}:{worst.partition}"
    unknown = len(group.partitions) - len(known)
    beside = f"; unknown on {plural(unknown, 'other partition')}" if unknown else ""
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
    """What to look at next: one fact, the most pressing; None where nothing stands out."""
    totals = group.totals
    gone = [member for member in group.members or () if member.epoch == LEFT_FOR_A_MOMENT]
    if gone:
        return f"static member {_label(gone[0])} left for a moment; its place is kept until its session ends"
    if group.state in REBALANCING:
        return f"a rebalance is under way ({group.state}); look again in a moment"
    if group.state == "Empty" and totals.lag:
        what = "no member reads; its consumers, once started, go on at the committed offsets"
        return what if not group.is_simple else "no member reads here; whoever uses assign() is not visible"
    if totals.members and totals.idle_members:
        return f"{totals.idle_members} of {plural(totals.members, 'member')} idle: no partition assigned"
    if group.members and totals.unassigned_partitions:
        return f"{plural(totals.unassigned_partitions, 'partition')} without an owner"
    return None


def plumbing(group: Group) -> str:
    """``3 members, none idle, range assignor, leader enrich-0, coordinator 2 (b2:9092)``."""
    totals = group.totals
    if totals.members is None:
        parts = ["members unknown"]
    elif not totals.members:
        parts = ["no members"]
    else:
        told = all(member.assignment is not None for member in group.members or ())
        idle = f"{totals.idle_members} idle" if totals.idle_members else "none idle" if told else "assignments unknown"
        parts = [plural(totals.members, "member"), idle]
    if group.assignor:
        parts.append(f"{group.assignor} assignor")
    if group.leader:
        parts.append(f"leader {_name_of(group, group.leader)}")
    if group.coordinator:
        parts.append(f"coordinator {coordinator_text(group.coordinator)}")
    return ", ".join(parts)


def _partition_blocks(group: Group, *, all_rows: bool, verbose: bool) -> Iterator[Block]:
    ranked = list(group.partitions)
    if not all_rows:
        ranked.sort(key=lambda p: (p.out_of_range is None and p.error is None, -(p.lag or 0)))
    shown = ranked if all_rows else ranked[:ROWS_ON_A_PAGE]
    labels = _labels(group)
    rows = [_partition_row(partition, labels) for partition in shown]
    columns = _widened(_PARTITION_COLUMNS, only=None if verbose else "")
    yield Table(columns, rows, frozenset({"STATUS"}))
    rest = ranked[len(shown) :]
    if rest:
        lags = [lag for partition in rest if (lag := partition.lag) is not None]
        span = _span(lags)
        yield Text((f"{len(rest)} more{span}: --offsets shows every partition",))
    yield Gap()


def _span(lags: Sequence[int]) -> str:
    if not lags:
        return ""
    least, most = min(lags), max(lags)
    return f", lag {least} each" if least == most else f", lag {least} to {most}"


def _partition_row(partition: Partition, labels: dict[str, str]) -> tuple[Cell, ...]:
    commit, log, owner = partition.commit, partition.log, partition.owner
    return (
        f"{partition.topic}:{partition.partition}",
        commit.offset if commit else None,
        commit.leader_epoch if commit else None,
        log.start if log else None,
        log.end if log else None,
        partition.lag,
        _status(partition),
        labels[owner.member_id] if owner else None,
        owner.member_id if owner else None,
        owner.host if owner else None,
        commit.metadata if commit and commit.metadata else None,
    )


def _status(partition: Partition) -> Cell:
    status = partition.error or partition.out_of_range
    style: Style = "warn" if partition.error else "bad"
    return Styled(status, style) if status else None


def _member_blocks(group: Group, *, all_rows: bool, verbose: bool) -> Iterator[Block]:
    members = group.members or ()
    lags: Counter[str] = Counter()
    for partition in group.partitions:
        if partition.owner and partition.lag is not None:
            lags[partition.owner.member_id] += partition.lag
    ranked = sorted(members, key=lambda m: -lags[m.member_id])
    shown = ranked if all_rows else ranked[:ROWS_ON_A_PAGE]
    labels, mixed = _labels(group), len({member.protocol for member in members}) > 1
    rows = [_member_row(m, labels[m.member_id], lags.get(m.member_id), mixed) for m in shown]
    columns = _widened(_MEMBER_COLUMNS, only=None if verbose else "MEMBER-ID" if all_rows else "")
    yield Table(columns, rows, _SPARSE_MEMBERS)
    if len(shown) < len(ranked):
        yield Text((f"{len(ranked) - len(shown)} more: --members shows every member",))
    yield Gap()


def _member_row(member: Member, label: str, lag: int | None, mixed: bool) -> tuple[Cell, ...]:
    differs = member.target_assignment is not None and member.target_assignment != member.assignment
    return (
        label,
        member.member_id,
        member.instance_id,
        member.host,
        member.rack,
        member.protocol if mixed else None,
        Styled("left (-2)", "warn") if member.epoch == LEFT_FOR_A_MOMENT else member.epoch,
        member.partition_count if member.assignment is not None else None,
        lag,
        assignment_text(member.assignment),
        assignment_text(member.target_assignment) if differs else None,
    )


def _widened(columns: Sequence[Column], only: str | None) -> tuple[Column, ...]:
    """The columns, ``only`` (None: each) of those for ``-o wide`` shown in any case, as far as there is room."""
    return tuple(
        replace(column, wide=False, drop=_FIRST_TO_GO) if column.wide and only in (None, column.title) else column
        for column in columns
    )


def _label(member: Member) -> str:
    return member.instance_id or member.client_id or member.member_id


def _labels(group: Group) -> dict[str, str]:
    """What each member is called: instance id, else client id, and where that is not unique its member id."""
    uses = Counter(_label(member) for member in group.members or ())
    return {
        member.member_id: _label(member) if uses[_label(member)] == 1 else member.member_id
        for member in group.members or ()
    }


def _name_of(group: Group, member_id: str) -> str:
    return _labels(group).get(member_id, member_id)


def _state_row(group: Group) -> tuple[Cell, ...]:
    return (
        group.name,
        group.type,
        group.state,
        _age(group),
        group.assignor,
        coordinator_text(group.coordinator),
        group.totals.members,
    )


def _age(group: Group) -> str | int | None:
    """The generation, or the group epoch with the epoch of the assignment where that lags behind."""
    if group.type != "consumer" or group.group_epoch == group.assignment_epoch:
        return group.group_epoch if group.type == "consumer" else group.generation
    return f"{group.group_epoch} (assigned {group.assignment_epoch})"
