"""What kgroup 0.1.0 wrote is read: journals, ledgers, exports, describe documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.contracts.stage import commit, fill
from tests.helpers.catchup.catchups import own_ledger
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.journals import rewrite
from tests.helpers.kafka_world import KafkaWorld

FILES = Path(__file__).with_name("files")
RESET, SHIFT, FORGET, DELETE, MIGRATE = "ch-h39m", "ch-f3ny", "ch-8735", "ch-qvs2", "ch-n9yk"
DONE, RELEASED = "cu-daru", "cu-d26d"
THE_APPS = "the app's own"

Read = Callable[[str], str]


@pytest.fixture
def topic(world: KafkaWorld, name: Callable[[str], str]) -> str:
    """Three partitions as long as they were when the files were written."""
    return fill(world, name("kept-orders"), 100, 50, 0)


@pytest.fixture
def group(name: Callable[[str], str]) -> str:
    return name("kept-group")


@pytest.fixture
def read(world: KafkaWorld, topic: str, group: str) -> Read:
    """A file of today, with the ids and names of this test."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    topic_id = admin.describe_topics(TopicCollection([topic]))[topic].result(10).topic_id
    now = {
        "CLUSTER-ID": admin.describe_cluster().result(10).cluster_id,
        "TOPIC-ID": str(topic_id).translate(str.maketrans("+/", "-_")),  # as Kafka writes it,
        "broker:9092": world.bootstrap,
        "kept-orders": topic,
        "kept-group": group,
    }

    def read(file: str) -> str:
        text = (FILES / file).read_text(encoding="utf-8")
        for then, here in now.items():
            text = text.replace(then, here)
        return text

    return read


@pytest.mark.parametrize("file", ["export.kcg.csv", "export.csv", "export.json", "export.yaml", "backup.json"])
def test_offset_files(
    kgroup: CommandLine, world: KafkaWorld, read: Read, topic: str, group: str, tmp_path: Path, file: str
) -> None:
    path = tmp_path / file
    path.write_text(read(file), encoding="utf-8")
    commit(world, group, topic, 1, 1)

    kgroup("reset", group, "--from-file", str(path), "--execute")

    metadata, epoch = (THE_APPS, 0) if file != "export.kcg.csv" else ("", None)  # which has no room for them
    of_file = {(topic, 0): (70, metadata, epoch)}
    if file != "backup.json":  # which has what that reset was to move
        of_file |= {(topic, 1): (20, metadata, epoch), (topic, 2): (0, metadata, epoch)}
    found = world.exact(group)
    assert {place: found[place] for place in of_file} == of_file


def test_a_journal(kgroup: CommandLine, world: KafkaWorld, read: Read, topic: str, group: str, tmp_path: Path) -> None:
    """Each change is listed, and taken back."""
    journal = tmp_path / "state" / "journal"
    journal.mkdir(parents=True)
    for path in (FILES / "journal").iterdir():
        rewrite(journal / path.name, map(json.loads, read(f"journal/{path.name}").splitlines()))
        (journal / path.name).chmod(0o600)
    deleted, moved = f"{group}-deleted", f"{group}-moved"
    world.commit(group, {(topic, 0): (100, "", 0), (topic, 1): (25, "", None)})
    commit(world, moved, topic, 7, 8)
    to_consumer(world, moved)
    world.configure_group(moved, consumer_session_timeout_ms="12000")

    page = kgroup("undo", exit_code=6).stdout  # the last one is somebody else's
    assert [change for change in (RESET, SHIFT, FORGET, DELETE, MIGRATE) if change not in page] == []
    for change in (MIGRATE, DELETE, FORGET, SHIFT, RESET):
        assert kgroup("undo", change, "--execute", "-o", "json").json["executed"], change

    as_it_was = {(topic, 0): (70, THE_APPS, 0), (topic, 1): (20, THE_APPS, 0), (topic, 2): (0, THE_APPS, 0)}
    assert world.exact(group) == as_it_was
    two = {(topic, 0): (7, THE_APPS, 0), (topic, 1): (8, THE_APPS, 0)}
    assert (world.exact(deleted), world.exact(moved)) == (two, two)
    assert (world.groups()[moved], world.group_config(moved)) == (("classic", "empty"), {})


def test_a_ledger(
    kgroup: CommandLine,
    world: KafkaWorld,
    read: Read,
    topic: str,
    group: str,
    name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its plans are listed and shown as they were, and what is done can be forgotten."""
    ledger = own_ledger(monkeypatch, world.topic(name("ledger"), 1, {"cleanup.policy": "compact"}))
    producer = Producer({"bootstrap.servers": world.bootstrap, "enable.idempotence": True})
    for record in map(json.loads, read("ledger.jsonl").splitlines()):
        producer.produce(ledger, record["value"], record["key"], partition=0)
    assert producer.flush(30) == 0

    plans = {plan["plan_id"]: plan for plan in kgroup("catchup", "list", "-o", "json").data}
    assert {key: (plan["group"], plan["state"], plan["sink"]) for key, plan in plans.items()} == {
        DONE: (f"{group}-done", "done", "topic"),
        RELEASED: (f"{group}-gap", "released", None),
    }
    (done,) = kgroup("catchup", "show", DONE, "-o", "json").data
    assert [(row["start"], row["end"], row["delivered_count"], row["verified"]) for row in done["ranges"]] == [
        (90, 100, 10, True),
        (45, 50, 5, True),
    ]
    (released,) = kgroup("catchup", "show", f"{group}-gap", "-o", "json").data
    assert [(row["topic"], row["partition"], row["start"], row["end"]) for row in released["ranges"]] == [
        (topic, 0, 70, 100),
        (topic, 1, 20, 50),
    ]
    assert (released["created_by"], released["comment"], released["created_at_ms"]) == (
        "oncall@laptop",
        "INC-1",
        1795372760612,
    )

    kgroup("catchup", "prune", DONE, "--execute")
    assert [plan["plan_id"] for plan in kgroup("catchup", "list", "-o", "json").data] == [RELEASED]


def test_a_describe_document(kgroup_cli: CommandLine) -> None:
    (found,) = kgroup_cli(
        "simulate", "--from-file", str(FILES / "describe.json"), "--add", "1", "--rebalance-time", "3s", "-o", "json"
    ).data

    assert (found["group"], found["assignor"]) == ("kept-live", "range")
