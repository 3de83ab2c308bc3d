"""The pages of ``kgroup lag``: one row per group, topic or partition, worst first; then the bounds that do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kgroup.groups.lag.checks import Violation
from kgroup.groups.lag.rates import outlook_words, trend_words
from kgroup.groups.lag.report import (
    FirstRows,
    GroupLag,
    LagRow,
    LagSum,
    OmittedRows,
    PartitionLag,
    RowLevel,
    SortBy,
    rows_of,
    sort_rows,
)
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.member_labels import labels
from kgroup.groups.verdict.group import GroupVerdict
from kgroup.model.blocks import BlankLine, Block, Cell, Column, LabelledLine, Records, Screen, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.packed_document import PackedDocument
from kgroup.output.pages.lag_cells import age_words, commit_age, status_cell
from kgroup.output.pages.lag_records import LagRecords, records_of
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.hint import Hint
from kgroup.support.units import percent, plural

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For a terminal without block characters."""

REFRESHES = 20


def sparkline(values: Sequence[int | None], width: int = REFRESHES, steps: str = BLOCKS) -> str:
    """The last ``width`` values, the newest at the right; a blank is an unknown value.

    The scale runs from the smallest to the largest of them, so that movement is visible however large the lag is. If
    all are equal, each is the lowest step. ``sparkline([0, 5, 10])`` is ``▁▅█``.
    """
    recent = list(values)[-width:] if width > 0 else []
    known = [value for value in recent if value is not None]
    if not known:
        return " " * len(recent)
    low, span = min(known), max(known) - min(known)
    highest_step = len(steps) - 1

    def step(value: int) -> str:
        return steps[(2 * highest_step * (value - low) + span) // (2 * span)] if span else steps[0]

    return "".join(" " if value is None else step(value) for value in recent)


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

    def line(self, name: str, steps: str = BLOCKS) -> str | None:
        """The sparkline of one name; None if the name is unknown, or there was only one refresh."""
        row = self.values.get(name)
        return sparkline(row, steps=steps) if row and self.count > 1 else None


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
_SPARSE = frozenset(
    {"GROUP", "TOPIC", "STATE", "TIME-LAG", "LAST-COMMIT", "TREND", "CAUGHT-UP-IN", "LAG-HISTORY", "OWNER"}
)


class LagView(msgspec.Struct, frozen=True):
    """How the rows are shown: ``top`` is how many (None: all), ``steps`` the characters of the sparklines."""

    level: RowLevel = RowLevel.GROUP
    sort: SortBy = SortBy.STATUS
    top: int | None = None
    steps: str = BLOCKS


class LagRows(msgspec.Struct, frozen=True):
    """The data to show: measurements, bounds that do not hold, and what else is known.

    ``verdicts`` has the groups whose verdict was requested. ``refreshes`` has the values of the last refreshes of
    ``--watch`` by row name; without ``--watch`` there is one refresh and no sparkline. ``pending_lines`` has the
    pending catch-ups by group as lines, ``pending`` the same in JSON form, None if unknown. If the reports are
    condensed, ``scope`` is what they are about; what is shown of their rows is in ``documents``, the JSON forms by
    group, in ``records``, the rows of csv, or in ``first``, the only rows that are shown.
    """

    reports: Sequence[GroupLag]
    violations: Sequence[Violation] = ()
    verdicts: Mapping[str, GroupVerdict] = msgspec.field(default_factory=dict)
    refreshes: RefreshValues = msgspec.field(default_factory=RefreshValues)
    pending_lines: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    pending: Mapping[str, Sequence[Mapping[str, Any]] | None] | None = None
    scope: LagScope | None = None
    documents: Mapping[str, PackedDocument] = msgspec.field(default_factory=dict)
    records: LagRecords | None = None
    first: FirstRows | None = None


class LagScope(msgspec.Struct):
    """The topics of all measured groups, and the partitions of the topic if there is only one."""

    topics: set[str] = msgspec.field(default_factory=set)
    partitions: set[int] = msgspec.field(default_factory=set)

    def add(self, report: GroupLag) -> None:
        """Add the partitions of a group."""
        self.topics.update(of_topic.topic for of_topic in report.topics if of_topic.topic is not None)
        if len(self.topics) == 1:
            self.partitions |= {row.partition.tp.partition for row in report.partitions}

    @property
    def words(self) -> str:
        """``orders  12 partitions``; of several topics ``3 topics``."""
        if len(self.topics) == 1:
            return f"{next(iter(self.topics))}  {plural(len(self.partitions), 'partition')}"
        return plural(len(self.topics), "topic")


def packed(
    report: GroupLag, violations: Sequence[Violation], pending: Sequence[Mapping[str, Any]] | None
) -> PackedDocument:
    """The JSON form of a group without a verdict, for reports that are condensed afterwards."""
    return PackedDocument(_Subject(report, tuple(violations), None, pending).document())


class _Subject(msgspec.Struct, frozen=True):
    """A group in the result, with all its rows even if the page shows fewer."""

    report: GroupLag
    violations: tuple[Violation, ...]
    verdict: GroupVerdict | None
    pending: Sequence[Mapping[str, Any]] | None

    def document(self) -> Mapping[str, Any]:
        return {
            **self.report.document(),
            "violations": [violation.document() for violation in self.violations],
            "verdict": None if self.verdict is None else self.verdict.document(),
            "pending_catchups": None if self.pending is None else list(self.pending),
        }


def outcome(lag_rows: LagRows, view: LagView, cluster: ClusterRef, errors: tuple[RowError, ...] = ()) -> Outcome:
    """Measured groups as the command's outcome; exit code 8 if a bound does not hold."""
    names = {report.group for report in lag_rows.reports}
    violations_of = {name: tuple(v for v in lag_rows.violations if v.group == name) for name in names}
    pending = lag_rows.pending
    return Outcome(
        data=tuple(
            lag_rows.documents.get(report.group)
            or _Subject(
                report,
                violations_of[report.group],
                lag_rows.verdicts.get(report.group),
                None if pending is None else pending.get(report.group, ()),
            )
            for report in lag_rows.reports
        ),
        screen=lambda: screen(lag_rows, view),
        records=lambda: records(lag_rows, view),
        cluster=cluster,
        errors=errors,
        check_failed=bool(lag_rows.violations),
        names=lambda: dict.fromkeys(str(row[0]) for row in records(lag_rows, view).rows),
    )


def records(lag_rows: LagRows, view: LagView) -> Records:
    """The rows of the level as a flat table, in the requested order, at most ``view.top``."""
    if lag_rows.records is not None:
        return lag_rows.records.in_order(report.group for report in lag_rows.reports)
    state_of = {report.group: report.state for report in lag_rows.reports}
    shown, _ = _shown_rows(lag_rows, view)
    return records_of(shown, state_of)


def _shown_rows(lag_rows: LagRows, view: LagView) -> tuple[Sequence[LagRow], OmittedRows]:
    """The rows that are shown, in their order, and what is left out."""
    if lag_rows.first is not None:
        return lag_rows.first.shown()
    rows = sort_rows(rows_of(lag_rows.reports, view.level), view.sort)
    shown = rows if view.top is None else rows[: view.top]
    omitted = OmittedRows()
    omitted.add(rows[len(shown) :])
    return shown, omitted


def screen(lag_rows: LagRows, view: LagView) -> Screen:
    """The page. A single group has its verdict above its rows; several have a count of the stuck ones below."""
    reports = lag_rows.reports
    if not reports:
        return Screen(())
    blocks: list[Block] = []
    verdict = lag_rows.verdicts.get(reports[0].group) if len(reports) == 1 else None
    if verdict is not None:
        blocks += _head(verdict, lag_rows.pending_lines.get(verdict.group.name, ()))
    else:
        blocks.append(Title(_title(reports, lag_rows.scope)))
    shown, omitted = _shown_rows(lag_rows, view)
    blocks.append(_table(shown, lag_rows, view))
    if omitted.count:
        blocks.append(Text((_omitted_line(omitted),)))
    blocks += _closing_blocks(lag_rows, verdict)
    return Screen(tuple(blocks))


def _head(verdict: GroupVerdict, pending_lines: Sequence[str]) -> Iterator[Block]:
    yield Title(f"{verdict.group.name}  {verdict.state}  {plural(len(verdict.report.partitions), 'partition')}")
    lag, *others = (LabelledLine(line.word, line.text, line.style) for line in verdict.lines)
    yield lag
    yield from (LabelledLine("PENDING", line, "warn") for line in pending_lines)
    yield from others
    if verdict.next is not None:
        yield Text((f"-> {verdict.next}",))
    if verdict.commands:
        yield Text(tuple(f"   {command}" for command in verdict.commands))
    yield BlankLine()


def _title(reports: Sequence[GroupLag], scope: LagScope | None) -> str:
    if scope is None:
        scope = LagScope()
        for report in reports:
            scope.add(report)
    if len(reports) == 1:
        return f"{reports[0].group}  {reports[0].state}  {scope.words}"
    return f"{scope.words}  {plural(len(reports), 'group')}"


def _table(rows: Sequence[LagRow], lag_rows: LagRows, view: LagView) -> Table:
    if view.level is RowLevel.PARTITION:
        partitions = [row for row in rows if isinstance(row, PartitionLag)]
        report_of = {r.group: r for r in lag_rows.reports}
        several = len(lag_rows.reports) > 1
        labels_of = {name: labels(verdict.group) for name, verdict in lag_rows.verdicts.items()}
        cells = [
            _partition_cells(p, report_of[p.group], lag_rows, view, labels_of.get(p.group, {}), several=several)
            for p in partitions
        ]
        return Table(_PARTITION_COLUMNS, cells, _SPARSE)
    sums = [row for row in rows if isinstance(row, LagSum)]
    report_of = {report.group: report for report in lag_rows.reports}
    return Table(_SUM_COLUMNS, [_sum_cells(each, report_of[each.group], lag_rows, view) for each in sums], _SPARSE)


def _sum_cells(row: LagSum, report: GroupLag, lag_rows: LagRows, view: LagView) -> tuple[Cell, ...]:
    worst = row.largest
    return (
        report.group,
        row.topic,
        report.state if view.level is RowLevel.GROUP else None,
        f"{row.lag}+?" if row.lag is not None and (row.unknown or row.hidden) else row.lag,
        age_words(row.time_lag_ms),
        None if worst is None else f"{worst.where} {percent(worst.lag or 0, row.lag or 0)}",
        _trend(row),
        _caught_up_in(row),
        status_cell(row.status_result, report.now_ms),
        lag_rows.refreshes.line(row.name, view.steps),
    )


def _trend(row: LagRow) -> str | None:
    """The trend of the lag. Without a reader the group has none of its own: the lag grows by what arrives."""
    return None if row.status_result.status is LagStatus.NO_READER else trend_words(row.rates)


def _caught_up_in(row: LagRow) -> str | None:
    """The time until nothing is unread. Without a reader there is none, at no rate."""
    return None if row.status_result.status is LagStatus.NO_READER else outlook_words(row.outlook)


def _partition_cells(
    row: PartitionLag,
    report: GroupLag,
    lag_rows: LagRows,
    view: LagView,
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
        row.lag,
        age_words(row.time_lag_ms),
        commit_age(row, report.now_ms),
        _trend(row),
        _caught_up_in(row),
        status_cell(row.status_result, report.now_ms),
        lag_rows.refreshes.line(row.name, view.steps),
        _owner(row, labels_of),
        row.held_back,
        row.phantom or None,
    )


def _owner(row: PartitionLag, labels_of: Mapping[str, str]) -> str | None:
    owner = row.partition.owner
    if owner is None:
        return None
    return labels_of.get(owner.member_id) or owner.instance_id or owner.client_id or owner.member_id


def _omitted_line(rows: OmittedRows) -> str:
    span = "" if rows.smallest is None else f", lag {rows.smallest} to {rows.largest}"
    return f"{rows.count} more{span}: without --top all are shown"


def _closing_blocks(lag_rows: LagRows, verdict: GroupVerdict | None) -> Iterator[Block]:
    lines = [f"FAILED  {violation}" for violation in lag_rows.violations]
    stuck = [r for r in lag_rows.reports if r.total.status is not None and r.total.status.is_stuck]
    if verdict is None and stuck:
        are = "is" if len(stuck) == 1 else "are"
        lines.append(f"{len(stuck)} of {plural(len(lag_rows.reports), 'group')} {are} stuck.")
        (worst,) = sort_rows([r.total for r in stuck], SortBy.STATUS, top=1)
        lines.append(Hint("-> {}", ("describe", worst.name)))
    if lines:
        yield Text(tuple(lines))
