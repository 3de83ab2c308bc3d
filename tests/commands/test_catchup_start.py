"""``kgroup catchup start``: the plan, what stands in its way, and the head released."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.catchup.service.lookup import find_plan, open_engine
from kgroup.catchup.service.start import show_may_start
from kgroup.catchup.service.start_plan import StartRequest, plan_of, plan_start
from kgroup.changes.options import Change
from kgroup.groups.catchup.gap_request import GapRequest
from kgroup.groups.catchup.model import PlanSnapshot, PlanState, RunnerEpoch, StateRecord
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose, new_plan_id
from kgroup.groups.reset_targets import TopicChoice
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from tests.helpers.catchup.catchups import KINDS, LOCAL, Crash, crash, offsets, plan_id, released
from tests.helpers.catchup.ledgers import delivery
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import read_line, wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


def test_the_plan_says_what_would_be_done_and_changes_nothing(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bystander: str
) -> None:
    before = world.exact(crashed.group)

    page = kgroup("catchup", "start", crashed.group).stdout
    again = kgroup("catchup", "start", crashed.group).stdout

    assert page.startswith("PLAN  catch up")
    assert "2 partitions to the log end" in page
    assert "NOT ordered against new records" in page
    assert page.splitlines()[-1] == f"  kgroup catchup start {crashed.group} --release-only --execute"
    assert "no open plan overlaps" in again
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_is_released_and_the_gap_is_owed(
    kgroup: CommandLine, world: KafkaWorld, name: Name, kind: str, bystander: str
) -> None:
    crashed = crash(world, name("orders"), name("svc"), kind)

    done = kgroup("catchup", "start", crashed.group, "--release-only", "--execute", "--reason", "INC-4711")

    assert offsets(world, crashed.group) == crashed.released
    plan = plan_id(done)
    marks = {place: metadata for place, (_, metadata) in world.committed(crashed.group).items()}
    starts = {(crashed.topic, 0): 70, (crashed.topic, 1): 20}
    assert marks == {
        place: CatchupCommitTag(plan, 1, TagPurpose.RELEASE, start).metadata for place, start in starts.items()
    }
    said = [line.split("  ")[1].strip() for line in done.stderr.splitlines() if "Z  " in line[:12]]
    assert said == ["PLANNED", "RELEASED"]
    assert "MAY START NOW" in done.stdout
    assert f"kgroup catchup resume {plan} --to-topic" in done.stdout
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert (listed["plan_id"], listed["state"], listed["comment"]) == (plan, "released", "INC-4711")
    assert listed["totals"]["undelivered_offset_count"] == 80
    assert "80 in" in kgroup("describe", crashed.group).stdout.split("PENDING")[1].splitlines()[0]
    assert "\nRUNNER     epoch 1, ended\n" in kgroup("catchup", "show", plan).stdout


def test_describe_says_what_is_owed_in_every_format(kgroup: CommandLine, crashed: Crash) -> None:
    (before,) = kgroup("describe", crashed.group, "-o", "json").data
    plan = released(kgroup, crashed)

    (after,) = kgroup("describe", crashed.group, "--members", "-o", "json").data
    csv = kgroup("describe", crashed.group, "-o", "csv")

    assert before["pending_catchups"] == []
    (owed,) = after["pending_catchups"]
    assert (owed["plan_id"], owed["state"], owed["pending_offset_count"]) == (plan, "released", 80)
    assert [(row["partition"], row["start"], row["end"]) for row in owed["ranges"]] == [(0, 70, 120), (1, 20, 50)]
    assert owed["retention_deadline_at_ms"] > 0
    assert owed["retention_deadline_at"].endswith("Z")
    assert f"plan_id: {plan}" in kgroup("describe", crashed.group, "-o", "yaml").stdout
    assert f"{crashed.group}: pending: 80 in {plan}" in csv.stderr
    assert all(row["lag"] == "0" for row in csv.rows)
    kgroup("catchup", "cancel", plan, "--execute")
    assert kgroup("describe", crashed.group, "-o", "json").data[0]["pending_catchups"] == []


def test_lag_says_what_is_owed_in_every_format(kgroup: CommandLine, crashed: Crash) -> None:
    (before,) = kgroup("lag", crashed.group, "-o", "json").data
    plan = released(kgroup, crashed)

    (after,) = kgroup("lag", crashed.group, "-o", "json").data
    page = kgroup("lag", crashed.group)

    assert (before["pending_catchups"], before["lag"]) == ([], 80)
    assert (after["pending_catchups"], after["lag"]) == (
        kgroup("describe", crashed.group, "-o", "json").data[0]["pending_catchups"],
        0,
    )
    assert after["pending_catchups"][0]["plan_id"] == plan
    assert f"PENDING  80 in {plan} (pending)" in page.stdout
    assert "pending:" not in page.stderr
    several = "--regex", crashed.group
    for words in ((crashed.group, "-o", "csv"), (crashed.group, "-o", "prometheus"), several):
        assert f"{crashed.group}: pending: 80 in {plan} (pending)" in kgroup("lag", *words).stderr, words
    metric = rf'kgroup_catchup_pending_offsets\{{cluster_name="[^"]+",group="{re.escape(crashed.group)}"\}} '
    assert re.search(f"{metric}80\n", kgroup("lag", crashed.group, "-o", "prometheus").stdout)
    kgroup("catchup", "cancel", plan, "--execute")
    assert "pending:" not in kgroup("lag", *several).stderr
    assert re.search(f"{metric}0\n", kgroup("lag", crashed.group, "-o", "prometheus").stdout)


def test_a_second_crash_makes_a_second_plan(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    first = released(kgroup, crashed)
    assert "nothing to do" in kgroup("catchup", "start", crashed.group).stderr
    world.produce(crashed.topic, 5)

    warned = kgroup("catchup", "start", crashed.group)
    second = released(kgroup, crashed)

    assert f"{first} with 80 offsets pending; see  kgroup catchup show {first}" in warned.stderr
    assert offsets(world, crashed.group)[crashed.topic, 0] == 125
    assert {row["plan_id"] for row in kgroup("catchup", "list", "-o", "json").data} == {first, second}
    newest = kgroup("catchup", "cancel", crashed.group)
    assert f"cancel {second} (pending)" in newest.stdout
    assert f"after it, of {crashed.group}: {first}" in newest.stderr


def test_offsets_put_back_by_hand_overlap_the_open_plan(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    plan = released(kgroup, crashed)
    world.commit(crashed.group, {(crashed.topic, 0): 100})
    before = world.exact(crashed.group)

    start = ("catchup", "start", crashed.group, "--accept", "active-committer")
    dry = kgroup(*start, exit_code=6)
    real = kgroup(*start, "--release-only", "--execute", exit_code=6)

    for result in (dry, real):
        assert "[plan-overlaps]" in result.stderr
        assert plan in result.stderr
    assert world.exact(crashed.group) == before


@pytest.mark.parametrize("missing", [(), ("--missing", "earliest")])
def test_a_group_without_any_commit_is_not_one_without_a_gap(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, missing: tuple[str, ...]
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    application = members.classic(group, topic)
    members.stable(application, partitions=1)
    application.close()
    wait_for(lambda: world.groups()[group][1] == "empty", "the group is empty")

    refused = kgroup("catchup", "start", group, *missing, "--release-only", "--execute", exit_code=6)

    assert "[no-commit]" in refused.stderr
    assert "--topic TOPIC" in refused.stderr
    named = kgroup("catchup", "start", group, "--topic", topic, "--missing", "earliest")
    assert "5 records" in named.stdout


def test_only_a_gap_that_ends_at_the_head_grows(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    of_group = kgroup("catchup", "start", crashed.group)
    of_range = kgroup("catchup", "start", "--range", f"{crashed.topic}:0=70-120", "--release-only")

    assert "The gap grew by" in of_group.stdout
    assert "Nothing was changed. To do it:" in of_range.stdout


def test_watching_a_group_ends_with_the_plan_that_was_watched(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is finished then, as is one before it: the group's name alone means neither."""
    first = released(kgroup, crashed)
    kgroup("catchup", "cancel", first, "--abandon", "--execute")
    world.produce(crashed.topic, 5)
    second = released(kgroup, crashed)

    def ends(*arguments: Any, **named: Any) -> PlanSnapshot:
        found = find_plan(*arguments, **named)
        kgroup("catchup", "cancel", second, "--abandon", "--execute")
        now_ms = round(time.time() * 1000)
        return replace(found, delivery=delivery((0, 1)), epoch=RunnerEpoch(9, "me@here", now_ms, now_ms))

    monkeypatch.setattr("kgroup.catchup.service.show.find_plan", ends)
    result = kgroup("catchup", "show", crashed.group, "--watch", "--every", "500ms")
    shown = [json.loads(line)["data"][0] for line in result.stdout.splitlines()]

    assert [(each["plan_id"], each["state"]) for each in shown] == [(second, "released"), (second, "cancelled")]


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_live_group_is_left_alone(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members, kind: str
) -> None:
    topic, group = world.topic(name("orders"), 1), name("svc")
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 3})
    start = members.classic if kind == "classic" else members.consumer
    members.stable(start(group, topic), partitions=1)

    dry = kgroup("catchup", "start", group, exit_code=9)
    kgroup("catchup", "start", group, "--release-only", "--execute", exit_code=9)

    assert "NOT YET" in dry.stdout
    assert "scale to zero" in dry.stdout
    assert "To do it once the members are stopped:" in dry.stdout
    assert dry.stdout.endswith(f"kgroup catchup start {group} --release-only --wait-empty --execute\n")
    assert kgroup("catchup", "start", group, "--wait-empty").stderr == ""
    nowhere = ("catchup", "start", group, "--to-topic", "no-such-topic")
    for how in ((), ("--wait-empty",), ("--wait-empty", "--execute")):
        refused = kgroup(*nowhere, *how, exit_code=6)
        assert "[sink]" in refused.stderr
        assert "WAIT" not in refused.stderr
    assert kgroup("catchup", "list", "-o", "json").data == []
    assert CATCHUP_INSTANCE_ID not in kgroup("describe", group, "--members", "-o", "json").stdout


