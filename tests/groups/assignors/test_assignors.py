"""Assignors: equal to Kafka's own on every step that its classes produced, and true to their promises on any group.

``assignors.jsonl`` holds chains of steps that the assignor classes of Apache Kafka 4.3.1 computed. One line is a
chain: ``members`` as [id, instance id, rack, subscribed topic indices], ``brk`` and ``rf`` the racks of brokers and
the replicas, ``steps`` one call each: ``m`` members in HashMap order, ``t`` partitions per topic (as before if
absent), ``own``, ``gen``, ``pgen`` claims where they are not simply the result of the step before, ``out`` the result,
``rv`` how many owned partitions a cooperative member has to give up.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.assignors import CLIENT_SIDE, SERVER_SIDE, assign
from kgroup.groups.assignors.java_order import (
    in_hash_order,
    member_order,
    members_in_hash_order,
    numbers_in_hash_order,
    partition_hash,
    string_hash,
    table_size,
    utf16,
    uuid_hash,
    uuid_order,
)
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber
from kgroup.groups.assignors.ranges import client_range, server_range
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.for_each import for_each
from tests.helpers.fuzzing import NASTY
from tests.helpers.places import DATA

ASSIGNORS = {**CLIENT_SIDE, "uniform": SERVER_SIDE["uniform"], "range-server": SERVER_SIDE["range"]}
CHAINS = [json.loads(line) for line in (DATA / "assignors.jsonl").read_text("utf-8").splitlines()]


@dataclass(frozen=True)
class Step:
    """One call of an assignor: what it is given, in the order in which Kafka walks it, and what Kafka gave."""

    number: int
    event: str
    members: list[Subscriber]
    topics: list[AssignorTopic]
    expected: dict[str, set[TopicPartition]]
    to_revoke: int


def partitions(text: str, names: list[str]) -> set[TopicPartition]:
    """``0:0-3,7;2:1`` = topic 0 partitions 0, 1, 2, 3, 7 and topic 2 partition 1."""
    found: set[TopicPartition] = set()
    for part in filter(None, text.split(";")):
        topic, numbers = part.split(":")
        for span in numbers.split(","):
            first, _, last = span.partition("-")
            found.update(
                TopicPartition(names[int(topic)], number) for number in range(int(first), int(last or first) + 1)
            )
    return found


def steps(chain: dict[str, Any]) -> Iterator[Step]:
    names: list[str] = chain["topics"]
    counts: list[int] = []
    last: dict[str, set[TopicPartition]] = {}
    for number, step in enumerate(chain["steps"]):
        counts = step.get("t", counts)
        members = []
        for at in step["m"]:
            member_id, instance_id, rack, subscription = chain["members"][at]
            claimed = step.get("own", {}).get(str(at))
            owned = last.get(member_id, set()) if claimed is None else partitions(claimed, names)
            generation = step.get("gen", {}).get(str(at), number if member_id in last else -1)
            in_protocol = step.get("pgen", {}).get(str(at), generation)
            topics = names if subscription == "*" else [names[int(index)] for index in subscription]
            members.append(
                Subscriber(
                    member_id,
                    frozenset(topics),
                    instance_id,
                    rack,
                    tuple(sorted(owned, key=lambda partition: (names.index(partition[0]), partition[1]))),
                    None if generation < 0 else generation,
                    None if in_protocol < 0 else in_protocol,
                )
            )
        last = {member.member_id: partitions(text, names) for member, text in zip(members, step["out"], strict=True)}
        topics_now = [topic(chain, index, count) for index, count in enumerate(counts) if count]
        yield Step(number, step["ev"], members, topics_now, last, step.get("rv", 0))


def topic(chain: dict[str, Any], index: int, count: int) -> AssignorTopic:
    brokers: list[str] = chain.get("brk") or []
    racks = tuple(
        frozenset(brokers[(index + number + replica) % len(brokers)] for replica in range(chain["rf"]))
        for number in range(count if brokers else 0)
    )
    return AssignorTopic(chain["topics"][index], count, racks or None, id=index + 1)


@for_each("chain", CHAINS)
def test_every_step_is_what_kafka_gave(chain: dict[str, Any]) -> None:
    for step in steps(chain):
        got = ASSIGNORS[chain["a"]](step.members, step.topics)
        assert {who: set(had) for who, had in got.items()} == step.expected, f"step {step.number}: {step.event}"
        if chain["a"] == "cooperative-sticky":
            assert lost(step.members, got) == step.to_revoke


def test_the_chains_cover_all_assignors() -> None:
    assert len(CHAINS) == 301
    assert Counter(chain["a"] for chain in CHAINS).keys() == ASSIGNORS.keys()


def test_members_stand_in_the_order_of_javas_hash_table() -> None:
    """Kafka's own order is left as it is: ids by bucket, and those of one bucket as they were."""
    for chain in CHAINS:
        for step in steps(chain):
            assert members_in_hash_order(step.members) == step.members, f"{chain['id']}, step {step.number}"


