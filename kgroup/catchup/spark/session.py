"""One SparkContext: starts in the background, starts and stops quickly, prints nothing, and ends with its driver."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from kgroup.catchup.spark import worker_package
from kgroup.catchup.spark.launch import (
    Jvm,
    first_jars,
    has_settings,
    jvm_environment,
    python_of_workers,
    submit_command,
)
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.catchup.spark.settings import SparkSettings, conf_words, configuration
from kgroup.cluster.deadline import Deadline
from kgroup.settings.environment import environment, variables_set
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.java_home import with_one_collector

PRIVATE_NAMES = {
    "pyspark:SparkContext": ("_accumulatorServer", "_active_spark_context", "_gateway", "_jvm"),
    "pyspark:SparkFiles": ("_sc",),
    "pyspark.errors.exceptions.captured:CapturedException": ("_origin",),
    "pyspark.java_gateway:launch_gateway": (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "_PYSPARK_DRIVER_CONN_INFO_PATH",
    ),
    "pyspark.sql:SparkSession": ("_instantiatedSession", "_jvm"),
    "pyspark.sql.classic.dataframe:DataFrame": ("_jdf",),
}
"""What kgroup uses beyond PySpark's documented names and variables; a test checks each new version against it."""

START_TIMEOUT_S = 90.0
"""Spark needs 60 s to report an address that answers but is not a master."""

_END_S = 20.0
_TERMINATE_S = 2.0
_LOOK_EVERY_S = 0.1
_HEAVY = ("-XX:+UseSerialGC", "-XX:MetaspaceSize=128m")
"""Java options for a driver through which rows pass.

Spark's classes fill 55 MB at the start. Java's default makes a full garbage collection at 21 MB, and one at 35 MB.
"""

_QUICK = (*_HEAVY, "-XX:TieredStopAtLevel=1")
"""Java options for a driver that only hands out tasks."""


