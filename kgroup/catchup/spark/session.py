"""One Spark: it starts in the background, in a process of its own, prints nothing, and ends with its driver."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from kgroup.catchup.spark import driver, worker_package
from kgroup.catchup.spark.driver import Message, SparkFacts
from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.launch import DriverProcess, driver_environment, has_settings
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.catchup.spark.settings import SparkSettings, configuration
from kgroup.cluster.deadline import Deadline
from kgroup.settings.environment import environment
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.java_home import with_one_collector

PRIVATE_NAMES = {
    "pyspark:SparkContext": ("_jvm",),
    "pyspark.errors.exceptions.captured:CapturedException": ("_origin",),
    "pyspark.sql.classic.dataframe:DataFrame": ("_jdf",),
}
"""What kgroup uses beyond PySpark's documented names; a test checks each new version against it."""

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


class SparkFailed(KgroupError):
    """An error of Spark's in a call; its message is Java's, without the stack."""

    code = "spark-job"


class SparkGone(KgroupError):
    """The driver or its JVM ended while a call ran."""

    code = "spark-gone"


class DriverSession:
    """A context manager: entering starts Spark in the background, ``started`` waits for it, leaving stops it.

    ``say`` gets each line of Spark's log (``-v``) on another thread; the last lines are kept for messages. The secrets
    in ``hidden`` are redacted in all of them. It may be entered before the group is released, and used after.
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
        self._process: DriverProcess | None = None
        self._sending, self._calling = threading.Lock(), threading.Lock()
        self._facts: SparkFacts | None = None
        self._failure: BaseException | None = None
        self._package: worker_package.WorkerPackage | None = None
        self._thread = threading.Thread(target=self._start, name="spark start", daemon=True)

    def __enter__(self) -> DriverSession:
        conf = self._configuration()
        local = self.settings.is_local
        variables = driver_environment(
            self.ready, local=local, conf=dict(self.settings.conf), environment=environment()
        )
        self._process = DriverProcess(variables, self._say, self._hidden)
        self._thread = threading.Thread(target=self._start, args=(conf,), name="spark start", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def started(self) -> SparkFacts:
        """Wait for Spark and return what is known of it.

        Raises KgroupError with code ``spark-start`` and the last lines of Spark's log. Raises Unreachable with code
        ``spark-master`` if the master does not accept the application in time.
        """
        self._thread.join(max(self._deadline.left_s, _LOOK_EVERY_S))
        if self._thread.is_alive():
            self.kill()
            self._thread.join(5)
            raise self._late()
        if self._failure is not None:
            raise self._failure
        assert self._facts is not None
        return self._facts

    def call(self, function: Callable[..., Any], *arguments: Any, asked: Callable[[Any], Any] | None = None) -> Any:
        """Run ``function(driver, *arguments)`` in the driver and return its result; one call at a time.

        ``asked`` answers what the function asks. What it raises is raised here, as are the function's KgroupErrors, and
        what ``started`` raises. Raises SparkFailed for an error of Spark's, and SparkGone.
        """
        self.started()
        with self._calling:
            return self._call(function, arguments, asked)

    def cancel_job(self) -> None:
        """Ask Spark to end the job that runs now; do not wait for it."""
        self._send(Message.CANCEL)

    @property
    def is_alive(self) -> bool:
        """Whether Spark is running."""
        return self._process is not None and not self._process.has_ended()

    def ending(self) -> str:
        """How Spark ended, in brackets; empty if it is running."""
        return self._process.ending() if self._process else ""

    def last_words(self) -> tuple[str, ...]:
        """The log's last lines if Spark ended by itself; none if it was killed, since the log cannot explain that."""
        return () if "killed" in self.ending() else self.log(5)

    def log(self, lines: int = 10) -> tuple[str, ...]:
        """The last lines of Spark's log."""
        return self._process.log.last(lines) if self._process else ()

    @property
    def pid(self) -> int | None:
        """Process id of the driver; None before it starts."""
        return self._process.pid if self._process else None

    def kill(self) -> None:
        """Kill Spark at once. Its workers end wherever they are, and their open transactions are aborted."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    def close(self, *, wait_s: float = _END_S) -> None:
        """Stop Spark within ``wait_s``."""
        if self._process is None:
            return
        if self._thread.is_alive():
            self._process.signal(signal.SIGTERM)  # a JVM that is killed leaves its temporary directories
            wait_s = _TERMINATE_S
        self._send(Message.END)
        self._process.end(wait_s)
        self._thread.join(_END_S)
        if self._package is not None:
            self._package.remove()

    def _configuration(self) -> dict[str, str]:
        variables = environment()
        if has_settings(self.ready, variables):
            return configuration(self.settings)
        return configuration(self.settings, self._java_options(variables))

    def _java_options(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Our options for the driver's JVM that fit the user's."""
        conf = dict(self.settings.conf)
        of_user = [conf.get(f"spark.driver.{kind}JavaOptions", "") for kind in ("default", "extra")]
        of_user.append(variables.get("SPARK_SUBMIT_OPTS", ""))
        return with_one_collector(_HEAVY if self.settings.heavy else _QUICK, variables, *of_user)

    def _start(self, conf: Mapping[str, str]) -> None:
        try:
            package = None
            if not self.settings.is_local:
                self._package = worker_package.WorkerPackage()
                package = str(self._package.path)
            # Workers of this machine read our package where it is; remote workers get it sent.
            here = {"PYTHONPATH": worker_package.import_path()} if self.settings.is_local else {}
            self._facts = self._call(driver.start, (conf, here, package))
        except BaseException as error:  # started() raises it again
            self._failure = self._explained(error)

    def _call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], asked: Callable[[Any], Any] | None = None
    ) -> Any:
        from pyspark import cloudpickle

        assert self._process is not None
        # cloudpickle, since plain pickle cannot send what is defined in a script.
        self._send(Message.CALL, cloudpickle.dumps((function, arguments)))  # type: ignore[no-untyped-call]
        refusal: BaseException | None = None
        while True:
            try:
                kind, value = self._process.connection.recv()
            except (EOFError, OSError):
                self._process.has_ended(_TERMINATE_S)
                raise SparkGone(f"Spark ended while it was at work{self.ending()}", details=self.last_words()) from None
            match kind:
                case Message.ASKED:
                    try:
                        self._send(Message.REPLY, asked(value) if asked else None)
                    except Exception as error:
                        refusal = error
                        self._send(Message.REFUSED)
                case _ if refusal is not None:
                    raise refusal
                case Message.RETURNED:
                    return value
                case Message.RAISED:
                    raise task_error(value, "Spark's driver")
                case Message.SPARK_RAISED:
                    raise SparkFailed(value)

    def _send(self, kind: Message, value: Any = None) -> None:
        assert self._process is not None
        with self._sending, suppress(OSError):  # the driver is gone, which the next answer shows
            self._process.connection.send((kind, value))

    def _explained(self, error: BaseException) -> BaseException:
        """An error that the user can act on. For any error of Spark's start, it has the last lines of its log."""
        if not isinstance(error, SparkFailed | SparkGone):
            return error
        if self._deadline.passed:
            return self._late()
        said = error.message.splitlines()[:3] if isinstance(error, SparkFailed) else ()
        details = (*said, *self.log(5))
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
