"""A group with the listener of ``kgroup.consumer`` under load, whose members die again and again, and its account.

Five applications, each a process, and one of Java's consumers, which has no listener and is never killed.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.listeners import ListeningApplication, processed, settings_of
from tests.helpers.clusters import connected
from tests.helpers.kafka_proxy import ProxiedBroker
from tests.helpers.kafka_tools import tool_command
from tests.helpers.waiting import wait_for

MEMBERS, PARTITIONS, BEHIND, BURST = 5, 50, 10, 14
WITHIN_S, SESSION_MS = 8.0, 2_000
_PATIENCE_S = 90.0
_UNANSWERED_S = 12.0
"""How late the ledger's broker answers when it is out of reach: the listener has given up long before."""
_JAVA = {
    "eager": {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"},
    "cooperative": {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
    "consumer": {"group.protocol": "consumer"},
}


@dataclass(frozen=True)
class Round:
    """So many members are killed at once; then the first one that comes to a step of its callback meets a signal."""

    killed: int
    step: str | None = None
    stops: signal.Signals = signal.SIGKILL
    ledger_answers: bool = True


ROUNDS = {
    "killed": Round(1),
    "killed before its commit": Round(1, "before-commit"),
    "killed after its commit": Round(1, "after-commit"),
    "fenced at its commit": Round(1, "before-commit", signal.SIGSTOP),
    "without a ledger": Round(1, ledger_answers=False),
    "all killed": Round(MEMBERS),
    "all killed, and one before its commit": Round(MEMBERS, "before-commit"),
    "two killed, and one after its commit": Round(2, "after-commit"),
}


class Load:
    """Produces to all partitions while its block runs; ``acknowledged`` counts by partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = [0] * PARTITIONS
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", "linger.ms": 5})
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)
        assert self._producer.flush(30) == 0

    def burst(self) -> None:
        """What makes a partition without a reader fall behind."""
        with self._lock:
            for partition in range(PARTITIONS):
                self._produce(partition, BURST)
            assert self._producer.flush(30) == 0

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.05):
            with self._lock:
                for _ in range(4):
                    self._produce(number % PARTITIONS, 1)
                    number += 1
                self._producer.poll(0)

    def _produce(self, partition: int, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic, b"x", partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition() or 0] += 1


@dataclass
class Account:
    """What became of each record, ``orders:3 17``."""

    produced: set[str]
    handled: Counter[str]
    gaps: Counter[str]
    stated: Counter[str]
    """How often a record may have been handled without a commit: the last of a killed member, refused ones, Java's."""

    @property
    def lost(self) -> list[str]:
        return sorted(self.produced - self.handled.keys() - self.gaps.keys())

    @property
    def twice(self) -> list[str]:
        """Those that come more often than stated."""
        seen = self.handled + self.gaps
        return sorted(place for place, count in seen.items() if count > 1 + self.stated[place])

    def __str__(self) -> str:
        again = sum(count - 1 for count in (self.handled + self.gaps).values())
        return (
            f"{len(self.produced)} records: {self.handled.total()} handled, {self.gaps.total()} in gaps, "
            f"{len(self.lost)} lost, {len(self.twice)} twice, {again} again as stated"
        )


@dataclass
class ListeningGroup:
    """``start`` it, play rounds, ``end`` it, and then ask for its ``account``."""

    proxied: ProxiedBroker
    protocol: str
    topic: str
    group: str
    ledger: str
    directory: Path
    members: list[ListeningApplication] = field(default_factory=list)
    ended: list[ListeningApplication] = field(default_factory=list)
    killed: list[ListeningApplication] = field(default_factory=list)
    java: JavaConsumer | None = None

    @contextmanager
    def running(self) -> Iterator[Load]:
        """All members and the load; when the block ends the load ends, all is read, and the members leave."""
        world = self.proxied.world
        (self.directory / "armed").mkdir()
        world.topic(self.topic, PARTITIONS)
        # A group that has read before. Without commits, members of the consumer protocol begin a partition twice that
        # they keep while they give up another one (librdkafka 2.16.0, seen without the listener too).
        world.commit(self.group, {(self.topic, number): 0 for number in range(PARTITIONS)})
        if self.protocol == "consumer":
            world.configure_group(self.group, consumer_session_timeout_ms=str(SESSION_MS))
        self.java = JavaConsumer(world.bootstrap, self.topic, self.group, _JAVA[self.protocol])
        try:
            with Load(world.bootstrap, self.topic) as load:
                for _ in range(MEMBERS):
                    self.start()
                self.caught_up(load)
                self.java.reads_on()
                yield load
            self.caught_up(load)
            self.java.close()
            for member in self.members:
                member.close()
            wait_for(lambda: world.groups()[self.group][1] == "empty", "an Empty group", _PATIENCE_S)
        finally:
            self.java.kill()
            for member in (*self.members, *self.ended):
                member.kill()

    def start(self) -> ListeningApplication:
        """One more member. Its listener reaches the broker through the proxy, its consumer directly."""
        number = len(self.members) + len(self.ended)
        settings = settings_of(self.protocol, self.proxied.world.bootstrap, self.group, SESSION_MS)
        what: dict[str, Any] = {
            "behind": BEHIND,
            "within_s": WITHIN_S,
            "connection": {"bootstrap.servers": self.proxied.bootstrap},
            "armed": str(self.directory / "armed"),
        }
        file = self.directory / f"processed-{number}"
        self.members.append(ListeningApplication(settings, self.topic, file, self.ledger, **what))
        return self.members[-1]

    def play(self, played: Round, load: Load, chance: random.Random) -> None:
        """Members die, or hang, while records come; then all five are there again."""
        assert self.java
        if played.step:
            armed = self.directory / "armed" / played.step
            armed.with_suffix(".new").write_text(str(int(played.stops)), encoding="utf-8")
            armed.with_suffix(".new").rename(armed)
        if not played.ledger_answers:
            self.proxied.proxy.delay_s = _UNANSWERED_S
        newcomers = self._replaced(played.killed, load, chance)
        if played.step:
            newcomers += self._met(played.step, played.stops, load, chance)
        self.caught_up(load)
        wait_for(
            lambda: all(one.has_partitions for one in newcomers if one in self.members),
            f"partitions of {len(newcomers)} newcomers",
            _PATIENCE_S,
        )
        self.proxied.proxy.delay_s = 0.0
        self.java.reads_on()

    def _replaced(self, count: int, load: Load, chance: random.Random) -> list[ListeningApplication]:
        """Kill so many; the newcomers for them, who find what came meanwhile."""
        for victim in chance.sample(self.members, count):
            self._kill(victim)
        load.burst()
        return [self.start() for _ in range(count)]

    def _met(self, step: str, stops: signal.Signals, load: Load, chance: random.Random) -> list[ListeningApplication]:
        """Wait until a member comes to the step; kill others until one finds a gap. More newcomers."""
        newcomers: list[ListeningApplication] = []
        while (met := self._taken_or_caught_up(step, load)) is None:
            newcomers += self._replaced(1, load, chance)
        if stops is signal.SIGSTOP:
            self.caught_up(load)
            met.process.send_signal(signal.SIGCONT)
        else:
            met.process.wait(30)
            self._kill(met)
            newcomers.append(self.start())
        return newcomers

    def _taken_or_caught_up(self, step: str, load: Load) -> ListeningApplication | None:
        caught_up = self._committed(load)
        met: list[ListeningApplication] = []

        def done() -> bool:
            met.extend(one for one in [self._taken(step)] if one)
            return bool(met) or caught_up()

        wait_for(done, f"a member that comes to {step}, or nothing unread", _PATIENCE_S)
        return met[0] if met else self._taken(step)

    def caught_up(self, load: Load) -> None:
        """Wait until all that has been produced is committed."""
        wait_for(self._committed(load), f"all of {self.group} committed", _PATIENCE_S)

    def _committed(self, load: Load) -> Callable[[], bool]:
        """Whether all that has been produced until now is committed."""
        ends = {(self.topic, number): end for number, end in enumerate(load.acknowledged)}

        def committed() -> bool:
            offsets = self.proxied.world.offsets(self.group)
            return all(offsets.get(place, 0) >= end for place, end in ends.items())

        return committed

    def _kill(self, member: ListeningApplication) -> None:
        member.kill()
        self.members.remove(member)
        self.ended.append(member)

    def _taken(self, step: str) -> ListeningApplication | None:
        """The member that has met the armed step."""
        pids = {int(file.name.rpartition("-")[2]): file for file in (self.directory / "armed").glob(f"{step}-*")}
        for member in self.members:
            if file := pids.get(member.process.pid):
                file.unlink()
                return member
        return None

    def plans(self) -> tuple[PlanSnapshot, ...]:
        """All plans of the ledger."""
        with Ledger({"bootstrap.servers": self.proxied.world.bootstrap}, self.ledger, timeout_s=30) as ledger:
            return ledger.list().plans

    def falls(self) -> list[str]:
        """Commits below an earlier one of their partition: records that were committed, and came again."""
        with connected(self.proxied.world.bootstrap) as cluster:
            history = cluster.commits_since(self.group, 0, 30)
        assert history.unread is None, history.unread
        assert history.commits
        highest: dict[TopicPartition, int] = {}
        fell = []
        for commit in history.commits:
            place = TopicPartition(commit.topic, commit.partition)
            if commit.offset is None or commit.offset < highest.get(place, 0):
                fell.append(f"{place}: {commit.offset} after {highest.get(place)} [{commit.metadata}]")
            else:
                highest[place] = commit.offset
        return fell

    def account(self, load: Load) -> Account:
        """What became of all records; a closed plan has no gap."""
        assert self.java
        stated = Counter[str]()
        for member in (*self.members, *self.ended):
            stated.update(member.uncommitted(self.topic))
            if member in self.ended:
                stated.update([*processed(member.file)][-1:])
        handled = processed(*(member.file for member in (*self.members, *self.ended)))
        gaps: Counter[str] = Counter()
        for plan in self.plans():
            if plan.state.state.is_open:
                for item in plan.plan.ranges:
                    gaps.update(f"{item.topic}:{item.partition} {offset}" for offset in range(item.start, item.end))
        # Java's consumer makes no commit when it loses a partition (4.4.0): each print may come once more. But not
        # of what was committed: ``falls`` has the commit of the one that handled it again.
        printed = self.java.handled(self.topic)
        stated.update(printed)
        handled.update(printed)
        produced = {
            f"{self.topic}:{number} {offset}" for number, end in enumerate(load.acknowledged) for offset in range(end)
        }
        return Account(produced, handled, gaps, stated)


class JavaConsumer:
    """kafka-console-consumer.sh, which commits what it has printed."""

    def __init__(self, bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> None:
        wanted = {"auto.commit.interval.ms": "100", "auto.offset.reset": "earliest", **settings}
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group]
        for key, value in wanted.items():
            words += ["--command-property", f"{key}={value}"]
        for name in ("print.partition", "print.offset"):
            words += ["--formatter-property", f"{name}=true"]
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.process = subprocess.Popen(
            tool_command("org.apache.kafka.tools.consumer.ConsoleConsumer", words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ),
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def reads_on(self) -> None:
        """Wait until it has read more."""
        seen = len(self.lines)
        wait_for(lambda: len(self.lines) > seen, f"more of Java's consumer than {self.lines[-3:]}", _PATIENCE_S)

    def handled(self, topic: str) -> Counter[str]:
        found = (re.match(r"Partition:(\d+)\tOffset:(\d+)\t", line) for line in self.lines)
        return Counter(f"{topic}:{one[1]} {one[2]}" for one in found if one)

    def close(self) -> None:
        """SIGTERM: it commits, and leaves the group."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self._listener.join(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._listener.join(10)
        if self.process.stdout:
            self.process.stdout.close()
