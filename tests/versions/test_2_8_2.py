"""Kafka 2.8.2 is too old: every verb that asks a coordinator says so at once. The log is read all the same."""

from __future__ import annotations

import pytest

from tests.helpers.command_line import CommandLine
from tests.versions.kafka import Kafka

VERSION = "2.8.2"
GROUP, TOPIC = "g-a", "orders"

pytestmark = pytest.mark.soak

NAMED = (
    ("list",),
    ("describe", GROUP),
    ("describe", "--all-groups"),
    ("lag", GROUP),
    ("lag", "--all-groups"),
    ("doctor", GROUP),
    ("doctor", "--cluster"),
    ("doctor",),
    ("history", GROUP),
    ("wait", GROUP, "--for", "empty", "--within", "60s"),
    ("simulate", GROUP, "--add", "1"),
    ("export", "--all-groups"),
    ("reset", GROUP, "--to-earliest", "--all-topics"),
    ("delete", GROUP),
    ("delete-offsets", GROUP, "--topic", TOPIC),
    ("evict", GROUP, "--all-members"),
    ("migrate", GROUP),
    ("migrate", GROUP, "--watch", "--within", "60s"),
    ("catchup", "start", GROUP, "--release-only"),
)


@pytest.fixture(scope="module")
def old(kafka: Kafka) -> Kafka:
    kafka.world.topic(TOPIC, 2)
    kafka.world.produce(TOPIC, 20)
    kafka.world.commit(GROUP, {(TOPIC, 0): 5})
    return kafka


@pytest.fixture
def kgroup(old: Kafka, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", old.bootstrap)
    return CommandLine()


@pytest.mark.parametrize("arguments", NAMED, ids=" ".join)
def test_too_old(kgroup: CommandLine, arguments: tuple[str, ...]) -> None:
    """With a timeout that a second try would come up to: nothing is asked again."""
    document = kgroup(*arguments, "--timeout", "600s", "-o", "json", exit_code=6).json
    assert document["data"] == []
    (error,) = document["errors"]
    assert error["code"] == "broker-too-old"
    assert "is older than Kafka 3.0, the oldest release that kgroup supports" in error["message"]
    assert "--from-log" in error["hint"]


def test_the_log_is_read(kgroup: CommandLine, old: Kafka) -> None:
    assert kgroup("export", GROUP, "--from-log").stdout == f"{TOPIC},0,5\n"
    (document,) = kgroup("describe", GROUP, "--from-log", "-o", "json").data
    assert [(row["committed"], row["lag"]) for row in document["partitions"]] == [(5, 15)]
    assert [row["group"] for row in kgroup("list", "--coordinator", "1", "--from-log", "-o", "json").data] == [GROUP]
