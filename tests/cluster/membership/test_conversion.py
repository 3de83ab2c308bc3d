"""Groups converted on a real broker, there and back; and all that can come in between."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.groups import Group
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX, is_own_member
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable
from tests.conftest import BROKER_PROPERTIES
from tests.helpers import by_hand
from tests.helpers.clusters import connected
from tests.helpers.kafka_proxy import CONSUMER_GROUP_DESCRIBE, LEAVE_GROUP, Fault, Loss, ProxiedBroker, proxied_broker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.wire import just_before

Name = Callable[[str], str]
JOIN_GROUP, HEARTBEAT = 11, 68
PROTOCOLS = ("classic", "consumer")
OTHER = {"classic": "consumer", "consumer": "classic"}


@pytest.fixture(scope="module")
def topic(world: KafkaWorld) -> str:
    return world.topic("conversion-orders", partitions=3)


@pytest.fixture
def empty(world: KafkaWorld, topic: str, name: Name, cluster: ChangingCluster) -> Callable[[str], str]:
    """An Empty group of this type, with commits."""

    def make(kind: str) -> str:
        group = name(f"{kind}-svc")
        world.commit(group, {(topic, 0): (3, "", None), (topic, 1): (5, "at 5", 0)})
        if kind == "consumer":
            assert cluster.convert({group: kind}) == {group: None}
        return group

    return make


def described(cluster: ChangingCluster, group: str) -> Group:
    (found,) = cluster.describe([group], SnapshotRequest(logs=False, generation_budget_s=0)).groups
    return found


def refusal(results: dict[str, KgroupError | None], group: str) -> KgroupError:
    error = results[group]
    assert error is not None
    return error


def enter(world: KafkaWorld, kind: str, group: str, topic: str) -> None:
    """A member of this protocol, that stays."""
    if kind == "classic":
        by_hand.join(world, group, {topic: [0, 1, 2]})
    else:
        assert by_hand.heartbeat(world, group, "somebody", 0, topic) == 0


# --- there and back


def test_there_and_back_leaves_every_byte_of_the_offsets(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name, bystander: str
) -> None:
    group = name("svc")
    world.commit(group, {(topic, 0): (0, "", None), (topic, 1): (7, "\0\x01é" * 9, 0), (topic, 2): (9, "m" * 4096, 4)})
    before = world.exact(group)

    assert cluster.convert({group: "consumer"}) == {group: None}
    assert world.groups()[group] == ("consumer", "empty")
    assert world.exact(group) == before
    epoch = described(cluster, group).group_epoch

    assert cluster.convert({group: "consumer"}) == {group: None}
    assert described(cluster, group).group_epoch == epoch, "nothing is done to a group that is there already"

    for _ in range(2):
        assert cluster.convert({group: "classic"}) == {group: None}
        assert world.groups()[group] == ("classic", "empty")
        assert world.exact(group) == before


def test_many_groups_side_by_side_in_more_than_one_round(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name
) -> None:
    groups = [name("svc") for _ in range(130)]
    for group in groups:
        world.commit(group, {(topic, 0): 1})

    assert cluster.convert(dict.fromkeys(groups, "consumer")) == dict.fromkeys(groups)
    known = world.groups()
    assert {known[group] for group in groups} == {("consumer", "empty")}


def test_one_group_that_cannot_does_not_keep_the_others_back(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, empty: Callable[[str], str], name: Name
) -> None:
    there, back, missing, connect = empty("classic"), empty("consumer"), name("no-such"), name("connect")
    world.join_as(connect, "connect")

    results = cluster.convert({there: "consumer", missing: "consumer", back: "classic", connect: "consumer"})

    assert list(results) == [there, missing, back, connect]
    assert (results[there], results[back]) == (None, None)
    assert isinstance(results[missing], NotFound)
    assert refusal(results, connect).code == "foreign-owner"
    known = world.groups()
    assert missing not in known, "an id that nobody has makes no group"
    assert (known[there], known[back]) == (("consumer", "empty"), ("classic", "empty"))


def test_a_proxy_that_offers_the_first_version_of_the_heartbeat_alone(
    cluster: ChangingCluster, world: KafkaWorld, empty: Callable[[str], str]
) -> None:
    group = empty("classic")
    cluster._client._manager.broker_version_data.api_versions[HEARTBEAT] = (0, 0)
    cluster.list_groups()
    assert cluster.convert({group: "consumer"}) == {group: None}
    assert world.groups()[group] == ("consumer", "empty")


def test_a_cluster_without_the_heartbeat(cluster: ChangingCluster, empty: Callable[[str], str]) -> None:
    group = empty("classic")
    del cluster._client._manager.broker_version_data.api_versions[HEARTBEAT]
    assert refusal(cluster.convert({group: "consumer"}), group).code == "protocol-unavailable"


# --- somebody is there, or comes meanwhile


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_live_group_is_left_alone(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, empty: Callable[[str], str], kind: str
) -> None:
    group = empty(kind)
    before = world.exact(group)
    enter(world, kind, group, topic)
    member = described(cluster, group).members

    error = refusal(cluster.convert({group: OTHER[kind]}), group)

    assert isinstance(error, Refused)
    assert error.code == "joined-meanwhile"
    after = described(cluster, group)
    assert (after.type, after.members) == (kind, member)
    assert world.exact(group) == before


@pytest.mark.parametrize(
    ("kind", "comes", "before", "skip"),
    [
        ("classic", "classic", "ConsumerGroupHeartbeat", 0),
        ("classic", "consumer", "ConsumerGroupHeartbeat", 0),
        ("classic", "consumer", "ConsumerGroupHeartbeat", 1),
        ("consumer", "consumer", "JoinGroup", 0),
        ("consumer", "classic", "JoinGroup", 0),
        ("consumer", "classic", "LeaveGroup", 0),
    ],
)
def test_who_comes_in_between_is_named_and_goes_on(
    cluster: ChangingCluster,
    world: KafkaWorld,
    topic: str,
    empty: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    comes: str,
    before: str,
    skip: int,
) -> None:
    """Under the policy BIDIRECTIONAL, where the broker refuses us nothing."""
    group = empty(kind)
    offsets = world.exact(group)
    happened = just_before(monkeypatch, before, lambda: enter(world, comes, group, topic), skip)

    error = refusal(cluster.convert({group: OTHER[kind]}), group)

    assert happened
    assert (error.code, error.exit_code) == ("joined-meanwhile", 9)
    assert "127.0.0.1" in error.message
    after = described(cluster, group)
    assert f"is a {after.type} group now" in error.details[0]
    assert after.members
    assert len(after.members) == 1
    assert not is_own_member(after.members[0])
    assert after.members[0].protocol == comes
    assert world.exact(group) == offsets


def test_our_member_that_comes_in_when_it_has_left_already_is_taken_out(
    cluster: ChangingCluster,
    world: KafkaWorld,
    empty: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a request that was given up, and arrives later than the next one."""
    group, seen = empty("classic"), list[tuple[str, str]]()
    monkeypatch.setattr("kgroup.cluster.membership.conversion.secrets.token_urlsafe", lambda size: "late")

    def come() -> None:
        seen.append(world.groups()[group])
        assert by_hand.heartbeat(world, group, f"{OWN_MEMBER_PREFIX}late", 0) == 0

    happened = just_before(monkeypatch, "ConsumerGroupDescribe", come, skip=2)
    assert cluster.convert({group: "consumer"}) == {group: None}
    assert happened
    assert seen == [("consumer", "empty")], "it had left"
    assert world.groups()[group] == ("consumer", "empty")


