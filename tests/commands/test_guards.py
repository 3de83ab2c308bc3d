"""What changing verbs refuse: live groups, committers without membership, frameworks, contexts, missing rights."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import ACLOperation, ResourceType

from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.accept_codes import ACCEPTED
from tests.commands.test_rights import Bob
from tests.helpers import programs
from tests.helpers.access_rules import rule
from tests.helpers.catchup.catchups import crash, own_ledger, released
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members, commit_to
from tests.helpers.running import running
from tests.helpers.secure_broker import SecureBroker, secure_broker
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

Name = Callable[[str], str]
Offsets = dict[tuple[str, int], tuple[int, str]]

PROTOCOLS = ("classic", "consumer")
QUICK: dict[str, Any] = {"session_timeout_ms": 5000}
"""The session of a classic member that is killed; a consumer group's is the group's to say."""

pytestmark = pytest.mark.usefixtures("bystander")


@dataclass(frozen=True)
class Live:
    """A group with one member, ``pay-0``, and commits at 3 and 4 of 10 records in each partition."""

    group: str
    topic: str
    protocol: str
    member: Member

    def arguments(self, verb: str, *others: str) -> tuple[str, ...]:
        """What ``verb`` needs for changing all commits of the group (and of others)."""
        return change(verb, self.topic, self.group, *others)


def change(verb: str, topic: str, *groups: str) -> tuple[str, ...]:
    """A command line that changes all commits of these groups on the topic."""
    what = {"reset": ("--topic", topic, "--to-earliest"), "delete": (), "delete-offsets": ("--topic", topic)}[verb]
    return (verb, *groups, *what)


def join(members: Members, protocol: str, group: str, topic: str, **settings: Any) -> Member:
    """A member that holds both partitions."""
    if protocol == "consumer":
        member = members.consumer(group, topic, **settings)
    elif protocol == "cooperative":
        member = members.classic(group, topic, assignor="cooperative-sticky", **settings)
    else:
        member = members.classic(group, topic, **settings)
    members.stable(member, partitions=2)
    return member


def ten_each(world: KafkaWorld, topic: str) -> str:
    """A topic of two partitions with ten records each."""
    world.topic(topic, partitions=2)
    for partition in (0, 1):
        world.produce(topic, 10, partition=partition)
    return topic


def idle_group(world: KafkaWorld, members: Members, protocol: str, group: str, topic: str) -> str:
    """An Empty group of this type, that had a member, with commits at 3 and 4, which it made before it left."""
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    join(members, protocol, group, topic).close()
    wait_for(lambda: world.groups()[group] == (protocol, "empty"), f"{group} Empty")
    return group


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    return ten_each(world, name("orders"))


@pytest.fixture(scope="module", params=PROTOCOLS)
def live(request: pytest.FixtureRequest, world: KafkaWorld, bootstrap: str) -> Iterator[Live]:
    """For tests in which all is refused."""
    protocol, stem = request.param, f"guards-{request.param}-{os.urandom(3).hex()}"
    topic = ten_each(world, f"orders-{stem}")
    world.commit(f"svc-{stem}", {(topic, 0): 3, (topic, 1): 4})
    with Members(bootstrap) as members:
        member = join(members, protocol, f"svc-{stem}", topic, client_id="pay-0")
        yield Live(f"svc-{stem}", topic, protocol, member)


@pytest.fixture
def untouched(live: Live, world: KafkaWorld) -> Iterator[None]:
    """The live group is as it was, when the test is over: its commits and its member."""
    before = world.committed(live.group)
    assert {place[1]: offset for place, (offset, _) in before.items()} == {0: 3, 1: 4}
    yield
    assert world.committed(live.group) == before
    assert world.groups()[live.group] == (live.protocol, "stable")


# A group with members


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("verb", ["reset", "delete"])
def test_live_group_is_refused(kgroup: CommandLine, live: Live, verb: str) -> None:
    """9, with the whole plan and who is in the group; the same with and without --execute, and nothing is changed."""
    for execute in ((), ("--execute",)):
        result = kgroup(*live.arguments(verb), *execute, exit_code=9)
        assert "[not-empty]" in result.stderr
        assert live.group in result.stderr
        assert any("pay-0" in line and "127.0.0.1" in line for line in result.stderr.splitlines())
        assert "--wait-empty" in result.stderr
        assert "NOT YET" in result.stdout
        assert "Nothing was changed." in result.stdout
        assert "Done." not in result.stdout
        assert result.stdout.rstrip().splitlines()[-1].strip() == " ".join(
            ("kgroup", *live.arguments(verb), "--wait-empty", "--execute")
        ), "the command that passes, and not the one that was refused"
        document = kgroup(*live.arguments(verb), *execute, "-o", "json", exit_code=9).json
        assert document["executed"] is False
        (error,) = document["errors"]
        assert (error["code"], error["group"]) == ("not-empty", live.group)
        assert any("pay-0" in line and "127.0.0.1" in line for line in error["details"])
        if verb == "reset":
            assert [
                (row["partition"], row["old_offset"], row["new_offset"], row["repeated_count"])
                for row in document["data"]
            ] == [(0, 3, 0, 3), (1, 4, 0, 4)]
            assert f"{live.topic}:1" in result.stdout
        else:
            assert [(row["group"], row["commit_count"]) for row in document["data"]] == [(live.group, 2)]


@pytest.mark.soak
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets"])
def test_not_empty_in_time(kgroup: CommandLine, live: Live, verb: str) -> None:
    """9 with the members that remain, and a WAIT line that names them before."""
    waiting = ("--wait-empty", "--within", "1s", "--execute")
    result = kgroup(*live.arguments(verb), *waiting, exit_code=9)
    assert "Done." not in result.stdout
    events = [line for line in result.stderr.splitlines() if "  WAIT" in line]
    assert any(live.group in line and "pay-0" in line and "127.0.0.1" in line for line in events)
    remains = result.stderr.partition("[not-empty]")
    assert remains[1]
    assert "pay-0" in remains[2]
    assert "127.0.0.1" in remains[2]
    assert "Pods that restart by themselves: scale to zero" in remains[2]
    document = kgroup(*live.arguments(verb), *waiting, "-o", "json", exit_code=9).json
    assert document["executed"] is False
    assert [error["code"] for error in document["errors"]] == ["not-empty"]
    assert "pay-0" in str(document["errors"])


HOPELESS = {
    "a topic that does not exist": (("--topic", "no-such"), 5, "unknown-topic"),
    "another number of rows": (("--expect", "7"), 6, "unexpected-count"),
    "no journal": ((), 6, "no-journal"),
    "a backup nowhere": (("--backup", "/no-such/before.json"), 2, "usage"),
    "records saved nowhere": (("--save-skipped", "/no-such/pill.json"), 2, "usage"),
    "records saved to no topic": (("--save-skipped", "topic:no-such"), 5, "unknown-topic"),
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("case", HOPELESS)
@pytest.mark.parametrize("live", ["classic"], indirect=True)
def test_what_waiting_cannot_mend_is_reported_before_the_wait(
    kgroup: CommandLine, live: Live, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The group has members, and that is not the reason: its code is that of the other fault, in plan and execution."""
    more, exit_code, code = HOPELESS[case]
    if code == "no-journal":
        monkeypatch.setenv("KGROUP_STATE_DIR", "/proc/kgroup-state")
    for how in ((), ("--wait-empty",), ("--wait-empty", "--within", "60s", "--execute")):
        result = kgroup(*live.arguments("reset"), *more, *how, exit_code=exit_code)
        assert f"[{code}]" in result.stderr, how
        assert "  WAIT" not in result.stderr, how


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets"])
def test_dry_run_with_wait_empty_shows_the_plan(kgroup: CommandLine, live: Live, verb: str) -> None:
    """It exits as the execution would once the group has stopped, and does not wait; its last line does."""
    result = kgroup(*live.arguments(verb), "--wait-empty", "--within", "9m")
    assert (live.group if verb == "delete" else f"{live.topic}:1") in result.stdout
    assert "NOT YET" in result.stdout
    assert result.stdout.rstrip().endswith("--wait-empty --within 9m --execute")
    assert result.stderr == "", "0 and an error do not go together"
    assert kgroup(*live.arguments(verb), "--wait-empty", "-o", "json").json["errors"] == []
    kgroup(*live.arguments(verb), "--wait-empty", "--expect", "7", exit_code=6)


