"""What is bounded by what: each question has the whole time limit, a search's budget is the search's alone."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from kgroup.cluster.deadline import Deadline, SharedTime
from kgroup.cluster.offsets_topic.record_batches import fetch_request
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import TopicLayout, _list_offsets, topic_layouts
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]

AMPLE_S = 30.0


def test_a_later_step_has_time_of_its_own() -> None:
    passed, ample = Deadline.after(0), Deadline.after(AMPLE_S)
    assert 1 < passed.at_least(2).left_s <= 2
    assert ample.at_least(2) == ample


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    settings = resolve(Connection(bootstrap_server=bootstrap, timeout="5s"), QuietReporter(), environ={})
    with Cluster(settings) as cluster:
        yield cluster


async def nothing() -> None:
    """A question that leaves its deadline behind."""


def test_a_question_has_its_time_even_where_the_one_before_used_it_up(
    cluster: Cluster, world: KafkaWorld, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 1})
    for _ in range(2):
        cluster._client.run(nothing, deadline=Deadline.after(0))
        assert group in {listed.name for listed in cluster.list_groups().groups}
        cluster._client.run(nothing, deadline=Deadline.after(0))
        snapshot = cluster.describe([group], SnapshotRequest())
        assert ([found.name for found in snapshot.groups], snapshot.errors) == ([group], ())
        cluster._client.run(nothing, deadline=Deadline.after(0))
        assert cluster.check_topics([topic]) == ()


def test_impatience_with_one_request_leaves_the_connection_to_the_others(
    cluster: Cluster, world: KafkaWorld, name: Name
) -> None:
    """A fetch at the log's end waits for more; who gives it up must not take its neighbours' answers with it."""
    topic = world.topic(name("orders"))
    world.produce(topic, 3)
    client = cluster._client

    async def ask() -> tuple[Any, Any]:
        layout = (await topic_layouts(client, [topic]))[topic]
        assert isinstance(layout, TopicLayout)
        leader = layout.leaders[0]
        assert leader is not None
        slow = fetch_request({TopicPartition(topic, 0): 3}, 1024 * 1024)
        slow.max_wait_ms = 1500
        # The broker answers in order, so the second one waits behind the first.
        given_up, answered = await client.gather(
            [
                client.send(slow, leader, 100),
                client.send(_list_offsets([TopicPartition(topic, 0)], -1, isolation=0), leader),
            ]
        )
        return given_up, answered

    began_s = time.monotonic()
    given_up, answered = client.run(ask, deadline=Deadline.after(AMPLE_S))
    assert isinstance(given_up, KafkaTimeoutError)
    assert answered.topics[0].partitions[0].offset == 3
    assert not client.has_moved(began_s), "nothing failed, so nothing need be read again"


def test_a_signal_that_another_thread_was_given_ends_a_question(cluster: Cluster) -> None:
    """The kernel may give it to any thread, and Python's handlers run in the main one alone, which waits."""
    client = cluster._client
    loop = client._net._io_thread.ident

    def interrupted() -> None:
        threading.Timer(0.3, signal.pthread_kill, [loop, signal.SIGINT]).start()
        client.run(client.sleep, AMPLE_S, deadline=Deadline.after(AMPLE_S))

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):  # around the timer too: what is not caught would end the whole run
        interrupted()
    assert time.monotonic() - began < AMPLE_S / 2


def test_parts_share_a_time_and_get_what_earlier_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [0.0]
    monkeypatch.setattr("kgroup.cluster.deadline.time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    shared = SharedTime(5.0, groups=100)

    for groups, share_s, took_s in ((50, 2.5, 0.5), (25, 2.25, 2.25), (25, 2.25, 9.0)):
        with shared.part(groups) as may_take_s:
            assert may_take_s == share_s
            clock_s[0] += took_s
    assert shared.left_s == 0.0
