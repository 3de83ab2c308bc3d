"""Releasing the head of a group, for gaps of any size, against ``describe``.

    python -m tests.benchmarks.catchup_release

``catchup start GROUP --release-only --execute`` from the plan to the last word, in this process and as one of its own,
against ``describe`` of the same group just before. To hold: flat within 1.3, and three times ``describe``. A classic
group is released on a broker that does not wait for more members (``group.initial.rebalance.delay.ms=0``).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable

from tests.benchmarks.measure import once
from tests.benchmarks.replaying import Times, broker, ends, fill, say_times, timed
from tests.support.command_line import CommandLine
from tests.support.conversion import to_consumer
from tests.support.kafka_world import KafkaWorld

GAPS = (50, 1_000_000, 10_000_000)
PARTITIONS, TOPIC = 4, "bench"
KINDS = ("classic", "consumer")

Command = Callable[..., float]


def main() -> None:
    """Print a line for each kind of group, way of starting and gap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaps", type=int, nargs="*", default=GAPS)
    parser.add_argument("--runs", type=int, default=7)
    chosen = parser.parse_args()
    with broker({"group.initial.rebalance.delay.ms": "0"}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        fill(world, TOPIC, PARTITIONS, max(chosen.gaps), 1)
        for kind in KINDS:
            for how, command in (("in process", _here), ("as a process", _process)):
                _measure(world, kind, how, command, chosen.gaps, chosen.runs)


def _here(*words: str) -> float:
    return timed(lambda: CommandLine()(*words))()


def _process(*words: str) -> float:
    return once([sys.executable, "-m", "kgroup", *words]).wall_s


def _measure(world: KafkaWorld, kind: str, how: str, command: Command, gaps: list[int], runs: int) -> None:
    found: dict[int, list[tuple[float, float]]] = {gap: [] for gap in gaps}
    for number in range(runs + 1):
        for gap in gaps:
            group = f"{kind}-{gap}-{how[0]}{how[3]}-{number}"
            until = ends(PARTITIONS, max(gaps))
            behind = ends(PARTITIONS, gap)
            world.commit(group, {(TOPIC, n): end - behind[n] for n, end in enumerate(until)})
            if kind == "consumer":
                to_consumer(world, group)
            described = command("describe", group)
            released = command("catchup", "start", group, "--release-only", "--execute")
            if number:
                found[gap].append((released, described))
    for gap, pairs in found.items():
        ours, peer = (Times(tuple(column)) for column in zip(*pairs, strict=True))
        say_times(f"release, {kind} group, gap of {gap}, {how}, against describe", ours, peer, "3")
    medians = [statistics.median(ours for ours, _ in pairs) for pairs in found.values()]
    print(f"  the largest is {max(medians) / min(medians):.2f} of the smallest; hold 1.3", flush=True)


if __name__ == "__main__":
    main()
