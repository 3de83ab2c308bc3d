"""Simulated changes: rebalances, moves and standstills as Kafka 4.3.1 showed them, and what holds for any group."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.simulation.model import (
    Balance,
    GroupChange,
    RestartStrategy,
    SimulatedGroup,
    Simulation,
    SimulationTiming,
    Standstill,
    StandstillCause,
    Stops,
)
from kgroup.groups.simulation.rebalancing import rebalance
from kgroup.groups.simulation.run import running_with, simulate
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotFound, UsageError
from tests.helpers.for_each import for_each
from tests.helpers.places import DATA

TIMING = SimulationTiming(restart_s=25, session_timeout_s=60, rebalance_s=8, handover_s=5)
STYLES = {
    "range": "eager",
    "roundrobin": "eager",
    "sticky": "eager",
    "cooperative-sticky": "cooperative",
    "uniform": "consumer",
    "range-server": "consumer",
}
TARGETS = [json.loads(line) for line in (DATA / "targets.jsonl").read_text("utf-8").splitlines()]
EVERY = pytest.mark.parametrize("assignor", sorted(STYLES))


def group(assignor: str, members: int = 4, partitions: int = 12, *, static: bool = False) -> SimulatedGroup:
    """A group at rest: everybody reads ``orders``."""
    found = [
        Subscriber(
            f"app-{uuid.uuid5(uuid.NAMESPACE_DNS, str(number))}",
            frozenset({"orders"}),
            f"app-{number}" if static else None,
        )
        for number in range(members)
    ]
    protocol = "consumer" if STYLES[assignor] == "consumer" else "classic"
    name = assignor.removesuffix("-server")
    return running_with(
        SimulatedGroup(protocol, name, tuple(found), (AssignorTopic("orders", partitions),)), protocol, name
    )


def owners(simulation: Simulation) -> set[str]:
    return {who for who, had in simulation.after.items() if had}


@pytest.mark.parametrize(
    ("change", "eager", "cooperative", "consumer"),
    [
        (GroupChange(add=1), 1, 2, 1),
        (GroupChange(remove=1), 1, 1, 1),
        (GroupChange(kill=1), 1, 1, 2),
        (GroupChange(more_partitions=6), 1, 1, 1),
        (GroupChange(restart=RestartStrategy.AS_THEY_ARE), 8, 12, 8),
        (GroupChange(restart=RestartStrategy.STATIC), 0, 0, 0),
    ],
    ids=["add one", "remove one", "kill one", "grow", "rolling, dynamic", "rolling, static"],
)
@EVERY
def test_how_many_rebalances(assignor: str, change: GroupChange, eager: int, cooperative: int, consumer: int) -> None:
    """Observed on Kafka 4.3.1 with 3 to 4 members and 12 partitions."""
    expected = {"eager": eager, "cooperative": cooperative, "consumer": consumer}[STYLES[assignor]]
    simulation = simulate(group(assignor), change, TIMING)
    assert simulation.rebalances == expected
    assert simulation.settled


@EVERY
def test_static_members_that_come_back_too_late_cost_what_dynamic_ones_do(assignor: str) -> None:
    late = replace(TIMING, restart_s=90)
    simulation = simulate(group(assignor, static=True), GroupChange(restart=RestartStrategy.AS_THEY_ARE), late)
    assert simulation.rebalances == (12 if STYLES[assignor] == "cooperative" else 8)
    away = [standstill for standstill in simulation.standstills if standstill.cause == "away"]
    assert {(standstill.partitions, standstill.seconds) for standstill in away} == {(3, 60)}
    assert [step.what for step in simulation.steps[:3]] == ["away", "expire", "join"]


@EVERY
def test_static_members_back_in_time_keep_everything(assignor: str) -> None:
    before = group(assignor, static=True)
    simulation = simulate(before, GroupChange(restart=RestartStrategy.AS_THEY_ARE), TIMING)
    assert simulation.after == simulation.before
    assert (simulation.moved, simulation.taken, simulation.needless) == (0, 0, 0)
    assert simulation.stops == (Stops(StandstillCause.AWAY, 25, 4, 3, 3),)
    assert simulation.partition_seconds == 4 * 3 * 25


def test_an_eager_group_stops_as_a_whole() -> None:
    simulation = simulate(group("range"), GroupChange(restart=RestartStrategy.AS_THEY_ARE), TIMING)
    assert simulation.stops == (Stops(StandstillCause.REBALANCE, 8, 8, 12, 12),)
    assert len(simulation.standstills[0].members) == 4
    assert simulation.needless > 0


def test_under_sticky_everybody_stops_as_well() -> None:
    simulation = simulate(group("sticky"), GroupChange(add=1), TIMING)
    assert simulation.stops == (Stops(StandstillCause.REBALANCE, 8, 1, 12, 12),)
    assert (simulation.moved, simulation.taken, simulation.needless) == (2, 2, 0)


def test_a_cooperative_group_stops_where_something_moves() -> None:
    before = group("cooperative-sticky")
    simulation = simulate(before, GroupChange(add=1), TIMING)
    (standstill,) = simulation.standstills
    assert (standstill.partitions, standstill.seconds, standstill.cause) == (2, 8, "rebalance")
    assert len(standstill.members) == 2
    assert simulate(before, GroupChange(more_partitions=6), TIMING).standstills == ()


def test_a_consumer_group_hands_over_what_moves() -> None:
    before = group("uniform")
    assert simulate(before, GroupChange(add=1), TIMING).stops == (Stops(StandstillCause.HANDOVER, 5, 1, 2, 2),)
    assert simulate(before, GroupChange(remove=1), TIMING).stops == (Stops(StandstillCause.HANDOVER, 5, 1, 3, 3),)
    shifted = simulate(group("range-server"), GroupChange(remove=1), TIMING)
    assert shifted.taken > 0
    assert shifted.needless == shifted.taken


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky", "uniform"])
@pytest.mark.parametrize(
    "change", [GroupChange(add=2), GroupChange(remove=2), GroupChange(restart=RestartStrategy.AS_THEY_ARE)]
)
def test_sticky_assignors_move_nothing_needlessly(assignor: str, change: GroupChange) -> None:
    assert simulate(group(assignor, 5, 17), change, TIMING).needless == 0


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        ("range", [("rebalance", 12, 60)]),
        ("sticky", [("rebalance", 12, 60)]),
        ("cooperative-sticky", [("rebalance", 3, 60)]),
        ("uniform", [("dead", 3, 60), ("handover", 2, 5)]),
    ],
)
def test_a_killed_member_is_waited_for(assignor: str, expected: list[tuple[str, int, float]]) -> None:
    """By everybody under eager assignors; a consumer group gives the newcomer what it can spare. Measured."""
    simulation = simulate(group(assignor), GroupChange(kill=1), TIMING)
    assert [(one.cause, one.partitions, one.seconds) for one in simulation.standstills] == expected
    assert simulation.after.keys() == simulation.before.keys()
    assert Balance.of(simulation.after) == Balance(4, 0, 3, 3)


@EVERY
def test_a_killed_instance_is_replaced_in_silence(assignor: str) -> None:
    simulation = simulate(group(assignor, static=True), GroupChange(kill=2), TIMING)
    assert (simulation.rebalances, simulation.moved, simulation.standstills) == (0, 0, ())
    assert simulation.after == simulation.before


def test_a_restarted_member_keeps_its_name() -> None:
    before = group("cooperative-sticky")
    simulation = simulate(before, GroupChange(restart=RestartStrategy.AS_THEY_ARE), TIMING)
    assert simulation.after.keys() == simulation.before.keys() == {member.member_id for member in before.members}
    assert [step.what for step in simulation.steps] == ["leave", "join"] * 4


def test_static_members_that_are_removed_are_missed_first() -> None:
    simulation = simulate(group("range", 11, 22, static=True), GroupChange(remove=1), TIMING)
    assert [step.what for step in simulation.steps] == ["away", "expire"]
    gone = simulation.before.keys() - simulation.after.keys()
    assert gone == {group("range", 11, static=True).members[10].member_id}  # app-10, though app-9 sorts behind it
    assert simulation.stops == (
        Stops(StandstillCause.AWAY, 60, 1, 2, 2),
        Stops(StandstillCause.REBALANCE, 8, 1, 22, 22),
    )


def test_who_leaves_can_be_named() -> None:
    before = group("sticky", static=True)
    simulation = simulate(before, GroupChange(leaving=("app-1", before.members[2].member_id)), TIMING)
    assert simulation.after.keys() == {before.members[0].member_id, before.members[3].member_id}
    with pytest.raises(NotFound, match="app-7"):
        simulate(before, GroupChange(leaving=("app-7", "app-1")), TIMING)


def test_changes_come_one_after_the_other() -> None:
    simulation = simulate(group("range"), GroupChange(add=2, remove=1, more_partitions=3), TIMING)
    assert [step.what for step in simulation.steps] == ["grow", "leave", "join"]
    assert simulation.balance_before == Balance(4, 0, 3, 3)
    assert simulation.balance_after == Balance(5, 0, 3, 3)


def test_more_members_than_partitions_are_idle() -> None:
    simulation = simulate(group("uniform", 4, 5), GroupChange(add=3), TIMING)
    assert simulation.balance_after == Balance(7, 2, 0, 1)


@EVERY
def test_the_only_member_leaves_its_partitions_to_nobody(assignor: str) -> None:
    only = group(assignor, 1)
    simulation = simulate(only, GroupChange(restart=RestartStrategy.AS_THEY_ARE), TIMING)
    assert simulation.rebalances == 1
    assert simulation.after == simulation.before
    assert simulation.standstills == (Standstill((only.members[0].member_id,), 12, 25, StandstillCause.EMPTY),)
    gone = simulate(only, GroupChange(remove=5), TIMING)
    assert (gone.after, gone.rebalances) == ({}, 0)


def test_only_some_topics_grow() -> None:
    before = group("range")
    wider = replace(before, topics=(*before.topics, AssignorTopic("payments", 2)))
    assert simulate(wider, GroupChange(more_partitions=4, grown=("payments",)), TIMING).moved == 0
    assert simulate(wider, GroupChange(more_partitions=4), TIMING).moved > 0


def test_newcomers_are_like_the_others() -> None:
    both, one = frozenset({"orders", "payments"}), frozenset({"orders"})
    members = tuple(
        Subscriber(f"m{number}", both if number else one, f"app-{number:02}", rack)
        for number, rack in enumerate(["a", "a", "b"])
    )
    racks = tuple(frozenset({"ab"[number % 2]}) for number in range(6))
    mixed = SimulatedGroup(
        "classic", "range", members, (AssignorTopic("orders", 6, racks), AssignorTopic("payments", 6, racks))
    )
    simulation = simulate(mixed, GroupChange(add=1, more_partitions=2), TIMING)
    (new,) = simulation.after.keys() - simulation.before.keys()
    assert new.startswith("app-03-")
    assert {topic for topic, _ in simulation.after[new]} == both


def test_dynamic_restarts_of_static_members_are_compared_with_a_dynamic_group() -> None:
    simulation = simulate(group("range", static=True), GroupChange(restart=RestartStrategy.DYNAMIC), TIMING)
    assert simulation.rebalances == 8
    assert {step.what for step in simulation.steps} == {"leave", "join"}


def test_another_assignor_starts_from_its_own_assignment() -> None:
    eager = group("range", 3, 8)
    assert simulate(running_with(eager, "consumer", "uniform"), GroupChange(), TIMING).steps == ()
    sticky = running_with(eager, "classic", "cooperative-sticky")
    assert Balance.of({member.member_id: member.owned for member in sticky.members}).most_partition_count == 3


@pytest.mark.parametrize(("protocol", "assignor"), [("classic", "uniform"), ("consumer", "sticky"), ("classic", "own")])
def test_assignors_of_somebody_else_are_refused(protocol: str, assignor: str) -> None:
    with pytest.raises(UsageError, match=assignor):
        SimulatedGroup(protocol, assignor, (), ())


def test_seeds_choose_among_the_outcomes() -> None:
    outcomes = {simulate(group("range"), GroupChange(add=1), TIMING, seed).moved for seed in range(20)}
    assert len(outcomes) > 1
    again = [simulate(group("range"), GroupChange(add=1), TIMING, 3) for _ in range(2)]
    assert again[0] == again[1]


_A_UUID = "5b1f8a1e-0d53-4a3c-9f0e-6d4c8c3f7a11"


def test_a_newcomer_with_the_next_client_id_is_among_what_is_said() -> None:
    """Seen: j-range-0 and j-range-1 under range, 4 and 2 partitions: the third member takes 1, and 2 to 5 was said."""
    topics = (AssignorTopic("a", 4), AssignorTopic("b", 2))
    ids = [f"j-range-{number}-{_A_UUID}" for number in range(2)]
    owned = ((("a", 0), ("a", 1), ("b", 0)), (("a", 2), ("a", 3), ("b", 1)))
    members = tuple(
        Subscriber(member_id, frozenset({"a", "b"}), owned=tuple(TopicPartition(*one) for one in held))
        for member_id, held in zip(ids, owned, strict=True)
    )
    played = [
        simulate(SimulatedGroup("classic", "range", members, topics), GroupChange(add=1), TIMING, seed)
        for seed in range(20)
    ]
    (new,) = played[0].after.keys() - set(ids)
    assert new.startswith("j-range-2-")
    assert min(run.moved for run in played) == played[0].moved == 1
    two = simulate(SimulatedGroup("classic", "range", members, topics), GroupChange(add=2), TIMING, 0)
    assert sorted(name[:9] for name in two.after) == ["j-range-0", "j-range-1", "j-range-2", "j-range-3"]


@EVERY
@settings(max_examples=40)
@given(
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 15)),
    change=st.builds(
        GroupChange,
        add=st.integers(0, 3),
        kill=st.integers(0, 2),
        remove=st.integers(0, 3),
        more_partitions=st.integers(0, 4),
        restart=st.none() | st.sampled_from(RestartStrategy),
    ),
    timing=st.builds(SimulationTiming, restart_s=st.sampled_from([5, 90]), session_timeout_s=st.just(45)),
    static=st.booleans(),
)
def test_any_change(
    assignor: str, sizes: tuple[int, int], change: GroupChange, timing: SimulationTiming, static: bool
) -> None:
    members, partitions = sizes
    simulation = simulate(group(assignor, members, partitions, static=static), change, timing)
    left = max(0, members - change.remove) + change.add
    total = partitions + change.more_partitions
    assert len(simulation.after) == left
    had = [partition for partitions in simulation.after.values() for partition in partitions]
    assert sorted(had) == ([("orders", number) for number in range(total)] if left else [])
    after = simulation.balance_after
    assert after.most_partition_count - after.fewest_partition_count <= 1
    assert simulation.settled
    assert 0 <= simulation.needless <= simulation.taken <= simulation.moved
    assert all(standstill.partitions <= total and standstill.seconds > 0 for standstill in simulation.standstills)
    if STYLES[assignor] != "cooperative":
        assert all(step.rebalances <= 1 for step in simulation.steps)


# What Kafka's own classes assigned (TargetVectors.java)


@for_each("chain", TARGETS)
def test_topics_whose_ids_share_a_bucket_as_kafka_assigns_them(chain: dict[str, Any]) -> None:
    """Each step from what was predicted of the one before, of which the order inside a member counts too."""
    ids = {name: int(topic_id, 16) for name, topic_id in chain["topics"].items()}
    had: dict[str, Subscriber] = {}
    assert len(chain["steps"]) == 10
    for number, step in enumerate(chain["steps"]):
        members = tuple(had.get(who, Subscriber(who, frozenset(ids))) for who in step["members"])
        topics = tuple(AssignorTopic(name, count, id=ids[name]) for name, count in step["partitions"].items())
        after = rebalance(SimulatedGroup("consumer", "uniform", members, topics), number).members
        expected = {
            who: {(topic, number) for topic, numbers in owned.items() for number in numbers}
            for who, owned in step["members"].items()
        }
        assert {member.member_id: set(member.owned) for member in after} == expected, f"step {number}"
        had = {member.member_id: member for member in after}
