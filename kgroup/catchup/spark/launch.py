"""Start the driver's process and read its log, which is kept off the terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from multiprocessing import Pipe

from kgroup.catchup.spark import worker_package
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.support.redact import redact

_MAIN = "from kgroup.catchup.spark.driver import main; main()"
_KEPT_LINES = 200
_LONGEST_LINE = 4_000
# For the JVM that only prints Spark's command line. A collector here would not start with another in JAVA_TOOL_OPTIONS.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1"
# Lines that Java prints at every start, which are never of interest.
_USUAL = ("WARNING: Using incubator modules",)
# Frames of a Java stack. The exception itself is in the line above them.
_FRAME = re.compile(r"\s+(at \S|\.\.\. \d+ more)|Caused by: java\.io\.EOFException$")


class ProcessLog:
    """The last lines of a process's output, without Java's stacks; ``say`` gets every line at once (None: not called).

    All strings in ``hidden`` are redacted.
    """

    def __init__(self, descriptor: int, say: Callable[[str], None] | None, hidden: Collection[str] = ()) -> None:
        self._hidden = hidden
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._say = say
        self._thread = threading.Thread(target=self._read, args=(descriptor,), name="spark log", daemon=True)
        self._thread.start()

    def last(self, lines: int) -> tuple[str, ...]:
        """The last lines so far, oldest first."""
        return tuple(self._lines)[-lines:]

    def has_ended(self, within_s: float) -> bool:
        """Whether all processes that write to it have ended, or end within ``within_s``."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            while line := stream.readline(_LONGEST_LINE):
                text = redact(line.decode("utf-8", "replace").rstrip(), self._hidden)
                if not text or text.startswith(_USUAL):
                    continue
                if not _FRAME.match(text):
                    self._lines.append(text)
                if self._say:
                    self._say(text)


class DriverProcess:
    """The process of ``driver``, and the JVM that it starts. Both end if this process does, also if it is killed."""

    def __init__(
        self, environment: Mapping[str, str], say: Callable[[str], None] | None, hidden: Collection[str] = ()
    ) -> None:
        self.connection, theirs = Pipe()
        heard, spoken = os.pipe()
        try:
            self._process = subprocess.Popen(
                # Without -P, a file of the user's directory could replace a module of Python's.
                [sys.executable, "-P", "-c", _MAIN, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=spoken,
                stderr=spoken,
                env=environment,
                pass_fds=(theirs.fileno(),),
                # In its own session, ctrl-C does not reach it: kgroup first asks the workers to commit.
                start_new_session=True,
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(spoken)
            theirs.close()
        self.pid = self._process.pid
        self.log = ProcessLog(heard, say, hidden)

    def has_ended(self, within_s: float = 0) -> bool:
        """Whether the driver has ended, or ends within ``within_s``. It ends as its JVM does."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return self._process.returncode is not None

    def ending(self) -> str:
        """`` (killed by SIGKILL)`` or `` (exit code 1)``; empty if it is running."""
        code = self._process.poll()
        if code is None:
            return ""
        if code >= 0:
            return f" (exit code {code})"
        try:
            return f" (killed by {signal.Signals(-code).name})"
        except ValueError:
            return f" (killed by signal {-code})"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver and its JVM, until both have ended."""
        if not self.log.has_ended(0):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def end(self, wait_s: float) -> None:
        """Wait until the driver and its JVM have ended, normally within a second; kill them after ``wait_s``."""
        if not self.log.has_ended(wait_s):
            self.signal(signal.SIGKILL)
        self._process.wait()
        self.log.has_ended(1)
        self.connection.close()


def driver_environment(
    ready: DriverSetup, *, local: bool, conf: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """The driver's environment: the Java that was found, Spark's home, and for a local master no network lookup.

    The user's own SPARK_LAUNCHER_OPTS and SPARK_LOCAL_IP win. PATH ends with the system's own directories: spark-submit
    is a bash script, and Hadoop starts chmod.
    """
    variables = dict(environment)
    variables["PATH"] = os.pathsep.join((*filter(None, [environment.get("PATH")]), os.defpath))
    variables["SPARK_HOME"] = str(ready.home)
    java_home = ready.java.executable.resolve().parent.parent
    if os.access(java_home / "bin" / "java", os.X_OK):
        variables["JAVA_HOME"] = str(java_home)
    variables.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    if local:
        variables.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    variables["PYSPARK_PYTHON"] = python_of_workers(local=local, conf=conf, environment=environment)
    variables.pop("PYSPARK_GATEWAY_PORT", None)  # of a kgroup that a spark-submit has started: that JVM is not ours
    paths = (worker_package.import_path(), environment.get("PYTHONPATH"))
    if any(paths):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return variables


def has_settings(ready: DriverSetup, environment: Mapping[str, str]) -> bool:
    """Whether Spark may have settings of the user's that kgroup does not read, and must not replace by its own.

    They may be in a ``conf`` directory, which Spark's wheel does not have, or in PYSPARK_SUBMIT_ARGS.
    """
    variables = ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
    return (ready.home / "conf").exists() or any(environment.get(name) for name in variables)


def python_of_workers(*, local: bool, conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The Python that runs the tasks: this one, unless the user named another for a cluster."""
    named = conf.get("spark.pyspark.python") or (None if local else environment.get("PYSPARK_PYTHON"))
    return named or sys.executable
