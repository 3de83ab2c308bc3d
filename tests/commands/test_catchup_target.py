"""``--to-topic`` while the target topic is deleted, recreated, or loses records: what is gone was not delivered.

The broker creates topics that clients ask for (``auto.create.topics.enable``), as many do.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kgroup.catchup.service.replay import ReplayResult, ReplayRun
from kgroup.cluster import demo_clients
from kgroup.cluster.producer import TopicWriter
from kgroup.cluster.reader.batches import BatchReader
from kgroup.cluster.reader.ranges import read_ranges
from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.cluster.transactions import Transactions
from kgroup.model.records import OffsetRange
from kgroup.sandbox import Sandbox
from kgroup.support.errors import KgroupError
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.catchup.catchups import LOCAL, copied, frozen, own_ledger, replaying
from tests.helpers.catchup.line_handlers import NAME
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

PARTITIONS, RECORDS = 3, 300
SLOWLY = ("--master", "local[1]", "--rate", "100/s")
"""One partition after the other, each in a transaction of its own."""


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that creates topics which clients ask for."""
    sandbox = Sandbox(tmp_path_factory.mktemp("creating") / "sandbox")
    sandbox.up(properties={**BROKER_PROPERTIES, "auto.create.topics.enable": "true"}, reporter=QuietReporter())
    try:
        yield str(sandbox.status().bootstrap_servers)
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.fixture
def own(creating: str, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[KafkaWorld]:
    """That broker, with a ledger of this test."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", creating)
    own_ledger(monkeypatch, name("ledger"))
    with KafkaWorld(creating) as world:
        yield world


@dataclass(frozen=True)
class Sabotage:
    """A gap, and the target topic to which something happens when one of its partitions is delivered."""

    kgroup: CommandLine
    world: KafkaWorld
    source: str
    group: str
    target: str

    def create_target(self) -> None:
        self.world.topic(self.target, PARTITIONS)

    def start(self, sabotage: Callable[[int], None], *words: str) -> tuple[Result, int]:
        """Replay meanwhile, which ends with exit code 8; and the partition that was delivered before.

        ``sabotage`` gets that too.
        """
        to = ("start", self.group, "--to-topic", self.target, *SLOWLY, "--execute", *words)
        with replaying(self.world, self.target, *to) as process:
            wait_for(lambda: len(copied(self.world, self.target)) >= RECORDS, "the first transaction", 60)
            with frozen(process):
                first = Counter(int(source.split(":")[1]) for source in self.copy).most_common(1)[0][0]
                sabotage(first)
            return process.ends(8, within_s=180), first

    def start_here(self) -> Result:
        """Replay in this process; ends with exit code 8."""
        to = ("--to-topic", self.target, *SLOWLY, "--execute", "-o", "json")
        return self.kgroup("catchup", "start", self.group, *to, exit_code=8)

    def recreate_target(self) -> None:
        self.world.delete_topic(self.target)
        self.create_target()

    def resume(self) -> Result:
        """Resume, which ends with exit code 8."""
        return self.kgroup("catchup", "resume", self.group, *LOCAL, "--execute", "-o", "json", exit_code=8)

    def elsewhere(self, result: Result) -> list[str]:
        """The records of another topic, to which the commands that were printed have delivered; json."""
        other = self.world.topic(f"{self.target}-other", PARTITIONS)
        (hint,) = [error["hint"] for error in result.json["errors"] if error["hint"]]
        for command in hint.split("another topic:  ")[1].split(";  "):
            words = [other if word == "OTHER" else word for word in shlex.split(command)[1:]]
            self.kgroup(*words)
        return copied(self.world, other)

    @property
    def records(self) -> list[str]:
        """Where the records of the whole gap are, in the order of ``copied``."""
        return sorted(f"{self.source}:{place}:{offset}" for place in range(PARTITIONS) for offset in range(RECORDS))

    @property
    def copy(self) -> list[str]:
        return copied(self.world, self.target)


@pytest.fixture
def gap(own: KafkaWorld, kgroup_cli: CommandLine, name: Name) -> Sabotage:
    found = Sabotage(kgroup_cli, own, own.topic(name("orders"), PARTITIONS), name("svc"), name("copy"))
    found.create_target()
    for partition in range(PARTITIONS):
        own.produce(found.source, RECORDS, partition)
    own.commit(found.group, dict.fromkeys([(found.source, partition) for partition in range(PARTITIONS)], 0))
    return found


def gone(result: Result) -> set[tuple[int, int, int]]:
    """(partition, start, end) of the errors that say what is gone; json."""
    rows = [error for error in result.json["errors"] if error["code"] == "gone-from-target"]
    spans = [re.match(r"\[(\d+), (\d+)\)", row["message"]) for row in rows]
    return {(row["partition"], int(span[1]), int(span[2])) for row, span in zip(rows, spans, strict=True) if span}


def never_verified(result: Result) -> bool:
    return "NOT VERIFIED" in result.stderr and "VERIFIED" not in result.stderr.replace("NOT VERIFIED", "")


@pytest.mark.soak
def test_a_target_that_is_deleted_is_not_created_again_by_us(gap: Sabotage) -> None:
    result, first = gap.start(lambda _: gap.world.delete_topic(gap.target), "-o", "json")

    assert (first, 0, RECORDS) in gone(result)
    assert never_verified(result)
    assert f"{gap.target} was deleted" in result.stderr
    assert gap.target not in gap.world.topics()
    assert gap.kgroup("catchup", "resume", gap.group, exit_code=6).stderr.count("the topic does not exist")
    assert gap.target not in gap.world.topics()
    gap.create_target()
    resumed = gap.resume()
    assert gone(resumed) == gone(result)
    assert never_verified(resumed)
    assert gap.copy == []
    assert gap.elsewhere(resumed) == gap.records


@pytest.mark.soak
def test_a_target_that_is_recreated(gap: Sabotage) -> None:
    """What is delivered later is in the new topic: only what came before is gone."""
    result, first = gap.start(lambda _: gap.recreate_target(), "-o", "json")

    assert (first, 0, RECORDS) in gone(result)
    assert never_verified(result)
    assert f"{gap.target} was deleted and recreated" in result.stderr
    left = gap.copy
    assert never_verified(gap.resume())
    assert gap.copy == left
    assert sorted(gap.elsewhere(result) + left) == gap.records


@pytest.mark.soak
def test_records_that_the_target_loses_are_named_and_not_delivered_to_it_again(gap: Sabotage) -> None:
    """As retention would."""
    result, first = gap.start(lambda partition: gap.world.delete_records(gap.target, partition, 150), "-o", "json")

    assert gone(result) == {(first, 0, 150)}
    assert never_verified(result)
    assert f"the log start of {gap.target}:{first} moved to 150" in result.stderr
    assert result.data[0]["totals"]["undelivered_offset_count"] == 0
    left = gap.copy
    assert len(left) == len(gap.records) - 150
    resumed = gap.resume()
    assert gone(resumed) == gone(result)
    assert never_verified(resumed)
    assert gap.copy == left
    (shown,) = gap.kgroup("catchup", "show", gap.group, "-o", "json").data
    assert (shown["state"], shown["totals"]["verified"]) == ("released", False)
    assert sorted(gap.elsewhere(result) + left) == gap.records


@pytest.mark.soak
def test_records_that_go_between_the_last_transaction_and_the_proof(
    gap: Sabotage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = ReplayRun.run

    def run(*words: Any) -> ReplayResult:
        came = replay(*words)
        assert gap.copy == gap.records
        gap.world.delete_records(gap.target, 2, 7)
        return came

    monkeypatch.setattr(ReplayRun, "run", run)
    result = gap.start_here()

    assert gone(result) == {(2, 0, 7)}
    assert never_verified(result)


@pytest.mark.soak
def test_what_goes_between_two_runs_is_found_before_more_is_delivered(gap: Sabotage) -> None:
    """The printed commands deliver what is gone and what is left, in the order of the source."""
    to = ("start", gap.group, "--to-topic", gap.target, *SLOWLY, "--execute")
    with replaying(gap.world, gap.target, *to) as process:
        wait_for(lambda: len(gap.copy) >= RECORDS, "the first transaction", 60)
        process.process.terminate()
        process.ends(143)
    first = Counter(int(source.split(":")[1]) for source in gap.copy).most_common(1)[0][0]
    gap.world.delete_records(gap.target, first, 150)
    left = gap.copy

    result = gap.resume()

    assert gone(result) == {(first, 0, 150)}
    assert never_verified(result)
    assert gap.copy == left
    assert result.data[0]["totals"]["undelivered_offset_count"] > 0
    assert sorted(gap.elsewhere(result) + left) == gap.records
    assert gap.kgroup("catchup", "list", gap.group, "-o", "json").data[0]["state"] == "cancelled"


@pytest.fixture
def keyed(gap: Sabotage, name: Name) -> Sabotage:
    """The same with a compacted target, and with keys, each of which is in all partitions."""
    world = gap.world
    source, target = world.topic(name("keyed"), PARTITIONS), name("compacted")
    writer = Producer({"bootstrap.servers": world.bootstrap})
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            writer.produce(source, b"x", b"%d" % number, partition)
    assert writer.flush(30) == 0
    group = name("keyed")
    world.commit(group, {(source, partition): 0 for partition in range(PARTITIONS)})
    world.topic(target, PARTITIONS, {"cleanup.policy": "compact,delete"})
    return Sabotage(gap.kgroup, world, source, group, target)


@pytest.mark.soak
def test_what_a_compacted_target_loses_is_named(keyed: Sabotage) -> None:
    result, first = keyed.start(
        lambda partition: keyed.world.delete_records(keyed.target, partition, 150), "-o", "json"
    )

    assert gone(result) == {(first, 0, 150)}
    assert never_verified(result)
    assert sorted(keyed.elsewhere(result) + keyed.copy) == keyed.records


@pytest.mark.soak
def test_no_client_of_ours_creates_a_topic(own: KafkaWorld, name: Name) -> None:
    """The topic that is created at the end, by request, is known after all that were asked for before."""
    missing = name("missing")
    config = {"bootstrap.servers": own.bootstrap}
    asked: list[Callable[[], object]] = [
        lambda: TopicAdmin(config, timeout_s=5).describe(missing),
        lambda: Transactions(config, name("id"), topic=missing, timeout_s=5).connect(),
        lambda: BatchReader(config, timeout_s=5).partitions(missing),
        lambda: CommittedReader(config, missing, timeout_s=5).bounds(),
        lambda: demo_clients.OrderWriter(own.bootstrap, missing, 0).write(),
        lambda: list(read_ranges(config, [OffsetRange(missing, 0, 0, 1)], timeout_s=5)),
    ]
    with TopicWriter(config, missing, timeout_s=5) as writer:
        writer.add(None, b"x", None, ())
        for ask in asked:
            with contextlib.suppress(KgroupError):
                ask()
        own.topic(name("created"))

        assert missing not in own.topics()


@pytest.mark.soak
def test_dead_letters_that_are_gone_are_not_proved(own: KafkaWorld, name: Name, tmp_path: Path) -> None:
    """Its topic is deleted when it has got the only one."""
    source, group, dead = own.topic(name("orders")), name("svc"), own.topic(name("dead"))
    own.produce(source, 1, value=b"poison")
    own.produce(source, 200)
    own.commit(group, {(source, 0): 0})
    handler = tmp_path / "handler.sh"
    answers = 'case $l in *poison*) echo "error $(name): bad";; *) echo ok $(name);; esac'
    handler.write_text(f"{NAME} while read -r l; do {answers}; done")
    to = ("--to-command", f"/bin/sh {handler}", "--ack", "line", "--retries", "0")
    words = ("catchup", "start", group, *to, "--dead-letter-topic", dead, *LOCAL, "--rate", "25/s", "--execute")
    with running(*words) as process:
        wait_for(lambda: own.end(dead) > 0, "the dead letter", 60)
        own.delete_topic(dead)
        result = process.ends(8, within_s=180)

    assert f"missing dead letters: 1 of 1 ({dead} was deleted)" in result.stderr
    assert "VERIFIED " not in result.stderr.replace("NOT VERIFIED", "")
    assert dead not in own.topics()
