"""Start the driver's JVM and read its log, which is kept off the terminal."""

from __future__ import annotations

import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kgroup.catchup.spark.ready import DriverSetup
from kgroup.support.errors import KgroupError
from kgroup.support.redact import redact

_LOOK_EVERY_S = 0.01
_KEPT_LINES = 200
_LONGEST_LINE = 4_000
_SHELL = "pyspark-shell"
# For the JVM that only prints Spark's command line. A collector here would not start with another in JAVA_TOOL_OPTIONS.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1"
# A start loads 5,000 classes from Spark's 280 jars, which Java searches one by one: nine of ten are in these.
_FIRST_JARS = (
    *("scala-library-", "spark-core_", "spark-common-utils", "spark-config_", "spark-network-common_"),
    *("hadoop-client-", "log4j-", "jackson-", "ivy-", "netty-common-", "netty-transport-", "py4j-"),
)
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

    def join(self, timeout_s: float) -> None:
        """Wait until the output ends."""
        self._thread.join(timeout_s)

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


class Jvm:
    """A driver's JVM. It ends when its standard input does, so also if this process is killed."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        say: Callable[[str], None] | None,
        hidden: Collection[str] = (),
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kgroup-spark-")
        self._answer_file = Path(self._directory.name) / "gateway"
        heard, spoken = os.pipe()
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=spoken,
                stderr=spoken,
                env={
                    **environment,
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer_file),
                    "SPARK_CONNECT_MODE": "0",
                },
                # In its own session, ctrl-C does not reach it: kgroup first asks the workers to commit.
                start_new_session=True,
            )
        except BaseException:
            os.close(heard)
            self._directory.cleanup()
            raise
        finally:
            os.close(spoken)
        self.log = ProcessLog(heard, say, hidden)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def has_ended(self, within_s: float) -> bool:
        """Whether the process has ended, or ends within ``within_s``."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)
        return not self.is_running

    def gateway(self, given_up: Callable[[], bool]) -> tuple[int, str]:
        """Port and secret of Py4J's gateway. Raises KgroupError [spark-start] if the JVM ends or ``given_up``."""
        while not self._answer_file.is_file():  # renamed into place
            if not self.is_running:
                self.log.join(1)
                raise KgroupError(
                    f"Spark's JVM ended at its start{self.ending()}", code="spark-start", details=self.log.last(10)
                )
            if given_up():
                raise KgroupError(
                    "timed out waiting for Spark's JVM to start", code="spark-start", details=self.log.last(10)
                )
            time.sleep(_LOOK_EVERY_S)
        answer = self._answer_file.read_bytes()
        self._directory.cleanup()  # now: a driver that is killed could not remove it later
        port, length = struct.unpack_from("!ii", answer)
        return port, answer[8 : 8 + length].decode()

    def ending(self) -> str:
        """`` (killed by SIGKILL)`` or `` (exit code 1)``; empty if it is running."""
        code = self.process.poll()
        if code is None:
            return ""
        if code >= 0:
            return f" (exit code {code})"
        try:
            return f" (killed by {signal.Signals(-code).name})"
        except ValueError:
            return f" (killed by signal {-code})"

    def end(self, wait_s: float) -> None:
        """Close its input and wait for it to end, normally within a second; kill it after ``wait_s``."""
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.join(1)
        self._directory.cleanup()

    def kill(self) -> None:
        """Kill it at once; its workers notice and end too."""
        self.process.kill()
        self.end(wait_s=5)


def submit_command(ready: DriverSetup, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command that PySpark would run: spark-submit, with the user's PYSPARK_SUBMIT_ARGS."""
    own = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", _SHELL))
    return [str(ready.home / "bin" / "spark-submit"), *words, *own]


def jvm_environment(ready: DriverSetup, *, local: bool, environment: Mapping[str, str]) -> dict[str, str]:
    """The JVM's environment: the Java that was found, Spark's home, and for a local master no network lookup.

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
    return variables


def has_settings(ready: DriverSetup, environment: Mapping[str, str]) -> bool:
    """Whether Spark may have settings of the user's that kgroup does not read, and must not replace by its own.

    They may be in a ``conf`` directory, which Spark's wheel does not have, or in PYSPARK_SUBMIT_ARGS.
    """
    variables = ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
    return (ready.home / "conf").exists() or any(environment.get(name) for name in variables)


def first_jars(ready: DriverSetup) -> str:
    """A class path of those of Spark's jars that a start needs; Spark puts it before all of them."""
    jars = sorted((ready.home / "jars").glob("*.jar"))
    return ":".join(str(jar) for start in _FIRST_JARS for jar in jars if jar.name.startswith(start))


def python_of_workers(*, local: bool, conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The Python that runs the tasks: this one, unless the user named another for a cluster."""
    named = conf.get("spark.pyspark.python") or (None if local else environment.get("PYSPARK_PYTHON"))
    return named or sys.executable
