"""``--where "SQL"``: which records are wanted, as Spark SQL says it; looked at before anything moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark.source import MARK, ddl
from kgroup.support.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_COLUMNS = "key, value, topic, partition, offset, timestamp, timestampType, headers"
_MOST_LINES = 6
_OF_TODAY = re.compile(r"""\b(?:date|timestamp\w*)\s*['"]\s*(?:now|today|yesterday|tomorrow)\b""", re.IGNORECASE)
"""Literals whose value is that of the moment in which they are read: nothing of it is left to be seen in the plan."""
_STATE = re.compile(r"\.? SQLSTATE: \w{5}\b(; line \d+ pos \d+)?")


def check(spark: SparkSession, sql: str) -> None:
    """Let Spark analyse it, on a frame without rows.

    Raises UsageError for what does not parse, names no column, is no condition, gives another answer each time (a task
    that is tried again must find the same) or later on (``now()``: a plan is gone on with), or asks another table.
    """
    from pyspark.sql import functions

    if not sql.strip():
        raise UsageError("--where: a condition is wanted", hint='--where "partition = 3"')
    with _said(sql):
        found: Any = spark.createDataFrame([], ddl()).where(functions.expr(sql))
        plan = found._jdf.queryExecution().analyzed()
    java: Any = spark._jvm
    if java.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(plan.expressions().head()):
        raise UsageError(
            f"--where {sql}: a condition on one record at a time is wanted, and this one asks a table",
            hint="--to-files DIR first, and join those with Spark",
        )
    if not plan.deterministic():
        raise UsageError(
            f"--where {sql}: it says something else each time that it is asked, and a task may be tried again",
            hint='a sample of one in a hundred keys: --where "abs(hash(key)) % 100 = 0"',
        )
    current = java.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if plan.containsPattern(current) or _OF_TODAY.search(sql):
        raise UsageError(
            f"--where {sql}: it says something else later, or to somebody else, and a plan may be gone on with then",
            hint="--where \"timestamp >= '2026-01-31T18:00:00Z'\": a time that stays",
        )


def condition(sql: str) -> Column:
    """What filters a frame with books: the rows that keep them are never left out."""
    from pyspark.sql import functions

    return functions.when(functions.col(MARK), functions.lit(True)).otherwise(functions.expr(sql))


@contextmanager
def _said(sql: str) -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        lines = message_lines(str(error))
        raise UsageError(
            f"--where {sql}: {lines[0]}",
            details=tuple(lines[1:_MOST_LINES]),
            hint=f"the columns are {_COLUMNS}; key and value are binary: cast(value as string)",
        ) from None


def message_lines(text: str) -> list[str]:
    """What Spark says of SQL, without its plan and Java's stack; one line at least. Pure."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("JVM stacktrace", "\tat ", "'Filter", "'Project", "Filter ", "+- ", "Caused by")):
            break
        if line.strip():
            lines.append(_STATE.sub("", line).rstrip(" ;"))
    return lines or ["Spark refuses it"]
