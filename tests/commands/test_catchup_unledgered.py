"""A ledger that was deleted or truncated: the marks of the group's commits still say what is pending."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable

import kafka.errors
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.helpers.catchup.catchups import Crash, frozen, offsets, plan_said, released, replaying
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


def truncate(world: KafkaWorld, topic: str) -> None:
    """Delete all records of a compacted topic."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})

    def clean(policy: str) -> None:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    def done() -> bool | None:
        with contextlib.suppress(kafka.errors.PolicyViolationError):  # the leader does not know of it yet
            world.delete_records(topic, 0, -1)
            return True
        return None

    clean("delete")
    wait_for(done, f"{topic} truncated")
    clean("compact")


def delete(world: KafkaWorld, topic: str) -> None:
    world.delete_topic(topic)


LOST = pytest.mark.parametrize("lose", [delete, truncate])


@pytest.mark.soak
@LOST
def test_what_a_lost_ledger_owes_is_said_and_can_be_delivered(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, ledger: str, lose: Callable[[KafkaWorld, str], None]
) -> None:
    group, plan = crashed.group, released(kgroup, crashed)
    lose(world, ledger)

    for verb in ("describe", "lag"):
        assert f"PENDING  maybe 80 or more in {plan}" in kgroup(verb, group).stdout
        (owed,) = kgroup(verb, group, "-o", "json").data[0]["pending_catchups"]
        assert (owed["plan_id"], owed["state"], owed["pending_offset_count"]) == (plan, None, 80)
        assert f"maybe 80 or more in {plan}" in kgroup(verb, group, "-o", "csv").stderr
    connection = ("-b", world.bootstrap, "--ledger-topic", ledger)
    for more in ((), ("--execute", "--release-only")):
        refused = kgroup("catchup", "start", group, *more, *connection, exit_code=6)
        assert "[not-in-ledger]" in refused.stderr
    assert kgroup("catchup", "start", group, "-o", "json", exit_code=6).json["errors"][0]["code"] == "not-in-ledger"
    kgroup("catchup", "start", group, "--accept", "not-in-ledger")
    kgroup("catchup", "resume", group, exit_code=5)
    assert "kgroup describe GROUP shows" in kgroup("catchup", "resume", plan, exit_code=5).stderr

    said = refused.stderr.split("possibly again:  kgroup ")[1].split(";")[0]
    words = [word for word in shlex.split(said) if word not in ("--to-topic", "TOPIC")]
    assert words[3] == f"{crashed.topic}:0=70-120,{crashed.topic}:1=20-50"
    kgroup(*words, "--release-only")
    assert offsets(world, group) == crashed.released
    assert "PENDING" not in kgroup("describe", group).stdout
    kgroup("catchup", "start", group)


@LOST
def test_verbs_that_change_a_group_warn_where_only_its_commits_show_what_is_pending(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, ledger: str, lose: Callable[[KafkaWorld, str], None]
) -> None:
    group, plan = crashed.group, released(kgroup, crashed)
    start = ("catchup", "start", group, "-b", world.bootstrap)
    warning = f"WARNING {group} may have a pending catch-up (80 or more in {plan}): "
    changes = [
        ("reset", group, "--all-topics", "--to-earliest"),
        ("delete-offsets", group, "--topic", crashed.topic),
        ("migrate", group),
        ("delete", group),
    ]
    for words in changes:
        assert warning not in kgroup(*words).stderr, words
    lose(world, ledger)

    for words in changes:
        result = kgroup(*words, "-b", world.bootstrap)
        assert warning in result.stderr, words
        assert f"see  kgroup {shlex.join(start)}" in result.stderr, words


def test_a_plan_that_was_finished_and_pruned_is_not_lost(kgroup: CommandLine, crashed: Crash) -> None:
    plan = released(kgroup, crashed)
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    for _ in range(2):
        resumed = kgroup("catchup", "resume", crashed.group, "--to-topic", "unused", "--execute")
        assert f"{crashed.group} has no open catch-up: nothing to resume" in resumed.stderr
        assert kgroup("catchup", "resume", crashed.group, "--release-only", "-o", "json").data == []
        kgroup("catchup", "prune", "--execute")

    assert "PENDING" not in kgroup("describe", crashed.group).stdout
    assert kgroup("catchup", "list", "-o", "json").data == []
    kgroup("catchup", "start", crashed.group)


