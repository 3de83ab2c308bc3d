"""A real Kafka Streams application of the new protocol on a broker of another version, and that version's own tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.helpers.command_line import CommandLine
from tests.helpers.java import JavaClients
from tests.helpers.streams_tool import assert_same_figures
from tests.helpers.waiting import wait_for
from tests.versions.kafka import Kafka

GROUP, ORDERS, OUT = "counts", "counts-orders", "counts-out"
REPARTITION = f"{GROUP}-KSTREAM-REPARTITION-0000000002-repartition"
RECORDS = 10

kgroup = CommandLine()


@contextmanager
def _application(kafka: Kafka, directory: Path) -> Iterator[JavaClients]:
    """Two instances that count, each with the state of the other's task as a standby; the group is gone at the end."""
    world = kafka.world
    world.topic(ORDERS, 2)
    world.topic(OUT, 1)
    for partition in range(2):
        for number in range(RECORDS):
            world.produce(ORDERS, 1, partition, b"%d-%d" % (partition, number))
    world.configure_group(GROUP, streams_num_standby_replicas="1")
    with JavaClients(kafka.bootstrap) as clients:
        for instance in ("a", "b"):
            own = {"application_id": GROUP, "client_id": instance, "counts": "one"}
            clients.streams(instance, ORDERS, OUT, "streams", directory / instance, **own)
        wait_for(lambda: GROUP in world.groups(), GROUP)
        yield clients
    world.delete_group(GROUP)


def check_application(kafka: Kafka, directory: Path, *, shows_repartitions: bool = True) -> None:
    """What verbs show while it runs and when it has stopped. Older than 4.4, brokers tell no assignor and no task lag.

    ``shows_repartitions``: whether the own tool shows the commits on repartition topics.
    """

    def described() -> dict[str, Any]:
        (document,) = kgroup("describe", GROUP, "-o", "json").data
        return document

    def with_standbys() -> dict[str, Any] | None:
        document = described()
        state = [task for task in document["streams"]["all_tasks"] if task["changelog_record_count"] is not None]
        kept = document["state"] == "Stable" and len(state) == 2 and all(len(task["standby"]) == 1 for task in state)
        return document if kept else None

    with _application(kafka, directory) as clients:
        goals = ("stable", "lag=0", "members=2")
        kgroup("wait", GROUP, *(word for goal in goals for word in ("--for", goal)), "--within", "60s")
        document = wait_for(with_standbys, "standbys", 60)
        unseen = () if shows_repartitions else (REPARTITION,)
        assert_same_figures(document, lambda word: kafka.lines_of_streams(GROUP, word), unseen)
        assert {row["topic"] for row in document["partitions"]} == {ORDERS, REPARTITION}
        assert document["assignor"] is None
        assert {copy["lag"] for task in document["streams"]["all_tasks"] for copy in task["standby"]} == {None}
        assert "TASK-LAG" not in kgroup("describe", GROUP).stdout
        (logged,) = kgroup("describe", GROUP, "--from-log", "-o", "json").data
        for key in ("type", "state", "group_epoch"):
            assert logged[key] == document[key]
        for key in ("committed", "lag", "member_id"):
            assert [row[key] for row in logged["partitions"]] == [row[key] for row in document["partitions"]]

        listed = [row for row in kgroup("list", "-o", "json").data if row["type"] == "streams"]
        assert {row["group"] for row in listed} == kafka.of_kind("streams") == {GROUP}
        assert [(row["state"], row["member_count"]) for row in listed] == [("Stable", 2)]
        kgroup("lag", GROUP, "--max-lag", "0", "--fail-on", "warn")
        (healthy,) = kgroup("doctor", GROUP, "-o", "json", "--fail-on", "info").data
        assert (healthy["findings"], healthy["unchecked_rules"]) == ([], [])

        clients.close("a")
        # An instance that is closed while it gets tasks says that it failed to (client 4.4.0, seen).
        kgroup("wait", GROUP, "--for", "stable", "--for", "members=1", "--within", "60s")
        clients.close("b")
        kafka.world.produce(ORDERS, 3, 1)
        kgroup("wait", GROUP, "--for", "empty", "--for", "lag=3", "--within", "60s")
        document = described()  # the own tool shows no offsets of a group without members
        assert {(row["topic"], row["partition"]): row["lag"] for row in document["partitions"] if row["lag"]} == {
            (ORDERS, 1): 3
        }
        assert document["verdict"]["conclusion"]["cause"] == "no-reader"
        assert {task["active_member_id"] for task in document["streams"]["all_tasks"]} == {None}
        assert "lag 3 is over 2" in kgroup("lag", GROUP, "--max-lag", "2", exit_code=8).stdout