def with_member(world: KafkaWorld, name: Name, members: Members) -> tuple[str, str, Member]:
    """A topic with a gap, its group, and the group's member."""
    topic, group = world.topic(name("orders"), 1), name("svc")
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 3})
    member = members.classic(group, topic)
    members.stable(member, partitions=1)
    return topic, group, member


@pytest.mark.soak
def test_it_waits_for_the_group_to_be_empty(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members
) -> None:
    topic, group, member = with_member(world, name, members)
    process = kgroup.start("catchup", "start", group, "--release-only", "--wait-empty", "--execute")
    assert "WAIT" in read_line(process.stderr)

    member.close()

    process.communicate(timeout=30)
    assert process.returncode == 0
    assert offsets(world, group) == {(topic, 0): 10}


@pytest.mark.soak
def test_workers_are_tried_before_the_wait(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members
) -> None:
    """What fails there is known at once, and a trial after the wait would end when the pods are back."""
    topic, group, member = with_member(world, name, members)
    start = ("catchup", "start", group, "--wait-empty", "--within", "120s", *LOCAL, "--execute")

    refused = kgroup.process(*start, "--to-command", "no-such-program --fast", exit_code=6)
    process = kgroup.start(*start, "--to-command", "cat > /dev/null")

    assert "[spark-workers]" in refused.stderr
    assert "WAIT" not in refused.stderr
    assert "Spark tries a worker first" in read_line(process.stderr)
    assert "WAIT" in read_line(process.stderr)
    assert kgroup("catchup", "list", "-o", "json").data == []
    member.close()
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, "VERIFIED" in stdout) == (0, True), stderr
    assert "tries a worker" not in stderr
    assert offsets(world, group) == {(topic, 0): 10}


