"""``kgroup doctor`` on a real broker: what is brought about is found, and healthy groups are left in peace."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

from kgroup.groups.doctor.finding import duration
from tests.helpers import by_hand
from tests.helpers.catchup.catchups import Crash, released
from tests.helpers.command_line import CommandLine
from tests.helpers.hanging import hang
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members, commit_to
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
BY_DESIGN = {"ready-to-migrate"}
"""What a group in best health is told."""


def rules_of(kgroup: CommandLine, *groups: str, exit_code: int = 0) -> dict[str, dict[str, Any]]:
    """The findings of each group by their rules."""
    found = kgroup("doctor", *groups, "-o", "json", exit_code=exit_code).data
    return {one["group"]: {finding["rule"]: finding for finding in one["findings"]} for one in found}


def severities(findings: Mapping[str, Any]) -> dict[str, str]:
    return {rule: finding["severity"] for rule, finding in findings.items() if rule not in BY_DESIGN}


@pytest.mark.soak
def test_healthy_groups_of_all_shapes(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, other = world.topic(name("orders"), partitions=4), world.topic(name("payments"))
    for number in range(4):
        world.produce(topic, 3, partition=number)
    eager, cooperative, new, static, simple = (name(n) for n in ("eager", "cooperative", "new", "static", "simple"))
    committing = {"enable_auto_commit": "true", "auto_commit_interval_ms": "100"}
    alone = members.classic(eager, topic, **committing)
    two = [members.classic(cooperative, topic, other, assignor="cooperative-sticky", **committing) for _ in range(2)]
    three = [members.consumer(new, topic, **committing) for _ in range(3)]
    named = [members.consumer(static, topic, other, group_instance_id=f"i{at}", **committing) for at in range(2)]
    members.stable(alone, partitions=4)
    members.stable(*two, partitions=5)
    members.stable(*three, partitions=4)
    members.stable(*named, partitions=5)
    world.commit(simple, {(topic, number): 3 for number in range(4)})
    live = (eager, cooperative, new, static)

    def committed() -> bool:
        return all(len(world.committed(group)) >= 4 for group in live)

    wait_for(committed, "commits")
    found = rules_of(kgroup, *live, simple)
    assert {group: severities(findings) for group, findings in found.items()} == {
        group: {} for group in (*live, simple)
    }
    for member in (alone, *two, *three, *named):
        member.close()
    wait_for(lambda: {world.groups()[group][1] for group in (eager, cooperative, new)} == {"empty"}, "stopped groups")
    found = rules_of(kgroup, eager, cooperative, new)
    assert {group: severities(findings) for group, findings in found.items()} == {
        group: {} for group in (eager, cooperative, new)
    }


@pytest.mark.soak
def test_members_that_are_ill_placed(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    one, two, gone = (world.topic(name(stem)) for stem in ("one", "two", "gone"))
    many = [world.topic(name(f"t{number}")) for number in range(4)]
    idle, mixed, skewed, endless, waiting = (name(n) for n in ("idle", "mixed", "skewed", "endless", "waiting"))
    started = [
        ([members.consumer(idle, one) for _ in range(3)], 1),
        ([members.classic(mixed, one), members.classic(mixed, two)], 2),
        ([members.classic(skewed, *many) for _ in range(2)], 4),
        ([members.classic(endless, one, max_poll_interval_ms=86_400_000, session_timeout_ms=6000)], 1),
        ([members.classic(waiting, one, gone)], 2),
    ]
    for some, partitions in started:
        idlers = 1 if some[0].what["group"] == skewed else None
        members.stable(*some, partitions=partitions, idle=idlers)
    world.delete_topic(gone)

    def found() -> dict[str, dict[str, Any]] | None:
        found = rules_of(kgroup, idle, mixed, skewed, endless, waiting)
        return found if "topic-gone" in found[waiting] and "idle-members" in found[idle] else None

    findings = wait_for(found, "findings")
    assert severities(findings[idle]) == {"idle-members": "warning"}
    assert findings[idle]["idle-members"]["numbers"] == {
        "member_count": 3,
        "partition_count": 1,
        "idle_member_count": 2,
    }
    assert severities(findings[mixed]) == {"mixed-subscriptions": "warning"}
    assert severities(findings[skewed]) == {"skewed-partitions": "warning"}
    assert severities(findings[endless]) == {"poll-interval": "warning", "heartbeat-interval": "info"}
    assert severities(findings[waiting]) == {"topic-gone": "warning"}
    assert findings[waiting]["topic-gone"]["affected"] == [gone]


@pytest.mark.soak
def test_a_hanging_transaction_and_its_finished_abort(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bootstrap: str, bystander: str, kafka_tool: KafkaTools
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 5})
    transactional_id = hang(bootstrap, topic, age_ms=3_600_000)

    found = rules_of(kgroup, group)[group]

    assert severities(found) == {"hanging-transaction": "critical", "lso-stuck": "critical"}
    hanging = found["hanging-transaction"]
    assert (hanging["numbers"]["start_offset"], hanging["affected"]) == (5, [f"{topic}:0"])
    assert transactional_id in hanging["evidence"]
    (abort,) = hanging["commands"]
    tool, *arguments = shlex.split(abort)
    assert tool == "kafka-transactions.sh"
    done = kafka_tool(TRANSACTIONS, *arguments)
    assert done.returncode == 0, done.stderr
    assert severities(rules_of(kgroup, group)[group]) == {}


def test_a_transaction_that_is_under_way_is_no_hanging_one(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bootstrap: str, bystander: str
) -> None:
    """Whatever times its records carry: the coordinator's clock counts where it knows of it."""
    from confluent_kafka import Producer

    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 5})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name("busy"), "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x", timestamp=1_600_000_000_000)
    assert producer.flush(30) == 0

    assert severities(rules_of(kgroup, group)[group]) == {}
    producer.abort_transaction(30)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_comes_and_goes(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.commit(f"{group}-v2", {(topic, 0): 0})
    for application in (group, f"{group}-v2"):
        world.topic(f"{application}-store-changelog")
    start = members.classic if protocol == "classic" else members.consumer
    stays, flaky = start(group, topic), start(group, topic, client_id="flaky")
    for _ in range(5):
        members.stable(stays, flaky, partitions=2)
        flaky.close()
        members.stable(stays, partitions=2)
        flaky.start_again()
    members.stable(stays, flaky, partitions=2)

    found = rules_of(kgroup, group)[group]

    assert {"rebalance-storm", "not-static"} <= found.keys()
    assert found["rebalance-storm"]["affected"][0] == "flaky"
    numbers = found["rebalance-storm"]["numbers"]
    assert numbers["rebalance_count"] >= 9
    if protocol == "classic":
        # The changelog of GROUP-v2 is not its own.
        assert found["eager-assignor"]["numbers"]["state_topic_count"] == 1
        # One measure: nothing was ever committed. The first generation of a member that stays is none of the storm.
        (past,) = kgroup("history", group, "-o", "json").data
        first, second = (datetime.fromisoformat(step["recorded_at"]) for step in past["steps"][:2])
        before_ms = round((second - first).total_seconds() * 1000)
        assert past["totals"]["quiet_ms"] - numbers["stopped_ms"] in (0, before_ms)
        assert numbers["stopped_ms"] > 0
        assert f"without commits for {duration(numbers['stopped_ms'])}" in found["rebalance-storm"]["evidence"]


@pytest.mark.soak
def test_a_job_that_is_not_due(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """It ran twice, read to the end and left; what came since is read by its next run."""
    topic, group = world.topic(name("orders")), name("job")
    world.produce(topic, 10)
    job = members.classic(group, topic)

    def run(until: int) -> tuple[float, float]:
        began_s = time.monotonic()
        commit_to(world, job, until)
        job.close()
        return began_s, time.monotonic()

    def next_words() -> str:
        (found,) = kgroup("describe", group, "-o", "json").data
        return str(found["verdict"]["next"])

    began_s, ended_s = run(10)
    world.produce(topic, 10)
    assert "the next one begins by" not in next_words()
    wait_for(lambda: time.monotonic() - ended_s > 3 * (ended_s - began_s), "a pause that is longer than its runs")
    job.start_again()
    run(20)
    world.produce(topic, 10)

    assert "no member reads: a job that is not due, or its consumers are missing" in next_words()
    assert "as its runs so far, the next one begins by" in next_words()
    assert "no-reader" not in rules_of(kgroup, group)[group]


@pytest.mark.soak
def test_a_member_that_does_not_poll(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """It leaves, and its process lives; then it comes back and does it again, at the same record."""
    topic, group = world.topic(name("orders")), name("svc")
    # It has to be longer than a session: else the log does not show which of the two ended.
    hangs = members.classic(group, topic, session_timeout_ms=6_000, max_poll_interval_ms=10_500)
    for until in range(1, 7):
        world.produce(topic, 1)
        commit_to(world, hangs, until)
    hangs.hold()
    world.produce(topic, 10)

    def is_empty() -> bool:
        return world.groups()[group][1] == "empty"

    def conclusion() -> tuple[str, list[str]]:
        (found,) = kgroup("describe", group, "-o", "json").data
        return found["verdict"]["next"], [shlex.split(command)[1] for command in found["verdict"]["commands"]]

    wait_for(is_empty, "a group that its member has left")
    words, commands = conclusion()
    assert "as it did not poll for 10s (max.poll.interval.ms): its process may live, and hang at" in words
    assert words.endswith(f"{topic}:0 offset 6")
    assert commands == ["peek", "history"]

    hangs.go()
    wait_for(lambda: not is_empty(), "a member that is back")
    hangs.hold()
    wait_for(is_empty, "a group that its member has left again")
    words, commands = conclusion()
    assert f"members left 2 times at {topic}:0 offset 6" in words
    assert commands == ["peek", "history"]
    found = rules_of(kgroup, group)[group]["stalled-commits"]
    assert (found["severity"], found["affected"]) == ("warning", [f"{topic}:0"])
    assert "max.poll.interval.ms=21000" in found["commands"]
    hangs.kill()


def test_a_live_member_is_not_to_be_evicted(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """A session of five minutes delays a later stop, and no more."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    pods = [
        members.classic(group, topic, group_instance_id=f"pod-{number}", session_timeout_ms=300_000)
        for number in range(2)
    ]
    members.stable(*pods, partitions=2)

    finding = rules_of(kgroup, group)[group]["static-session"]

    assert (finding["severity"], finding["affected"]) == ("info", ["pod-0", "pod-1"])
    assert [shlex.split(command)[:5] for command in finding["commands"]] == [
        ["kgroup", "wait", group, "--for", "empty"]
    ]


def test_an_instance_id_of_two_processes(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Each that joins fences the one before it; four times may still be a deploy."""
    topic, group = world.topic(name("orders")), name("svc")
    for _ in range(5):
        by_hand.join(world, group, {topic: [0]}, instance="pod-0")
    assert "shared-instance" not in rules_of(kgroup, group)[group]
    by_hand.join(world, group, {topic: [0]}, instance="pod-0")

    finding = rules_of(kgroup, group)[group]["shared-instance"]

    assert (finding["severity"], finding["affected"]) == ("warning", ["pod-0"])
    assert finding["numbers"]["taken_over_count"] == 5
    verdict = kgroup("describe", group, "-o", "json").data[0]["verdict"]
    assert verdict["next"] == finding["evidence"]
    assert [shlex.split(command)[:3] for command in verdict["commands"]] == [["kgroup", "history", group]]


@pytest.mark.soak
def test_offsets_that_somebody_moved(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """Of the group that was stopped: by kgroup itself it is information, undone it is none."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 10)
    member = members.classic(group, topic)
    members.stable(member, partitions=1)
    commit_to(world, member, 10)
    member.close()
    wait_for(lambda: world.groups()[group][1] == "empty", "a stopped group")

    def found() -> tuple[str | None, str, list[list[str]]]:
        finding = rules_of(kgroup, group)[group].get("offsets-moved")
        verdict = kgroup("describe", group, "-o", "json").data[0]["verdict"]
        if finding is not None:
            assert finding["evidence"].partition("Z by ")[0] in verdict["next"]
        return (
            None if finding is None else finding["severity"],
            verdict["next"] or "",
            [shlex.split(command)[1:] for command in verdict["commands"]],
        )

    kgroup("reset", group, "--topic", topic, "--to-offset", "4", "--execute")
    severity, said, commands = found()
    assert severity == "info"
    assert "by kgroup (ch-" in said
    kgroup("undo", "--execute")
    assert found()[0] is None
    world.commit(group, {(topic, 0): 3})
    severity, said, commands = found()
    assert severity == "warning"
    assert f"{topic}:0 was moved back by 7" in said
    (undo,) = (words for words in commands if words[0] == "undo")
    kgroup(*undo, "--execute")
    assert world.committed(group)[topic, 0][0] == 10
    severity, said, commands = found()
    assert severity is None
    assert "was moved" not in said


def test_a_catch_up_that_nobody_continues(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, bystander: str
) -> None:
    """The released group shows no lag, and its gap is still unread; once it is delivered, all is well."""
    plan = released(kgroup, crashed)

    finding = rules_of(kgroup, crashed.group, bystander)[crashed.group]["pending-catchup"]

    assert (finding["severity"], finding["affected"]) == ("warning", [plan])
    assert finding["numbers"] == {"plan_count": 1, "pending_offset_count": 80}
    assert [shlex.split(command)[1:4] for command in finding["commands"]] == [
        ["catchup", "show", plan],
        ["catchup", "resume", plan],
    ]
    assert kgroup("doctor", crashed.group, "--fail-on", "warning", exit_code=8).stderr.count("pending-catchup")
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    assert "pending-catchup" not in rules_of(kgroup, crashed.group)[crashed.group]


@pytest.mark.soak
@pytest.mark.usefixtures("ledger")
def test_catch_ups_are_no_unrest(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """kgroup joins as a member each time, and the consumers are stopped before it and started after it."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    workers = [members.classic(group, topic, client_id=f"bulk-{number}") for number in (1, 2)]
    for _ in range(3):
        members.stable(*workers, partitions=2)
        for worker in workers:
            worker.close()
        world.produce(topic, 5)
        released(kgroup, Crash(topic, group))
        for worker in workers:
            worker.start_again()
    members.stable(*workers, partitions=2)

    found = rules_of(kgroup, group)[group]

    assert found.keys().isdisjoint({"rebalance-storm", "session-restart", "static-session"})


def test_as_a_check(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, group, fine = world.topic(name("orders")), name("svc"), name("fine")
    world.produce(topic, 3)
    world.commit(group, {(topic, 0): 9})
    world.commit(fine, {(topic, 0): 3})

    failed = kgroup("doctor", group, fine, "--fail-on", "warning", "-o", "json", exit_code=8)

    assert [found["group"] for found in failed.data] == [group, fine], "worst first"
    assert failed.stderr.splitlines() == [
        f"WARNING check failed: {group}: critical out-of-range: {failed.data[0]['findings'][0]['evidence']}"
    ]
    assert kgroup("doctor", group).stderr == ""
    assert kgroup("doctor", fine, "--fail-on", "info").stderr == ""
    wrong = kgroup("doctor", fine, "--fail-on", "error", exit_code=2)
    assert "info, warning, critical" in wrong.stderr


def test_commands_reach_the_same_cluster(
    kgroup_cli: CommandLine, bootstrap: str, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 9})

    (found,) = kgroup_cli("doctor", group, "-b", bootstrap, "-o", "json").data

    assert found["findings"][0]["commands"] == [f"kgroup reset {group} --only out-of-range -b {bootstrap}"]


def test_the_cluster(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    alone = kgroup("doctor", "--cluster", "-o", "json").data
    assert [(found["group"], found["scope"], found["checked_rule_count"]) for found in alone] == [(None, "cluster", 3)]
    everything = kgroup("doctor", "-o", "json").data
    assert everything[0]["scope"] == "cluster"
    assert bystander in {found["group"] for found in everything}
    groups = kgroup("doctor", "--all-groups", "-o", "json").data
    assert {found["scope"] for found in groups} == {"group"}


def test_a_bound_that_was_hit_is_said(kgroup: CommandLine, bystander: str) -> None:
    assert kgroup("doctor", bystander).stderr == ""
    cut = kgroup("doctor", bystander, "--scan-time", "0s", "-o", "json")
    assert "the past was not read back to --since" in cut.stderr


def test_groups_of_other_kinds(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    connect = name("connect")
    world.join_as(connect, "connect")

    left_out = kgroup("doctor", connect)

    assert "1 group of other frameworks (connect)" in left_out.stderr
    assert "nothing to do" in left_out.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("doctor", "no-such-group"), 5, "no-such-group"),
        (("doctor", "svc", "--all-groups"), 2, "mutually exclusive"),
        (("doctor", "svc", "--cluster"), 2, "--cluster"),
        (("doctor", "--explain", "out-of-range", "svc"), 2, "leave out groups"),
        (("doctor", "--explain", "out-of-range", "--rules"), 2, "mutually exclusive"),
        (("doctor", "--explain", "out-of-range", "--fail-on", "info"), 2, "other options"),
        (("doctor", "--topic", "no-such-topic", "--fail-on", "info"), 5, "there is no topic no-such-topic"),
        (("doctor", "--since", "5"), 2, "--since"),
        (("doctor", "--scan-time", "soon"), 2, "--scan-time"),
        (("doctor", "-b", "127.0.0.1:1"), 3, "refused the connection"),
    ],
)
def test_what_has_no_meaning(kgroup: CommandLine, arguments: tuple[str, ...], exit_code: int, said: str) -> None:
    assert said in kgroup(*arguments, exit_code=exit_code).stderr