@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets", "undo"])
def test_within_without_wait_empty(kgroup: CommandLine, verb: str) -> None:
    given = ("undo",) if verb == "undo" else change(verb, "orders", "svc")
    assert "--wait-empty" in kgroup(*given, "--within", "5s", exit_code=2).stderr
    assert "the unit is missing" in kgroup(*given, "--wait-empty", "--within", "5", exit_code=2).stderr


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_undo_of_a_live_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, topic: str, protocol: str
) -> None:
    group = idle_group(world, members, protocol, name("svc"), topic)
    kgroup(*change("reset", topic, group), "--execute")
    changed = world.committed(group)
    member = join(members, protocol, group, topic, client_id="pay-0")
    for execute in ((), ("--execute",), ("--execute", "--accept", "moved-since")):
        result = kgroup("undo", *execute, exit_code=9)
        assert "[not-empty]" in result.stderr
        assert any("pay-0" in line and "127.0.0.1" in line for line in result.stderr.splitlines())
        assert "NOT YET" in result.stdout
        assert f"{topic}:1" in result.stdout
        assert result.stdout.rstrip().splitlines()[-1].count("--execute") == 1
        assert world.committed(group) == changed
    with running("undo", "--wait-empty", "--within", "60s", "--execute") as undo:
        undo.says(f"WAIT      {group} 1 member: pay-0")
        member.close()
        undo.ends(0)
    assert [offset for offset, _ in world.committed(group).values()] == [3, 4]


@pytest.mark.soak
@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_waits_and_then_does_it(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine, protocol: str, how: str
) -> None:
    """One line an event on stderr, the result on stdout."""
    group = name("svc")
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    if how == "killed" and protocol == "consumer":
        world.configure_group(group, consumer_session_timeout_ms="5000")
    quick = QUICK if (how, protocol) == ("killed", "classic") else {}
    member = join(members, protocol, group, topic, client_id="pay-0", **quick)
    with running(*change("reset", topic, group), "--wait-empty", "--within", "60s", "--execute", "-o", "json") as reset:
        said = reset.says("WAIT")
        assert f"{group} 1 member: pay-0 127.0.0.1" in said
        assert world.committed(group)[topic, 0][0] == 3
        (member.close if how == "closed" else member.kill)()
        result = reset.ends(0)
    assert f"WAIT      {group} is Empty" in result.stderr
    assert {line.split()[1] for line in reset.lines if line[:1].isdigit()} == {"WAIT"}
    assert result.json["executed"] is True
    assert {(row["partition"], row["new_offset"], row["error_code"]) for row in result.data} == {
        (0, 0, None),
        (1, 0, None),
    }
    assert [offset for offset, _ in world.committed(group).values()] == [0, 0]


@pytest.mark.parametrize("verb", ["delete", "delete-offsets"])
def test_deleting_waits_too(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine, verb: str
) -> None:
    group = name("svc")
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    member = join(members, "classic", group, topic)
    with running(*change(verb, topic, group), "--wait-empty", "--within", "60s", "--execute") as waits:
        waits.says("WAIT")
        member.close()
        waits.ends(0)
    if verb == "delete":
        assert group not in world.groups()
    else:
        assert world.committed(group) == {}