def test_a_partition_without_a_commit_needs_a_word(
    kgroup: CommandLine, world: KafkaWorld, name: Name, crashed: Crash
) -> None:
    topic = world.topic(name("other"))
    world.produce(topic, 4)
    start = ("catchup", "start", crashed.group, "--topic", topic, "--topic", crashed.topic)

    refused = kgroup(*start, exit_code=6)
    rows = {choice: kgroup(*start, "--missing", choice, "-o", "json").data[0] for choice in ("earliest", "latest")}
    left = kgroup(*start, "--missing", "leave", "-o", "json").data[0]

    assert "[no-commit]" in refused.stderr
    assert re.search(r"from their log start:\n  kgroup .* --missing earliest --execute\n", refused.stdout)
    assert [(r["start"], r["end"]) for r in rows["earliest"]["ranges"]] == [(70, 120), (20, 50), (0, 4)]
    assert [(r["start"], r["end"]) for r in rows["latest"]["ranges"]] == [(70, 120), (20, 50), (4, 4)]
    assert [(row["start"], row["end"]) for row in rows["latest"]["abandoned"]] == [(0, 4)]
    assert [row["code"] for row in left["not_moved"]] == ["left"]
    partial = kgroup(*start, "--partial", "--release-only", "--execute", exit_code=7)
    assert offsets(world, crashed.group) == crashed.released
    assert "[no-commit]" in partial.stderr


