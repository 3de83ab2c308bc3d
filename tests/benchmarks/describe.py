"""Reading groups, against Kafka's own tool; bare is its start with `java -cp`, without the flags of its script.

One live classic group that lags on 100 partitions, with its generation: alone; as one of 500 groups that lag on its
topic; with 10,000 groups in ``__consumer_offsets``, and a ledger with a plan. 1,000 groups of 100 partitions; 5,000
groups (kgroup alone: Kafka's tool needs minutes, and the question is whether the cost is linear).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kgroup.model.reporter import NullReporter
from kgroup.sandbox.cluster import find_distribution
from tests.benchmarks.measure import kgroup, of_processes, once, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import broker
from tests.benchmarks.scale import PARTITIONS, RECORDS, TOPIC, commit_offsets, group_name
from tests.helpers.kafka_tools import CONSUMER_GROUPS, tool_command
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

GROUP = "bench-live"
QUICK = {"group.initial.rebalance.delay.ms": "0"}
TINY = {"groups": [3, 6], "neighbours": 3, "in_log": 6, "runs": 1}


def measurements(
    groups: Sequence[int] = (1_000, 5_000), neighbours: int = 500, in_log: int = 10_000, runs: int = 7
) -> Iterator[Measurement]:
    """``groups``: numbers of groups, ascending; Kafka's tool describes the first number of them, once.

    ``neighbours``: groups that read the topic of one; ``in_log``: groups in ``__consumer_offsets``.
    """
    ours, floor = turns(
        runs, lambda: once(kgroup("--help")), lambda: once([sys.executable, "-c", "import typer, rich.table"])
    )
    yield of_processes("`--help`; floor: importing typer and rich.table", ours, (), floor, Hold(at_most=1.3))
    with broker(QUICK) as bootstrap:
        with _live_group(bootstrap):
            yield from _one_group(bootstrap, runs)
        yield from _many_groups(bootstrap, groups)
    with broker(QUICK) as bootstrap, _live_group(bootstrap) as world:
        yield from _crowded(world, neighbours, in_log, runs)


def _peer(bootstrap: str, *arguments: str) -> list[str]:
    """Kafka's tool as kafka-consumer-groups.sh starts it."""
    return tool_command(CONSUMER_GROUPS, ("--bootstrap-server", bootstrap, *arguments), as_shipped=True)


def _bare(bootstrap: str, *arguments: str) -> list[str]:
    """... and without the flags of that script, which is quicker."""
    kafka = find_distribution(None, NullReporter())
    return kafka.command(CONSUMER_GROUPS, "--bootstrap-server", bootstrap, *arguments, quiet=True, archived=False)


@contextmanager
def _live_group(bootstrap: str) -> Iterator[KafkaWorld]:
    """One member that owns all partitions and has read no record."""
    with KafkaWorld(bootstrap) as world, Members(bootstrap) as members:
        world.topic(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            world.produce(TOPIC, RECORDS, partition)
        member = members.classic(GROUP, TOPIC)
        members.stable(member, partitions=PARTITIONS)
        member.commit()
        yield world


def _one_group(bootstrap: str, runs: int) -> Iterator[Measurement]:
    at, one = ("-b", bootstrap), ("--describe", "--group", GROUP)
    offsets, shipped, verdict, bare, state, stated, listed, names = turns(
        runs,
        lambda: once(kgroup("describe", GROUP, "--offsets", *at)),
        lambda: once(_peer(bootstrap, *one)),
        lambda: once(kgroup("describe", GROUP, *at)),
        lambda: once(_bare(bootstrap, *one)),
        lambda: once(kgroup("describe", GROUP, "--state", *at)),
        lambda: once(_bare(bootstrap, *one, "--state")),
        lambda: once(kgroup("list", *at)),
        lambda: once(_bare(bootstrap, "--list")),
    )
    yield of_processes(
        "`describe GROUP --offsets`; peer: as its script starts it", offsets, shipped, (), Hold(at_most=0.5)
    )
    yield of_processes("`describe GROUP`; peer: bare", verdict, bare, (), Hold(at_most=0.35))
    yield of_processes("`describe GROUP --state`; peer: bare", state, stated, (), Hold(at_most=0.3))
    yield of_processes("`list`; peer: bare", listed, names, (), Hold(at_most=0.3))


def _crowded(world: KafkaWorld, neighbours: int, in_log: int, runs: int) -> Iterator[Measurement]:
    at = ("-b", world.bootstrap)
    commit_offsets(world, range(neighbours - 1))
    yield _described(world, f"one of {neighbours:,} groups of its topic", runs)
    commit_offsets(world, range(neighbours - 1, in_log - 1))
    once(kgroup("catchup", "start", group_name(1), "--release-only", "--execute", *at))
    yield _described(world, f"{in_log:,} groups in the log, and a ledger", runs)


def _described(world: KafkaWorld, where: str, runs: int) -> Measurement:
    ours, bare = turns(
        runs,
        lambda: once(kgroup("describe", GROUP, "-b", world.bootstrap)),
        lambda: once(_bare(world.bootstrap, "--describe", "--group", GROUP)),
    )
    return of_processes(f"`describe GROUP`, {where}; peer: bare", ours, bare, (), Hold(at_most=0.35))


def _many_groups(bootstrap: str, counts: Sequence[int]) -> Iterator[Measurement]:
    made, each_s = 0, 0.0
    for count in counts:
        with KafkaWorld(bootstrap) as world:
            commit_offsets(world, range(made, count))
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
