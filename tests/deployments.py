"""A ``kubectl`` that starts and stops real consumers on this machine: what a runbook does beside kgroup.

It knows ``kubectl scale deploy/NAME --replicas=N`` (and statefulset/NAME), and KEDA's annotation
``autoscaling.keda.sh/paused-replicas`` of a scaledobject. As in earnest it answers at once, and the pods come and
go by themselves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_for

_APPLICATION = Path(__file__).with_name("application.py")
_SCRIPT = """#!/bin/sh
printf '%s\\n' "$*" > '{requests}'
read -r status text < '{answers}'
echo "$text"
exit "$status"
"""
_KINDS = {"deploy": "deployment.apps", "statefulset": "statefulset.apps"}


@dataclass
class _App:
    name: str
    group: str
    topic: str
    is_static: bool
    processed: Path
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
        self._requests, self._answers = directory / "requests", directory / "answers"
        for fifo in (self._requests, self._answers):
            os.mkfifo(fifo)
        kubectl = self.bin / "kubectl"
        kubectl.write_text(_SCRIPT.format(requests=self._requests, answers=self._answers))
        kubectl.chmod(0o755)
        self._answering = threading.Thread(target=self._answer_all)

    def __enter__(self) -> Deployments:
        self._answering.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._requests.write_text("end\n")
        self._answering.join()
        for pod in [*self._ending, *(pod for app in self._apps.values() for pod in app.pods)]:
            pod.kill()
            pod.wait()

    def add(self, name: str, group: str, topic: str, replicas: int = 0, *, static: bool = False) -> None:
        """An application whose pods run already; ``static`` gives each its name as ``group.instance.id``."""
        self._apps[name] = _App(name, group, topic, static, self._directory / f"{name}.processed", unpaused=replicas)
        self._scale(self._apps[name], replicas)

    def processed(self, name: str) -> list[tuple[str, int]]:
        """What the application has processed: (``payments:3``, 17), in order within each pod."""
        file = self._apps[name].processed
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [(place, int(offset)) for place, _, offset in (line.partition(" ") for line in lines)]

    def replicas(self, name: str) -> int:
        """How many pods run."""
        return len(self._apps[name].pods)

    def settle(self) -> None:
        """Wait until every pod that was told to end has ended."""
        wait_for(lambda: all(pod.poll() is not None for pod in self._ending), "the end of the pods")

    def _answer_all(self) -> None:
        # Open for writing too: so there is no end of file between two requests.
        with os.fdopen(os.open(self._requests, os.O_RDWR), encoding="utf-8") as requests:
            for line in requests:
                if line == "end\n":
                    return
                self.requests.append(line.rstrip("\n"))
                self._answers.write_text(self._answer(line) + "\n")

    def _answer(self, line: str) -> str:
        if found := re.match(r"scale (deploy|statefulset)/(\S+) --replicas=(\d+)$", line):
            self._scale(self._apps[found[2]], int(found[3]))
            return f"0 {_KINDS[found[1]]}/{found[2]} scaled"
        if found := re.match(r"annotate scaledobject (\S+) .*autoscaling\.keda\.sh/paused-replicas(=0|-)$", line):
            app, pauses = self._apps[found[1]], found[2] == "=0"
            if pauses and app.pods:
                app.unpaused = len(app.pods)
            self._scale(app, 0 if pauses else app.unpaused)
            return f"0 scaledobject.keda.sh/{app.name} annotated"
        return "1 not known here"

    def _scale(self, app: _App, replicas: int) -> None:
        for pod in app.pods[replicas:]:
            pod.terminate()
            self._ending.append(pod)
        app.pods = app.pods[:replicas]
        while len(app.pods) < replicas:
            name = f"{app.name}-{len(app.pods)}"
            settings = {"bootstrap.servers": self._bootstrap, "group.id": app.group, "client.id": name}
            settings |= {"group.instance.id": name} if app.is_static else {}
            command = [sys.executable, str(_APPLICATION), json.dumps(settings), app.topic, str(app.processed)]
            silent = subprocess.DEVNULL
            app.pods.append(subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent))