def test_what_is_skipped_is_named_and_accepted(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    now_ms = round(time.time() * 1000)
    world.produce_at(topic, 0, [now_ms - 7_200_000] * 6 + [now_ms - 60_000] * 4)
    world.commit(group, {(topic, 0): 2})
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000 - 3600))
    start = ("catchup", "start", group, "--skip-before", moment)

    refused = kgroup(*start, exit_code=6)
    (plan,) = kgroup(*start, "--accept", "skip", "-o", "json").data
    done = kgroup(*start, "--accept", "skip", "--release-only", "--execute")

    assert "4 offsets" in refused.stderr
    assert "[skip]" in refused.stderr
    assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(6, 10)]
    assert [(row["start"], row["end"], row["reason"]) for row in plan["abandoned"]] == [(2, 6, "--skip-before")]
    assert offsets(world, group) == {(topic, 0): 10}
    kgroup("catchup", "cancel", plan_id(done), "--execute")
    assert offsets(world, group) == {(topic, 0): 2}


def test_until_releases_below_the_head(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    now_ms = round(time.time() * 1000)
    world.produce_at(topic, 0, [now_ms - 7_200_000] * 6 + [now_ms - 60_000] * 4)
    world.commit(group, {(topic, 0): 2})
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000 - 3600))

    kgroup("catchup", "start", group, "--until", moment, "--release-only", "--execute")

    assert offsets(world, group) == {(topic, 0): 6}


def test_some_partitions_of_a_topic(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    released(kgroup, crashed, "--topic", f"{crashed.topic}:1")

    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 50}


def test_ranges_move_no_group(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    before = world.exact(crashed.group)
    wanted = f"{crashed.topic}:0=70-120,{crashed.topic}:1=5-9"

    done = kgroup("catchup", "start", "--range", wanted, "--release-only", "--execute")

    (plan,) = kgroup("catchup", "show", plan_id(done), "-o", "json").data
    assert plan["group"] is None
    assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(70, 120), (5, 9)]
    assert world.exact(crashed.group) == before
    kgroup("catchup", "start", "--range", f"{crashed.topic}:0=100-130", exit_code=6)
    again = kgroup("catchup", "start", "--range", wanted, "--release-only", "--execute", exit_code=6)
    assert "[plan-overlaps]" in again.stderr
    both = kgroup("catchup", "start", crashed.group, "--release-only", "--execute")
    assert (
        f"open plan {plan['plan_id']} contains 1 of these ranges, or parts of them: both plans deliver them"
        in both.stderr
    )
    kgroup("catchup", "start", "--range", f"{crashed.topic}:7=1-2", exit_code=5)


def test_ranges_that_a_groups_plan_owes_too(kgroup: CommandLine, crashed: Crash) -> None:
    plan = released(kgroup, crashed)
    beside = ("catchup", "start", "--range", f"{crashed.topic}:0=110-115")

    dry = kgroup(*beside, exit_code=6)
    refused = kgroup(*beside, "--release-only", "--execute", exit_code=6)
    (only,) = kgroup("catchup", "list", "-o", "json").data
    kgroup(*beside, "--accept", "possible-duplicates", "--release-only", "--execute")

    assert only["plan_id"] == plan
    for result in (dry, refused):
        assert f"open plan {plan} of {crashed.group} contains 1 of these ranges" in result.stderr
        assert "[possible-duplicates]" in result.stderr
        assert "--accept possible-duplicates" in result.stderr


