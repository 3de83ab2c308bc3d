"""Java's own clients of every kind on a real broker: what is shown of them, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.java import ConnectWorker, JavaClients, connect_worker
from tests.helpers.kafka_tools import CONSUMER_GROUPS, run_tool
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

ORDERS, CLICKS, OUT = "jc-orders", "jc-clicks", "jc-out"
PARTITIONS = {ORDERS: 4, CLICKS: 2}
RECORDS = 20
BOTH = f"{ORDERS},{CLICKS}"
_CLASSIC = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
STREAMS_CLASSIC, STREAMS, SHARE = "jc-streams-classic", "jc-streams", "jc-share"
WORKERS, SINK = "jc-workers", "connect-jc-sink"


@dataclass(frozen=True)
class Kind:
    """A group of Java consumers: its protocol, its assignor, how many members, and whether they are static."""

    protocol: str
    assignor: str
    members: int = 2
    static: bool = False
    topics: str = BOTH
    settings: tuple[tuple[str, str], ...] = ()

    def of(self, name: str, number: int) -> dict[str, str]:
        """The settings of one member."""
        found = dict(self.settings)
        if self.protocol == "consumer":
            found |= {"group_protocol": "consumer", "group_remote_assignor": self.assignor}
        else:
            found["partition_assignment_strategy"] = _CLASSIC[self.assignor]
        return found | ({"group_instance_id": f"{name}-i{number}"} if self.static else {})


CONSUMERS = {
    "jc-range": Kind("classic", "range"),
    "jc-roundrobin": Kind("classic", "roundrobin"),
    "jc-sticky": Kind("classic", "sticky"),
    "jc-cooperative": Kind("classic", "cooperative-sticky"),
    "jc-static": Kind("classic", "range", static=True),
    "jc-pattern": Kind("classic", "range", members=1, topics="java:jc-(orders|clicks)"),
    "jc-uniform": Kind("consumer", "uniform"),
    "jc-new-range": Kind("consumer", "range"),
    "jc-new-static": Kind("consumer", "uniform", static=True),
    "jc-new-pattern": Kind("consumer", "uniform", members=1, topics="re2j:jc-(orders|clicks)"),
}
OWNED = {STREAMS_CLASSIC: "Kafka Streams", WORKERS: "Kafka Connect", SINK: "Kafka Connect"}


@dataclass(frozen=True)
class Running:
    """What is to be stopped in the end."""

    clients: JavaClients
    worker: ConnectWorker


@pytest.fixture(scope="module")
def running(world: KafkaWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All groups, stable, with everything read."""
    for topic, partitions in (*PARTITIONS.items(), (OUT, 1)):
        world.topic(topic, partitions)
        for partition in range(partitions if topic != OUT else 0):
            for number in range(RECORDS):  # other keys each, for every partition of what Streams writes
                world.produce(topic, 1, partition, b"%d-%d" % (partition, number))
    directory = tmp_path_factory.mktemp("java")
    with (
        JavaClients(world.bootstrap) as clients,
        connect_worker(world.bootstrap, WORKERS, directory) as worker,
    ):
        for group, kind in CONSUMERS.items():
            for number in range(kind.members):
                clients.consumer(f"{group}-{number}", kind.topics, group, **kind.of(group, number))
        clients.streams(STREAMS_CLASSIC, ORDERS, OUT, "classic", directory)
        clients.streams(STREAMS, ORDERS, OUT, "streams", directory)
        clients.share(f"{SHARE}-0", ORDERS, SHARE)
        worker.file_sink(SINK.removeprefix("connect-"), [ORDERS, CLICKS], 2, directory / "sink.txt")
        expected = {group: (kind.protocol, "stable") for group, kind in CONSUMERS.items()}
        expected |= dict.fromkeys(OWNED, ("classic", "stable"))
        expected |= {STREAMS: ("streams", "stable"), SHARE: ("share", "stable")}
        wait_for(lambda: expected.items() <= world.groups().items(), f"all of {expected} in {world.groups()}", 120)
        for group in (*CONSUMERS, SINK, STREAMS_CLASSIC, STREAMS):
            topics = PARTITIONS if group in CONSUMERS or group == SINK else {ORDERS: 4}
            all_read = {(topic, n): RECORDS for topic, count in topics.items() for n in range(count)}
            wait_for(partial(at_end, world, group, all_read), f"{group} at the end", 60)
        yield Running(clients, worker)


def at_end(world: KafkaWorld, group: str, ends: dict[tuple[str, int], int]) -> bool:
    return ends.items() <= {place: offset for place, (offset, _) in world.committed(group).items()}.items()


def is_empty(world: KafkaWorld, group: str) -> bool:
    return world.groups()[group][1] == "empty"


def described(kgroup: CommandLine, *groups: str) -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in kgroup("describe", *groups, "-o", "json").data}


def rows_of_the_tool(bootstrap: str, *words: str) -> list[list[str]]:
    """The rows of kafka-consumer-groups.sh --describe, without its headings."""
    done = run_tool(CONSUMER_GROUPS, ["--bootstrap-server", bootstrap, "--describe", *words])
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.startswith(("jc-", "connect-jc-"))]