@pytest.mark.soak
def test_plan_is_made_anew_after_the_wait(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine
) -> None:
    """Of two groups of both types: what they commit while they are waited for is what is moved, and comes back."""
    stem = name("svc")
    groups = {protocol: f"{stem}-{protocol}" for protocol in PROTOCOLS}
    for group in groups.values():
        world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    live = [join(members, protocol, group, topic) for protocol, group in groups.items()]
    waits = ("--shift-by", "-1", "--wait-empty", "--within", "60s", "--execute", "-o", "json")
    with running("reset", *groups.values(), "--topic", topic, *waits) as reset:
        for group in groups.values():
            reset.says(f"WAIT      {group} 1 member")
        commit_to(world, live[0], 10)
        live[0].close()
        reset.says(f"WAIT      {groups['classic']} is Empty")
        assert {offset for offset, _ in world.committed(groups["classic"]).values()} == {10}, "all or none"
        commit_to(world, live[1], 10)
        live[1].close()
        result = reset.ends(0)
    assert {(row["group"], row["old_offset"], row["new_offset"]) for row in result.data} == {
        (group, 10, 9) for group in groups.values()
    }
    kgroup("undo", "--execute")
    assert {offset for group in groups.values() for offset, _ in world.committed(group).values()} == {10}


# A consumer that joins between check and commit


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_consumer_joins_after_the_check(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine, tmp_path: Path, protocol: str
) -> None:
    """A FIFO that nobody reads yet holds kgroup between check and commit; a consumer of one of two groups joins then.

    The broker's refusal costs the rows of that group only, each named; the other group is moved, and can go back.
    """
    stem, pipe = name("svc"), tmp_path / "skipped"
    joined, other = (idle_group(world, members, protocol, f"{stem}-{which}", topic) for which in ("joined", "other"))
    os.mkfifo(pipe)
    moves = ("--topic", topic, "--to-latest", "--save-skipped", str(pipe), "--execute", "-o", "json")
    with running("reset", joined, other, *moves) as reset:
        wait_for(lambda: stands_at_a_fifo(reset.process.pid), "kgroup at the FIFO")
        join(members, protocol, joined, topic, client_id="pay-0")
        with ThreadPoolExecutor(1) as pool:
            saved = pool.submit(pipe.read_text)
            result = reset.ends(7)
            assert len(saved.result(10).splitlines()) == 13, "each record once, though both groups skip it"
    assert result.json["executed"] is True
    rows = {(row["group"], row["partition"]): row for row in result.data}
    assert {place: row["done"] for place, row in rows.items()} == {
        (joined, 0): False,
        (joined, 1): False,
        (other, 0): True,
        (other, 1): True,
    }
    assert all("not-empty" in str(rows[joined, partition]["error_code"]) for partition in (0, 1))
    assert {rows[joined, partition]["old_offset"] for partition in (0, 1)} == {3, 4}
    assert {(error["group"], error["code"]) for error in result.json["errors"]} == {(joined, "not-empty")}
    assert [offset for offset, _ in world.committed(joined).values()] == [3, 4]
    assert [offset for offset, _ in world.committed(other).values()] == [10, 10]
    kgroup("undo", "--execute")
    assert [offset for offset, _ in world.committed(other).values()] == [3, 4]
    assert [offset for offset, _ in world.committed(joined).values()] == [3, 4]


def stands_at_a_fifo(pid: int) -> bool:
    """Whether the process waits for a reader of a FIFO. Opening it here would let it go on: so the kernel is asked."""
    with suppress(OSError):  # a thread that has ended meanwhile
        return any("wait_for_partner" in (task / "wchan").read_text() for task in Path(f"/proc/{pid}/task").iterdir())
    return False


