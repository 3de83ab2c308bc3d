"""``kgroup describe``: its shape, its choice of groups, its formats. Kinds of groups: test_describe_groups.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld, partitions_of
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_live_classic_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, assignor: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    world.produce(topic, 10, partition=1)
    both = members.telling(group, topic, assignor=assignor), members.telling(group, topic, assignor=assignor)
    document = stable(kgroup, group, members, *both)

    assert (document["type"], document["protocol_type"]) == ("classic", "consumer")
    assert document["assignor"] == assignor
    assert document["generation"] == both[0].generation == both[1].generation
    assert document["leader_member_id"] in {member["member_id"] for member in document["members"]}
    assert {member["member_id"] for member in document["members"]} == {member.member_id for member in both}
    assert document["group_epoch"] is document["assignment_epoch"] is None
    assert len(document["members"]) == 2
    assert all(member["assignment"] for member in document["members"])
    assert [row["partition"] for row in document["partitions"]] == [0, 1, 2, 3]
    assert all(row["member_id"] for row in document["partitions"])
    assert document["totals"]["unassigned_partition_count"] == 0


def test_live_sticky_group(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Which librdkafka does not offer: a member made of single requests."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    member = by_hand.join(world, group, {topic: [0, 1]}, assignors=["sticky"])
    (document,) = kgroup("describe", group, "-o", "json").data
    assert (document["state"], document["assignor"], document["generation"]) == ("Stable", "sticky", member.generation)
    assert document["leader_member_id"] == member.member_id
    member.leave()


def test_live_consumer_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    both = members.consumer(group, topic), members.consumer(group, topic)
    document = stable(kgroup, group, members, *both)
    assert (document["type"], document["assignor"]) == ("consumer", "uniform")
    assert document["group_epoch"] == document["assignment_epoch"]
    assert document["generation"] is None
    found = document["members"]
    assert {member["protocol"] for member in found} == {"consumer"}
    assert all(member["member_epoch"] == document["group_epoch"] for member in found)
    assert all(member["target_assignment"] == member["assignment"] for member in found)


def stable(kgroup: CommandLine, group: str, members: Members, *both: Member) -> dict[str, Any]:
    """The group at rest, its four partitions with two members."""

    def look() -> dict[str, Any] | None:
        (document,) = kgroup("describe", group, "-o", "json").data
        return (
            document
            if document["state"] == "Stable" and document["totals"]["unassigned_partition_count"] == 0
            else None
        )

    members.stable(*both, partitions=4)
    return wait_for(look, f"{group} Stable")


# The shape


def test_every_field_of_the_contract(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """The names and their order, as the issue has them; the same for both types of groups."""
    topic, old, new = world.topic(name("orders"), partitions=2), name("old"), name("new")
    members.stable(members.telling(old, topic), partitions=2)
    members.stable(members.consumer(new, topic), partitions=2)

    envelope = kgroup("describe", old, new, "-o", "json").json

    assert list(envelope) == ["kind", "cluster", "executed", "data", "errors", "warnings", "notes"]
    assert envelope["kind"] == "kgroup.describe/v1"
    assert envelope["executed"] is False
    assert envelope["errors"] == []
    assert envelope["cluster"]["id"]
    for document in envelope["data"]:
        assert list(document) == [
            "group", "type", "state", "protocol_type", "assignor", "coordinator", "generation", "leader_member_id",
            "group_epoch", "assignment_epoch", "members", "partitions", "hidden_commits", "verdict", "totals",
            "pending_catchups", "source", "newest_record_at",
        ]  # fmt: skip
        assert list(document["coordinator"]) == ["id", "host", "port", "rack"]
        assert list(document["totals"]) == [
            "member_count", "idle_member_count", "partition_count", "unassigned_partition_count", "lag",
        ]  # fmt: skip
        (member,) = document["members"]
        assert [field for field in member if field != "subscription_regex"] == [
            "member_id", "instance_id", "client_id", "host", "rack", "member_epoch", "left_temporarily", "protocol",
            "subscription", "assignment", "target_assignment",
        ]  # fmt: skip
        assert member["assignment"] == [{"topic": topic, "partitions": [0, 1]}]
        for row in document["partitions"]:
            assert list(row) == [
                "topic", "partition", "committed", "leader_epoch", "metadata", "log_start", "log_end", "lag",
                "time_lag_ms", "last_commit_at", "range_status", "lag_status", "member_id", "client_id", "host",
                "error_code",
            ]  # fmt: skip
    assert [document["type"] for document in envelope["data"]] == ["classic", "consumer"]


def test_envelope_of_failures(kgroup: CommandLine, name: Name) -> None:
    """The same shape, with what went wrong in ``errors`` in the words of stderr."""
    missing = name("missing")
    for arguments, exit_code, code in (((missing,), 5, "not-found"), (("--nonsense",), 2, "usage")):
        result = kgroup("describe", *arguments, "-o", "json", exit_code=exit_code)
        assert list(result.json) == ["kind", "cluster", "executed", "data", "errors", "warnings", "notes"]
        assert (result.json["kind"], result.data) == ("kgroup.describe/v1", [])
        (error,) = result.json["errors"]
        assert error["code"] == code
        assert {"message", "hint", "group", "topic", "partition"} <= error.keys()
        assert error["message"] in result.stderr


# Which groups


def three_groups(world: KafkaWorld, name: Name) -> tuple[str, list[str]]:
    topic, stem = world.topic(name("orders"), partitions=2), name("g")
    groups = [f"{stem}-{ending}" for ending in "abc"]
    world.produce(topic, 10)
    for behind, group in enumerate(groups):
        world.commit(group, {(topic, 0): 10 - behind, (topic, 1): 0})
    return topic, groups


def chosen(kgroup: CommandLine, *arguments: str, exit_code: int = 0) -> list[str]:
    flags = ("--no-generation", "-o", "json")
    return [found["group"] for found in kgroup("describe", *arguments, *flags, exit_code=exit_code).data]


def test_choice_of_groups(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, (a, b, c) = three_groups(world, name)
    assert chosen(kgroup, a, c) == [a, c]
    assert set(chosen(kgroup, c, "--group", a)) == {a, c}
    assert chosen(kgroup, a, a) == [a], "a name given twice is one group"
    assert set(chosen(kgroup, "--regex", f"{a[:-1]}[ab]")) == {a, b}
    assert set(chosen(kgroup, "--topic", topic)) == {a, b, c}
    assert {a, b, c, bystander} <= set(chosen(kgroup, "--all-groups"))
    assert {a, b, c, bystander} <= set(chosen(kgroup))
    assert set(chosen(kgroup, a, b, "--in-state", "Empty")) == {a, b}
    assert chosen(kgroup, a, b, "--in-state", "Stable") == []
    assert chosen(kgroup, a, "--type", "consumer") == []
    assert chosen(kgroup, a, "--topic", name("other")) == []


def test_worst_first_without_a_name(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, (a, b, c) = three_groups(world, name)
    screen = kgroup("describe", "--topic", topic).stdout
    assert screen.index(c) < screen.index(b) < screen.index(a)
    assert sorted(chosen(kgroup, "--topic", topic)) == [a, b, c]


def test_expect(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    _, (a, b, _) = three_groups(world, name)
    assert len(chosen(kgroup, a, b, "--expect", "2")) == 2
    result = kgroup("describe", a, b, "--expect", "3", exit_code=6)
    assert result.stdout == ""
    assert result.stderr.splitlines()[0].endswith("2 groups chosen, 3 expected (--expect) [unexpected-count]")


def test_unknown_group(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    _, (a, _, _) = three_groups(world, name)
    before = world.groups()
    result = kgroup("describe", a + "z", exit_code=5)
    assert result.stdout == ""
    first, near, *_ = result.stderr.splitlines()
    assert first.startswith(f'kgroup: no group "{a}z" on ')
    assert first.endswith("[not-found]")
    assert f"{a} (classic, Empty)" in near
    kgroup("describe", "--regex", name("never") + ".*", exit_code=5)
    kgroup("describe", a.upper(), exit_code=5)
    assert set(world.groups()) <= set(before), "nothing was created (groups of other tests may go meanwhile)"


def test_one_of_several_unknown(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """What was found is shown; partial failure never hides the rest."""
    _, (a, b, _) = three_groups(world, name)
    result = kgroup("describe", a, b + "z", "-o", "json", exit_code=7)
    assert [found["group"] for found in result.data] == [a]
    assert [error["code"] for error in result.json["errors"]] == ["not-found"]


def test_empty_name(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """An unset shell variable is never every group."""
    three_groups(world, name)
    result = kgroup("describe", "", exit_code=2)
    assert result.stdout == ""
    kgroup("describe", "--group", "", exit_code=2)
    kgroup("describe", "--regex", "", exit_code=2)


def test_name_that_begins_with_a_dash(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, group = world.topic(name("orders")), "-" + name("g")
    world.commit(group, {(topic, 0): 0})
    assert [found["group"] for found in kgroup("describe", "-o", "json", "--", group).data] == [group]
    assert [found["group"] for found in kgroup("describe", f"--group={group}", "-o", "json").data] == [group]


# What to show


@pytest.mark.parametrize("output", ["table", "csv", "json"])
@pytest.mark.parametrize("both", [("--members", "--offsets"), ("--state", "--members"), ("--offsets", "--state")])
def test_only_one_view_at_a_time(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, both: tuple[str, str], output: str
) -> None:
    result = kgroup("describe", bystander, *both, "-o", output, exit_code=2)
    assert both[0] in result.stderr
    assert both[1] in result.stderr


def test_views(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str) -> None:
    topic, group = world.topic(name("orders"), partitions=25), name("svc")
    world.produce(topic, 10)
    live = members.telling(group, topic, client_id="enrich-1")
    members.stable(live, partitions=25)
    live.commit()

    page = kgroup("describe", group).stdout
    assert page.startswith(group)
    assert f"generation {live.generation}" in page
    assert sum(line.startswith(f"{topic}:") for line in page.splitlines()) == 20
    assert "5 more" in page
    assert "--offsets" in page
    assert "MEMBER" in page

    offsets = kgroup("describe", group, "--offsets").stdout
    assert sum(line.startswith(f"{topic}:") for line in offsets.splitlines()) == 25
    assert "MEMBER" not in offsets

    one_view = kgroup("describe", group, "--members").stdout
    assert "enrich-1" in one_view
    assert f"{topic}:0" not in one_view
    assert topic in kgroup("describe", group, "--members", "--verbose").stdout

    state = kgroup("describe", group, "--state").stdout
    assert group in state
    assert "Stable" in state
    assert f"{topic}:0" not in state

    verbose = kgroup("describe", group, "--verbose").stdout
    assert sum(line.startswith(f"{topic}:") for line in verbose.splitlines()) >= 25


def test_views_in_csv(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str) -> None:
    topic, group = world.topic(name("orders"), partitions=25), name("svc")
    live = members.telling(group, topic, client_id="enrich-1")
    members.stable(live, partitions=25)

    rows = kgroup("describe", group, "-o", "csv").rows
    assert list(rows[0]) == [
        "group", "topic", "partition", "committed", "leader_epoch", "metadata", "log_start", "log_end", "lag",
        "range_status", "member_id", "client_id", "host", "error_code",
    ]  # fmt: skip
    assert [(row["topic"], int(row["partition"])) for row in rows] == [(topic, number) for number in range(25)]
    assert kgroup("describe", group, "-o", "csv").stdout == kgroup("describe", group, "--offsets", "-o", "csv").stdout
    (member,) = kgroup("describe", group, "--members", "-o", "csv").rows
    assert (member["group"], member["member_id"], member["client_id"]) == (group, live.member_id, "enrich-1")
    (state,) = kgroup("describe", group, "--state", "-o", "csv").rows
    assert (state["group"], state["state"], state["type"]) == (group, "Stable", "classic")
    assert int(state["generation"]) == live.generation


def test_json_does_not_depend_on_the_view(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Types never depend on flags: every key is there whatever was asked for."""
    _, (a, _, _) = three_groups(world, name)
    plain = kgroup("describe", a, "-o", "json").data[0]
    for view in ("--members", "--offsets", "--state", "--verbose"):
        (document,) = kgroup("describe", a, view, "-o", "json").data
        assert document.keys() == plain.keys(), view


