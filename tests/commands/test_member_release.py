"""The listener of ``kgroup.consumer``: a member that comes back behind starts at the log end, and its gap is a plan."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgroup.cluster.topic_admin import NewTopicSpec, TopicAdmin
from tests.helpers.catchup.catchups import Crash, offsets
from tests.helpers.catchup.listeners import PROTOCOLS, ListeningApplication, processed, settings_of
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
EACH = pytest.mark.parametrize("protocol", PROTOCOLS)
ONE_EVERY_DAY = pytest.mark.parametrize(
    "protocol", [pytest.param(each, marks=() if each == "eager" else pytest.mark.soak) for each in PROTOCOLS]
)


@pytest.fixture
def behind(world: KafkaWorld, name: Name) -> Crash:
    """KIP-333's, and a third partition that is not behind, and a fourth without a commit."""
    topic, group = world.topic(name("orders"), 4), name("svc")
    hour_ago_ms = round(time.time() * 1000) - 3_600_000
    for partition, count in enumerate((120, 50, 30, 30)):
        world.produce_at(topic, partition, [hour_ago_ms] * count)
    world.commit(group, {(topic, 0): 70, (topic, 1): 20, (topic, 2): 30})
    return Crash(topic, group)


class Applications:
    """Starts members of the group, and ends them."""

    def __init__(self, behind: Crash, bootstrap: str, ledger: str, directory: Path) -> None:
        self.behind, self.bootstrap, self.ledger, self.file = behind, bootstrap, ledger, directory / "processed"
        self.started: list[ListeningApplication] = []

    def start(self, protocol: str, session_ms: int = 15_000, **what: Any) -> ListeningApplication:
        settings = settings_of(protocol, self.bootstrap, self.behind.group, session_ms)
        self.started.append(ListeningApplication(settings, self.behind.topic, self.file, self.ledger, **what))
        return self.started[-1]

    def has_processed(self, *places: str) -> None:
        """Wait until it is so; ``0 120`` is offset 120 of partition 0."""
        wanted = {f"{self.behind.topic}:{place}" for place in places}
        wait_for(lambda: wanted <= processed(self.file).keys(), f"{places} processed", 120)


@pytest.fixture
def applications(behind: Crash, bootstrap: str, ledger: str, tmp_path: Path) -> Any:
    made = Applications(behind, bootstrap, ledger, tmp_path)
    yield made
    for one in made.started:
        one.kill()


def plans(kgroup: CommandLine) -> list[dict[str, Any]]:
    return [dict(row) for row in kgroup("catchup", "list", "-o", "json").data]


def released(kgroup: CommandLine) -> dict[str, Any]:
    """The one plan, when its member has written that it is released."""

    def there() -> dict[str, Any] | None:
        found = [plan for plan in plans(kgroup) if plan["state"] == "released"]
        return found[0] if found else None

    return wait_for(there, "a released plan", 25)


def ranges(plan: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(row["partition"], row["start"], row["end"]) for row in plan["ranges"]]


@pytest.mark.soak
@EACH
@pytest.mark.parametrize("bound", ["10m", 25])
def test_what_is_behind_starts_at_the_log_end_and_its_gap_is_a_plan(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str, bound: str | int, bystander: str
) -> None:
    topic, group = applications.behind.topic, applications.behind.group
    member = applications.start(protocol, behind=bound)
    member.says("ASSIGNED [0, 1, 2, 3]")
    for partition in range(4):
        world.produce(topic, 1, partition)

    applications.has_processed("0 120", "1 50", "2 30", "3 0", "3 30")
    plan = released(kgroup)
    shown = kgroup("catchup", "show", plan["plan_id"], "-o", "json").data[0]
    member.close()

    assert ranges(shown) == [(0, 70, 120), (1, 20, 50)]
    assert plan["phase"] == "pending"
    assert shown["ranges"][0]["oldest_record_at_ms"] > 0
    assert offsets(world, group) == {(topic, 0): 121, (topic, 1): 51, (topic, 2): 31, (topic, 3): 31}
    assert not [place for place in processed(applications.file) if place in (f"{topic}:0 119", f"{topic}:1 49")]
    assert "the log end on 2 partitions" in member.says("LOG")


def test_the_manual_s_example(
    kgroup: CommandLine, world: KafkaWorld, behind: Crash, bootstrap: str, ledger: str
) -> None:
    """It polls as an application does; the names are those of the test."""
    (text,) = re.findall(r"<!-- listener -->\n```python\n(.*?)```", page("catchup/applications.md"), re.S)
    here = {"broker:9092": bootstrap, '"orders-svc"': repr(behind.group), '"orders"': repr(behind.topic)}
    for there, name in (here | {'"10m", config': f'"10m", config, ledger_topic={ledger!r}'}).items():
        assert text.count(there) == 1, there
        text = text.replace(there, name)
    example: dict[str, Any] = {}
    exec(text, example)
    read: list[tuple[int, int]] = []
    try:
        wait_for(lambda: read_one(example["consumer"], read) == (3, 29), "the last record of what is not behind")
        plan = released(kgroup)
    finally:
        example["consumer"].close()

    assert set(read) == {(3, offset) for offset in range(30)}
    assert ranges(kgroup("catchup", "show", plan["plan_id"], "-o", "json").data[0]) == [(0, 70, 120), (1, 20, 50)]
    assert offsets(world, behind.group).items() >= {(behind.topic, 0): 120, (behind.topic, 1): 50}.items()


