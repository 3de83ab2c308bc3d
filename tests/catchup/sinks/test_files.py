"""Files on a real broker: one for each chunk, whole or not there, in the columns of Spark's Kafka source."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kgroup.catchup.sinks import files
from kgroup.catchup.sinks.files import MANIFEST, ChunkFile, write_manifest
from kgroup.catchup.sinks.run_task import run_task
from kgroup.catchup.spark.filtered_reader import FilteredReader
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.cluster.reader.batches import Batch
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.delivered import started_chunks
from kgroup.groups.catchup.model import CatchupPlan, Chunk
from kgroup.support.errors import KgroupError, Refused, UsageError
from tests.catchup.sinks.test_topic import SHAPES, produce_shapes
from tests.catchup.spark.test_filtered_reader import batch, mark, rows
from tests.helpers.catchup.plans import ME, NOW_MS, make_plan
from tests.helpers.catchup.replays import Replay, producer
from tests.helpers.json_bytes import as_bytes
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
Make = Callable[..., Replay]


def options(directory: Path, form: str = "json", **more: str) -> dict[str, str]:
    return {"dir": str(directory), "format": form, **more}


def names(plan: Replay, directory: Path, topic: str, partition: int) -> list[str]:
    return sorted(path.name for path in (directory / plan.runner.plan_id / topic / str(partition)).iterdir())


def finished(plan: Replay, directory: Path, form: str = "json") -> list[Path]:
    of = [ChunkFile.of(directory, plan.runner.plan_id, chunk, form).path for chunk in plan.chunks]
    return [path for path in of if path.exists()]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def plan_of(plan: Replay) -> CatchupPlan:
    return plan.runner.read().plan


def test_every_shape_of_a_record_as_json(make: Make, bootstrap: str, source: str, tmp_path: Path) -> None:
    produce_shapes(bootstrap, source)
    plan = make((source, 1, 0, len(SHAPES)))

    result = plan.run("files", options(tmp_path))

    (path,) = finished(plan, tmp_path)
    assert path == tmp_path / plan.runner.plan_id / source / "1" / f"{0:020d}-{len(SHAPES):020d}.json"

    found = [
        (
            as_bytes(row["key"]),
            as_bytes(row["value"]),
            [(one["key"], as_bytes(one["value"])) for one in row["headers"]] or None,
            row["timestamp_ms"],
        )
        for row in lines(path)
    ]
    assert found == SHAPES
    assert [(row["topic"], row["partition"], row["offset"]) for row in lines(path)] == [
        (source, 1, offset) for offset in range(len(SHAPES))
    ]
    assert result.finished
    assert plan.proof(result).complete
    assert plan.progress()[0].may_repeat == 0


def test_parquet_has_the_columns_of_spark(make: Make, bootstrap: str, source: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    produce_shapes(bootstrap, source)
    plan = make((source, 1, 0, len(SHAPES)))

    plan.run("files", options(tmp_path, "parquet"))

    (path,) = finished(plan, tmp_path, "parquet")
    table = parquet.read_table(path)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert {field.name: field.type for field in table.schema} == {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": headers,
    }
    rows = table.to_pylist()
    assert [
        (
            row["key"],
            row["value"],
            None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]],
            round(row["timestamp"].timestamp() * 1000),
        )
        for row in rows
    ] == SHAPES
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(source, 1, 0)}
    assert parquet.ParquetFile(path).metadata.row_group(0).column(1).compression == "SNAPPY"


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_chunk_without_records_has_a_file_too(
    make: Make, bootstrap: str, world: KafkaWorld, source: str, name: Name, tmp_path: Path, form: str
) -> None:
    writer = producer(bootstrap, transactional_id=name("writer"))
    writer.init_transactions(30)
    writer.begin_transaction()
    for _ in range(5):
        writer.produce(source, b"x", partition=0)
    assert writer.flush(30) == 0
    writer.abort_transaction(30)
    plan = make((source, 0, 0, 6))

    result = plan.run("files", options(tmp_path, form))

    assert len(finished(plan, tmp_path, form)) == 1
    assert plan.proof(result).complete


def test_a_manifest_lists_them_all(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    import hashlib

    world.produce(source, 30)
    world.delete_records(source, 0, 4)
    plan = make((source, 0, 0, 10), (source, 0, 10, 20), (source, 0, 20, 30))
    first = plan.run("files", options(tmp_path), lambda: plan.records() >= 16)
    assert not first.finished

    path = write_manifest(options(tmp_path), plan_of(plan), plan.progress())
    assert not json.loads(path.read_bytes())["complete"]
    plan.run("files", options(tmp_path))
    for _ in range(2):  # it may be written again
        path = write_manifest(options(tmp_path), plan_of(plan), plan.progress())

    document = json.loads(path.read_bytes())
    assert path == tmp_path / plan.runner.plan_id / MANIFEST
    assert document["complete"]
    assert document["records"] == 26
    assert [(one["start"], one["end"], one["records"]) for one in document["files"]] == [
        (0, 10, 6),
        (10, 20, 10),
        (20, 30, 10),
    ]
    assert [(one["start"], one["end"]) for one in document["files"][0]["lost"]] == [(0, 4)]
    for one in document["files"]:
        content = (path.parent / one["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"]
        assert len(content) == one["file_bytes"]
    assert all(item.endswith(".json") and item[0] not in "._" for item in names(plan, tmp_path, source, 0))


def test_a_manifest_names_what_is_missing_or_was_changed(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path
) -> None:
    world.produce(source, 10)
    plan = make((source, 0, 0, 10))
    plan.run("files", options(tmp_path))
    (path,) = finished(plan, tmp_path)
    content = path.read_bytes()

    path.write_bytes(content[:-5])
    with pytest.raises(Refused) as caught:
        write_manifest(options(tmp_path), plan_of(plan), plan.progress())
    assert caught.value.code == "foreign-file"
    path.unlink()
    with pytest.raises(KgroupError, match="does not exist"):
        write_manifest(options(tmp_path), plan_of(plan), plan.progress())


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files": [{}]}', b'{"files": [{"file": "a"}]}', b"\xff"])
def test_a_manifest_that_is_damaged_is_named(content: bytes, tmp_path: Path) -> None:
    plan = make_plan(chunks=())
    path = tmp_path / plan.id / MANIFEST
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(KgroupError, match=f"{MANIFEST} is damaged") as caught:
        write_manifest(options(tmp_path), plan, {})

    assert caught.value.code == "file"


def test_a_finished_file_is_never_written_again(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies between the file's name and the ledger; what it had counted, and lost, is in the receipt."""
    world.produce(source, 10)
    world.delete_records(source, 0, 3)
    plan = make((source, 0, 0, 10))

    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    ChunkFile.of(tmp_path, plan.runner.plan_id, plan.chunks[0], "json").directory.mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(files, "sync_directory", die)
        with pytest.raises(Died):
            plan.run("files", options(tmp_path))
    (path,) = finished(plan, tmp_path)
    before = path.stat()
    assert plan.progress()[0].delivered_to == 0
    assert plan.progress()[0].may_repeat == 7  # something was there, says the ledger

    world.delete_records(source, 0, 10)  # it can't be read again either
    result = plan.run("files", options(tmp_path))

    (path,) = finished(plan, tmp_path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    (progress,) = result.progress
    assert (progress.records, progress.size, progress.may_repeat) == (7, 7, 0)
    assert [(lost.start, lost.end) for lost in progress.lost] == [(0, 3)]


def test_a_file_that_is_not_kgroups_is_left_alone(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    world.produce(source, 10)
    plan = make((source, 0, 0, 10))
    file = ChunkFile.of(tmp_path, plan.runner.plan_id, plan.chunks[0], "json")
    file.directory.mkdir(parents=True)
    file.path.write_text("mine\n")

    with pytest.raises(Refused) as caught:
        plan.run("files", options(tmp_path))

    assert caught.value.code == "foreign-file"
    assert file.path.read_text() == "mine\n"
    assert plan.progress() == {}


def test_of_two_attempts_at_once_one_file_stays(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    """A worker that was superseded while it wrote gives nothing a name; the other's file is as it was."""
    world.produce(source, 400)
    plan = make((source, 0, 0, 400))
    again: list[bool] = []

    def stop() -> bool:
        if plan.records() and not again:
            again.append(True)
            plan.run("files", options(tmp_path))
        return False

    with pytest.raises(Refused) as caught:
        plan.run("files", options(tmp_path), stop, rate=RateLimit(records_per_s=800))

    assert caught.value.code == "superseded"
    (path,) = finished(plan, tmp_path)
    assert len(lines(path)) == 400
    assert plan.proof().complete
    write_manifest(options(tmp_path), plan_of(plan), plan.progress())
    assert names(plan, tmp_path, source, 0) == [path.name]


def test_an_earlier_runner_writes_nothing(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    world.produce(source, 3)
    plan = make((source, 0, 0, 3))
    plan.ledger.take_over(plan.runner.plan_id, who=ME, now_ms=NOW_MS).close()

    with pytest.raises(Refused) as caught:
        plan.run("files", options(tmp_path))

    assert caught.value.code == "superseded"
    assert list(tmp_path.iterdir()) == []


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The nearest to a full disk that needs no rights: a write fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_full_disk_leaves_nothing_behind_and_can_be_gone_on_with(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path, form: str
) -> None:
    world.produce(source, 20, value=os.urandom(20_000))
    plan = make((source, 0, 0, 2), (source, 0, 2, 20))

    chosen = options(tmp_path, form, compression="none")
    with files_no_larger_than(100_000), pytest.raises(KgroupError) as caught:
        plan.run("files", chosen)

    assert caught.value.code == "disk-full"
    assert str(tmp_path) in caught.value.message
    assert len(finished(plan, tmp_path, form)) == 1
    assert not [item for item in names(plan, tmp_path, source, 0) if item.endswith(".part")]
    result = plan.run("files", chosen)
    assert result.finished
    assert plan.proof(result).complete


def test_a_directory_that_cannot_be_made_is_named(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    world.produce(source, 3)
    (tmp_path / "file").write_text("")
    plan = make((source, 0, 0, 3))

    with pytest.raises(KgroupError) as caught:
        plan.run("files", options(tmp_path / "file" / "out"))

    assert caught.value.code == "file"


def test_stopped_it_keeps_whole_files_only(make: Make, world: KafkaWorld, source: str, tmp_path: Path) -> None:
    world.produce(source, 1000)
    plan = make((source, 0, 0, 300), (source, 0, 300, 1000))

    first = plan.run(
        "files",
        options(tmp_path),
        lambda: plan.records() > 400,
        rate=RateLimit(records_per_s=1000),
    )

    assert first.interrupted
    assert [progress.delivered_to for progress in first.progress] == [300]
    assert len(names(plan, tmp_path, source, 0)) == 2  # the file and its receipt
    assert plan.run("files", options(tmp_path)).finished
    assert sum(len(lines(path)) for path in finished(plan, tmp_path)) == 1000


@pytest.mark.parametrize(
    "chosen",
    [{}, {"dir": ""}, {"dir": "x", "format": "csv"}, {"dir": "x", "compression": "rar"}],
)
def test_options_that_mean_nothing_are_refused(chosen: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        files.check(chosen)


@pytest.mark.parametrize(("topic", "expected"), [("a.b-c_d", "a.b-c_d"), ("..", "%2E%2E"), (".", "%2E"), ("_x", "_x")])
def test_a_topic_is_a_directory_whatever_its_name(topic: str, expected: str) -> None:
    file = ChunkFile.of(Path("/out"), "cu-7f3a", Chunk(topic, 3, 5, 12, 0), "parquet")

    assert file.path == Path(f"/out/cu-7f3a/{expected}/3/00000000000000000005-00000000000000000012.parquet")


def test_a_superseded_attempt_takes_away_nothing_of_a_live_one(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes what a live attempt writes for what a killed one has left."""
    world.produce(source, 10)
    plan = make((source, 0, 0, 10))
    file = ChunkFile.of(tmp_path, plan.runner.plan_id, plan.chunks[0], "json")
    file.directory.mkdir(parents=True)
    part = file.directory / f".{file.name}.0123abcd.part"

    class Late(TaskLedger):
        def open(self) -> None:
            """Another runner takes over as soon as this one has begun."""
            super().open()
            if not part.exists():
                part.write_bytes(b"of a live attempt")
                with plan.ledger.take_over(plan.runner.plan_id, who=ME, now_ms=NOW_MS):
                    pass

    monkeypatch.setattr("kgroup.catchup.sinks.run_task.TaskLedger", Late)
    with pytest.raises(Refused) as caught:
        plan.run("files", options(tmp_path))

    assert caught.value.code == "superseded"
    assert part.exists()


def test_a_file_that_does_not_have_all_that_was_read_is_not_kept(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.produce(source, 10)
    pieces = TaskRun._pieces

    def losing(run: TaskRun, batch: Batch, most: Any) -> Iterator[Batch]:
        for piece in pieces(run, batch, most):
            yield Batch(piece.topic, piece.partition, piece._messages[:-1], piece.position)

    monkeypatch.setattr(TaskRun, "_pieces", losing)
    plan = make((source, 0, 0, 10))

    with pytest.raises(KgroupError) as caught:
        plan.run("files", options(tmp_path))

    assert caught.value.code == "not-counted"
    assert finished(plan, tmp_path) == []
    assert plan.progress() == {}


def test_new_directories_are_on_the_disk_before_the_ledger_knows_of_what_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)

    files.make_directory(tmp_path / "a" / "b")
    assert set(synced) == {tmp_path, tmp_path / "a"}
    files.make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_in_which_nothing_was_wanted_sets_the_condition(
    make: Make, world: KafkaWorld, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found again it says that the chunk is delivered, whatever another condition would let through."""
    world.produce(source, 10)
    plan = make((source, 0, 0, 10))
    (chunk,) = plan.chunks
    found = [{**one, "topic": source, "_chunk": chunk.number} for one in (*rows(4, 0, 10), mark(4, 10))]
    spec = plan.spec("files", options(tmp_path))
    reader = FilteredReader((batch(*found),), (chunk,), spec.config, timeout_s=5, again=False)

    def dies(*_: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(TaskRun, "commit", dies)
    with pytest.raises(RuntimeError):
        run_task(spec, reader)

    assert len(finished(plan, tmp_path)) == 1
    assert list(started_chunks(plan_of(plan), plan.progress())) == [chunk]
