"""Checkpoints in S3, read from a server that speaks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from kgroup.cluster.checkpoints.files import read_query
from kgroup.support.errors import NotFound, Unreachable
from tests.helpers.places import DATA

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
        yield f"{host}:{port}"
    server.stop()


def located(server: str, path: str, scheme: str = "s3a") -> str:
    return f"{scheme}://{path}?endpoint_override={server}&scheme=http&region=eu-west-1"


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
    with pytest.raises(Unreachable, match="NETWORK_CONNECTION"):
        read_query(located("127.0.0.1:1", "lake/checkpoints/orders"), 2)
