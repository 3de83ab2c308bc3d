"""All that ``__consumer_offsets`` of a real broker holds of groups, read back to a moment."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.group_log import GroupLog
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topics import TopicLayout
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    GenerationWritten,
    GroupDeleted,
    MemberAssignmentWritten,
    MemberWritten,
    RebalanceProtocol,
    TargetWritten,
    TransactionEnd,
)
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


def log_of(cluster: Cluster, group: str, since_ms: int | None = None) -> GroupLog:
    logs = cluster.group_logs({group: since_ms}, 10)
    assert (logs.unread, logs.forbidden) == ({}, False)
    return logs.logs[group]


def ended(log: GroupLog) -> GroupLog | None:
    return log if log.reach.open_since_ms is None else None


def now_ms() -> int:
    return round(time.time() * 1000)


def neighbour(cluster: Cluster, group: str) -> str:
    """Another group that is kept in the same partition."""
    layout = cluster.layouts([OFFSETS_TOPIC])[OFFSETS_TOPIC]
    assert isinstance(layout, TopicLayout)
    count = len(layout.leaders)
    names = (f"{group}-{number}" for number in range(100_000))
    return next(name for name in names if partition_of(name, count) == partition_of(group, count))


def committed_in_transaction(world: KafkaWorld, group: str, topic: str, offset: int, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": f"{group}-{offset}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    settings = {"bootstrap.servers": world.bootstrap, "group.id": group}
    consumer = Consumer(settings)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30)
    consumer.close()
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def test_both_protocols_their_commits_and_their_ends(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, classic, consumer = world.topic(name("orders"), partitions=2), name("classic"), name("consumer")
    world.produce(topic, 5)
    begun_ms = now_ms() - 1000
    with_classic = members.classic(classic, topic, client_id="one")
    with_consumer = members.consumer(consumer, topic, client_id="two")
    members.stable(with_classic, partitions=2)
    members.stable(with_consumer, partitions=2)
    both = frozenset({(topic, 0), (topic, 1)})
    for member in (with_classic, with_consumer):
        member.commit()
        member.close()
    wait_for(lambda: all(world.groups()[group][1] == "empty" for group in (classic, consumer)), "Empty")
    world.delete_group(classic)

    logs = cluster.group_logs({classic: begun_ms, consumer: begun_ms, "nobody": begun_ms}, 10)
    assert (logs.unread, logs.forbidden) == ({}, False)
    assert logs.logs["nobody"].events == ()
    old = logs.logs[classic].events
    generations = [event for event in old if isinstance(event, GenerationWritten)]
    assert [len(generation.members) for generation in generations][-2:] == [1, 0]
    (joined,) = generations[-2].members
    assert (joined.client_id, joined.topics, joined.partitions) == ("one", frozenset({topic}), both)
    assert [event.protocol for event in old if isinstance(event, GroupDeleted)] == [RebalanceProtocol.CLASSIC]
    commits = [event for event in old if isinstance(event, CommitWritten)]
    assert {(event.topic, event.partition) for event in commits} == both
    assert [event.offset is None for event in commits] == [False, False, True, True]  # taken away with the group
    assert {event.ending for event in commits} == {TransactionEnd.PLAIN}

    new = logs.logs[consumer].events
    assert [event.epoch for event in new if isinstance(event, EpochWritten)][-1] >= 2
    said = [event.details for event in new if isinstance(event, MemberWritten)]
    assert said[0] is not None
    assert said[0].client_id == "two"
    assert said[-1] is None
    assert both in [event.partitions for event in new if isinstance(event, TargetWritten)]
    assert both in [
        event.holding.partitions for event in new if isinstance(event, MemberAssignmentWritten) if event.holding
    ]
    for log in (logs.logs[classic], logs.logs[consumer]):
        offsets = [event.log_offset for event in log.events]
        assert offsets == sorted(offsets)
        assert log.reach.start <= offsets[0] <= offsets[-1] < log.reach.end
        assert log.reach.whole_from is not None
        assert log.reach.whole_from <= offsets[0]  # the active segment is never compacted
        assert log.reach.stopped is None


def test_how_transactions_ended_and_a_hanging_one_that_hides_no_group_record(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 9)
    committed_in_transaction(world, group, topic, 1, commit=True)
    committed_in_transaction(world, group, topic, 2, commit=False)
    with world.pending(group, {(topic, 0): 3}):
        member = members.classic(group, topic)
        members.stable(member, partitions=1)
        log = log_of(cluster, group)
        member.close()
    commits = [event for event in log.events if isinstance(event, CommitWritten)]
    assert [(event.offset, event.ending) for event in commits] == [
        (1, TransactionEnd.COMMITTED),
        (2, TransactionEnd.ABORTED),
        (3, TransactionEnd.OPEN),
    ]
    assert [event.ended_ms is not None for event in commits] == [True, True, False]
    assert all(event.ended_ms is None or event.ended_ms >= event.at_ms for event in commits)
    assert log.reach.open_since_ms == commits[2].at_ms
    assert all(event.producer_id is not None for event in commits)
    (generation,) = (event for event in log.events if isinstance(event, GenerationWritten) if event.members)
    assert generation.log_offset > commits[2].log_offset

    after = wait_for(lambda: ended(log_of(cluster, group)), "its end")
    assert [event.ending for event in after.events if isinstance(event, CommitWritten)][-1] is TransactionEnd.ABORTED


def test_how_far_it_reads_and_which_bound_stopped_it(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    for protocol in (members.classic, members.consumer):
        member = protocol(group, topic)
        members.stable(member, partitions=4)
        if protocol == members.classic:
            member.close()
            wait_for(lambda: world.groups()[group][1] == "empty", "Empty")
    beside = neighbour(cluster, group)
    for offset in range(16):
        world.commit(beside, {(topic, part): offset for part in range(4)})
    later_ms = now_ms() + 3_600_000
    told: list[tuple[int, int]] = []

    near = cluster.group_logs({group: later_ms}, 10, progress=lambda done, total: told.append((done, total)))
    reach = near.logs[group].reach
    assert (reach.end - reach.start, reach.to_log_start, reach.stopped) == (64, False, None)
    assert near.logs[group].events == ()
    assert told == [(64, 64)]

    state = cluster.group_logs({group: later_ms}, 10, to_last_state=True).logs[group]
    assert any(isinstance(event, EpochWritten) for event in state.events)
    assert {type(event) for event in state.events} >= {MemberWritten, TargetWritten, MemberAssignmentWritten}

    whole = log_of(cluster, group)
    assert (whole.reach.start, whole.reach.to_log_start) == (0, True)
    assert any(isinstance(event, GenerationWritten) for event in whole.events)
    epoch = next(event for event in whole.events if isinstance(event, EpochWritten))
    floored = cluster.group_logs({group: None}, 10, floors={group: epoch.log_offset}).logs[group]
    assert (floored.reach.start, floored.reach.to_log_start) == (epoch.log_offset, False)
    assert floored.events == tuple(event for event in whole.events if event.log_offset >= epoch.log_offset)

    few = cluster.group_logs({group: None}, 10, max_bytes=1).logs[group].reach
    assert few.end - few.start == 64
    assert few.stopped is not None
    assert few.stopped.endswith("limit was reached")
    assert not few.to_log_start
    none = cluster.group_logs({group: None}, 0.0001)
    said = [log.reach.stopped or "" for log in none.logs.values()] + list(none.unread.values())
    assert [why.endswith("s limit was reached") for why in said] == [True]
