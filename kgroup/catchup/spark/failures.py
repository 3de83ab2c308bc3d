"""Turns Spark's errors into messages that a user can act on: the cause, without the Java stack. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from kgroup.catchup.worker.failure import SPARK_WORKERS, Failure
from kgroup.model.kafka_tools import with_principal
from kgroup.support import errors
from kgroup.support.errors import KgroupError, Refused
from kgroup.support.hint import Hint

_GIVEN_UP = re.compile(
    r"Task (?P<task>\d+) in stage \S+ failed (?P<times>\d+) times?, most recent failure: "
    r"Lost task \S+ in stage \S+ \(TID \d+\) \((?P<where>[^)]*)\): (?P<why>.*)",
    re.DOTALL,
)
_JAVA_CLASS = re.compile(r"^(?:[a-z][\w$]*\.)+[A-Z][\w$]*: ")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version")
_OF_SQL = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\] (?P<why>.*)")
_NOT_OF_SQL = ("PYTHON_EXCEPTION", "TASK_WRITE_FAILED")
_ENDED = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Python worker crashed")
_CAUSES = 5
_ALWAYS_NEEDED = {"confluent_kafka": "confluent-kafka", "msgspec": "msgspec"}
"""What each worker must have, beside kgroup's own code: the module and the name for pip."""


def task_error(failure: Failure, what: str) -> KgroupError:
    """The error that a task returned; for a bug the details have its traceback. ``what`` names the task.

    Refused with code ``spark-workers`` if the worker lacks a package.
    """
    if failure.kind is None:
        if missing := _missing_package(failure.message):
            return missing
        details = tuple((failure.trace or "").splitlines())
        return KgroupError(f"{what} failed: {failure.message}", details=details)
    kind = getattr(errors, failure.kind, KgroupError)
    hint = failure.hint
    if hint is not None and not isinstance(hint, Hint):
        hint = with_principal(hint)
    error: KgroupError = kind(failure.message, details=failure.details, hint=hint, code=failure.code)
    return error


def explain(message: str, *, tasks: tuple[int, ...]) -> KgroupError:
    """The error for a job that Spark gave up, from Java's message; ``tasks`` are task numbers by Spark partition.

    Refused with code ``spark-workers`` if workers lack something, else KgroupError with code ``spark-job`` or ``sql``.
    """
    if missing := _missing_package(message):
        return missing
    if _VERSIONS.search(message):
        return Refused(
            "Spark's workers run another version of Python than kgroup",
            code=SPARK_WORKERS,
            details=(_last_of_traceback(message),),
            hint="choose a version that the workers have:  PYSPARK_PYTHON=... or --conf spark.pyspark.python=...",
        )
    match = _GIVEN_UP.search(message)
    cause = _first_line(match["why"] if match else message)
    if (of_sql := _OF_SQL.search(cause)) and of_sql["name"] not in _NOT_OF_SQL:
        return KgroupError(
            "Spark cannot evaluate the SQL for a record",
            code="sql",
            details=(f"[{of_sql['name']}] {of_sql['why']}",),
            hint="use try_cast(...), try_divide(...) and the like: they return null, and null is filtered",
        )
    if not match:
        return KgroupError("the Spark job failed", code="spark-job", details=(_first_line(message),))
    number, times = int(match["task"]), int(match["times"])
    task = tasks[number] if number < len(tasks) else number
    how = "its worker ended" if any(word in match["why"] for word in _ENDED) else "it failed"
    return KgroupError(
        f"task {task} of the Spark job failed: {how} {times} times",
        code="spark-job",
        details=(f"{match['where']}: {_cause(match['why'])}",),
    )


def _missing_package(message: str) -> Refused | None:
    match = _MISSING.search(message)
    if match is None:
        return None
    package = _ALWAYS_NEEDED.get(match[1], match[1])
    needed = " ".join(_ALWAYS_NEEDED.values()) if match[1] in _ALWAYS_NEEDED else package
    return Refused(
        f"Spark's workers have no Python package {package}",
        code=SPARK_WORKERS,
        hint=f"install what the Python of the workers needs:  pip install {needed}",
    )


def is_of_java(error: Exception) -> bool:
    """Whether the JVM answered with this error."""
    return _java_exception(error) is not None


def _java_exception(error: Exception) -> Any:
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def java_message(error: Exception) -> str:
    """The message of the Java exception, or of its cause for a failed stage; Py4J would show the whole stack."""
    java = _java_exception(error)
    messages: list[str] = []
    with suppress(Exception):  # getMessage() asks the JVM, which may be gone
        while java is not None and len(messages) < _CAUSES:
            messages.append(str(java.getMessage() or java.toString()))
            java = java.getCause()
    for said in messages:
        if "Job aborted due to stage failure" in said:
            return said
    return messages[0] if messages else _text_of(error)


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # Py4J asks its JVM for the text
        return type(error).__name__


def was_cancelled(message: str) -> bool:
    """Whether this is Spark's message for a cancelled job."""
    return re.search(r"\bJob \d+ cancelled\b|SPARK_JOB_CANCELLED", message) is not None


def _cause(text: str) -> str:
    if "Traceback (most recent call last)" in text:
        return _last_of_traceback(text)
    return _first_line(text)


def _last_of_traceback(text: str) -> str:
    """The line with the exception: the last line before Java's stack."""
    lines = [line.strip() for line in text.split("\n\tat ")[0].splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    while _JAVA_CLASS.match(line):
        line = _JAVA_CLASS.sub("", line)
    return line
