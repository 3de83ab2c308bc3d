"""The page of ``kgroup export``, and its rows for csv and the format of kafka-consumer-groups.sh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kgroup.groups.offset_files import CSV_HEADER, ExportedGroup
from kgroup.model.blocks import Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode
from kgroup.support.units import plural

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("PARTITION", fold=True),
    Column("OFFSET", right=True),
    Column("LEADER-EPOCH", right=True, drop=2),
    Column("METADATA", drop=1),
)
_Row = tuple[str | int | None, ...]


def export_outcome(
    output: Format,
    groups: tuple[ExportedGroup, ...],
    errors: tuple[RowError, ...],
    ref: ClusterRef,
    *,
    with_group: bool,
) -> Outcome:
    columns = slice(None)
    if output is Format.KCG:
        columns = slice(0 if with_group else 1, CSV_HEADER.index("offset") + 1)
    rows = list(_records(groups)) if output in (Format.KCG, Format.CSV) else []
    errors += tuple(_unwritable(row, output) for row in rows if _has_nul(row[columns]))

    def records() -> Records:
        kept = (row[columns] for row in rows)
        return Records(CSV_HEADER[columns], (row for row in kept if not _has_nul(row)))

    return Outcome(data=groups, screen=lambda: _screen(groups), records=records, cluster=ref, errors=errors)


def _has_nul(row: Iterable[str | int | None]) -> bool:
    return any("\0" in value for value in row if isinstance(value, str))


def _unwritable(row: _Row, output: Format) -> RowError:
    """The error for a row with a NUL: neither kgroup nor Kafka's tool could read such a file as text."""
    group, topic, partition = str(row[0]), str(row[1]), int(row[2] or 0)
    what = "its group id" if "\0" in group else "its metadata"
    return RowError(
        "not-text",
        f"left out: {what} has a NUL character, which -o {output} cannot represent",
        group,
        topic,
        partition,
        hint="-o json and -o yaml can represent it.",
        exit_code=ExitCode.PARTLY,
    )


def _records(groups: Iterable[ExportedGroup]) -> Iterator[_Row]:
    for group in groups:
        for row in group.offsets:
            if row.offset is not None:
                yield (group.group, row.topic, row.partition, row.offset, row.leader_epoch, row.metadata)


def _screen(groups: Sequence[ExportedGroup]) -> Screen:
    if not groups:
        return Screen(())
    rows = [
        (group, f"{topic}:{partition}", offset, leader_epoch, metadata or None)
        for group, topic, partition, offset, leader_epoch, metadata in _records(groups)
    ]
    title = Title(f"{plural(len(groups), 'group')}, {plural(len(rows), 'offset')}", in_terminal_only=True)
    return Screen((title, Table(_COLUMNS, rows) if rows else Text(("No committed offsets.",))))
