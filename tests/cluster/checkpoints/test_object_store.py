"""Checkpoints in S3, read from and written to a server that speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from msgspec.structs import replace
from pyarrow import fs

from kgroup.cluster.checkpoints.append import append_batch
from kgroup.cluster.checkpoints.files import read_query
from kgroup.cluster.checkpoints.stores import store_of
from kgroup.model.commit import Commit
from kgroup.model.streaming_query import QueryChanges
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotAuthorized, NotFound, Refused, Unreachable
from tests.helpers.places import DATA

PLAN = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"orders":{"0":6}}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
_RECORDED = DATA / "checkpoints" / "planned-4.3.0"
_LOGIN = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """``host:port`` of a server with a checkpoint in ``lake``."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as variables:
        for name, value in _LOGIN.items():
            variables.setenv(name, value)
        store = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", region="eu-west-1", allow_bucket_creation=True
        )
        store.create_dir("lake")
        fs.copy_files(
            str(DATA / "checkpoints" / "planned-4.3.0"), "lake/checkpoints/orders", destination_filesystem=store
        )
        fs.copy_files(
            str(DATA / "checkpoints" / "stateless-4.3.0"), "lake/checkpoints/stopped", destination_filesystem=store
        )
        yield f"{host}:{port}"
    server.stop()


def located(server: str, path: str, scheme: str = "s3a") -> str:
    return f"{scheme}://{path}?endpoint=http://{server}&region=eu-west-1"


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_checkpoint(server: str, scheme: str) -> None:
    query = read_query(located(server, "lake/checkpoints/orders", scheme), 5)
    same = read_query(str(_RECORDED), 5)

    assert (query.state, query.offsets, query.planned, query.sources) == (
        same.state,
        same.offsets,
        same.planned,
        same.sources,
    )
    assert query.done is not None
    assert query.done.done_ms is not None


@pytest.mark.parametrize("path", ["lake/checkpoints/none", "no-bucket/checkpoints"])
def test_there_is_none(server: str, path: str) -> None:
    with pytest.raises(NotFound, match="there is no checkpoint at s3a://"):
        read_query(located(server, path), 5)


def test_nobody_answers(server: str) -> None:
    with pytest.raises(Unreachable, match="cannot be read: Generic S3 error"):
        read_query(located("127.0.0.1:1", "lake/checkpoints/orders"), 2)


FIRST = TopicPartition("orders", 0)
MOVES = {FIRST: Commit(60, 3, "kgroup cu-7f3a 1 release 6")}


def test_a_query_is_moved_and_moved_back(server: str) -> None:
    location = located(server, "lake/checkpoints/stopped")
    old = read_query(location, 5)
    assert old.done is not None

    append_batch("spark:q", old, MOVES, QueryChanges(file_sink=""), 1)
    moved = read_query(location, 5)
    append_batch("spark:q", moved, {FIRST: old.commits[FIRST]}, QueryChanges(), 2)
    back = read_query(location, 5)

    assert moved.commits == {**old.commits, **MOVES}
    assert back.commits == old.commits
    assert [batch.number for batch in back.batches[-2:]] == [old.done.number + 1, old.done.number + 2]


def test_a_batch_that_the_query_begins_meanwhile_is_its_own(server: str) -> None:
    query = read_query(located(server, "lake/checkpoints/orders"), 5)
    assert query.planned is not None
    theirs = replace(query, planned=None)

    with pytest.raises(Refused, match=f"begun batch {query.planned.number} meanwhile"):
        append_batch("spark:q", theirs, MOVES, QueryChanges(file_sink=""), 1)

    assert read_query(located(server, "lake/checkpoints/orders"), 5).planned == query.planned


def test_an_answer_that_was_lost_is_no_other_writer(server: str) -> None:
    files = store_of(located(server, "lake/checkpoints/lost"), 5)

    files.create("offsets/1", b"ours")
    files.create("offsets/1", b"ours")

    with pytest.raises(FileExistsError):
        files.create("offsets/1", b"theirs")


def test_the_log_of_a_file_sink_in_s3(server: str) -> None:
    out, location = located(server, "lake/out"), located(server, "lake/checkpoints/written")
    log, files = store_of(out, 5), store_of(location, 5)
    for path, content in {"metadata": '{"id":"a"}', "offsets/0": PLAN, "commits/0": COMMIT}.items():
        files.create(path, content.encode())
    log.create("_spark_metadata/0", b"v1")

    append_batch("spark:q", read_query(location, 5), MOVES, QueryChanges(file_sink=out), 1)

    assert sorted(store_of(out, 5).names("_spark_metadata")) == ["0", "1"]


def test_nobody_answers_a_move(server: str) -> None:
    query = replace(
        read_query(located(server, "lake/checkpoints/stopped"), 5),
        location=located("127.0.0.1:1", "lake/checkpoints/stopped"),
    )

    with pytest.raises(Unreachable):
        append_batch("spark:q", query, MOVES, QueryChanges(file_sink=""), 1)


def test_a_profile_is_known_by_boto3_and_no_login_is_an_error(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[lake]\naws_access_key_id = id\naws_secret_access_key = secret\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

    with pytest.raises(NotAuthorized, match="no login of AWS was found"):
        read_query(located(server, "lake/checkpoints/orders"), 5)
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert read_query(located(server, "lake/checkpoints/orders"), 5).planned is not None