def read_one(consumer: Any, read: list[tuple[int, int]]) -> tuple[int, int] | None:
    record = consumer.poll(0.1)
    if record is not None and record.error() is None:
        read.append((record.partition(), record.offset()))
    return read[-1] if read else None


@EACH
def test_a_plan_of_a_member_is_cancelled_as_any_other(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    topic, group = applications.behind.topic, applications.behind.group
    member = applications.start(protocol)
    member.says("ASSIGNED")
    plan = released(kgroup)["plan_id"]
    refused = kgroup("catchup", "cancel", plan, "--execute", exit_code=9)
    member.close()

    kgroup("catchup", "cancel", plan, "--execute", exit_code=0)

    assert f"{group} has members" in refused.stderr
    assert offsets(world, group).items() >= {(topic, 0): 70, (topic, 1): 20, (topic, 2): 30}.items()
    assert [one["state"] for one in plans(kgroup)] == ["cancelled"]


@pytest.mark.soak
@ONE_EVERY_DAY
def test_killed_between_the_ledger_and_the_commit(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    """The next owner closes the interrupted plan, and begins again."""
    topic, group = applications.behind.topic, applications.behind.group
    first = applications.start(protocol, 1_000, at={"before-commit": signal.SIGKILL})
    first.says("BEFORE-COMMIT")
    first.process.wait(60)
    (interrupted,) = plans(kgroup)
    assert interrupted["state"] == "releasing"
    assert offsets(world, group)[topic, 0] == 70

    second = applications.start(protocol, 1_000)
    second.says("ASSIGNED [0, 1, 2, 3]")

    assert ranges(kgroup("catchup", "show", released(kgroup)["plan_id"], "-o", "json").data[0]) == [
        (0, 70, 120),
        (1, 20, 50),
    ]
    assert {plan["plan_id"]: plan["state"] for plan in plans(kgroup)}[interrupted["plan_id"]] == "cancelled"
    assert offsets(world, group)[topic, 0] == 120


@ONE_EVERY_DAY
def test_killed_between_the_commit_and_the_ledger(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    """The mark of the commit is the evidence, also while the group lives."""
    topic, group = applications.behind.topic, applications.behind.group
    first = applications.start(protocol, 1_000, at={"after-commit": signal.SIGKILL})
    first.says("AFTER-COMMIT")
    first.process.wait(60)
    (interrupted,) = plans(kgroup)
    assert (interrupted["state"], offsets(world, group)[topic, 0]) == ("releasing", 120)
    second = applications.start(protocol, 1_000)
    second.says("ASSIGNED [0, 1, 2, 3]")
    world.produce(topic, 1)
    applications.has_processed("0 120")

    kgroup("catchup", "resume", interrupted["plan_id"], "--release-only", "--execute", exit_code=0)

    assert [plan["state"] for plan in plans(kgroup)] == ["released"]
    assert offsets(world, group)[topic, 0] == 121


@ONE_EVERY_DAY
def test_a_member_that_was_expelled_before_its_commit_moves_nothing(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    """It was paused inside its callback, and another one has read on from the old commit."""
    topic = applications.behind.topic
    paused = applications.start(protocol, 1_000, at={"before-commit": signal.SIGSTOP}, within_s=600.0)
    paused.says("BEFORE-COMMIT")
    (interrupted,) = plans(kgroup)
    other = applications.start(protocol, 1_000, behind=1_000_000)
    other.says("ASSIGNED [0, 1, 2, 3]")
    applications.has_processed("0 119", "1 49")
    if protocol != "consumer":  # its group is that long without the paused member
        assert offsets(world, applications.behind.group)[topic, 0] == 120

    paused.process.send_signal(signal.SIGCONT)
    paused.says("LOG")

    assert "is not caught up" in paused.says("LOG")
    refused = kgroup("catchup", "resume", interrupted["plan_id"], "--release-only", "--execute", exit_code=6)
    assert "committed new offsets before" in refused.stderr
    assert [plan["state"] for plan in plans(kgroup)] == ["cancelled"]
    assert processed(applications.file)[f"{topic}:0 100"] == 1


@pytest.mark.soak
@EACH
def test_a_member_that_was_expelled_moves_nothing_of_an_empty_group(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    """An Empty group takes commits without a generation. An operator has closed the plan; the member makes another."""
    group = applications.behind.group
    if protocol == "consumer":
        world.configure_group(group, consumer_session_timeout_ms="1000")
    paused = applications.start(protocol, 1_000, at={"before-commit": signal.SIGSTOP}, within_s=600.0)
    paused.says("BEFORE-COMMIT")
    wait_for(lambda: world.groups()[group][1] == "empty", "an Empty group")
    (plan,) = plans(kgroup)
    kgroup("catchup", "cancel", plan["plan_id"], "--execute")

    paused.process.send_signal(signal.SIGCONT)

    assert "UNKNOWN_MEMBER_ID" in paused.says("is not caught up")
    again = released(kgroup)
    assert again["plan_id"] != plan["plan_id"]
    assert ranges(kgroup("catchup", "show", again["plan_id"], "-o", "json").data[0]) == [(0, 70, 120), (1, 20, 50)]


@pytest.mark.parametrize("protocol", ["eager", pytest.param("cooperative", marks=pytest.mark.soak)])
def test_a_member_that_was_expelled_does_not_close_the_plan_of_its_successor(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    """It was paused before it read the ledger, and finds the plan of a member that is about to commit."""
    expelled = applications.start(protocol, 1_000, at={"before-ledger": signal.SIGSTOP}, within_s=600.0)
    expelled.says("BEFORE-LEDGER")
    successor = applications.start(protocol, at={"before-commit": signal.SIGSTOP}, within_s=600.0)
    successor.says("BEFORE-COMMIT")

    expelled.process.send_signal(signal.SIGCONT)
    said = expelled.says("is not caught up")
    successor.process.send_signal(signal.SIGCONT)
    successor.says("the log end on 2 partitions")
    (plan,) = plans(kgroup)
    kgroup("catchup", "resume", plan["plan_id"], "--release-only", "--execute", exit_code=0)

    assert "whether this member is in the group is unknown" in said, (expelled.lines, successor.lines)
    assert [one["state"] for one in plans(kgroup)] == ["released"]
    assert offsets(world, applications.behind.group)[applications.behind.topic, 0] == 120


@EACH
def test_nobody_closes_a_plan_whose_member_may_be_about_to_commit(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications, protocol: str
) -> None:
    topic, group = applications.behind.topic, applications.behind.group
    paused = applications.start(protocol, at={"before-commit": signal.SIGSTOP}, within_s=600.0)
    paused.says("BEFORE-COMMIT")
    (plan,) = plans(kgroup)

    for verb in ("resume", "cancel"):
        more = ("--release-only",) if verb == "resume" else ()
        refused = kgroup("catchup", verb, plan["plan_id"], *more, "--execute", exit_code=9)
        assert f"a member of {group} made {plan['plan_id']}" in refused.stderr
    paused.process.send_signal(signal.SIGCONT)
    paused.says("the log end on 2 partitions")
    kgroup("catchup", "resume", plan["plan_id"], "--release-only", "--execute", exit_code=0)

    assert offsets(world, group)[topic, 0] == 120
    assert [one["state"] for one in plans(kgroup)] == ["released"]


@EACH
def test_without_a_ledger_that_can_be_written_it_starts_at_its_commit(
    kgroup: CommandLine, bootstrap: str, applications: Applications, protocol: str, ledger: str
) -> None:
    """Its topic has too few replicas; that is logged once."""
    config = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    TopicAdmin({"bootstrap.servers": bootstrap}, timeout_s=15).create(NewTopicSpec(ledger, 1, 1, config))

    member = applications.start(protocol)
    applications.has_processed("0 70", "0 119", "1 20", "1 49", "3 29")
    member.close()

    assert len([line for line in member.lines if line.startswith("LOG")]) == 1
    assert "min.insync.replicas is 2" in member.says("LOG")
    assert plans(kgroup) == []
    assert all(count == 1 for count in processed(applications.file).values())


def test_an_older_plan_that_is_pending_stays_and_the_new_gap_begins_at_its_end(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications
) -> None:
    topic = applications.behind.topic
    first = applications.start("cooperative")
    first.says("ASSIGNED")
    older = released(kgroup)["plan_id"]
    first.close()
    world.produce(topic, 40)

    second = applications.start("cooperative")
    second.says("the log end on 1 partitions")
    newer = wait_for(
        lambda: next((one for one in plans(kgroup) if one["plan_id"] != older and one["state"] == "released"), None),
        "a second plan",
    )

    assert ranges(kgroup("catchup", "show", newer["plan_id"], "-o", "json").data[0]) == [(0, 120, 160)]
    assert {one["state"] for one in plans(kgroup)} == {"released"}


@pytest.mark.soak
def test_offsets_that_a_pending_plan_has_are_not_planned_twice(
    kgroup: CommandLine, world: KafkaWorld, applications: Applications
) -> None:
    """An operator has moved the group back into the gap: it reads the offsets again, and that is logged."""
    topic, group = applications.behind.topic, applications.behind.group
    first = applications.start("eager")
    first.says("ASSIGNED")
    older = released(kgroup)["plan_id"]
    first.close()
    world.commit(group, {(topic, 0): 100})

    second = applications.start("eager")
    second.says("an open plan has offsets of it")
    applications.has_processed("0 100", "0 119")

    assert [one["plan_id"] for one in plans(kgroup)] == [older]
