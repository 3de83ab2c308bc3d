"""The pages of ``kgroup lag``: one row per group, topic or partition, worst first; then the bounds that do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.lag.checks import Violation
from kgroup.groups.lag.rates import outlook_words, trend_words
from kgroup.groups.lag.report import (
    GroupLag,
    LagRow,
    LagSum,
    PartitionLag,
    RowLevel,
    SortBy,
    is_quiet,
    rows_of,
    sort_rows,
    split_rows,
)
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.member_labels import labels
from kgroup.groups.verdict.group import GroupVerdict
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Screen, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.output.pages.lag_cells import age_words, commit_age, status_cell, time_lag_words
from kgroup.output.pages.lag_documents import GroupLagDocument, lag_document
from kgroup.output.pages.lag_records import records_of
from kgroup.output.pages.sparkline import sparkline
from kgroup.output.pages.verdict import verdict_blocks
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.hint import Hint
from kgroup.support.units import percent, plural

REFRESHES = 20


class RefreshValues(msgspec.Struct, frozen=True):
    """The values of the last refreshes by name, oldest first; None where the name was absent."""

    count: int = 0
    values: Mapping[str, tuple[int | None, ...]] = msgspec.field(default_factory=dict)

    def after(self, current: Mapping[str, int | None], limit: int = REFRESHES) -> RefreshValues:
        """Add a refresh and drop the oldest; names that are absent from all remaining refreshes are dropped too."""
        count = min(self.count + 1, limit)
        values = {}
        for name in {**self.values, **current}:
            earlier = self.values.get(name, (None,) * self.count)
            row = (*earlier, current.get(name))[-limit:]
            if any(value is not None for value in row) or name in current:
                values[name] = row
        return RefreshValues(count, values)

    def line(self, name: str) -> str | None:
        """The sparkline of one name; None if the name is unknown, or there was only one refresh."""
        row = self.values.get(name)
        return sparkline(row) if row and self.count > 1 else None


_SUM_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TOPIC", fold=True),
    Column("STATE", drop=4),
    Column("LAG", right=True),
    Column("TIME-LAG", right=True, drop=1),
    Column("WORST", drop=5, fold=True),
    Column("TREND", right=True, drop=2),
    Column("CAUGHT-UP-IN", right=True, drop=3),
    Column("STATUS"),
    Column("LAG-HISTORY", drop=2),
)
_PARTITION_COLUMNS = (
    Column("GROUP", fold=True),
    Column("PARTITION", fold=True),
    Column("COMMITTED", right=True, drop=6),
    Column("LOG-END", right=True, drop=7),
    Column("LAG", right=True),
    Column("TIME-LAG", right=True, drop=1),
    Column("LAST-COMMIT", right=True, drop=4),
    Column("TREND", right=True, drop=2),
    Column("CAUGHT-UP-IN", right=True, drop=3),
    Column("STATUS"),
    Column("LAG-HISTORY", drop=3),
    Column("OWNER", drop=5, fold=True),
    Column("HELD-BACK", right=True, wide=True),
    Column("PHANTOM", right=True, wide=True),
)
_COLUMNS_OF_SHARES = tuple(
    replace(each, title="START") if each.title == "COMMITTED" else each for each in _PARTITION_COLUMNS
)
"""Of share groups alone, as describe has it."""
_SPARSE = frozenset(
    {"GROUP", "TOPIC", "STATE", "TIME-LAG", "LAST-COMMIT", "TREND", "CAUGHT-UP-IN", "LAG-HISTORY", "OWNER"}
)


class LagView(msgspec.Struct, frozen=True):
    """How the rows are shown: ``top`` is how many (None: all)."""

    level: RowLevel = RowLevel.GROUP
    sort: SortBy = SortBy.STATUS
    top: int | None = None


class MeasuredGroup(msgspec.Struct, frozen=True):
    """A group in the result, with what else is known of it.

    ``violations`` are the bounds that do not hold, ``pending`` its pending catch-ups in JSON form, None if unknown.
    ``past`` has the lags of the last hour by row name, for ``-o wide``.
    """

    report: GroupLag
    violations: tuple[Violation, ...] = ()
    verdict: GroupVerdict | None = None
    pending: Sequence[PendingCatchup] | None = None
    pending_lines: Sequence[str] = ()
    past: Mapping[str, tuple[int | None, ...]] = msgspec.field(default_factory=dict)

    def document(self) -> GroupLagDocument:
        return lag_document(self.report, self.violations, self.verdict, self.pending)


class LagPage:
    """The groups and rows of a page, added in parts. With ``view.top`` only the first rows of earlier parts are kept.

    Sparklines show ``refreshes``, the values of the last refreshes of ``--watch`` by row name, or with ``-o wide`` the
    past of the groups.
    """

    def __init__(self, view: LagView) -> None:
        self.view = view
        self.refreshes = RefreshValues()
        self._past: dict[str, tuple[int | None, ...]] = {}
        self.rows: list[LagRow] = []
        self.omitted: list[int | None] = []
        """The lags of the rows that are not shown."""
        self.topics: set[str | None] = set()
        self.partitions: set[int] = set()
        """The partitions of the topic if there is only one."""
        self.errors: tuple[RowError, ...] = ()
        self._groups: list[MeasuredGroup] = []

    def add(self, groups: Sequence[MeasuredGroup], errors: tuple[RowError, ...] = (), *, whole: bool = False) -> None:
        """Add a part; ``whole`` keeps all of the reports, which otherwise are left without their rows."""
        self.errors += errors
        if self.rows and self.view.top is not None:
            self._cut()
        for group in groups:
            report = group.report
            rows = rows_of([report], self.view.level)
            self.rows += (replace(row, partitions=()) if isinstance(row, LagSum) else row for row in rows)
            self.topics.update(each.topic for each in report.topics)
            if len(self.topics) == 1:
                self.partitions |= {row.partition.tp.partition for row in report.partitions}
            self._past |= group.past
            self._groups.append(group if whole else replace(group, report=report.without_rows()))

    @property
    def groups(self) -> list[MeasuredGroup]:
        """The groups in the order of their rows."""
        by_name = {group.report.group: group for group in sorted(self._groups, key=lambda group: group.report.group)}
        totals = sort_rows([group.report.total for group in by_name.values()], self.view.sort)
        return [by_name[total.group] for total in totals]

    def line(self, name: str) -> str | None:
        """The sparkline of the row of this name; None if there is none."""
        past = self._past.get(name)
        return self.refreshes.line(name) or (None if past is None else sparkline(past))

    def shown(self) -> list[LagRow]:
        """The rows in their order, at most ``view.top``; equal ones are in the order of their groups."""
        self._cut()
        return self.rows

    def _cut(self) -> None:
        place = {group.report.group: at for at, group in enumerate(self.groups)}
        self.rows.sort(key=lambda row: place[row.group])
        self.rows, omitted = split_rows(self.rows, self.view.sort, self.view.top)
        self.omitted += (row.lag for row in omitted)


def outcome(page: LagPage, cluster: ClusterRef) -> Outcome:
    """The page as the command's outcome; exit code 8 if a bound does not hold."""
    groups = page.groups
    state_of = {group.report.group: group.report.state for group in groups}
    return Outcome(
        data=tuple(group.document for group in groups),
        screen=lambda: screen(page),
        records=lambda: records_of(page.shown(), state_of),
        cluster=cluster,
        errors=page.errors,
        check_failed=any(group.violations for group in groups),
        names=lambda: dict.fromkeys(row.group for row in page.shown()),
    )