def test_formats_agree(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, (a, b, _) = three_groups(world, name)
    document = kgroup("describe", a, b, "-o", "json").json
    rows = kgroup("describe", a, b, "-o", "csv").rows
    assert [(row["group"], row["partition"], row["lag"]) for row in rows] == [
        (found["group"], str(row["partition"]), str(row["lag"]))
        for found in document["data"]
        for row in found["partitions"]
    ]
    for output in ("table", "wide"):
        screen = kgroup("describe", a, b, "-o", output)
        assert f"{topic}:0" in screen.stdout
        assert a in screen.stdout
        assert b in screen.stdout
        assert screen.stderr == ""
        assert "\x1b" not in screen.stdout


def test_order_is_stable(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    first, second, group = world.topic(name("b"), 3), world.topic(name("a"), 12), name("svc")
    world.commit(group, {(first, 2): 0, (second, 10): 0, (first, 0): 0, (second, 2): 0})
    expected = [(second, 2), (second, 10), (first, 0), (first, 2)]
    for _ in range(3):
        (document,) = kgroup("describe", group, "-o", "json").data
        assert partitions_of(document["partitions"]) == expected
        rows = kgroup("describe", group, "-o", "csv").rows
        assert [(row["topic"], int(row["partition"])) for row in rows] == expected


def test_eighty_columns(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """As a process without a terminal, told its width: nothing wider, and ids never cut apart."""
    topic, group = world.topic(name("o")[:30]), name("s")[:30]
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 1})
    for arguments in (("describe", group), ("describe", group, "--verbose"), ("list", group)):
        screen = kgroup.process(*arguments, env={"COLUMNS": "80", "NO_COLOR": "1"}).stdout
        assert max(map(len, screen.splitlines())) <= 80, screen
        assert group in screen
        if arguments[0] == "describe":
            assert f"{topic}:0" in screen