@pytest.mark.usefixtures("running")
def test_what_list_shows(kgroup: CommandLine) -> None:
    rows = {row["group"]: row for row in kgroup("list", "-o", "json").data}
    for group, kind in CONSUMERS.items():
        row = rows[group]
        assert (row["type"], row["state"], row["member_count"]) == (kind.protocol, "Stable", kind.members), group
    assert (rows[WORKERS]["protocol_type"], rows[WORKERS]["member_count"]) == ("connect", 1)
    assert rows[SINK]["member_count"] == 2
    assert [(rows[group]["type"], rows[group]["member_count"]) for group in (STREAMS, SHARE)] == [
        ("streams", 1),
        ("share", 1),
    ]


@pytest.mark.usefixtures("running")
def test_offsets_and_owners_are_those_of_kafkas_own_tool(kgroup: CommandLine, bootstrap: str) -> None:
    groups = (*CONSUMERS, SINK, STREAMS_CLASSIC)
    theirs = {
        # Group, topic, partition, committed, end, lag; whose it is.
        tuple(words[:7])
        for words in rows_of_the_tool(bootstrap, *(word for group in groups for word in ("--group", group)))
    }
    found = described(kgroup, *groups)
    ours = set()
    for group, document in found.items():
        for row in document["partitions"]:
            cells = (group, *(row[key] for key in ("topic", "partition", "committed", "log_end", "lag", "member_id")))
            ours.add(tuple("-" if cell is None else str(cell) for cell in cells))
    assert ours == theirs
    members = {group: kind.members for group, kind in CONSUMERS.items()} | {SINK: 2, STREAMS_CLASSIC: 1}
    assert {group: len(document["members"]) for group, document in found.items()} == members


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("group", CONSUMERS)
def test_what_is_shown_of_consumers(kgroup: CommandLine, group: str) -> None:
    kind = CONSUMERS[group]
    (document,) = kgroup("describe", group, "-o", "json").data
    instances = sorted(member["instance_id"] or "" for member in document["members"])
    assert instances == [f"{group}-i{n}" if kind.static else "" for n in range(kind.members)]
    assert document["assignor"] == kind.assignor
    (logged,) = kgroup("describe", group, "--from-log", "-o", "json").data
    assert (logged["type"], logged["state"], len(logged["members"])) == (kind.protocol, "Stable", kind.members)

    (lag,) = kgroup("lag", group, "-o", "json", "--max-lag", "0", "--fail-on", "warn").data
    assert (lag["lag"], lag["lag_status"]) == (0, "ok")

    (history,) = kgroup("history", group, "-o", "json").data
    causes = [cause for step in history["steps"] for cause in step["causes"] if cause["cause"] == "join"]
    joined = {name for cause in causes for name in cause["members"]}
    assert joined == {f"{group}-{'i' if kind.static else ''}{n}" for n in range(kind.members)}

    (healthy,) = kgroup("doctor", group, "-o", "json", "--fail-on", "info").data
    assert set(healthy["finding_counts"].values()) == {0}, healthy

    is_new = kind.protocol == "consumer"
    (readiness,) = kgroup("migrate", group, "-o", "json").data  # the others roll over, member by member
    assert readiness["readiness"] == ("done" if is_new else "warning")
    kinds = [check["status"] for check in readiness["checks"] if check["id"] == "kind"]
    assert kinds == ([] if is_new else ["ok"])  # one that is there already is not checked


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("group", CONSUMERS)
def test_what_a_live_group_is_spared(kgroup: CommandLine, world: KafkaWorld, group: str) -> None:
    before = world.committed(group)
    for code, *words in (
        ("not-empty", "reset", group, "--all-topics", "--to-earliest"),
        ("not-empty", "delete", group),
        ("subscribed", "delete-offsets", group, "--topic", ORDERS),
    ):
        assert f"[{code}]" in kgroup(*words, "--execute", exit_code=9).stderr
    assert world.committed(group) == before
    assert kgroup("simulate", group, "--add", "1", "-o", "json").data


CHANGES = (
    ("reset", "--all-topics", "--to-earliest"),
    ("delete",),
    ("delete-offsets", "--topic", ORDERS),
    ("migrate",),
)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
@pytest.mark.parametrize("group", [STREAMS, STREAMS_CLASSIC, SINK])
def test_groups_of_frameworks_are_not_changed(
    kgroup: CommandLine, world: KafkaWorld, group: str, change: tuple[str, ...]
) -> None:
    refused = kgroup(change[0], group, *change[1:], "--execute", exit_code=6)
    said = refused.stderr + refused.stdout
    assert OWNED.get(group, "is a streams group") in said
    assert "foreign-owner" in said
    assert group in world.groups()


