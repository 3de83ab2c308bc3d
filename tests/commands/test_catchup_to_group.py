"""``kgroup catchup start --to-group``: the application itself reads the gap, in a second group that kgroup follows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kgroup.catchup.service import second_group
from tests.helpers.catchup.catchups import Crash, crash, gap_of, offsets, plan_said, released
from tests.helpers.catchup.second_application import PROTOCOLS, second_application
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import DELETE_GROUPS, OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


def starts_of(crashed: Crash) -> dict[tuple[str, int], int]:
    return {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


def pending(kgroup: CommandLine, plan: str) -> int:
    found: int = kgroup("catchup", "show", plan, "-o", "json").data[0]["totals"]["pending_offset_count"]
    return found


def handed_over(kgroup: CommandLine, crashed: Crash, second: str) -> str:
    """A plan whose second group may begin, and whose run has ended."""
    with running("catchup", "start", crashed.group, "--to-group", second, "--execute") as process:
        plan = plan_said(process)
        process.says("HANDED OVER")
        process.process.send_signal(signal.SIGINT)
        process.ends(130)
    return plan


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_application_reads_the_gap_and_its_group_is_deleted(
    kgroup: CommandLine,
    world: KafkaWorld,
    crashed: Crash,
    bystander: str,
    name: Name,
    tmp_path: Path,
    protocol: str,
) -> None:
    """New records are written meanwhile: those that it reads after the gap are counted, as the group reads them too."""
    second, others = name("gap"), world.exact(bystander)
    words = ("catchup", "start", crashed.group, "--to-group", second, "--delete-group")

    dry = kgroup(*words)
    assert second not in world.groups()
    with running(*words, "--execute", "-o", "json") as process:
        plan = plan_said(process)
        process.says(f"HANDED OVER  {plan}  {second} begins in the gap on 2 partitions")
        assert offsets(world, second) == starts_of(crashed)
        world.produce(crashed.topic, 5)
        bootstrap, topic = world.bootstrap, crashed.topic
        with second_application(bootstrap, second, topic, tmp_path / "processed", protocol=protocol) as application:
            process.says(f"PAST THE END  {plan}")
            application.has(85)
            process.says(f"WAIT      {second} is deleted once its application has stopped")
        done = process.ends(0)

    (document,) = done.data
    assert f"group {second}, at least once" in dry.stdout
    new = [f"{crashed.topic}:0:{offset}" for offset in range(120, 125)]
    assert sorted(application.records) == sorted([*gap_of(crashed), *new])
    assert (document["plan_id"], document["state"], document["sink"]) == (plan, "done", "group")
    totals = document["totals"]
    assert (totals["verified"], totals["possible_duplicate_count"], totals["undelivered_offset_count"]) == (True, 5, 0)
    assert (totals["record_count"], totals["delivered_count"]) == (None, None)
    assert second not in world.groups()
    assert offsets(world, crashed.group) == crashed.released
    assert world.exact(bystander) == others


@pytest.mark.soak
def test_interrupted_and_resumed_it_goes_on_where_the_application_is(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    second, processed = name("gap"), tmp_path / "processed"
    with running("catchup", "start", crashed.group, "--to-group", second, "--execute") as process:
        plan = plan_said(process)
        process.says("HANDED OVER")
        with second_application(world.bootstrap, second, crashed.topic, processed, most=10) as application:
            application.ended()
            wait_for(lambda: pending(kgroup, plan) == 70, "10 in the ledger")
        process.process.send_signal(signal.SIGINT)
        ended = process.ends(130)
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    with second_application(world.bootstrap, second, crashed.topic, processed) as application:
        done = kgroup("catchup", "resume", plan, "--execute")

    assert f"kgroup catchup resume {plan} --execute" in ended.stderr
    assert (listed["phase"], listed["destination"]) == ("stopped", f"group {second}")
    assert f"VERIFIED  {plan}" in done.stdout
    assert sorted(application.records) == gap_of(crashed)
    assert "POSSIBLE DUPLICATES  at most 0 records" in done.stdout
    assert second in world.groups()
    assert f"all 80 offsets: committed by group {second}" in kgroup("catchup", "show", plan).stdout


@pytest.mark.soak
@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
def test_killed_at_the_handover_it_is_continued_by_the_marks(
    proxied: ProxiedBroker, name: Name, tmp_path: Path, loss: Loss
) -> None:
    """The commit to the second group never reached the broker; or it did, and the ledger does not know."""
    world, second = proxied.world, name("gap")
    crashed = crash(world, name("orders"), name("svc"))
    commit = proxied.proxy.expect(Fault(OFFSET_COMMIT, loss, having=second.encode()))
    with running("catchup", "start", crashed.group, "--to-group", second, "--execute") as process:
        plan = plan_said(process)
        wait_for(commit.met.is_set, "its commit")
        process.process.kill()
        process.ends(-signal.SIGKILL)
    commit.go_on.set()
    before = offsets(world, second)

    with running("catchup", "resume", plan, "--execute") as process:
        process.says("HANDED OVER")
        assert offsets(world, second) == starts_of(crashed)
        with second_application(world.bootstrap, second, crashed.topic, tmp_path / "processed") as application:
            process.ends(0)

    assert before == ({} if loss is Loss.REQUEST else starts_of(crashed))
    assert sorted(application.records) == gap_of(crashed)


def test_killed_before_the_handover_an_application_that_began_by_itself_shows_nothing(
    proxied: ProxiedBroker, name: Name
) -> None:
    """It began wherever auto.offset.reset said: a commit past the end is no proof."""
    kgroup, world, second = CommandLine(), proxied.world, name("gap")
    crashed = crash(world, name("orders"), name("svc"))
    commit = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REQUEST, having=second.encode()))
    with running("catchup", "start", crashed.group, "--to-group", second, "--execute") as process:
        plan = plan_said(process)
        wait_for(commit.met.is_set, "its commit")
        process.process.kill()
        process.ends(-signal.SIGKILL)
    commit.go_on.set()
    world.commit(second, crashed.released)

    refused = kgroup("catchup", "resume", plan, "--execute", "-o", "json", exit_code=6)

    (error,) = refused.json["errors"]
    assert error["code"] == "second-group-used"
    assert f"{crashed.topic}:0 at 120" in error["message"]
    assert f"kgroup delete {second} --execute" in error["hint"]
    assert pending(kgroup, plan) == 80
    assert offsets(world, second) == crashed.released


@pytest.mark.soak
def test_killed_after_the_deletion_it_is_verified_by_the_ledger(
    proxied: ProxiedBroker, name: Name, tmp_path: Path
) -> None:
    kgroup, world, second = CommandLine(), proxied.world, name("gap")
    crashed = crash(world, name("orders"), name("svc"))
    deletion = proxied.proxy.expect(Fault(DELETE_GROUPS, Loss.ANSWER, having=second.encode()))
    with running("catchup", "start", crashed.group, "--to-group", second, "--delete-group", "--execute") as process:
        plan = plan_said(process)
        process.says("HANDED OVER")
        with second_application(world.bootstrap, second, crashed.topic, tmp_path / "processed"):
            process.says("PAST THE END")
        wait_for(deletion.met.is_set, "its deletion")
        process.process.kill()
        process.ends(-signal.SIGKILL)
    deletion.go_on.set()
    assert second not in world.groups()

    done = kgroup("catchup", "resume", plan, "--execute")

    assert f"VERIFIED  {plan}" in done.stdout
    assert second not in world.groups()


@pytest.mark.parametrize("state", ["used", "live", "itself"])
def test_what_cannot_be_a_second_group(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, members: Members, name: Name, state: str
) -> None:
    second, before = name("gap"), world.exact(crashed.group)
    words = ("catchup", "start", crashed.group, "--to-group")
    if state == "used":
        world.commit(second, {(crashed.topic, 1): 7})
        for more in ((), ("--execute",)):
            refused = kgroup(*words, second, *more, "-o", "json", exit_code=6)
            assert [error["code"] for error in refused.json["errors"]] == ["second-group-used"]
            assert f"{crashed.topic}:1 at 7" in refused.json["errors"][0]["message"]
    elif state == "live":
        members.stable(members.classic(second, crashed.topic), partitions=2)
        refused = kgroup(*words, second, "--execute", "-o", "json", exit_code=9)
        assert [error["code"] for error in refused.json["errors"]] == ["not-empty"]
    else:
        assert "is the group of the plan itself" in kgroup(*words, crashed.group, "--execute", exit_code=2).stderr
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "list", "-o", "json").data == []


def test_delete_group_does_not_delete_what_was_there_before(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    second, elsewhere = name("gap"), world.topic(name("other"))
    world.commit(second, {(elsewhere, 0): 0})

    refused = kgroup(
        "catchup", "start", crashed.group, "--to-group", second, "--delete-group", "-o", "json", exit_code=6
    )
    dry = kgroup("catchup", "start", crashed.group, "--to-group", second)

    assert [error["code"] for error in refused.json["errors"]] == ["second-group-used"]
    assert "Nothing was changed." in dry.stdout


@pytest.mark.soak
def test_cancelled_before_the_application_has_begun(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, members: Members, name: Name
) -> None:
    second, before = name("gap"), world.exact(crashed.group)
    plan = handed_over(kgroup, crashed, second)
    member = members.classic(second, crashed.topic)
    members.stable(member, partitions=2)
    refused = kgroup("catchup", "cancel", plan, "--execute", "-o", "json", exit_code=9)
    member.close()
    kgroup("wait", second, "--for", "empty")

    kgroup("catchup", "cancel", plan, "--execute")

    assert refused.json["errors"][0]["code"] == "not-empty"
    assert offsets(world, second) == {}
    assert world.exact(crashed.group) == before


@pytest.mark.soak
def test_cancelled_in_between_the_group_reads_what_is_left(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    """The application read on while no run of kgroup followed it."""
    second = name("gap")
    plan = handed_over(kgroup, crashed, second)
    with second_application(world.bootstrap, second, crashed.topic, tmp_path / "processed", most=10) as application:
        application.ended()
    reached = offsets(world, second)

    refused = kgroup("catchup", "cancel", plan, exit_code=6)
    kgroup("catchup", "cancel", plan, "--accept", "possible-duplicates", "--execute")

    assert "a part of" in refused.stdout
    assert "possible-duplicates" in refused.stdout
    assert sum(reached.values()) == 70 + 20 + 10
    assert offsets(world, crashed.group) == reached


def test_the_other_partitions_begin_at_the_log_end(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    """The application subscribes to whole topics, and to all that its group reads."""
    second, elsewhere = name("gap"), world.topic(name("other"))
    world.produce(elsewhere, 7)
    world.commit(crashed.group, {(elsewhere, 0): 7})
    words = ("catchup", "start", crashed.group, "--topic", f"{crashed.topic}:0", "--to-group", second, "--execute")
    with running(*words) as process:
        process.says("HANDED OVER")

        assert offsets(world, second) == {(crashed.topic, 0): 70, (crashed.topic, 1): 50, (elsewhere, 0): 7}


@pytest.mark.soak
def test_a_gap_that_ends_with_a_marker_of_a_transaction(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    """A client commits the offset after the last record, which the marker follows."""
    topic, group, second = world.topic(name("orders")), name("svc"), name("gap")
    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(10):
        producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)
    world.commit(group, {(topic, 0): 0})
    with running("catchup", "start", group, "--to-group", second, "--execute") as process:
        process.says("HANDED OVER")
        with second_application(world.bootstrap, second, topic, tmp_path / "processed", most=10) as application:
            application.ended()
        process.ends(0)

    assert offsets(world, second) == {(topic, 0): 10}
    assert world.end(topic) == 11


@pytest.mark.soak
def test_ranges_without_a_group_and_a_released_plan(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    first, second = name("first"), name("second")
    two = f"{crashed.topic}:0=1-3,{crashed.topic}:0=5-9"
    assert (
        "one offset for each partition"
        in kgroup("catchup", "start", "--range", two, "--to-group", first, "--execute", exit_code=2).stderr
    )
    words = ("catchup", "start", "--range", f"{crashed.topic}:0=5-9", "--to-group", first, "--execute")
    with running(*words) as process:
        process.says("HANDED OVER")
        assert offsets(world, first) == {(crashed.topic, 0): 5, (crashed.topic, 1): 50}
        world.commit(first, {(crashed.topic, 0): 9})
        process.ends(0)

    plan = released(kgroup, crashed)
    with running("catchup", "resume", plan, "--to-group", second, "--execute") as process:
        process.says("HANDED OVER")
        assert offsets(world, second) == starts_of(crashed)
        world.commit(second, crashed.released)
        process.ends(0)


@pytest.mark.soak
def test_neither_spark_nor_java_is_needed(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    """PySpark cannot be imported, and PATH has nothing."""
    (tmp_path / "pyspark.py").write_text("raise ImportError('there is none')\n")
    second = name("gap")
    words = ("catchup", "start", crashed.group, "--to-group", second, "--execute", "-o", "json")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "kgroup", *words], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: offsets(world, second) == starts_of(crashed) or process.poll() is not None, "the handover")
        wait_for(lambda: process.poll() is not None or _is_confirmed(kgroup), "the ledger")
        world.commit(second, crashed.released)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 0, stderr
    assert json.loads(stdout)["data"][0]["totals"]["verified"] is True


def _is_confirmed(kgroup: CommandLine) -> bool:
    plans = kgroup("catchup", "list", "-o", "json").data
    return bool(plans) and plans[0]["state"] == "released"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rate", "5/s"), "--rate and --to-group are mutually exclusive: the application reads by itself"),
        (("--dead-letter-topic", "t"), "--dead-letter-topic and --to-group are mutually exclusive"),
        (("--where", "true"), "--where and --to-group are mutually exclusive"),
        (("--order", "key"), "--order and --to-group are mutually exclusive"),
        (("--master", "yarn"), "--master and --to-group are mutually exclusive: Spark is not started"),
        (("--spark-log",), "--spark-log and --to-group are mutually exclusive"),
        (("--to-topic", "t"), "--to-topic and --to-group are mutually exclusive"),
    ],
)
def test_options_of_a_replay_by_kgroup(kgroup: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in kgroup("catchup", "start", "svc", "--to-group", "gap", *words, exit_code=2).stderr


def test_other_wrong_options(kgroup: CommandLine) -> None:
    alone = kgroup("catchup", "start", "svc", "--to-topic", "t", "--delete-group", exit_code=2)
    checked = kgroup("catchup", "check", "--to-group", "gap", exit_code=2)
    several = kgroup("catchup", "resume", "--all-pending", "--to-group", "gap", exit_code=2)

    assert "--delete-group requires --to-group" in alone.stderr
    assert "--to-group and catchup check are mutually exclusive" in checked.stderr
    assert "--to-group is for one plan" in several.stderr


@pytest.mark.soak
def test_the_destination_stays_once_the_gap_is_handed_over(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    """Nothing is delivered yet, but the application may be started at any time."""
    second, other = name("gap"), name("other")
    plan = handed_over(kgroup, crashed, second)

    for words in (("--to-group", other), ("--to-topic", crashed.topic)):
        assert "[sink-set]" in kgroup("catchup", "resume", plan, *words, "--execute", exit_code=6).stderr
    limited = kgroup("catchup", "resume", plan, "--rate", "5/s", exit_code=2)
    throttled = kgroup("catchup", "throttle", plan, "5/s", exit_code=2)
    left = kgroup("catchup", "resume", "--all-pending")

    assert "--rate and --to-group are mutually exclusive" in limited.stderr
    assert f"the application of {second} reads the gap of {plan}" in throttled.stderr
    assert f"{plan} is left out: its application reads it in a second group" in left.stderr


@pytest.mark.soak
def test_a_second_group_whose_application_does_not_stop_is_not_deleted(
    kgroup: CommandLine,
    world: KafkaWorld,
    crashed: Crash,
    name: Name,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second = name("gap")
    plan = handed_over(kgroup, crashed, second)
    monkeypatch.setattr(second_group, "_STOPS_WITHIN_S", 1.0)
    with second_application(world.bootstrap, second, crashed.topic, tmp_path / "processed"):
        words = ("catchup", "resume", plan, "--to-group", second, "--delete-group", "--execute", "-o", "json")
        done = kgroup(*words, exit_code=7)

    (error,) = done.json["errors"]
    assert (error["code"], error["group"]) == ("not-empty", second)
    assert f"kgroup delete {second} --execute" in error["hint"]
    assert (done.data[0]["state"], done.data[0]["totals"]["verified"]) == ("done", True)
    assert offsets(world, second) == crashed.released


@pytest.mark.soak
def test_what_retention_deleted_before_it_was_committed_is_lost(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    """Its application may have jumped to the log end: a commit past the end is no evidence then."""
    second = name("gap")
    plan = handed_over(kgroup, crashed, second)
    world.delete_records(crashed.topic, 0, 80)
    world.commit(second, crashed.released)

    done = kgroup("catchup", "resume", plan, "--execute", "-o", "json", exit_code=8)

    lost = [row for item in done.data[0]["ranges"] for row in item["lost"]]
    assert [(row["partition"], row["start"], row["end"]) for row in lost] == [(0, 70, 120)]


@pytest.mark.soak
def test_abandoned_what_is_left_is_listed_and_the_marks_are_deleted(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    second = name("gap")
    plan = handed_over(kgroup, crashed, second)
    world.commit(second, {(crashed.topic, 0): 100})

    kgroup("catchup", "cancel", plan, "--execute", exit_code=6)
    done = kgroup("catchup", "cancel", plan, "--abandon", "--execute", "-o", "json")

    abandoned = done.data[0]["abandoned_by_cancel"]
    assert [(row["partition"], row["start"], row["end"]) for row in abandoned] == [(0, 100, 120), (1, 20, 50)]
    assert offsets(world, second) == {(crashed.topic, 0): 100}
    assert offsets(world, crashed.group) == crashed.released
