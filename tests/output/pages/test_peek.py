"""The page of ``kgroup peek``: what is said of a partition, and the command that follows."""

from __future__ import annotations

import pytest

from kgroup.groups.peek import PeekedPartition, PeekTarget, ReadableLog, ReadLimit, ReadWindow
from kgroup.groups.stuck_record import StuckRecord
from kgroup.model.blocks import Title
from kgroup.model.json_lines import ValueFormat
from kgroup.model.records import ConsumerRecord
from kgroup.output.pages.peek import PeekView, screen
from tests.helpers.pages import written


def record(offset: int, value: bytes = b"1") -> ConsumerRecord:
    return ConsumerRecord("pay", 2, offset, 0, None, value, ())


def peeked(
    *records: ConsumerRecord,
    group: str | None = "ledger",
    status: str | None = None,
    log: ReadableLog | None = None,
    offset: int = 4,
    stop: int | None = None,
    stopped_reason: ReadLimit | None = None,
    form: ValueFormat = ValueFormat.TEXT,
    stuck: StuckRecord | None = None,
    crash_loop: str | None = None,
) -> PeekedPartition:
    committed = None if group is None else 4
    end = stop if stop is not None else records[-1].offset + 1 if records else offset
    start = min(offset, records[0].offset if records else offset)
    window = ReadWindow(offset, start, end, records, stopped_reason)
    target = PeekTarget("pay", 2, group, committed, status, stuck, crash_loop)
    return PeekedPartition(target, log or ReadableLog(0, 20, 20), window, form)


def view(*, stuck: bool = False, written_to: str | None = None) -> PeekView:
    return PeekView(stuck=stuck, written_to=written_to)


def stuck_at(*, before: bool = False, later: bool = False) -> StuckRecord:
    return StuckRecord("pay", 2, 4, before, later)


def lines(each: PeekedPartition, shown: PeekView | None = None) -> list[str]:
    return written(screen([each], shown or view()).blocks)


@pytest.mark.parametrize(
    ("each", "line"),
    [
        (peeked(record(4), group=None), "pay:2  from offset 4, log 0 to 20"),
        (peeked(record(9), offset=9), "pay:2  from offset 9, committed 4, log 0 to 20"),
        (peeked(record(4), status="STOP 5m"), "pay:2  committed 4, log 0 to 20, STOP 5m"),
        (peeked(record(4), crash_loop="crash loop at pay:2 offset 4: ..."), "crash loop at pay:2 offset 4: ..."),
        (
            peeked(record(6), record(8)),
            "No record is at offsets 4-5, 7: compacted, of an aborted transaction, or a transaction marker.",
        ),
        (
            peeked(record(5)),
            "No record is at offset 4: compacted, of an aborted transaction, or a transaction marker.",
        ),
        (
            peeked(log=ReadableLog(0, 20, 4)),
            "An open transaction hides offsets 4-19 from read_committed consumers: --isolation read_uncommitted shows "
            "the records.",
        ),
        (peeked(offset=20), "No record is at offset 20 yet: the log ends there."),
        (
            peeked(stop=11, stopped_reason=ReadLimit.TIME),
            "Incomplete: the read reached its time limit at offset 11: a longer --timeout may help.",
        ),
        (
            peeked(record(4), stopped_reason=ReadLimit.SIZE),
            "Incomplete: the read reached its size limit at offset 5: use a smaller -n or --before.",
        ),
        (peeked(record(4, b"{"), form=ValueFormat.JSON), "Not JSON, written as text: the value at offset 4."),
    ],
)
def test_what_is_said_of_a_partition(each: PeekedPartition, line: str) -> None:
    assert line in lines(each)


@pytest.mark.parametrize(
    ("each", "end"),
    [
        (
            peeked(record(4), status="STALL 5m", stuck=stuck_at()),
            ["To skip offset 4 and keep its record:",
             "  kgroup reset ledger --to-offset pay:2=5 --save-skipped pay-2-4.jsonl"],
        ),
        (  # 4 holds no record: a consumer gets 6 first
            peeked(record(6), status="STALL 5m", stuck=stuck_at()),
            ["To skip offset 6 and keep its record:",
             "  kgroup reset ledger --to-offset pay:2=7 --save-skipped pay-2-6.jsonl"],
        ),
        (
            peeked(record(3), record(4), status="STOP 5m", stuck=stuck_at(before=True, later=True)),
            ["The record that the group does not get past is not known: offset 4 of pay:2 or a later one, or the one "
             "before if the client commits at delivery (librdkafka with auto commit): a restart passes it."],
        ),
        (
            peeked(record(4), crash_loop="crash loop at pay:2", stuck=stuck_at(later=True)),
            ["crash loop at pay:2",
             "The record that the group does not get past is not known: offset 4 of pay:2 or a later one."],
        ),
        (peeked(record(9), offset=9, stuck=stuck_at()), []),  # read from elsewhere
        (peeked(record(4), status="STOP 5m"), []),
        (peeked(record(4)), []),
        (peeked(status="STALL 5m", stuck=stuck_at()), []),
        (peeked(record(4), group=None), []),
    ],
)  # fmt: skip
def test_a_stuck_partition_ends_with_the_command_that_skips_its_record_or_with_what_is_not_known(
    each: PeekedPartition, end: list[str]
) -> None:
    found = lines(each, view(stuck=True))
    assert found[len(found) - len(end) :] == end
    assert any("reset" in line for line in found) == any("reset" in line for line in end)
    assert any("not known" in line for line in found) == any("not known" in line for line in end)


def test_titles_and_the_file() -> None:
    one, two = peeked(record(4)), peeked(record(5))
    assert screen([one], view(stuck=True)).blocks[0] == Title("ledger  stuck pay:2")
    assert screen([one, two], view(stuck=True)).blocks[0] == Title("ledger  2 stuck partitions")
    assert screen([peeked(record(4), group=None)], view()).blocks[0] == Title("pay:2")
    assert "2 records written to f." in lines(peeked(record(4), record(5)), view(written_to="f"))