@pytest.mark.usefixtures("running")
def test_connect_workers_are_not_changed(kgroup: CommandLine) -> None:
    """They have no offsets; a reset would make some."""
    for words in (("reset", WORKERS, "--topic", ORDERS, "--to-earliest"), ("delete", WORKERS)):
        assert "belongs to Kafka Connect [foreign-owner]" in kgroup(*words, "--execute", exit_code=6).stderr
    assert "owned by Kafka Connect" in kgroup("migrate", WORKERS, "--execute", exit_code=6).stderr
    assert kgroup("delete-offsets", WORKERS, "--topic", ORDERS, "--execute", exit_code=5).stdout
    assert "left out, 1 group of other frameworks (connect)" in kgroup("doctor", WORKERS).stderr


@pytest.mark.usefixtures("running")
def test_a_streams_group_is_read_from_the_log_and_not_exported(kgroup: CommandLine) -> None:
    assert kgroup("describe", STREAMS, "--from-log").stdout.startswith(f"{STREAMS}  Stable  streams")
    refused = kgroup("export", STREAMS, "--from-log", exit_code=6).stderr
    assert f"{STREAMS} is a streams group" in refused
    assert "[foreign-owner]" in refused
    logged = {row["group"]: row["type"] for row in kgroup("list", "--from-log", "-o", "json").data}
    assert (logged[STREAMS], logged[SHARE]) == ("streams", "share")
    assert "left out" not in kgroup("lag").stderr


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("group", [STREAMS_CLASSIC, SINK])
def test_what_is_shown_of_frameworks_that_consume(kgroup: CommandLine, group: str) -> None:
    (lag,) = kgroup("lag", group, "-o", "json", "--max-lag", "0").data
    assert (lag["lag"], lag["lag_status"]) == (0, "ok")
    (history,) = kgroup("history", group, "-o", "json").data
    assert history["steps"]
    (healthy,) = kgroup("doctor", group, "-o", "json", "--fail-on", "info").data
    assert set(healthy["finding_counts"].values()) == {0}, healthy


def test_what_a_newcomer_moves_is_among_what_simulate_says(
    kgroup: CommandLine, world: KafkaWorld, running: Running
) -> None:
    """Client ids like the names of pods: the next one sorts as the last, and under range takes least."""
    group = "jc-range"

    def owners() -> dict[tuple[str, int], str]:
        (document,) = kgroup("describe", group, "-o", "json").data
        return {(row["topic"], row["partition"]): row["client_id"] for row in document["partitions"]}

    (said,) = kgroup("simulate", group, "--add", "1", "-o", "json").data
    (moved,) = (one["moved_partition_count"] for one in said["scenarios"] if one["as_it_is"])
    before = owners()
    running.clients.consumer(f"{group}-2", BOTH, group, **CONSUMERS[group].of(group, 2))
    wait_for(lambda: f"{group}-2" in owners().values() and None not in owners().values(), "the newcomer", 60)
    after = owners()
    assert sum(after[place] != owner for place, owner in before.items()) == moved["least"] == 1
    running.clients.close(f"{group}-2")


def test_the_end_of_a_streams_application_and_of_a_connector(
    kgroup: CommandLine, world: KafkaWorld, running: Running
) -> None:
    """Stopped, they are Empty groups; whose offsets they are is known all the same."""
    running.clients.close(STREAMS)
    running.clients.close(STREAMS_CLASSIC)
    running.worker.stop(SINK.removeprefix("connect-"))
    for group in (STREAMS, STREAMS_CLASSIC, SINK):
        wait_for(partial(is_empty, world, group), f"{group} Empty", 60)
    before = {group: world.committed(group) for group in (STREAMS, STREAMS_CLASSIC, SINK)}
    for group in before:
        for change in CHANGES:
            said = kgroup(change[0], group, *change[1:], "--execute", exit_code=6)
            assert "foreign-owner" in said.stderr + said.stdout
    assert {group: world.committed(group) for group in before} == before
    world.produce(ORDERS, 1)  # which the connector would read, if its worker is asked
    named = "Connect knows which: GET /connectors/jc-sink/status"
    assert described(kgroup, SINK)[SINK]["verdict"]["next"].endswith(named)


def test_a_killed_static_member_is_a_stop(kgroup: CommandLine, world: KafkaWorld, bootstrap: str) -> None:
    """It had committed the same offset each second: a STALL while it lived, and it does not poll any more."""
    group, topic = "jc-killed", world.topic("jc-killed")
    world.produce(topic, 30)
    world.configure_group(group, consumer_session_timeout_ms="60000")

    def status() -> str | None:
        (document,) = kgroup("lag", group, "-o", "json").data
        found: str | None = document["lag_status"]
        return found

    with JavaClients(bootstrap) as clients:
        clients.consumer(
            "killed-0", topic, group, group_protocol="consumer", group_instance_id="killed-i0", poison="15"
        )
        wait_for(lambda: world.groups().get(group) == ("consumer", "stable"), "a member")
        wait_for(lambda: status() == "stall", "a STALL", 60)
        assert re.search(
            r"-> killed-\S+ .* commits jc-killed:0 at 15 again and again: it polls", kgroup("lag", group).stdout
        )
        clients.kill()
    wait_for(lambda: status() == "stop", "a STOP", 25)
    page = kgroup("describe", group).stdout
    assert "Stable" in page
    assert "no commit for" in page
    assert "it polls" not in page
    assert "still heartbeats" not in page
