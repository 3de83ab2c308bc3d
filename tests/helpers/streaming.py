"""Real queries of Spark's Structured Streaming, each in a process of its own.

What they leave in a checkpoint (tests/data/checkpoints, recorded of real queries):

- ``offsets/N`` is there when batch N is planned, ``commits/N`` when it is done. A batch that was planned has the same
  end when it runs again. Each is written as ``.N.UUID.tmp`` and renamed, so it is whole, and dated by its content.
- No file names the version of Spark, the trigger, or the options of the query. Asynchronous progress shows by holes in
  the numbers alone. Continuous processing leaves the line of metadata empty. In real-time mode ``offsets/N`` is written
  at the end of a batch, seconds after its ``batchTimestampMs``.
- Version 1 of the offset log has a line a source, in the order of the query. Version 2 has ``ID:`` before it, in any
  order; an ID is a number or a name. ``-`` is a source that has no offset yet.
- The log of commits has a version of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kgroup.sandbox.cluster import cache_directory
from kgroup.sandbox.manifest import sandbox_manifest
from tests.helpers.java import fetched, manifest_of
from tests.helpers.places import DATA, ROOT
from tests.helpers.waiting import wait_for

_WITHIN_S = 180.0
_JOB = ROOT / "tests" / "helpers" / "streaming_job.py"


def kafka_source() -> tuple[Path, ...]:
    """The jars of Spark's Kafka source, which fit the PySpark of the tests."""
    wanted = manifest_of(DATA / "spark_kafka_jars.txt")
    return wanted.paths(fetched(wanted, cache_directory() / "spark-kafka", sandbox_manifest()))


def topic_source(bootstrap: str, topic: str, batch_records: int | None = None) -> tuple[str, dict[str, str]]:
    """A topic from its start, at most so many records a batch."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    if batch_records is not None:
        options["maxOffsetsPerTrigger"] = str(batch_records)
    return "kafka", options


@dataclass(frozen=True)
class QuerySpec:
    """What a query reads, and how it writes; the job of streaming_job.py reads it as JSON."""

    checkpoint: str
    sources: Sequence[tuple[str, Mapping[str, str]]]
    """Formats with their options; the query writes the union of their values."""
    names: Sequence[str] = field(default=(), kw_only=True)
    """Of the sources, where Spark is to know them by names (4.2)."""
    format: str
    """Of the sink: "text" with a "path", or "kafka" with a "topic" and "kafka.bootstrap.servers"."""
    sink: Mapping[str, str]
    trigger: Mapping[str, object] = field(default_factory=lambda: {"availableNow": True})
    by_function: bool = True
    """Whether foreachBatch writes."""
    count: bool = False
    """Whether it counts equal values, and so has state."""
    hold_before: int | None = None
    """The batch that waits before its write for a line of stdin, or for the end of the process."""
    hold_after: int | None = None
    """... or after its write, before Spark's commit."""
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[str] = field(default_factory=lambda: tuple(map(str, kafka_source())))


class StreamingQuery:
    """The process of a query; ``lines`` is what its job has written to stdout."""

    def __init__(self, spec: QuerySpec, python: str | Path, log: Path) -> None:
        self.lines: list[str] = []
        self._log = log
        env = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [str(python), str(_JOB), json.dumps(asdict(spec))],
                cwd=log.parent,
                env=env | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,  # the JVM is in its group
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def says(self, begin: str, within_s: float = _WITHIN_S) -> str:
        """Wait for a line that begins so; it fails at once if the process ends without it."""

        def said() -> str | None:
            ended = not self._listener.is_alive()
            found = next((line for line in self.lines if line.startswith(begin)), None)
            assert found or not ended, f"it ended without {begin!r}: {self.lines}\n{self._log.read_text()[-4000:]}"
            return found

        return wait_for(said, f"{begin!r} said", within_s)

    def go_on(self) -> None:
        """Let the held batch go on."""
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def stop(self) -> str:
        """``query.stop()``, and the last line."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.ends()

    def ends(self) -> str:
        """Wait for its end by itself; the last line: ``ended``, or ``failed MESSAGE``."""
        self.process.wait(_WITHIN_S)
        self._listener.join(10)
        assert self.lines, f"it ended before it started:\n{self._log.read_text()[-4000:]}"
        return self.lines[-1]

    def kill(self) -> None:
        """kill -9 of Python and Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._listener.join(10)

    def close(self) -> None:
        """Leave nothing of it."""
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def streaming_query(spec: QuerySpec, python: str | Path = sys.executable) -> Iterator[StreamingQuery]:
    """Start a query; it is killed at the end of the block if it still runs."""
    with tempfile.TemporaryDirectory() as directory:
        query = StreamingQuery(spec, python, Path(directory) / "log")
        try:
            yield query
        finally:
            query.close()
