"""Checkpoints of real queries (tests/data/checkpoints), read as they are, and spoiled in each way."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.cluster.checkpoints.files import read_queries, read_query
from kgroup.model.streaming_query import StreamingQuery
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ConfigError, KgroupError, NotFound, Refused, UsageError
from tests.helpers.checkpoints import recorded_checkpoint, write_checkpoint
from tests.helpers.places import DATA

pytestmark = pytest.mark.quick
Copy = Callable[[str], Path]
Read = Callable[[str], StreamingQuery]
KINDS = sorted(path.name for path in (DATA / "checkpoints").iterdir())
ORDERS = {TopicPartition("orders", number): offset for number, offset in enumerate((6, 4, 2))}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    def of(kind: str) -> Path:
        return recorded_checkpoint(kind, tmp_path)

    return of


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return lambda kind: read_query(str(recorded_checkpoint(kind, tmp_path)), 5)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0"])
def test_a_stateless_query_of_each_spark(read: Read, version: str) -> None:
    query = read(f"stateless-{version}")

    assert (query.state, query.log_version, query.stateful, query.has_gaps) == ("BatchDone", 1, False, False)
    assert [batch.number for batch in query.batches] == list(range(len(query.batches)))
    assert query.offsets == ORDERS
    assert [source.topics for source in query.sources] == [("orders",)]


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0"])
def test_a_batch_that_was_killed_is_planned_and_its_records_are_unread(read: Read, version: str) -> None:
    query = read(f"planned-{version}")

    assert query.state == "InBatch"
    assert query.planned is not None
    assert query.done is not None
    assert query.planned.number == query.done.number + 1
    assert query.offsets == {**query.initial, **query.done.ends}
    assert query.state_since_ms == query.planned.planned_ms


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("aggregation", "commits-v2"))])
def test_a_query_that_keeps_state(read: Read, kind: str) -> None:
    assert read(kind).stateful


@pytest.mark.parametrize(
    ("kind", "version", "topics"),
    [
        ("two-sources-4.3.0", 1, {"0": ("orders",), "1": ("payments",)}),
        ("log-v2-4.3.0", 2, {"0": ("orders",), "1": ("payments",), "2": ()}),
        ("named-sources-4.3.0", 2, {"of_orders": ("orders",), "of_payments": ("payments",)}),
        ("no-topic-4.3.0", 1, {"0": ("orders",), "1": ()}),
        ("other-sources-4.3.0", 1, {"0": (), "1": ("orders",), "2": ()}),
    ],
)
def test_sources_by_number_or_name(read: Read, kind: str, version: int, topics: dict[str, tuple[str, ...]]) -> None:
    query = read(kind)

    assert query.log_version == version
    assert {source.key: source.topics for source in query.sources} == topics
    assert {tp: query.offsets[tp] for tp in ORDERS} == ORDERS


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("continuous")])
def test_every_recording_is_read(read: Read, kind: str) -> None:
    query = read(kind)

    assert query.id
    assert query.offsets
    assert query.done is not None
    assert query.has_gaps == kind.startswith("async-progress")


def test_asynchronous_progress_leaves_holes_so_its_offsets_are_a_lower_bound(
    read: Read,
) -> None:
    assert read("async-progress-4.3.0").has_gaps


def test_real_time_mode_of_spark_43_shows_by_its_commits(read: Read) -> None:
    assert read("real-time-4.3.0").planned_late
    assert not read("stateless-4.3.0").planned_late


def test_batches_that_are_written_long_after_they_began_are_of_real_time_mode(tmp_path: Path) -> None:
    done_ms = [1_795_962_000_000 + 10_000 * number for number in range(4)]
    root = write_checkpoint(tmp_path / "c", [{"orders": [number]} for number in range(4)], done_ms)
    assert not read_query(str(root), 5).planned_late

    for file in (root / "offsets").iterdir():
        os.utime(file, (file.stat().st_mtime + 5,) * 2)

    assert read_query(str(root), 5).planned_late


def test_a_copy_whose_files_are_all_new_shows_no_mode(tmp_path: Path) -> None:
    done_ms = [1_795_962_000_000 + 10_000 * number for number in range(4)]
    root = write_checkpoint(tmp_path / "c", [{"orders": [number]} for number in range(4)], done_ms)

    for file in (*(root / "offsets").iterdir(), *(root / "commits").iterdir()):
        os.utime(file, (1_795_999_000,) * 2)

    assert read_query(str(root), 5).reads_ahead is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("continuous")])
def test_continuous_processing_is_refused_by_name(read: Read, kind: str) -> None:
    with pytest.raises(Refused, match="continuous processing"):
        read(kind)


def test_a_commit_is_dated_by_its_file(copy: Copy) -> None:
    root = copy("stateless-4.3.0")
    os.utime(root / "commits" / "0", (1000, 1000))

    assert read_query(str(root), 5).batches[0].done_ms == 1_000_000


def test_before_its_first_batch_it_is_where_its_sources_began(copy: Copy) -> None:
    root = copy("stateless-4.3.0")
    shutil.rmtree(root / "commits")
    for number in (1, 2):
        (root / "offsets" / str(number)).unlink()
    query = read_query(f"file://{root}", 5)

    assert query.state == "InBatch"
    assert query.offsets == dict.fromkeys(ORDERS, 0)
    shutil.rmtree(root / "offsets")
    assert read_query(str(root), 5).state == "New"


def test_a_batch_is_read_once(copy: Copy) -> None:
    root = copy("stateless-4.3.0")
    before = read_query(str(root), 5)
    (root / "offsets" / "0").write_text("spoiled")
    (root / "offsets" / "3").write_bytes((root / "offsets" / "2").read_bytes())
    (root / "commits" / "3").write_bytes((root / "commits" / "2").read_bytes())
    again = read_query(str(root), 5, before=before)

    assert again.batches[:-1] == before.batches
    assert again.batches[-1].number == 3
    (root / "metadata").write_text('{"id":"another"}')
    with pytest.raises(Refused, match="offsets/0"):
        read_query(str(root), 5, before=before)


def test_files_that_are_being_written_and_checksums_are_no_batches(copy: Copy) -> None:
    root = copy("stateless-4.3.0")
    for name in (".3.7f0c.tmp", "..3.7f0c.tmp.crc", ".2.crc"):
        (root / "offsets" / name).write_bytes(b"half")

    assert read_query(str(root), 5).state == "BatchDone"


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("offsets/2", b"", "offsets/2 does not begin with a version"),
        ("offsets/2", b"v9\n{}\n{}", "offsets/2 has version 9; this kgroup knows 1 and 2"),
        ("offsets/2", b"v1", "offsets/2 ends after its first line"),
        ("offsets/2", b"v1\n[]", "its second line is not the metadata"),
        ("offsets/2", b"v1\n{\n", "offsets/2: "),
        ("offsets/2", b"v2\n{}\n{}", "a source without a number or a name"),
        ("offsets/2", b"v1\n\xff", "not UTF-8"),
        ("commits/2", b"v3\n{}", "commits/2 has version 3"),
        ("metadata", b"{", "metadata: "),
    ],
)
def test_an_unknown_form_is_refused_with_the_file(copy: Copy, path: str, content: bytes, words: str) -> None:
    root = copy("stateless-4.3.0")
    (root / path).write_bytes(content)

    with pytest.raises(Refused, match=words) as refused:
        read_query(str(root), 5)
    assert refused.value.code == "unknown-checkpoint"


@pytest.mark.parametrize("line", [b'{"orders":{"0":-1}}', b'{"orders":{"x":1}}', b'{"orders":{}}', b'{"logOffset":4}'])
def test_what_is_not_of_kafkas_form_is_another_source(copy: Copy, line: bytes) -> None:
    root = copy("stateless-4.3.0")
    (root / "offsets" / "2").write_bytes(b"v1\n{}\n" + line)

    assert [source.topics for source in read_query(str(root), 5).sources] == [()]


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("/no/such/place", NotFound),
        (str(DATA), NotFound),
        ("http://host/x", UsageError),
        ("s3a://user:secret@bucket/x", UsageError),
        ("viewfs://nowhere", KgroupError),
        ("s3a://bucket/x?secret_key=secret", UsageError),
    ],
)
def test_no_checkpoint(location: str, error: type[KgroupError]) -> None:
    with pytest.raises(error) as raised:
        read_query(location, 5)
    assert "secret@" not in str(raised.value)
    assert "=secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("location", "package"), [("s3a://lake/x", "obstore"), ("gs://lake/x", "obstore"), ("hdfs://lake/x", "hdfs-native")]
)
def test_without_the_package_of_its_store(monkeypatch: pytest.MonkeyPatch, location: str, package: str) -> None:
    for module in ("obstore.store", "hdfs_native"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match=f"need {package}") as raised:
        read_query(location, 5)

    assert raised.value.code == "no-store-client"


def test_several_are_read_at_once_each_with_its_own_failure() -> None:
    found = read_queries({"a": (str(DATA / "checkpoints" / "stateless-4.3.0"), 60.0), "b": ("/no/such", None)}, 5)

    assert isinstance(found["a"], StreamingQuery)
    assert found["a"].every_s == 60.0
    assert isinstance(found["b"], NotFound)