class DriverSession:
    """A context manager: entering starts Spark in the background, ``context`` waits for it, leaving stops it.

    Only one at a time in a process. ``say`` gets each line of Spark's log (``-v``) on another thread; the last lines
    are kept for messages. The secrets in ``hidden`` are redacted in all of them. It may be entered before the group is
    released, and used after.
    """

    def __init__(
        self,
        settings: SparkSettings,
        ready: DriverSetup,
        *,
        say: Callable[[str], None] | None = None,
        hidden: Collection[str] = (),
        timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self.ready = ready
        self._hidden = hidden
        self._say = say
        self._deadline = Deadline.after(timeout_s)
        self._jvm: Jvm | None = None
        self._gateway: Any = None
        self._context: Any = None
        self._sql: Any = None
        self._failure: BaseException | None = None
        self._given_up = False
        self._started = threading.Event()
        self._package: worker_package.WorkerPackage | None = None
        self._path_before: list[str] = []
        self._thread = threading.Thread(target=self._start, name="spark start", daemon=True)

    def __enter__(self) -> DriverSession:
        self._path_before = list(sys.path)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def context(self) -> Any:
        """Wait for the SparkContext and return it.

        Raises KgroupError with code ``spark-start`` and the last lines of Spark's log. Raises Unreachable with code
        ``spark-master`` if the master does not accept the application in time.
        """
        while not self._started.wait(_LOOK_EVERY_S):
            if self._deadline.passed:
                self.kill()
                self._thread.join(5)
                raise self._late()
        if self._failure is not None:
            raise self._failure
        return self._context

    def sql(self) -> Any:
        """A SparkSession on the context; Spark takes seconds to load it. Raises as ``context``."""
        context = self.context()
        from pyspark.sql import SparkSession

        if self._sql is None:
            # Would print each refused query with its Java stack, in addition to our message.
            logging.getLogger("SQLQueryContextLogger").disabled = True
            self._sql = SparkSession(context)
        return self._sql

    @property
    def is_alive(self) -> bool:
        """Whether the JVM is running."""
        return self._jvm is not None and self._jvm.is_running

    def has_ended(self, within_s: float) -> bool:
        """Whether the JVM has ended, or ends within ``within_s``."""
        return self._jvm is not None and self._jvm.has_ended(within_s)

    def ending(self) -> str:
        """How the JVM ended, in brackets; empty if it is running."""
        return self._jvm.ending() if self._jvm else ""

    def last_words(self) -> tuple[str, ...]:
        """The log's last lines if the JVM ended by itself; none if it was killed, since the log cannot explain that."""
        return () if "killed" in self.ending() else self.log(5)

    def log(self, lines: int = 10) -> tuple[str, ...]:
        """The last lines of Spark's log."""
        return self._jvm.log.last(lines) if self._jvm else ()

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None before it starts."""
        return self._jvm.process.pid if self._jvm else None

    def kill(self) -> None:
        """Kill Spark at once. Its workers end wherever they are, and their open transactions are aborted."""
        self._given_up = True
        if self._jvm is not None:
            self._jvm.process.kill()

    def close(self, *, wait_s: float = _END_S) -> None:
        """Stop Spark within ``wait_s``."""
        self._given_up = True
        if not self._started.is_set() and self._jvm is not None:
            self._jvm.process.terminate()  # a JVM that is killed leaves its temporary directories
            if not self._jvm.has_ended(_TERMINATE_S):
                self._jvm.process.kill()
        self._thread.join(_END_S)
        if self._context is not None:
            stopping = threading.Thread(target=self._stop_context, name="spark stop", daemon=True)
            stopping.start()
            stopping.join(wait_s)
            if stopping.is_alive() and self._jvm is not None:  # a stopped JVM does not answer
                self._jvm.process.kill()
                stopping.join(wait_s)
        self._forget()
        if self._jvm is not None:
            self._jvm.end(wait_s)
        if self._package is not None:
            self._package.remove()

    def _start(self) -> None:
        try:
            self._context = self._started_context()
        except BaseException as error:  # context() raises it again
            self._failure = self._explained(error)
        finally:
            self._started.set()

    def _started_context(self) -> Any:
        settings, local = self.settings, self.settings.is_local
        conf, port, secret = self._launched()
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        _silence_py4j()
        _drop_numpy_converters()
        python = python_of_workers(local=local, conf=dict(settings.conf), environment=environment())
        own = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret, "PYSPARK_PYTHON": python}
        with variables_set(own):
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
            spark_conf = SparkConf(loadDefaults=False)
            for name, value in conf.items():
                spark_conf.set(name, value)
            # Workers of this machine read our package where it is; remote workers get it sent.
            here = {"PYTHONPATH": worker_package.import_path()} if local else {}
            context = SparkContext(conf=spark_conf, gateway=self._gateway, environment=here)
        # kgroup reports a JVM that dies; this server would print a traceback of its own.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        if not local:
            self._package = worker_package.WorkerPackage()
            context.addPyFile(str(self._package.path))
        return context

    def _launched(self) -> tuple[dict[str, str], int, str]:
        """Start the JVM; returns Spark's configuration, and the gateway's port and secret."""
        of_jvm = jvm_environment(self.ready, local=self.settings.is_local, environment=environment())
        if has_settings(self.ready, of_jvm):
            conf = configuration(self.settings)
        else:
            conf = configuration(self.settings, self._java_options(of_jvm), first_jars(self.ready))
        command = submit_command(self.ready, conf_words(conf), of_jvm)
        self._jvm = Jvm(command, of_jvm, self._say, self._hidden)
        if self._given_up:
            self._jvm.process.kill()
        import pyspark  # noqa: F401  # takes 0.2 s, in parallel with Java's start

        return conf, *self._jvm.gateway(lambda: self._given_up or self._deadline.passed)

    def _java_options(self, of_jvm: Mapping[str, str]) -> tuple[str, ...]:
        """Our options for the driver's JVM that fit the user's."""
        conf = dict(self.settings.conf)
        of_user = [conf.get(f"spark.driver.{kind}JavaOptions", "") for kind in ("default", "extra")]
        of_user.append(of_jvm.get("SPARK_SUBMIT_OPTS", ""))
        return with_one_collector(_HEAVY if self.settings.heavy else _QUICK, of_jvm, *of_user)

    def _explained(self, error: BaseException) -> BaseException:
        """An error that the user can act on. For any error of Spark's start, it has the last lines of its log."""
        if isinstance(error, KgroupError) or not isinstance(error, Exception):
            return error
        if self._deadline.passed:
            return self._late()
        details = tuple(str(error).splitlines()[:3]) + self.log(5)
        if self.settings.is_local:
            return KgroupError(f"Spark did not start{self.ending()}", code="spark-start", details=details)
        return Unreachable(
            f"Spark did not start on {self.settings.master}{self.ending()}", code="spark-master", details=details
        )

    def _late(self) -> KgroupError:
        details = self.log(5)
        if self.settings.is_local:
            return KgroupError("timed out waiting for Spark to start", code="spark-start", details=details)
        return Unreachable(
            f"timed out waiting for Spark master {self.settings.master} to grant executors",
            code="spark-master",
            details=details,
        )

    def _stop_context(self) -> None:
        # Spark's accumulator server checks only every second whether to end: do not wait for it.
        server = getattr(self._context, "_accumulatorServer", None)
        if server is not None:
            self._context._accumulatorServer = None
            threading.Thread(target=server.shutdown, name="spark accumulators", daemon=True).start()
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")  # about a JVM that is already gone
            self._context.stop()

    def _forget(self) -> None:
        """Remove this JVM from PySpark's globals: the next session has another one."""
        if self._gateway is not None:
            with suppress(Exception):
                self._gateway.shutdown()
        if "pyspark" in sys.modules:
            from pyspark import SparkContext, SparkFiles

            if SparkContext._gateway is self._gateway:
                SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
                SparkFiles._sc = None
            if self._sql is not None:
                from pyspark.sql import SparkSession

                SparkSession._instantiatedSession = None
        for added in [entry for entry in sys.path if entry not in self._path_before and "spark-" in entry]:
            sys.path.remove(added)
        self._context = self._gateway = self._sql = None


def _drop_numpy_converters() -> None:
    """Remove PySpark's converters of NumPy values: the first call into Java would import pandas for them (0.4 s)."""
    from py4j.protocol import INPUT_CONVERTER  # type: ignore[import-untyped]
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    numpys = (NumpyArrayConverter, NumpyScalarConverter)
    INPUT_CONVERTER[:] = [converter for converter in INPUT_CONVERTER if not isinstance(converter, numpys)]


def _silence_py4j() -> None:
    """Keep Py4J from setting up logging to stderr, where it reports that the JVM is gone."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())
