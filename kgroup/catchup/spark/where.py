"""``--where "SQL"``: the condition for wanted records, in Spark SQL; checked before any offset moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark.source import NOT_A_RECORD, WANTED, ddl
from kgroup.support.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "key, value, topic, partition, offset, timestamp, timestampType, headers"
_CONTENTS = ("key", "value", "headers")
_MOST_LINES = 6
_OF_TODAY = re.compile(r"""\b(?:date|timestamp\w*)\s*['"]\s*(?:now|today|yesterday|tomorrow)\b""", re.IGNORECASE)
"""Literals that Spark replaces by the current time when it parses them, so that the plan does not show it."""
_STATE = re.compile(r"\.? SQLSTATE: \w{5}\b(; line \d+ pos \d+)?")


def check(spark: SparkSession, sql: str) -> None:
    """Let Spark analyse the condition on an empty frame. Raises UsageError if it is not usable.

    It must parse, use known columns, be boolean, and read no other table. Its result must not change with each call (a
    retried task must find the same records) or with time (``now()``: a plan may be resumed).
    """
    from pyspark.sql import functions

    if not sql.strip():
        raise UsageError("--where requires a condition", hint='for example --where "partition = 3"')
    with as_usage_error("--where", sql):
        rows: Any = spark.createDataFrame([], ddl()).where(functions.expr(sql))
        plan = rows._jdf.queryExecution().analyzed()
    java: Any = spark._jvm
    if java.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(plan.expressions().head()):
        raise UsageError(
            f"--where {sql}: a condition must use one record only, and this one reads a table",
            hint="use --to-files DIR, and join the files with Spark",
        )
    if not plan.deterministic():
        raise UsageError(
            f"--where {sql}: must be deterministic, because tasks can be retried",
            hint='for a sample of one in a hundred keys: --where "abs(hash(key)) % 100 = 0"',
        )
    current = java.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if plan.containsPattern(current) or _OF_TODAY.search(sql):
        raise UsageError(
            f"--where {sql}: must not depend on the current time or user, because the plan can be resumed later",
            hint="use a fixed time: --where \"timestamp >= '2026-01-31T18:00:00Z'\"",
        )


def with_wanted(rows: DataFrame, sql: str | None) -> DataFrame:
    """The rows with the column ``WANTED``: whether it is a record that meets the condition (None: every record).

    No row is dropped, since the tasks count what is filtered out; but such a row has no contents.
    """
    from pyspark.sql import functions

    if sql is None:
        return rows.withColumn(WANTED, ~functions.col(NOT_A_RECORD))
    met = functions.coalesce(functions.expr(sql), functions.lit(False))
    rows = rows.withColumn(WANTED, functions.when(functions.col(NOT_A_RECORD), functions.lit(False)).otherwise(met))
    wanted = functions.col(WANTED)
    return rows.withColumns({name: functions.when(wanted, functions.col(name)) for name in _CONTENTS})


@contextmanager
def as_usage_error(option: str, sql: str) -> Iterator[None]:
    """Turn Spark's errors about the SQL of this option into a UsageError."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        lines = message_lines(str(error))
        raise UsageError(
            f"{option} {sql}: {lines[0]}",
            details=tuple(lines[1:_MOST_LINES]),
            hint=f"the columns are {_COLUMNS}; key and value are binary: cast(value as string)",
        ) from None


def message_lines(text: str) -> list[str]:
    """Spark's message without the query plan and Java's stack; at least one line. Pure."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("JVM stacktrace", "\tat ", "'Filter", "'Project", "Filter ", "+- ", "Caused by")):
            break
        if line.strip():
            lines.append(_STATE.sub("", line).rstrip(" ;"))
    return lines or ["Spark rejects the condition"]
