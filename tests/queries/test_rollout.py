"""Following real rollouts: members of both protocols in one group, there and back, and the trap of the first member."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from kgroup.cluster.snapshot import Cluster
from kgroup.groups.migration.rollout import ClassicMemberDocument
from kgroup.queries.rollout import Rollout, follow
from kgroup.sandbox import Sandbox
from kgroup.settings.model import Setting, Settings
from kgroup.support.errors import Unreachable
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
SETTLED_S = 0.5


def settings_for(bootstrap: str, timeout_s: float = 10.0) -> Settings:
    return Settings({"bootstrap.servers": Setting("bootstrap.servers", bootstrap, "-b")}, timeout_s=timeout_s)


@dataclass
class Following:
    """A rollout that is being followed, and what was said of it."""

    reporter: QuietReporter
    result: Future[Rollout]
    heard: int = 0

    def says(self, text: str) -> None:
        """Wait for a line with this text, after the one that was waited for last."""

        def said() -> bool:
            ended, lines = self.result.done(), self.reporter.lines
            found = next((at for at in range(self.heard, len(lines)) if text in lines[at]), None)
            assert found is not None or not ended, f"ended without {text!r}: {lines[self.heard :]}"
            self.heard = self.heard if found is None else found + 1
            return found is not None

        wait_for(said, f"{text!r} said", within_s=60)

    def ends(self) -> Rollout:
        """Wait for its end."""
        return self.result.result(120)


@contextmanager
def following(
    bootstrap: str, groups: tuple[str, ...], target: str, within_s: float = 120.0, timeout_s: float = 10.0
) -> Iterator[Following]:
    """Follow in a thread; ``within_s`` bounds it where the test fails."""
    reporter = QuietReporter()

    def run() -> Rollout:
        with Cluster(settings_for(bootstrap, timeout_s)) as cluster:
            return follow(reporter, cluster, groups, target, within_s, SETTLED_S)

    with ThreadPoolExecutor(1) as executor:
        yield Following(reporter, executor.submit(run))


def look(bootstrap: str, groups: tuple[str, ...], target: str) -> Rollout:
    """A single look."""
    with Cluster(settings_for(bootstrap)) as cluster:
        return follow(QuietReporter(), cluster, groups, target, 0.0, SETTLED_S)


def classic(members: Members, group: str, topic: str, client_id: str) -> Member:
    """A classic member of the range assignor.

    From its second generation on, what librdkafka's cooperative-sticky puts into assignments (userData) keeps the
    group from being upgraded while it runs.
    """
    return members.classic(group, topic, client_id=client_id)


def empty_consumer_group(world: KafkaWorld, members: Members, group: str, topic: str) -> None:
    """A group as it is after its migration: type consumer, no members, its commits."""
    world.commit(group, {(topic, 0): 0})
    member = members.consumer(group, topic)
    wait_for(lambda: member.assignment, "an assignment")
    member.close()
    wait_for(lambda: world.groups().get(group) == ("consumer", "empty"), "an empty consumer group")


@pytest.mark.soak
def test_up_and_down_again(bootstrap: str, world: KafkaWorld, members: Members, name: Name) -> None:
    """One member after the other is replaced while the group runs; then the same the other way."""
    topic, group = world.topic(name("orders"), partitions=4), name("pay-svc")
    old = classic(members, group, topic, "pay-0")
    members.stable(old, partitions=4)
    with following(bootstrap, (group,), "consumer") as up:
        up.says(f"ROLLOUT {group} 0 of 1 member speaks consumer, 0 partitions moved; still classic: pay-0 127.0.0.1")
        new = members.consumer(group, topic, client_id="new-0")
        members.stable(old, new, partitions=4)
        up.says(f"{group} 1 of 2 members speak consumer, epoch ")
        old.close()
        rollout = up.ends()
    assert rollout.finished
    assert up.reporter.lines[-1] == f"ROLLOUT {group} finished: 1 member, consumer"
    (found,) = rollout.groups
    assert (found.classic_member_count, found.consumer_member_count) == (0, 1)
    # What the first one held: half of it at once, the rest when it left.
    assert (found.moved_partition_count, found.reverted_count) == (4, 0)
    assert found.group_epoch == found.assignment_epoch
    assert (found.first_group_epoch or 0) < (found.group_epoch or 0)

    with following(bootstrap, (group,), "classic") as down:
        down.says("0 of 1 member speaks classic")
        again = classic(members, group, topic, "pay-0")
        members.stable(again, new, partitions=4)
        down.says("1 of 2 members speak classic")
        late = members.consumer(group, topic, client_id="late-0")
        down.says(f"ROLLOUT {group} a consumer member joined: late-0 127.0.0.1")
        members.stable(again, new, late, partitions=4)
        new.close()
        late.close()
        rollout = down.ends()
    (found,) = rollout.groups
    assert rollout.finished
    assert (found.classic_member_count, found.consumer_member_count) == (1, 0)
    assert (found.group_epoch, found.assignment_epoch) == (None, None)
    assert found.moved_partition_count >= 4
    assert found.reverted_count == 0
    assert found.type == "classic"
    assert not any(line.startswith("REVERTED") for line in up.reporter.lines + down.reporter.lines)


@pytest.mark.soak
def test_one_classic_member_joins_first(bootstrap: str, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("pay-svc")
    empty_consumer_group(world, members, group, topic)
    with following(bootstrap, (group,), "consumer") as watch:
        watch.says(f"ROLLOUT {group} is Empty, of type consumer: the first member that joins decides")
        old = classic(members, group, topic, "pay-0")
        watch.says(f"REVERTED {group} is classic again: a classic member (pay-0 127.0.0.1) joined first")
        members.stable(old, partitions=2)
        # All is not lost: the rollout may go on while the group runs, and be disturbed once more.
        new = members.consumer(group, topic, client_id="new-0")
        members.stable(old, new, partitions=2)
        watch.says("1 of 2 members speak consumer")
        new.close()
        watch.says(
            f"REVERTED {group} is classic again: its last consumer member has left, and a classic member (pay-0 127"
        )
        members.stable(old, partitions=2)
        newer = members.consumer(group, topic, client_id="new-1")
        members.stable(old, newer, partitions=2)
        old.close()
        (found,) = watch.ends().groups
    assert (found.finished, found.reverted_count) == (True, 2)
    assert (found.classic_member_count, found.consumer_member_count) == (0, 1)


@pytest.mark.soak
def test_several_groups_of_which_one_goes(bootstrap: str, world: KafkaWorld, members: Members, name: Name) -> None:
    """A group that vanishes is waited for; one that is there is followed to its end, and all are looked at on."""
    topic, gone, there = world.topic(name("orders")), name("gone"), name("there")
    empty_consumer_group(world, members, gone, topic)
    with following(bootstrap, (gone, there), "consumer") as watch:
        watch.says(f"{there} does not exist: waiting for it")
        world.delete_group(gone)
        watch.says(f"{gone} is gone")
        first = members.consumer(there, topic)
        watch.says(f"{there} finished: 1 member, consumer")
        members.consumer(gone, topic)
        rollout = watch.ends()
    first.kill()
    assert [(found.group, found.finished) for found in rollout.groups] == [(gone, True), (there, True)]
    assert rollout.groups[1].waited_ms < rollout.groups[0].waited_ms


def test_not_in_time(bootstrap: str, world: KafkaWorld, members: Members, name: Name) -> None:
    """One look is taken however little time there is; what is so already is finished at once."""
    topic, group, absent = world.topic(name("orders")), name("pay-svc"), name("absent")
    member = members.telling(group, topic, client_id="pay-0")
    members.stable(member, partitions=1)
    rollout = look(bootstrap, (group, absent), "consumer")
    assert not rollout.finished
    assert [found.group for found in rollout.groups if not found.finished] == [group, absent]
    first, second = rollout.groups
    assert member.member_id is not None
    assert first.remaining_members == (ClassicMemberDocument(member.member_id, "pay-0", None, "127.0.0.1"),)
    assert (first.type, first.state, first.finished, first.group_epoch) == ("classic", "Stable", False, None)
    assert (first.member_count, first.classic_member_count, first.reverted_count) == (1, 1, 0)
    assert (second.type, second.state, second.finished, second.group_epoch) == (None, None, False, None)
    assert (second.member_count, second.classic_member_count, second.reverted_count) == (0, 0, 0)
    assert look(bootstrap, (group,), "classic").finished
    assert look(bootstrap, (), "classic").finished


@pytest.mark.soak
def test_many_groups_are_said_in_one_line(bootstrap: str, world: KafkaWorld, name: Name) -> None:
    topic, stem = world.topic(name("orders")), name("svc")
    groups = tuple(f"{stem}-{number}" for number in range(7))
    for group in groups:
        world.commit(group, {(topic, 0): 0})
    with following(bootstrap, groups, "consumer", within_s=3.0) as watch:
        assert not watch.ends().finished
    (line,) = watch.reporter.lines
    assert line == (
        "ROLLOUT 0 of 7 groups finished: 0 of 0 members speak consumer, 0 partitions moved; "
        f"not yet: {', '.join(groups[:3])} and 4 more"
    )


@pytest.mark.soak
def test_cluster_that_stops_answering(tmp_path_factory: pytest.TempPathFactory, name: Name) -> None:
    """It is asked again until the time is over, or until it is back."""
    group = name("pay-svc")
    sandbox = Sandbox(tmp_path_factory.mktemp("hanging"))
    try:
        status = sandbox.up(properties=BROKER_PROPERTIES, reporter=QuietReporter())
        bootstrap, pid = status.bootstrap_servers, status.brokers[0].pid
        assert bootstrap
        assert pid
        with KafkaWorld(bootstrap) as world, Members(bootstrap) as members:
            topic = world.topic(name("orders"))
            with (
                following(bootstrap, (group,), "consumer", within_s=10.0, timeout_s=2.0) as short,
                following(bootstrap, (group,), "consumer", timeout_s=2.0) as long,
            ):
                for watch in (short, long):
                    watch.says("does not exist")
                os.kill(pid, signal.SIGSTOP)
                try:
                    for watch in (short, long):
                        watch.says("ROLLOUT no answer: ")
                    with pytest.raises(Unreachable):
                        short.ends()
                finally:
                    os.kill(pid, signal.SIGCONT)
                members.consumer(group, topic)
                assert long.ends().finished
        assert sum("no answer" in line for line in long.reporter.lines) < 4, "not a line for each look"
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())
