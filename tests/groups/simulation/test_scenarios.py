"""The ways that are compared, what runs have in common, and where durations come from."""

from __future__ import annotations

import uuid

import pytest

from kgroup.groups.assignors.java_order import members_as_coordinated, members_in_hash_order, string_hash
from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.simulation.durations import KnownDurations, MeasuredRebalances, choose_durations, measured_rebalances
from kgroup.groups.simulation.model import (
    GroupChange,
    RestartStrategy,
    SimulatedGroup,
    SimulationTiming,
    StandstillCause,
)
from kgroup.groups.simulation.rebalancing import rebalance
from kgroup.groups.simulation.run import running_with
from kgroup.groups.simulation.scenarios import (
    RUNS,
    CountRange,
    SimulationScenario,
    Stop,
    scenarios,
    select_scenario,
    simulate_scenario,
    work_of_scenario,
)
from kgroup.groups.timeline.steps import HistoryStep, PresentMember, StepKind
from kgroup.model.group_log import RebalanceProtocol
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

TIMING = SimulationTiming(restart_s=25, session_timeout_s=60, rebalance_s=8, handover_s=5)


def group(assignor: str = "range", members: int = 4, partitions: int = 12, protocol: str = "classic") -> SimulatedGroup:
    found = tuple(
        Subscriber(f"app-{uuid.uuid5(uuid.NAMESPACE_DNS, str(number))}", frozenset({"orders"}))
        for number in range(members)
    )
    return running_with(
        SimulatedGroup(protocol, assignor, found, (AssignorTopic("orders", partitions),)), protocol, assignor
    )


@pytest.mark.parametrize(
    ("assignor", "protocol", "change", "asked", "titles"),
    [
        ("range", "classic", GroupChange(add=1), None,
         ["as it is (range)", "cooperative-sticky", "consumer protocol (uniform)"]),
        ("cooperative-sticky", "classic", GroupChange(remove=1), None,
         ["as it is (cooperative-sticky)", "consumer protocol (uniform)"]),
        ("uniform", "consumer", GroupChange(kill=1), None, ["as it is (uniform)"]),
        ("range", "consumer", GroupChange(add=1), None, ["as it is (range)", "consumer protocol (uniform)"]),
        ("range", "consumer", GroupChange(add=1), "sticky", ["as it is (range)", "sticky"]),
        ("range", "classic", GroupChange(restart=RestartStrategy.STATIC), None,
         ["as it is (range)", "static", "cooperative-sticky", "consumer protocol (uniform)"]),
        ("range", "classic", GroupChange(restart=RestartStrategy.STATIC), "sticky",
         ["as it is (range)", "static", "sticky", "sticky, static"]),
        ("range", "classic", GroupChange(), "uniform", ["consumer protocol (uniform)"]),
    ],
)  # fmt: skip
def test_ways(assignor: str, protocol: str, change: GroupChange, asked: str | None, titles: list[str]) -> None:
    found = scenarios(group(assignor, protocol=protocol), change, asked, known=True)
    assert [one.title for one in found] == titles
    played = [simulate_scenario(one, TIMING) for one in found]
    static = [one for one in titles if one == "static"]
    assert select_scenario(played, asked).scenario.title == (
        titles[-1] if asked else static[0] if static else titles[0]
    )


def test_a_group_of_an_unknown_assignor_is_shown_under_the_one_that_is_asked_for() -> None:
    assert [one.title for one in scenarios(group(), GroupChange(add=1), "range", known=False)] == ["range"]


def test_an_assignor_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="Kafka has no assignor of this name"):
        scenarios(group(), GroupChange(add=1), "nearest", known=True)


def test_a_changed_assignor_is_no_rebalance_that_could_be_counted() -> None:
    (way,) = scenarios(group("range", members=3, partitions=12), GroupChange(), "roundrobin", known=True)
    played = simulate_scenario(way, TIMING)
    assert played.rebalances is None
    assert played.first.moved == 6
    assert played.stops == ()


def test_runs_differ_in_ids() -> None:
    played = simulate_scenario(SimulationScenario(group(), GroupChange(add=1), as_it_is=True), TIMING)
    assert len(played.runs) == RUNS
    assert played.rebalances == CountRange(1, 1)
    moved = played.span(lambda run: run.moved)
    assert moved.least < moved.most
    assert moved.text == f"{moved.least}-{moved.most}"
    assert played.stops == (Stop(StandstillCause.REBALANCE, 8, CountRange(1, 1), CountRange(12, 12)),)


def test_nothing_made_up_is_one_run_and_much_work_are_few() -> None:
    assert len(simulate_scenario(SimulationScenario(group(), GroupChange(remove=1), as_it_is=True), TIMING).runs) == 1
    restart = GroupChange(restart=RestartStrategy.AS_THEY_ARE)
    assert work_of_scenario(SimulationScenario(group(members=200, partitions=2000), restart, as_it_is=True)) > 200_000
    assert len(simulate_scenario(SimulationScenario(group("range", 60, 600), restart, as_it_is=True), TIMING).runs) == 2


