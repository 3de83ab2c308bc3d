"""The driver: a child process that holds the SparkContext, and runs one call of kgroup after the other.

Spark's log, its globals and its death stay in this process. It ends if kgroup does, and as its JVM does.
pyspark is imported only inside functions.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any

from kgroup.catchup.spark.failures import is_of_java, java_message
from kgroup.catchup.worker.failure import failure_of
from kgroup.support.errors import KgroupError

JOB_GROUP = "kgroup-catchup"
_ENDS_WITHIN_S = 3.0


class Message(Enum):
    """What a message between kgroup and the driver is; each is sent as a pair with its value."""

    CALL = "kgroup calls a function: the pickled pair of it and its arguments"
    REPLY = "kgroup's answer to what a function asked"
    REFUSED = "kgroup has no answer: the function must end"
    CANCEL = "the job of Spark that runs now must end"
    END = "the driver must end"
    ASKED = "a function asks kgroup, and waits for the reply"
    RETURNED = "what the called function returned"
    RAISED = "the Failure of a KgroupError that the called function raised"
    SPARK_RAISED = "the text of another error of the called function: Java's message, or its own"


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """A started Spark: its whole configuration, and how many tasks its workers take at once so far."""

    conf: Mapping[str, str]
    parallelism: int


class Driver:
    """What a called function gets as its first argument."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending, self._asking = threading.Lock(), threading.Lock()
        self._replies: queue.SimpleQueue[tuple[Message, Any]] = queue.SimpleQueue()
        self._sql: Any = None
        self.context: Any = None
        """The SparkContext; None before ``start``."""

    def sql(self) -> Any:
        """A SparkSession on the context; Spark takes seconds to load it."""
        from pyspark.sql import SparkSession

        if self._sql is None:
            self._sql = SparkSession(self.context)
        return self._sql

    def ask(self, value: Any) -> Any:
        """Send a value to the callback of the call, and return what that returns. Raises RuntimeError if it raised."""
        with self._asking:
            self._send(Message.ASKED, value)
            kind, answer = self._replies.get()
        if kind is Message.REFUSED:
            raise RuntimeError("kgroup refused")
        return answer

    def serve(self) -> None:
        """Run calls until kgroup ends, or says so. Then Spark stops with the standard input of its JVM."""
        while True:
            try:
                kind, value = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            match kind:
                case Message.CALL:
                    _in_background(self._run, value)
                case Message.CANCEL:
                    _in_background(self._cancel)
                case Message.END:
                    os._exit(0)
                case _:
                    self._replies.put((kind, value))

    def _run(self, packed: bytes) -> None:
        try:
            function, arguments = pickle.loads(packed)
            kind, answer = Message.RETURNED, function(self, *arguments)
        except KgroupError as error:
            kind, answer = Message.RAISED, failure_of(error)
        except Exception as error:  # Py4J can raise anything
            if not is_of_java(error):  # a JVM's sockets break a moment before its process ends, and this one with it
                time.sleep(_ENDS_WITHIN_S)
            kind, answer = Message.SPARK_RAISED, java_message(error)
        self._send(kind, answer)

    def _send(self, kind: Message, value: Any) -> None:
        with self._sending:
            self._connection.send((kind, value))

    def _cancel(self) -> None:
        with suppress(Exception):
            self.context.cancelJobGroup(JOB_GROUP)


def start(driver: Driver, conf: Mapping[str, str], of_workers: Mapping[str, str], package: str | None) -> SparkFacts:
    """Start Spark. ``of_workers`` are variables of its Python workers; ``package`` is a zip that is sent to them."""
    from pyspark import SparkConf, SparkContext

    _without_numpy()
    spark_conf = SparkConf(loadDefaults=False)
    for name, value in conf.items():
        spark_conf.set(name, value)
    driver.context = context = SparkContext(conf=spark_conf, environment=dict(of_workers))
    jvm: Any = context._jvm
    _in_background(_end_as, jvm.java.lang.ProcessHandle.current().pid())
    if package is not None:
        context.addPyFile(package)
    return SparkFacts(dict(context.getConf().getAll()), context.defaultParallelism)


def _without_numpy() -> None:
    """Remove PySpark's converters of NumPy values: the first call into Java would import pandas for them (0.4 s)."""
    from py4j.protocol import INPUT_CONVERTER  # type: ignore[import-untyped]
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    numpys = (NumpyArrayConverter, NumpyScalarConverter)
    INPUT_CONVERTER[:] = [converter for converter in INPUT_CONVERTER if not isinstance(converter, numpys)]


def on_sql(driver: Driver, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with a SparkSession as its first argument."""
    return function(driver.sql(), *arguments)


def _end_as(jvm: int) -> None:
    """End this process as its JVM ended, by the same signal or with the same exit code; it is of no use without it."""
    ended = os.waitid(os.P_PID, jvm, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    if ended.si_code == os.CLD_EXITED:
        os._exit(ended.si_status)
    os.kill(os.getpid(), ended.si_status)


def _in_background(function: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def main() -> None:
    """Serve kgroup over the socket whose descriptor is the first argument."""
    Driver(Connection(int(sys.argv[1]))).serve()
