"""Share groups in the verbs that read groups, with real share consumers, and with the figures of Kafka's own tool."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import Fault, Loss, ProxiedBroker
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.share_consumers import ACCEPT, RELEASE, sharer
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_GROUP_OFFSETS = 90
UNKNOWN = "no start offset is stored yet"


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    """A topic with 10 records in each of two partitions, and none in a third."""
    topic = world.topic(name("orders"), partitions=3)
    for partition in (0, 1):
        world.produce(topic, 10, partition)
    return topic


@pytest.fixture
def group(world: KafkaWorld, name: Name, orders: str) -> str:
    """A share group that starts at the log start, without members yet."""
    group = name("jobs")
    world.configure_group(group, share_auto_offset_reset="earliest")
    return group


def rows(kafka_tool: KafkaTools, bootstrap: str, group: str, part: str) -> list[list[str]]:
    """The table of kafka-share-groups.sh --describe, without its header and the name of the group."""
    answer = kafka_tool(TOOL, "--bootstrap-server", bootstrap, "--describe", "--group", group, part, "--verbose")
    assert answer.returncode == 0, answer.stderr
    table = [line.split() for line in answer.stdout.splitlines() if line.startswith(group)]
    return [cells[1:] for cells in table]


def number(text: str) -> int | None:
    """A number of Kafka's tool, which prints - for what is unknown."""
    return None if text == "-" else int(text)


def starts(kgroup: CommandLine, group: str) -> dict[int, tuple[int | None, int | None]]:
    """Start offset and lag by partition."""
    (document,) = kgroup("describe", group, "-o", "json").data
    return {row["partition"]: (row["committed"], row["lag"]) for row in document["partitions"]}


def settled(kgroup: CommandLine, group: str, lag: int) -> None:
    """Until the broker counts this lag on the partitions with a start offset."""

    def counted() -> list[int]:
        return [lag for start, lag in starts(kgroup, group).values() if start is not None and lag is not None]

    wait_for(lambda: sum(known) == lag if (known := counted()) else None, f"a lag of {lag} of {group}")


def test_figures_are_those_of_the_tool(
    kgroup: CommandLine,
    kafka_tool: KafkaTools,
    world: KafkaWorld,
    orders: str,
    group: str,
    bystander: str,
) -> None:
    with ExitStack() as members:
        members.enter_context(sharer(world.bootstrap, group, orders)).accept(5)
        members.enter_context(sharer(world.bootstrap, group, orders, "jobs-1"))
        wait_for(
            lambda: len(kgroup("describe", group, "-o", "json").data[0]["members"]) == 2, f"two members of {group}"
        )
        (document,) = kgroup("describe", group, "-o", "json").data

        told = rows(kafka_tool, world.bootstrap, group, "--offsets")
        assert {int(cells[1]): (number(cells[3]), number(cells[4])) for cells in told} == {
            row["partition"]: (row["committed"], row["lag"] if row["committed"] is not None else None)
            for row in document["partitions"]
            if row["partition"] in {int(cells[1]) for cells in told}
        }
        (state,) = rows(kafka_tool, world.bootstrap, group, "--state")
        assert [document["state"], document["group_epoch"]] == [state[-4], int(state[-3])]
        of_members = {cells[0]: cells for cells in rows(kafka_tool, world.bootstrap, group, "--members")}
        assert {each["member_id"]: each["client_id"] for each in document["members"]} == {
            member: cells[2] for member, cells in of_members.items()
        }
        counts = {each["partition"]: each["member_count"] for each in document["partitions"]}
        assert sum(counts.values()) == sum(int(cells[3]) for cells in of_members.values())
        assert (document["type"], document["assignor"], document["generation"]) == ("share", "simple", None)
        assert document["share"]["auto_offset_reset"] == "earliest"
    assert bystander not in kgroup("lag", "--type", "share", "-o", "name").stdout


def test_lag_is_what_the_broker_counts(kgroup: CommandLine, world: KafkaWorld, orders: str, group: str) -> None:
    """The first record of each partition is given back; what was done after it is no lag, whatever lies between."""
    with sharer(world.bootstrap, group, orders) as member:
        member.accept(18, lambda message: RELEASE if message.offset() == 0 else ACCEPT)
    settled(kgroup, group, 2)

    assert starts(kgroup, group) == {0: (0, 1), 1: (0, 1), 2: (None, 0)}
    (document,) = kgroup("lag", group, "-o", "json").data
    lagging = document["partitions"][0]
    assert (lagging["lag"], lagging["first_unread"], lagging["time_lag_ms"]) == (1, None, None)
    assert lagging["time_lag_at_most_ms"] >= 0
    assert lagging["lag_status"] == "no-reader"
    assert document["verdict"]["conclusion"]["cause"] == "no-reader"
    assert document["verdict"]["commands"] == []
    for verb in ("describe", "lag"):
        page = kgroup(verb, group).stdout
        assert "no member reads; its consumers, once started, get the records that are not done" in page
        assert "<=" in page
        assert "START" in page
        assert "COMMITTED" not in page


