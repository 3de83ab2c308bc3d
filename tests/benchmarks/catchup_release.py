"""Releasing a group at the log end, for gaps of 50, 1M and 10M records, against `describe` of the same group.

``catchup start GROUP --release-only --execute`` from the plan to the last word, in this process and as one of its own,
just after the ``describe``. A classic group is released on a broker that does not wait for more members
(``group.initial.rebalance.delay.ms=0``).
"""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tests.benchmarks.measure import kgroup, once, timed, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import FOR_REPLAYS, QUICK_CHANGES, broker, ends, fill
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld

PARTITIONS, TOPIC = 4, "bench"
TINY = {"gaps": [4, 40], "runs": 1}

Command = Callable[..., float]


def measurements(gaps: Sequence[int] = (50, 1_000_000, 10_000_000), runs: int = 7) -> Iterator[Measurement]:
    """Each kind of group, way of starting and gap."""
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        fill(world, TOPIC, PARTITIONS, max(gaps), 1)
        for kind in ("classic", "consumer"):
            for how, command in (("in process", _here), ("as a process", _process)):
                yield from _measure(world, f"{kind} group, {how}", kind, command, gaps, runs)


def _here(*words: str) -> float:
    return timed(lambda: CommandLine()(*words))()


def _process(*words: str) -> float:
    return once(kgroup(*words)).wall_s


def _measure(
    world: KafkaWorld, title: str, kind: str, command: Command, gaps: Sequence[int], runs: int
) -> Iterator[Measurement]:
    until = ends(PARTITIONS, max(gaps))

    def once_each(gap: int) -> tuple[float, float]:
        group, behind = f"bench-{secrets.token_hex(4)}", ends(PARTITIONS, gap)
        world.commit(group, {(TOPIC, n): end - behind[n] for n, end in enumerate(until)})
        if kind == "consumer":
            to_consumer(world, group)
        described = command("describe", group)
        return command("catchup", "start", group, "--release-only", "--execute"), described

    medians: list[float] = []
    for gap, pairs in zip(gaps, turns(runs, *(partial(once_each, gap) for gap in gaps)), strict=True):
        ours, peer = zip(*pairs, strict=True)
        yield Measurement(f"{title}, gap of {gap:,}", "s", ours, peer, holds=(Hold(at_most=3),))
        medians.append(statistics.median(ours))
    name = f"{title}, slowest gap; floor: quickest"
    yield Measurement(name, "s", (max(medians),), floor=(min(medians),), holds=(Hold(at_most=1.3),))
