"""One broker (or controller) process of a sandbox, and its directory: settings, data, log, pid."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from kgroup.sandbox import jvm
from kgroup.sandbox.config import Layout, Node, broker_properties, properties_text
from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.process import Daemon
from kgroup.sandbox.storage import format_by_copy, format_by_tool, is_formatted

PORT_TAKEN = "Address already in use"

_TELLING = re.compile(r"^\[[^]]*\] (ERROR|FATAL) |^Caused by: |^[\w.$]+(Exception|Error)\b|^Error: |^Unrecognized ")
_STOP_S = 15.0
_KILLED_S = 10.0


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A node's process. ``directory`` is the sandbox's."""

    node_id: int
    sandbox: Path

    @property
    def directory(self) -> Path:
        """Everything of this node."""
        return self.sandbox / f"node-{self.node_id}"

    @property
    def data(self) -> Path:
        """Kafka's log directory."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """What the process said, in all its lives."""
        return self.directory / "broker.log"

    @property
    def daemon(self) -> Daemon:
        """The process."""
        return Daemon(self.directory / "pid", str(self._settings))

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    def configure(self, layout: Layout, node: Node) -> None:
        """Write its server.properties."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = properties_text(broker_properties(layout, node, self.data))
        self._settings.touch(mode=0o600)  # may hold passwords
        self._settings.write_text(text, encoding="ascii")

    def format(self, kafka: Distribution, cluster_id: str, arguments: tuple[str, ...] = ()) -> None:
        """Make its log directory, unless there is one; with StorageTool where it is to be given arguments."""
        if is_formatted(self.data):
            return
        if arguments:
            tool = kafka.command(jvm.STORAGE_TOOL, flags=jvm.QUICK_FLAGS, quiet=True)
            format_by_tool(tool, server_properties=self._settings, cluster_id=cluster_id, arguments=arguments)
        else:
            format_by_copy(self.data, cluster_id=cluster_id, node_id=self.node_id, checkpoint=kafka.checkpoint)

    @property
    def log_size(self) -> int:
        """In bytes; taken before a start, it is where ``failure`` begins to read."""
        return self.log.stat().st_size if self.log.exists() else 0

    def start(self, kafka: Distribution, flags: tuple[str, ...] = jvm.BROKER_FLAGS) -> None:
        """Run it in the background."""
        self.daemon.start(kafka.command(jvm.BROKER_CLASS, str(self._settings), flags=flags), log=self.log)

    def failure(self, since: int = 0) -> tuple[str, ...]:
        """The last telling lines of the log after byte ``since``: errors and causes, else just the last."""
        with self.log.open("rb") as stream:
            stream.seek(since)
            lines = stream.read().decode(errors="replace").splitlines()
        telling = [line for line in lines if _TELLING.match(line)]
        return tuple((telling or [line for line in lines if line.strip()])[-4:])

    def terminate(self) -> None:
        """Ask it to stop; does not wait."""
        self.daemon.signal(signal.SIGTERM)

    def await_end(self) -> None:
        """Wait for the clean stop that was asked for; past patience, kill it."""
        if not self.daemon.wait(_STOP_S):
            self.kill()
        self.daemon.forget()

    def kill(self) -> None:
        """Kill -9, and wait until it is gone. The pid file stays: it did not stop on purpose."""
        self.daemon.signal(signal.SIGKILL)
        self.daemon.wait(_KILLED_S)
