"""Batches of ``__consumer_offsets`` as a broker wrote them: what is read by hand is what kafka-python reads."""

from __future__ import annotations

from collections.abc import Callable

from kafka.record.memory_records import MemoryRecords

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.record_batches import (
    KeyFilter,
    LogEntry,
    Marker,
    RawRecord,
    batches,
    fetch_request,
    key_head,
    records_in_range,
)
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topics import log_ranges, topic_layouts
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.clusters import connected
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members


def raw_log(cluster: Cluster, group: str) -> bytes:
    """The first megabyte of the partition that the group is kept in."""

    async def read() -> bytes:
        client = cluster._client
        layout = (await topic_layouts(client, [OFFSETS_TOPIC]))[OFFSETS_TOPIC]
        assert not isinstance(layout, Exception)
        place = TopicPartition(OFFSETS_TOPIC, partition_of(group, len(layout.leaders)))
        ranges = await log_ranges(client, {OFFSETS_TOPIC: layout}, [place], Deadline.after(10))
        log, leader = ranges[place], layout.leaders[place[1]]
        assert isinstance(log, LogRange)
        assert leader is not None
        answer = await client.send(fetch_request({place: log.start}, 1 << 20), leader)
        return bytes(answer.responses[0].partitions[0].records)

    return cluster._ask(read)


def test_what_a_broker_wrote(world: KafkaWorld, members: Members, name: Callable[[str], str], bootstrap: str) -> None:
    topic = world.topic(name("orders"), partitions=100)
    group = name("reader")
    member = members.classic(group, topic)
    members.stable(member, partitions=100)
    member.close()
    world.commit(group, {(topic, number): (number, "é" * number, None) for number in range(100)})
    with world.pending(group, {(topic, 0): 7}):
        pass  # aborted with the block

    with connected(bootstrap) as cluster:
        data = raw_log(cluster, group)

    theirs: list[RawRecord | Marker] = []
    for batch in MemoryRecords(data):
        for record in batch:
            if batch.is_control_batch:
                theirs.append(Marker(record.offset, batch.producer_id, record.abort, batch.max_timestamp))
            else:
                producer_id = batch.producer_id if batch.is_transactional else None
                theirs.append(RawRecord(record.offset, record.timestamp, record.key, record.value, producer_id))
    heads = {key_head(entry.key) for entry in theirs if isinstance(entry, RawRecord)}
    ours: list[LogEntry] = []
    for found in batches(data):
        ours += records_in_range(found, LogRange(0, 1 << 62), KeyFilter(heads), 0).entries
    assert ours == theirs
