"""Reading groups, against Kafka's own tool; bare is its start with `java -cp`, without the flags of its script.

One live classic group of 100 partitions, with its generation; 1,000 groups of 100 partitions; 5,000 groups (kgroup
alone: Kafka's tool needs minutes, and the question is whether the cost is linear).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from kgroup.model.reporter import NullReporter
from kgroup.sandbox.cluster import find_distribution
from tests.benchmarks.measure import kgroup, of_processes, once, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import broker
from tests.support.kafka_tools import CONSUMER_GROUPS, tool_command
from tests.support.kafka_world import KafkaWorld
from tests.support.members import Members

PARTITIONS, TOPIC = 100, "bench"
TINY = {"groups": [3, 6], "runs": 1}


def measurements(groups: Sequence[int] = (1_000, 5_000), runs: int = 7) -> Iterator[Measurement]:
    """``groups``: numbers of groups, ascending; Kafka's tool describes the first number of them, once."""
    ours, floor = turns(
        runs, lambda: once(kgroup("--help")), lambda: once([sys.executable, "-c", "import typer, rich.table"])
    )
    yield of_processes("`--help`; floor: importing typer and rich.table", ours, (), floor, Hold(at_most=1.3))
    with broker({"group.initial.rebalance.delay.ms": "0"}) as bootstrap:
        yield from _one_group(bootstrap, runs)
        yield from _many_groups(bootstrap, groups)


def _peer(bootstrap: str, *arguments: str) -> list[str]:
    """Kafka's tool as kafka-consumer-groups.sh starts it."""
    return tool_command(CONSUMER_GROUPS, ("--bootstrap-server", bootstrap, *arguments), as_shipped=True)


def _bare(bootstrap: str, *arguments: str) -> list[str]:
    """... and without the flags of that script, which is quicker."""
    kafka = find_distribution(None, NullReporter())
    return kafka.command(CONSUMER_GROUPS, "--bootstrap-server", bootstrap, *arguments, quiet=True, archived=False)


def _one_group(bootstrap: str, runs: int) -> Iterator[Measurement]:
    group, at = "bench-live", ("-b", bootstrap)
    with KafkaWorld(bootstrap) as world, Members(bootstrap) as members:
        world.topic(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            world.produce(TOPIC, 10, partition)
        member = members.classic(group, TOPIC)
        members.stable(member, partitions=PARTITIONS)
        member.commit()
        one = ("--describe", "--group", group)
        offsets, shipped, verdict, bare, state, stated, listed, names = turns(
            runs,
            lambda: once(kgroup("describe", group, "--offsets", *at)),
            lambda: once(_peer(bootstrap, *one)),
            lambda: once(kgroup("describe", group, *at)),
            lambda: once(_bare(bootstrap, *one)),
            lambda: once(kgroup("describe", group, "--state", *at)),
            lambda: once(_bare(bootstrap, *one, "--state")),
            lambda: once(kgroup("list", *at)),
            lambda: once(_bare(bootstrap, "--list")),
        )
    yield of_processes(
        "`describe GROUP --offsets`; peer: as its script starts it", offsets, shipped, (), Hold(at_most=0.5)
    )
    yield of_processes("`describe GROUP`; peer: bare", verdict, bare, (), Hold(at_most=0.45))
    yield of_processes("`describe GROUP --state`; peer: bare", state, stated, (), Hold(at_most=0.3))
    yield of_processes("`list`; peer: bare", listed, names, (), Hold(at_most=0.3))


def _many_groups(bootstrap: str, counts: Sequence[int]) -> Iterator[Measurement]:
    made, each_s = 0, 0.0
    for count in counts:
        with KafkaWorld(bootstrap) as world:
            for number in range(made, count):
                world.commit(f"bench-{number:05d}", {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
        (ours,) = turns(3, lambda: once(kgroup("describe", "--all-groups", "-b", bootstrap, "-o", "csv")))
        name, small = f"`describe -A -o csv`, {count:,} groups", Hold(at_most=200, of="peak_mb")
        if made == 0:
            peer = once(_peer(bootstrap, "--describe", "--all-groups"))
            yield of_processes(name, ours, [peer], (), Hold(at_most=0.05), small)
            each_s = min(figure.wall_s for figure in ours) / count
        else:
            yield of_processes(name, ours, (), (), small)
            linear = tuple(figure.wall_s / count * 1e6 for figure in ours)
            yield Measurement(f"... a group; floor: of {counts[0]:,}", "us", linear, floor=(each_s * 1e6,))
        made = count
