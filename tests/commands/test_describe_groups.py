"""``kgroup describe`` against real groups of every kind, and in every state that they pass through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld, partitions_of
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Document = dict[str, Any]

pytestmark = pytest.mark.usefixtures("bystander")


def described(kgroup: CommandLine, group: str, *flags: str, exit_code: int = 0) -> Document:
    """The only subject of a description."""
    (document,) = kgroup("describe", group, *flags, "-o", "json", exit_code=exit_code).data
    assert document["group"] == group
    return document


def described_as(kgroup: CommandLine, group: str, what: str, holds: Callable[[Document], bool]) -> Document:
    """The first description for which ``holds``."""

    def look() -> Document | None:
        found = kgroup("describe", group, "-o", "json", exit_code=None).data
        return found[0] if found and holds(found[0]) else None

    return wait_for(look, f"{group} {what}")


def in_state(state: str) -> Callable[[Document], bool]:
    return lambda document: bool(document["state"] == state)


def row(document: Document, topic: str, partition: int) -> Document:
    (found,) = [r for r in document["partitions"] if (r["topic"], r["partition"]) == (topic, partition)]
    return dict(found)


def places(assignment: list[Mapping[str, Any]]) -> set[tuple[str, int]]:
    return {(item["topic"], number) for item in assignment for number in item["partitions"]}


# Consumer groups (KIP-848)


def test_consumer_group_reconciling(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    """A member that does not give partitions up yet: what it holds and what it is to hold differ."""
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    slow = members.consumer(group, topic, client_id="slow")
    members.stable(slow, partitions=4)
    slow.hold()
    members.consumer(group, topic, client_id="quick")

    document = described_as(
        kgroup,
        group,
        "Reconciling with two members",
        lambda found: found["state"] == "Reconciling" and len(found["members"]) == 2,
    )

    by_client = {member["client_id"]: member for member in document["members"]}
    assert len(places(by_client["slow"]["assignment"])) == 4
    assert len(places(by_client["slow"]["target_assignment"])) == 2
    assert by_client["quick"]["assignment"] == []
    assert len(places(by_client["quick"]["target_assignment"])) == 2
    assert by_client["slow"]["member_epoch"] < document["group_epoch"]
    assert document["group_epoch"] == document["assignment_epoch"]
    assert {r["client_id"] for r in document["partitions"]} == {"slow"}
    assert document["totals"]["idle_member_count"] == 1
    assert document["generation"] is document["leader_member_id"] is None

    slow.go()
    after = described_as(kgroup, group, "Stable", in_state("Stable"))
    assert all(m["assignment"] == m["target_assignment"] for m in after["members"])
    assert {r["client_id"] for r in after["partitions"]} == {"slow", "quick"}


def test_consumer_group_assigning(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    """A group whose next assignment may be computed only later: the group's epoch is ahead of the assignment's."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.configure_group(group, consumer_assignment_interval_ms="15000")
    members.stable(members.consumer(group, topic), partitions=2)
    members.consumer(group, topic)

    document = described_as(kgroup, group, "Assigning", in_state("Assigning"))

    assert document["type"] == "consumer"
    assert document["group_epoch"] > document["assignment_epoch"]
    assert sum(len(places(member["assignment"])) for member in document["members"]) == 2


