"""As much of Kubernetes' API as Spark's scheduler uses: pods of executors, which are processes of this machine.

Spark creates, lists, watches, labels and deletes pods. Anything else is accepted and forgotten. A watch is plain HTTP:
the answer to the request for a WebSocket is a list, after which Spark's client asks again without one.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kgroup.catchup.spark.ready import DriverSetup

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MOMENT = "2026-01-01T00:00:00Z"
_POD = re.compile(r".*/pods/([^/]+)")

Json = dict[str, Any]


@dataclass
class Pods:
    """The pods, their processes, and what a watch reports of them."""

    ready: DriverSetup
    directory: Path
    events: list[tuple[str, Json]] = field(default_factory=list)
    news: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    made: dict[str, str] = field(default_factory=dict)
    """By the name of each pod that was ever made, its label ``spark-app-name``."""

    _pods: dict[str, Json] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The number of events so far: the resource version of all that is there."""
        return len(self.events)

    def create(self, pod: Json) -> Json:
        """Start the executor of a pod."""
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": name, "creationTimestamp": _MOMENT}
        pod["status"] = {"phase": "Pending"}
        self.made[name] = pod["metadata"]["labels"]["spark-app-name"]
        with self.news:
            self._pods[name] = pod
        self._report("ADDED", pod)
        threading.Thread(target=self._run, args=(name, pod), daemon=True).start()
        return pod

    def chosen(self, query: Mapping[str, list[str]]) -> list[Json]:
        with self.news:
            return [pod for pod in self._pods.values() if matches(pod, query)]

    def label(self, name: str, patch: Json) -> Json:
        with self.news:
            pod = self._pods[name]
            pod["metadata"].setdefault("labels", {}).update(patch.get("metadata", {}).get("labels", {}))
            return pod

    def delete(self, name: str) -> None:
        with self.news:
            pod = self._pods.pop(name, None)
            if process := self._processes.get(name):
                process.terminate()
            if pod is not None:
                pod["metadata"]["deletionTimestamp"] = _MOMENT
                self._report("DELETED", pod)

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(10)

    def _run(self, name: str, pod: Json) -> None:
        container = pod["spec"]["containers"][0]
        own = {each["name"]: each.get("value", "") for each in container["env"] if "valueFrom" not in each}
        options = sorted(key for key in own if key.startswith("SPARK_JAVA_OPT_"))
        place = self.directory / name
        place.mkdir()
        words = {
            "driver-url": own["SPARK_DRIVER_URL"],
            "executor-id": own["SPARK_EXECUTOR_ID"],
            "cores": own["SPARK_EXECUTOR_CORES"],
            "app-id": own["SPARK_APPLICATION_ID"],
            "hostname": "127.0.0.1",
            "resourceProfileId": own.get("SPARK_RESOURCE_PROFILE_ID", "0"),
            "podName": name,
        }
        command = [
            *(str(self.ready.java.executable), *_FLAGS, f"-Xmx{own['SPARK_EXECUTOR_MEMORY']}"),
            *(own[key] for key in options),
            *("-cp", f"{self.ready.home}/jars/*", _BACKEND),
            *(word for key, value in words.items() for word in (f"--{key}", value)),
        ]
        of_machine = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        of_pod = {"SPARK_HOME": str(self.ready.home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(place)}
        of_pod["PATH"] = os.pathsep.join((os.environ["PATH"], os.defpath))  # an executor that ends calls rm
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=place,
                env={**of_machine, **own, **of_pod},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        with self.news:
            self._processes[name] = process
            if name not in self._pods:  # it was deleted while it started
                process.terminate()
        self._in_phase(pod, "Running", {"running": {"startedAt": _MOMENT}})
        code = process.wait()
        with self.news:
            is_there = name in self._pods
        if is_there:
            self._in_phase(pod, "Failed" if code else "Succeeded", {"terminated": {"exitCode": code}})

    def _in_phase(self, pod: Json, phase: str, state: Json) -> None:
        container = pod["spec"]["containers"][0]["name"]
        status = {"name": container, "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": state}
        with self.news:
            pod["status"] = {"phase": phase, "containerStatuses": [status]}
        self._report("MODIFIED", pod)

    def _report(self, what: str, pod: Json) -> None:
        with self.news:
            pod["metadata"]["resourceVersion"] = str(self.version + 1)
            self.events.append((what, copy.deepcopy(pod)))
            self.news.notify_all()


def matches(pod: Json, query: Mapping[str, list[str]]) -> bool:
    """Whether its labels and its phase fit the selectors, in the forms that Spark uses."""
    of_labels, of_fields = (query.get(name, [""])[0] for name in ("labelSelector", "fieldSelector"))
    labels = pod["metadata"].get("labels", {})
    return all(
        _fits(each, {**labels, "status.phase": pod["status"]["phase"]})
        for each in (*re.split(r",(?![^(]*\))", of_labels), of_fields)
        if each
    )


def _fits(selector: str, values: Mapping[str, str]) -> bool:
    """Whether it fits ``key=value``, ``key!=value``, ``!key``, ``key in (...)`` or ``key notin (...)``."""
    if found := re.fullmatch(r"(\S+) (in|notin) \((.*)\)", selector):
        return (values.get(found[1]) in re.split(", *", found[3])) == (found[2] == "in")
    if selector.startswith("!"):
        return selector[1:] not in values
    key, _, value = selector.partition("=")
    return (values.get(key.removesuffix("!")) == value) != key.endswith("!")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pods: Pods

    def _serve(self) -> None:
        parts, length = urlsplit(self.path), int(self.headers.get("Content-Length") or 0)
        query, body = parse_qs(parts.query), json.loads(self.rfile.read(length) or b"{}")
        named = _POD.fullmatch(parts.path)
        of_pods = parts.path.endswith("/pods")
        if named is not None:
            self._serve_pod(named[1], body)
        elif of_pods and query.get("watch") == ["true"] and "Upgrade" not in self.headers:
            self._watch(query)
        elif of_pods and self.command == "POST":
            self._answer(self.pods.create(body), 201)
        elif of_pods and self.command == "DELETE":
            for pod in self.pods.chosen(query):
                self.pods.delete(pod["metadata"]["name"])
            self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        elif self.command == "GET":
            with self.pods.news:
                items = copy.deepcopy(self.pods.chosen(query)) if of_pods else []
                about = {"resourceVersion": str(self.pods.version)}
            self._answer({"kind": "List", "apiVersion": "v1", "metadata": about, "items": items})
        elif self.command == "POST":
            self._answer(body, 201)
        else:
            self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  # the server's names

    def _serve_pod(self, name: str, body: Json) -> None:
        here = {pod["metadata"]["name"]: pod for pod in self.pods.chosen({})}
        if name not in here:
            self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)
            return
        if self.command == "PATCH":
            self.pods.label(name, body if isinstance(body, dict) else {})
        elif self.command == "DELETE":
            self.pods.delete(name)
        self._answer(here[name])

    def _watch(self, query: Mapping[str, list[str]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pods = self.pods
        # What came since the list that the watch follows is not lost.
        seen = int(query["resourceVersion"][0]) if query.get("resourceVersion", ["0"])[0] != "0" else pods.version
        try:
            while True:
                with pods.news:
                    while len(pods.events) == seen:
                        pods.news.wait()
                    new, seen = pods.events[seen:], len(pods.events)
                for what, pod in new:
                    if matches(pod, query):
                        line = json.dumps({"type": what, "object": pod}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        except OSError:  # the client has gone
            self.close_connection = True

    def _answer(self, value: Json, code: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def kubernetes(ready: DriverSetup, directory: Path) -> Iterator[tuple[str, Pods]]:
    """The address of the API on loopback, and its pods; they end with the block."""
    pods = Pods(ready, directory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"pods": pods}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", pods
    finally:
        server.shutdown()
        server.server_close()
        pods.end()
