"""The page of ``kgroup peek``: a table of records per partition, the offsets without a record, the next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.next_commands import skip_record
from kgroup.groups.peek import PeekedPartition, ReadLimit, lines_of
from kgroup.model.blocks import BlankLine, Block, Prose, Records, Screen, Text, Title
from kgroup.model.groups import LogRange, RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.records import VALUE_WIDTH, bytes_text, headers_text, records_blocks, value_text
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural, some_of

HEADER = ("group", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "size_bytes")


class PeekView(msgspec.Struct, frozen=True):
    """How the page is drawn. ``written_to`` is the file of ``--to``, None without one."""

    verbose: bool = False
    stuck: bool = False
    written_to: str | None = None


def outcome(
    partitions: Sequence[PeekedPartition], errors: tuple[RowError, ...], cluster: ClusterRef, view: PeekView
) -> Outcome:
    return Outcome(
        data=tuple(partition.document for partition in partitions),
        screen=lambda: screen(partitions, view),
        records=lambda: records(partitions),
        cluster=cluster,
        errors=errors,
        lines=lambda: (line.decode() for line in lines_of(partitions)),
    )


def screen(partitions: Sequence[PeekedPartition], view: PeekView) -> Screen:
    """The page, empty without partitions."""
    if not partitions:
        return Screen(())
    group = partitions[0].target.group
    what = plural(len(partitions), "stuck partition" if view.stuck else "partition")
    if len(partitions) == 1:
        what = f"{'stuck ' if view.stuck else ''}{partitions[0].target.tp}"
    blocks: list[Block] = [Title(f"{group}  {what}" if group is not None else what)]
    for number, each in enumerate(partitions):
        blocks += [BlankLine()] if number else []
        blocks += _partition(each, view)
    if view.written_to is not None:
        count = sum(len(each.records) for each in partitions)
        blocks += [BlankLine(), Text((f"{plural(count, 'record')} written to {view.written_to}.",))]
    return Screen(tuple(blocks))


def records(partitions: Sequence[PeekedPartition]) -> Records:
    """The rows for CSV: text with escapes, or the requested format."""
    return Records(
        HEADER,
        [
            (
                each.target.group,
                record.topic,
                record.partition,
                record.offset,
                rfc3339(record.timestamp_ms),
                None if record.key is None else bytes_text(record.key, each.form),
                None if record.value is None else value_text(record.value, each.form),
                headers_text(record.headers, each.form),
                record.size,
            )
            for each in partitions
            for record in each.records
        ],
    )


def _partition(each: PeekedPartition, view: PeekView) -> Iterator[Block]:
    target, log, window = each.target, each.log, each.window
    facts = [f"log {log.start} to {log.end}"]
    if target.committed is not None:
        facts.insert(0, f"{'committed' if target.deliveries is None else 'start'} {target.committed}")
    if window.offset != target.committed and target.deliveries is None:
        facts.insert(0, f"from offset {window.offset}")
    if target.status:
        facts.append(target.status)
    yield Text((f"{target.tp}  {', '.join(facts)}",))
    if target.crash_loop:
        yield Prose((target.crash_loop,))
    if each.records:
        width = None if view.verbose else VALUE_WIDTH
        committed = target.committed if target.deliveries is None else None
        yield from records_blocks(
            each.records, each.form, committed=committed, width=width, deliveries=_deliveries(each)
        )
    if lines := tuple(notes(each, empty=True)):
        yield Text(lines)
    # From another offset the next record says nothing of the group.
    if target.record is None or each.next_record is None or window.offset != target.committed:
        return
    if target.record.doubt is not None:
        yield Prose((f"The record that the group does not get past is {target.record.doubt}.",))
    record = replace(target.record, offset=each.next_record.offset)
    for command in skip_record(str(target.group), record):
        yield Text((f"To skip offset {record.offset} and keep its record:", f"  {command}"))


def _deliveries(each: PeekedPartition) -> dict[int, str] | None:
    """``2 of 3, last attempt`` by offset; None unless they are known."""
    if each.target.deliveries is None:
        return None
    limit = each.target.deliveries.limit
    of = "" if limit is None else f" of {limit}"
    return {row.offset: f"{row.delivery_count}{of}, {row.kind.replace('-', ' ')}" for row in each.deliveries or ()}


def notes(each: PeekedPartition, *, empty: bool) -> Iterator[str]:
    """Sentences on what the records of a partition do not show; ``empty``: also the offsets without a record."""
    window, log = each.window, each.log
    if empty and (ranges := each.empty_offsets):
        count = sum(offsets.end - offsets.start for offsets in ranges)
        yield (
            f"No record is at {'offset' if count == 1 else 'offsets'} {some_of([_range(each) for each in ranges], 5)}: "
            "compacted, of an aborted transaction, or a transaction marker."
        )
    if (hidden := each.hidden) is not None:
        yield (
            f"An open transaction hides {_offsets(hidden)} from read_committed consumers: "
            "--isolation read_uncommitted shows the records."
        )
    elif window.offset >= log.end and (not each.records or window.offset == each.target.committed):
        yield f"No record is at offset {window.offset} yet: the log ends there."
    if window.stopped_reason is ReadLimit.TIME:
        yield f"Incomplete: the read reached its time limit at offset {window.stop}: a longer --timeout may help."
    elif window.stopped_reason is ReadLimit.SIZE:
        yield f"Incomplete: the read reached its size limit at offset {window.stop}: use a smaller -n or --before."
    if each.not_json:
        offsets = ", ".join(map(str, each.not_json))
        yield f"Not JSON, written as text: the value at offset {offsets}."


def _offsets(offsets: LogRange) -> str:
    return f"{'offset' if offsets.end - offsets.start == 1 else 'offsets'} {_range(offsets)}"


def _range(offsets: LogRange) -> str:
    last = offsets.end - 1
    return str(last) if last == offsets.start else f"{offsets.start}-{last}"
