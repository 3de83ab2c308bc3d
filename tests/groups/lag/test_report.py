"""The first rows of many groups are those of all rows in order."""

from __future__ import annotations

import pytest

from kgroup.groups.lag.report import FirstRows, OmittedRows, RowLevel, SortBy, rows_of, sort_rows
from tests.helpers.cases.lag_groups import GROUPS, in_order


@pytest.mark.parametrize("top", [1, 2, 20, 10_000])
@pytest.mark.parametrize("level", list(RowLevel))
@pytest.mark.parametrize("by", list(SortBy))
def test_the_first_rows_are_those_of_all(
    by: SortBy, level: RowLevel, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.groups.lag.report._AT_A_TIME", 3)
    first = FirstRows(by, top)
    for report in GROUPS:
        first.add(report, level)

    rows = sort_rows(rows_of(in_order(by), level), by)
    lags = [row.lag for row in rows[top:] if row.lag is not None]
    omitted = OmittedRows(len(rows[top:]), min(lags, default=None), max(lags, default=None))
    for _ in range(2):
        shown, left_out = first.shown()
        assert [*map(id, shown)] == [*map(id, rows[:top])]
        assert left_out == omitted


def test_no_more_rows_are_kept_than_are_needed() -> None:
    first = FirstRows(SortBy.LAG, 2)
    for _ in range(1_000):
        for report in GROUPS:
            first.add(report, RowLevel.PARTITION)

    shown, omitted = first.shown()
    assert (len(shown), omitted.count) == (2, 1_000 * len(rows_of(GROUPS, RowLevel.PARTITION)) - 2)
