"""One broker (or controller) process of a sandbox, and its directory: settings, data, log, pid file.

kgroup formats the data directory itself: it writes two files. StorageTool runs only if it needs arguments, since it
takes 0.9 s. The bootstrap checkpoint has the cluster's initial feature levels and no cluster id, so one copy serves all
clusters. Its place is that of StorageTool: since Kafka 4.4 the metadata log's directory.
"""

from __future__ import annotations

import base64
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kgroup.sandbox.distribution import BROKER_CLASS, BROKER_FLAGS, QUICK_FLAGS, STORAGE_TOOL, Distribution
from kgroup.sandbox.layout import Layout, Node, broker_properties, properties_text
from kgroup.sandbox.process import Daemon
from kgroup.support.atomic_file import replace_file
from kgroup.support.errors import SandboxError

META = "meta.properties"


def random_id() -> str:
    """A Kafka Uuid: 16 random bytes in base64url. It never begins with a dash, which tools would read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def is_formatted(data: Path) -> bool:
    return (data / META).exists()


def format_by_copy(data: Path, *, cluster_id: str, node_id: int, checkpoint: Path) -> None:
    """Create a log directory; ``meta.properties`` is written last, as it marks the directory as complete."""
    shutil.copytree(checkpoint, data, dirs_exist_ok=True)
    meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": random_id()}
    replace_file(data / META, "".join(f"{key}={value}\n" for key, value in meta.items()).encode())


def format_by_tool(
    tool: Sequence[str], *, server_properties: Path, cluster_id: str, arguments: Sequence[str] = ()
) -> None:
    """Run StorageTool (``tool`` is its command up to the class). Raises SandboxError with its output."""
    result = subprocess.run(
        [*tool, "format", "-t", cluster_id, "-c", str(server_properties), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        lines = (result.stdout + result.stderr).splitlines()
        errors = [line for line in lines if line and not line.startswith("\tat ")]
        raise SandboxError("StorageTool could not format the log directory", details=tuple(errors[-4:]))


PORT_TAKEN = "Address already in use"

_TELLING = re.compile(r"^\[[^]]*\] (ERROR|FATAL) |^Caused by: |^[\w.$]+(Exception|Error)\b|^Error: |^Unrecognized ")
_STOP_S = 15.0
_KILLED_S = 10.0


class BrokerProcess(msgspec.Struct, frozen=True):
    """A node's process; ``sandbox`` is the directory of the whole sandbox."""

    node_id: int
    sandbox: Path

    @property
    def directory(self) -> Path:
        return self.sandbox / f"node-{self.node_id}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The process's output, of all its runs."""
        return self.directory / "broker.log"

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.directory / "pid", str(self._settings))

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    def configure(self, layout: Layout, node: Node) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = properties_text(broker_properties(layout, node, self.data))
        self._settings.touch(mode=0o600)  # may hold passwords
        self._settings.write_text(text, encoding="ascii")

    def format(self, kafka: Distribution, cluster_id: str, arguments: tuple[str, ...] = ()) -> None:
        """Format the log directory unless it is formatted; uses StorageTool if it needs ``arguments``."""
        if is_formatted(self.data):
            return
        if arguments:
            tool = kafka.command(STORAGE_TOOL, flags=QUICK_FLAGS, quiet=True)
            format_by_tool(tool, server_properties=self._settings, cluster_id=cluster_id, arguments=arguments)
        else:
            format_by_copy(self.data, cluster_id=cluster_id, node_id=self.node_id, checkpoint=kafka.checkpoint)

    @property
    def log_size(self) -> int:
        """Size of the log in bytes. Taken before a start, it is the ``since`` of ``failure``."""
        return self.log.stat().st_size if self.log.exists() else 0

    def start(self, kafka: Distribution, flags: tuple[str, ...] = BROKER_FLAGS) -> None:
        self.daemon.start(kafka.command(BROKER_CLASS, str(self._settings), flags=flags), log=self.log)

    def failure(self, since: int = 0) -> tuple[str, ...]:
        """The last four relevant log lines after byte ``since``: errors and causes if any, otherwise any lines."""
        with self.log.open("rb") as stream:
            stream.seek(since)
            lines = stream.read().decode(errors="replace").splitlines()
        telling = [line for line in lines if _TELLING.match(line)]
        return tuple((telling or [line for line in lines if line.strip()])[-4:])

    def terminate(self) -> None:
        """Send SIGTERM; does not wait."""
        self.daemon.signal(signal.SIGTERM)

    def await_end(self) -> None:
        """Wait for the clean stop after ``terminate``; kill the process if it takes too long."""
        if not self.daemon.wait(_STOP_S):
            self.kill()
        self.daemon.remove_pid_file()

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone. The pid file stays, as after a crash."""
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait(_KILLED_S)
