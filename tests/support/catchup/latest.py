"""The newest record of each key delivered without Spark: what readers send is put together as it would do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.catchup.buckets import as_chunk, first, tasks, unfinished
from kgroup.catchup.model import Delivery, Order
from kgroup.catchup.sinks.run_buckets import by_task, deliver
from kgroup.catchup.verification import Verification, verify
from kgroup.catchup.worker.bucket_run import ByKey, read
from kgroup.catchup.worker.task_ledger import Work
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from tests.support.catchup.replays import Replay, Seen

Stop = Callable[[], bool]


def never() -> bool:
    return False


class Latest:
    """A plan of which only the newest record of each key is delivered, in so many buckets; two readers read it."""

    def __init__(self, plan: Replay, sink: str, options: Mapping[str, str], buckets: int) -> None:
        self.plan = plan
        found = plan.runner.snapshot.plan
        self.delivery = Delivery(sink, Order.NONE, tasks(found, buckets), dict(options), buckets)
        plan.runner.write(self.delivery)

    def by_key(self, **more: Any) -> ByKey:
        """As the ledger has it now."""
        runner, found = self.plan.runner, self.plan.runner.read()
        left = frozenset(unfinished(found.plan, self.delivery, found.progress))
        specs = [
            TaskSpec(
                Work(self.plan.ledger.topic, runner.plan_id, found.offset, runner.epoch.number, task),
                tuple(map(as_chunk, task.chunks)),
                self.delivery.sink,
                self.delivery.options,
                Order.NONE,
                more.get("config", {"bootstrap.servers": self.plan.bootstrap, "log_level": "0"}),
                15.0,
                **{name: value for name, value in more.items() if name != "config"},
            )
            for task in self.delivery.tasks
            if left.intersection(task.chunks)
        ]
        chunks = self.plan.chunks
        halves = (chunks[: len(chunks) // 2], chunks[len(chunks) // 2 :])
        reading = tuple(half for half in halves if half)
        return ByKey(reading, tuple(specs), self.delivery.buckets, first(found.plan), left, len(self.delivery.tasks))

    def run(self, stop: Stop = never, **more: Any) -> list[TaskResult]:
        """Deliver what is left."""
        by_key = self.by_key(**more)
        if not by_key.left:
            return []
        return self.deliver(by_key, self.sent(by_key), stop)

    def sent(self, by_key: ByKey, stop: Stop = never) -> list[tuple[int, bytes]]:
        """What the readers send."""
        told: list[Any] = []
        return [item for number in range(len(by_key.reading)) for item in read(by_key, number, told.append, stop)]

    def deliver(self, by_key: ByKey, sent: list[tuple[int, bytes]], stop: Stop = never) -> list[TaskResult]:
        """What the tasks answer, one after the other."""
        dealt = sorted(sent, key=lambda item: (item[0] % by_key.dealt, item[0]))
        told: list[Any] = []
        return [deliver(by_key, spec, some, told.append, stop) for spec, some in by_task(by_key, dealt)]

    def proof(self, results: list[TaskResult]) -> Verification:
        return verify(self.plan.runner.read(), [one for result in results for one in result.counted])


def newest(records: list[Seen], *, topic: str) -> set[str]:
    """Where the newest record of each key of a topic lies, by the rule alone; all without a key."""
    by_partition = {(record.partition, record.key): record for record in records if record.key is not None}
    by_key: dict[bytes, Seen] = {}
    for record in by_partition.values():
        assert record.key is not None
        other = by_key.get(record.key)
        if other is None or (other.timestamp_ms, other.partition) < (record.timestamp_ms, record.partition):
            by_key[record.key] = record
    wanted = [*by_key.values(), *(record for record in records if record.key is None)]
    return {f"{topic}:{record.partition}:{record.offset}" for record in wanted}
