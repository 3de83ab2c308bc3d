"""The table: every situation of the corpus."""

from tests.situations.row import Row
from tests.situations.table import crashes, healthy, java, members, offsets, records, slow

ROWS: tuple[Row, ...] = (
    *healthy.ROWS,
    *records.ROWS,
    *crashes.ROWS,
    *slow.ROWS,
    *members.ROWS,
    *offsets.ROWS,
    *java.ROWS,
)
