"""What is bounded by what: each question has the whole time limit, a search's budget is the search's alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.fetch import fetch_request
from kgroup.cluster.logs import TopicLayout, _list_offsets, topic_layouts
from kgroup.cluster.snapshot import Cluster, Want
from kgroup.options import Connection
from kgroup.settings import resolve
from tests.command_line import QuietReporter
from tests.kafka_world import KafkaWorld

Name = Callable[[str], str]


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    settings = resolve(Connection(bootstrap_server=bootstrap, timeout="5s"), QuietReporter(), environ={})
    with Cluster(settings) as cluster:
        yield cluster


def test_a_question_has_its_time_even_where_the_one_before_used_it_up(
    cluster: Cluster, world: KafkaWorld, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 1})
    for _ in range(2):
        cluster._client.deadline = Deadline.after(0)
        assert group in {listed.name for listed in cluster.list_groups().groups}
        cluster._client.deadline = Deadline.after(0)
        snapshot = cluster.describe([group], Want())
        assert ([found.name for found in snapshot.groups], snapshot.errors) == ([group], ())
        cluster._client.deadline = Deadline.after(0)
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
        slow = fetch_request({(topic, 0): 3}, 1024 * 1024)
        slow.max_wait_ms = 1500
        # The broker answers in order, so the second one waits behind the first.
        given_up, answered = await client.gather(
            [client.send(slow, leader, 100), client.send(_list_offsets([(topic, 0)], -1, isolation=0), leader)]
        )
        return given_up, answered

    client.deadline = Deadline.after(30)  # of connecting, which making the topic may have used up
    given_up, answered = client.run(ask)
    assert isinstance(given_up, KafkaTimeoutError)
    assert answered.topics[0].partitions[0].offset == 3
    assert not client.unsettled, "nothing failed, so nothing need be read again"