def test_a_group_that_is_deleted_meanwhile_is_not_made_anew(
    cluster: ChangingCluster, world: KafkaWorld, empty: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = empty("classic")
    described(cluster, group)
    happened = just_before(monkeypatch, "DescribeGroups", lambda: world.delete_group(group))
    assert isinstance(refusal(cluster.convert({group: "consumer"}), group), NotFound)
    assert happened
    assert group not in world.groups()


def test_the_member_of_a_killed_run_is_known_and_removed(
    cluster: ChangingCluster, world: KafkaWorld, empty: Callable[[str], str]
) -> None:
    group, other = empty("classic"), empty("consumer")
    member_id = f"{OWN_MEMBER_PREFIX}of-a-killed-run"
    assert by_hand.heartbeat(world, group, member_id, 0) == 0
    (member,) = described(cluster, group).members or ()
    assert is_own_member(member)
    assert refusal(cluster.convert({group: "classic"}), group).code == "not-empty"

    leftovers = {group: [member.member_id], other: [f"{OWN_MEMBER_PREFIX}gone"]}
    assert cluster.remove_own_members(leftovers) == {group: None, other: None}
    assert world.groups()[group] == ("consumer", "empty")
    assert cluster.convert({group: "classic"}) == {group: None}

    with pytest.raises(ValueError, match="not a member of kgroup's own"):
        cluster.remove_own_members({group: ["somebody"]})


# --- answers and requests that get lost, and the policy DISABLED


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """One broker behind a proxy, which lets no live group change its protocol."""
    properties = BROKER_PROPERTIES | {"group.consumer.migration.policy": "disabled"}
    with proxied_broker(tmp_path_factory.mktemp("proxied"), properties) as made:
        made.world.topic("orders", partitions=3)
        yield made


@pytest.fixture
def proxied(broker: ProxiedBroker) -> Iterator[ProxiedBroker]:
    broker.proxy.reset()
    yield broker
    broker.proxy.reset()


def fresh(proxied: ProxiedBroker, cluster: ChangingCluster, kind: str, name: Name) -> str:
    group = name("svc")
    proxied.world.commit(group, {("orders", 0): (3, "", None), ("orders", 1): (5, "at 5", 0)})
    assert cluster.convert({group: kind}) == {group: None}
    return group


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
@pytest.mark.parametrize(
    ("kind", "api_key", "skip"),
    [("classic", HEARTBEAT, 0), ("classic", HEARTBEAT, 1), ("classic", CONSUMER_GROUP_DESCRIBE, 1),
     ("consumer", JOIN_GROUP, 0), ("consumer", LEAVE_GROUP, 0)],
)  # fmt: skip
def test_what_gets_lost_is_asked_again(
    proxied: ProxiedBroker, name: Name, kind: str, api_key: int, skip: int, loss: Loss
) -> None:
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, kind, name)
        before = proxied.world.exact(group)
        fault = proxied.proxy.expect(Fault(api_key, loss, skip))
        assert cluster.convert({group: OTHER[kind]}) == {group: None}
    assert fault.met.is_set()
    assert proxied.world.groups()[group] == (OTHER[kind], "empty")
    assert proxied.world.exact(group) == before


