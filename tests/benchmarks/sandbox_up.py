"""`sandbox up` with everything downloaded, against formatting with StorageTool and starting with default flags.

Both ways end when the broker answers a group request.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from kgroup.model.reporter import Reporter
from kgroup.sandbox import Sandbox, launch, ports
from kgroup.sandbox.broker import random_id
from kgroup.sandbox.cluster import find_distribution
from kgroup.sandbox.distribution import BROKER_CLASS, STORAGE_TOOL, Distribution
from kgroup.sandbox.layout import Role, listener_names
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.helpers.command_line import QuietReporter

TINY = {"runs": 1}


def ours(directory: Path, brokers: int, reporter: Reporter) -> float:
    """Seconds of ``Sandbox.up`` on an empty directory."""
    sandbox = Sandbox(directory / "ours")
    begin = time.perf_counter()
    try:
        sandbox.up(brokers=brokers, reporter=reporter)
        return time.perf_counter() - begin
    finally:
        sandbox.down(wipe=True, reporter=reporter)


def restart(directory: Path, reporter: Reporter) -> float:
    """Seconds of ``Sandbox.up`` after a kill -9: the broker's old session must end first."""
    sandbox = Sandbox(directory / "ours")
    try:
        sandbox.up(brokers=1, reporter=reporter)
        sandbox.kill(1)
        begin = time.perf_counter()
        sandbox.up(reporter=reporter)
        return time.perf_counter() - begin
    finally:
        sandbox.down(wipe=True, reporter=reporter)


def plain(directory: Path, kafka: Distribution) -> float:
    """Seconds of what a distribution's quick start says: format, then start, no flags, Kafka's own settings."""
    names = listener_names(Role.COMBINED, {})
    client, controller = ports.choose(len(names))
    root = directory / "plain"
    root.mkdir()
    settings = root / "server.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={root}/data\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{client}\ncontroller.listener.names=CONTROLLER\n"
        f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\noffsets.topic.replication.factor=1\n"
    )
    unarchived = replace(kafka, home=root)
    begin = time.perf_counter()
    tool = unarchived.command(STORAGE_TOOL, "format", "-t", random_id(), "-c", str(settings), quiet=True)
    subprocess.run(tool, check=True, capture_output=True)
    command = unarchived.command(BROKER_CLASS, str(settings))
    with (root / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as broker:
        try:
            launch.wait_until_ready(ports.HOST, [client], brokers=1, check=lambda: None, timeout_s=300)
            return time.perf_counter() - begin
        finally:
            broker.kill()


def measurements(runs: int = 5) -> Iterator[Measurement]:
    """Each run is in a directory of its own."""
    reporter = QuietReporter()
    kafka = find_distribution(None, reporter)
    one, formatted, three, again = turns(
        runs,
        lambda: _aside(lambda directory: ours(directory, 1, reporter)),
        lambda: _aside(lambda directory: plain(directory, kafka)),
        lambda: _aside(lambda directory: ours(directory, 3, reporter)),
        lambda: _aside(lambda directory: restart(directory, reporter)),
    )
    name = f"`up`, 1 broker of Kafka {kafka.version}"
    yield Measurement(name, "s", one, peer=formatted, holds=(Hold(at_most=0.5),))
    name = "`up`, 3 brokers and a controller; floor: 1 broker"
    yield Measurement(name, "s", three, floor=one, holds=(Hold(at_most=4),))
    yield Measurement("`up` after kill -9", "s", again, holds=(Hold(at_most=4, of="ours"),))


def _aside(measure: Callable[[Path], float]) -> float:
    directory = Path(tempfile.mkdtemp(prefix="kgroup-benchmark-"))
    try:
        return measure(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