@for_each("chain", [chain for chain in CHAINS if chain["a"] == "range"])
def test_the_brokers_range_is_the_clients_without_racks(chain: dict[str, Any]) -> None:
    for step in steps(chain):
        without = [replace(member, rack=None) for member in step.members]
        assert server_range(step.members, step.topics) == client_range(without, step.topics)


# Java's orders.


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("a", 97), ("ab", 3105), ("hello", 99162322), ("polygenelubricants", 1 << 31)]
)
def test_string_hash(text: str, code: int) -> None:
    assert string_hash(text) == code


def test_partition_and_uuid_hashes() -> None:
    assert partition_hash(TopicPartition("t", 0)) == 31 * 31 + 116
    assert partition_hash(TopicPartition("t", 3)) == 34 * 31 + 116
    assert uuid_hash(5) == 5
    assert uuid_hash(5 << 64 | 5 << 32) == 5 ^ 5


def test_strings_order_by_utf16() -> None:
    assert sorted(["\ufb01", "\U0001f600", "b", "a"], key=utf16) == ["a", "b", "\U0001f600", "\ufb01"]


def test_uuids_order_by_signed_halves() -> None:
    high = 1 << 127
    assert sorted([0, 1, high, 1 << 63, 1 << 64], key=uuid_order) == [high, 1 << 63, 0, 1, 1 << 64]


def test_tables_double_above_three_quarters() -> None:
    assert [table_size(count) for count in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]
    assert in_hash_order([33, 1, 17, 2], lambda number: number) == [33, 1, 17, 2]
    assert in_hash_order([33, 1, 17, 2], lambda number: number, most=13) == [33, 1, 2, 17]
    assert in_hash_order([1 << 16, 0], lambda number: number) == [0, 1 << 16]


def test_a_set_of_partitions_is_not_always_walked_upwards() -> None:
    assert numbers_in_hash_order([3, 17, 16]) == [16, 17, 3]
    assert numbers_in_hash_order(range(12)) == list(range(12))
    # A set that is made from twelve numbers has a table of 32 at once.
    assert numbers_in_hash_order([*range(11), 16]) == [*range(11), 16]


def test_static_members_come_first() -> None:
    members = [Subscriber("b", frozenset()), Subscriber("z", frozenset(), "2"), Subscriber("y", frozenset(), "10")]
    assert [member.member_id for member in sorted(members, key=member_order)] == ["y", "z", "b"]


# What each assignor promises, on any group.

NAMES = ("orders", "payments", "a.b", "\ufb01", "\U0001f600")
RACKS = ("a", "b", "c")
MEMBER_IDS = st.text("abc\u00e9\ufb01", min_size=1) | st.sampled_from(NASTY)


@st.composite
def topic_lists(draw: st.DrawFn, *, racks: bool) -> list[AssignorTopic]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
        count = draw(st.integers(1, 9))
        replicas = st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2)
        places = tuple(draw(st.lists(replicas, min_size=count, max_size=count))) if racks else None
        found.append(AssignorTopic(name, count, places))
    return found


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, racks: bool = True) -> tuple[list[Subscriber], list[AssignorTopic]]:
    """Members that have just joined; names of topics that do not exist among their subscriptions."""
    topics = draw(topic_lists(racks=racks and draw(st.booleans())))
    subscriptions = st.frozensets(st.sampled_from(NAMES), min_size=1)
    same = draw(subscriptions)
    members = [
        Subscriber(
            member_id,
            same if alike else draw(subscriptions),
            draw(st.none() | st.just(f"i{place}")),
            draw(st.none() | st.sampled_from(RACKS)) if racks else None,
        )
        for place, member_id in enumerate(draw(st.lists(MEMBER_IDS, unique=True, min_size=1, max_size=8)))
    ]
    return members, topics


def served(members: list[Subscriber], topics: list[AssignorTopic]) -> set[TopicPartition]:
    return {
        TopicPartition(topic.name, number)
        for topic in topics
        if any(topic.name in member.topics for member in members)
        for number in range(topic.partitions)
    }


