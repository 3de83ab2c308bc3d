"""Brokers that need ZooKeeper: 3.0 (KRaft came to production with 3.3), and 2.8, which kgroup refuses."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgroup.sandbox import distribution, launch, ports
from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.layout import properties_text
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.waiting import wait_for

_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_READY_S = 60.0


@contextmanager
def broker_with_zookeeper(kafka: Distribution, directory: Path) -> Iterator[str]:
    """The address of a broker that is ready, with a ZooKeeper of its own; both are killed when the block ends."""
    port, zookeeper_port = ports.choose(2)
    zookeeper = {
        "dataDir": str(directory / "zookeeper"),
        "clientPort": str(zookeeper_port),
        "clientPortAddress": ports.HOST,
        "admin.enableServer": "false",
    }
    broker = BROKER_PROPERTIES | {
        "broker.id": "1",
        "listeners": f"PLAINTEXT://{ports.HOST}:{port}",
        "zookeeper.connect": f"{ports.HOST}:{zookeeper_port}",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(_running(kafka, _ZOOKEEPER, zookeeper, directory / "zookeeper.properties"))
        wait_for(lambda: not ports.is_free(zookeeper_port) or process.poll() is not None, "ZooKeeper")
        process = stack.enter_context(
            _running(kafka, distribution.BROKER_CLASS, broker, directory / "server.properties")
        )

        def check() -> None:
            assert process.poll() is None, (directory / "server.log").read_text()[-2000:]

        launch.wait_until_ready(ports.HOST, [port], brokers=1, check=check, timeout_s=_READY_S)
        yield f"{ports.HOST}:{port}"


@contextmanager
def _running(
    kafka: Distribution, main: str, properties: dict[str, str], file: Path
) -> Iterator[subprocess.Popen[bytes]]:
    file.write_text(properties_text(properties), encoding="ascii")
    command = kafka.command(main, str(file), flags=distribution.BROKER_FLAGS, archived=False)
    with file.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
