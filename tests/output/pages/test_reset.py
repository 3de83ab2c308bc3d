"""What only the page of a reset says: its first line, the time, records that are skipped, a command to repeat."""

from __future__ import annotations

import pytest

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.reset_targets import ResetScenario, ShiftBy, ToTime
from kgroup.model.blocks import LabelledLine, Text
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.model.records import ConsumerRecord
from kgroup.output.pages.reset import repeatable_command, skipped_blocks, subject, target_time, with_skipped_records
from kgroup.support.json_line import plain
from kgroup.support.quoting import join
from tests.helpers.cases.lag import Part, group

ERROR = RowError("unknown-topic", "the topic does not exist")
RECORD = ConsumerRecord("orders", 0, 7, 1_767_225_600_000, b"k", b"v", ())


def row(old: int, new: int | None, partition: int = 0, name: str = "orders-enrich") -> ChangeRow:
    after = None if new is None else Commit(new, None, "")
    return ChangeRow(name, "orders", partition, Commit(old, None, ""), after, LogRange(0, 9))


def plan(*rows: ChangeRow, created: frozenset[str] = frozenset()) -> ChangePlan:
    return ChangePlan((group([Part(0, 4), Part(1, 4)]),), rows, created=created)


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ((row(5, 6),), "orders-enrich: 1 of 2 partitions, 1 offset skipped"),
        ((row(5, 8), row(5, 3, 1)), "orders-enrich: 2 partitions, 3 offsets skipped, 2 offsets repeated"),
        ((row(5, 5),), "orders-enrich: 1 of 2 partitions"),
        ((row(5, 7), row(5, 7, name="pay")), "2 groups: 2 partitions, 4 offsets skipped"),
        ((), ""),
    ],
)
def test_the_first_line_counts_what_moves(rows: tuple[ChangeRow, ...], shown: str) -> None:
    assert subject(plan(*rows)) == shown


def test_the_first_line_of_a_new_group() -> None:
    assert subject(plan(row(5, 6), created=frozenset({"orders-enrich"}))).startswith("orders-enrich (a new group): ")


@pytest.mark.parametrize(("now_ms", "ago"), [(60_000, "1m"), (0, "0s"), (-5, "0s")])
def test_the_time_that_was_understood(now_ms: int, ago: str) -> None:
    (line,) = target_time(ToTime(0), now_ms)
    assert isinstance(line, LabelledLine)
    assert line.text == f"the first record since 1970-01-01T00:00:00Z, {ago} ago"
    assert target_time(ShiftBy(1), now_ms) == ()


@pytest.mark.parametrize(
    ("records", "target", "shown"),
    [
        (None, None, None),
        ((), "kept.jsonl", "SKIPPED RECORDS  none: the skipped offsets hold no record"),
        (None, "kept.jsonl", "SKIPPED RECORDS  (will be kept in kept.jsonl)"),
        (None, "topic:kept", "SKIPPED RECORDS  (will be kept in kept)"),
        (None, "-", "SKIPPED RECORDS  (will be written to stdout)"),
        ((RECORD,), None, "SKIPPED RECORDS  (--save-skipped FILE keeps them)"),
    ],
)
def test_where_skipped_records_will_be(
    records: tuple[ConsumerRecord, ...] | None, target: str | None, shown: str | None
) -> None:
    blocks = skipped_blocks(records, target)
    assert [block.lines[0] for block in blocks[:1] if isinstance(block, Text)] == ([] if shown is None else [shown])
    assert (len(blocks) > 1) == bool(records)


@pytest.mark.parametrize(
    ("changed", "read", "offsets"),
    [
        (row(7, 8), True, [7]),
        (row(7, 8), False, None),
        (row(8, 9), True, []),  # it ends where the row begins
        (row(5, 7), True, []),  # ... and begins where it ends
        (row(5, 8, 1), True, []),
        (row(8, 7), False, []),  # nothing is skipped, so nothing need be read
        (row(7, 8).failing(ERROR), True, None),
        (row(7, None), True, None),
    ],
)
def test_the_records_that_a_row_skips(changed: ChangeRow, read: bool, offsets: list[int] | None) -> None:
    found = plain(with_skipped_records(changed, None, [RECORD] if read else None))["skipped_records"]
    assert (None if found is None else [record["offset"] for record in found]) == offsets


FIVE = tuple(row(5, 6, number) for number in range(5))


@pytest.mark.parametrize(
    ("scenario", "rows", "target", "shown"),
    [
        (ShiftBy(1), (row(5, 6),), None, "kgroup reset orders-enrich --to-offset orders:0=6"),
        (ShiftBy(1), (row(5, 6),), "f", "kgroup reset orders-enrich --to-offset orders:0=6 --save-skipped f"),
        (ShiftBy(1), (row(5, 6), row(5, 6, 1).failing(ERROR)), None, "... orders:0=6"),
        (ShiftBy(1), FIVE, None, "... orders:4=6"),
        (ShiftBy(1), (*FIVE, row(5, 6, 5)), None, None),
        (ShiftBy(1), (row(5, 6), row(5, 6, name="pay")), None, None),
        (ToTime(0), (row(5, 6),), None, None),
        (None, (row(5, 6),), None, None),
    ],
)
def test_a_command_that_is_safe_to_repeat(
    scenario: ResetScenario | None, rows: tuple[ChangeRow, ...], target: str | None, shown: str | None
) -> None:
    found = repeatable_command(plan(*rows), scenario, target, lambda *words: join(("kgroup", *words)))
    assert (found is None) == (shown is None)
    if found and shown:
        assert found.startswith("The same plan, safe to repeat:  kgroup reset orders-enrich --to-offset orders:0=6")
        assert found.endswith(shown.removeprefix("... "))