def screen(page: LagPage) -> Screen:
    """The page. A single group has its verdict above its rows; several have a count of the stuck ones below."""
    groups = page.groups
    if not groups:
        return Screen(())
    blocks: list[Block] = []
    verdict = groups[0].verdict if len(groups) == 1 else None
    if verdict is not None:
        blocks += _head(verdict, groups[0].pending_lines)
    else:
        blocks.append(Title(_title(page, groups)))
    blocks.append(_table(page, {group.report.group: group for group in groups}))
    if page.omitted:
        blocks.append(Text((_omitted_line(page.omitted),)))
    blocks += _closing_blocks(groups, verdict)
    return Screen(tuple(blocks))


def _head(verdict: GroupVerdict, pending_lines: Sequence[str]) -> Iterator[Block]:
    yield Title(f"{verdict.group.name}  {verdict.state}  {plural(len(verdict.report.partitions), 'partition')}")
    yield from verdict_blocks(verdict, pending_lines)
    yield BlankLine()


def _title(page: LagPage, groups: Sequence[MeasuredGroup]) -> str:
    """``orders  12 partitions  3 groups``; of several topics ``3 topics  3 groups``."""
    scope = plural(len(page.topics), "topic")
    if len(page.topics) == 1:
        scope = f"{next(iter(page.topics))}  {plural(len(page.partitions), 'partition')}"
    if len(groups) == 1:
        return f"{groups[0].report.group}  {groups[0].report.state}  {scope}"
    return f"{scope}  {plural(len(groups), 'group')}"


