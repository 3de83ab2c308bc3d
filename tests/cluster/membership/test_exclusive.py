"""Groups held on a real broker: who may move their offsets meanwhile, and who may not; how that ends."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.cluster.commit_requests import CommitPart
from kgroup.cluster.membership import exclusive
from kgroup.cluster.membership.requests import Membership
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, MemberToRemove
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable
from tests.helpers import by_hand
from tests.helpers.clusters import connected
from tests.helpers.conversion import ConsumerGroupHeartbeatRequest, to_consumer
from tests.helpers.holders import holder
from tests.helpers.kafka_proxy import LEAVE_GROUP, OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before, sent

Name = Callable[[str], str]
Places = list[TopicPartition]
JOIN_GROUP, SYNC_GROUP, HEARTBEAT = 11, 14, 68
KINDS = ("classic", "consumer")
METADATA = "\0\x01é" * 9


@pytest.fixture
def other(bootstrap: str) -> Iterator[ChangingCluster]:
    """Somebody else's connection."""
    with connected(bootstrap) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(world: KafkaWorld) -> str:
    return world.topic(f"holding-orders-{secrets.token_hex(3)}", partitions=3)


@pytest.fixture
def places(topic: str) -> Places:
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty(world: KafkaWorld, topic: str, name: Name) -> Name:
    """An Empty group of this type, with commits."""

    def make(kind: str) -> str:
        group = name(f"{kind}-svc")
        world.commit(group, {(topic, 0): (3, "", None), (topic, 1): (5, METADATA, 0), (topic, 2): (7, "left", 1)})
        if kind == "consumer":
            to_consumer(world, group)
        return group

    return make


def described(cluster: ChangingCluster, group: str) -> Group:
    (found,) = cluster.describe([group], SnapshotRequest(logs=False, generation_budget_s=0)).groups
    return found


def enter(world: KafkaWorld, kind: str, group: str, topic: str) -> None:
    """A member of this protocol, that stays."""
    if kind == "classic":
        by_hand.join(world, group, {topic: [0, 1, 2]})
    else:
        assert by_hand.heartbeat(world, group, "somebody", 0, topic) == 0


def given(world: KafkaWorld, group: str, epoch: int, topic: str) -> tuple[int, list[int] | None]:
    """(epoch, partitions) of the member ``newcomer`` after a heartbeat; None: nothing new."""
    answer: Any = world._to_coordinator(
        group,
        ConsumerGroupHeartbeatRequest[1](
            group_id=group,
            member_id="newcomer",
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=[topic] if epoch == 0 else None,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[] if epoch == 0 else None,
        ),
    )
    assert answer.error_code == 0, answer
    assignment = answer.assignment
    if assignment is None:
        return answer.member_epoch, None
    return answer.member_epoch, sorted(number for row in assignment.topic_partitions for number in row.partitions)


# --- held, moved, left


def test_offsets_move_byte_for_byte_and_the_group_is_empty_again(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, places: Places, empty: Name, bystander: str, kind: str
) -> None:
    group = empty(kind)
    before = world.exact(group)
    with cluster.join_exclusively(group, kind, places) as membership:
        assert world.groups()[group] == (kind, "stable")
        membership.verify_only_member()
        assert membership.committed() == {place: Commit(a, c, b) for place, (a, b, c) in before.items()}
        moved = {
            TopicPartition(topic, 0): Commit(70, 4, METADATA),
            TopicPartition(topic, 1): Commit(0, None, "m" * 4096),
        }
        assert membership.commit(moved) == {(topic, 0): None, (topic, 1): None}
        assert membership.committed()[TopicPartition(topic, 0)] == Commit(70, 4, METADATA)
        membership.verify_only_member()
    assert membership.leave_error is None
    assert world.groups()[group] == (kind, "empty")
    assert world.exact(group) == {**before, (topic, 0): (70, METADATA, 4), (topic, 1): (0, "m" * 4096, None)}


