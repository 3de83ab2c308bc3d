"""Rows of csv that were kept apart from their groups are those that the groups would have."""

from __future__ import annotations

import pytest

from kgroup.groups.lag.report import RowLevel, SortBy, rows_of
from kgroup.model.outcome import Outcome
from kgroup.output.pages.lag import LagRows, LagView, outcome
from kgroup.output.pages.lag_records import LagRecords
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers.cases.lag_groups import GROUPS, in_order
from tests.helpers.memory import bytes_of

CLUSTER = ClusterRef("id", "b1:9092", "prod")


def shown(level: RowLevel, by: SortBy, kept: LagRecords | None = None) -> Outcome:
    reports = in_order(by)
    if kept is not None:
        reports = [each.condensed(RowLevel.GROUP) for each in reports]
    return outcome(LagRows(reports, records=kept), LagView(level, by), CLUSTER)


@pytest.mark.parametrize("rows_of_a_part", [1, 7, 10_000])
@pytest.mark.parametrize("level", list(RowLevel))
@pytest.mark.parametrize("by", list(SortBy))
def test_rows_and_names_are_the_same(
    by: SortBy, level: RowLevel, rows_of_a_part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.output.pages.lag_records._ROWS_OF_A_PART", rows_of_a_part)
    kept = LagRecords(level, by)
    for report in GROUPS:
        kept.add(report)

    found, expected = shown(level, by, kept), shown(level, by)
    assert found.records().header == expected.records().header
    assert [*found.records().rows] == [*expected.records().rows]
    assert found.names is not None
    assert expected.names is not None
    assert [*found.names()] == [*expected.names()] == [*dict.fromkeys(row[0] for row in expected.records().rows)]


def test_no_rows() -> None:
    kept = LagRecords(RowLevel.PARTITION, SortBy.STATUS)
    assert [*kept.in_order(()).rows] == []


def test_a_row_takes_a_fifth_of_its_memory() -> None:
    kept = LagRecords(RowLevel.PARTITION, SortBy.STATUS)
    for _ in range(1_000):
        for report in GROUPS:
            kept.add(report)
    kept.in_order(each.group for each in GROUPS)
    assert bytes_of(kept) < 1_000 * len(rows_of(GROUPS, RowLevel.PARTITION)) * 120
