"""Share groups of a cluster in which they are switched off: the brokers list them, and show nothing else of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import ProxiedBroker, proxied_broker
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.waiting import wait_for

FEATURES = "org.apache.kafka.tools.FeatureCommand"
OFF = "share groups are switched off in this cluster (share.version=0)"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ProxiedBroker]:
    """A broker with a share group, a classic group, and the feature at 0."""
    with proxied_broker(tmp_path_factory.mktemp("off"), BROKER_PROPERTIES) as made:
        world = made.world
        world.topic("orders", 1)
        world.share_group("jobs", "orders")
        world.commit("plain", {("orders", 0): 0})
        words = ("--bootstrap-server", world.bootstrap, "downgrade", "--feature", "share.version=0")
        done = kafka_tool(FEATURES, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        yield made


@pytest.fixture
def kgroup(broker: ProxiedBroker, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", broker.world.bootstrap)
    run = CommandLine()
    wait_for(lambda: run("describe", "jobs", exit_code=None).exit_code == 7, "the feature to be off")
    return run


def test_they_are_listed(kgroup: CommandLine) -> None:
    listed = kgroup("list", "-o", "json")
    assert {row["group"]: (row["type"], row["member_count"]) for row in listed.data} == {
        "jobs": ("share", None),
        "plain": ("classic", 0),
    }
    assert OFF in " ".join(listed.json["notes"])


@pytest.mark.parametrize("verb", ["describe", "lag", "doctor"])
def test_what_is_shown_of_them(kgroup: CommandLine, verb: str) -> None:
    shown = kgroup(verb, "jobs", "-o", "json", exit_code=7)
    assert [(error["group"], error["code"]) for error in shown.json["errors"]] == [("jobs", "share-groups-off")]
    assert OFF in shown.stderr
    others = kgroup(verb, "--regex", "jobs|plain", "-o", "json", exit_code=7)
    assert {document["group"] for document in others.data} == {"jobs", "plain"}
    assert kgroup(verb, "nope", exit_code=5).stdout == ""


def test_they_are_not_empty_for_that(kgroup: CommandLine) -> None:
    assert OFF in kgroup("wait", "jobs", "--for", "empty", "--within", "1s", exit_code=6).stderr
