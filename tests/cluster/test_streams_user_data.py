"""What classic Streams applications exchange, in the bytes of Kafka's own classes (TaskVectors.java)."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.streams_user_data import streams_thread
from kgroup.model.streams_group import StreamsTask
from tests.helpers.places import DATA

VERSIONS = {
    line["version"]: line
    for text in (DATA / "tasks.jsonl").read_text("utf-8").splitlines()
    if "version" in (line := json.loads(text))
}


def row(subscription: bytes | None, assignment: bytes | None) -> Any:
    """A member with this user data, of the topic ``orders``."""

    def data(text: bytes | None) -> bytes:
        return struct.pack(">i", -1 if text is None else len(text)) + (text or b"")

    return SimpleNamespace(
        member_id="m",
        client_id="c",
        member_metadata=b"\0\0" + struct.pack(">ih", 1, 6) + b"orders" + data(subscription),
        member_assignment=b"\0\0" + struct.pack(">i", 0) + data(assignment),
    )


@pytest.mark.parametrize("version", range(7, 12))
def test_every_version_that_is_read(version: int) -> None:
    line = VERSIONS[version]
    thread = streams_thread(row(bytes.fromhex(line["subscription"]), bytes.fromhex(line["assignment"])))
    assert thread.process_id == "01234567-89ab-cdef-fedc-ba9876543210"
    assert thread.with_state == (StreamsTask("1", 0), StreamsTask("2", 3))
    assert thread.tagged is (version == 11)
    assert thread.active == (StreamsTask("0", 0), StreamsTask("1", 1))
    assert thread.standby == (StreamsTask("1", 2),)


@pytest.mark.parametrize("version", range(1, 7))
def test_older_clients_are_refused_by_their_version(version: int) -> None:
    line = VERSIONS[version]
    with pytest.raises(MalformedRecord, match=f"has the version {version}, kgroup knows 7 to 11"):
        streams_thread(row(bytes.fromhex(line["subscription"]), bytes.fromhex(line["assignment"])))


def test_bytes_that_are_not_of_streams() -> None:
    line = VERSIONS[11]
    subscription, assignment = bytes.fromhex(line["subscription"]), bytes.fromhex(line["assignment"])
    with pytest.raises(MalformedRecord, match="the member m has no tasks"):
        streams_thread(row(subscription, None))
    for cut in range(4, len(subscription) - 13):  # the tags themselves are not read
        with pytest.raises(MalformedRecord):
            streams_thread(row(subscription[:cut], assignment))