def _table(page: LagPage, groups: Mapping[str, MeasuredGroup]) -> Table:
    rows, level = page.shown(), page.view.level
    if level is RowLevel.PARTITION:
        partitions = [row for row in rows if isinstance(row, PartitionLag)]
        labels_of = {name: labels(group.verdict.group) for name, group in groups.items() if group.verdict}
        several = len(groups) > 1
        cells = [
            _partition_cells(p, groups[p.group].report, page, labels_of.get(p.group, {}), several=several)
            for p in partitions
        ]
        shares = all(group.verdict and group.verdict.group.is_share for group in groups.values())
        return Table(_COLUMNS_OF_SHARES if shares else _PARTITION_COLUMNS, cells, _SPARSE)
    sums = [row for row in rows if isinstance(row, LagSum)]
    return Table(_SUM_COLUMNS, [_sum_cells(each, groups[each.group].report, page) for each in sums], _SPARSE)


def _sum_cells(row: LagSum, report: GroupLag, page: LagPage) -> tuple[Cell, ...]:
    worst = row.largest
    return (
        report.group,
        row.topic,
        report.state if page.view.level is RowLevel.GROUP else None,
        f"{row.lag}+" if row.lag is not None and (row.unknown or row.hidden) else _lag(row, report),
        _age(row),
        None if worst is None else f"{worst.where} {percent(worst.lag or 0, row.lag or 0)}",
        _trend(row),
        _caught_up_in(row),
        status_cell(row.status_result, report.now_ms),
        page.line(row.name),
    )


def _lag(row: LagRow, report: GroupLag) -> Cell:
    """``540``, or ``<=540`` where it is an upper bound."""
    return row.lag if row.lag is None or report.at_most is None else f"<={row.lag}"


def _age(row: LagSum) -> str | None:
    """``18m``, or ``18m+`` if the age of another partition is unknown; ``<=18m`` where that has an upper bound."""
    if row.time_lag_at_most_ms is not None:
        return time_lag_words(row)
    age = age_words(row.time_lag_at_least_ms)
    return age if age is None or row.time_lag_ms is not None else f"{age}+"


def _trend(row: LagRow) -> str | None:
    """The trend of the lag. Without a reader the group has none of its own: the lag grows by what arrives."""
    return None if row.status_result.status is LagStatus.NO_READER else trend_words(row.rates)


def _caught_up_in(row: LagRow) -> str | None:
    """The time until nothing is unread. Without a reader there is none, at no rate."""
    return None if row.status_result.status is LagStatus.NO_READER else outlook_words(row.outlook)


def _partition_cells(
    row: PartitionLag,
    report: GroupLag,
    page: LagPage,
    labels_of: Mapping[str, str],
    *,
    several: bool,
) -> tuple[Cell, ...]:
    p = row.partition
    return (
        row.group if several else None,
        row.where,
        p.commit.offset if p.commit else None,
        row.end if row.end is not None else p.log.end if p.log else None,
        _lag(row, report),
        time_lag_words(row),
        commit_age(row, report.now_ms),
        _trend(row),
        _caught_up_in(row),
        status_cell(row.status_result, report.now_ms),
        page.line(row.name),
        _owner(row, labels_of),
        row.held_back,
        row.phantom or None,
    )


def _owner(row: PartitionLag, labels_of: Mapping[str, str]) -> str | None:
    owner = row.partition.owner
    if owner is None:
        return None
    return labels_of.get(owner.member_id) or owner.instance_id or owner.client_id or owner.member_id


def _omitted_line(omitted: Sequence[int | None]) -> str:
    lags = [lag for lag in omitted if lag is not None]
    span = f", lag {min(lags)} to {max(lags)}" if lags else ""
    return f"{len(omitted)} more{span}: without --top all are shown"


def _closing_blocks(groups: Sequence[MeasuredGroup], verdict: GroupVerdict | None) -> Iterator[Block]:
    lines: list[str | Hint] = [f"FAILED  {violation}" for group in groups for violation in group.violations]
    totals = [group.report.total for group in groups]
    bad = [total for total in totals if total.status is not None and total.status.is_stuck and not is_quiet(total)]
    if verdict is None and bad:
        lines.append(_bad_groups(bad, len(groups)))
        (worst,) = sort_rows(bad, SortBy.STATUS, top=1)
        lines.append(Hint("-> {}", ("describe", worst.name)))
    if lines:
        yield Text(tuple(lines))


def _bad_groups(bad: Sequence[LagSum], groups: int) -> str:
    """``1 of 317 groups is stuck, 2 have no reader while records arrive.``"""
    unread = sum(total.status is LagStatus.NO_READER for total in bad)
    stuck, of = len(bad) - unread, f" of {plural(groups, 'group')}"
    parts = []
    if stuck:
        parts.append(f"{stuck}{of} {'is' if stuck == 1 else 'are'} stuck")
    if unread:
        arriving = all(total.spans and total.spans[-1].incoming for total in bad if total.status is LagStatus.NO_READER)
        has = "has" if unread == 1 else "have"
        parts.append(f"{unread}{'' if stuck else of} {has} no reader{' while records arrive' if arriving else ''}")
    return f"{', '.join(parts)}."
