"""Share and streams groups of a cluster that has them switched off: the brokers list them, and show nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import ProxiedBroker, proxied_broker
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.waiting import wait_for

FEATURES = "org.apache.kafka.tools.FeatureCommand"
JOBS, COUNTS = "jobs", "counts"
KINDS = {JOBS: "share", COUNTS: "streams"}
ANY = "jobs|counts|plain"
OFF = {f"{kind}-groups-off" for kind in KINDS.values()}


def off(group: str) -> str:
    return f"{KINDS[group]} groups are switched off in this cluster ({KINDS[group]}.version=0)"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ProxiedBroker]:
    """A broker with a share group, a streams group, a classic group, and the features at 0."""
    with proxied_broker(tmp_path_factory.mktemp("off"), BROKER_PROPERTIES) as made:
        world = made.world
        world.topic("orders", 1)
        world.share_group(JOBS, "orders")
        world.streams_group(COUNTS, "orders")
        world.commit("plain", {("orders", 0): 0})
        for kind in KINDS.values():
            words = ("--bootstrap-server", world.bootstrap, "downgrade", "--feature", f"{kind}.version=0")
            done = kafka_tool(FEATURES, *words)
            assert done.returncode == 0, done.stdout + done.stderr
        yield made


@pytest.fixture
def kgroup(broker: ProxiedBroker, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", broker.world.bootstrap)
    run = CommandLine()
    wait_for(
        lambda: {e["code"] for e in run("describe", *KINDS, "-o", "json", exit_code=None).json["errors"]} == OFF,
        "the features to be off",
    )
    return run


def test_they_are_listed(kgroup: CommandLine) -> None:
    listed = kgroup("list", "-o", "json")
    assert {row["group"]: (row["type"], row["member_count"]) for row in listed.data} == {
        JOBS: ("share", None),
        COUNTS: ("streams", None),
        "plain": ("classic", 0),
    }
    for group in KINDS:
        assert off(group) in " ".join(listed.json["notes"])


@pytest.mark.parametrize("group", KINDS)
@pytest.mark.parametrize("verb", ["describe", "lag", "doctor"])
def test_what_is_shown_of_them(kgroup: CommandLine, verb: str, group: str) -> None:
    shown = kgroup(verb, group, "-o", "json", exit_code=7)
    code = f"{KINDS[group]}-groups-off"
    assert [(error["group"], error["code"]) for error in shown.json["errors"]] == [(group, code)]
    assert off(group) in shown.stderr
    others = kgroup(verb, "--regex", ANY, "-o", "json", exit_code=7)
    assert {document["group"] for document in others.data} == {JOBS, COUNTS, "plain"}
    assert kgroup(verb, "nope", exit_code=5).stdout == ""


@pytest.mark.parametrize("group", KINDS)
def test_they_are_not_empty_for_that(kgroup: CommandLine, group: str) -> None:
    assert off(group) in kgroup("wait", group, "--for", "empty", "--within", "1s", exit_code=6).stderr