@pytest.mark.parametrize(
    ("verb", "request_name", "code"),
    [
        ("reset", "OffsetCommit", "not-empty"),
        ("undo", "OffsetCommit", "not-empty"),
        ("delete", "DeleteGroups", "not-empty"),
        ("delete-offsets", "OffsetDelete", "subscribed"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_consumer_joins_just_before_the_request(
    world: KafkaWorld,
    members: Members,
    name: Name,
    topic: str,
    kgroup: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    verb: str,
    request_name: str,
    code: str,
) -> None:
    """Refused by the broker at the last moment: 6, since nothing at all was done, and there is nothing to take back."""
    group = idle_group(world, members, protocol, name("svc"), topic)
    if verb == "undo":
        kgroup(*change("reset", topic, group), "--execute")
        arguments: tuple[str, ...] = ("undo",)
    else:
        arguments = change(verb, topic, group)
    before = world.committed(group)
    joined = just_before(monkeypatch, request_name, lambda: join(members, protocol, group, topic))
    # What is asked waits for the joining, and has its time from before.
    document = kgroup(*arguments, "--execute", "--timeout", "60s", "-o", "json", exit_code=9).json
    assert joined
    assert world.committed(group) == before
    assert {error["code"] for error in document["errors"]} == {code}
    assert [bool(row["error_code"]) for row in document["data"]] == [True] * (1 if verb == "delete" else 2)
    if verb != "undo":
        kgroup("undo", exit_code=5)


# One live group among several


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets"])
def test_one_live_group_among_several(
    world: KafkaWorld, name: Name, kgroup: CommandLine, live: Live, verb: str, tmp_path: Path
) -> None:
    """Nothing of the whole command is applied; with --partial the others are, and that is 7.

    A backup has what is changed, and nothing else: reset --from-file would move the live group too.
    """
    backup = tmp_path / "before.json"
    stem = name("svc")
    others = [f"{stem}-{number}" for number in (1, 2)]
    before = {(live.topic, 0): (3, ""), (live.topic, 1): (4, "")}
    for group in others:
        world.commit(group, {(live.topic, 0): 3, (live.topic, 1): 4})
    given = live.arguments(verb, *others)
    for execute in ((), ("--execute",)):
        result = kgroup(*given, *execute, exit_code=9)
        assert live.group in result.stderr
        assert others[0] not in result.stderr
        assert {group: world.committed(group) for group in others} == dict.fromkeys(others, before)
    document = kgroup(*given, "--partial", "--backup", str(backup), "--execute", "-o", "json", exit_code=7).json
    assert document["executed"] is True
    assert {error["group"] for error in document["errors"]} == {live.group}
    assert [group["group"] for group in json.loads(backup.read_text())["data"]] == others
    assert {row["group"] for row in document["data"] if row["error_code"] is None} >= set(others)
    after: Offsets = {(live.topic, 0): (0, ""), (live.topic, 1): (0, "")} if verb == "reset" else {}
    for group in others:
        assert (verb == "delete" and group not in world.groups()) or world.committed(group) == after


# Right after the last consumer has closed


@pytest.mark.soak
@pytest.mark.parametrize("client", ["classic", "cooperative", "consumer"])
def test_right_after_the_last_consumer_closed(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine, client: str
) -> None:
    """Its closing commit lies before the record that made the group Empty: no active committer. Several rounds."""
    group = name("svc")
    for turn in range(3):
        member = join(members, client, group, topic)
        member.commit()
        member.close()
        result = kgroup("reset", group, "--topic", topic, "--to-offset", str(turn), "--execute")
        assert "active-committer" not in result.stderr
        assert [offset for offset, _ in world.committed(group).values()] == [turn, turn]
    member = join(members, client, group, topic)
    member.commit()
    member.close()
    kgroup("delete", group, "--execute")
    assert group not in world.groups()


def in_transaction(bootstrap: str, group: str, protocol: str, topic: str) -> tuple[Producer, Consumer]:
    """A member whose commits of 7 are in an open transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group, "log_level": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(0.1), "a record")
    producer.init_transactions(30)
    producer.begin_transaction()
    places = [TopicPartition(topic, partition, 7) for partition in (0, 1)]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata())
    return producer, consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_transaction_that_ends_after_the_group_became_empty(
    world: KafkaWorld, name: Name, topic: str, kgroup: CommandLine, bootstrap: str, protocol: str
) -> None:
    """Its commits were made by the member, while it was one; only the marker comes later."""
    group = name("svc")
    producer, consumer = in_transaction(bootstrap, group, protocol, topic)
    consumer.close()
    wait_for(lambda: world.groups()[group][1] == "empty", "Empty")
    producer.commit_transaction(30)
    wait_for(lambda: len(world.committed(group)) == 2, "commits")
    kgroup(*change("reset", topic, group), "--execute")
    assert {offset for offset, _ in world.committed(group).values()} == {0}


@pytest.mark.usefixtures("kgroup")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_transaction_that_was_open_when_the_wait_began(
    world: KafkaWorld, name: Name, topic: str, bootstrap: str, protocol: str
) -> None:
    """It has ended with the consumer: what could not be read at the first look is read after the wait."""
    group = name("svc")
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    producer, consumer = in_transaction(bootstrap, group, protocol, topic)
    waits = ("--wait-empty", "--within", "60s", "--execute", "-o", "json")
    with running("reset", group, "--topic", topic, "--shift-by", "-1", *waits) as reset:
        reset.says("WAIT")
        producer.commit_transaction(30)
        wait_for(lambda: {offset for offset, _ in world.committed(group).values()} == {7}, "its commit")
        consumer.close()
        result = reset.ends(0)
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in result.data] == [(7, 6, True)] * 2
    assert {offset for offset, _ in world.committed(group).values()} == {6}


# A committer that is no member


@contextmanager
def assigned(bootstrap: str, group: str, topic: str) -> Iterator[Callable[[int], None]]:
    """A consumer that assign()s partition 0 and is no member; what is called commits there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0)])
    try:
        yield lambda offset: consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_active_committer(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine, bootstrap: str, protocol: str
) -> None:
    group = idle_group(world, members, protocol, name("svc"), topic)
    kgroup(*change("reset", topic, group))
    with assigned(bootstrap, group, topic) as commit:
        for offset in (5, 6, 7):
            commit(offset)
    before = world.committed(group)
    for verb in ("reset", "delete", "delete-offsets"):
        for accepted in ((), ("--accept", "foreign-owner")):
            result = kgroup(*change(verb, topic, group), *accepted, "--execute", exit_code=6)
            assert "[active-committer]" in result.stderr
            assert f"{topic}:0 at 7" in result.stderr
            assert "3 in all since it became Empty" in result.stderr
            assert "--accept active-committer" in result.stderr
            assert world.committed(group) == before
    document = kgroup(*change("reset", topic, group), "-o", "json", exit_code=6).json
    assert [(error["code"], error["group"]) for error in document["errors"]] == [("active-committer", group)]
    assert [(row["old_offset"], row["new_offset"]) for row in document["data"]] == [(7, 0), (4, 0)]
    kgroup(*change("reset", topic, group), "--accept", "active-committer", "--execute")
    assert [offset for offset, _ in world.committed(group).values()] == [0, 0]


def test_committer_of_a_group_that_never_had_members(
    world: KafkaWorld, name: Name, topic: str, kgroup: CommandLine, bootstrap: str
) -> None:
    """A group of assign() alone, which goes on."""
    group = name("svc")
    going_on = threading.Event()
    going_on.set()

    def work() -> None:
        with assigned(bootstrap, group, topic) as commit:
            offset = 0
            while going_on.is_set():
                offset += 1
                commit(offset % 10)
                steps.append(offset)

    steps: list[int] = []
    worker = threading.Thread(target=work)
    worker.start()
    try:
        wait_for(lambda: len(steps) > 5, "commits")
        result = kgroup(*change("reset", topic, group), "--execute", exit_code=6)
        assert "[active-committer]" in result.stderr
        assert f"{topic}:0" in result.stderr
    finally:
        going_on.clear()
        worker.join()


def test_own_changes_are_no_committer(
    world: KafkaWorld, members: Members, name: Name, topic: str, kgroup: CommandLine
) -> None:
    """What stands in the journal was kgroup: reset after reset, and undo of all."""
    group = idle_group(world, members, "classic", name("svc"), topic)
    for offset in (1, 2, 5):
        kgroup("reset", group, "--topic", topic, "--to-offset", str(offset), "--execute")
    kgroup("undo", "--execute")
    assert [offset for offset, _ in world.committed(group).values()] == [2, 2]
    kgroup("delete", group, "--execute")
    kgroup("undo", "--execute")
    kgroup(*change("reset", topic, group), "--execute")


