"""The newest record of each key, delivered from a real topic to a topic, to files, to handlers: each bucket once."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet
import pytest

from kgroup.catchup.buckets import bucket_of, buckets_with_progress
from kgroup.catchup.chunks import RateLimit
from kgroup.catchup.model import ChunkProgress
from kgroup.catchup.sinks.files import write_manifest
from kgroup.catchup.sinks.run_buckets import ReaderFailed
from kgroup.catchup.spark.by_key import sift
from kgroup.catchup.spark.source import MARK, SourcePlan, SourceRange, rows
from kgroup.catchup.worker.bucket_run import STOPPED, BucketRun
from kgroup.catchup.worker.newest_per_key import Bucket, ReaderTally
from kgroup.catchup.worker.task_spec import Handling
from kgroup.support.errors import KgroupError, Refused
from tests.support.catchup.latest import Latest, newest
from tests.support.catchup.plans import NOW_MS
from tests.support.catchup.replays import Span, producer, replay, seen, sources
from tests.support.kafka_world import KafkaWorld
from tests.support.waiting import wait_for

Name = Callable[[str], str]

END = 300


def keyed_topic(world: KafkaWorld, bootstrap: str, name: Name, label: str = "src") -> tuple[str, list[Span]]:
    """Two partitions: keys in one and in both, none, tombstones, headers, times in no order, an aborted transaction."""
    topic = world.topic(name(label), 2)
    plain, now_ms = producer(bootstrap), time.time_ns() // 1_000_000
    aborted = producer(bootstrap, transactional_id=name(f"aborted-{label}"))
    aborted.init_transactions(10)
    aborted.begin_transaction()
    for partition in range(2):
        for number in range(100):
            key = None if number % 20 == 7 else f"k{(number * 7 + partition * 5) % 40}".encode()
            value = None if number % 9 == 4 else f"{partition}/{number}".encode() + bytes(20)
            stamp = now_ms - 100_000 + (number * 37) % 101
            plain.produce(topic, value, key, partition, timestamp=stamp, headers=[("h", str(number).encode())])
        plain.flush()
        aborted.produce(topic, b"never", b"k1", partition)
        aborted.flush()
    aborted.abort_transaction(10)
    # It is answered before the markers are written, and what is produced below would come before them.
    wait_for(lambda: all(world.end(topic, partition) == 102 for partition in range(2)), "the markers of the abort")
    for partition in range(2):
        plain.produce(topic, b"last", f"k{partition}".encode(), partition, timestamp=now_ms - 100_000)
    plain.flush()
    ends = {0: 103, 1: 103}  # the marker of the abort has an offset too
    return topic, [(topic, part, at, min(at + 40, ends[part])) for part in range(2) for at in range(0, ends[part], 40)]


@pytest.fixture
def target(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("copy"), 2)


def test_topic_in_two_runs_of_which_the_first_was_stopped(
    world: KafkaWorld, bootstrap: str, name: Name, target: str
) -> None:
    """Two topics with the same keys; the first run delivers one bucket and dies in another's transaction."""
    one, spans = keyed_topic(world, bootstrap, name)
    other, more = keyed_topic(world, bootstrap, name, "more")
    with replay(bootstrap, name("ledger"), [*spans, *more]) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 4)
        by_key = latest.by_key()
        sent = latest.sent(by_key)
        done: list[Bucket] = []
        finish = BucketRun.finish

        def dies(run: BucketRun, bucket: Bucket, *more: object) -> None:
            if done:
                run.ledger.flush()  # its records are on the log
                raise RuntimeError("killed")
            finish(run, bucket, *more)  # type: ignore[arg-type]
            done.append(bucket)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BucketRun, "finish", dies)
            with pytest.raises(RuntimeError):
                latest.deliver(by_key, sent)

        assert len(seen(bootstrap, target)) == done[0].records
        assert not latest.proof([]).complete
        begun = plan.progress()
        assert {number for number in begun if number >= len(plan.chunks)} == {done[0].number}
        results = latest.run()
        assert [one.chunk for result in results for one in result.progress] == [done[0].number + n for n in (1, 2, 3)]
        assert all(result.finished for result in results)
        proof = latest.proof(results)
        assert latest.run() == []

    found = seen(bootstrap, target)
    wanted = newest(seen(bootstrap, one), topic=one) | newest(seen(bootstrap, other), topic=other)
    assert set(sources(found)) == wanted
    assert len(found) == len(wanted)
    assert len(seen(bootstrap, target, "read_uncommitted")) > len(found)
    assert {record.header("kgroup.plan") for record in found} == {plan.runner.plan_id}
    assert any(record.value is None for record in found)
    originals = {(one, r.partition, r.offset): r for r in seen(bootstrap, one)}
    for record in found:
        topic, part, offset = (record.header("kgroup.source") or "").split(":")
        original = originals.get((topic, int(part), int(offset)))
        if original is not None:
            assert (record.key, record.value, record.own, record.timestamp_ms, record.partition) == (
                original.key,
                original.value,
                original.own,
                original.timestamp_ms,
                original.partition,
            )
    assert proof.complete
    assert (proof.records, proof.delivered) == (404, len(wanted))
    assert proof.totals()["filtered"] == 404 - len(wanted)


