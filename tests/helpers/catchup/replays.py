"""A plan over a real topic, its ledger and runner, and tasks that are run in this process or in one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.sinks.run_task import run_task
from kgroup.catchup.worker.task_ledger import Work
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.cluster.reader.batches import Batch, BatchReader
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Delivery, Order, PlanState, StateRecord, Task
from kgroup.groups.catchup.verification import Verification, verify
from kgroup.groups.commit_tags import new_plan_id
from kgroup.model.records import LostOffsets, OffsetRange, merged
from tests.helpers.catchup.plans import ME, NOW_MS, gap_range, make_plan

TIMEOUT_S = 15.0

Span = tuple[str, int, int, int]
"""(topic, partition, start, end)"""


@dataclass
class Replay:
    """A released plan, whose chunks are ``spans`` in the order of their numbers, and all in task 0."""

    bootstrap: str
    ledger: Ledger
    runner: Runner
    chunks: tuple[Chunk, ...]
    tasks: tuple[Task, ...]
    runs: list[TaskRun] = field(default_factory=list)
    most: int = 0

    def spec(self, sink: str, options: Mapping[str, str], number: int = 0, **more: Any) -> TaskSpec:
        task = self.tasks[number]
        work = Work(self.ledger.topic, self.runner.plan_id, self.runner.snapshot.offset, self.runner.epoch.number, task)
        return TaskSpec(
            work,
            tuple(self.chunks[number] for number in task.chunks),
            sink,
            dict(options),
            more.pop("order", Order.PARTITION),
            more.pop("config", {"bootstrap.servers": self.bootstrap, "log_level": "0"}),
            more.pop("timeout_s", TIMEOUT_S),
            **more,
        )

    def run(
        self, sink: str, options: Mapping[str, str], stop: Callable[[], bool] = lambda: False, **more: Any
    ) -> TaskResult:
        """Run a task here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kgroup.catchup.sinks.run_task.TaskRun", self._remembered)
            return run_task(self.spec(sink, options, **more), stop=stop)

    def _remembered(self, *given: Any) -> TaskRun:
        self.runs.append(TaskRun(*given))
        return self.runs[-1]

    def records(self) -> int:
        """The most that the first task that was run here has delivered so far, committed or not."""
        if self.runs:
            self.most = max(self.most, sum(one.run.delivered for one in [*self.runs[0].counts.values()]))
        return self.most

    def progress(self) -> dict[int, ChunkProgress]:
        return dict(self.runner.read().progress)

    def proof(self, *results: TaskResult) -> Verification:
        return verify(self.runner.read(), [one for result in results for one in result.counted])


@contextmanager
def replay(
    bootstrap: str, ledger_topic: str, spans: Sequence[Span], tasks: Sequence[Sequence[int]] | None = None
) -> Iterator[Replay]:
    """A plan in a ledger of its own."""
    chunks = tuple(Chunk(*span, number) for number, span in enumerate(spans))
    dealt = tuple(
        Task(number, tuple(some)) for number, some in enumerate(tasks or [[chunk.number for chunk in chunks]])
    )
    whole = merged(OffsetRange(*span) for span in spans)
    ranges = [gap_range(item.partition, item.start, item.end, topic=item.topic) for item in whole]
    plan = replace(make_plan(*ranges, chunks=chunks, group=None), id=new_plan_id())
    with Ledger({"bootstrap.servers": bootstrap}, ledger_topic, timeout_s=TIMEOUT_S) as ledger:
        ledger.prepare()
        ledger.create(plan, now_ms=NOW_MS)
        with ledger.take_over(plan.id, who=ME, now_ms=NOW_MS) as runner:
            delivery = Delivery("topic", Order.PARTITION, dealt, {})
            runner.write(StateRecord(PlanState.RELEASED, NOW_MS, ME, 0), delivery)
            runner.read()
            yield Replay(bootstrap, ledger, runner, chunks, dealt)


@dataclass(frozen=True)
class Seen:
    """A record, as an independent reader sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        return None if not found else (found[-1] or b"").decode()

    @property
    def own(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers that it had before kgroup."""
        return tuple(one for one in self.headers if not one[0].startswith("kgroup."))


def seen(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Seen]:
    """All of a topic, by plain means."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        left, found = set(partitions), []
        while left:
            message = consumer.poll(10)
            assert message is not None, f"{topic}: nothing more of {left}"
            if message.error() is not None:
                left.discard(message.partition())
                continue
            found.append(
                Seen(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                    message.timestamp()[1],
                )
            )
        return sorted(found, key=lambda one: (one.partition, one.offset))
    finally:
        consumer.close()


def sources(records: Sequence[Seen]) -> list[str | None]:
    """Where each says that it came from."""
    return [record.header("kgroup.source") for record in records]


@contextmanager
def hurried_at_the_end(items: int = 1) -> Iterator[None]:
    """Nothing is waited for at the end of a log, once it was heard of and so many batches were handed on."""
    batches = BatchReader.batches

    def hurried(self: BatchReader, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | LostOffsets]:
        for number, item in enumerate(batches(self, topic, partition, start, end), 1):
            yield item
            if self._ended_at is not None and number >= items:
                self._watch.timeout_s = 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchReader, "batches", hurried)
        yield


def producer(bootstrap: str, **more: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, **{k.replace("_", "."): v for k, v in more.items()}}
    )
