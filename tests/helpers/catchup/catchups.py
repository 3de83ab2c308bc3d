"""What the tests of ``kgroup catchup`` share: KIP-333's crash, and a ledger of their own."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.helpers.catchup.spark_kills import workers_of
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import Running, running
from tests.helpers.waiting import wait_for

KINDS = ("classic", "consumer")
LOCAL = ("--master", "local[2]")


@dataclass(frozen=True)
class Crash:
    """A group that crashed at 100, had committed 70, and finds the log at 120; and 20 of 50 on partition 1."""

    topic: str
    group: str

    @property
    def released(self) -> dict[tuple[str, int], int]:
        return {(self.topic, 0): 120, (self.topic, 1): 50}


def crash(
    world: KafkaWorld, topic: str, group: str, kind: str = "classic", config: dict[str, str] | None = None
) -> Crash:
    world.topic(topic, 2, config)
    for partition, count in ((0, 120), (1, 50)):
        world.produce(topic, count, partition)
    world.commit(group, {(topic, 0): (70, "the app's own", 0), (topic, 1): 20})
    if kind == "consumer":
        to_consumer(world, group)
    return Crash(topic, group)


def gap_of(crashed: Crash) -> list[str]:
    """Where the records of its gap stand, as a copy says it; in order."""
    first = [f"{crashed.topic}:0:{offset}" for offset in range(70, 120)]
    return sorted(first + [f"{crashed.topic}:1:{offset}" for offset in range(20, 50)])


def offsets(world: KafkaWorld, group: str) -> dict[tuple[str, int], int]:
    """What is committed, without metadata."""
    return {place: offset for place, (offset, _) in world.committed(group).items()}


def plan_id(result: Result) -> str:
    """The plan that was made."""
    (found,) = re.findall(r"PLANNED +(cu-[2-9a-z]{4})\b", result.stderr) or (None,)
    assert found, result.stderr
    return str(found)


def own_ledger(monkeypatch: pytest.MonkeyPatch, topic: str) -> str:
    """A ledger that no other test sees."""
    monkeypatch.setenv("KGROUP_LEDGER_TOPIC", topic)
    return topic


def released(kgroup: CommandLine, crashed: Crash, *more: str) -> str:
    """Release a crashed group's head; the plan's id."""
    return plan_id(kgroup("catchup", "start", crashed.group, "--release-only", "--execute", *more))


@dataclass(frozen=True, slots=True)
class Copy:
    """A record of a copy: where it says that it comes from, and its value."""

    source: str
    value: bytes | None


def copies(world: KafkaWorld, topic: str, isolation: str = "read_committed") -> list[Copy]:
    """All of a topic, by an independent consumer; with ``read_uncommitted`` also what was aborted."""
    config = {
        "bootstrap.servers": world.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",  # of a topic that has lost its first records
        "isolation.level": isolation,
    }
    consumer, found = Consumer(config), list[Copy]()
    try:
        left = set(consumer.list_topics(topic, 10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        until = time.monotonic() + 300
        while left:
            assert time.monotonic() < until, f"{topic}: nothing more of {left}"
            messages = consumer.consume(10_000, 1.0) if len(found) > 10_000 else consumer.consume(50, 0.2)
            for message in messages:
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
                    continue
                headers = dict(message.headers() or [])
                found.append(Copy((headers.get("kgroup.source") or b"").decode(), message.value()))
        return found
    finally:
        consumer.close()


def copied(world: KafkaWorld, topic: str, isolation: str = "read_committed") -> list[str]:
    """Where the records of a copy say that they come from, sorted: what is there twice is there twice."""
    return sorted(copy.source for copy in copies(world, topic, isolation))


def written(world: KafkaWorld, topic: str, partitions: int = 2) -> int:
    """How long a topic's log is, whatever is committed of it."""
    # Else it is how long the part is that is committed.
    isolation = {"isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "unused", **isolation})

    def ends() -> list[int] | None:
        with suppress(KafkaException):  # a topic that is new has no leader yet
            return [consumer.get_watermark_offsets(TopicPartition(topic, place), 10)[1] for place in range(partitions)]
        return None

    try:
        return sum(wait_for(ends, f"the ends of {topic}"))
    finally:
        consumer.close()


def plan_said(process: Running, within_s: float = 60.0) -> str:
    """The plan that a running ``start`` has made."""
    (found,) = re.findall(r"\bcu-[2-9a-z]{4}\b", process.says("PLANNED", within_s))
    return str(found)


def jvms_of(pid: int) -> list[int]:
    """Spark's JVM of a running ``kgroup``: a child of its driver."""
    return [jvm for driver in _children(pid) for jvm in _children(driver, b"pyspark-shell")]


def whole_of(pid: int) -> list[int]:
    """A running ``kgroup``, its driver, its JVM, and the Python processes that work for it."""
    jvms = jvms_of(pid)
    return [pid, *_children(pid), *jvms, *workers_of(jvms)]


def _children(pid: int, named: bytes = b"") -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and named in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@contextmanager
def frozen(process: Running) -> Iterator[None]:
    """A ``kgroup`` that hangs, with all that belongs to it, while the block runs; and goes on after it."""
    with hanging(*whole_of(process.process.pid)):
        yield


@contextmanager
def hanging(*pids: int) -> Iterator[None]:
    """These processes do nothing while the block runs."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def replaying(world: KafkaWorld, copy: str, *words: str) -> Iterator[Running]:
    """A ``kgroup catchup`` whose workers have written to ``copy``, in a transaction that is open still."""
    with running("catchup", *words) as process:
        wait_for(lambda: written(world, copy) > 0 or process.process.poll() is not None, "records", 90)
        assert process.process.poll() is None, process.lines
        yield process


def elsewhere(directory: Path) -> dict[str, str]:
    """What a ``kgroup`` on another machine has in its environment: nothing of what this one keeps."""
    return {"KGROUP_STATE_DIR": str(directory / "elsewhere")}
