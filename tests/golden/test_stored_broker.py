"""The stored broker answers as the real one that was copied: each verb shows the same of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.golden.situations import VERBS
from tests.golden.test_golden import clock_at, run, shown
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members, commit_to
from tests.helpers.stored_broker import StoredBroker
from tests.helpers.stored_cluster import copy_of

Name = Callable[[str], str]


@pytest.mark.soak  # a broker and a member that it learns of
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_copy_answers_as_its_original(
    world: KafkaWorld, members: Members, name: Name, bystander: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = world.topic(name("orders"), 2), name("svc")
    for number in range(2):
        world.produce(topic, 10, partition=number)
    start = members.classic if protocol == "classic" else members.consumer
    member = start(group, topic)
    members.stable(member, partitions=2)
    commit_to(world, member, 10)
    world.produce(topic, 30)
    copy = copy_of(world.bootstrap)

    async def stopped(client: object) -> int:
        """The brokers' clock: that of the original would go on while it is asked."""
        return int(copy["at_ms"])

    monkeypatch.setattr("kgroup.cluster.broker_clock._controllers_now", stopped)
    with clock_at(copy["at_ms"]), StoredBroker(copy, copy["at_ms"]) as broker:
        for verb in VERBS:
            words = verb.format(group=group)
            assert shown(words, run(words, broker.bootstrap)) == shown(words, run(words, world.bootstrap)), words
    assert broker.unanswered == []
