"""``reset --regex`` on 500 groups x 20 partitions against Kafka's own tool: ``python -m tests.benchmarks.reset``.

To hold: 1/10 of Kafka's tool, with everything that it does not do: guards, journal, reading back.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kgroup.sandbox import Sandbox
from tests.benchmarks.measure import measure, say
from tests.support.command_line import QuietReporter
from tests.support.kafka_tools import CONSUMER_GROUPS, tool_command
from tests.support.kafka_world import KafkaWorld

GROUPS, PARTITIONS, TOPIC = 500, 20, "bench"


def main() -> None:
    """Print ours, the peer's and the ratio, for the plan alone and for its execution."""
    with tempfile.TemporaryDirectory() as directory:
        sandbox = Sandbox(Path(directory))
        try:
            status = sandbox.up(reporter=QuietReporter())
            assert status.bootstrap_servers
            os.environ["KGROUP_STATE_DIR"] = directory
            _run(status.bootstrap_servers)
        finally:
            sandbox.down(wipe=True, reporter=QuietReporter())


def _run(bootstrap: str) -> None:
    with KafkaWorld(bootstrap) as world:
        world.topic(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            world.produce(TOPIC, 10, partition)
        for number in range(GROUPS):
            world.commit(f"bench-{number:03d}", {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
    ours = [sys.executable, "-m", "kgroup", "reset", "--regex", "bench-.*", "-b", bootstrap, "--all-topics"]
    peer = tool_command(
        CONSUMER_GROUPS,
        ("--bootstrap-server", bootstrap, "--reset-offsets", "--all-groups", "--all-topics"),
        as_shipped=True,
    )
    title = f"reset {GROUPS} groups x {PARTITIONS} partitions"
    # Ours first: the peer's commits, made again and again, look like a consumer with assign().
    plan, done = measure([*ours, "--to-latest"], runs=3), measure([*ours, "--to-latest", "--execute"], runs=3)
    say(f"{title}, plan", plan, measure([*peer, "--to-latest", "--dry-run"], runs=1))
    say(f"{title}, executed", done, measure([*peer, "--to-latest", "--execute"], runs=1))


if __name__ == "__main__":
    main()