def test_of_a_runner_that_was_superseded_nothing_is_delivered(
    world: KafkaWorld, bootstrap: str, name: Name, target: str
) -> None:
    _, spans = keyed_topic(world, bootstrap, name)
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 2)
        by_key = latest.by_key()
        sent = latest.sent(by_key)
        with plan.ledger.take_over(plan.runner.plan_id, who="another", now_ms=NOW_MS), pytest.raises(Refused) as caught:
            latest.deliver(by_key, sent)

    assert caught.value.code == "superseded"
    assert seen(bootstrap, target) == []


def test_nothing_is_delivered_of_what_was_not_read_whole(
    world: KafkaWorld, bootstrap: str, name: Name, target: str
) -> None:
    _, spans = keyed_topic(world, bootstrap, name)
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 2)
        by_key = latest.by_key()
        with pytest.raises(ReaderFailed) as stopped:
            latest.deliver(by_key, latest.sent(by_key, stop=lambda: True))
        assert stopped.value.why == STOPPED
        tallies = [item for item in latest.sent(by_key) if isinstance(pickle.loads(item[1]), ReaderTally)]
        with pytest.raises(KgroupError, match="were sent") as caught:
            latest.deliver(by_key, tallies)
        assert caught.value.code == "not-counted"
        (result, *_) = latest.deliver(by_key, latest.sent(by_key), stop=lambda: True)
        assert (result.finished, result.interrupted) == (False, True)
        assert plan.progress() == {}

    gone = world.topic(name("gone"))
    with replay(bootstrap, name("ledger2"), [(gone, 3, 0, 10)]) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 2)
        with pytest.raises(ReaderFailed) as failed:
            latest.run()
        assert failed.value.why.code == "unknown-topic"
    assert seen(bootstrap, target) == []


def test_what_retention_took_is_lost_in_exact_ranges(
    world: KafkaWorld, bootstrap: str, name: Name, target: str
) -> None:
    topic, spans = keyed_topic(world, bootstrap, name)
    records = [record for record in seen(bootstrap, topic) if record.partition == 1 or record.offset >= 50]
    world.delete_records(topic, 0, 50)
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 3)
        proof = latest.proof(latest.run())

    assert [(row.partition, row.start, row.end) for row in proof.lost] == [(0, 0, 50)]
    assert not proof.undelivered
    assert set(sources(seen(bootstrap, target))) == newest(records, topic=topic)


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_file_a_bucket_also_where_a_worker_dies_behind_it(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path, form: str
) -> None:
    topic, spans = keyed_topic(world, bootstrap, name)
    options, wanted = {"dir": str(tmp_path), "format": form}, newest(seen(bootstrap, topic), topic=topic)
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "files", options, 3)

        def dies(*_: object) -> None:
            raise RuntimeError("killed")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BucketRun, "finish", dies)
            with pytest.raises(RuntimeError):
                latest.run()
        (noted,) = [one for number, one in plan.progress().items() if number >= len(plan.chunks)]
        assert noted.may_repeat > 0
        world.delete_records(topic, 0, 1)  # what is found now is not what the file has

        proof = latest.proof(latest.run())
        found = plan.runner.read()
        buckets = range(len(plan.chunks), len(plan.chunks) + 3)
        manifest = json.loads(write_manifest(options, found.plan, found.progress, buckets).read_bytes())

    directory = tmp_path / plan.runner.plan_id
    paths = sorted(path.name for path in directory.iterdir())
    assert paths == ["_manifest.json", *(f"bucket-{number:05d}.{form}" for number in range(3))]
    assert [(row["bucket"], row["file"]) for row in manifest["files"]] == list(enumerate(paths[1:]))
    found_rows: list[dict[str, object]] = []
    for path in paths[1:]:
        if form == "json":
            found_rows += map(json.loads, (directory / path).read_text().splitlines())
        else:
            found_rows += parquet.read_table(directory / path).to_pylist()
    places = [f"{row['topic']}:{row['partition']}:{row['offset']}" for row in found_rows]
    assert sorted(places) == sorted(wanted)
    assert manifest["complete"]
    assert manifest["records"] == proof.delivered == len(wanted)
    assert [(row.start, row.end) for row in proof.lost] == [(0, 1)]


