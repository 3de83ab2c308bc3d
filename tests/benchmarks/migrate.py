"""`migrate` of 200 Empty groups of 20 partitions; the floor is the two bare heartbeats that convert a group.

A minimal client sends the heartbeats (KIP-848: join, leave) for one group after the other over a connection that it
has: it commits nothing again, checks nothing, and verifies nothing. The execution alone is the whole command less the
plan that it begins with.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest

from tests.benchmarks.measure import Figure, kgroup, of_processes, once, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import broker
from tests.helpers.conversion import heartbeat_request, join_request
from tests.helpers.kafka_world import KafkaWorld

PARTITIONS, TOPIC = 20, "bench"
TINY = {"groups": 3, "runs": 1}
_MEMBER_ID_REQUIRED = 79


def measurements(groups: int = 200, runs: int = 5) -> Iterator[Measurement]:
    """The plan and the whole execution, then both as the time of a group against the floor."""
    names = [f"bench-{number:03d}" for number in range(groups)]
    with broker() as bootstrap, KafkaWorld(bootstrap) as world:
        ours = kgroup("migrate", "--regex", "bench-.*", "-b", bootstrap)
        world.topic(TOPIC, PARTITIONS)
        for number, name in enumerate(names):
            world.commit(name, {(TOPIC, p): number % 10 for p in range(PARTITIONS)})
        bare = Bare(world, names)
        (rounds,) = turns(runs, lambda: _round(bare, ours))
        listed = world.groups()
        assert {listed[name] for name in names} == {("consumer", "empty")}
    floors, plans, done = zip(*rounds, strict=True)
    yield of_processes("plan", plans)
    yield of_processes("plan and execution", done)
    floor = tuple(floor_s * 1000 / groups for floor_s in floors)
    step = tuple((whole.wall_s - plan.wall_s) * 1000 / groups for plan, whole in zip(plans, done, strict=True))
    yield Measurement("execution alone, a group", "ms", step, floor=floor, holds=(Hold(at_most=8),))
    whole = tuple(figure.wall_s * 1000 / groups for figure in done)
    yield Measurement("plan and execution, a group", "ms", whole, floor=floor)


def _round(bare: Bare, ours: Sequence[str]) -> tuple[float, Figure, Figure]:
    """One after the other, so that what else the machine does falls upon all: the floor, the plan, the execution."""
    bare.to_classic()
    floor_s = bare.to_consumer()
    bare.to_classic()
    return floor_s, once(ours), once([*ours, "--execute"])


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