def test_a_hanging_transaction_holds_its_partition_where_it_is(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": name("hangs"), "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(crashed.topic, b"open", partition=0)
    producer.flush(30)
    world.produce(crashed.topic, 3)
    try:
        wait_for(lambda: kgroup("describe", crashed.group, "-o", "json").data[0]["totals"]["lag"] == 84, "the records")

        (plan,) = kgroup("catchup", "start", crashed.group, "-o", "json").data
        released(kgroup, crashed)

        assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(70, 120), (20, 50)]
        assert "below-log-end" in {risk["code"] for risk in plan["risks"]}
        assert offsets(world, crashed.group) == crashed.released
        again = kgroup("catchup", "start", crashed.group, "-o", "json")
        (stays,) = again.data
        assert f"an open transaction is on {crashed.topic}:0: nothing to do" in again.stderr
        assert {row["code"] for row in stays["not_moved"]} == {"hanging-transaction", "nothing-to-do"}
    finally:
        producer.abort_transaction(30)


def test_what_was_handled_after_the_last_commit_is_estimated(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members
) -> None:
    group = name("svc")
    by_broker = world.topic(name("orders"), 1, {"message.timestamp.type": "LogAppendTime"})
    by_clients = world.topic(name("orders"))
    ahead_ms = round(time.time() * 1000) + 600_000
    world.produce(by_broker, 10)
    world.produce(by_clients, 5)
    world.produce_at(by_clients, 0, [ahead_ms, *[ahead_ms - 600_000] * 4])  # one of a clock that is ahead
    world.commit(group, {(by_broker, 0): 4, (by_clients, 0): 4})
    member = members.classic(group, by_broker, by_clients)
    members.stable(member, partitions=2)
    member.close()
    for topic in (by_broker, by_clients):
        world.produce(topic, 10)

    (plan,) = kgroup("catchup", "start", group, "-o", "json").data

    found = {row["topic"]: (row["start"], row["end"], row["maybe_processed_until"]) for row in plan["ranges"]}
    assert found == {by_broker: (4, 20, 10), by_clients: (4, 20, 20)}


def test_retention_that_overtakes_the_replay_blocks_it(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    crashed = crash(world, name("orders"), name("svc"), config={"retention.ms": "3000"})

    refused = kgroup("catchup", "start", crashed.group, "--release-only", "--execute", exit_code=6)

    assert "BLOCKED" in refused.stdout
    assert "[retention]" in refused.stderr
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


def test_the_box_says_where_the_group_begins(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bootstrap: str, ledger: str
) -> None:
    """Not at the head, where it was told so; and which partitions are not of it."""
    boxes: dict[str, list[str]] = {}
    topic, group = world.topic(name("orders"), 2), name("svc")
    now_ms = round(time.time() * 1000)
    world.produce_at(topic, 0, [now_ms - 7_200_000] * 6 + [now_ms - 60_000] * 4)
    world.commit(group, {(topic, 0): 2})
    for until in (None, now_ms - 3_600_000):
        reporter = QuietReporter()
        settings = resolve(Connection(bootstrap_server=bootstrap), reporter)
        gap = GapRequest(topics=(TopicChoice(topic, None),), until_ms=until)
        request = StartRequest(group, gap, Change(partial=True))
        with open_engine(settings, reporter, ledger) as engine:
            plan = plan_start(engine, settings, request)
            made = plan_of(engine, request, plan, new_plan_id())
        show_may_start(
            reporter, PlanSnapshot(made, 0, StateRecord(PlanState.RELEASED, 0, "me", 1), None, None, {}), plan
        )
        boxes[made.release_point] = reporter.lines

    assert boxes["log-end"][1].startswith("It starts at the log end of ")
    assert boxes["until"][1].startswith("It starts at --until, NOT at the log end. [committed, --until) is in cu-")
    for lines in boxes.values():
        assert lines[2] == f"Not moved, and not part of the plan: {topic}:1."


def test_the_expected_number_of_partitions(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    kgroup("catchup", "start", crashed.group, "--expect", "3", "--release-only", "--execute", exit_code=6)
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}
    kgroup("catchup", "start", crashed.group, "--expect", "2", "--release-only", "--execute")