def flat(assigned: Assigned) -> list[TopicPartition]:
    return [partition for had in assigned.values() for partition in had]


def holding(members: list[Subscriber], assigned: Assigned, generation: int = 1) -> list[Subscriber]:
    return [
        replace(
            member,
            owned=assigned.get(member.member_id, ()),
            generation=generation if member.member_id in assigned else None,
            protocol_generation=generation if member.member_id in assigned else None,
        )
        for member in members
    ]


def spread(assigned: Assigned) -> int:
    sizes = [len(had) for had in assigned.values()]
    return max(sizes) - min(sizes)


def lost(members: list[Subscriber], assigned: Assigned) -> int:
    """Partitions that their owner, still there, no longer has."""
    return sum(len(set(member.owned).difference(assigned[member.member_id])) for member in members)


# No deadline: a busy machine is not a defect. Half the usual number of examples, since most run once an assignor.
PROPERTY = settings(max_examples=50)

EVERY = pytest.mark.parametrize("name", sorted(ASSIGNORS))
STICKY = pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform"])
EVEN = pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky", "uniform"])


@EVERY
@PROPERTY
@given(group=groups())
def test_every_partition_goes_to_one_subscriber(name: str, group: tuple[list[Subscriber], list[AssignorTopic]]) -> None:
    members, topics = group
    assigned = assign(ASSIGNORS[name], members, topics)
    assert assigned.keys() == {member.member_id for member in members}
    assert sorted(flat(assigned)) == sorted(served(members, topics))
    wanted = {member.member_id: member.topics for member in members}
    assert all(topic in wanted[who] for who, had in assigned.items() for topic, _ in had)


@EVEN
@PROPERTY
@given(group=groups(alike=True))
def test_equal_subscriptions_are_balanced(name: str, group: tuple[list[Subscriber], list[AssignorTopic]]) -> None:
    members, topics = group
    assert spread(assign(ASSIGNORS[name], members, topics)) <= 1


