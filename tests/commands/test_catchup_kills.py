"""``kgroup catchup`` killed with SIGKILL over and over: its runner, a worker, Spark's JVM, the broker; exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kgroup.sandbox import Sandbox
from tests.conftest import MORTAL
from tests.helpers.catchup.catchups import LOCAL, copies, jvms_of, offsets, plan_said, replaying, written
from tests.helpers.catchup.spark_kills import workers_of
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import Running, running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]

WORKER, JVM, RUNNER = "worker", "jvm", "runner"


def filled(world: KafkaWorld, topic: str, counts: Sequence[int]) -> str:
    """A topic with so many records in each partition, each of which says where it stands."""
    world.topic(topic, len(counts))
    producer = Producer(
        {
            "bootstrap.servers": world.bootstrap,
            "enable.idempotence": True,  # else a batch that is sent again may stand behind the next one
            "linger.ms": 5,
            "queue.buffering.max.messages": 2 * 10**6,
        }
    )
    for partition, count in enumerate(counts):
        for offset in range(count):
            producer.produce(topic, b"%d:%d" % (partition, offset), partition=partition)
            if offset % 10_000 == 0:
                producer.poll(0)
    assert producer.flush(60) == 0
    return topic


@dataclass
class Killer:
    """Kills what it is told to, each time that the copy has grown by an amount that is left to chance."""

    world: KafkaWorld
    copy: str
    partitions: int
    victims: Iterator[str]
    growth: tuple[int, int]
    chance: random.Random
    kills: int
    rate: str
    """So slow that it is not done before it was killed often enough."""
    done: Counter[str] = field(default_factory=Counter)

    def go_at(self, process: Running) -> None:
        """Kill parts of it until it is dead, or done, or has been killed often enough."""
        runner = process.process
        while self.done.total() < self.kills and runner.poll() is None:
            long = written(self.world, self.copy, self.partitions) + self.chance.randrange(*self.growth)
            wait_for(partial(self._grown_or_over, long, runner), "more of the copy", 180)
            if runner.poll() is not None:
                return
            victim = next(self.victims)
            jvms = jvms_of(runner.pid)
            pids = {WORKER: workers_of(jvms), JVM: jvms, RUNNER: [runner.pid]}[victim]
            if not pids:
                continue
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(sorted(pids)), signal.SIGKILL)
                self.done[victim] += 1
            if victim != WORKER:
                return

    def _grown_or_over(self, long: int, runner: subprocess.Popen[str]) -> bool:
        return written(self.world, self.copy, self.partitions) >= long or runner.poll() is not None


def killed_until_done(world: KafkaWorld, group: str, killer: Killer) -> Running:
    """Start, and resume after each death of the whole; the run that came to its end."""
    words: tuple[str, ...] = ("start", group, "--to-topic", killer.copy)
    for _ in range(killer.kills + 1):
        with running("catchup", *words, *LOCAL, "--rate", killer.rate, "--execute") as process:
            if words[0] == "start":
                plan = plan_said(process)
                process.says("RELEASED")
                words = ("resume", plan)
            killer.go_at(process)
            code = process.process.wait(300)
            assert code in (0, 1, -signal.SIGKILL), process.lines
            if code >= 0:
                process.ends(code)  # from here on its lines are all there
            if code == 0:
                return process
            if code == 1:
                assert any("FAILED" in line and f"resume {plan}" in line for line in process.lines), process.lines
                noise = [line for line in process.lines if "Traceback" in line or " WARN " in line or "\tat " in line]
                assert not noise
    raise AssertionError("never done")


def exactly_once(world: KafkaWorld, killer: Killer, topic: str, counts: Sequence[int]) -> None:
    """By key set and by count; and its kills have hit open transactions."""
    found = copies(world, killer.copy)
    times = Counter(one.source for one in found)
    expected = {f"{topic}:{partition}:{offset}" for partition, count in enumerate(counts) for offset in range(count)}
    assert times.keys() == expected
    assert len(found) == len(expected)
    assert all(one.source == f"{topic}:{(one.value or b'').decode()}" for one in found)
    assert len(copies(world, killer.copy, "read_uncommitted")) > len(found), "no kill hit an open transaction"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("counts", "kills", "growth", "rate", "seed"), [([300_000, 60_000], 14, (8_000, 25_000), "40000/s", 2)]
)
def test_a_gap_is_copied_exactly_once_whatever_is_killed(
    kgroup: CommandLine,
    world: KafkaWorld,
    name: Name,
    bystander: str,
    counts: list[int],
    kills: int,
    growth: tuple[int, int],
    rate: str,
    seed: int,
) -> None:
    topic, group, copy = name("orders"), name("svc"), world.topic(name("copy"), len(counts))
    filled(world, topic, counts)
    world.commit(group, {(topic, partition): 0 for partition in range(len(counts))})
    chance = random.Random(seed)
    victims = iter(lambda: chance.choice([WORKER, WORKER, JVM, RUNNER]), None)
    killer = Killer(world, copy, len(counts), victims, growth, chance, kills, rate)

    last = killed_until_done(world, group, killer)

    assert killer.done.total() == kills
    assert killer.done.keys() == {WORKER, JVM, RUNNER}
    last.says("VERIFIED")
    exactly_once(world, killer, topic, counts)
    assert offsets(world, group) == {(topic, partition): count for partition, count in enumerate(counts)}
    (plan,) = kgroup("catchup", "list", "-o", "json").data
    assert (plan["state"], plan["totals"]["delivered_count"], plan["totals"]["verified"]) == ("done", sum(counts), True)


def _longer(world: KafkaWorld, topic: str, than: int, process: Running) -> bool:
    return written(world, topic) > than or process.process.poll() is not None


@pytest.mark.soak
def test_a_broker_that_is_killed_and_comes_back_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Twice in one replay: a broker may go again while what it began before is not settled."""
    sandbox, reporter, counts = Sandbox(tmp_path / "broker"), QuietReporter(), (800, 300)
    try:
        address = sandbox.up(properties=MORTAL, reporter=reporter).bootstrap_servers
        assert address
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", address)
        with KafkaWorld(address) as world:
            topic, group, copy = filled(world, name("orders"), counts), name("svc"), world.topic(name("copy"), 2)
            world.commit(group, {(topic, 0): 0, (topic, 1): 0})
            start = ("start", group, "--to-topic", copy, *LOCAL, "--rate", "30/s", "--timeout", "60s", "--execute")
            with replaying(world, copy, *start) as process:
                for _ in range(2):
                    before = written(world, copy)
                    sandbox.kill(1)
                    assert process.process.poll() is None, process.lines
                    sandbox.up(properties=MORTAL, reporter=reporter)
                    wait_for(partial(_longer, world, copy, before, process), "more records", 120)
                process.process.wait(180)
                process.ends(0)
                process.says("VERIFIED")

            expected = [f"{topic}:{number}:{offset}" for number in range(2) for offset in range(counts[number])]
            assert sorted(one.source for one in copies(world, copy)) == sorted(expected)
            assert offsets(world, group) == {(topic, 0): counts[0], (topic, 1): counts[1]}
    finally:
        sandbox.down(wipe=True, reporter=reporter)
