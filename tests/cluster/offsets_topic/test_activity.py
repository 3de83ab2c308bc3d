"""Who commits to an Empty group, read from ``__consumer_offsets`` of a real broker."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgroup.cluster import connection
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.activity import _SinceEmpty, recent_activity
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import topic_layouts
from kgroup.groups.active_committers import ActiveCommitter, active_committer
from kgroup.model.group_log import CommitWritten
from kgroup.model.groups import Activities, Activity, Group, LoggedCommit
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import NotAuthorized
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def cluster(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(connection, "_ACTIVITY_BUDGET_S", 60.0)  # what has no time left is told in a test of its own
    settings = resolve(Connection(bootstrap_server=bootstrap, timeout="30s"), QuietReporter(), environ={})
    with Cluster(settings) as cluster:
        yield cluster


def group_of(cluster: Cluster, name: str) -> Group:
    (group,) = cluster.describe([name], SnapshotRequest(logs=False, generation_budget_s=0)).groups
    return group


def activity_of(cluster: Cluster, name: str) -> Activity:
    activities = cluster.recent_activity([group_of(cluster, name)], now_ms())
    assert activities.note is None
    activity = activities.by_group[name]
    assert activity.complete
    return activity


def finding(cluster: Cluster, name: str, ours: Collection[tuple[str, int, int]] = ()) -> ActiveCommitter | None:
    simple = group_of(cluster, name).is_simple
    return active_committer(activity_of(cluster, name), ours, now_ms(), simple=simple)


def now_ms() -> int:
    return round(time.time() * 1000)


def confluent_consumer(
    world: KafkaWorld, group: str, protocol: str = "classic", *, auto_commit: bool = False
) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": auto_commit,
            "auto.offset.reset": "earliest",
        }
    )


@contextlib.contextmanager
def committing(client: str, world: KafkaWorld, group: str, topic: str) -> Iterator[None]:
    """A consumer with assign() that commits every 200 ms, without being a member."""
    done, failed = threading.Event(), list[BaseException]()

    def with_confluent() -> None:
        consumer = confluent_consumer(world, group)
        consumer.assign([TopicPartition(topic, 0, 0)])
        for offset in range(1, 1000):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            if done.wait(0.2):
                break
        consumer.close()

    def with_kafka_python() -> None:
        import kafka
        from kafka.structs import OffsetAndMetadata

        consumer = kafka.KafkaConsumer(bootstrap_servers=world.bootstrap, group_id=group, enable_auto_commit=False)
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        for offset in range(1, 1000):
            consumer.commit({place: OffsetAndMetadata(offset, "", 0)})
            if done.wait(0.2):
                break
        consumer.close()

    def run() -> None:
        try:
            {"confluent": with_confluent, "kafka-python": with_kafka_python}[client]()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(30)
        assert not failed


def formerly_subscribed(world: KafkaWorld, members: Members, protocol: str, group: str, topic: str) -> None:
    """A member that has read, committed and left."""
    member = members.classic(group, topic) if protocol == "classic" else members.consumer(group, topic)
    members.stable(member, partitions=1)
    member.commit()
    member.close()
    wait_for(lambda: world.groups()[group] == (protocol, "empty"), "Empty")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_consumer_that_commits_to_an_empty_group_is_found(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name, protocol: str, client: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    before_ms = now_ms()
    formerly_subscribed(world, members, protocol, group, topic)

    quiet = activity_of(cluster, group)
    assert quiet.emptied_at_ms is not None
    assert before_ms <= quiet.emptied_at_ms <= now_ms()
    assert quiet.commits == ()

    with committing(client, world, group, topic):
        found = wait_for(lambda: finding(cluster, group), "the committer")
        wait_for(lambda: (later := finding(cluster, group)) and later.count >= 3, "more of its commits")
    assert (found.last.topic, found.last.partition, found.since_ms) == (topic, 0, quiet.emptied_at_ms)
    activity = activity_of(cluster, group)
    assert [commit.offset for commit in activity.commits] == list(range(1, len(activity.commits) + 1))
    assert world.committed(group)[topic, 0][0] == activity.commits[-1].offset

    ours = [(commit.topic, commit.partition, commit.offset) for commit in activity.commits]
    assert finding(cluster, group, ours) is None


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_consumer_that_commits_to_a_group_without_members_is_found_by_its_rhythm(
    cluster: Cluster, world: KafkaWorld, name: Name, client: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 100})
    assert group_of(cluster, group).is_simple
    assert activity_of(cluster, group).emptied_at_ms is None
    assert finding(cluster, group) is None, "an administrator's commit alone"
    world.commit(group, {(topic, 0): 101})
    assert finding(cluster, group) is None

    with committing(client, world, group, topic):
        wait_for(lambda: finding(cluster, group), "the committer")


def _read_and_close(world: KafkaWorld, group: str, topic: str, protocol: str = "classic") -> None:
    consumer = confluent_consumer(world, group, protocol, auto_commit=True)
    consumer.subscribe([topic])
    wait_for(lambda: consumer.consume(5, 0.2), "records")
    consumer.close()


def _read_and_close_kafka_python(world: KafkaWorld, group: str, topic: str) -> None:
    import kafka

    for last_try in (False, False, True):
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=world.bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        try:
            wait_for(partial(consumer.poll, timeout_ms=200), "records", 8.0)
            return
        except AssertionError:  # now and then it polls for ever, and gets nothing
            if last_try:
                raise
        finally:
            consumer.close()


CLOSING: dict[str, Callable[[KafkaWorld, str, str], None]] = {
    "confluent": _read_and_close,
    "consumer protocol": partial(_read_and_close, protocol="consumer"),
    "kafka-python": _read_and_close_kafka_python,
}


@pytest.mark.parametrize("client", CLOSING)
def test_the_closing_commit_of_the_last_member_does_not_count(
    cluster: Cluster, world: KafkaWorld, name: Name, client: str
) -> None:
    """Read as soon as close() returns; each time a new group."""
    topic = world.topic(name("orders"))
    world.produce(topic, 5)
    for _ in range(3):
        group = name("svc")
        CLOSING[client](world, group, topic)
        described = group_of(cluster, group)
        committed = {(p.topic, p.partition) for p in described.partitions if p.commit}
        assert (described.state, committed) == ("Empty", {(topic, 0)})

        assert finding(cluster, group) is None
        assert activity_of(cluster, group).emptied_at_ms is not None


@pytest.mark.parametrize("end", ["commit", "abort", None])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_commits_in_transactions_count_unless_they_were_aborted(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name, protocol: str, end: str | None
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    formerly_subscribed(world, members, protocol, group, topic)
    consumer = confluent_consumer(world, group)
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata(), 30)
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)

    # Markers are written behind the answer to the producer.
    wait_for(lambda: (finding(cluster, group) is not None) == (end != "abort"), "what counts")
    if end is None:
        producer.abort_transaction(30)
        wait_for(lambda: finding(cluster, group) is None, "nothing after its end")
    consumer.close()


def test_an_abort_is_known_though_it_lies_in_another_window_than_the_commit(
    cluster: Cluster, world: KafkaWorld, name: Name
) -> None:
    """The newest window has 64 records; 100 lie between."""
    topic, wide, group = world.topic(name("orders")), world.topic(name("wide"), partitions=100), name("svc")
    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": group})
    consumer = confluent_consumer(world, group)
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer.init_transactions(30)
    for offset, commit in ((3, True), (4, False)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30)
        world.commit(group, {(wide, number): offset for number in range(100)})
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    consumer.close()

    def found() -> list[int]:
        return [c.offset for c in activity_of(cluster, group).commits if c.topic == topic]

    # The marker is written behind the answer to the producer.
    wait_for(lambda: found() == [3], "the committed one alone")


def test_commits_of_a_group_with_members_are_not_asked_for(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    member = members.classic(group, topic)
    members.stable(member, partitions=1)

    assert cluster.recent_activity([group_of(cluster, group)], now_ms()) == Activities({}, None)


def test_a_group_that_was_deleted_and_made_again_begins_anew(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    formerly_subscribed(world, members, "classic", group, topic)
    world.commit(group, {(topic, 0): 4})
    assert finding(cluster, group), "after it became Empty"
    world.delete_group(group)
    world.commit(group, {(topic, 0): 2})

    assert [commit.offset for commit in activity_of(cluster, group).commits] == [2]
    assert finding(cluster, group) is None


def test_many_groups_are_read_in_one_scan(cluster: Cluster, world: KafkaWorld, name: Name) -> None:
    topic, groups = world.topic(name("orders"), partitions=2), [name(f"svc-{n}") for n in range(12)]
    for number, group in enumerate(groups):
        world.commit(group, {(topic, 0): number, (topic, 1): 7})
    world.commit(groups[0], {(topic, 0): 99})

    activities = cluster.recent_activity([group_of(cluster, group) for group in groups], now_ms())

    assert activities.note is None
    for number, group in enumerate(groups):
        seen = sorted((c.partition, c.offset) for c in activities.by_group[group].commits)
        assert seen == [(0, number), *([(0, 99)] if number == 0 else []), (1, 7)]


def test_commits_of_one_request_are_read_at_once_and_as_one_by_one(
    cluster: Cluster, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = world.topic(name("orders"), partitions=120), name("svc")
    rows = [(number, number * 7, f"row {number % 3}", number % 2 or None) for number in range(120)]
    world.commit(group, {(topic, number): (offset, text, epoch) for number, offset, text, epoch in rows})
    world.commit(group, dict.fromkeys(((topic, number) for number in range(60)), 5))
    runs: list[int] = []
    as_run = _SinceEmpty.add_run

    def counted(self: _SinceEmpty, commits: list[CommitWritten]) -> None:
        runs.append(len(commits))
        as_run(self, commits)

    monkeypatch.setattr(_SinceEmpty, "add_run", counted)
    at_once = activity_of(cluster, group)
    monkeypatch.setattr(_SinceEmpty, "add_run", None)
    one_by_one = activity_of(cluster, group)

    assert sum(runs) > 100
    assert [*at_once.commits] == [*one_by_one.commits]
    assert [(c.partition, c.offset, c.metadata, c.leader_epoch) for c in at_once.commits] == [
        *rows,
        *((number, 5, "", None) for number in range(60)),
    ]


def test_what_lies_before_the_span_is_left_out(cluster: Cluster, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 3})
    described = group_of(cluster, group)

    found = cluster.recent_activity([described], now_ms() + 11 * 60_000).by_group[group]
    assert found == Activity(None, (), complete=True)
    (commit,) = cluster.recent_activity([described], now_ms() + 9 * 60_000).by_group[group].commits
    assert commit == LoggedCommit(topic, 0, 3, None, commit.timestamp_ms, commit.log_offset)
    assert abs(now_ms() - commit.timestamp_ms) < 60_000


def test_without_the_right_or_the_time_there_is_a_note_and_no_finding(
    cluster: Cluster, world: KafkaWorld, name: Name
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 3})
    client = cluster._client

    async def without(denied: bool, budget_s: float) -> Activities:
        layout = (await topic_layouts(client, [OFFSETS_TOPIC]))[OFFSETS_TOPIC]
        refused = NotAuthorized("may not be read: no READ on Topic")
        return await recent_activity(client, refused if denied else layout, {group: 0}, Deadline.after(budget_s))

    denied = client.run(without, True, 5, deadline=Deadline.after(30))
    assert denied.by_group == {}
    assert denied.note == (
        "it is unknown whether another client is committing: __consumer_offsets may not be read: no READ on Topic"
    )
    late = client.run(without, False, 0, deadline=Deadline.after(30))
    assert late.by_group == {group: Activity(None, (), complete=False)}
    assert late.note is not None
    assert late.note.startswith("it is unknown whether another client is committing: ")
