"""``kgroup simulate``: predicted, then really done and compared; what is refused; the formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import topic_shapes
from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.simulation.model import SimulatedGroup
from kgroup.groups.simulation.rebalancing import rebalance
from kgroup.groups.simulation.subject import subject_of
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import KgroupError
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Held = dict[str, set[tuple[str, int]]]
"""Partitions by member id."""


# Predicted, and then measured


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_consumer_group_does_what_was_predicted(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, assignor: str
) -> None:
    """Who gets which partition, exactly: a member stopped, partitions added, a member started."""
    topics = [world.topic(name("orders"), partitions=7), world.topic(name("clicks"), partitions=4)]
    group = name("svc")

    def start() -> Member:
        return members.consumer(group, *topics, group_remote_assignor=assignor)

    live = [start(), start(), start()]
    members.stable(*live, partitions=11)
    before = settled(kgroup, group, 3, 11)
    while not apart(held(before)):  # 1 in 6; each in turn, since it may be the other two that share a slot
        live.append(live.pop(0))
        live[-1].close()
        live[-1].start_again()
        members.stable(*live, partitions=11)
        before = settled(kgroup, group, 3, 11)

    gone = live.pop(0)
    predicted = simulated(kgroup, group, "--remove", member_of(before, gone))
    gone.close()
    after = settled(kgroup, group, 2, 11)
    check(predicted, before, after)

    predicted = simulated(kgroup, group, "--partitions", f"{topics[1]}=+3")
    world.add_partitions(topics[1], 7)
    grown = settled(kgroup, group, 2, 14)
    check(predicted, after, grown)

    predicted = simulated(kgroup, group, "--add", "1")
    (document,) = kgroup("simulate", group, "--add", "1", "-o", "json").data
    assert document["assumed"]["handover_from"] == "log"
    assert document["assumed"]["measured_rebalance_count"] >= 3
    subject = as_it_is(group, topics)
    live.append(start())
    joined = settled(kgroup, group, 3, 14)
    check_numbers(predicted, grown, joined, among=range(1, 15))
    # With the id that the newcomer turned out to have, it is exact too: what moved depends on that.
    outcomes = [owned_by(outcome) for outcome in possible_outcomes(subject, joined)]
    assert held(joined) in outcomes
    assert all(outcome == held(joined) for outcome in outcomes) or not apart(held(joined))


@pytest.mark.soak
def test_topics_whose_ids_share_a_bucket(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """1 in 16 of two topics: which is walked first depends on which came to a member first, predicted over and over.

    What Kafka's own classes make of such ids, member ids given, is in tests/data/targets.jsonl.
    """
    topics = [world.topic(name("orders"), partitions=7)]
    while len(topics) < 2:
        other = world.topic(name("clicks"), partitions=4)
        first, second = (topic.id or 0 for topic in shapes([*topics, other]))
        topics += [other] if bucket(uuid_code(first)) == bucket(uuid_code(second)) else []
    group = name("svc")
    live: list[Member] = []

    def start() -> None:
        live.append(members.consumer(group, *topics))

    start()
    members.stable(*live, partitions=11)
    subject = as_it_is(group, topics)
    for change, count, partitions in (
        (start, 2, 11),
        (start, 3, 11),
        (lambda: live.pop(0).close(), 2, 11),
        (start, 3, 11),
        (lambda: world.add_partitions(topics[1], 7), 3, 14),
        (start, 4, 14),
    ):
        change()
        after = settled(kgroup, group, count, partitions)
        outcomes = possible_outcomes(replace(subject, topics=shapes(topics)), after)
        assert held(after) in [owned_by(outcome) for outcome in outcomes]
        assert all(owned_by(outcome) == held(after) for outcome in outcomes) or not apart(held(after))
        subject = next(outcome for outcome in outcomes if owned_by(outcome) == held(after))


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_classic_group_does_what_was_predicted(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, assignor: str
) -> None:
    """librdkafka's members: range and roundrobin exactly, as instance ids can be foreseen; else numbers."""
    topics = [world.topic(name("orders"), partitions=7), world.topic(name("clicks"), partitions=4)]
    group, exact = name("svc"), assignor != "cooperative-sticky"

    def start(number: int) -> Member:
        return members.classic(group, *topics, assignor=assignor, group_instance_id=f"app-{number}")

    live = [start(0), start(1), start(2)]
    members.stable(*live, partitions=11)
    before = settled(kgroup, group, 3, 11)

    predicted = simulated(kgroup, group, "--add", "1")
    live.append(start(3))
    members.stable(*live, partitions=11)
    after = settled(kgroup, group, 4, 11)
    # With cooperative-sticky a member that gives up partitions joins again; one that is later than another joins alone.
    check_numbers(predicted, before, after, late=0 if exact else len(live) - 2)
    if exact:
        instances = {member["member_id"]: member["instance_id"] for member in after["members"]}
        assert {instances[who]: has for who, has in held(after).items()} == {
            line["instance_id"]: places(line["assignment_after"]) for line in predicted["members"]
        }