# Groups whose offsets a framework owns

FRAMEWORKS = {
    "connect-s3-archive": ("Kafka Connect", "PATCH /connectors/s3-archive"),
    "spark-kafka-source-0a1b-driver-0": ("Spark", "loses the query's state"),
}


@pytest.mark.parametrize("stem", FRAMEWORKS)
def test_framework_by_name(world: KafkaWorld, name: Name, topic: str, kgroup: CommandLine, stem: str) -> None:
    group = f"{stem}-{os.urandom(3).hex()}"
    framework, tool = FRAMEWORKS[stem]
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    before = world.committed(group)
    for verb in ("reset", "delete", "delete-offsets"):
        for execute in ((), ("--execute",), ("--execute", "--accept", "active-committer")):
            result = kgroup(*change(verb, topic, group), *execute, exit_code=6)
            assert "[foreign-owner]" in result.stderr
            assert framework in result.stderr
            assert tool in result.stderr
            assert "--accept foreign-owner" in result.stderr
            assert world.committed(group) == before
    kgroup(*change("reset", topic, group), "--accept", "foreign-owner", "--execute")
    assert [offset for offset, _ in world.committed(group).values()] == [0, 0]
    kgroup(*change("delete", topic, group), "--accept", "foreign-owner", "--execute")
    assert group not in world.groups()


@pytest.mark.parametrize("execute", [(), ("--execute",)])
def test_a_named_framework_without_offsets(
    world: KafkaWorld, name: Name, topic: str, kgroup: CommandLine, execute: tuple[str, ...]
) -> None:
    """Connect's workers commit nothing: whoever names them means a connector. A pattern leaves them alone."""
    workers, other = f"{(stem := name('svc'))}-workers", f"{stem}-other"
    world.join_as(workers, "connect")
    world.commit(other, {(topic, 0): 3})
    everything = ("--all-topics", "--to-earliest", *execute)
    refused = kgroup("reset", workers, *everything, "-o", "json", exit_code=6).json
    assert [(error["code"], error["group"]) for error in refused["errors"]] == [("foreign-owner", workers)]
    assert "PATCH /connectors/CONNECTOR/offsets" in refused["errors"][0]["details"][-1]
    accepted = kgroup("reset", workers, *everything, "--accept", "foreign-owner")
    assert "no partition is chosen" in accepted.stderr
    kgroup("reset", "--regex", f"{stem}.*", *everything)
    assert world.committed(other)[topic, 0][0] == (0 if execute else 3)


@pytest.mark.parametrize(
    ("verb", "tool"), [("reset", "--reset-offsets"), ("delete", "--delete "), ("delete-offsets", "--reset-offsets")]
)
def test_streams_group(world: KafkaWorld, name: Name, topic: str, kgroup: CommandLine, verb: str, tool: str) -> None:
    """Not even with --accept: its state belongs to its offsets. Kafka's tool for the verb is named."""
    group = name("streams")
    world.streams_group(group, topic, stopped=True)
    for accepted in ((), ("--accept", "foreign-owner", "--execute")):
        result = kgroup(*change(verb, topic, group), *accepted, exit_code=6)
        assert "streams group" in result.stderr
        assert "[foreign-owner]" in result.stderr
        (hint,) = (line for line in result.stderr.splitlines() if "kafka-streams-groups.sh" in line)
        assert f" {tool}" in hint
        assert "--accept" not in result.stderr
        assert "--execute" not in hint
    assert group in world.groups()


# What --accept takes


@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets", "undo", "evict"])
@pytest.mark.parametrize("code", ["not-empty", "nonsense", "", "Active-Committer "])
def test_accept_of_what_cannot_be(kgroup: CommandLine, verb: str, code: str) -> None:
    arguments: dict[str, tuple[str, ...]] = {"undo": ("undo",), "evict": ("evict", "svc", "--all-members")}
    given = arguments[verb] if verb in arguments else change(verb, "orders", "svc")
    result = kgroup(*given, "--accept", code, exit_code=2)
    assert "--accept" in result.stderr
    assert {"not-empty": "members", "": "empty"}.get(code, "foreign-owner") in result.stderr


@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets", "undo", "evict", "migrate"])
def test_accept_takes_only_what_the_verb_reads(kgroup: CommandLine, verb: str) -> None:
    arguments: dict[str, tuple[str, ...]] = {
        "undo": ("undo",),
        "evict": ("evict", "svc", "--all-members"),
        "migrate": ("migrate", "svc"),
    }
    given = arguments[verb] if verb in arguments else change(verb, "orders", "svc")
    for code in {code for codes in ACCEPTED.values() for code in codes} - {*ACCEPTED[verb]}:
        assert f"kgroup {verb} has no such refusal" in kgroup(*given, "--accept", code, exit_code=2).stderr


# Contexts


@pytest.fixture
def contexts(bootstrap: str, tmp_path: Path) -> None:
    settings = f"    bootstrap.servers: {bootstrap}\n"
    (tmp_path / "config.yaml").write_text(
        f"contexts:\n  audit:\n{settings}    read_only: true\n  prod:\n{settings}    explicit: true\n"
    )


