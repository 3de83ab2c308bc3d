"""Deliver buckets of keys, each as a whole or not at all: one transaction, one file, or at least once to a handler."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kgroup.catchup.model import Order
from kgroup.catchup.sinks import command, files, python
from kgroup.catchup.sinks.files import ChunkFile, Receipt
from kgroup.catchup.sinks.formats import HashingFile, writer
from kgroup.catchup.sinks.topic import AGAIN, REFUSALS, TopicSink, max_batch_bytes
from kgroup.catchup.worker import provenance_headers
from kgroup.catchup.worker.bucket_run import BucketRun
from kgroup.catchup.worker.handler_pool import Handler, HandlerOutcome, HandlerPool, RecordPosition
from kgroup.catchup.worker.newest_per_key import Bucket, RowBatch
from kgroup.catchup.worker.task_spec import Stopped
from kgroup.cluster.reader.batches import BatchReader
from kgroup.cluster.transactions import Row as Sent
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError, UsageError

_ATTEMPTS = 3
_WAIT_S = 0.1
_GRACE_S = 4.0

Deliver = Callable[[Bucket], None]
"""Deliver a bucket and commit it; commit nothing if asked to stop, or if a record is refused for good."""


def ways(run: BucketRun) -> Deliver:
    """The function that delivers a bucket to the task's sink. Raises UsageError for invalid options."""
    match run.spec.sink:
        case "topic":
            return _ToTopic(run).deliver
        case "files":
            files.check(run.spec.options)
            return lambda bucket: _to_file(run, bucket)
        case "command":
            return lambda bucket: _to_handlers(run, bucket, command.handlers(run.spec))
        case "python":
            return lambda bucket: _to_handlers(run, bucket, python.handlers(run.spec))
    raise UsageError(f"a worker knows no sink {run.spec.sink!r} for the newest record of each key")