@pytest.mark.parametrize("name", ["range", "range-server"])
@PROPERTY
@given(group=groups())
def test_range_balances_each_topic(name: str, group: tuple[list[Subscriber], list[AssignorTopic]]) -> None:
    members, topics = group
    assigned = assign(ASSIGNORS[name], members, topics)
    for topic in topics:
        sizes = [
            sum(partition[0] == topic.name for partition in assigned[member.member_id])
            for member in members
            if topic.name in member.topics
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1


@STICKY
@PROPERTY
@given(group=groups(alike=True, racks=False), leavers=st.integers(1, 7))
def test_who_stays_keeps_what_he_has(
    name: str, group: tuple[list[Subscriber], list[AssignorTopic]], leavers: int
) -> None:
    members, topics = group
    owners = holding(members, assign(ASSIGNORS[name], members, topics))
    assert lost(owners, assign(ASSIGNORS[name], owners, topics)) == 0
    staying = owners[leavers:]
    if staying:
        after = assign(ASSIGNORS[name], staying, topics)
        assert lost(staying, after) == 0
        assert spread(after) <= 1


@STICKY
@PROPERTY
@given(group=groups(alike=True, racks=False), joiners=st.integers(1, 7))
def test_newcomers_take_no_more_than_balance_asks_for(
    name: str, group: tuple[list[Subscriber], list[AssignorTopic]], joiners: int
) -> None:
    members, topics = group
    present = members[joiners:]
    if not present:
        return
    before = assign(ASSIGNORS[name], present, topics)
    everybody = holding(members, before)
    low, extras = divmod(len(served(members, topics)), len(members))
    sizes = sorted((len(had) for had in before.values()), reverse=True)
    asked = sum(max(0, size - low - (place < extras)) for place, size in enumerate(sizes))
    assert lost(everybody, assign(ASSIGNORS[name], everybody, topics)) == asked


@PROPERTY
@given(group=groups(), joiners=st.integers(0, 7))
def test_cooperative_never_has_two_owners_and_comes_to_rest(
    group: tuple[list[Subscriber], list[AssignorTopic]], joiners: int
) -> None:
    members, topics = group
    present = members[joiners:]
    now = holding(members, assign(CLIENT_SIDE["cooperative-sticky"], present, topics))
    for generation in range(2, 20):
        given = assign(CLIENT_SIDE["cooperative-sticky"], now, topics)
        owner = {partition: member.member_id for member in now for partition in member.owned}
        assert all(owner.get(partition, who) == who for who, had in given.items() for partition in had)
        if lost(now, given) == 0:
            break
        now = holding(members, given, generation)
    else:
        pytest.fail("still moving after 18 rebalances")
    assert sorted(flat(given)) == sorted(served(members, topics))


@EVERY
@PROPERTY
@given(data=st.data())
def test_no_claim_makes_it_fail(name: str, data: st.DataObject) -> None:
    """Members claim anything, in any generation, twice, and of what does not exist: everything still has one owner."""
    members, topics = data.draw(groups(alike=data.draw(st.booleans())))
    owned = st.lists(st.builds(TopicPartition, st.sampled_from((*NAMES, *NASTY)), st.integers(0, 12)), max_size=20)
    generations = st.none() | st.integers(-1, 3)
    claiming = [
        replace(
            member,
            owned=tuple(data.draw(owned)),
            generation=data.draw(generations),
            protocol_generation=data.draw(generations),
        )
        for member in members
    ]
    if name == "uniform":  # the coordinator's own record: nobody else's partition, each once
        claiming = _each_once(claiming)
    assigned = assign(ASSIGNORS[name], claiming, topics)
    if name == "cooperative-sticky":
        assert len(flat(assigned)) == len(set(flat(assigned)))
    else:
        assert sorted(flat(assigned)) == sorted(served(members, topics))


def _each_once(members: list[Subscriber]) -> list[Subscriber]:
    seen: set[TopicPartition] = set()
    found = []
    for member in members:
        left = dict.fromkeys(partition for partition in member.owned if partition not in seen)
        found.append(replace(member, owned=tuple(left)))
        seen.update(member.owned)
    return found


@pytest.mark.parametrize(("racks", "owner"), [((frozenset({"a"}), frozenset[str]()), "b"), (None, "c")])
def test_a_partition_outside_all_racks_is_near_nobody(racks: tuple[frozenset[str], ...] | None, owner: str) -> None:
    """Its owner stands in a rack, so it has to let go, unless no broker has a rack."""
    orders = frozenset({"orders"})
    members = [
        Subscriber("a", orders, owned=(TopicPartition("orders", 0),), generation=1),
        Subscriber("b", orders, generation=1),
        Subscriber("c", orders, rack="a", owned=(TopicPartition("orders", 1),), generation=1),
    ]
    assert assign(CLIENT_SIDE["sticky"], members, [AssignorTopic("orders", 2, racks)])[owner] == (("orders", 1),)


def test_it_comes_to_an_end_where_kafka_does_not() -> None:
    """Found by chance: a member of no generation claims a partition of a topic that it does not read any more."""
    orders, payments = frozenset({"orders"}), frozenset({"payments"})
    members = [
        Subscriber("3ca9", orders, generation=3),
        Subscriber("37fb", orders, owned=(TopicPartition("orders", 5),), generation=3),
        Subscriber("f383", payments, generation=1),
        Subscriber("e0fc", payments, rack="a", owned=(TopicPartition("orders", 4),)),
    ]
    racks = tuple(frozenset(places) for places in ("a", "", "ab", "", "ab", "c", "ab"))
    topics = [AssignorTopic("orders", 7, racks), AssignorTopic("payments", 9)]
    assigned = assign(CLIENT_SIDE["sticky"], members, topics)
    assert sorted(flat(assigned)) == sorted(served(members, topics))


def test_members_without_topics_may_be_served_against_their_will() -> None:
    """Kafka's own quirk: empty subscriptions at the head of the hash order count as everybody's."""
    idle, reader = Subscriber("a", frozenset()), Subscriber("b", frozenset({"orders"}))
    topics = [AssignorTopic("orders", 2)]
    assert assign(CLIENT_SIDE["sticky"], [reader, idle], topics) == {"a": (("orders", 0),), "b": (("orders", 1),)}
    assert assign(CLIENT_SIDE["range"], [reader, idle], topics) == {"a": (), "b": (("orders", 0), ("orders", 1))}


@EVERY
def test_nobody_and_nothing(name: str) -> None:
    assert assign(ASSIGNORS[name], [], [AssignorTopic("orders", 3)]) == {}
    assert assign(ASSIGNORS[name], [Subscriber("a", frozenset({"orders"}))], []) == {"a": ()}
    assert assign(ASSIGNORS[name], [Subscriber("a", frozenset())], [AssignorTopic("orders", 3)]) == {"a": ()}
