"""What is created once per Kafka and Java: the bootstrap checkpoint (by StorageTool) and the class data archive.

The archive has the classes that a start, a group request and a clean stop load. It takes 5 s and halves later starts.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from kgroup.model.reporter import Reporter
from kgroup.model.sandbox_status import ProcessRole
from kgroup.sandbox import launch, ports
from kgroup.sandbox.broker import META, BrokerProcess, format_by_tool, random_id
from kgroup.sandbox.distribution import BROKER_FLAGS, QUICK_FLAGS, STORAGE_TOOL, Distribution
from kgroup.sandbox.layout import Layout, Node, listener_names
from kgroup.support.errors import SandboxError
from kgroup.support.file_lock import exclusive_lock

_READY_S = 60.0
_DUMP_S = 120.0


def prepare(distribution: Distribution, reporter: Reporter) -> None:
    """Make what is missing. Without an archive (a warning, not an error) brokers take twice as long to start."""
    if distribution.checkpoint.exists() and distribution.archive.exists():
        return
    with exclusive_lock(distribution.home / "lock", reporter.event, "another kgroup that prepares Kafka"):
        for leftover in distribution.home.glob("preparing-*"):
            _remove(leftover)
        directory = Path(tempfile.mkdtemp(prefix="preparing-", dir=distribution.home))
        try:
            if not distribution.checkpoint.exists():
                _make_checkpoint(distribution, directory)
            if not distribution.archive.exists():
                reporter.event("PREPARE", "class data archive for quick starts (once, some 5 s)")
                _make_archive(distribution, directory)
        except SandboxError as error:
            if not distribution.checkpoint.exists():
                raise
            reason = "; ".join([error.message, *error.details])
            reporter.warn(f"no class data archive, so brokers start slowly: {reason}")
        finally:
            _remove(directory)


def _trial(directory: Path) -> tuple[BrokerProcess, Layout]:
    """A temporary broker, configured but not formatted."""
    names = listener_names(ProcessRole.COMBINED, {})
    node = Node(1, ProcessRole.COMBINED, dict(zip(names, ports.choose(len(names)), strict=True)))
    layout = Layout(random_id(), (node,))
    broker = BrokerProcess(node.node_id, directory)
    broker.configure(layout, node)
    return broker, layout


def _make_checkpoint(distribution: Distribution, directory: Path) -> None:
    broker, layout = _trial(directory / "checkpoint")
    tool = distribution.command(STORAGE_TOOL, flags=QUICK_FLAGS, quiet=True)
    settings = broker.directory / "server.properties"
    format_by_tool(tool, server_properties=settings, cluster_id=layout.cluster_id)
    (broker.data / META).unlink()
    broker.data.replace(distribution.checkpoint)


def _make_archive(distribution: Distribution, directory: Path) -> None:
    broker, layout = _trial(directory / "archive")
    broker.format(distribution, layout.cluster_id)
    archive = directory / "classes.jsa"
    flags = (*BROKER_FLAGS, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    broker.start(distribution, flags)

    def check() -> None:
        if broker.daemon.pid is None:
            raise SandboxError("the broker ended", details=broker.failure())

    try:
        address = layout.brokers[0].ports["PLAINTEXT"]
        launch.wait_until_ready(ports.HOST, [address], brokers=1, check=check, timeout_s=_READY_S)
        broker.terminate()
        if not broker.daemon.wait(_DUMP_S) or not archive.exists():
            raise SandboxError("Java wrote none", details=broker.failure())
        archive.replace(distribution.archive)
    finally:
        broker.kill()


def _remove(directory: Path) -> None:
    for pid_file in directory.glob("*/node-*/pid"):
        BrokerProcess(int(pid_file.parent.name.removeprefix("node-")), pid_file.parent.parent).kill()
    shutil.rmtree(directory, ignore_errors=True)
