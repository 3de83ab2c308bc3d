"""``kgroup history``: what live members of both protocols did, read back from the log of a real broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.running import running
from tests.helpers.waiting import read_line, wait_for

Name = Callable[[str], str]
PROTOCOLS = ("classic", "consumer")
Document = dict[str, Any]


def document(kgroup: CommandLine, group: str, *more: str) -> Document:
    (found,) = kgroup("history", group, "-o", "json", *more).data
    return found


def causes(found: Document) -> list[tuple[str, tuple[str, ...]]]:
    """(cause, members) of all steps, oldest first."""
    return [(reason["cause"], tuple(reason["members"])) for step in found["steps"] for reason in step["causes"]]


def held(one: Document) -> int:
    """How many partitions a member has in a step."""
    return sum(len(topic["partitions"]) for topic in one["assignment"])


def member(members: Members, protocol: str, group: str, *topics: str, **settings: Any) -> Member:
    return (members.classic if protocol == "classic" else members.consumer)(group, *topics, **settings)


def emptied(world: KafkaWorld, group: str) -> None:
    wait_for(lambda: world.groups()[group][1] == "empty", "Empty")


def committing(members: Iterable[Member], until: Callable[[], object], what: str) -> None:
    """Have members commit twice a second or so until it is so."""

    def done() -> bool:
        for one in members:
            one.commit()
        return bool(until())

    wait_for(done, what)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_joined_and_left_and_what_moved(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, protocol: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    first = member(members, protocol, group, topic, client_id="a")
    members.stable(first, partitions=4)
    first.commit()
    second = member(members, protocol, group, topic, client_id="b")
    members.stable(first, second, partitions=4)
    second.commit()

    live = document(kgroup, group)
    steps = [step for step in live["steps"] if step["step_kind"] == "rebalance"]
    assert causes(live)[0] == ("join", ("a",))
    assert ("join", ("b",)) in causes(live)
    newest = steps[-1]
    assert {one["name"]: held(one) for one in newest["members"]} == {"a": 2, "b": 2}
    assert (newest["moved_count"], newest["moved_needlessly_count"]) == (2, 2)
    assert newest["lasted_ms"] is None
    if protocol == "classic":
        assert newest["leader"] == "a"
        assert newest["assignor"] == "range"
    (described,) = kgroup("describe", group, "-o", "json").data
    assert newest["number"] == (described["generation"] or described["group_epoch"])
    assert (live["state"], live["over"], live["scan"]["complete"], live["scan"]["stopped_reason"]) == (
        "Stable",
        False,
        True,
        None,
    )

    second.close()
    members.stable(first, partitions=4)
    first.close()
    emptied(world, group)
    after = document(kgroup, group)
    assert [cause for cause in causes(after) if cause[0] == "leave"] == [("leave", ("b",)), ("leave", ("a",))]
    assert after["totals"]["rebalance_count"] == len(
        [step for step in after["steps"] if step["step_kind"] == "rebalance"]
    )
    assert (after["state"], after["steps"][-1]["step_kind"]) == ("Empty", "empty")

    page = kgroup("history", group, "--since", "30m").stdout
    assert page.startswith(group)
    assert "Empty: last rebalance " in page
    assert "no record of the span is missing" in page
    rows = kgroup("history", group, "-o", "csv").rows
    assert [row["causes"] for row in rows if "leave" in row["causes"]] == ["leave b", "leave a"]
    assert "leave" in kgroup("history", group, "-o", "markdown").stdout
    earlier = document(kgroup, group, "--since", "2h", "--until", "1h")
    assert (earlier["steps"], earlier["over"]) == ([], None)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_died_and_one_that_was_too_slow_are_told_apart(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=3), name("svc")
    world.configure_group(group, **{"consumer.session.timeout.ms": "4000"})
    settings = {"session_timeout_ms": 4000} if protocol == "classic" else {}
    stays = member(members, protocol, group, topic, client_id="stays", **settings)
    dies = member(members, protocol, group, topic, client_id="dies", **settings)
    slow = member(members, protocol, group, topic, client_id="slow", max_poll_interval_ms=9000, **settings)
    members.stable(stays, dies, slow, partitions=3)
    for _ in range(4):
        for one in (stays, slow, dies):  # who dies at last: its session has hardly begun
            one.commit()
    dies.kill()
    committing([stays, slow], lambda: len(stays.assignment or ()) + len(slow.assignment or ()) == 3, "2 members")
    slow.hold()
    committing([stays], lambda: len(stays.assignment or ()) == 3, "1 member")
    found = causes(document(kgroup, group))
    went = [cause for cause in found if cause[0] in ("leave", "gone", "session-expired", "poll-interval-exceeded")]
    assert went == [("session-expired", ("dies",)), ("poll-interval-exceeded", ("slow",))]
    page = kgroup("history", group).stdout
    assert "session-expired (inferred, or a close after that silence): dies" in page
    if protocol == "classic":
        (described,) = kgroup("describe", group, "-o", "json").data
        assert described["verdict"]["next"].startswith("dies left: its session ended at ")


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rollouts_and_three_times_all_at_once_that_are_restarts(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str
) -> None:
    """Each of two members is replaced by a new one of its name, three times; then both at once, three times."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    both = [member(members, protocol, group, topic, client_id=f"pod-{number}") for number in range(2)]
    members.stable(*both, partitions=2)

    def roll() -> list[tuple[str, tuple[str, ...], str]]:
        for one, other in (both, both[::-1]):
            one.close()
            members.stable(other, partitions=2)
            one.start_again()
            members.stable(*both, partitions=2)
        return named()

    def fail() -> list[tuple[str, tuple[str, ...], str]]:
        for one in both:
            one.close()
        for one in both:
            one.start_again()
        members.stable(*both, partitions=2)
        return named()

    def named() -> list[tuple[str, tuple[str, ...], str]]:
        found = document(kgroup, group)["signatures"]
        return [(one["signature"], tuple(one["members"]), one["text"].partition(", in ")[0]) for one in found]

    assert roll() == [("rollout", ("pod-0", "pod-1"), "2 of 2 members replaced once")]
    assert "CAUSE    4  rollout " in kgroup("history", group).stdout
    assert [one[0] for one in roll()] == ["rollout", "rollout"]
    assert [one[0] for one in roll()] == ["rollout"] * 3
    assert [one[0] for one in (fail(), fail())[-1]] == ["rollout"] * 5
    assert fail()[3:] == [("restarts", ("pod-0", "pod-1"), "all members replaced 3 times")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_static_members_and_partitions_added(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    settings = {"group_instance_id": "pod-0", "topic_metadata_refresh_interval_ms": 200}
    only = member(members, protocol, group, topic, client_id="one", **settings)
    members.stable(only, partitions=2)
    only.commit()
    before = document(kgroup, group)
    if protocol == "consumer":
        only.close()  # else its place is kept from itself too, until its session ends
    only.start_again()
    members.stable(only, partitions=2)
    only.commit()
    replaced = document(kgroup, group)
    assert replaced["totals"]["rebalance_count"] == before["totals"]["rebalance_count"]
    assert causes(replaced)[-1] == ("static-member-replaced", ("pod-0",))
    assert replaced["totals"]["returned_count"] == 1
    assert replaced["totals"]["moved_needlessly_count"] == 0

    world.add_partitions(topic, 3)
    members.stable(only, partitions=3)
    added = document(kgroup, group)
    assert causes(added)[-1] == ("partitions-changed", ())


@pytest.mark.soak
def test_deleted_and_made_anew_a_reset_and_who_is_not_there(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 5)
    first = members.classic(group, topic, client_id="a")
    members.stable(first, partitions=2)
    first.commit()
    first.close()
    emptied(world, group)
    done = kgroup("reset", group, "--to-offset", "3", "--topic", f"{topic}:0", "--execute", "-o", "json")
    change = done.data[0]["change_id"]
    found = document(kgroup, group, "--commits", "--topic", f"{topic}:0")
    (jump,) = (jump for jump in found["commits"]["jumps"] if jump["move"] == "reset")
    page = kgroup("history", group).stdout
    assert f"reset of 1 partition by kgroup, change {change}" in page
    assert f"-> kgroup history {group} --commits" in page
    assert (jump["author"], jump["author_name"]) == ("kgroup", change)
    assert [moved["new_offset"] for moved in jump["partitions"]] == [3]
    assert {moved["partition"] for one in found["commits"]["jumps"] for moved in one["partitions"]} == {0}
    assert kgroup("history", group, "--commits", "-o", "csv").rows[-1]["author"] == "kgroup"
    world.commit(group, {(topic, 0): 2})
    assert kgroup("history", group, "--commits", "-o", "csv").rows[-1]["author"] == "no-member"
    assert "reset of 1 partition by no member" in kgroup("history", group).stdout

    world.commit(group, {(topic, 1): (5, "kgroup cu-abcd 1 release", None)})
    released = document(kgroup, group, "--commits")["commits"]["jumps"][-1]
    assert (released["move"], released["author"], released["author_name"]) == ("reset", "kgroup", "cu-abcd")

    world.delete_group(group)
    gone = document(kgroup, group)  # nobody but the log knows it now
    assert (gone["state"], gone["steps"][-1]["step_kind"]) == (None, "deleted")
    kgroup("history", group + "-x", exit_code=5)
    partly = kgroup("history", group, group + "-x", "-o", "json", exit_code=7)
    assert [one["group"] for one in partly.data] == [group]
    assert [error["code"] for error in partly.json["errors"]] == ["not-found"]

    again = members.classic(group, topic, client_id="b")
    members.stable(again, partitions=2)
    anew = document(kgroup, group)
    assert [step["step_kind"] for step in anew["steps"]][-2:] == ["deleted", "rebalance"]
    assert (causes(anew)[-1], anew["steps"][-1]["moved_count"]) == (("join", ("b",)), 0)
    deleted = document(kgroup, group, "--commits")["commits"]["jumps"][-1]
    assert (deleted["move"], deleted["author"], len(deleted["partitions"])) == ("deleted", "unknown", 2)


def test_offsets_of_a_topic_that_was_made_again_have_no_undo(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    """The broker deletes them with the topic; an undo would refuse them (topic-recreated)."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    one = members.classic(group, topic)
    members.stable(one, partitions=1)
    one.commit()
    one.close()
    emptied(world, group)
    world.delete_topic(topic)
    wait_for(lambda: not world.committed(group), "offsets deleted with their topic")
    before = document(kgroup, group, "--commits")["commits"]["jumps"][-1]
    world.produce(world.topic(topic), 5)
    world.commit(group, {(topic, 0): 2})

    jumps = document(kgroup, group, "--commits")["commits"]["jumps"]

    (deleted,) = (jump for jump in jumps if jump["move"] == "deleted")
    assert (before["move"], before["command"] is None, deleted["command"]) == ("deleted", False, None)


def test_records_that_were_deleted_before_they_were_read(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    """A member at 5 commits 9000 next; whether the first 2000 had been deleted before, the log does not show."""
    topic, group = world.topic(name("invoices")), name("svc")
    world.produce(topic, 9_000)
    member = by_hand.join(world, group, {topic: [0]})
    for offset in (1, 2, 3, 4, 5, 9_000):
        member.commit(topic, 0, offset)
    assert document(kgroup, group, "--commits")["commits"]["jumps"][0]["command"] is not None
    assert "passed-over" not in kgroup("doctor", group).stdout
    world.delete_records(topic, 0, 2_000)

    (jump,) = document(kgroup, group, "--commits")["commits"]["jumps"]

    assert (jump["move"], jump["command"]) == ("forward", None)
    assert jump["partitions"] == [
        {"topic": topic, "partition": 0, "old_offset": 5, "new_offset": 9_000, "log_start_offset": 2_000}
    ]
    rest, command = "5 to 1999 are gone, 2000 to 8999 are still there", f"catchup start --range {topic}:0=2000-9000"
    page = kgroup("history", group, "--commits").stdout
    assert rest in " ".join(page.split())
    verdict = kgroup("describe", group, "-o", "json").data[0]["verdict"]
    assert verdict["conclusion"]["cause"] == "passed-over"
    assert rest in verdict["next"]
    (finding,) = (
        each for each in kgroup("doctor", group, "-o", "json").data[0]["findings"] if each["rule"] == "passed-over"
    )
    assert rest in finding["evidence"]
    assert all(command in each for each in (page, verdict["commands"][1], finding["commands"][0]))
    member.leave()


@pytest.mark.soak
def test_two_writers_of_a_partition_are_not_its_owner(
    kgroup: CommandLine, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    """A member commits where it stood before another got the partition: the coordinator lets it."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    owner, stale = (Consumer(settings | {"client.id": client}) for client in ("owner", "stale"))
    try:
        for one in (owner, stale):
            one.subscribe([topic])

        def each_has_one() -> bool:
            for one in (owner, stale):
                one.poll(0.05)
            return [len(one.assignment()) for one in (owner, stale)] == [1, 1]

        wait_for(each_has_one, "a partition each")
        (place,) = owner.assignment()
        world.produce(topic, 1200, place.partition)
        for offset in range(1000, 1060, 10):
            owner.commit(offsets=[TopicPartition(topic, place.partition, offset)], asynchronous=False)
            stale.commit(offsets=[TopicPartition(topic, place.partition, 10)], asynchronous=False)

        found = document(kgroup, group, "--commits")
        page = kgroup("history", group, "--commits").stdout
        (lag,) = kgroup("lag", group, "-o", "json").data
    finally:
        for one in (owner, stale):
            one.close()
    (jump,) = found["commits"]["jumps"]
    assert (jump["move"], jump["author"], jump["author_name"]) == ("alternating", "a-member", "owner")
    told = jump["alternation"]
    assert (told["writers"], told["fall_count"], told["last_low_offset"], told["last_high_offset"]) == (
        "two",
        6,
        10,
        1050,
    )
    assert jump["command"] is None
    assert f"{topic}:{place.partition}: two writers since " in " ".join(page.split())
    assert "undo" not in page
    assert (lag["lag_status"], lag["verdict"]["commands"]) == (
        "rewind",
        [f"kgroup history {group} --commits"],
    )


@pytest.mark.soak
def test_followed(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    first = members.classic(group, topic, client_id="a")
    members.stable(first, partitions=2)
    first.commit()
    following = kgroup.start("history", group, "--follow", "-o", "json")
    try:
        begun = json.loads(read_line(following.stdout))
        (page,) = begun["data"]
        assert begun["kind"] == "kgroup.history/v1"
        assert causes(page) == [("join", ("a",))]
        second = members.classic(group, topic, client_id="b")
        members.stable(first, second, partitions=2)
        told: list[tuple[str, tuple[str, ...]]] = []
        while not told:
            (news,) = json.loads(read_line(following.stdout))["data"]
            told = causes(news)
        assert ("join", ("b",)) in told
    finally:
        following.send_signal(signal.SIGINT)
        _, stderr = following.communicate(timeout=30)
    assert following.returncode == 130
    assert stderr == "note: history: interrupted\n"


@pytest.mark.usefixtures("kgroup")
def test_following_ends_with_its_reader(bystander: str) -> None:
    """``kgroup history svc --follow | head -1`` of a group to which nothing happens."""
    with running("history", bystander, "--follow", "-o", "json") as following:
        stdout = following.process.stdout
        read_line(stdout)
        assert stdout
        stdout.close()
        assert following.process.wait(10) == 0
    assert following.lines == []


def test_what_is_refused(kgroup_cli: CommandLine) -> None:
    for arguments, said in {
        ("--since", "5"): "--since 5: the unit is missing",
        ("--since", "1h", "--until", "2h"): "--since is not before --until",
        ("--limit", "-1"): "--limit -1",
        ("--follow", "--until", "5m"): "--until and --follow are mutually exclusive",
        ("--follow", "-o", "yaml"): "-o yaml and --follow are mutually exclusive",
        ("--topic", "orders:x"): "--topic orders:x",
        ("--scan-time", "3"): "--scan-time 3: the unit is missing",
    }.items():
        assert said in kgroup_cli("history", "svc", "-b", "127.0.0.1:1", *arguments, exit_code=2).stderr


@pytest.mark.soak
def test_share_and_streams_groups_have_a_history_too(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """Their members are gone; a real application is in tests/clients."""
    topic, plain, share, streams = world.topic(name("orders")), name("g-plain"), name("g-share"), name("g-streams")
    world.commit(plain, {(topic, 0): 0})
    world.share_group(share, topic)
    world.streams_group(streams, topic, stopped=True)
    first = ("offsets-initialized", f"{topic} (1 partition)")

    def initialized() -> bool:
        changes = document(kgroup, share)["changes"]
        return [(each["change_kind"], each["text"]) for each in changes] == [first] and changes[0][
            "took_ms"
        ] is not None

    wait_for(initialized, "the first start offsets written")
    found = {each["group"]: each for each in kgroup("history", plain, share, streams, "-o", "json").data}
    assert (found[share]["state"], found[share]["steps"][0]["protocol"]) == ("Stable", "share")
    assert causes(found[share])[0] == ("join", ("@127.0.0.1",))
    assert (found[streams]["state"], found[streams]["steps"][-1]["step_kind"]) == ("Empty", "empty")
    assert found[plain]["changes"] == []

    every = kgroup("history", "--regex", f"({plain}|{share}|{streams})", "-o", "json")
    assert [each["group"] for each in every.data] == sorted((plain, share, streams))
    assert "left out" not in every.stderr
    assert [each["group"] for each in kgroup("history", "--type", "share", "--regex", share, "-o", "json").data] == [
        share
    ]
    assert [each["group"] for each in kgroup("history", "--topic", topic, "-o", "json").data] == [plain]
    assert [each["group"] for each in kgroup("history", share, plain, "-t", topic, "-o", "json").data] == [plain, share]
    page = kgroup("history", share, "--commits").stdout
    assert "CHANGED" in page
    assert "A share group commits no offsets" in page
