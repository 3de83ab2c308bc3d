"""Members that are Java: consumers and Streams applications in one process, connectors in one Connect worker."""

import signal
import subprocess
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.helpers.java import ConnectWorker, connect_worker, java_command
from tests.situations.row import CLIENT_SETTINGS, Spec

_CLIENTS: Final = Path(__file__).with_name("SituationClients.java")
_SPEC_FIELDS: Final = ("log", "commit", "bad", "subscribe", "work_ms")
_OF_LIBRDKAFKA: Final = "fetch.wait.max.ms"
_NOT_OF_CONNECTORS: Final = ("bootstrap.servers", "group.id", "client.id", _OF_LIBRDKAFKA)
_FLUSH_MS: Final = 60_000
"""How often a worker commits; Kafka's default."""

_NO_LOG: Final = "-Dorg.apache.logging.log4j.level=OFF"
"""A Streams application that meets poison logs pages of it; what fails otherwise is on stderr."""

_MEMORY: Final = "512m"


class JavaProcess:
    """One JVM with the Java members of all rows; starts with the first. Signals close a member, not it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._members: set[str] = set()
        self._codes: dict[str, int] = {}
        self._lock = threading.Lock()

    def start(self, spec: Spec) -> int:
        """The process id of them all."""
        self._process = self._process or self._started()
        fields = {f"x.{name}": str(getattr(spec, name)) for name in _SPEC_FIELDS} | {"x.topics": ",".join(spec.topics)}
        settings = {name: value for name, value in spec.settings.items() if name != _OF_LIBRDKAFKA}
        self._members.add(spec.id)
        self._tell(spec.client, spec.id, *(f"{name}={value}" for name, value in (fields | settings).items()))
        return self._process.pid

    def signal(self, id_: str, number: int) -> None:
        """Close a member, as SIGTERM does; SIGKILL at the end of a row can do no other."""
        if id_ in self._members:
            assert number in (signal.SIGTERM, signal.SIGKILL), f"one of many in a process cannot get signal {number}"
            self._tell("close", id_)

    def ended(self) -> dict[str, int]:
        """The exit codes of members that ended since the last call."""
        assert self._process is None or self._process.poll() is None, "the process of all Java members ended"
        with self._lock:
            codes, self._codes = self._codes, {}
        self._members -= codes.keys()
        return codes

    def end(self) -> None:
        """All end at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _started(self) -> subprocess.Popen[str]:
        words = java_command(_NO_LOG, str(_CLIENTS), memory=_MEMORY)
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            id_, _, code = line.strip().rpartition(" ")
            with self._lock:
                self._codes[id_] = int(code)

    def _tell(self, *words: str) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()


class Connectors:
    """Sink connectors in one worker, which starts with the first of them. It takes seconds, in a thread of its own."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._thread = ThreadPoolExecutor(1)
        self._worker: Future[ConnectWorker] | None = None
        self._names: dict[str, str] = {}  # of connectors, by id
        self._starts: list[Future[None]] = []
        self._stops: dict[str, Future[None]] = {}

    def start(self, spec: Spec) -> int:
        """No process of its own."""
        if self._worker is None:
            self._worker = self._thread.submit(self._started, spec.settings["bootstrap.servers"])
        self._names[spec.id] = spec.group.removeprefix("connect-")
        self._starts.append(self._thread.submit(self._connect, spec))
        return 0

    def signal(self, id_: str, number: int) -> None:
        """Stop a connector, as its operator does: its tasks leave, its offsets stay. Its start resumes it."""
        if id_ in self._names and id_ not in self._stops:
            assert number in (signal.SIGTERM, signal.SIGKILL), f"a connector cannot get signal {number}"
            self._stops[id_] = self._thread.submit(self._stop, self._names[id_])

    def ended(self) -> dict[str, int]:
        """Those that were stopped; one whose tasks failed is there still. What could not be done is raised."""
        for done in [each for each in self._starts if each.done()]:
            self._starts.remove(done)
            done.result()
        stopped = [id_ for id_, stop in self._stops.items() if stop.done()]
        for id_ in stopped:
            self._stops.pop(id_).result()
        return dict.fromkeys(stopped, 0)

    def end(self) -> None:
        """The worker ends, and all with it."""
        self._thread.shutdown(cancel_futures=True)
        self._stack.close()

    def _started(self, bootstrap: str) -> ConnectWorker:
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kgroup-connect-")))
        return self._stack.enter_context(connect_worker(bootstrap, "situations-workers", directory, _FLUSH_MS))

    def _connect(self, spec: Spec) -> None:
        assert self._worker
        settings = {
            f"consumer.override.{name}" if name in CLIENT_SETTINGS else name: value
            for name, value in spec.settings.items()
            if name not in _NOT_OF_CONNECTORS
        }
        tasks, file = int(settings.pop("tasks.max", "1")), Path(spec.log).with_suffix(".txt")
        self._worker.result().file_sink(self._names[spec.id], spec.topics, tasks, file, settings)

    def _stop(self, name: str) -> None:
        assert self._worker
        self._worker.result().stop(name)