@pytest.mark.soak
@pytest.mark.usefixtures("contexts")
def test_contexts_that_refuse_to_execute(
    world: KafkaWorld,
    members: Members,
    name: Name,
    topic: str,
    kgroup_cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """read_only never executes; explicit has to be named by flag or environment. The plan is shown in both."""
    idle, busy = name("idle"), name("busy")
    world.commit(idle, {(topic, 0): 3, (topic, 1): 4})
    join(members, "classic", busy, topic)
    plans = [change(verb, topic, idle) for verb in ("reset", "delete", "delete-offsets")]
    plans += [("migrate", idle), ("evict", busy, "--all-members"), ("undo",)]
    kgroup_cli("reset", idle, "--topic", topic, "--to-offset", "5", "--context", "prod", "--execute")
    before = world.committed(idle)
    assert [offset for offset, _ in before.values()] == [5, 5]
    kgroup_cli("context", "use", "prod")
    for plan in plans:
        for dry in (("--context", "audit"), ()):
            shown = kgroup_cli(*plan, *dry, exit_code=6)  # as the execution would
            assert shown.stdout.startswith("PLAN")
            assert ("audit" if dry else "prod") in shown.stdout.splitlines()[0]
            assert "Nothing was changed." in shown.stdout
        for refused, code in ((("--context", "audit"), "read_only"), ((), "explicit")):
            result = kgroup_cli(*plan, *refused, "--execute", exit_code=6)
            assert code in result.stderr.replace("read-only", "read_only")
            assert ("audit" if refused else "--context") in result.stderr
            assert "Done." not in result.stdout
            assert kgroup_cli(*plan, *refused, "--execute", "-o", "json", exit_code=6).json["executed"] is False
            assert world.committed(idle) == before
            assert world.groups()[busy] == ("classic", "stable")
    monkeypatch.setenv("KGROUP_CONTEXT", "prod")
    kgroup_cli(*plans[0], "--execute")
    assert [offset for offset, _ in world.committed(idle).values()] == [0, 0]


# Missing rights

Rule = tuple[ResourceType, str, ACLOperation]


@pytest.fixture(scope="module")
@programs.needs("openssl")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("guards"), QuietReporter()) as broker:
        yield broker


@pytest.fixture(scope="module")
def inside(secured: SecureBroker) -> Iterator[KafkaWorld]:
    """Behind the rights: topics ``open`` and ``secret`` with ten records in each of two partitions."""
    with KafkaWorld(secured.addresses["ADMIN"]) as world:
        for stem in ("open", "secret"):
            ten_each(world, stem)
        yield world


class Oncall(Bob):
    """bob, with what he may do given rule by rule."""

    def given(self, *rules: Rule) -> None:
        """These rules, and no others."""
        self.grant(*(rule(operation, kind, name) for kind, name, operation in rules), alone=True)


READ_HISTORY: Rule = (ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ)
READ_SECRET: Rule = (ResourceType.TOPIC, "secret", ACLOperation.READ)
KNOWN: tuple[Rule, ...] = (
    (ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE),
    (ResourceType.TOPIC, "open", ACLOperation.READ),
    (ResourceType.TOPIC, "_kgroup_ledger", ACLOperation.DESCRIBE),
)


def of_group(group: str, *operations: ACLOperation) -> tuple[Rule, ...]:
    return tuple((ResourceType.GROUP, group, operation) for operation in operations)


@pytest.fixture
def oncall(secured: SecureBroker, inside: KafkaWorld) -> Oncall:
    return Oncall(secured)


@pytest.fixture
def guarded(inside: KafkaWorld, name: Name) -> str:
    """A group of the secured broker that was never anything but idle."""
    group = name("svc")
    inside.commit(group, {(topic, partition): 3 for topic in ("open", "secret") for partition in (0, 1)})
    return group


def at(world: KafkaWorld, group: str, topic: str) -> set[int]:
    """The committed offsets of one topic."""
    return {offset for (found, _), (offset, _) in world.committed(group).items() if found == topic}


def test_enough_rights(oncall: Oncall, inside: KafkaWorld, guarded: str) -> None:
    """READ on group, topics and history, DELETE on the group, DESCRIBE on cluster and ledger: all, without a note."""
    oncall.given(*KNOWN, READ_SECRET, READ_HISTORY, *of_group(guarded, ACLOperation.READ, ACLOperation.DELETE))
    before = inside.committed(guarded)
    for arguments in (
        ("reset", guarded, "--all-topics", "--to-latest"),
        ("delete-offsets", guarded, "--topic", "open"),
        ("delete", guarded),
    ):
        result = oncall(*arguments, "--execute")
        assert result.stderr == ""
        assert oncall("undo", "--execute").stderr == ""
        assert inside.committed(guarded) == before


@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets"])
def test_history_that_cannot_be_read_is_a_note(
    oncall: Oncall, inside: KafkaWorld, secured: SecureBroker, guarded: str, verb: str
) -> None:
    """Whether somebody commits is unknown then: said, and no refusal, even where somebody does."""
    seen = ((ResourceType.TOPIC, "__consumer_offsets", ACLOperation.DESCRIBE),) if verb == "reset" else ()
    oncall.given(*KNOWN, READ_SECRET, *seen, *of_group(guarded, ACLOperation.READ, ACLOperation.DELETE))
    with assigned(secured.addresses["ADMIN"], guarded, "open") as commit:
        for offset in (5, 6, 7):
            commit(offset)
    # Nor is it known then whether the deletion takes commits that are hidden.
    accepted = ("--accept", "hidden-commits") if verb == "delete" else ()
    result = oncall(*change(verb, "open", guarded), *accepted, "-o", "json", "--execute")
    assert result.json["errors"] == []
    assert {f"note: {note}" for note in result.json["notes"]} == set(result.stderr.splitlines())
    assert any("__consumer_offsets" in note and "no READ" in note for note in result.json["notes"])
    assert 7 not in at(inside, guarded, "open") if guarded in inside.groups() else verb == "delete"


def names_the_rule(text: str, operation: str, kind: str, name: str) -> bool:
    """Whether an error says which right is missing, with the command that gives it."""
    line = next((line for line in text.splitlines() if "kafka-acls" in line or "--operation" in line), "")
    return f"--operation {operation}" in line and f"--{kind} {name}" in line.replace("'", "")


