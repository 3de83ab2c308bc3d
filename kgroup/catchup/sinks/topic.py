"""``--to-topic`` and ``--to-source``: exactly once, as records and a task's progress are in one transaction."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, repeat

from kgroup.catchup.worker import provenance_headers
from kgroup.catchup.worker.dead_letter_reader import RedrivenBatch
from kgroup.catchup.worker.provenance_headers import Header
from kgroup.catchup.worker.task_ledger import BATCH_BYTES
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.catchup.worker.task_spec import Stopped, TaskSpec
from kgroup.cluster.librdkafka import NOT_ACCEPTED, TOO_LARGE
from kgroup.cluster.reader.batches import Batch
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.cluster.transactions import TRANSACTION_TIMEOUT, Row
from kgroup.groups.catchup.dead_letters import TO_SOURCE, Origin
from kgroup.groups.catchup.model import Chunk
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable, UsageError

REFUSALS = frozenset({TOO_LARGE, NOT_ACCEPTED})
"""Error codes of a broker for a single record; they fail its whole transaction."""

AGAIN = frozenset({"not-written", TRANSACTION_TIMEOUT, "timed-out"})
"""Error codes after which the same records may be tried again."""

_ATTEMPTS = 3
_NARROWER = 16
_BATCH_OVERHEAD = 1024


class TopicSink:
    """Converts batches to rows for the target topic.

    Options: ``topic``; ``timestamps`` is ``keep`` or ``now``; ``partitions`` is ``keep`` (the target has
    as many) or ``key``. Without ``partitions``, it is ``keep`` if the target has at least as many as the source.
    A dead letter keeps the partition of its source. ``partitions_of`` is how many partitions a topic has.
    """

    def __init__(self, spec: TaskSpec, partitions_of: Callable[[str], int]) -> None:
        options = spec.options
        if spec.sink != TO_SOURCE and "topic" not in options:
            raise UsageError("--to-topic requires the name of a topic")
        self.topic = options.get("topic")
        """None: each dead letter goes to its own source."""
        self._partitions_of = partitions_of
        self._plan: Header = (provenance_headers.PLAN, spec.plan_id)
        self._keep_times = _one_of(options, "timestamps", "keep", "now") != "now"
        self._partitions = _one_of(options, "partitions", "", "keep", "key")
        self._spec = spec

    def keeps_partitions(self, own: int, targets: int) -> bool:
        """Whether records keep their partition, with ``own`` partitions in the source and ``targets`` in the target."""
        return keeps_partitions(self._partitions, own, targets)

    def rows(self, batch: Batch, keep_partition: bool) -> Iterator[Row]:
        """The rows of a batch, for ``produce_all``."""
        offsets = batch.offsets()
        maybe = bisect_left(offsets, self._spec.maybe_until(TopicPartition(batch.topic, batch.partition)))
        prefix, plan, source = f"{batch.topic}:{batch.partition}:", self._plan, provenance_headers.SOURCE
        # A generator, not a list: so many lists would keep Python's garbage collector busy for a third of the time.
        headers: Iterator[list[Header]] = (
            [*had, plan, (source, f"{prefix}{offset}")] if had else [plan, (source, f"{prefix}{offset}")]
            for had, offset in zip(batch.headers(), offsets, strict=True)
        )
        if maybe:
            headers = chain(map(_maybe_processed, islice(headers, maybe)), headers)
        times = [ms if ms > 0 else 0 for _, ms in batch.timestamps()] if self._keep_times else repeat(0)
        topics: Iterable[str] = repeat(self.topic or "")
        partitions: Iterable[int] = repeat(batch.partition if keep_partition else -1)
        if isinstance(batch, RedrivenBatch):
            topics, partitions = zip(*map(self._of_dead_letter, batch.origins()), strict=True)
        return zip(topics, batch.values(), batch.keys(), partitions, times, headers, strict=False)

    def _of_dead_letter(self, origin: Origin | None) -> tuple[str, int]:
        """The topic and the partition of a dead letter; -1: its key decides."""
        topic = self.topic or (origin.topic if origin is not None else "")
        # Also for a record whose partition is unknown: a producer would create a topic that does not exist.
        has, own = self._partitions_of(topic), None if origin is None else origin.partition
        return topic, own if own is not None and own < has and self._partitions != "key" else -1


def keeps_partitions(setting: str, own: int, targets: int) -> bool:
    """As ``TopicSink.keeps_partitions``; ``setting`` is the option ``partitions``, "" if not given."""
    return setting == "keep" or (setting == "" and targets >= own)


def deliver(run: TaskRun) -> None:
    """Copy a task's chunks, in as few transactions as its bounds allow."""
    copy, failures, again = _Copy(run), 0, False
    while True:
        before = run.committed
        try:
            if again:
                copy.restart()
            copy.copy()
            return
        except KgroupError as error:
            failures = 0 if run.committed != before else failures + 1
            if error.code in REFUSALS and copy.is_sending:
                copy.narrow(error)
                failures = 0
            elif error.code not in AGAIN or failures >= _ATTEMPTS:
                raise
        again = True


def max_batch_bytes(spec: TaskSpec, topics: Iterable[str]) -> int:
    """The largest batch size in bytes that all target topics accept: a broker refuses a larger batch whole."""
    admin, limits = TopicAdmin(spec.config, timeout_s=spec.timeout_s), [BATCH_BYTES]
    for name in filter(None, (*topics, spec.dead_letters)):
        facts = admin.describe(name)
        if facts is not None and facts.settings is not None and facts.settings.max_message_bytes is not None:
            limits.append(facts.settings.max_message_bytes - _BATCH_OVERHEAD)
    return max(1, min(limits))


