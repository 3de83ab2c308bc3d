"""The table: every situation of the corpus."""

from tests.situations.row import Row
from tests.situations.table import (
    around,
    brokers,
    crashes,
    healthy,
    java,
    members,
    offsets,
    own,
    records,
    slow,
    transactions,
)

ROWS: tuple[Row, ...] = (
    *healthy.ROWS,
    *records.ROWS,
    *crashes.ROWS,
    *slow.ROWS,
    *members.ROWS,
    *offsets.ROWS,
    *java.ROWS,
    *transactions.ROWS,
    *own.ROWS,
    *around.ROWS,
    *brokers.ROWS,
)
