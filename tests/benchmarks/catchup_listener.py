"""Members with the listener of ``kgroup.consumer`` that start at once, all of them behind, against the same without it.

From the subscription of all members, threads of one process, until the last one has its partitions: with the listener
each of them has also recorded its gap, and committed its log ends. ``also`` has the time in a callback.
"""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer

from kgroup.consumer import catch_up_if_behind
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.replaying import FOR_REPLAYS, broker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

TOPIC, BEHIND = "bench", 20
TINY = {"members": [1, 3], "runs": 1}

_WITHIN_S = 120.0
_LONG_S = 5.0
"""The default of ``within_s``."""

OnAssign = Callable[[Any, list[Any]], None]


def measurements(members: Sequence[int] = (1, 20, 100), runs: int = 3) -> Iterator[Measurement]:
    """Each number of members; each partition has one of the largest number."""
    partitions = max(members)
    with (
        broker({**FOR_REPLAYS, "group.initial.rebalance.delay.ms": "3000"}) as bootstrap,
        KafkaWorld(bootstrap) as world,
    ):
        world.topic(TOPIC, partitions)
        for partition in range(partitions):
            world.produce(TOPIC, 2 * BEHIND, partition)
        for count in members:
            inside: list[float] = []
            with_it, without = turns(
                runs, partial(_start, world, count, partitions, inside), partial(_start, world, count, partitions, None)
            )
            inside = inside[count:]  # the first turn is not measured
            also = {
                "callback_s": statistics.median(inside),
                "slowest_callback_s": max(inside),
                "longer_than_5_s": sum(each > _LONG_S for each in inside) / runs,
            }
            yield Measurement(f"{count} members", "s", with_it, without, also=also)


def _start(world: KafkaWorld, members: int, partitions: int, inside: list[float] | None) -> float:
    """The seconds until all members have their partitions; the time of each callback goes to ``inside``."""
    group = f"bench-{secrets.token_hex(4)}"
    world.commit(group, {(TOPIC, number): BEHIND for number in range(partitions)})
    config = {"bootstrap.servers": world.bootstrap, "group.id": group, "log_level": 0, "enable.auto.commit": False}
    assigned = [threading.Event() for _ in range(members)]
    ended = threading.Event()

    def run(number: int) -> None:
        consumer = Consumer(config)
        consumer.subscribe([TOPIC], on_assign=callbacks[number])
        while not ended.is_set():
            consumer.poll(0.1)
        consumer.close()

    callbacks = [partial(_timed, _callback(config, inside), inside, each) for each in assigned]
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(members)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    wait_for(lambda: all(each.is_set() for each in assigned), f"{members} assignments", _WITHIN_S)
    took_s = time.perf_counter() - began
    ended.set()
    for thread in threads:
        thread.join(_WITHIN_S)
    if inside is not None:
        offsets = world.offsets(group)
        assert set(offsets.values()) == {2 * BEHIND}, f"not all of them have caught up: {offsets}"
    return took_s


def _callback(config: dict[str, Any], inside: list[float] | None) -> OnAssign:
    if inside is None:
        return lambda consumer, partitions: None
    return catch_up_if_behind(BEHIND - 1, config, within_s=_WITHIN_S)


def _timed(
    callback: OnAssign, inside: list[float] | None, assigned: threading.Event, consumer: Any, partitions: list[Any]
) -> None:
    began = time.perf_counter()
    callback(consumer, partitions)
    if inside is not None:
        inside.append(time.perf_counter() - began)
    assigned.set()
