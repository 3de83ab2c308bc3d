"""A real replay on Spark into a topic, with processes killed while transactions are open; and what must come of it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.worker.task_spec import TaskSpec, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from tests.helpers.catchup.replays import Replay, producer, replay, seen, sources
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

PARTITIONS = 2
RECORDS = 3000
"""Written to each partition, of which each fourth was aborted."""

END = RECORDS + RECORDS // 250


def workers_of(jvms: Sequence[int | None]) -> list[int]:
    """The Python processes that work tasks for these JVMs: forked by a daemon each."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.worker" in (entry / "cmdline").read_bytes():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [pid for pid, parent in parents.items() if parents.get(parent) in jvms]


@dataclass
class Killer:
    """Kills one of what ``victims`` finds each time that so many more records were told.

    It waits until transactions are open on the target: records are told right after a commit.
    """

    victims: Callable[[], Sequence[int]]
    kills: int
    every: int = 500
    done: int = 0
    open: Callable[[], bool] = lambda: True
    """Whether each partition of the target has records of an open transaction."""
    chance: random.Random = field(default_factory=lambda: random.Random(6))

    def tell(self, totals: ProgressTotals) -> None:
        if self.done < self.kills and totals.records >= self.every * (self.done + 1):
            with suppress(AssertionError):  # only one of the tasks is left
                wait_for(self.open, "open transactions", 2)
            found = self.victims()
            if found:
                os.kill(self.chance.choice(sorted(found)), signal.SIGKILL)
                self.done += 1


def source_topic(world: KafkaWorld, bootstrap: str, name: Callable[[str], str]) -> str:
    """A topic written in transactions of 250, of which each fourth was aborted."""
    topic = world.topic(name("orders"), partitions=PARTITIONS)
    writer = producer(bootstrap, transactional_id=name("writer"), linger_ms=5)
    writer.init_transactions(30)
    for partition in range(PARTITIONS):
        for start in range(0, RECORDS, 250):
            writer.begin_transaction()
            for number in range(start, start + 250):
                writer.produce(topic, b"%d" % number, b"k%d" % number, partition)
            assert writer.flush(30) == 0
            (writer.abort_transaction if start % 1000 == 0 else writer.commit_transaction)(30)
    return topic


def replayed_exactly_once(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Callable[[str], str], killer: Killer
) -> None:
    """Run it, and hold what came out against what an independent reader sees."""
    source, target = source_topic(world, bootstrap, name), world.topic(name("copy"), partitions=PARTITIONS)
    spans = [(source, p, END * part // 4, END * (part + 1) // 4) for p in range(PARTITIONS) for part in range(4)]
    killer.open = lambda: all(_open_records(bootstrap, target, partition) for partition in range(PARTITIONS))
    with replay(bootstrap, name("ledger"), spans, [range(4), range(4, 8)]) as plan:
        tasks = [_spec(plan, target, number) for number in range(PARTITIONS)]

        answers = run(session, tasks, JobListeners(killer.tell, ledger=plan.progress))

        assert [(answer.task, answer.failure) for answer in answers] == [(0, None), (1, None)]
        assert all(answer.result.finished for answer in answers)
        proof = plan.proof(*(answer.result for answer in answers))

    assert killer.done == killer.kills
    expected, found = seen(bootstrap, source), seen(bootstrap, target)
    assert [(one.partition, one.key, one.value) for one in found] == [
        (one.partition, one.key, one.value) for one in expected
    ]
    assert sources(found) == [f"{source}:{one.partition}:{one.offset}" for one in expected]
    assert proof.complete
    assert len(seen(bootstrap, target, "read_uncommitted")) > len(found), "no kill hit an open transaction"


def _open_records(bootstrap: str, topic: str, partition: int) -> int:
    """How many records follow the last stable offset."""
    ends: list[int] = []
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
        ends.append(consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1])
        consumer.close()
    return ends[0] - ends[1]


def _spec(plan: Replay, target: str, number: int) -> TaskSpec:
    rate, bounds = RateLimit(records_per_s=600), TransactionBounds(records=900)
    return plan.spec("topic", {"topic": target}, number, rate=rate, bounds=bounds)