def test_the_rights_of_the_table_are_enough(
    oncall: Oncall, inside: KafkaWorld, secured: SecureBroker, name: Name
) -> None:
    """``kgroup help rights``: with the least of each row, and nothing else, the verb does its work and ends with 0."""
    look = ("DESCRIBE", "DESCRIBE")
    for words, needs, exit_code in (
        (("describe",), look, 0),
        (("lag",), look, 0),
        (("export", "-o", "json"), look, 0),
        (("doctor",), look, 0),
        (("wait", "--for", "empty"), look, 0),
        (("list",), ("DESCRIBE", ""), 0),
        (("history",), ("DESCRIBE", "", READ_HISTORY), 0),
        (("describe", "--from-log"), ("DESCRIBE", "DESCRIBE", READ_HISTORY), 0),
        (("list", "--all-groups"), ("", "", KNOWN[0]), 7),
        (("reset", "--topic", "open", "--to-latest", "--execute"), ("READ", "READ"), 0),
        (("migrate", "--execute"), ("READ", "READ"), 0),
        (("delete-offsets", "--topic", "open", "--execute"), ("DELETE", "READ"), 0),
        (("delete", "--execute"), ("DELETE", "DESCRIBE", READ_HISTORY), 0),
    ):
        verb, *options = words
        group = name(f"svc-{verb}")
        inside.commit(group, {("open", 0): 3})
        on_group, on_topic, *others = needs
        rules = [(ResourceType.GROUP, group, on_group), (ResourceType.TOPIC, "open", on_topic)]
        oncall.given(*((kind, what, ACLOperation[right]) for kind, what, right in rules if right), *others)
        named = () if verb == "list" else (group,)
        shown = oncall(verb, *named, *(word for word in options if word != "--all-groups"), exit_code=exit_code)
        assert group in shown.stdout + shown.stderr, words

    group = name("busy")
    oncall.given(*of_group(group, ACLOperation.READ), (ResourceType.TOPIC, "open", ACLOperation.DESCRIBE))
    with Members(secured.addresses["ADMIN"]) as members:
        members.stable(members.classic(group, "open"), partitions=2)
        assert "Done." in oncall("evict", group, "--all-members", "--execute").stdout


@pytest.mark.parametrize("verb", ["reset", "delete-offsets", "delete", "migrate", "undo"])
def test_a_plan_names_the_right_that_its_execution_lacks(
    oncall: Oncall, inside: KafkaWorld, name: Name, verb: str
) -> None:
    """Each right by itself: 4 by the plan, in every format, and by the execution, which begins nothing."""
    group = name("svc")
    inside.commit(group, {("open", 0): 3})
    enough = {*KNOWN, READ_HISTORY, *of_group(group, ACLOperation.READ, ACLOperation.DELETE)}
    words: tuple[str, ...] = {"migrate": ("migrate", group), "undo": ("undo",)}.get(verb) or change(verb, "open", group)
    if verb == "undo":
        oncall.given(*enough)
        oncall("reset", group, "--topic", "open", "--to-latest", "--execute")
    before = inside.committed(group)
    lacking = [(ResourceType.GROUP, group, ACLOperation.DELETE if verb.startswith("delete") else ACLOperation.READ)]
    if verb != "delete":
        lacking.append((ResourceType.TOPIC, "open", ACLOperation.READ))
    for right in lacking:
        kind, resource, operation = right
        oncall.given(*(enough - {right}), (kind, resource, ACLOperation.DESCRIBE))
        for more in ((), ("-o", "csv"), ("--execute",), ("--partial", "--execute")):
            result = oncall(*words, *more, exit_code=4)
            line = f"--allow-principal User:bob --operation {operation.name.title()} --{kind.name.lower()} {resource}"
            assert line in result.stderr, (right, more)
            assert f"no {operation.name} on {kind.name.title()} {resource}" in result.stderr
            assert "Done." not in result.stdout
        assert oncall(*words, "-o", "json", exit_code=4).json["errors"][0]["code"] == "not-authorized"
        assert inside.committed(group) == before
    oncall.given(*enough)
    assert oncall(*words).stderr == ""


@pytest.mark.parametrize(
    ("verb", "request_name"),
    [
        ("reset", "OffsetCommit"),
        ("migrate", "OffsetCommit"),
        pytest.param("delete-offsets", "OffsetDelete", marks=pytest.mark.soak),
        pytest.param("delete", "DeleteGroups", marks=pytest.mark.soak),
        pytest.param("undo", "OffsetCommit", marks=pytest.mark.soak),
    ],
)
def test_a_right_taken_away_in_the_middle_of_a_change(
    oncall: Oncall, inside: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch, verb: str, request_name: str
) -> None:
    """7: the first round is changed, the last group is as it was, the journal has all, and undo takes back the others.

    A hundred groups are changed at a time.
    """
    prefix = name("svc")
    groups = [f"{prefix}-{number:03}" for number in range(101)]
    for group in groups:
        inside.commit(group, {("open", 0): 3})
    every = of_group("*", ACLOperation.READ, ACLOperation.DELETE)
    oncall.given(*KNOWN, READ_HISTORY, *every)
    words = (
        ("migrate", *groups) if verb == "migrate" else change(verb, "open", *groups) if verb != "undo" else ("undo",)
    )
    if verb == "undo":
        oncall("reset", *groups, "--topic", "open", "--to-latest", "--execute")

    def as_it_is() -> dict[str, object]:
        listed = inside.groups()
        return {group: (inside.committed(group), listed.get(group)) for group in groups}

    before = as_it_is()
    lost = ACLOperation.DELETE if verb.startswith("delete") else ACLOperation.READ
    left = ACLOperation.READ if lost is ACLOperation.DELETE else ACLOperation.DESCRIBE
    fewer = [*KNOWN, READ_HISTORY, *of_group(groups[-1], left)]
    for group in groups[:-1]:
        fewer += of_group(group, ACLOperation.READ, ACLOperation.DELETE)

    taken = just_before(monkeypatch, request_name, lambda: oncall.given(*fewer), skip=100)
    result = oncall(*words, "--execute", "-o", "json", exit_code=7)

    assert taken
    assert {(error["group"], error["code"]) for error in result.json["errors"]} == {(groups[-1], "not-authorized")}
    assert f"no {lost.name}" in result.json["errors"][0]["message"]
    now = as_it_is()
    assert [group for group in groups if now[group] == before[group]] == groups[-1:]
    oncall.given(*KNOWN, READ_HISTORY, *every)
    (change_id,) = {row["change_id"] for row in result.data}
    oncall("undo", change_id, "--execute")
    assert as_it_is() == before


