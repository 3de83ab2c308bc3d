"""How long ``up`` takes with everything cached, against formatting with StorageTool and starting with default flags.

    python tests/benchmarks/sandbox_up.py [RUNS]

Both ways end when the broker answers a group request. Medians; the ratios are what the issue holds.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from kgroup.model.reporter import Reporter
from kgroup.output.reporter import StderrReporter
from kgroup.sandbox import Sandbox, launch, ports
from kgroup.sandbox.broker import random_id
from kgroup.sandbox.cluster import find_distribution
from kgroup.sandbox.distribution import BROKER_CLASS, STORAGE_TOOL, Distribution
from kgroup.sandbox.layout import Role, listener_names

RUNS = 5


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
            launch.wait_until_ready(ports.HOST, [client], brokers=1, check=lambda: None, timeout_s=60)
            return time.perf_counter() - begin
        finally:
            broker.kill()


def median(measure: Callable[[Path], float], runs: int) -> float:
    """Of so many runs, each in a directory of its own."""
    took = []
    for _ in range(runs):
        directory = Path(tempfile.mkdtemp(prefix="kgroup-benchmark-"))
        try:
            took.append(measure(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return statistics.median(took)


def main(runs: int) -> None:
    """Print the table."""
    reporter = StderrReporter(sys.stderr)
    kafka = find_distribution(None, reporter)
    one = median(lambda directory: ours(directory, 1, reporter), runs)
    formatted = median(lambda directory: plain(directory, kafka), runs)
    three = median(lambda directory: ours(directory, 3, reporter), runs)
    again = median(lambda directory: restart(directory, reporter), runs)
    print(f"Kafka {kafka.version}, medians of {runs}, until a group request is answered")
    print(f"  up, 1 broker                        {one:6.2f} s")
    print(f"  StorageTool and default flags       {formatted:6.2f} s")
    print(f"  ratio                               {one / formatted:6.2f}    (hold: 0.50)")
    print(f"  up, 3 brokers and a controller      {three:6.2f} s")
    print(f"  ratio to 1 broker                   {three / one:6.2f}    (hold: 4.00)")
    print(f"  up after kill -9                    {again:6.2f} s  (hold: 4.00)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