@pytest.mark.soak
def test_many_partitions_with_long_metadata_go_in_several_requests(
    cluster: ChangingCluster, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    topic, group = world.topic(name("wide"), partitions=300), name("svc")
    wide = [TopicPartition(topic, number) for number in range(300)]
    world.commit(group, {(topic, 0): 3})
    if kind == "consumer":
        to_consumer(world, group)
    with cluster.join_exclusively(group, kind, wide) as membership:
        names = sent(monkeypatch)
        assert set(membership.commit({place: Commit(9, None, "m" * 4096) for place in wide}).values()) == {None}
    assert names.count("OffsetCommit") == 2
    assert world.exact(group) == dict.fromkeys(wide, (9, "m" * 4096, None))


def test_one_partition_that_cannot_be_committed_costs_its_own_row_only(
    cluster: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    with cluster.join_exclusively(group, kind, places) as membership:
        first, second = places
        results = membership.commit({first: Commit(9, None, ""), second: Commit(9, None, "m" * 4097)})
        error = results[second]
        assert (results[first], error and error.code) == (None, "metadata-size")
        with pytest.raises(ValueError, match="this one does not have"):
            membership.commit({TopicPartition("elsewhere", 0): Commit(9, None, "")})
    assert world.exact(group)[first] == (9, "", None)


def test_leaving_twice_and_leaving_when_somebody_has_removed_us(
    cluster: ChangingCluster, other: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, kind: str
) -> None:
    group, evicted = empty(kind), empty(kind)
    with cluster.join_exclusively(group, kind, places) as membership:
        membership.leave()
        membership.leave()
        assert world.groups()[group] == (kind, "empty")
    leaver = MemberToRemove(None, "kgroup-catchup")
    with cluster.join_exclusively(evicted, kind, places) as membership:
        assert other.remove_members(evicted, [leaver]) == {leaver: None}
        with pytest.raises(Refused) as caught:
            membership.verify_only_member()
        assert caught.value.code == "superseded"
        membership.leave()
    assert membership.leave_error is None


@pytest.mark.soak
def test_it_lives_as_long_as_it_is_held(
    cluster: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    beat = {"classic": "Heartbeat", "consumer": "ConsumerGroupHeartbeat"}[kind]
    session_s = 4  # a machine that stands still for so long ends it, whatever is held
    group = empty(kind)
    monkeypatch.setattr(exclusive, "_SESSION_TIMEOUTS_MS", (session_s * 1000,))
    world.configure_group(group, consumer_session_timeout_ms=f"{session_s * 1000}")
    with cluster.join_exclusively(group, kind, places) as membership:
        names, start = sent(monkeypatch), time.monotonic()
        wait_for(lambda: time.monotonic() > start + 2 * session_s, "two sessions", within_s=4.0 * session_s)
        assert names.count(beat) >= 6, "a third of a session each, at the least"
        membership.verify_only_member()
        assert membership.commit({places[0]: Commit(9, None, "")}) == {places[0]: None}


def test_it_is_held_when_the_partitions_are_ours_and_not_before(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, places: Places, empty: Name
) -> None:
    """The coordinator computes an assignment when its interval is over, and until then they are nobody's."""
    group = empty("consumer")
    world.configure_group(group, consumer_assignment_interval_ms="2000")
    assert by_hand.heartbeat(world, group, "before", 0, topic) == 0  # an assignment, and the interval begins
    assert by_hand.heartbeat(world, group, "before", -1) == 0
    with cluster.join_exclusively(group, "consumer", places):
        (ours,) = described(cluster, group).members or ()
        assert [(item.topic, item.partitions) for item in ours.assignment or ()] == [(topic, (0, 1, 2))]


# --- what is not held


def test_a_group_that_is_not_there_is_not_made(cluster: ChangingCluster, world: KafkaWorld, name: Name) -> None:
    group = name("none")
    with pytest.raises(NotFound), cluster.join_exclusively(group, "classic", [TopicPartition("orders", 0)]):
        pass
    assert group not in world.groups()


def test_a_group_of_the_other_type(
    cluster: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    other_kind = KINDS[kind == "classic"]
    with pytest.raises(Refused) as caught, cluster.join_exclusively(group, other_kind, places):
        pass
    assert caught.value.code == "moved-since"
    assert world.groups()[group] == (kind, "empty")


def test_a_partition_that_does_not_exist(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, empty: Name, kind: str
) -> None:
    group = empty(kind)
    for missing in (TopicPartition(topic, 3), TopicPartition("no-such-topic", 0)):
        with pytest.raises(NotFound, match="does not exist") as caught:
            cluster.join_exclusively(group, kind, [TopicPartition(topic, 0), missing]).__enter__()
        assert missing[0] in caught.value.message
        assert world.groups()[group] == (kind, "empty")


def test_a_group_of_another_framework(cluster: ChangingCluster, world: KafkaWorld, topic: str, name: Name) -> None:
    group = name("connect")
    world.join_as(group, "connect")
    with pytest.raises(Refused) as caught, cluster.join_exclusively(group, "classic", [TopicPartition(topic, 0)]):
        pass
    assert caught.value.code == "foreign-owner"


# --- others


def test_a_live_group_is_refused_and_goes_on(
    cluster: ChangingCluster,
    world: KafkaWorld,
    members: Members,
    topic: str,
    places: Places,
    empty: Name,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    group = empty(kind)
    before = world.exact(group)
    live = members.classic(group, topic) if kind == "classic" else members.consumer(group, topic)
    members.stable(live, partitions=3)
    who = [member.member_id for member in described(cluster, group).members or ()]

    names = sent(monkeypatch)
    with pytest.raises(Refused, match=r"127\.0\.0\.1") as caught, cluster.join_exclusively(group, kind, places):
        pass

    assert (caught.value.code, caught.value.exit_code) == ("not-empty", 9)
    assert not {"JoinGroup", "ConsumerGroupHeartbeat", "LeaveGroup", "OffsetCommit"}.intersection(names)
    assert [member.member_id for member in described(cluster, group).members or ()] == who
    assert world.exact(group) == before


def test_nobody_moves_the_offsets_from_outside_meanwhile(
    cluster: ChangingCluster, other: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    before = world.exact(group)
    with cluster.join_exclusively(group, kind, places):
        (results,) = other.write_offsets([CommitPart(group, {places[0]: Commit(1, None, "")}, {})])
        error = results[places[0]]
        assert error is not None
        assert error.code == "not-empty"
    assert world.exact(group) == before


@pytest.mark.parametrize("comes", KINDS)
def test_who_comes_meanwhile_reads_nothing_before_we_have_left(
    cluster: ChangingCluster,
    world: KafkaWorld,
    bootstrap: str,
    topic: str,
    places: Places,
    empty: Name,
    kind: str,
    comes: str,
) -> None:
    """The coordinator takes our commit all the same; so nobody may have been given the partition by then."""
    group = empty(kind)
    held = [TopicPartition(topic, number) for number in range(3)]
    moved = {place: Commit(120, None, "moved") for place in places}
    with ThreadPoolExecutor(1) as pool, KafkaWorld(bootstrap) as others:
        with cluster.join_exclusively(group, kind, held) as membership:
            if comes == "classic":
                subscription = by_hand._subscription([topic])
                joined = pool.submit(by_hand.joined_as, others, group, subscription, ("cooperative-sticky",))
                wait_for(lambda: len(described(cluster, group).members or ()) == 2, "a second member")
                assert not joined.done() or kind == "consumer"
            else:
                epoch, partitions = given(world, group, 0, topic)
                assert not partitions
            with pytest.raises(Refused, match=r"127\.0\.0\.1") as caught:
                membership.verify_only_member()
            assert caught.value.code == "not-empty"
            if comes == "consumer":
                for _ in range(20):
                    epoch, partitions = given(world, group, epoch, topic)
                    assert not partitions
            assert membership.commit(moved) == dict.fromkeys(places)
            if comes == "consumer":
                assert not given(world, group, epoch, topic)[1]
        if comes == "classic":
            assert joined.result(30).error_code == 0
        else:
            wait_for(lambda: given(world, group, epoch, topic)[1] == [0, 1, 2], "the newcomer's partitions")
    assert {place: offset for place, (offset, *_) in world.exact(group).items()} == {
        places[0]: 120,
        places[1]: 120,
        (topic, 2): 7,
    }


@pytest.mark.parametrize(
    ("kind", "comes", "before"),
    [
        ("classic", "classic", "JoinGroup"),
        ("classic", "consumer", "JoinGroup"),
        ("classic", "consumer", "SyncGroup"),
        ("consumer", "consumer", "ConsumerGroupHeartbeat"),
        ("consumer", "classic", "ConsumerGroupHeartbeat"),
    ],
)
def test_who_comes_while_we_enter_goes_on_and_is_named(
    cluster: ChangingCluster,
    world: KafkaWorld,
    members: Members,
    topic: str,
    places: Places,
    empty: Name,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    comes: str,
    before: str,
) -> None:
    group = empty(kind)
    offsets = world.exact(group)

    def come() -> None:
        if kind == comes == "classic":  # the broker waits until it has joined anew
            members.stable(members.classic(group, topic), partitions=3)
        else:
            enter(world, comes, group, topic)

    happened = just_before(monkeypatch, before, come)
    with pytest.raises(Refused, match=r"127\.0\.0\.1") as caught, cluster.join_exclusively(group, kind, places):
        pass
    assert happened
    assert caught.value.code == "not-empty"
    assert [member.instance_id for member in described(cluster, group).members or ()] == [None]
    assert world.exact(group) == offsets


# --- runs that stop, die, and wake


@pytest.mark.parametrize("inside", [False, True], ids=["successor-gone", "successor-inside"])
def test_a_run_that_stood_still_moves_nothing_when_it_wakes(
    cluster: ChangingCluster, world: KafkaWorld, bootstrap: str, places: Places, empty: Name, kind: str, inside: bool
) -> None:
    group = empty(kind)
    with holder(bootstrap, group, kind, places) as first:
        assert first.says() == {"held": True}
        first.stop()
        with cluster.join_exclusively(group, kind, places) as membership:
            assert membership.commit(dict.fromkeys(places, Commit(70, None, "back"))) == dict.fromkeys(places)
            if inside:
                first.wake()
                assert first.ask("commit 120") == "superseded"
                assert first.ask("alone") == "superseded"
                assert first.leave() == {"left": True}
                membership.verify_only_member()
                assert membership.commit({places[0]: Commit(71, None, "back")}) == {places[0]: None}
        if not inside:
            first.wake()
            assert first.ask("commit 120") == "superseded"
    assert world.groups()[group] == (kind, "empty")
    assert world.exact(group)[places[1]] == (70, "back", None)
    assert world.exact(group)[places[0]] == (71 if inside else 70, "back", None)


def test_a_group_that_went_on_without_us_takes_no_commit(
    cluster: ChangingCluster, world: KafkaWorld, places: Places, empty: Name, kind: str
) -> None:
    """Our generation, or epoch, is not the group's any more: that ends the membership, and is not a row's own error."""
    group = empty(kind)
    before = world.exact(group)
    with cluster.join_exclusively(group, kind, places) as membership:
        membership._membership = replace(membership._membership, epoch=membership._membership.epoch + 5)
        with pytest.raises(Unreachable, match="no other member is in the group"):
            membership.commit(dict.fromkeys(places, Commit(120, None, "moved")))
    assert world.exact(group) == before


@pytest.mark.soak
@pytest.mark.parametrize("dropped", [1, 1_000])
def test_a_member_that_the_coordinator_drops_while_it_joins(
    bootstrap: str, world: KafkaWorld, places: Places, empty: Name, monkeypatch: pytest.MonkeyPatch, dropped: int
) -> None:
    """As when a broker dies: it joins again, for so long as it may; the group never counts as not Empty."""
    group, synced = empty("classic"), list[int]()
    request = Membership.sync_request

    def outdated(membership: Membership, protocol: str) -> Any:
        synced.append(membership.epoch)
        late = len(synced) <= dropped
        return request(replace(membership, epoch=membership.epoch + 5) if late else membership, protocol)

    monkeypatch.setattr(Membership, "sync_request", outdated)
    monkeypatch.setattr(exclusive, "_INITIAL_DELAY_S", 0.0)
    with connected(bootstrap, timeout="5s" if dropped > 1 else "30s") as cluster:
        membership = cluster.join_exclusively(group, "classic", places)
        if dropped > 1:
            with pytest.raises(Unreachable, match="no other member is in the group"), membership:
                pass
        else:
            with membership:
                assert membership.commit({places[0]: Commit(71, None, "moved")}) == {places[0]: None}
    assert len(synced) > 1
    assert world.groups()[group] == ("classic", "empty")


def test_a_run_that_stood_still_while_an_application_started(
    world: KafkaWorld, bootstrap: str, topic: str, places: Places, empty: Name, other: ChangingCluster, kind: str
) -> None:
    group = empty(kind)
    leaver = MemberToRemove(None, "kgroup-catchup")
    with holder(bootstrap, group, kind, places) as first:
        assert first.says() == {"held": True}
        first.stop()
        assert other.remove_members(group, [leaver]) == {leaver: None}  # or its session ends
        enter(world, kind, group, topic)
        before = world.exact(group)
        first.wake()
        assert first.ask("commit 120") == "not-empty"
        assert first.leave() == {"left": True}
    assert world.exact(group) == before
    assert len(described(other, group).members or ()) == 1


def test_a_killed_run_is_removed_by_its_successor_at_once(
    cluster: ChangingCluster, world: KafkaWorld, bootstrap: str, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    world.configure_group(group, consumer_session_timeout_ms="60000")
    with holder(bootstrap, group, kind, places, session_ms=60_000) as first:
        assert first.says() == {"held": True}
        first.kill()
        assert world.groups()[group] == (kind, "stable")
        start = time.monotonic()
        with cluster.join_exclusively(group, kind, places) as membership:
            assert membership.commit({places[0]: Commit(9, None, "")}) == {places[0]: None}
        assert time.monotonic() < start + 30, "not when its session ends"
    assert world.groups()[group] == (kind, "empty")


def test_the_member_of_a_killed_run_goes_by_itself(
    world: KafkaWorld, bootstrap: str, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    world.configure_group(group, consumer_session_timeout_ms="1000")
    with holder(bootstrap, group, kind, places, session_ms=1000) as first:
        assert first.says() == {"held": True}
        first.kill()
        wait_for(lambda: world.groups()[group] == (kind, "empty"), "the end of the session")


def test_it_leaves_after_an_exception_and_after_ctrl_c(
    cluster: ChangingCluster, world: KafkaWorld, bootstrap: str, places: Places, empty: Name, kind: str
) -> None:
    group = empty(kind)
    with pytest.raises(ZeroDivisionError), cluster.join_exclusively(group, kind, places):
        _ = 1 / 0
    assert world.groups()[group] == (kind, "empty")
    world.configure_group(group, consumer_session_timeout_ms="60000")
    with holder(bootstrap, group, kind, places, session_ms=60_000) as interrupted:
        assert interrupted.says() == {"held": True}
        start = time.monotonic()
        interrupted.interrupt()
        assert [interrupted.says(), interrupted.says()] == [{"interrupted": True}, {"left": True}]
        assert time.monotonic() < start + 30, "not when its session ends"
        assert world.groups()[group] == (kind, "empty")


# --- answers that get lost


ORDERS = [TopicPartition("proxied-orders", 0), TopicPartition("proxied-orders", 1)]


def fresh(proxied: ProxiedBroker, kind: str, name: Name) -> str:
    group = name("svc")
    proxied.world.commit(group, {("proxied-orders", 0): (3, "", None), ("proxied-orders", 1): (5, "at 5", 0)})
    if kind == "consumer":
        to_consumer(proxied.world, group)
    return group


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
def test_a_commit_without_an_answer_is_not_known_and_not_tried_again(
    proxied: ProxiedBroker, name: Name, kind: str, loss: Loss
) -> None:
    group = fresh(proxied, kind, name)
    before = proxied.world.exact(group)
    with connected(proxied.bootstrap) as cluster:
        with cluster.join_exclusively(group, kind, ORDERS) as membership:
            position = cluster.end_of_commits(group)
            proxied.proxy.reset()
            proxied.proxy.expect(Fault(OFFSET_COMMIT, loss))
            with pytest.raises(Unreachable) as caught:
                membership.commit({TopicPartition("proxied-orders", 0): Commit(120, None, "moved")})
            assert caught.value.code == "outcome-unknown"
            assert proxied.proxy.forwarded[OFFSET_COMMIT] == (loss is Loss.ANSWER)
        assert proxied.world.groups()[group] == (kind, "empty")
        history = cluster.commits_since(group, position, 30)
    stored = [(commit.offset, commit.metadata) for commit in history.commits]
    assert stored == ([(120, "moved")] if loss is Loss.ANSWER else [])
    after = proxied.world.exact(group)
    assert after == ({**before, ("proxied-orders", 0): (120, "moved", None)} if loss is Loss.ANSWER else before)


def test_a_commit_that_the_coordinator_did_not_look_at_is_sent_again(
    proxied: ProxiedBroker, name: Name, kind: str
) -> None:
    group = fresh(proxied, kind, name)
    with connected(proxied.bootstrap) as cluster, cluster.join_exclusively(group, kind, ORDERS) as membership:
        fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REFUSED))
        assert membership.commit({TopicPartition("proxied-orders", 0): Commit(120, None, "moved")}) == {
            ("proxied-orders", 0): None
        }
        assert fault.met.is_set()
    assert proxied.world.exact(group)["proxied-orders", 0] == (120, "moved", None)


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
@pytest.mark.parametrize(
    ("kind", "api_key", "skip"),
    [("classic", JOIN_GROUP, 0), ("classic", SYNC_GROUP, 0), ("classic", LEAVE_GROUP, 0), ("consumer", HEARTBEAT, 0)],
)
def test_entering_and_leaving_are_tried_again(
    proxied: ProxiedBroker, name: Name, kind: str, api_key: int, skip: int, loss: Loss
) -> None:
    group = fresh(proxied, kind, name)
    with connected(proxied.bootstrap) as cluster:
        fault = proxied.proxy.expect(Fault(api_key, loss, skip))
        with cluster.join_exclusively(group, kind, ORDERS) as membership:
            assert membership.commit({TopicPartition("proxied-orders", 0): Commit(120, None, "moved")}) == {
                ("proxied-orders", 0): None
            }
        assert membership.leave_error is None
        assert fault.met.is_set()
    assert proxied.world.groups()[group] == (kind, "empty")


def test_a_member_that_cannot_leave_is_told(
    proxied: ProxiedBroker, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = fresh(proxied, "classic", name)
    with connected(proxied.bootstrap) as cluster:
        with monkeypatch.context() as impatient, cluster.join_exclusively(group, "classic", ORDERS) as membership:
            proxied.proxy.expect(Fault(LEAVE_GROUP, Loss.REQUEST, always=True))
            impatient.setattr(exclusive, "_LEAVING_S", 1.5)
        assert isinstance(membership.leave_error, KgroupError)
        proxied.proxy.reset()
        membership.leave()
    assert proxied.world.groups()[group] == ("classic", "empty")


@pytest.mark.parametrize(("kind", "api_key"), [("classic", JOIN_GROUP), ("consumer", HEARTBEAT)])
def test_ctrl_c_while_we_enter_leaves_nobody_behind(
    proxied: ProxiedBroker, name: Name, kind: str, api_key: int
) -> None:
    group = fresh(proxied, kind, name)
    fault = proxied.proxy.expect(Fault(api_key, Loss.NOTHING))
    with holder(proxied.bootstrap, group, kind, ORDERS) as interrupted:
        assert fault.met.wait(30)
        interrupted.interrupt()
        fault.go_on.set()
        assert [interrupted.says(), interrupted.says()] == [{"interrupted": True}, {"left": True}]
    assert proxied.world.groups()[group] == (kind, "empty")
