"""Real Java clients (``KafkaClients.java``, all in one process) and a Kafka Connect worker, with their jars."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kgroup.sandbox import ports
from kgroup.sandbox.cluster import cache_directory, find_distribution
from kgroup.sandbox.distribution import QUICK_FLAGS, Distribution, fetch_distribution
from kgroup.sandbox.ivy import Ivy, ivy_jar, ivy_settings
from kgroup.sandbox.jars import are_complete, fetch
from kgroup.sandbox.layout import properties_text
from kgroup.sandbox.manifest import Manifest, parse_manifest, sandbox_manifest
from kgroup.support.file_lock import exclusive_lock
from kgroup.support.java_home import find_java
from tests.helpers.command_line import QuietReporter
from tests.helpers.places import DATA
from tests.helpers.waiting import wait_for

_WITHIN_S = 90.0
_NOT_YET = (404, 409, 500, 503)
"""What a worker answers while it starts, or rebalances."""


def class_path(of_brokers: Manifest, names: str, kafka: Distribution) -> str:
    """The broker's jars and those of ``tests/data/NAMES``, which are fetched as the sandbox's are."""
    of_clients = manifest_of(DATA / names)
    version = of_brokers.kafka_version
    jars = fetched(of_clients, cache_directory() / f"kafka-{version}" / "clients", of_brokers)
    return ":".join(map(str, (*kafka.classpath, *of_clients.paths(jars))))


def fetched(wanted: Manifest, jars: Path, of_brokers: Manifest) -> Path:
    """The directory with these jars, which are fetched once."""
    # With the broker's own, whose version gives the whole its name.
    broker = next(each for each in of_brokers.artifacts if each.module.startswith("kafka_2."))
    manifest = Manifest((broker, *wanted.artifacts))
    with exclusive_lock(jars.with_suffix(".lock"), QuietReporter().event, "another process of the tests"):
        if not are_complete(manifest, jars):
            fetch(manifest, jars, Ivy(find_java(os.environ), ivy_jar(), ivy_settings(os.environ)), QuietReporter())
    return jars


def java_command(*words: str, memory: str = "256m") -> list[str]:
    """Java with the jars of the sandbox and of Streams, started quickly."""
    jars = class_path(sandbox_manifest(), "client_jars.txt", find_distribution(None, QuietReporter()))
    return _java(jars, *words, memory=memory)


def _connect_command(*words: str) -> list[str]:
    """Java with the jars of a Connect worker, whose version connect_jars.txt explains."""
    of_brokers = manifest_of(DATA.parent / "versions" / "jars" / "4.3.1.txt")
    kafka = fetch_distribution(cache_directory(), find_java(os.environ), QuietReporter(), of_brokers)
    return _java(class_path(of_brokers, "connect_jars.txt", kafka), *words, memory="256m")


def _java(jars: str, *words: str, memory: str) -> list[str]:
    return [str(find_java(os.environ).executable), *QUICK_FLAGS, f"-Xmx{memory}", "-cp", jars, *words]


def manifest_of(file: Path) -> Manifest:
    """A list of jars, as the sandbox's."""
    return parse_manifest(file.read_text(encoding="utf-8"))


