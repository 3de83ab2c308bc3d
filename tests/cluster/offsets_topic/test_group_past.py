"""What ``__consumer_offsets`` of a real broker tells of a group: its last members, its end, its commits."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kgroup.cluster.commit_requests import CommitPart
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.commit import Commit
from kgroup.model.groups import Group
from kgroup.model.migration_facts import GroupPast, PastMember
from kgroup.model.topic_partition import TopicPartition
from tests.helpers import by_hand
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
BUDGET_S = 5.0


@pytest.fixture(scope="module")
def topic(world: KafkaWorld) -> str:
    return world.topic("past-orders", partitions=3)


def now_ms() -> int:
    return round(time.time() * 1000)


def group_of(cluster: ChangingCluster, name: str) -> Group:
    (group,) = cluster.describe([name], SnapshotRequest(logs=False, generation_budget_s=0)).groups
    return group


def past_of(cluster: ChangingCluster, name: str) -> GroupPast:
    """Its past, the same by name, with what is known of it, and out of its whole log."""
    by_name, note = cluster.pasts([name], BUDGET_S)
    group = group_of(cluster, name)
    found, other_note = cluster.pasts([group], BUDGET_S)
    beside_log = cluster.group_logs({name: None}, BUDGET_S, pasts=[group]).pasts
    assert note is None
    assert other_note is None
    assert replace(by_name[name], searched=False) == replace(found[name], searched=False)
    assert beside_log[name] == replace(found[name], searched=True)
    assert found[name].complete
    return found[name]


def test_the_last_generation_of_an_empty_group(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name
) -> None:
    group = name("svc")
    member = by_hand.join(
        world, group, {topic: [0, 1]}, assignors=("roundrobin",), session_ms=7000, rack="a", assignment_data=b"own"
    )
    member.leave()
    left_ms = now_ms()
    world.commit(group, {(topic, 0): 1, (topic, 2): 4})

    past = past_of(cluster, group)

    assert past.members == (
        PastMember(
            instance_id=None,
            session_timeout_ms=7000,
            rack="a",
            carries_user_data=True,
        ),
    )
    assert past.assignor == "roundrobin"
    assert set(past.commits_ms) == {(topic, 0), (topic, 2)}
    assert all(left_ms <= at_ms <= now_ms() for at_ms in past.commits_ms.values())


def test_user_data_of_the_subscription_is_not_the_assignments(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name
) -> None:
    group = name("svc")
    by_hand.join(world, group, {topic: [0]}, instance="i-1", subscription_data=b"own")
    past = past_of(cluster, group)
    (member,) = past.members
    assert (member.carries_user_data, member.instance_id) == (False, "i-1")


def test_a_group_that_never_had_members(cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name) -> None:
    group = name("svc")
    world.commit(group, {(topic, 0): 1})
    past = past_of(cluster, group)
    assert (past.members, past.assignor) == ((), None)
    assert set(past.commits_ms) == {(topic, 0)}


def test_what_was_before_the_group_was_deleted_is_not_its_past(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name
) -> None:
    group = name("svc")
    by_hand.join(world, group, {topic: [0]}).leave()
    world.commit(group, {(topic, 0): 1, (topic, 1): 1})
    world.delete_group(group)
    world.commit(group, {(topic, 0): 1})
    past = past_of(cluster, group)
    assert past.members == ()
    assert set(past.commits_ms) == {(topic, 0)}


def test_what_was_before_the_group_was_converted_is_not_its_past(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name
) -> None:
    group = name("svc")
    by_hand.join(world, group, {topic: [0]}).leave()
    world.commit(group, {(topic, 0): 1})
    assert cluster.convert({group: "consumer"}) == {group: None}
    past = past_of(cluster, group)
    assert past.members == (), "another life"
    assert set(past.commits_ms) == {(topic, 0)}


def test_only_commits_that_stand_are_dated(cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name) -> None:
    """One is deleted, one is open, one is aborted, one is committed; the same partition has an older one."""
    group = name("svc")
    places = [TopicPartition(topic, number) for number in range(3)]
    world.commit(group, dict.fromkeys(places, 1))
    first = past_of(cluster, group).commits_ms
    part = CommitPart(group, {places[0]: None}, {places[0]: Commit(1, None, "")})
    assert cluster.write_offsets([part]) == [{places[0]: None}]
    with world.pending(group, {places[1]: 2}):
        past = past_of(cluster, group)
        assert past.commits_ms == {place: first[place] for place in places[1:]}
        assert past.pending == (places[1],)
    wait_for(lambda: not cluster.pasts([group], 5.0)[0][group].pending, "aborted")
    assert past_of(cluster, group).commits_ms == {place: first[place] for place in places[1:]}
    with world.pending(group, {places[1]: 3}) as producer:
        producer.commit_transaction(30)
        wait_for(lambda: world.committed(group)[places[1]][0] == 3, "the transaction's end")
        now = past_of(cluster, group).commits_ms
    assert now[places[2]] == first[places[2]]
    assert now[places[1]] > first[places[1]]


def test_many_groups_and_no_time(cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name) -> None:
    groups = [name("svc") for _ in range(3)]
    for group in groups:
        world.commit(group, {(topic, 0): 1})
    found, note = cluster.pasts(groups, 0)
    assert not any(past.complete for past in found.values())
    assert note is not None
    assert "of 3 of 3 groups are not fully known" in str(note)
    assert cluster.pasts([], 0) == ({}, None)
