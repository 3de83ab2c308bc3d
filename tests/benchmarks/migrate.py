"""``migrate`` of 200 Empty groups x 20 partitions against bare heartbeats: ``python -m tests.benchmarks.migrate``.

The floor is the pair of heartbeats (KIP-848: join, leave) that a minimal client sends for each group, one after the
other over a connection that stands: it commits nothing again, looks at nothing, and proves nothing. To hold: 8 times
that a group for the execute step, which is the whole execution less the plan that it begins with.
"""

from __future__ import annotations

import base64
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest

from kgroup.sandbox import Sandbox
from tests.benchmarks.measure import Figure, once, say, typical
from tests.support.command_line import QuietReporter
from tests.support.conversion import heartbeat_request, join_request
from tests.support.kafka_world import KafkaWorld

GROUPS, PARTITIONS, TOPIC = 200, 20, "bench"
RUNS = 5
HELD = 8.0
_MEMBER_ID_REQUIRED = 79


def main() -> None:
    """Print ours, the floor and the ratio, for the execute step and for the whole execution."""
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
    names = [f"bench-{number:03d}" for number in range(GROUPS)]
    ours = [sys.executable, "-m", "kgroup", "migrate", "--regex", "bench-.*", "-b", bootstrap]
    with KafkaWorld(bootstrap) as world:
        world.topic(TOPIC, PARTITIONS)
        for number, name in enumerate(names):
            world.commit(name, {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
        bare = Bare(world, names)
        rounds = [_round(bare, ours) for _ in range(RUNS + 1)][1:]  # the first is not warm
        listed = world.groups()
        assert {listed[name] for name in names} == {("consumer", "empty")}
    floors, plans, done = zip(*rounds, strict=True)
    _print(typical(plans), typical(done), statistics.median(floors))


def _round(bare: Bare, ours: Sequence[str]) -> tuple[float, Figure, Figure]:
    """One after the other, so that what else the machine does falls upon all: the floor, the plan, the execution."""
    bare.to_classic()
    floor_s = bare.to_consumer()
    bare.to_classic()
    return floor_s, once(ours), once([*ours, "--execute"])


def _print(plan: Figure, done: Figure, floor_s: float) -> None:
    title = f"migrate {GROUPS} groups x {PARTITIONS} partitions"
    say(f"{title}, plan", plan, None)
    say(f"{title}, executed", done, None)
    step_s = done.wall_s - plan.wall_s
    for what, ours_s in (("the execute step", step_s), ("the whole execution", done.wall_s)):
        print(
            f"{what}: kgroup {_each_ms(ours_s):.2f} ms a group; two bare heartbeats {_each_ms(floor_s):.2f} ms; "
            f"ratio {ours_s / floor_s:.2f}" + (f", to hold {HELD:g}" if what == "the execute step" else ""),
            flush=True,
        )


def _each_ms(seconds: float) -> float:
    return seconds * 1000 / GROUPS


class Bare:
    """Converts groups there and back with two requests each, one after the other."""

    def __init__(self, world: KafkaWorld, names: Sequence[str]) -> None:
        self._manager = world._groups._manager
        self._nodes = {name: world.coordinator(name) for name in names}

    def to_consumer(self) -> float:
        """How long it took, in seconds, from the first request to the last answer."""
        return self._timed(self._upwards)

    def to_classic(self) -> None:
        """The way back; of a group that is classic already it changes nothing."""
        self._timed(self._downwards)

    def _timed(self, of_one: Any) -> float:
        async def all_of_them() -> float:
            began = time.perf_counter()
            for name, node in self._nodes.items():
                await of_one(name, node)
            return time.perf_counter() - began

        return float(self._manager.run(all_of_them))

    async def _upwards(self, group: str, node: int) -> None:
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for epoch in (0, -1):
            answer = await self._manager.send(heartbeat_request(group, member_id, epoch), node_id=node)
            assert answer.error_code == 0, answer

    async def _downwards(self, group: str, node: int) -> None:
        answer = await self._manager.send(join_request(group), node_id=node)
        assert answer.error_code == _MEMBER_ID_REQUIRED, answer
        pending = LeaveGroupRequest.MemberIdentity(member_id=answer.member_id, group_instance_id=None, reason=None)
        answer = await self._manager.send(LeaveGroupRequest[5](group_id=group, members=[pending]), node_id=node)
        assert answer.error_code == 0, answer


if __name__ == "__main__":
    main()