class JavaClients:
    """Consumers, share consumers and Streams applications; each goes by the name that it is given."""

    def __init__(self, bootstrap: str) -> None:
        self._said: list[str] = []
        self._process = subprocess.Popen(
            java_command(str(DATA / "KafkaClients.java"), bootstrap, memory="384m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> JavaClients:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
        self._listener.join(10)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()

    def consumer(self, name: str, topics: str, group: str, **settings: str) -> None:
        """One that commits what it polls; ``topics`` as KafkaClients.java has them, settings with _ for the dots."""
        self._start("consumer", name, topics, {"group.id": group, "client.id": name, **_dotted(settings)})

    def share(self, name: str, topics: str, group: str, **settings: str) -> None:
        """A share consumer; ``does`` as KafkaClients.java has it."""
        self._start("share", name, topics, {"group.id": group, "client.id": name, **_dotted(settings)})

    def streams(self, name: str, source: str, target: str, protocol: str, directory: Path, **settings: str) -> None:
        """A Streams application of that group protocol, classic or streams; its name is that of its group.

        ``application_id`` is the group of an instance with another name.
        """
        own = {"application.id": name, "group.protocol": protocol, "state.dir": str(directory)}
        self._start("streams", name, f"{source},{target}", own | _dotted(settings))

    def said(self, name: str) -> list[str]:
        """What one has written so far, without its name."""
        return [line.removeprefix(f"{name} ") for line in self._said if line.startswith(f"{name} ")]

    def close(self, name: str) -> None:
        """Stop one, as an application that is shut down does."""
        self._tell(f"close {name}", f"{name} closed")

    def kill(self) -> None:
        """All die at once: kill -9."""
        self._process.kill()
        self._process.wait(10)

    def _start(self, kind: str, name: str, topics: str, settings: dict[str, str]) -> None:
        words = [kind, name, topics, *(f"{key}={value}" for key, value in settings.items())]
        assert all(" " not in word for word in words), words
        self._tell(" ".join(words), f"{name} ready")

    def _tell(self, line: str, answer: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

        def answered() -> bool:
            assert self._process.poll() is None, self._said
            # "NAME failed WHY" is of KafkaClients.java; what Kafka's clients log may have that word, too.
            assert not any(said.split(" ")[1:2] == ["failed"] for said in self._said), self._said
            return answer in self._said

        wait_for(answered, f"{answer!r}", _WITHIN_S)

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._said.append(line.rstrip("\n"))


@contextmanager
def connect_worker(bootstrap: str, group: str, directory: Path, flush_ms: int = 500) -> Iterator[ConnectWorker]:
    """A distributed Connect worker with its REST interface on loopback; its sinks commit each ``flush_ms``."""
    (port,) = ports.choose(1)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": f"http://{ports.HOST}:{port}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": str(flush_ms),
        "plugin.discovery": "service_load",
    }
    for kind in ("config", "offset", "status"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    settings |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    file = directory / "worker.properties"
    file.write_text(properties_text(settings), encoding="utf-8")
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            _connect_command("org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield ConnectWorker(port, process, directory / "worker.log")
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait(10)


class ConnectWorker:
    """The REST interface of a worker."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self._url = f"http://{ports.HOST}:{port}/connectors"
        self._process = process
        self._log = log
        wait_for(lambda: self._ask("GET", "") is not None, "a Connect worker", _WITHIN_S)

    def file_sink(
        self, name: str, topics: Sequence[str], tasks: int, file: Path, more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """A FileStreamSink whose tasks run, also if it was stopped."""
        settings = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": ",".join(topics),
            "tasks.max": str(tasks),
            "file": str(file),
            **more,
        }

        def runs() -> bool:
            status = self._ask("GET", f"/{name}/status")
            states = [task["state"] for task in status["tasks"]] if status else []
            return states == ["RUNNING"] * tasks

        wait_for(lambda: self._ask("PUT", f"/{name}/config", settings) is not None, f"{name} made", _WITHIN_S)
        wait_for(lambda: self._ask("PUT", f"/{name}/resume") is not None, f"{name} resumed", _WITHIN_S)
        wait_for(runs, f"{tasks} tasks of {name}", _WITHIN_S)

    def stop(self, name: str) -> None:
        """Stop a connector; its offsets stay (KIP-875)."""
        wait_for(lambda: self._ask("PUT", f"/{name}/stop") is not None, f"{name} stopped", _WITHIN_S)

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        """The answer; None where the worker does not answer yet, or is rebalancing."""
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _NOT_YET:
                    raise
            return None
        except urllib.error.URLError:
            return None


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}
