"""The table: every situation of the corpus."""

from tests.situations.row import Row
from tests.situations.table import healthy, records

ROWS: tuple[Row, ...] = (*healthy.ROWS, *records.ROWS)