@pytest.mark.soak
@LOST
def test_a_replay_whose_ledger_is_lost_does_not_say_that_nothing_is(
    kgroup: CommandLine,
    world: KafkaWorld,
    crashed: Crash,
    name: Name,
    ledger: str,
    lose: Callable[[KafkaWorld, str], None],
) -> None:
    copy = world.topic(name("copy"), 2)
    start = ("start", crashed.group, "--to-topic", copy, "--master", "local[1]", "--rate", "10/s", "--execute")
    with replaying(world, copy, *start) as process:
        plan = plan_said(process)
        with frozen(process):
            lose(world, ledger)
        process.process.wait(120)

        assert f"the ledger {ledger} no longer has this plan" in process.says("FAILED")
        assert f"--range {crashed.topic}:0=70-120,{crashed.topic}:1=20-50 --to-topic {copy}" in process.says("FAILED")
        assert not any("nothing is lost" in line for line in process.lines)
        assert not any("VERIFIED" in line for line in process.lines)
    assert f"maybe 80 or more in {plan}" in kgroup("describe", crashed.group).stdout


DAMAGED = {
    "a key of no kind": ("other", b'{"v":1}'),
    "its state": ("state", b"{"),
    "the plan itself": ("plan", b"rubbish"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_plan_is_no_dead_end(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, ledger: str, damage: str
) -> None:
    """What is pending is named, by the plan or by the group's commits, delivered again, and the plan is closed."""
    group, plan = crashed.group, released(kgroup, crashed)
    (part, value), readable = DAMAGED[damage], damage != "the plan itself"
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce(ledger, value, f"{plan}/{part}".encode(), partition=0)
    assert producer.flush(30) == 0
    ranges = f"--range {crashed.topic}:0=70-120,{crashed.topic}:1=20-50"

    for verb in ("describe", "lag"):
        how_many = "maybe 80 in" if readable else "maybe 80 or more in"
        assert f"PENDING  {how_many} {plan}" in kgroup(verb, group).stdout
    listed = kgroup("catchup", "list", "-o", "json")
    assert [(row["plan_id"], row["phase"]) for row in listed.data] == [(plan, "damaged")]
    assert f"{plan}/{part}" in listed.stderr
    assert "no catch-up" not in listed.stderr
    started = kgroup("catchup", "start", group, exit_code=6)
    assert "[plan-open]" in started.stderr
    assert ranges in started.stderr
    assert "nothing to do" not in started.stdout + started.stderr
    for verb in ("resume", "cancel", "stop"):
        refused = kgroup("catchup", verb, plan, exit_code=6).stderr
        assert f"kgroup catchup cancel {plan} --abandon --execute" in refused
        assert (ranges in refused) is readable
    for how in ((), ("--execute",)):
        pruned = kgroup("catchup", "prune", plan, *how, exit_code=6)
        assert pruned.stderr.count("[plan-open]") == 1
        assert "Nothing was changed." in pruned.stdout
        assert "done" not in pruned.stdout.lower()

    again = shlex.split(started.stderr.split("possibly again:  kgroup ")[-1].split(";")[0].split("   ")[0])
    if readable:
        again = shlex.split(started.stderr.split("  kgroup ")[1].split("   ")[0])
    kgroup(*(word for word in again if word not in ("--to-topic", "TOPIC")), "--release-only")
    closed = kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    assert (f"ABANDONED  {crashed.topic}:0 [70, 120), 50 offsets" in closed.stdout) is readable
    assert offsets(world, group) == crashed.released
    assert plan not in {
        row["plan_id"] for row in kgroup("catchup", "list", "-o", "json").data if row["phase"] == "damaged"
    }
    assert "PENDING" not in kgroup("describe", group).stdout
    if readable:
        kgroup("catchup", "prune", plan, "--execute")
    assert "nothing to do" in kgroup("catchup", "start", group).stderr
