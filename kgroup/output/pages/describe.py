"""The page of a group: verdict lines, partitions, members, then one line about members, assignor and coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.groups.member_labels import member_names
from kgroup.groups.streaming.trouble import source_words
from kgroup.groups.verdict.plain import lag_line, next_line, range_line
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    Conclusion,
    LabelledLine,
    Screen,
    Style,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import Group, Member, Partition, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.share_group import ShareGroup
from kgroup.model.streaming_query import StreamingQuery
from kgroup.model.streams_group import StreamsGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.describe_document import described_document
from kgroup.output.pages.describe_records import DescribePart, assignment_text, coordinator_text, records
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural, some_of

if TYPE_CHECKING:
    from kgroup.groups.lag.report import PartitionLag
    from kgroup.groups.state_from_log import LoggedState
    from kgroup.groups.verdict.group import GroupVerdict

ROWS_ON_A_PAGE = 20
_DROPPED_FIRST = 9

_PARTITION_COLUMNS = (
    Column("PARTITION", fold=True),
    Column("COMMITTED", right=True),
    Column("LEADER-EPOCH", right=True, wide=True),
    Column("LOG-START", right=True, wide=True),
    Column("LOG-END", right=True, drop=2),
    Column("LAG", right=True),
    Column("TIME-LAG", right=True, drop=3),
    Column("LAST-COMMIT", right=True, drop=4),
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
    Column("MEMBER-EPOCH", right=True, drop=2),
    Column("PARTITIONS", right=True),
    Column("LAG", right=True, drop=1),
    Column("STUCK", right=True, drop=3),
    Column("SESSION", right=True, drop=6),
    Column("MAX-POLL", right=True, drop=5),
    Column("ASSIGNMENT", wide=True, fold=True),
    Column("TARGET", wide=True, fold=True),
)
_SPARSE_MEMBERS = frozenset(
    {"INSTANCE", "RACK", "PROTOCOL", "MEMBER-EPOCH", "TARGET", "LAG", "STUCK", "SESSION", "MAX-POLL"}
)
_OF_SHARES = {"COMMITTED": "START", "OWNER": "MEMBERS"}
"""The titles of columns that hold something else of a share group."""
_DELIVERY_COLUMNS = (
    Column("RETRIED", right=True, drop=5),
    Column("LAST-TRY", right=True, drop=5),
    Column("ARCHIVED", right=True, drop=6),
)
"""What a share group has besides."""
_MEMBERS_NAMED = 3
_SPARSE_PARTITIONS = frozenset({"STATUS", "TIME-LAG", "LAST-COMMIT", *(each.title for each in _DELIVERY_COLUMNS)})
_STATE_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=5),
    Column("STATE"),
    Column("GEN/EPOCH", right=True, drop=2),
    Column("ASSIGNOR", drop=3),
    Column("COORDINATOR", drop=4),
    Column("MEMBERS", right=True, drop=1),
)


class LogSource(msgspec.Struct, frozen=True):
    """The states of groups that were read from ``__consumer_offsets``, by group, and the current time."""

    states: Mapping[str, LoggedState]
    now_ms: int


def outcome(
    part: DescribePart,
    groups: Sequence[Group],
    cluster: ClusterRef,
    errors: tuple[RowError, ...] = (),
    *,
    verbose: bool = False,
    pending_lines: Mapping[str, Sequence[str]] | None = None,
    pending: Mapping[str, Sequence[PendingCatchup] | None] | None = None,
    verdicts: Mapping[str, GroupVerdict] | None = None,
    source: LogSource | None = None,
    restore_rate: int | None = None,
) -> Outcome:
    """Described groups as the command's outcome.

    Pending catch-ups by group are in ``pending_lines`` as lines, and in ``pending`` in JSON form, None if unknown.
    ``verdicts`` has the groups for which more was read. ``source`` is given if the groups were read from the log.
    ``restore_rate`` is in bytes per second.
    """
    verdict_of = verdicts or {}
    logged = {} if source is None else source.states
    return Outcome(
        data=tuple(
            partial(
                described_document,
                group,
                None if pending is None else pending.get(group.name, ()),
                verdict_of.get(group.name),
                logged.get(group.name),
                restore_rate,
            )
            for group in groups
        ),
        screen=lambda: screen(
            part,
            groups,
            verbose=verbose,
            pending_lines=pending_lines or {},
            verdicts=verdict_of,
            source=source,
            restore_rate=restore_rate,
        ),
        records=lambda: records(part, groups),
        cluster=cluster,
        errors=errors,
        names=lambda: (group.name for group in groups),
    )


def screen(
    part: DescribePart,
    groups: Sequence[Group],
    *,
    verbose: bool,
    pending_lines: Mapping[str, Sequence[str]] | None = None,
    verdicts: Mapping[str, GroupVerdict] | None = None,
    source: LogSource | None = None,
    restore_rate: int | None = None,
) -> Screen:
    """The page of the groups; ``verbose`` shows all rows and assignments."""
    if part is DescribePart.STATE:
        table = Table(_STATE_COLUMNS, [_state_row(group) for group in groups])
        title_of_all = Title(plural(len(groups), "group"), in_terminal_only=True)
        return Screen((title_of_all, table) if groups else ())
    blocks: list[Block] = []
    for group in groups:
        blocks += [BlankLine()] if blocks else []
        verdict = (verdicts or {}).get(group.name)
        blocks += _page(part, group, verbose, (pending_lines or {}).get(group.name, ()), verdict, source, restore_rate)
    return Screen(tuple(blocks))


def _page(
    part: DescribePart,
    group: Group,
    verbose: bool,
    pending_lines: Sequence[str],
    verdict: GroupVerdict | None,
    source: LogSource | None,
    restore_rate: int | None,
) -> Iterator[Block]:
    yield Title(title(group, None if verdict is None else verdict.state))
    ages: Mapping[TopicPartition, str] = {}
    if source is not None:
        # Imported here: groups are rarely read from the log.
        from kgroup.groups.state_from_log import log_line

        yield LabelledLine("SOURCE", log_line(source.states[group.name], source.now_ms), "warn")
        ages = _commit_ages(source.states[group.name], source.now_ms)
    if part is DescribePart.PAGE:
        yield from _verdict(group, pending_lines, verdict)
    if part is not DescribePart.MEMBERS and group.partitions:
        yield from _partition_blocks(
            group, verdict, ages, all_rows=verbose or part is DescribePart.OFFSETS, verbose=verbose
        )
    if part is not DescribePart.OFFSETS and group.streams is not None and group.streams.tasks:
        # Imported here: of streams groups alone.
        from kgroup.output.pages.streams_tasks import task_blocks

        most = None if verbose or part is DescribePart.MEMBERS else ROWS_ON_A_PAGE
        yield from task_blocks(group.streams, member_names(group), restore_rate, most)
    if part is not DescribePart.OFFSETS and group.members:
        yield from _member_blocks(group, verdict, all_rows=verbose or part is DescribePart.MEMBERS, verbose=verbose)
    yield Text((membership_line(group) if group.query is None else checkpoint_line(group.query),))
    if group.share is not None:
        lines = (settings_line(group.share), deliveries_line(group.share))
        yield from (Text((line,)) for line in lines if line)
    if group.streams is not None:
        yield Text((topology_line(group.streams),))


def title(group: Group, state: str | None = None) -> str:
    """``orders-enrich  Stable for 41m  classic  generation 112``; ``state`` includes the duration if it is known."""
    if group.query is not None:
        return f"{group.name}  {state or group.state}  streaming query  {source_words(group.query)}"
    version = _age(group)
    version_text = f"{'generation' if group.type == 'classic' else 'epoch'} {'-' if version is None else version}"
    kind = group.type
    if group.is_simple:
        kind, version_text = "classic", "offsets only"
    elif not group.is_of_consumers:
        kind = f"{group.type} ({group.protocol_type})"
    return f"{group.name}  {state or group.state}  {kind}  {version_text}"


def _verdict(group: Group, pending_lines: Sequence[str], verdict: GroupVerdict | None) -> Iterator[Block]:
    if verdict is not None:
        # Imported here: not needed without a verdict.
        from kgroup.output.pages.verdict import verdict_blocks

        yield from verdict_blocks(verdict, pending_lines)
    else:
        if following := next_line(group):
            yield Conclusion(following)
        yield LabelledLine("LAG", lag_line(group))
        yield from (LabelledLine("PENDING", line, "warn") for line in pending_lines)
        if outside := [partition for partition in group.partitions if partition.out_of_range]:
            yield LabelledLine("RANGE", range_line(outside), "bad")
    if group.partitions or group.members:
        yield BlankLine()


def checkpoint_line(query: StreamingQuery) -> str:
    """``checkpoint /lake/orders, query 7d8c1b1c-..., log v1, batches 0 to 7 kept``."""
    kept = f", batches {query.batches[0].number} to {query.batches[-1].number} kept" if query.batches else ""
    late = ", written when a batch ends (real-time mode): it may have read more since" if query.planned_late else ""
    gaps = ", numbers are missing (asynchronous progress): it may have read more" if query.has_gaps else ""
    mark = "" if query.watermark_ms is None else f", watermark {rfc3339(query.watermark_ms)}"
    named = "query without an id" if query.id is None else f"query {query.id}"
    return f"checkpoint {query.location}, {named}, log v{query.log_version}{kept}{gaps}{late}{mark}"


def settings_line(share: ShareGroup) -> str | None:
    """``starts at latest, 5 deliveries at most, lock 30s, read_uncommitted, dead letters to dlq.orders``."""
    settings = share.settings
    if settings is None:
        return None if share.unread is None else f"settings unknown: {share.unread}"
    dead = settings.dead_letters
    parts = (
        ("starts at {}", settings.start),
        ("{} deliveries at most", settings.delivery_limit),
        ("lock {}", settings.lock_ms and format_duration(settings.lock_ms / 1000)),
        ("{}", settings.isolation),
        ("dead letters to {}", dead and dead.name),
        ("{}", "no dead-letter topic" if settings.has_dead_letters and not dead else None),
    )
    return ", ".join(words.format(value) for words, value in parts if value) or None


def deliveries_line(share: ShareGroup) -> str | None:
    """What RETRIED and ARCHIVED leave out; None if there is nothing to explain."""
    read = share.deliveries
    if read is None:
        return None
    if read.unread is not None:
        return f"deliveries unknown: {read.unread}"
    if not any(each.archived for each in read.partitions.values()):
        return None
    return f"archived: all from {rfc3339(read.since_ms, 'seconds')} on; markers of transactions are among them"


def topology_line(streams: StreamsGroup) -> str:
    """``topology epoch 0, 2 subtopologies, 4 tasks, all with an owner``."""
    if streams.subtopologies is None:
        return "topology unknown: the brokers do not show it"
    tasks, lacking, other = streams.tasks, streams.without_owner, streams.other_topologies
    count = len(streams.subtopologies)
    subtopologies = "1 subtopology" if count == 1 else f"{count} subtopologies"
    parts = [f"topology epoch {streams.topology_epoch}", subtopologies]
    if streams.missing is not None:  # else its topics were not read, and which tasks there are is not known
        parts.append(plural(len(tasks), "task"))
    if lacking:
        parts.append(f"{len(lacking)} without an owner ({some_of([str(task) for task in lacking])})")
    if other:
        parts.append(f"{plural(len(other), 'member')} with another topology")
    if streams.missing:
        parts.append(f"without source topics {some_of(streams.missing)}")
    return ", ".join(parts)


def membership_line(group: Group) -> str:
    """``3 members, none idle, range assignor, leader enrich-0, coordinator 2 (b2:9092)``."""
    totals = group.totals
    if totals.member_count is None:
        parts = ["members unknown"]
    elif not totals.member_count:
        parts = ["no members"]
    else:
        assignments_known = all(member.assignment is not None for member in group.members or ())
        idle = "none idle" if assignments_known else "assignments unknown"
        if totals.idle_member_count:
            idle = f"{totals.idle_member_count} idle"
        parts = [plural(totals.member_count, "member"), idle]
    if group.assignor:
        parts.append(f"{group.assignor} assignor")
    if group.leader:
        parts.append(f"leader {member_names(group).get(group.leader, group.leader)}")
    if group.coordinator:
        parts.append(f"coordinator {coordinator_text(group.coordinator)}")
    return ", ".join(parts)


def _commit_ages(state: LoggedState, now_ms: int) -> dict[TopicPartition, str]:
    """The age of each partition's commit, according to the log."""
    return {
        tp: format_duration(max(0, now_ms - logged_offset.at_ms) // 1000)
        for tp, logged_offset in state.partitions.items()
        if logged_offset.commit is not None and logged_offset.at_ms is not None
    }


def _partition_blocks(
    group: Group,
    verdict: GroupVerdict | None,
    ages: Mapping[TopicPartition, str],
    *,
    all_rows: bool,
    verbose: bool,
) -> Iterator[Block]:
    ranked = list(group.partitions)
    measured = {row.partition.tp: row for row in verdict.report.partitions} if verdict else {}
    if not all_rows:
        stuck = {tp for tp, row in measured.items() if row.status is not None and row.status.is_stuck}
        ranked.sort(key=lambda p: (p.out_of_range is None and p.error is None, p.tp not in stuck, -(p.lag or 0)))
    shown = ranked if all_rows else ranked[:ROWS_ON_A_PAGE]
    labels = member_names(group)
    owners = {tp: _names(members, labels) for tp, members in group.readers.items()} if group.is_share else {}
    rows = [_partition_row(p, labels, measured.get(p.tp), verdict, ages.get(p.tp), owners.get(p.tp)) for p in shown]
    columns = _with_wide_columns(_PARTITION_COLUMNS, only=None if verbose else "")
    if group.is_share:
        columns = tuple(replace(each, title=_OF_SHARES.get(each.title, each.title)) for each in columns)
        columns += _DELIVERY_COLUMNS
        rows = [(*row, *_delivery_cells(group.share, p.tp)) for row, p in zip(rows, shown, strict=True)]
    yield Table(columns, rows, _SPARSE_PARTITIONS)
    omitted = ranked[len(shown) :]
    if omitted:
        lags = [lag for partition in omitted if (lag := partition.lag) is not None]
        lag_range = _lag_range(lags)
        yield Text((f"{len(omitted)} more{lag_range}: --offsets shows every partition",))
    yield BlankLine()


def _names(members: Sequence[Member], labels: Mapping[str, str]) -> str:
    """``jobs-0, jobs-1``, or ``7 members``."""
    if len(members) > _MEMBERS_NAMED:
        return plural(len(members), "member")
    return ", ".join(sorted(labels[member.member_id] for member in members))


def _lag_range(lags: Sequence[int]) -> str:
    if not lags:
        return ""
    low, high = min(lags), max(lags)
    return f", lag {low} each" if low == high else f", lag {low} to {high}"


def _partition_row(
    partition: Partition,
    labels: dict[str, str],
    row: PartitionLag | None,
    verdict: GroupVerdict | None,
    logged_age: str | None,
    readers: str | None,
) -> tuple[Cell, ...]:
    time_lag, committed, status = (None, None, None) if row is None or verdict is None else _measurements(row, verdict)
    commit, log, owner = partition.commit, partition.log, partition.owner
    return (
        f"{partition.tp}",
        commit.offset if commit else None,
        commit.leader_epoch if commit else None,
        log.start if log else None,
        log.end if log else None,
        partition.lag if row is None else row.lag,
        time_lag,
        committed or logged_age,
        _status(partition) or status,
        labels[owner.member_id] if owner else readers,
        owner.member_id if owner else None,
        owner.host if owner else None,
        commit.metadata if commit and commit.metadata else None,
    )


def _delivery_cells(share: ShareGroup | None, tp: TopicPartition) -> tuple[Cell, Cell, Cell]:
    state = share.deliveries.partitions.get(tp) if share and share.deliveries else None
    if state is None or share is None:
        return None, None, None
    last = state.last_attempts(share.delivery_limit)
    return state.retried, Styled(str(last), "warn") if last else last, state.archived


def _measurements(row: PartitionLag, verdict: GroupVerdict) -> tuple[Cell, Cell, Cell]:
    # Imported here: it is already loaded if there is a verdict, and not needed otherwise.
    from kgroup.output.pages.lag_cells import commit_age, status_cell, time_lag_words

    now_ms = verdict.report.now_ms
    return time_lag_words(row), commit_age(row, now_ms), status_cell(row.status_result, now_ms)


def _status(partition: Partition) -> Cell:
    status = partition.error or partition.out_of_range
    style: Style = "warn" if partition.error else "bad"
    return Styled(status, style) if status else None


def _member_blocks(group: Group, verdict: GroupVerdict | None, *, all_rows: bool, verbose: bool) -> Iterator[Block]:
    members = group.members or ()
    lags: Counter[str] = Counter()
    for partition in group.partitions:
        if partition.owner and partition.lag is not None:
            lags[partition.owner.member_id] += partition.lag
    ranked = sorted(members, key=lambda m: -lags[m.member_id])
    shown = ranked if all_rows else ranked[:ROWS_ON_A_PAGE]
    labels, mixed = member_names(group), len({member.protocol for member in members}) > 1
    rows = [_member_row(m, labels[m.member_id], lags.get(m.member_id), mixed, verdict) for m in shown]
    columns = _with_wide_columns(_MEMBER_COLUMNS, only=None if verbose else "MEMBER-ID" if all_rows else "")
    yield Table(columns, rows, _SPARSE_MEMBERS)
    if len(shown) < len(ranked):
        yield Text((f"{len(ranked) - len(shown)} more: --members shows every member",))
    yield BlankLine()


def _member_row(
    member: Member, label: str, lag: int | None, mixed: bool, verdict: GroupVerdict | None
) -> tuple[Cell, ...]:
    facts = verdict.evidence.members.get(member.member_id) if verdict else None
    differs = member.target is not None and member.target != member.assignment
    return (
        label,
        member.member_id,
        member.instance_id,
        member.host,
        member.rack,
        member.protocol if mixed else None,
        Styled("left (-2)", "warn") if member.left_temporarily else member.epoch,
        member.partition_count if member.assignment is not None else None,
        lag,
        None if verdict is None else stuck_partitions(verdict, member),
        None if facts is None else _duration(facts.session_timeout_ms),
        None if facts is None else _duration(facts.max_poll_interval_ms),
        assignment_text(member.assignment),
        assignment_text(member.target) if differs else None,
    )


def stuck_partitions(verdict: GroupVerdict, member: Member) -> int | None:
    """How many of the member's partitions are stuck; None if the status of none is known."""
    owners = [(row.partition.owner, row.status) for row in verdict.report.partitions]
    known = [status for owner, status in owners if status and owner and owner.member_id == member.member_id]
    return sum(status.is_stuck for status in known) if known else None


def _duration(length_ms: int | None) -> str | None:
    return None if length_ms is None else format_duration(length_ms / 1000)


def _with_wide_columns(columns: Sequence[Column], only: str | None) -> tuple[Column, ...]:
    """Show the wide column ``only`` (None: all wide columns) without ``-o wide`` too, as far as there is room."""
    return tuple(
        replace(column, wide=False, drop=_DROPPED_FIRST) if column.wide and only in (None, column.title) else column
        for column in columns
    )


def _state_row(group: Group) -> tuple[Cell, ...]:
    return (
        group.name,
        group.type,
        group.state,
        _age(group),
        group.assignor,
        coordinator_text(group.coordinator),
        group.totals.member_count,
    )


def _age(group: Group) -> str | int | None:
    """The generation, or the group epoch; with the assignment epoch if that lags behind."""
    if group.type == "classic":
        return group.generation
    if group.group_epoch == group.assignment_epoch:
        return group.group_epoch
    return f"{group.group_epoch} (assigned {group.assignment_epoch})"