class _ToTopic:
    """One transaction for each bucket, with its progress in the ledger."""

    def __init__(self, run: BucketRun) -> None:
        self._run = run
        self._sink = TopicSink(run.spec)
        self._keeps: dict[str, bool] = {}
        self._refused: dict[tuple[str, int, int], tuple[str, int]] = {}
        self._fitted = False

    def deliver(self, bucket: Bucket) -> None:
        """Deliver, with retries. A record that the broker refuses becomes a dead letter or stops its partition."""
        run, failures = self._run, 0
        self._look(bucket)
        while True:
            try:
                self._send(bucket)
                return
            except KgroupError as error:
                if error.code in REFUSALS and bucket.records:
                    if not self._sort_out(bucket, error):
                        return
                elif error.code not in AGAIN or (failures := failures + 1) >= _ATTEMPTS:
                    raise
            run.ledger.open()

    def _look(self, bucket: Bucket) -> None:
        """Find out, for new topics, whether records keep their partitions."""
        topics = {batch.topic for batch in bucket.batches} - self._keeps.keys()
        if topics:
            with BatchReader(self._run.spec.config, timeout_s=self._run.spec.timeout_s) as reader:
                targets = len(reader.partitions(self._sink.topic))
                for topic in topics:
                    self._keeps[topic] = self._sink.keeps_partitions(len(reader.partitions(topic)), targets)

    def _send(self, bucket: Bucket) -> None:
        run, sent, dead = self._run, 0, Counter[int]()
        run.ledger.begin()
        for piece in run.pieces(bucket.batches):
            for part, refused in self._parts(piece):
                if refused is None:
                    sent += run.ledger.send(self._sink.rows(part, self._keeps[part.topic]))
                else:
                    run.ledger.send((self._dead_letter(part.records()[0], *refused),))
                    dead[part.rows[0].chunk] += 1
        if run.asked_to_stop():
            run.ledger.abort()
            return
        run.finish(bucket, sent, dead)

    def _parts(self, batch: RowBatch) -> Iterator[tuple[RowBatch, tuple[str, int] | None]]:
        first = 0
        if self._refused:
            for number, offset in enumerate(batch.offsets()):
                refused = self._refused.get((batch.topic, batch.partition, offset))
                if refused is not None:
                    yield batch.part(first, number), None
                    yield batch.part(number, number + 1), refused
                    first = number + 1
        yield batch.part(first, len(batch)), None

    def _dead_letter(self, record: ConsumerRecord, error: str, attempts: int) -> Sent:
        return _dead_letter(self._run, record, attempts, error)

    def _sort_out(self, bucket: Bucket, error: KgroupError) -> bool:
        """Find the record that the broker refuses; whether to continue with it as a dead letter."""
        run = self._run
        if error.code == "too-large" and not self._fitted:
            self._fitted = True  # perhaps only our batches are too large
            run.ledger.tune({"batch.size": max_batch_bytes(run.spec, self._sink.topic)})
            return True
        found = self._search(bucket)
        if found is None:
            raise error  # the dead-letter topic refused it, or the refusal does not recur
        where, why, attempts = found
        if run.spec.dead_letters is None:
            run.stopped.append(Stopped(*where, attempts, why))
            return False
        self._refused[where] = (why, attempts)
        return True

    def _search(self, bucket: Bucket) -> tuple[tuple[str, int, int], str, int] | None:
        """The first refused record, by bisection with transactions that are all aborted; None if none is refused."""
        batches: Sequence[RowBatch] = bucket.batches
        attempts = 1
        while batches:
            rows = sum(map(len, batches))
            half = _first_rows(batches, max(1, rows // 2))
            refused = self._try(half)
            if refused is not None:
                attempts += 1
            if rows == 1:
                where = batches[0].topic, batches[0].partition, batches[0].offsets()[0]
                return None if refused is None else (where, refused, attempts)
            batches = half if refused is not None else _behind(batches, sum(map(len, half)))
        return None

    def _try(self, batches: Sequence[RowBatch]) -> str | None:
        """Why some of these records are refused, None if all are accepted."""
        ledger = self._run.ledger
        ledger.open()
        try:
            ledger.begin()
            for batch in batches:
                for part, refused in self._parts(batch):
                    if refused is None:
                        ledger.send(self._sink.rows(part, self._keeps[part.topic]))
            ledger.flush()
        except KgroupError as error:
            if error.code in REFUSALS:
                return error.message
            raise
        finally:
            ledger.abort()
        return None


def _first_rows(batches: Sequence[RowBatch], rows: int) -> list[RowBatch]:
    found: list[RowBatch] = []
    for batch in batches:
        if rows <= 0:
            break
        found.append(batch.part(0, rows))
        rows -= len(found[-1])
    return found


def _behind(batches: Sequence[RowBatch], rows: int) -> list[RowBatch]:
    found: list[RowBatch] = []
    for batch in batches:
        skipped = min(rows, len(batch))
        rows -= skipped
        if skipped < len(batch):
            found.append(batch.part(skipped, len(batch)))
    return found


def _to_file(run: BucketRun, bucket: Bucket) -> None:
    options = run.spec.options
    number = bucket.number - run.first
    file = ChunkFile.of_bucket(Path(options["dir"]), run.spec.plan_id, number, options.get("format", "parquet"))
    with files.translated(file.path):
        files.make_directory(file.directory)
        receipt = file.receipt() if file.path.exists() else _written(run, bucket, file)
    if receipt is not None:
        run.finish(Bucket(bucket.number, bucket.batches, receipt.shares), receipt.records)


def _written(run: BucketRun, bucket: Bucket, file: ChunkFile) -> Receipt | None:
    """The receipt of the written file; None if the task was asked to stop before its end."""
    if leftovers := file.leftovers():
        run.note(bucket, {})  # fails if superseded: such an attempt would delete the part of a live one
        for old in leftovers:
            old.unlink(missing_ok=True)
    token = secrets.token_hex(4)
    part = file.directory / f".{file.name}.{token}.part"
    try:
        with part.open("xb") as raw:
            hashing, written = HashingFile(raw), 0
            with writer(hashing, run.spec.options) as writing:
                for piece in run.pieces(bucket.batches, within_s=None):
                    written += writing.add(piece)
            if run.asked_to_stop():
                return None
            raw.flush()
            os.fsync(raw.fileno())
        size = sum(share.size for share in bucket.shares)
        receipt = Receipt(written, size, (), hashing.digest, hashing.written, shares=bucket.shares)
        # From here on the file may count as delivered, and a superseded attempt fails in note(). An empty file counts
        # too: later attempts trust its receipt, so the number of buckets and --where must not change any more.
        run.note(bucket, _by_chunk(bucket))
        return receipt if file.keep(part, token, receipt) else file.receipt()
    finally:
        part.unlink(missing_ok=True)


def _by_chunk(bucket: Bucket) -> Counter[int]:
    return Counter(row.chunk for batch in bucket.batches for row in batch.rows)


def _to_handlers(run: BucketRun, bucket: Bucket, make: Callable[[], Handler]) -> None:
    """Hand a bucket over, one partition at a time. Each key occurs once, so any order will do."""
    spec = run.spec
    if bucket.records:
        run.note(bucket, _by_chunk(bucket))
    handing = _Handing(run, bucket)
    with HandlerPool(make, Order.NONE, spec.handling, stop_at_refusal=spec.dead_letters is None) as lanes:
        for tp in dict.fromkeys((batch.topic, batch.partition) for batch in bucket.batches):
            batches = [batch for batch in bucket.batches if (batch.topic, batch.partition) == tp]
            if not handing.hand_over(lanes, batches):
                run.note(bucket, handing.given + handing.again)
                return
        if (wrong := lanes.end()) is not None:
            raise wrong
    for attempt in range(_ATTEMPTS):
        try:
            if attempt:
                run.ledger.open()
            if handing.letters:
                run.ledger.begin()
                run.ledger.send(handing.letters)
            run.finish(bucket, sum(handing.handled.values()), handing.dead, handing.again)
            return
        except KgroupError as error:
            if error.code not in AGAIN or attempt + 1 == _ATTEMPTS:
                raise


class _Handing:
    """Hands over a bucket; ``handled``, ``dead``, ``given`` and ``again`` are counts by chunk.

    ``given`` is all that handlers got, set only if the hand-over was interrupted; ``again`` is what they got once more.
    """

    def __init__(self, run: BucketRun, bucket: Bucket) -> None:
        self._run = run
        self._bucket = bucket
        self._chunks: dict[int, int] = {}
        """The chunk of each record of the current partition, by offset."""
        self._allowed = 0
        self.again: Counter[int] = Counter()
        self._waiting: dict[int, tuple[ConsumerRecord, int]] = {}
        """Records handed over and not answered for, by offset, with their chunk."""
        self.handled: Counter[int] = Counter()
        self.dead: Counter[int] = Counter()
        self.given: Counter[int] = Counter()
        self.letters: list[Sent] = []

    def hand_over(self, lanes: HandlerPool, batches: Sequence[RowBatch]) -> bool:
        """Hand over records of one partition; whether all of them are handled or dead letters."""
        window = max(1, self._run.spec.handling.window)
        lanes.reset()  # every earlier record is answered for
        self._allowed = 0
        self._chunks = {row.offset: row.chunk for batch in batches for row in batch.rows}
        for piece in self._run.pieces(batches, within_s=None):
            records = piece.records()
            self._waiting |= {row.offset: (record, row.chunk) for record, row in zip(records, piece.rows, strict=True)}
            lanes.put(records)
            while len(self._waiting) >= window and self._goes_on():
                self._settle(lanes, _WAIT_S)
            if not self._goes_on():
                break
        while self._waiting and self._goes_on():
            self._settle(lanes, _WAIT_S)
        if not self._goes_on():
            lanes.halt(_GRACE_S)
            self._settle(lanes, 0)
        self.again += self._by_chunk(lanes.redeliveries())
        if not self._goes_on():
            ever = lanes.handed_over()
            self.given += self.handled + self.dead
            self.given.update(
                chunk
                for record, chunk in self._waiting.values()
                if (record.topic, record.partition, record.offset) in ever
            )
            return False
        return True

    def _goes_on(self) -> bool:
        return not self._run.asked_to_stop() and not self._run.stopped

    def _by_chunk(self, records: Counter[RecordPosition]) -> Counter[int]:
        found = Counter[int]()
        for (_, _, offset), times in records.items():
            found[self._chunks[offset]] += times
        return found

    def _settle(self, lanes: HandlerPool, wait_s: float) -> None:
        for outcome in lanes.outcomes(wait_s):
            record, chunk = self._waiting.pop(outcome.offset)
            if outcome.error is None:
                self.handled[chunk] += 1
            else:
                self._refused(record, chunk, outcome)
        if (asked := lanes.request_count) > self._allowed:
            again = self._by_chunk(lanes.redelivery_requests())
            self._run.note(self._bucket, _by_chunk(self._bucket) + self.again + again)
            lanes.allow(asked)
            self._allowed = asked

    def _refused(self, record: ConsumerRecord, chunk: int, outcome: HandlerOutcome) -> None:
        assert outcome.error is not None
        if self._run.spec.dead_letters is None:
            where = (record.topic, record.partition, record.offset)
            self._run.stopped.append(Stopped(*where, outcome.attempts, outcome.error))
            self.given[chunk] += 1
            return
        self.letters.append(_dead_letter(self._run, record, outcome.attempts, outcome.error))
        self.dead[chunk] += 1


def _dead_letter(run: BucketRun, record: ConsumerRecord, attempts: int, error: str) -> Sent:
    spec = run.spec
    assert spec.dead_letters is not None
    maybe = record.offset < spec.maybe_until(record.tp)
    return provenance_headers.dead_letter(spec.dead_letters, spec.plan_id, record, attempts, error, maybe)