@pytest.mark.soak
def test_checks_metrics_and_waiting(kgroup: CommandLine, world: KafkaWorld, orders: str, group: str) -> None:
    with sharer(world.bootstrap, group, orders) as member:
        member.accept(18, lambda message: RELEASE if message.offset() == 0 else ACCEPT)
        settled(kgroup, group, 2)
        # That a share group commits nothing is no sign of trouble, and the bound of an age may suffice.
        kgroup("lag", group, "--max-lag", "2", "--max-lag-time", "1h", "--fail-on", "warn")
        assert "lag 2 is over 1" in kgroup("lag", group, "--max-lag", "1", exit_code=8).stdout
        (done,) = kgroup("wait", group, "--for", "stable", "--for", "lag=2", "-o", "json").data
        assert (done["lag"], done["member_count"]) == (2, 1)
        metrics = kgroup("lag", group, "-o", "prometheus").stdout
        assert re.search(rf'^kafka_consumergroup_group_sum_lag{{.*,group="{group}"}} 2$', metrics, re.MULTILINE)
        member.accept(2)
        kgroup("wait", group, "--for", "lag=0", "--within", "30s")
    kgroup("wait", group, "--for", "empty", "--within", "30s")
    assert "CAUGHT-UP" in kgroup("lag", group, "--fail-on", "no-reader").stdout
    listed = {row["group"]: row for row in kgroup("list", "--topic", orders, "-o", "json").data}
    assert (listed[group]["type"], listed[group]["member_count"]) == ("share", 0)


def test_without_a_start_offset_nothing_is_known(
    kgroup: CommandLine, world: KafkaWorld, orders: str, group: str
) -> None:
    """Nor is it 0: its members may hold records for the first time."""
    world.share_group(group, orders)

    assert starts(kgroup, group) == {0: (None, None), 1: (None, None), 2: (None, 0)}
    assert UNKNOWN in kgroup("describe", group).stdout
    assert UNKNOWN in kgroup("lag", group, "--max-lag", "100", exit_code=8).stdout
    late = kgroup("wait", group, "--for", "lag=100", "--within", "1s", exit_code=8)
    assert "has no start offset" in late.stderr


def test_how_long_it_was_idle_is_not_known(kgroup: CommandLine, world: KafkaWorld, orders: str, group: str) -> None:
    world.share_group(group, orders)

    listed = kgroup("list", "--regex", group, "--idle-for", "0s", "-o", "json")

    assert listed.data == []
    assert "left out, because it is unknown how long they were idle: 1 group" in listed.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("migrate", "--execute"),
        ("catchup", "start", "--to-topic", "elsewhere"),
        ("evict", "--all-members", "--execute"),
        ("export",),
        ("simulate", "--add", "1"),
    ],
    ids=lambda words: words[0],
)
def test_other_verbs_refuse_it(
    kgroup: CommandLine, world: KafkaWorld, orders: str, group: str, words: tuple[str, ...]
) -> None:
    world.share_group(group, orders)
    verb = words[:2] if words[0] == "catchup" else words[:1]
    refused = kgroup(*verb, group, *words[len(verb) :], exit_code=6)

    assert f"{group} is a share group" in refused.stderr
    assert starts(kgroup, group)[0] == (None, None)


def test_what_the_doctor_finds(kgroup: CommandLine, world: KafkaWorld, orders: str, name: Name) -> None:
    """A group that starts at the log end, with a dead-letter topic that is missing, then not enabled, then right."""
    group, dead = name("jobs"), f"dlq.{name('dead')}"
    world.configure_group(group, errors_deadletterqueue_topic_name=dead)
    world.share_group(group, orders)

    def found() -> dict[str, tuple[str, str]]:
        (document,) = kgroup("doctor", group, "-o", "json").data
        assert document["unchecked_rules"] == []
        return {each["rule"]: (each["severity"], each["evidence"]) for each in document["findings"]}

    latest = "of 20 offsets there its members get none from before their first fetch"
    first = found()
    assert sorted(first) == ["share-dead-letters", "share-starts-at-latest"]
    assert first["share-starts-at-latest"][0] == "info"
    assert latest in first["share-starts-at-latest"][1]
    assert f"{dead} does not exist" in first["share-dead-letters"][1]
    world.topic(dead, 1)
    assert f"{dead} lacks errors.deadletterqueue.group.enable=true" in found()["share-dead-letters"][1]
    (document,) = kgroup("describe", group, "-o", "json").data
    assert document["share"]["dead_letter_topic_exists"] is True
    assert document["share"]["dead_letter_topic_enabled"] is False
    world.delete_topic(dead)
    world.topic(dead, 1, {"errors.deadletterqueue.group.enable": "true"})
    assert sorted(found()) == ["share-starts-at-latest"]
    world.configure_group(group, share_auto_offset_reset="earliest")
    assert found() == {}


def test_a_group_that_nobody_reads(kgroup: CommandLine, world: KafkaWorld, orders: str, group: str) -> None:
    with sharer(world.bootstrap, group, orders) as member:
        member.accept(20)
    world.produce(orders, 5, 0)
    settled(kgroup, group, 5)
    (document,) = kgroup("doctor", group, "-o", "json").data
    assert [(each["rule"], each["numbers"]) for each in document["findings"]] == [("share-no-reader", {"lag": 5})]


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["describe", "lag", "doctor"])
def test_offsets_that_never_come(proxied: ProxiedBroker, name: Name, verb: str) -> None:
    """The group is shown without them, within the time limit; the others are shown as ever."""
    world, kgroup = proxied.world, CommandLine()
    topic, group, other = world.topic(name("orders")), name("jobs"), name("plain")
    world.produce(topic, 3)
    world.share_group(group, topic)
    world.commit(other, {(topic, 0): 1})
    proxied.proxy.expect(Fault(SHARE_GROUP_OFFSETS, Loss.NOTHING, always=True))

    shown = kgroup(verb, "--regex", f"{group}|{other}", "-o", "json", "--timeout", "20s", exit_code=7)
    assert [(error["group"], error["code"]) for error in shown.json["errors"]] == [(group, "timed-out")]
    documents = {document["group"]: document for document in shown.data}
    assert set(documents) == {group, other}
    if verb != "doctor":
        assert [row["lag"] for row in documents[other]["partitions"]] == [2]
        assert [(row["lag"], row["error_code"]) for row in documents[group]["partitions"]] == [(None, "timed-out")]