def test_a_release_that_cannot_be_noted_is_not_planned(
    oncall: Oncall, inside: KafkaWorld, guarded: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DESCRIBE on __consumer_offsets: 4 by plan and execution, and the ledger has no plan."""
    ledger = own_ledger(monkeypatch, name("ledger"))
    of_ledger = (ACLOperation.CREATE, ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE_CONFIGS)
    rules = (
        *KNOWN,
        READ_SECRET,
        *of_group(guarded, ACLOperation.READ),
        *((ResourceType.TOPIC, ledger, operation) for operation in of_ledger),
        (ResourceType.TRANSACTIONAL_ID, "*", ACLOperation.WRITE),
    )
    oncall.given(*rules)
    before = inside.committed(guarded)
    for more in ((), ("--execute",)):
        refused = oncall("catchup", "start", guarded, "--release-only", *more, "-o", "json", exit_code=4)
        (error,) = refused.json["errors"]
        assert error["message"] == "no DESCRIBE on Topic __consumer_offsets, which this change needs"
        assert error["hint"].endswith("User:bob --operation Describe --topic __consumer_offsets")
    assert oncall("catchup", "list", "-o", "json").data == []
    assert inside.committed(guarded) == before

    oncall.given(*of_group(guarded, ACLOperation.READ), *KNOWN, READ_SECRET)
    listed = oncall("catchup", "list", exit_code=4)
    assert f"--operation Read --topic {ledger}" in listed.stderr
    named = oncall("catchup", "start", guarded, "--release-only", exit_code=4).stderr
    assert "--operation Describe --topic __consumer_offsets" in named
    assert f"no READ, no WRITE and no DESCRIBE_CONFIGS on Topic {ledger}" in named
    assert f"--operation Read --operation Write --operation DescribeConfigs --topic {ledger}" in named

    oncall.given(*rules, (ResourceType.TOPIC, "__consumer_offsets", ACLOperation.DESCRIBE))
    oncall("catchup", "start", guarded, "--release-only")
    oncall("catchup", "start", guarded, "--release-only", "--execute")
    assert at(inside, guarded, "open") == at(inside, guarded, "secret") == {10}


def test_topic_that_may_not_be_changed(oncall: Oncall, inside: KafkaWorld, guarded: str) -> None:
    """4, and nothing is changed; with --partial it costs its own rows alone, which is 7."""
    secret = (ResourceType.TOPIC, "secret", ACLOperation.DESCRIBE)
    oncall.given(*KNOWN, secret, READ_HISTORY, *of_group(guarded, ACLOperation.READ, ACLOperation.DELETE))
    alone = oncall("reset", guarded, "--topic", "secret", "--to-latest", "--execute", exit_code=4)
    assert names_the_rule(alone.stderr, "Read", "topic", "secret"), alone.stderr
    assert at(inside, guarded, "secret") == {3}
    both = oncall("reset", guarded, "--all-topics", "--to-latest", "--execute", "-o", "json", exit_code=4)
    assert {error["topic"] for error in both.json["errors"]} == {"secret"}
    assert {error["code"] for error in both.json["errors"]} == {"not-authorized"}
    assert {row["done"] for row in both.data} == {None}
    assert at(inside, guarded, "secret") == at(inside, guarded, "open") == {3}
    partial = oncall("reset", guarded, "--all-topics", "--to-latest", "--partial", "--execute", exit_code=7)
    assert names_the_rule(partial.stderr, "Read", "topic", "secret"), partial.stderr
    assert at(inside, guarded, "open") == {10}


def test_member_that_may_not_be_evicted(oncall: Oncall, inside: KafkaWorld, secured: SecureBroker, name: Name) -> None:
    group = name("busy")
    oncall.given(*KNOWN, READ_SECRET, READ_HISTORY, *of_group(group, ACLOperation.DESCRIBE))
    with Members(secured.addresses["ADMIN"]) as members:
        member = members.classic(group, "open")
        members.stable(member, partitions=2)
        for more in ((), ("--execute",)):
            result = oncall("evict", group, "--all-members", *more, exit_code=4)
            assert names_the_rule(result.stderr, "Read", "group", group), result.stderr
        assert inside.groups()[group] == ("classic", "stable")


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_release_of_a_catch_up_is_nobody_elses_commit(
    kgroup: CommandLine, world: KafkaWorld, name: Name, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_ledger(monkeypatch, name("ledger"))
    crashed = crash(world, name("orders"), name("svc"), kind)
    plan = released(kgroup, crashed)
    # As a migration on another machine writes them again, behind the record that made the group Empty.
    mark = CatchupCommitTag(plan, 1, TagPurpose.RELEASE).metadata
    world.commit(crashed.group, {place: (offset, mark, None) for place, offset in crashed.released.items()})
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "of-another-machine"))

    for words in (
        ("reset", crashed.group, "--topic", crashed.topic, "--to-earliest"),
        ("delete-offsets", crashed.group, "--topic", crashed.topic),
        ("migrate", crashed.group, "--protocol", "classic" if kind == "consumer" else "consumer"),
        ("delete", crashed.group),
    ):
        assert "active-committer" not in kgroup(*words).stderr, words
    world.commit(crashed.group, {(crashed.topic, 0): 119})
    refused = kgroup("delete", crashed.group, exit_code=6)
    assert "[active-committer]" in refused.stderr
    assert f"{crashed.topic}:0 at 119; the only one" in refused.stderr
