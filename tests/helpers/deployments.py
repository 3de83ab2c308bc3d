"""A ``kubectl`` that starts and stops real consumers on this machine: what a runbook does beside kgroup.

It knows ``kubectl scale deploy/NAME --replicas=N`` (and statefulset/NAME), KEDA's annotation
``autoscaling.keda.sh/paused-replicas`` of a scaledobject, and ``kubectl apply -k DIR``, whose kustomization gives an
application a configuration file, which counts for the pods that start from then on. As in earnest it answers at
once, and the pods come and go by themselves. ``kubectl apply -f FILE`` starts the Jobs in it: their pods have a command
of kgroup, or are those of an application, whose group is in ``GROUP_ID``. It knows ``wait`` and ``delete`` of a Job.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from tests.helpers.places import ROOT
from tests.helpers.waiting import wait_for

_APPLICATION = Path(__file__).with_name("application.py")
_SCRIPT = """#!/bin/sh
answer='{directory}/answer-'$$
mkfifo "$answer"
printf '%s %s\\n' $$ "$*" > '{requests}'
read -r status text < "$answer"
printf '%b\\n' "$text"
exit "$status"
"""
_HASH = "t6h27m5k28"  # of the content, in earnest
_KINDS = {"deploy": "deployment.apps", "statefulset": "statefulset.apps"}


@dataclass
class _App:
    name: str
    group: str
    topic: str
    is_static: bool
    processed: Path
    configuration: Path | None = None
    pods: list[subprocess.Popen[bytes]] = field(default_factory=list)
    unpaused: int = 0


class Deployments:
    """The applications of a cluster; ``bin`` has the kubectl, for PATH. ``requests`` are its arguments."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        self.requests: list[str] = []
        self._bootstrap, self._directory = bootstrap, directory
        self._apps: dict[str, _App] = {}
        self._ending: list[subprocess.Popen[bytes]] = []
        self._jobs: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._answers: list[IO[str]] = []
        self._requests = directory / "requests"
        os.mkfifo(self._requests)
        kubectl = self.bin / "kubectl"
        kubectl.write_text(_SCRIPT.format(requests=self._requests, directory=directory))
        kubectl.chmod(0o755)
        self._answering = threading.Thread(target=self._answer_all)

    def __enter__(self) -> Deployments:
        self._answering.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._requests.write_text("end\n")
        self._answering.join()
        for answer in self._answers:
            answer.close()
        apps = (app.pods for app in self._apps.values())
        for pod in [*self._ending, *(pod for pods in (*apps, *self._jobs.values()) for pod in pods)]:
            pod.kill()
            pod.wait()

    def add(
        self,
        name: str,
        group: str,
        topic: str,
        replicas: int = 0,
        *,
        static: bool = False,
        configuration: Path | None = None,
    ) -> None:
        """An application whose pods run already; ``static`` gives each its name as ``group.instance.id``.

        ``configuration`` is librdkafka's properties; the cluster and the group are given, whatever it says of them.
        """
        processed = self._directory / f"{name}.processed"
        self._apps[name] = _App(name, group, topic, static, processed, configuration, unpaused=replicas)
        self._scale(self._apps[name], replicas)

    def processed_by(self, group: str) -> list[tuple[str, int]]:
        """What the pods of a Job with this group have processed."""
        return _processed(self._directory / f"{group}.processed")

    def processed(self, name: str) -> list[tuple[str, int]]:
        """What the application has processed: (``payments:3``, 17), in order within each pod."""
        return _processed(self._apps[name].processed)

    def replicas(self, name: str) -> int:
        """How many pods run."""
        return len(self._apps[name].pods)

    def pods(self, name: str) -> list[int]:
        """The process ids of its pods that run."""
        return [pod.pid for pod in self._apps[name].pods if pod.poll() is None]

    def settle(self) -> None:
        """Wait until every pod that was told to end has ended."""
        wait_for(lambda: all(pod.poll() is not None for pod in self._ending), "the end of the pods")

    def _answer_all(self) -> None:
        with _open(self._requests, "r") as requests:
            while (line := requests.readline()) != "end\n":
                asker, _, request = line.rstrip("\n").partition(" ")
                self.requests.append(request)
                # A pipe of its own for each answer: the next kubectl may ask before the last one has read to the end.
                self._answers.append(_open(self._directory / f"answer-{asker}", "w"))
                self._answers[-1].write(self._answer(request) + "\n")
                self._answers[-1].flush()

    def _answer(self, line: str) -> str:
        found = re.match(r"(?:scale (?:deploy|statefulset)/|annotate scaledobject )(\S+)", line)
        if found and found[1] not in self._apps:
            return f'1 Error from server (NotFound): "{found[1]}" not found'
        if found := re.match(r"scale (deploy|statefulset)/(\S+) --replicas=(\d+)$", line):
            self._scale(self._apps[found[2]], int(found[3]))
            return f"0 {_KINDS[found[1]]}/{found[2]} scaled"
        if found := re.match(r"annotate scaledobject (\S+) .*autoscaling\.keda\.sh/paused-replicas(=0|-)$", line):
            app, pauses = self._apps[found[1]], found[2] == "=0"
            if pauses and app.pods:
                app.unpaused = len(app.pods)
            self._scale(app, 0 if pauses else app.unpaused)
            return f"0 scaledobject.keda.sh/{app.name} annotated"
        if found := re.match(r"apply -f (\S+)$", line):
            jobs = list(yaml.safe_load_all((self._directory / found[1]).read_text(encoding="utf-8")))
            for job in jobs:
                pod, count = job["spec"]["template"]["spec"], job["spec"].get("parallelism", 1)
                self._jobs[job["metadata"]["name"]] = [self._run_pod(pod) for _ in range(count)]
            return "0 " + "\\n".join(f"job.batch/{job['metadata']['name']} created" for job in jobs)
        if found := re.match(r"wait --for=condition=complete job/(\S+) --timeout=\S+$", line):
            codes = [pod.wait(60) for pod in self._jobs[found[1]]]
            return f"1 {codes}" if any(codes) else f"0 job.batch/{found[1]} condition met"
        if found := re.match(r"delete job/(\S+)$", line):
            self._end(self._jobs.pop(found[1]))
            return f'0 job.batch "{found[1]}" deleted'
        if found := re.match(r"apply -k (\S+)$", line):
            return f"0 {self._apply(self._directory / found[1])}"
        return "1 not known here"

    def _apply(self, overlay: Path) -> str:
        """Take over what ``kustomization.yaml`` generates; a path that is not absolute lies beside ``bin``."""
        (generated,) = yaml.safe_load((overlay / "kustomization.yaml").read_text())["configMapGenerator"]
        (file,) = generated["files"]
        self._apps[generated["name"]].configuration = overlay / file
        return f"configmap/{generated['name']}-{_HASH} created\\ndeployment.apps/{generated['name']} configured"

    def _run_pod(self, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Start a pod of a Job; its init container is tried again until it succeeds."""
        (container,) = pod["containers"]
        given = {one["name"]: one["value"] for one in container["env"]}
        command = shlex.join(container.get("command", ()))
        if app := self._apps.get(container["name"]):
            settings = json.dumps({"bootstrap.servers": self._bootstrap, "group.id": given["GROUP_ID"]})
            processed = str(self._directory / f"{given['GROUP_ID']}.processed")
            command = shlex.join([sys.executable, str(_APPLICATION), settings, app.topic, processed])
        begins = "".join(f"until {shlex.join(one['command'])}; do :; done; " for one in pod.get("initContainers", ()))
        environ = os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}", "KGROUP_CONTEXT": "prod"}
        silent = subprocess.DEVNULL
        words = ["sh", "-c", f"{begins}exec {command}"]
        return subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent, env=environ, cwd=ROOT)

    def _end(self, pods: Sequence[subprocess.Popen[bytes]]) -> None:
        for pod in pods:
            pod.terminate()
            self._ending.append(pod)

    def _scale(self, app: _App, replicas: int) -> None:
        self._end(app.pods[replicas:])
        app.pods = app.pods[:replicas]
        while len(app.pods) < replicas:
            name = f"{app.name}-{len(app.pods)}"
            settings = _properties(app.configuration) if app.configuration else {}
            settings |= {"bootstrap.servers": self._bootstrap, "group.id": app.group, "client.id": name}
            settings |= {"group.instance.id": name} if app.is_static else {}
            command = [sys.executable, str(_APPLICATION), json.dumps(settings), app.topic, str(app.processed)]
            silent = subprocess.DEVNULL
            app.pods.append(subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent))


def _processed(file: Path) -> list[tuple[str, int]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [(place, int(offset)) for place, _, offset in (line.partition(" ") for line in lines)]


def _open(fifo: Path, mode: str) -> IO[str]:
    """Open to both sides, so that this one waits for nobody, and the other sees no end as long as this one is open."""
    return os.fdopen(os.open(fifo, os.O_RDWR), mode, encoding="utf-8")


def _properties(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines() if line)
