"""A cluster of three brokers and a controller, of which a test kills or stops some; the fixtures are in a conftest."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.sandbox import Sandbox
from tests.conftest import MORTAL
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

BROKERS = frozenset({1, 2, 3})
PROPERTIES = {**MORTAL, "broker.session.timeout.ms": "6000", "auto.leader.rebalance.enable": "false"}
"""A broker that the controller does not hear is replaced after so long; one on a busy machine is not.

Nor do leaders return to their preferred broker in the middle of a test, as they would every five minutes. Otherwise
partitions would move to and fro between the live ones. By the source of Kafka 4.3 (CoordinatorRuntime) a load that
ends after its partition has left and come back counts for the new one, which then is ready too early, or never.
"""

RECORDS = 12
"""In each partition of a replicated topic."""


@contextmanager
def three_brokers(directory: Path, properties: Mapping[str, str] = PROPERTIES) -> Iterator[Sandbox]:
    """Running while the block does, except for those that a test kills."""
    sandbox = Sandbox(directory)
    try:
        sandbox.up(brokers=3, properties=properties, reporter=QuietReporter())
        yield sandbox
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@contextmanager
def all_running(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, stem: str) -> Iterator[KafkaWorld]:
    """All three running and in sync, as KGROUP_BOOTSTRAP_SERVER; a group is there that the block must not change.

    At the end all three run again. ``stem`` is what this group and its topic are called.
    """
    status = sandbox.up(reporter=QuietReporter())
    assert status.bootstrap_servers
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", status.bootstrap_servers)
    with KafkaWorld(status.bootstrap_servers) as world, bystander(world, stem):
        yield world
        sandbox.up(reporter=QuietReporter())


@contextmanager
def bystander(world: KafkaWorld, stem: str) -> Iterator[None]:
    """All replicas are in sync when the block begins; this group has a commit, and the same one at the end."""
    topic = replicated(world, stem)
    world.commit(stem, {(topic, 0): (3, "mine", 0)})
    before = world.exact(stem)
    wait_for(lambda: in_sync(world, OFFSETS_TOPIC, topic), "all replicas in sync", 60)
    yield
    # What a coordinator shows after its election may lack commits, see busy_partition; a write brings it up to date.
    world.commit(neighbour(world, stem), {(topic, 0): 1})
    assert world.exact(stem) == before


def neighbour(world: KafkaWorld, group: str) -> str:
    """Another group id in the same partition of ``__consumer_offsets``."""
    offsets = AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(OFFSETS_TOPIC, 30).topics[OFFSETS_TOPIC]
    ids = (f"{group}-{number}" for number in itertools.count())
    return next(
        one for one in ids if partition_of(one, len(offsets.partitions)) == partition_of(group, len(offsets.partitions))
    )


@contextmanager
def busy_partition(world: KafkaWorld, group: str, topic: str) -> Iterator[None]:
    """While the block runs, a neighbour of the group commits again and again, as in a cluster that is in use.

    Without it, a coordinator that took over may keep the group's state before its last commits: Kafka 4.3.1 ignores the
    high watermark that moves while the coordinator loads, until the next one (seen in 1 of 30 kills).
    """
    with _committing(world, neighbour(world, group), topic):
        yield


@contextmanager
def busy_partitions(world: KafkaWorld, broker: int, topic: str) -> Iterator[None]:
    """As ``busy_partition``, for the groups of all partitions that this broker leads when the block begins."""
    offsets = AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(OFFSETS_TOPIC, 30).topics[OFFSETS_TOPIC]
    places = {partition_of(one := f"{topic}-{number}", len(offsets.partitions)): one for number in range(200)}
    with ExitStack() as stack:
        for number, partition in offsets.partitions.items():
            if partition.leader == broker:
                stack.enter_context(_committing(world, places[number], topic))
        yield


@contextmanager
def _committing(world: KafkaWorld, group: str, topic: str) -> Iterator[None]:
    """While the block runs, this group commits again and again."""
    ended = threading.Event()

    def commit() -> None:
        settings = {"bootstrap.servers": world.bootstrap, "group.id": group, "enable.auto.commit": False}
        consumer = Consumer({**settings, "socket.timeout.ms": 2000, "log_level": 0})
        try:
            while not ended.wait(0.1):
                with suppress(KafkaException):  # the coordinator has gone: the next one answers a later attempt
                    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        finally:
            consumer.close()

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def topic_on(world: KafkaWorld, topic: str, *partitions: Sequence[int], records: int) -> str:
    """A topic with records; each of its partitions is on these brokers, the first of which leads it."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    made = admin.create_topics([NewTopic(topic, len(partitions), replica_assignment=[list(one) for one in partitions])])
    made[topic].result(30)
    wait_for(lambda: world._known_partitions(topic) == len(partitions), f"topic {topic}")
    for partition in range(len(partitions)):
        world.produce(topic, records, partition)
    return topic


def replicated(world: KafkaWorld, topic: str, records: int = RECORDS) -> str:
    """A topic of two partitions on all three brokers."""
    return topic_on(world, topic, (1, 2, 3), (2, 3, 1), records=records)


def in_sync(world: KafkaWorld, *topics: str) -> bool:
    """Whether every replica of these topics follows."""
    known = AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(timeout=30).topics
    return all(len(one.isrs) == len(one.replicas) for topic in topics for one in known[topic].partitions.values())


@contextmanager
def killed(sandbox: Sandbox, broker: int) -> Iterator[None]:
    """kill -9, and started again at the end."""
    sandbox.kill(broker)
    try:
        yield
    finally:
        sandbox.restart(broker, reporter=QuietReporter())


@contextmanager
def hanging(sandbox: Sandbox, broker: int) -> Iterator[None]:
    """SIGSTOP: its connections are open, and nothing answers; it goes on at the end."""
    (pid,) = (found.pid for found in sandbox.status().brokers if found.id == broker)
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def three_replicas_needed(world: KafkaWorld, topic: str) -> Iterator[None]:
    """Writes to this topic need all three brokers, as with min.insync.replicas=3; one value less is usual."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})

    def change(value: str, operation: AlterConfigOpType) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry("min.insync.replicas", value, incremental_operation=operation))
        admin.incremental_alter_configs([resource])[resource].result(30)

    change("3", AlterConfigOpType.SET)
    try:
        yield
    finally:
        change("", AlterConfigOpType.DELETE)
