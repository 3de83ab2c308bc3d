"""Spark as a notebook has it, in this process; and the JVM of kgroup's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgroup.catchup.spark.launch import driver_environment
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings, configuration
from kgroup.settings.environment import environment, variables_set


@contextmanager
def spark_in_process(master: str) -> Iterator[Any]:
    """A SparkSession of this process, whose JVM ends with the block."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = SparkSettings(master, heavy=True)
    variables = driver_environment(check(settings, timeout_s=10), local=True, conf={}, environment=environment())
    with variables_set(variables):
        conf = SparkConf(loadDefaults=False).setAll(list(configuration(settings).items()))
        spark = SparkSession(SparkContext(conf=conf))
        gateway = SparkContext._gateway
        try:
            yield spark
        finally:
            spark.stop()
            assert gateway is not None
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            SparkContext._gateway = SparkContext._jvm = None


def jvm_of(session: DriverSession) -> int:
    """The process id of Spark's JVM, which the driver has started."""
    session.started()
    children = Path(f"/proc/{session.pid}/task").glob("*/children")
    (jvm,) = {int(pid) for file in children for pid in file.read_text().split()}
    return jvm
