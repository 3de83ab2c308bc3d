"""What Spark and its workers say when something fails, told without a Java stack."""

from __future__ import annotations

import importlib

import pytest

from kgroup.catchup.spark.failures import explain, task_error, was_cancelled
from kgroup.catchup.worker.failure import failure_of
from kgroup.cluster.transactions import CommitUnknown
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, Refused, Unreachable

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage "
    "3.0 (TID 12) (10.0.0.5 executor 2): "
)
DRIVER = "\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)"


@pytest.mark.parametrize(
    "error",
    [
        Refused("task 1: too late", code="superseded", details=("a", "b"), hint="resume it"),
        Unreachable("no answer"),
        NotAuthorized("topic t: no", code="no-write"),
    ],
)
def test_an_error_of_ours_arrives_as_it_was(error: KgroupError) -> None:
    found = task_error(failure_of(error), "task 1")

    assert type(found) is type(error)
    assert (found.message, found.code, found.details, found.hint) == (
        error.message,
        error.code,
        error.details,
        error.hint,
    )


def test_an_error_of_another_module_keeps_its_exit_code() -> None:
    found = task_error(failure_of(CommitUnknown("who knows")), "task 1")

    assert (found.exit_code, found.message) == (CommitUnknown.exit_code, "who knows")


def test_a_bug_keeps_its_traceback() -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError as error:
        failure = failure_of(error)

    found = task_error(failure, "task 3")

    assert found.message == "task 3 failed: ZeroDivisionError: integer division or modulo by zero"
    assert found.exit_code == ExitCode.FAILED
    assert any("test_failures.py" in line for line in found.details)


@pytest.mark.parametrize(
    ("why", "how", "cause"),
    [
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.X(Y.scala:1)",
            "its worker ended",
            "Python worker exited unexpectedly (crashed)",
        ),
        (
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: exited with 137",
            "its worker ended",
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: exited with 137",
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/x/worker.py", line 1, in main\n    process()\nValueError: odd\n\n\tat org.apache.Z(Y.scala:1)',
            "it failed",
            "ValueError: odd",
        ),
    ],
)
def test_a_task_that_spark_gave_up(why: str, how: str, cause: str) -> None:
    found = explain(LOST + why + DRIVER, tasks=(40, 41))

    assert found.message == f"task 41 of the Spark job failed: {how} 4 times"
    assert found.details == (f"10.0.0.5 executor 2: {cause}",)
    assert (found.code, found.exit_code) == ("spark-job", ExitCode.FAILED)


@pytest.mark.parametrize(("module", "package"), [("confluent_kafka.x", "confluent-kafka"), ("msgspec", "msgspec")])
def test_workers_that_lack_a_package(module: str, package: str) -> None:
    """The hint has both that each worker needs."""
    why = f"org.x.PythonException: Traceback\nModuleNotFoundError: No module named '{module}'\n"

    found = explain(LOST + why + DRIVER, tasks=(0, 1))

    assert (found.code, found.exit_code) == ("spark-workers", ExitCode.REFUSED)
    assert found.message == f"Spark's workers have no Python package {package}"
    assert found.hint
    assert "pip install confluent-kafka msgspec" in found.hint


def test_a_task_that_lacks_a_package() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("confluent_kafka.of_no_version")

    found = task_error(failure_of(caught.value), "task 3")

    assert (found.code, found.exit_code, found.details) == ("spark-workers", ExitCode.REFUSED, ())
    assert found.message == "Spark's workers have no Python package confluent-kafka"


def test_workers_of_another_python() -> None:
    why = "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9\n"

    assert explain(LOST + why, tasks=(0, 1)).code == "spark-workers"


def test_whatever_else_spark_says() -> None:
    found = explain("org.apache.spark.SparkException: a.b.CException: It is odd\n\tat x.y(Z.scala:1)", tasks=())

    assert (found.message, found.details) == ("the Spark job failed", ("It is odd",))


def test_cancelled() -> None:
    assert was_cancelled("Job 3 cancelled part of cancelled job group kgroup-catchup")
    assert was_cancelled("[SPARK_JOB_CANCELLED] Job 0 cancelled ...")
    assert not was_cancelled(LOST)
