"""kgroup against Kafka's own tool, in one run on one machine: ``python -m tests.benchmarks.describe``.

One live classic group of 100 partitions, with its generation; 1,000 groups x 100 partitions; 5,000 groups
(kgroup alone: Kafka's tool needs minutes, and the question is whether the cost is linear). To hold: 0.5 of
Kafka's tool for one group, 1/20 for 1,000, 200 MB, and ``--help`` at most 1.3 of importing typer and rich.table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kgroup.sandbox import Sandbox
from tests.benchmarks.measure import measure, say
from tests.support.command_line import QuietReporter
from tests.support.kafka_tools import CONSUMER_GROUPS, tool_command
from tests.support.kafka_world import KafkaWorld
from tests.support.members import Members

PARTITIONS = 100
TOPIC = "bench"


def main() -> None:
    """Print one line for each case: ours, the peer's, the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="*", default=[1000, 5000], help="numbers of groups")
    parser.add_argument("--no-peer-for-many", action="store_true", help="skip Kafka's tool on many groups")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sandbox = Sandbox(Path(directory))
        try:
            status = sandbox.up(properties={"group.initial.rebalance.delay.ms": "0"}, reporter=QuietReporter())
            assert status.bootstrap_servers
            os.environ["KGROUP_STATE_DIR"] = directory
            _help()
            _one_group(status.bootstrap_servers)
            _many_groups(status.bootstrap_servers, chosen.groups, peer=not chosen.no_peer_for_many)
        finally:
            sandbox.down(wipe=True, reporter=QuietReporter())


def _kgroup(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kgroup", *arguments]


def _peer(bootstrap: str, *arguments: str) -> list[str]:
    """Kafka's tool as kafka-consumer-groups.sh starts it."""
    return tool_command(CONSUMER_GROUPS, ("--bootstrap-server", bootstrap, "--describe", *arguments), as_shipped=True)


def _help() -> None:
    ours = measure(_kgroup("--help"), runs=9)
    floor = measure([sys.executable, "-c", "import typer, rich.table"], runs=9)
    say("kgroup --help / importing typer, rich.table", ours, floor)


def _one_group(bootstrap: str) -> None:
    with KafkaWorld(bootstrap) as world, Members(bootstrap) as members:
        world.topic(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            world.produce(TOPIC, 10, partition)
        member = members.classic("bench-live", TOPIC)
        members.stable(member, partitions=PARTITIONS)
        member.commit()
        ours = measure(_kgroup("describe", "bench-live", "-b", bootstrap, "--offsets"), runs=9)
        peer = measure(_peer(bootstrap, "--group", "bench-live"))
        say(f"one classic group x {PARTITIONS} partitions, with generation", ours, peer)


def _many_groups(bootstrap: str, counts: Sequence[int], *, peer: bool) -> None:
    made, first = 0, None
    for position, count in enumerate(counts):
        with KafkaWorld(bootstrap) as world:
            for number in range(made, count):
                world.commit(f"bench-{number:05d}", {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
        made = count
        ours = measure(_kgroup("describe", "--all-groups", "-b", bootstrap, "-o", "csv"), runs=3)
        title = f"{count} groups x {PARTITIONS} partitions, csv, {ours.lines} lines"
        if position == 0 and peer:
            say(title, ours, measure(_peer(bootstrap, "--all-groups"), runs=1))
        else:
            say(title, ours, None)
        if first is None:
            first = ours.wall_s / count
        else:
            print(f"    {ours.wall_s / count / first:.2f} of the time a group at {counts[0]} groups")


if __name__ == "__main__":
    main()