class _Copy:
    def __init__(self, run: TaskRun) -> None:
        self._run = run
        self._targets: dict[str, int] = {}
        self._sink = TopicSink(run.spec, self._partitions_of)
        targets = 0 if self._sink.topic is None else self._partitions_of(self._sink.topic)
        self._keeps = {
            topic: self._sink.keeps_partitions(len(run.reader.partitions(topic)), targets)
            for topic in {chunk.topic for chunk in run.spec.chunks}
        }
        self._began_at: float | None = None
        """When the first piece since the last commit came: it may have no records, if all are filtered out."""
        self._records = 0
        self._size = 0
        self._limit = run.spec.bounds.records
        self._suspects = 0
        """One of the next so many records was refused by the broker: they are sent in smaller transactions."""
        self._failures = 0
        self._fitted = False
        self._newest: tuple[str, int, int] | None = None
        self._refused: dict[tuple[str, int, int], tuple[str, int]] = {}

    def _partitions_of(self, topic: str) -> int:
        if topic not in self._targets:
            self._targets[topic] = len(self._run.reader.partitions(topic))
        return self._targets[topic]

    def copy(self) -> None:
        """Copy from the committed position to the end, or until asked to stop."""
        run = self._run
        for chunk in run.chunks():
            for piece in run.batches(chunk, self._room):
                self._began_at = self._began_at or time.monotonic()
                if len(piece):
                    self._deliver(chunk, piece)
                else:
                    run.counts[chunk.number] = run.counts[chunk.number].moved(piece.position)
                if self._is_full():
                    self._commit()
        self._commit()

    @property
    def is_sending(self) -> bool:
        """Whether the open transaction has records."""
        return self._records > 0

    def restart(self) -> None:
        """Restart from the committed position, after a failure. Raises NotFound if a target is gone.

        The broker's answers do not show that: they look like those to a record that is refused, or there are none.
        """
        self._run.restart()
        with suppress(Unreachable):
            for topic in self._targets:
                self._run.reader.partitions(topic, again=True)
        self._began_at, self._records, self._size = None, 0, 0

    def narrow(self, error: KgroupError) -> None:
        """Shrink the transactions to find the record that the broker refuses, until it is alone in one."""
        if error.code == TOO_LARGE and not self._fitted:
            self._fitted = True  # perhaps only our batches are too large
            self._run.ledger.tune({"batch.size": max_batch_bytes(self._run.spec, self._targets)})
            return
        self._failures += 1
        if self._records > 1 or self._newest is None:
            self._suspects = self._records
            self._limit = max(1, min(self._limit, self._records) // _NARROWER)
            return
        if self._newest in self._refused or self._run.spec.dead_letters is None:
            self._stop(self._newest, error.message)
        else:
            self._refused[self._newest] = (error.message, self._failures)
        self._failures = 0

    def _stop(self, where: tuple[str, int, int], why: str) -> None:
        refused = self._refused.pop(where, None)
        if refused is not None:
            why = f"{refused[0]}; and the dead-letter topic: {why}"
        attempts = self._failures if refused is None else refused[1]
        self._run.stopped.append(Stopped(*where, attempts, why))

    def _room(self) -> int:
        return self._limit - self._records

    def _is_full(self) -> bool:
        bounds = self._run.spec.bounds
        if self._began_at is None:
            return False
        return (
            self._records >= self._limit
            or self._size >= bounds.size
            or time.monotonic() - self._began_at >= bounds.seconds
        )

    def _deliver(self, chunk: Chunk, batch: Batch) -> None:
        if not self._records:
            self._run.ledger.begin()
        self._records += len(batch)
        first = 0
        if self._refused:
            for number, offset in enumerate(batch.offsets()):
                if (batch.topic, batch.partition, offset) in self._refused:
                    self._send(chunk, batch.part(first, number))
                    self._send_dead(chunk, batch.part(number, number + 1))
                    first = number + 1
        self._send(chunk, batch.part(first, len(batch)))

    def _send(self, chunk: Chunk, batch: Batch) -> None:
        if not len(batch):
            return
        run = self._run
        self._newest = (batch.topic, batch.partition, batch.offsets()[-1]) if self._limit == 1 else None
        sent = run.ledger.send(self._sink.rows(batch, self._keeps[batch.topic]))
        self._add(chunk, batch, sent, 0)

    def _send_dead(self, chunk: Chunk, batch: Batch) -> None:
        (record,) = batch.records()
        spec = self._run.spec
        assert spec.dead_letters is not None
        where = (record.topic, record.partition, record.offset)
        self._newest = where
        error, attempts = self._refused[where]
        maybe = record.offset < spec.maybe_until(record.tp)
        self._run.ledger.send(
            (provenance_headers.dead_letter(spec.dead_letters, spec.plan_id, record, attempts, error, maybe),)
        )
        self._add(chunk, batch, 0, 1)

    def _add(self, chunk: Chunk, batch: Batch, sent: int, dead: int) -> None:
        size = batch.size()
        self._size += size
        count = self._run.counts[chunk.number]
        self._run.counts[chunk.number] = count.with_records(batch.position, len(batch), sent, size, dead)

    def _commit(self) -> None:
        self._run.commit()
        self._suspects -= self._records
        if self._suspects <= 0:
            self._limit, self._failures = self._run.spec.bounds.records, 0
        self._began_at, self._records, self._size = None, 0, 0


def _maybe_processed(headers: list[Header]) -> list[Header]:
    return [*headers, (provenance_headers.MAYBE_PROCESSED, "true")]


def _one_of(options: Mapping[str, str], name: str, *allowed: str) -> str:
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise UsageError(f"--{name} {value}: choose one of {', '.join(filter(None, allowed))}")
    return value