def test_members_that_are_static_come_back_to_what_they_had(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    """Predicted: no rebalance where the session outlasts the restart, and the session timeout is the group's own."""
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    live = [members.consumer(group, topic, group_instance_id=f"app-{number}") for number in range(2)]
    members.stable(*live, partitions=4)
    before = settled(kgroup, group, 2, 4)

    (document,) = kgroup("simulate", group, "--restart-rolling", "-o", "json").data
    live[0].close()
    live[0].start_again()
    after = settled(kgroup, group, 2, 4, but=before["members"][0]["member_id"])

    assert (document["assumed"]["session_timeout_ms"], document["assumed"]["session_timeout_from"]) == (15_000, "group")
    late, in_time = document["scenarios"][0], simulated(kgroup, group, "--restart-rolling", "--restart-time", "5s")
    assert late["rebalance_count"] == {"least": 4, "most": 4}
    assert in_time["rebalance_count"] == {"least": 0, "most": 0}
    assert after["group_epoch"] == before["group_epoch"]
    assert sorted(map(sorted, held(after).values())) == sorted(map(sorted, held(before).values()))


@pytest.mark.soak
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", "uniform"])
def test_a_killed_member_with_an_instant_replacement(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, assignor: str
) -> None:
    """One rebalance that waits for the dead one's session; two epochs of a consumer group."""
    topic, group = world.topic(name("orders"), partitions=12), name("svc")

    def start() -> Member:
        if assignor == "uniform":
            return members.consumer(group, topic)
        return members.classic(group, topic, assignor=assignor, session_timeout_ms=8000)

    live = [start(), start(), start()]
    members.stable(*live, partitions=12)
    before = settled(kgroup, group, 3, 12)
    predicted = simulated(kgroup, group, "--kill", "1")
    dead = member_of(before, live[0])
    live.pop(0).kill()
    live.append(start())
    after = settled(kgroup, group, 3, 12, but=dead)
    # Under range what the others have depends on where the newcomer's id stands among theirs.
    check_numbers(predicted, before, after, among=(4, 8, 12) if assignor == "range" else None)


def settled(kgroup: CommandLine, group: str, count: int, partitions: int, but: str | None = None) -> dict[str, Any]:
    """The group once so many members (none of them ``but``) hold so many partitions."""

    def look() -> dict[str, Any] | None:
        (found,) = kgroup("describe", group, "-o", "json", "--scan-time", "5s").data
        there = [member["member_id"] for member in found["members"]]
        here = found["state"] == "Stable" and len(there) == count and but not in there
        assigned = found["type"] == "classic" or found["group_epoch"] == found["assignment_epoch"]
        at_rest = found["type"] == "consumer" or found["generation"] is not None
        full = sum(len(had) for had in held(found).values()) == partitions
        return found if here and assigned and at_rest and full else None

    return wait_for(look, f"{count} members of {group} with {partitions} partitions")


def simulated(kgroup: CommandLine, group: str, *words: str) -> dict[str, Any]:
    """What is predicted of the group as it is."""
    (document,) = kgroup("simulate", group, *words, "-o", "json").data
    (shown,) = [one for one in document["scenarios"] if one["shown"]]
    assert shown["as_it_is"]
    return dict(shown)


def places(assignment: Sequence[dict[str, Any]] | None) -> set[tuple[str, int]]:
    return {(item["topic"], number) for item in assignment or () for number in item["partitions"]}


def held(found: dict[str, Any]) -> Held:
    return {member["member_id"]: places(member["assignment"]) for member in found["members"]}


def member_of(found: dict[str, Any], member: Member) -> str:
    """The id of a live member, by what it holds."""
    (member_id,) = [who for who, has in held(found).items() if has == {*map(tuple, member.assignment or ())}]
    return member_id


def check(predicted: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare who has what, and the numbers."""
    assert apart(held(after)), "so that the ids tell who gets what"
    assert {line["member_id"]: places(line["assignment_before"]) for line in predicted["members"]} == held(before)
    there = [line for line in predicted["members"] if line["assignment_after"] is not None]
    assert {line["member_id"]: places(line["assignment_after"]) for line in there} == held(after)
    check_numbers(predicted, before, after)


def check_numbers(
    predicted: dict[str, Any],
    before: dict[str, Any],
    after: dict[str, Any],
    among: Collection[int] | None = None,
    late: int = 0,
) -> None:
    """Compare epochs or generations, partitions that moved, and how evenly they lie.

    ``among`` are the numbers that can have moved with whatever id a newcomer has: the least and the most of 20 runs
    with made-up ids are no bounds. ``late`` is how many members more than one may give up partitions at another
    moment, each with a rebalance of its own.
    """
    age = "group_epoch" if before["type"] == "consumer" else "generation"
    owners = {place: who for who, has in held(before).items() for place in has}
    moved = sum(owners.get(place, who) != who for who, has in held(after).items() for place in has)
    sizes = [len(has) for has in held(after).values()]
    balance = predicted["balance_after"]
    rebalances = predicted["rebalance_count"]
    assert rebalances["least"] == rebalances["most"]
    assert rebalances["least"] <= after[age] - before[age] <= rebalances["most"] + late
    if among is None:
        assert predicted["moved_partition_count"]["least"] <= moved <= predicted["moved_partition_count"]["most"]
    else:
        assert {moved, predicted["moved_partition_count"]["least"], predicted["moved_partition_count"]["most"]} <= set(
            among
        )
    assert (len(sizes), min(sizes), max(sizes)) == (
        balance["member_count"],
        balance["fewest_partition_count"],
        balance["most_partition_count"],
    )


def apart(ids: Collection[str]) -> bool:
    """Whether no two ids are in one bucket of a java.util.HashMap of 16: the order in which they came is no matter.

    Reckoned here, by Java's documentation of String.hashCode, and not by what is tested.
    """

    def string_code(member_id: str) -> int:
        code = 0
        for unit in member_id.encode("ascii"):
            code = (31 * code + unit) & 0xFFFFFFFF
        return code

    return len({bucket(string_code(member_id)) for member_id in ids}) == len(ids) <= 12


def bucket(code: int) -> int:
    """The place of a hash code in a java.util.HashMap of 16."""
    return (code ^ code >> 16) & 15


def uuid_code(topic_id: int) -> int:
    """Uuid.hashCode, by its documentation: the exclusive or of its four words."""
    words = [topic_id >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def possible_outcomes(subject: SimulatedGroup, after: dict[str, Any]) -> list[SimulatedGroup]:
    """What may come of it, by the orders of members who share a slot: nearly always all the same.

    Newcomers have the ids that they turned out to have.
    """
    there = [member for member in subject.members if member.member_id in held(after)]
    known = {member.member_id for member in there}
    new = [Subscriber(who, there[0].topics) for who in held(after) if who not in known]
    orders = permutations((*there, *new))
    return [replace(subject, members=rebalance(replace(subject, members=order), 1).members) for order in orders]


def owned_by(subject: SimulatedGroup) -> Held:
    return {member.member_id: set(member.owned) for member in subject.members}


def as_it_is(group: str, topics: Sequence[str]) -> SimulatedGroup:
    """A consumer group as the cluster tells of it, with all that a file would leave out: ids of topics, and orders."""
    with Cluster(resolve(Connection(), QuietReporter())) as cluster:
        (found,) = cluster.describe([group], SnapshotRequest(logs=False, generation_budget_s=0)).groups
    return subject_of(found, shapes(topics), None)


def shapes(topics: Sequence[str]) -> tuple[AssignorTopic, ...]:
    """The topics as the cluster has them now, their ids among it."""
    with Cluster(resolve(Connection(), QuietReporter())) as cluster:
        found = [shape for shape in cluster.ask(topic_shapes, topics).values() if not isinstance(shape, KgroupError)]
    return tuple(AssignorTopic(shape.name, shape.partitions, shape.replica_racks, shape.id) for shape in found)


# What becomes of the lag


def test_the_lag_is_measured_of_a_live_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    members.stable(members.classic(group, topic), partitions=2)

    def effect() -> Any:
        world.produce(topic, 20)
        (document,) = kgroup("simulate", group, "--add", "2", "-o", "json").data
        found = document["lag_effect"]
        return found if found["in_per_s"] else None

    found = wait_for(effect, "a rate")
    assert (found["reading_member_count_before"], found["reading_member_count_after"]) == (1, 2)
    assert found["needed_per_member_per_s"] == pytest.approx(found["in_per_s"] / 2, abs=0.001)
    assert found["standstill_offset_count"] is not None
    page = " ".join(kgroup("simulate", group, "--add", "2").stdout.split())
    assert re.search(r"LAG \S+, \S+ arrive.*: (each of )?2 members would", page)
    assert "idle: 1 of 3 members has no partition, because there are only 2" in page
