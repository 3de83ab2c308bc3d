"""The history of a group's commits, read back from ``__consumer_offsets`` of a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from msgspec.structs import replace

from kgroup.cluster.commit_requests import CommitPart
from kgroup.cluster.offsets_topic.commits import CommitHistory
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.sandbox import Sandbox
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.clusters import connected
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Said = list[tuple[int, int | None, str]]
BUDGET_S = 30.0


def shown(history: CommitHistory) -> Said:
    """(partition, offset, metadata) of the commits, in order."""
    return [(commit.partition, commit.offset, commit.metadata) for commit in history.commits]


def test_what_was_committed_since_in_the_order_of_the_log(
    cluster: ChangingCluster, world: KafkaWorld, name: Name
) -> None:
    topic, group, other = world.topic(name("orders"), partitions=2), name("svc"), name("other")
    world.commit(group, {(topic, 0): (3, "before", None)})
    position = cluster.end_of_commits(group)
    assert cluster.commits_since(group, position, BUDGET_S) == CommitHistory((), (), position, False, None)

    before_ms = int(time.time() * 1000)
    world.commit(group, {(topic, 0): (5, "kgroup cu-abcd 1 release", 2)})
    world.commit(other, {(topic, 0): (1, "other", None)})
    world.commit(group, {(topic, 1): (7, "é\0", None)})
    world.commit(group, {(topic, 0): (6, "", None)})
    gone = CommitPart(group, {TopicPartition(topic, 1): None}, {TopicPartition(topic, 1): Commit(7, None, "é\0")})
    assert cluster.write_offsets([gone]) == [{(topic, 1): None}]

    history = cluster.commits_since(group, position, BUDGET_S)
    assert shown(history) == [(0, 5, "kgroup cu-abcd 1 release"), (1, 7, "é\0"), (0, 6, ""), (1, None, "")]
    first = history.commits[0]
    assert (first.topic, first.offset, first.leader_epoch) == (topic, 5, 2)
    assert first.log_offset == position
    assert before_ms - 1000 <= first.at_ms <= before_ms + 60_000
    assert (history.compacted, history.unread, history.open) == (False, None, ())
    assert history.end is not None
    assert shown(cluster.commits_since(group, first.log_offset + 1, BUDGET_S)) == shown(history)[1:]


def test_transactions_count_by_their_outcome(cluster: ChangingCluster, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.commit(group, {(topic, 0): 1})
    position = cluster.end_of_commits(group)
    with world.pending(group, {(topic, 0): 10}) as aborted:
        aborted.abort_transaction(30)
    with world.pending(group, {(topic, 0): 20}) as committed:
        world.commit(group, {(topic, 0): (15, "between", None)})
        committed.commit_transaction(30)
    with world.pending(group, {(topic, 1): 30}):

        def one_open() -> CommitHistory | None:
            """The markers of the others are written behind the answers to their producers."""
            found = cluster.commits_since(group, position, BUDGET_S)
            return found if [record.partition for record in found.open] == [1] else None

        history = wait_for(one_open, "the open one alone")
        assert shown(history) == [(0, 20, ""), (0, 15, "between")]
        assert [(record.partition, record.offset) for record in history.open] == [(1, 30)]
        # The later record is what the coordinator shows, though the transaction ended after it.
        assert world.exact(group)[topic, 0][0] == 15
    wait_for(lambda: not cluster.commits_since(group, position, BUDGET_S).open, "its end")
    assert shown(cluster.commits_since(group, position, BUDGET_S)) == [(0, 20, ""), (0, 15, "between")]


def test_a_hole_is_no_compaction_where_there_is_none(cluster: ChangingCluster, world: KafkaWorld, name: Name) -> None:
    """More than one window, and batches of many records."""
    topic, group = world.topic(name("orders"), partitions=40), name("svc")
    world.commit(group, {(topic, 0): 1})
    position = cluster.end_of_commits(group)
    for turn in range(20):
        world.commit(group, {(topic, number): turn for number in range(40)})
    history = cluster.commits_since(group, position, BUDGET_S)
    assert (len(history.commits), history.compacted, history.unread) == (800, False, None)


def test_what_cannot_be_read_is_said(cluster: ChangingCluster, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    position = cluster.end_of_commits(group)
    world.commit(group, {(topic, 0): 1})
    in_no_time = cluster.commits_since(group, position, 0)
    assert (in_no_time.commits, bool(in_no_time.unread)) == ((), True)
    end = cluster.commits_since(group, position, BUDGET_S).end
    assert end is not None
    beyond = cluster.commits_since(group, end + 1000, BUDGET_S)
    assert beyond.unread is not None
    assert "was recreated" in beyond.unread


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own that compacts as soon as it can."""
    sandbox = Sandbox(tmp_path_factory.mktemp("compacting"))
    eager = {"log.cleaner.backoff.ms": "50", "offsets.topic.num.partitions": "1"}
    try:
        status = sandbox.up(properties=BROKER_PROPERTIES | eager, reporter=QuietReporter())
        assert status.bootstrap_servers
        yield status.bootstrap_servers
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


def test_a_log_that_was_compacted_says_so(compacting: str) -> None:
    with KafkaWorld(compacting) as world, connected(compacting) as cluster:
        topic, group = world.topic("orders", partitions=2), "svc"
        world.commit(group, {(topic, 0): 1})
        resource = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets")
        for key, value in {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.001"}.items():
            resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))
        world._admin.incremental_alter_configs([resource])[resource].result(30)
        position = cluster.end_of_commits(group)
        world.commit(group, {(topic, 0): (120, "kgroup cu-abcd 1 release", None), (topic, 1): (5, "kept", None)})
        turns = iter(range(10_000))

        def compacted() -> bool:
            world.commit(group, {(topic, 0): (121, f"app {next(turns)}", None)})  # an append rolls the segment
            return cluster.commits_since(group, position, BUDGET_S).compacted

        wait_for(compacted, "compaction", within_s=60)
        history = cluster.commits_since(group, position, BUDGET_S)
        log = cluster.group_logs({group: None}, BUDGET_S).logs[group]
    assert (log.reach.to_log_start, log.reach.complete) == (True, False)
    whole_from, offsets = log.reach.whole_from, [event.log_offset for event in log.events]
    assert whole_from is not None
    assert whole_from - 1 not in offsets
    assert [offset for offset in offsets if offset >= whole_from] == list(range(whole_from, log.reach.end))
    assert history.unread is None
    assert "kgroup cu-abcd 1 release" not in [metadata for _, _, metadata in shown(history)]
    assert (1, 5, "kept") in shown(history), "the newest of each partition stays"
    assert replace(history, commits=()).compacted