def test_members_as_the_coordinator_walks_them() -> None:
    """Seen on Kafka 4.3.1, uniform, a member gone: by the order of the description somebody else got a partition."""
    topic = AssignorTopic("orders", 13, id=114712836254082697994812710427519048743)
    held = {
        "2StW1hWsR+i9Qp69qz0rLQ": [7, 8],
        "6JAN9ztMRtCZXW8K9btWyA": [2, 10],
        "BDHKmNWyTu64PW129P7FRw": [0, 1],
        "TonRiR7CQW6XzgrLdZdfNg": [3, 4],
        "sITubhpOTsegC1/p6uTDmg": [9, 12],
    }
    members = tuple(
        Subscriber(who, frozenset({"orders"}), owned=tuple(TopicPartition("orders", number) for number in numbers))
        for who, numbers in held.items()
    )
    outcome = rebalance(SimulatedGroup("consumer", "uniform", members, (topic,)), 1)
    assert {member.member_id: sorted(number for _, number in member.owned) for member in outcome.members} == {
        "2StW1hWsR+i9Qp69qz0rLQ": [5, 7, 8],
        "6JAN9ztMRtCZXW8K9btWyA": [2, 6, 10],
        "BDHKmNWyTu64PW129P7FRw": [0, 1],
        "TonRiR7CQW6XzgrLdZdfNg": [3, 4],
        "sITubhpOTsegC1/p6uTDmg": [9, 11, 12],
    }
    assert members_in_hash_order(members) != members_in_hash_order(members_as_coordinated(members))


@pytest.mark.parametrize(("count", "slots"), [(1, 2), (2, 2), (3, 4), (5, 4), (6, 8), (10, 8), (11, 16)])
def test_slots_of_the_coordinators_table(count: int, slots: int) -> None:
    """It doubles later than a HashMap does: six members are too many for four slots, five are not."""
    members = [Subscriber(str(number), frozenset()) for number in range(count)]
    assert members_as_coordinated(members) == sorted(members, key=lambda m: fibonacci_slot(m.member_id, slots))


def fibonacci_slot(text: str, slots: int) -> int:
    """Java: (int) ((text.hashCode() * -7046029254386353131L) >>> (64 - log2(slots)))."""
    code = string_hash(text)
    product = ((code if code < 1 << 31 else code - (1 << 32)) * -7046029254386353131) % (1 << 64)
    return product // ((1 << 64) // slots)


# Durations


def step(
    took_ms: int | None, quiet_ms: int | None = None, kind: StepKind = StepKind.REBALANCE, poll_ms: int = 300_000
) -> HistoryStep:
    member = PresentMember("app", "app-1", None, "app", "h", frozenset(), None, poll_ms=poll_ms)
    return HistoryStep(
        protocol=RebalanceProtocol.CONSUMER, number=1, kind=kind, log_offset=0, at_ms=0, reasons=(), leader=None,
        assignor=None, members=(member,), moved=None, moved_needlessly=None, took_ms=took_ms, quiet_ms=quiet_ms,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "steps", "past"),
    [
        ("consumer", [step(100), step(900), step(200)], MeasuredRebalances(0.2, 3)),
        ("consumer", [step(100), step(900), step(None)], None),
        ("classic", [step(1, 7000), step(1, 8000), step(1, 9000), step(1, 8000)], MeasuredRebalances(8, 4)),
        ("classic", [step(1, 7000), step(1, 8000), step(1, 900_000)], None),
        ("classic", [step(1, 7000), step(1, 8000), step(1, 9000, StepKind.EMPTY)], None),
        ("classic", [], None),
    ],
    ids=["consumer", "too few", "classic", "longer than a joining can last", "no rebalance", "none"],
)
def test_what_rebalances_took(protocol: str, steps: list[HistoryStep], past: MeasuredRebalances | None) -> None:
    assert measured_rebalances(protocol, steps) == past


@pytest.mark.parametrize(
    ("protocol", "given", "known", "timing", "sources"),
    [
        ("classic", KnownDurations(), KnownDurations(), SimulationTiming(30, 45, 3, 5),
         ("default", "default", "default", "default")),
        ("classic", KnownDurations(), KnownDurations(None, 10, 8, 41), SimulationTiming(30, 10, 8, 5),
         ("default", "group", "log", "default")),
        ("consumer", KnownDurations(), KnownDurations(None, 10, 8, 41), SimulationTiming(30, 10, 3, 8),
         ("default", "group", "default", "log")),
        ("classic", KnownDurations(1, 2, 4), KnownDurations(None, 10, 8, 41), SimulationTiming(1, 2, 4, 5),
         ("option", "option", "option", "default")),
    ],
)  # fmt: skip
def test_where_durations_come_from(
    protocol: str, given: KnownDurations, known: KnownDurations, timing: SimulationTiming, sources: tuple[str, ...]
) -> None:
    found = choose_durations(protocol, given, known)
    assert found.timing == timing
    named = found.sources
    assert (named.restart, named.session, named.rebalance, named.handover) == sources
    assert named.rebalances_seen == (41 if "log" in sources else None)