def test_an_empty_file_of_a_bucket_sets_their_number(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    """Found again it says that the bucket is delivered, whatever another number of them would put into it."""
    topic, plain = world.topic(name("src")), producer(bootstrap)
    plain.produce(topic, b"v", next(key for key in (b"a", b"b", b"c", b"d") if bucket_of(key, 0, 0, 2)), 0)
    plain.flush()
    with replay(bootstrap, name("ledger"), [(topic, 0, 0, 1)]) as plan, pytest.MonkeyPatch.context() as patch:

        def dies(*_: object) -> None:
            raise RuntimeError("killed")

        patch.setattr(BucketRun, "finish", dies)
        with pytest.raises(RuntimeError):
            Latest(plan, "files", {"dir": str(tmp_path), "format": "json"}, 2).run()
        found = plan.runner.read()

    (file,) = tmp_path.rglob("bucket-00000.json")
    assert file.read_bytes() == b""
    assert list(buckets_with_progress(found.plan, found.progress)) == [len(found.plan.chunks)]


def write_down(records: list[dict[str, object]]) -> None:
    """A handler; what holds ``poison`` is refused."""
    with Path(os.environ["KGROUP_TEST_OUT"]).open("a") as file:
        for record in records:
            if record["value"] == b"poison":
                raise ValueError("poison")
            file.write(f"{record['topic']}:{record['partition']}:{record['offset']}\n")


def test_handlers_dead_letters_and_what_may_come_again(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, spans = keyed_topic(world, bootstrap, name)
    producer_ = producer(bootstrap)
    producer_.produce(topic, b"poison", b"p", 0)
    producer_.flush()
    dead = world.topic(name("dead"))
    spans = [*spans, (topic, 0, 103, 104)]
    out = tmp_path / "out"
    monkeypatch.setenv("KGROUP_TEST_OUT", str(out))
    options = {"function": f"{__name__}:write_down"}
    handling = Handling(lanes=4, batch=1, retries=1, backoff_s=0.01, window=5)
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "python", options, 2)

        first = latest.run(handling=handling)

        (stopped,) = [one for result in first for one in result.stopped]
        assert (stopped.partition, stopped.offset, stopped.attempts) == (0, 103, 2)
        assert "poison" in stopped.why
        handled = len(out.read_text().splitlines())
        proof = latest.proof(first)
        (left,) = [
            one for number, one in plan.progress().items() if number >= len(plan.chunks) and not one.delivered_to
        ]
        # What was handed over and is not in a bucket that is done may come again.
        assert left.may_repeat == handled + 2 - proof.delivered  # the refused one was given too, twice
        assert not proof.complete

        proof = latest.proof(latest.run(handling=handling, dead_letters=dead))

    wanted = newest(seen(bootstrap, topic), topic=topic)
    assert set(out.read_text().splitlines()) == wanted - {f"{topic}:0:103"}
    assert sources(seen(bootstrap, dead)) == [f"{topic}:0:103"]
    totals = proof.totals()
    # It was given twice again before it was a dead letter.
    assert (totals["delivered"], totals["dead"], totals["may_repeat"]) == (len(wanted) - 1, 1, left.may_repeat + 1)
    assert proof.complete


def test_a_bucket_comes_again_where_its_handler_dies_or_answers_wrongly(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    """Each time counts that a record came again; of a bucket whose answers are too many nothing is delivered."""
    topic, spans = keyed_topic(world, bootstrap, name)
    script, got = tmp_path / "handler.sh", tmp_path / "got"
    keep = f'while read -r l; do echo "$l" >> {got}; '
    options = {"command": f"exec sh {script}", "ack": "line"}
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "command", options, 1)
        script.write_text(f"{keep} echo ok; done; echo ok")
        with pytest.raises(KgroupError) as caught:
            latest.run()
        (wrong,) = [one for number, one in plan.progress().items() if number >= len(plan.chunks)]
        script.write_text(f"{keep} [ -e {tmp_path}/died ] || {{ touch {tmp_path}/died; exit 1; }}; echo ok; done")
        proof = latest.proof(latest.run(handling=Handling(retries=1, backoff_s=0.01)))

    wanted = newest(seen(bootstrap, topic), topic=topic)
    assert caught.value.code == "handler-answer"
    assert (wrong.delivered_to, wrong.may_repeat) == (0, len(wanted))
    came = len(got.read_text().splitlines())
    assert came == 2 * len(wanted) + 1
    assert proof.complete
    assert proof.totals()["may_repeat"] == came - len(wanted)


def test_a_record_that_the_broker_refuses(world: KafkaWorld, bootstrap: str, name: Name) -> None:
    """Without a dead-letter topic its bucket stops there, with one the others go on, in one transaction."""
    topic, spans = keyed_topic(world, bootstrap, name)
    producer_ = producer(bootstrap)
    producer_.produce(topic, os.urandom(3000), b"large", 1)
    producer_.flush()
    small = world.topic(name("small"), 2, {"max.message.bytes": "2000"})
    dead = world.topic(name("dead"))
    with replay(bootstrap, name("ledger"), [*spans, (topic, 1, 103, 104)]) as plan:
        latest = Latest(plan, "topic", {"topic": small}, 2)

        first = latest.run()
        delivered = len(seen(bootstrap, small))
        proof = latest.proof(first)
        again = latest.run(dead_letters=dead)

        (stopped,) = [one for result in first for one in result.stopped]
        assert (stopped.topic, stopped.partition, stopped.offset) == (topic, 1, 103)
        assert proof.delivered == delivered
        assert not proof.complete
        proof = latest.proof(again)

    wanted = newest(seen(bootstrap, topic), topic=topic)
    found = sources(seen(bootstrap, small))
    assert set(found) == wanted - {f"{topic}:1:103"}
    assert len(found) == len(wanted) - 1
    assert sources(seen(bootstrap, dead)) == [f"{topic}:1:103"]
    assert proof.complete
    assert proof.totals()["dead"] == 1


def test_what_a_filter_lets_through(world: KafkaWorld, bootstrap: str, name: Name, target: str) -> None:
    """Rows with books, as Spark hands them on: what is left out is counted; where some end early, none is delivered."""
    topic, spans = keyed_topic(world, bootstrap, name)
    config = {"bootstrap.servers": bootstrap, "log_level": "0"}

    def wanted(batch: pa.RecordBatch) -> pa.RecordBatch:
        even = compute.equal(compute.bit_wise_and(batch.column("offset"), 1), 0)
        return batch.filter(compute.or_(batch.column(MARK), even))

    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 3)
        by_key = latest.by_key()
        parts = tuple(
            tuple(SourceRange(c.topic, c.partition, c.start, c.end, c.number) for c in some) for some in by_key.reading
        )
        reading = SourcePlan(parts, config, 15.0, books=True)
        batches = [list(map(wanted, rows(reading, number))) for number in range(2)]

        early = [*sift(by_key, 0, batches[0]), *sift(by_key, 1, batches[1][:-1])]
        with pytest.raises(ReaderFailed) as stopped:
            latest.deliver(by_key, early)
        nowhere = replace(reading, parts=((SourceRange(name("nope"), 0, 0, 5, 0),),))
        failed = [*sift(by_key, 0, rows(nowhere, 0)), *sift(by_key, 1, batches[1])]
        with pytest.raises(ReaderFailed) as broken:
            latest.deliver(by_key, failed)
        proof = latest.proof(latest.deliver(by_key, [*sift(by_key, 0, batches[0]), *sift(by_key, 1, batches[1])]))

    assert stopped.value.why == STOPPED
    assert broken.value.why.code == "unknown-topic"
    even = newest([record for record in seen(bootstrap, topic) if record.offset % 2 == 0], topic=topic)
    found = sources(seen(bootstrap, target))
    assert set(found) == even
    assert len(found) == len(even)
    assert proof.complete
    assert (proof.records, proof.delivered) == (202, len(even))


def test_a_rate_is_kept(world: KafkaWorld, bootstrap: str, name: Name, target: str) -> None:
    topic, spans = keyed_topic(world, bootstrap, name)
    wanted = len(newest(seen(bootstrap, topic), topic=topic))
    with replay(bootstrap, name("ledger"), spans) as plan:
        latest = Latest(plan, "topic", {"topic": target}, 1)
        by_key = latest.by_key(rate=RateLimit(records_per_s=wanted))
        sent = latest.sent(by_key)
        began_s = time.monotonic()
        latest.deliver(by_key, sent)
        took_s = time.monotonic() - began_s

    assert len(seen(bootstrap, target)) == wanted
    assert took_s > 0.7  # the last quarter of a second is sent at its beginning


def test_the_ledger_has_small_records(world: KafkaWorld, bootstrap: str, name: Name, target: str) -> None:
    _, spans = keyed_topic(world, bootstrap, name)
    with replay(bootstrap, name("ledger"), spans) as plan:
        Latest(plan, "topic", {"topic": target}, 1).run()
        progress: ChunkProgress = plan.progress()[len(plan.chunks)]

    assert len(progress.shares) == len(plan.chunks)
    assert progress.records == sum(share.records for share in progress.shares) == 202