def test_consumer_group_with_idle_member_and_server_assignor(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    started = [members.consumer(group, topic, group_remote_assignor="range", client_rack=f"r{i}") for i in range(3)]
    members.stable(*started, partitions=2)

    document = described_as(
        kgroup, group, "Stable", lambda found: found["state"] == "Stable" and len(found["members"]) == 3
    )

    assert document["assignor"] == "range"
    assert {member["rack"] for member in document["members"]} == {"r0", "r1", "r2"}
    assert all(member["subscription"] == [topic] for member in document["members"])
    assert document["totals"]["idle_member_count"] == 1
    assert document["totals"]["member_count"] == 3
    screen = kgroup("describe", group).stdout
    assert "idle" in screen


def test_consumer_group_subscribed_by_regex(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    prefix, group = name("orders"), name("svc")
    topics = [world.topic(f"{prefix}-{i}") for i in range(2)]
    members.stable(members.consumer(group, f"^{prefix}-.*"), partitions=2)

    document = described_as(kgroup, group, "Stable", in_state("Stable"))

    assert partitions_of(document["partitions"]) == [(topic, 0) for topic in topics]
    (member,) = document["members"]
    assert member["subscription"] == []
    assert f"^{prefix}-.*" in member["subscription_regex"]


@pytest.mark.soak
def test_static_consumer_member_that_left_for_a_moment(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.configure_group(group, consumer_session_timeout_ms="6000")
    static = members.consumer(group, topic, group_instance_id="pod-0")
    members.stable(static, partitions=2)
    alive = described_as(kgroup, group, "Stable", in_state("Stable"))
    assert alive["members"][0]["instance_id"] == "pod-0"

    static.close()
    document = described_as(
        kgroup,
        group,
        "left temporarily",
        lambda found: [member["member_epoch"] for member in found["members"]] == [-2],
    )

    (member,) = document["members"]
    assert (member["instance_id"], member["protocol"]) == ("pod-0", "consumer")
    assert places(member["assignment"]) == {(topic, 0), (topic, 1)}
    assert all(r["member_id"] == member["member_id"] for r in document["partitions"])
    described_as(kgroup, group, "Empty after the session", in_state("Empty"))


def test_mixed_group_during_an_online_upgrade(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    old = members.telling(group, topic, assignor="range", client_id="old")
    members.stable(old, partitions=4)
    before = described(kgroup, group)
    assert before["type"] == "classic"
    new = members.consumer(group, topic, client_id="new")
    members.stable(old, new, partitions=4)

    document = described_as(kgroup, group, "Stable as a consumer group", in_state("Stable"))

    assert document["type"] == "consumer"
    assert {m["client_id"]: m["protocol"] for m in document["members"]} == {"old": "classic", "new": "consumer"}
    assert all(len(places(m["assignment"])) == 2 for m in document["members"])
    assert document["generation"] is None
    assert document["group_epoch"] >= before["generation"]
    assert {r["client_id"] for r in document["partitions"]} == {"old", "new"}

    # And back: the last member of the new protocol leaves.
    new.close()
    after = described_as(kgroup, group, "classic again", lambda d: d["type"] == "classic" and d["state"] == "Stable")
    members.stable(old, partitions=4)
    after = described(kgroup, group)
    assert after["group_epoch"] is after["assignment_epoch"] is None
    assert after["generation"] == old.generation
    assert after["leader_member_id"] == old.member_id


# Classic groups


def test_generation_and_leader_are_the_clients_own(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    first = members.telling(group, topic)
    members.stable(first, partitions=4)
    second = members.telling(group, topic)
    members.stable(first, second, partitions=4)

    def of_one_generation() -> Result | None:
        result = kgroup("describe", group, "-o", "json")
        told = {result.data[0]["generation"], first.generation, second.generation}
        return result if len(told) == 1 and None not in told else None

    result = wait_for(of_one_generation, "the clients' own generation")
    assert result.data[0]["leader_member_id"] == first.member_id
    assert result.stderr == ""
    first.close()
    members.stable(second, partitions=4)
    after = described(kgroup, group)
    assert (after["generation"], after["leader_member_id"]) == (second.generation, second.member_id)


@pytest.mark.soak
def test_generation_after_many_commits_of_others_in_the_same_partition(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    member = members.telling(group, topic)
    members.stable(member, partitions=4)
    noisy = beside(name, group)
    many = world.topic(name("many"), partitions=500)
    for offset in range(10):
        world.commit(noisy, {(many, number): offset for number in range(500)})

    document = described_as(kgroup, group, "in its generation", lambda found: found["generation"] == member.generation)

    assert document["leader_member_id"] == member.member_id


def beside(name: Name, group: str, partitions: int = 10) -> str:
    """A group's name that is kept in the same partition of ``__consumer_offsets``."""

    def partition(text: str) -> int:
        value = 0
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
        signed = value - (1 << 32) if value >> 31 else value
        return abs(signed) % partitions

    stem = name("noisy")
    return next(f"{stem}-{i}" for i in range(1000) if partition(f"{stem}-{i}") == partition(group))


def test_without_generation(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=1), name("svc")
    members.stable(members.telling(group, topic), partitions=1)

    result = kgroup("describe", group, "--no-generation", "-o", "json")

    (document,) = result.data
    assert document["generation"] is document["leader_member_id"] is None
    assert len(document["members"]) == 1
    assert result.stderr == ""


def test_generation_of_a_group_deleted_and_made_again(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    for _ in range(2):
        member = members.telling(group, topic)
        members.stable(member, partitions=2)
        member.close()
    empty = described_as(kgroup, group, "Empty", in_state("Empty"))
    assert empty["generation"] >= 4
    assert empty["leader_member_id"] is None
    world.delete_group(group)
    world.commit(group, {(topic, 0): 1})
    simple = described(kgroup, group)
    assert simple["leader_member_id"] is None
    assert simple["generation"] in (None, 0), "the deleted group's generation"

    world.delete_group(group)
    again = members.telling(group, topic)
    members.stable(again, partitions=2)
    # It may join once more, as soon as it has the topic's metadata.
    document = described_as(kgroup, group, "in its generation", lambda found: found["generation"] == again.generation)
    assert document["leader_member_id"] == again.member_id


def test_group_that_was_consumer_and_became_classic(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 4)
    new = members.consumer(group, topic)
    members.stable(new, partitions=2)
    new.commit()
    new.close()
    described_as(kgroup, group, "Empty", in_state("Empty"))
    old = members.telling(group, topic)
    members.stable(old, partitions=2)

    document = described_as(kgroup, group, "in its generation", lambda found: found["generation"] == old.generation)

    assert document["type"] == "classic"
    assert (document["generation"], document["leader_member_id"]) == (old.generation, old.member_id)
    assert document["group_epoch"] is document["assignment_epoch"] is None


def test_group_that_was_classic_and_became_consumer(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    old = members.telling(group, topic)
    members.stable(old, partitions=2)
    old.close()
    described_as(kgroup, group, "Empty", in_state("Empty"))
    members.stable(members.consumer(group, topic), partitions=2)

    document = described_as(kgroup, group, "Stable", in_state("Stable"))

    assert document["type"] == "consumer"
    assert document["generation"] is document["leader_member_id"] is None
    assert document["group_epoch"] is not None


def test_classic_group_rebalancing(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    """While a rebalance is prepared, what a new member will get is unknown, which is not the same as nothing."""
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    slow = members.telling(group, topic, client_id="slow")
    members.stable(slow, partitions=4)
    slow.hold()
    members.telling(group, topic, client_id="quick")

    document = described_as(kgroup, group, "rebalancing", in_state("PreparingRebalance"))

    by_client = {member["client_id"]: member for member in document["members"]}
    assert by_client["quick"]["assignment"] is None
    assert by_client["slow"]["assignment"] != []
    assert document["totals"]["idle_member_count"] == 0
    assert document["generation"] == slow.generation
    slow.go()


ODD = {
    "spaces": "two  words ",
    "comma": "a,b",
    "quotes": 'say "it\'s"',
    "newline": "two\nlines",
    "carriage": "car\rriage",
    "tab": "tab\tbed",
    "escape": "red\x1b[31m\x07",
    "nul": "nul\x00x",
    "accents": "žluťoučký-é",
    "combining": "e\u0301",
    "japanese": "注文サービス",
    "emoji": "😀👩‍👩‍👧",
    "rtl": "\u202eabc",
    "formula": "=1+1",
    "pipe": "a|b`c`*d*",
    "markup": "[red]x[/red]",
    "percent": "%s {0} \\n",
    "long": "g" * 249,
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_group_ids(kgroup: CommandLine, world: KafkaWorld, name: Name, kind: str) -> None:
    """Exact in json, csv and yaml; on screens no raw control characters, and one line stays one line."""
    topic, group = world.topic(name("orders")), name("g") + ODD[kind]
    world.produce(topic, 3)
    world.commit(group, {(topic, 0): 1})

    document = described(kgroup, group)

    assert document["partitions"][0]["lag"] == 2
    (line,) = kgroup("describe", group, "-o", "csv").rows
    assert line["group"] == group
    (listed,) = kgroup("list", group, "-o", "json").data
    assert listed["group"] == group
    (line,) = kgroup("list", group, "-o", "csv").rows
    assert line["group"] == group
    for output in ("table", "wide", "markdown"):
        for verb in ("describe", "list"):
            screen = kgroup(verb, group, "-o", output).stdout
            assert not [c for c in screen if (ord(c) < 32 and c != "\n") or c in "\x7f\u202e"], (verb, output)
            assert "g-test" in screen
    world.delete_group(group)  # export --all-groups would exit 7 for one with a NUL


# Partitions, commits, logs


def test_commits_are_exact(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=5), name("svc")
    metadata = 'a "b", c\n\té 注文 😀 {"k": 1}\x00end'
    world.produce(topic, 9)
    world.commit(
        group,
        {(topic, 0): (2, metadata, 0), (topic, 1): (0, "", None), (topic, 2): (0, "x" * 4096, None)},
    )

    document = described(kgroup, group)

    first, second, third = (row(document, topic, number) for number in range(3))
    assert (first["committed"], first["leader_epoch"], first["metadata"]) == (2, 0, metadata)
    assert (first["log_start"], first["log_end"], first["lag"]) == (0, 9, 7)
    assert (second["committed"], second["leader_epoch"], second["metadata"], second["lag"]) == (0, None, "", 0)
    assert third["metadata"] == "x" * 4096
    assert kgroup("describe", group, "--verbose", "-o", "csv").rows[0]["metadata"] == metadata
    assert "\x00" not in kgroup("describe", group, "--verbose").stdout


def test_topic_deleted_under_a_live_classic_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    """Its member holds the deleted partitions until it notices: rows with an error, not a failure of the whole."""
    gone, kept, group = world.topic(name("gone"), partitions=2), world.topic(name("kept")), name("svc")
    world.produce(kept, 5)
    member = members.telling(group, gone, kept)
    members.stable(member, partitions=3)
    member.commit()
    member.stop()
    world.delete_topic(gone)

    result = kgroup("describe", group, "-o", "json", exit_code=7)

    (document,) = result.data
    assert row(document, kept, 0)["lag"] is not None
    assert row(document, gone, 0)["error_code"]
    assert row(document, gone, 0)["member_id"] == member.member_id
    assert {e["topic"] for e in result.json["errors"]} == {gone}
