"""The end of a topic that brokers do not know yet, on a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.support.errors import NotFound
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]


def reader_of(world: KafkaWorld, topic: str) -> CommittedReader:
    return CommittedReader({"bootstrap.servers": world.bootstrap}, topic, timeout_s=15.0)


def test_a_topic_that_appears_a_moment_later_is_waited_for(world: KafkaWorld, name: Name) -> None:
    """As after a creation, while the broker that answers has not learned of it from the controller yet."""
    topic = name("late")
    with reader_of(world, topic) as reader:
        with pytest.raises(NotFound):
            reader.bounds()
        creation = threading.Timer(0.5, world.topic, (topic,))
        creation.start()
        try:
            assert reader.bounds(unknown_s=10.0) == (0, 0)
        finally:
            creation.join()


def test_a_topic_that_does_not_appear_is_not_found(world: KafkaWorld, name: Name) -> None:
    with reader_of(world, name("never")) as reader, pytest.raises(NotFound) as caught:
        reader.bounds(unknown_s=0.3)
    assert caught.value.code == "unknown-topic"