def test_a_conversion_that_is_never_answered_is_looked_up(proxied: ProxiedBroker, name: Name) -> None:
    """It was done, and nobody said so: the description does."""
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, "consumer", name)
    with connected(proxied.bootstrap, "2s") as cluster:
        fault = proxied.proxy.expect(Fault(JOIN_GROUP, Loss.ANSWER, always=True))
        assert cluster.convert({group: "classic"}) == {group: None}
    assert fault.met.is_set()
    assert proxied.world.groups()[group] == ("classic", "empty")


@pytest.mark.soak
def test_a_conversion_that_never_arrives_is_not_said_to_have_failed(proxied: ProxiedBroker, name: Name) -> None:
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, "classic", name)
    with connected(proxied.bootstrap, "2s") as cluster:
        proxied.proxy.expect(Fault(HEARTBEAT, Loss.REQUEST, always=True))
        error = refusal(cluster.convert({group: "consumer"}), group)
    assert isinstance(error, Unreachable)
    assert error.code == "outcome-unknown"
    assert proxied.world.groups()[group] == ("classic", "empty")


def test_what_did_not_arrive_in_the_first_round_has_another(
    proxied: ProxiedBroker, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our members of other groups do not wait for it: entering ends after a second, and begins again."""
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, "classic", name)
        joins = struct.pack(">i", 300_000)  # its rebalance timeout, which one that leaves does not have
        fault = proxied.proxy.expect(Fault(HEARTBEAT, Loss.REQUEST, always=True, having=joins))
        looked_after = just_before(monkeypatch, "ConsumerGroupDescribe", proxied.proxy.reset, skip=1)
        assert cluster.convert({group: "consumer"}) == {group: None}
    assert fault.met.is_set()
    assert looked_after
    assert proxied.world.groups()[group] == ("consumer", "empty")


def test_a_coordinator_that_has_moved_is_asked_again(proxied: ProxiedBroker, name: Name) -> None:
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, "consumer", name)
        fault = proxied.proxy.expect(Fault(JOIN_GROUP, Loss.REFUSED))
        assert cluster.convert({group: "classic"}) == {group: None}
    assert fault.met.is_set()
    assert proxied.world.groups()[group] == ("classic", "empty")


@pytest.mark.soak
def test_one_of_two_members_of_killed_runs_stays(proxied: ProxiedBroker, name: Name) -> None:
    """The group's result is that, whatever came of the other; a group that is gone has nobody left."""
    ids, gone = [f"{OWN_MEMBER_PREFIX}first", f"{OWN_MEMBER_PREFIX}second"], name("gone")
    with connected(proxied.bootstrap) as cluster:
        group = fresh(proxied, cluster, "consumer", name)
    assert [by_hand.heartbeat(proxied.world, group, member_id, 0) for member_id in ids] == [0, 0]
    # Each lost request closes the connection that the others use, too: they need some tries.
    with connected(proxied.bootstrap, "4s") as cluster:
        proxied.proxy.expect(Fault(HEARTBEAT, Loss.REQUEST, always=True, having=ids[0].encode()))
        results = cluster.remove_own_members({group: ids, gone: ids[1:]})
        assert [member.member_id for member in described(cluster, group).members or ()] == ids[:1]
    assert refusal(results, group).code == "outcome-unknown"
    assert results[gone] is None


@pytest.mark.soak
def test_a_broker_that_allows_long_sessions_alone(tmp_path: Path, name: Name) -> None:
    """The first three session timeouts of our classic member are refused."""
    properties = BROKER_PROPERTIES | {"group.min.session.timeout.ms": "50000"}
    with proxied_broker(tmp_path, properties) as made, connected(made.bootstrap) as cluster:
        made.world.topic("orders", partitions=3)
        group = fresh(made, cluster, "consumer", name)
        before = made.proxy.forwarded[JOIN_GROUP]
        assert cluster.convert({group: "classic"}) == {group: None}
        assert made.proxy.forwarded[JOIN_GROUP] - before == 4
        assert made.world.groups()[group] == ("classic", "empty")


@pytest.mark.parametrize(("kind", "request_"), [("classic", "ConsumerGroupHeartbeat"), ("consumer", "JoinGroup")])
def test_the_broker_refuses_us_when_somebody_joined_under_the_policy_disabled(
    proxied: ProxiedBroker, name: Name, monkeypatch: pytest.MonkeyPatch, kind: str, request_: str
) -> None:
    world = proxied.world
    with connected(world.bootstrap) as cluster:
        group = fresh(proxied, cluster, kind, name)
        happened = just_before(monkeypatch, request_, lambda: enter(world, kind, group, "orders"))
        error = refusal(cluster.convert({group: OTHER[kind]}), group)
        assert happened
        assert (error.code, error.exit_code) == ("joined-meanwhile", 9)
        after = described(cluster, group)
        assert (after.type, len(after.members or ())) == (kind, 1)
