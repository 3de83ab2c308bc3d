"""`reset --regex` on 500 groups of 20 partitions, against Kafka's own tool as its script starts it.

The tool has no guards and no journal, and it does not read back what it committed: together half of our time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measure import kgroup, of_processes, once, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import broker
from tests.helpers.kafka_tools import CONSUMER_GROUPS, tool_command
from tests.helpers.kafka_world import KafkaWorld

PARTITIONS, TOPIC = 20, "bench"
TINY = {"groups": 3, "runs": 1}


def measurements(groups: int = 500, runs: int = 3) -> Iterator[Measurement]:
    """The plan alone, then plan and execution; Kafka's tool runs once for each."""
    with broker() as bootstrap:
        with KafkaWorld(bootstrap) as world:
            world.topic(TOPIC, PARTITIONS)
            for partition in range(PARTITIONS):
                world.produce(TOPIC, 10, partition)
            for number in range(groups):
                world.commit(f"bench-{number:03d}", {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
        words = ("--bootstrap-server", bootstrap, "--reset-offsets", "--all-groups", "--all-topics", "--to-latest")
        ours = kgroup("reset", "--regex", "bench-.*", "-b", bootstrap, "--all-topics", "--to-latest")
        # Ours first: the peer's commits, made again and again, look like a consumer with assign().
        (plans,) = turns(runs, lambda: once(ours))
        (done,) = turns(runs, lambda: once([*ours, "--execute"]))
        for name, figures, flag in (("plan", plans, "--dry-run"), ("plan and execution", done, "--execute")):
            peer = once(tool_command(CONSUMER_GROUPS, (*words, flag), as_shipped=True))
            yield of_processes(name, figures, [peer], (), Hold(at_most=0.1))
