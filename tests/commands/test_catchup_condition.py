"""``kgroup catchup start --if-behind`` and ``--if-empty``: before an application starts, also in several pods."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.catchup.catchups import KINDS, Crash, crash, offsets, plan_id
from tests.helpers.catchup.listeners import ListeningApplication, processed, settings_of
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_proxy import OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]

RELEASE = ("--release-only", "--execute")
PODS = 5


@pytest.mark.parametrize("bound", ["50", "1h", "100k"])
def test_what_is_not_behind_is_left_alone(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bystander: str, bound: str
) -> None:
    """50 on one partition and 30 on the other: no partition is more than 50 behind, though the group is."""
    before, others = world.exact(crashed.group), world.exact(bystander)

    done = kgroup("catchup", "start", crashed.group, "--if-behind", bound, *RELEASE)
    (document,) = kgroup("catchup", "start", crashed.group, "--if-behind", bound, *RELEASE, "-o", "json").data
    (measured,) = kgroup("lag", crashed.group, "-o", "json").data

    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"note: {crashed.group} is not {bound} behind on any partition: lag 80, at most 50 on {crashed.topic}:0; "
    )
    assert line.endswith(": nothing to do")
    assert done.stdout == ""
    assert (document["unstarted_reason"], document["plan_id"], document["ranges"]) == ("not-behind", None, [])
    for field in ("lag", "unknown_partition_count", "largest_partition", "oldest_partition"):
        assert document[field] == measured[field], field
    assert 0 < document["time_lag_ms"] <= measured["time_lag_ms"]
    assert (world.exact(crashed.group), world.exact(bystander)) == (before, others)
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", ["49", "1ms"])
def test_what_is_behind_is_released_as_without_the_option(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, kind: str, bound: str
) -> None:
    """Partition 1 is 30 behind only, and is in the plan too."""
    crashed, others = crash(world, name("orders"), name("svc"), kind), world.exact(bystander)
    words = ("catchup", "start", crashed.group, "--if-behind", bound, "--if-empty")
    before = world.exact(crashed.group)

    dry = kgroup(*words, "--release-only")
    assert world.exact(crashed.group) == before
    done = kgroup(*words, *RELEASE)
    again = kgroup(*words, *RELEASE)

    assert f"{crashed.group} {crashed.topic}:0: " in dry.stderr
    assert "it is behind (--if-behind)" in dry.stderr
    assert "2 partitions to the log end" in dry.stdout
    assert offsets(world, crashed.group) == crashed.released
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert (listed["plan_id"], listed["state"]) == (plan_id(done), "released")
    assert f"is not {bound} behind on any partition: lag 0: nothing to do" in again.stderr
    assert world.exact(bystander) == others


def test_only_the_partitions_in_scope_count(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    scope = ("--topic", f"{crashed.topic}:1")

    small = kgroup("catchup", "start", crashed.group, *scope, "--if-behind", "30", *RELEASE)
    kgroup("catchup", "start", crashed.group, *scope, "--if-behind", "29", *RELEASE)

    assert "lag 30, at most 30 on " in small.stderr
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 50}


def test_a_group_without_a_commit_is_not_behind(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """As at the first start of an application."""
    missing = name("svc")

    done = kgroup("catchup", "start", missing, "--if-behind", "10m", "-o", "json", *RELEASE)

    (document,) = done.data
    assert (document["group"], document["unstarted_reason"], document["lag"]) == (missing, "no-commit", None)
    assert f"{missing} has nothing committed" in done.stderr
    assert missing not in world.groups()
    kgroup("catchup", "start", missing, "--if-empty", *RELEASE, exit_code=5)


@pytest.mark.soak
def test_a_group_with_members_is_left_alone_with_if_empty(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, members: Members
) -> None:
    """Its member reads nothing, so that it stays behind."""
    members.stable(members.classic(crashed.group, crashed.topic), partitions=2)
    before = offsets(world, crashed.group)
    words = ("catchup", "start", crashed.group, "--if-behind", "49")

    kgroup(*words, *RELEASE, exit_code=9)
    kgroup("catchup", "start", crashed.group, "--release-only", exit_code=9)
    dry = kgroup(*words, "--if-empty", "--release-only")
    done = kgroup(*words, "--if-empty", *RELEASE, "-o", "json")
    waited = kgroup(*words, "--if-empty", "--wait-empty", "--within", "1s", *RELEASE)
    alone = kgroup("catchup", "start", crashed.group, "--if-empty", *RELEASE)

    assert done.data[0]["unstarted_reason"] == "not-empty"
    for one in (dry, done, waited, alone):
        assert f"note: {crashed.group} has members (--if-empty): nothing to do" in one.stderr
    assert offsets(world, crashed.group) == before
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_of_five_pods_that_start_at_once_one_makes_the_plan(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, kind: str
) -> None:
    """When any of them has ended, the group is released: its application may start, and disturbs no release."""
    crashed, others = crash(world, name("orders"), name("svc"), kind), world.exact(bystander)
    words = ("catchup", "start", crashed.group, "--if-behind", "49", "--if-empty", *RELEASE, "-o", "json")
    with ExitStack() as stack:
        pods = [stack.enter_context(running(*words)) for _ in range(PODS)]
        wait_for(lambda: any(pod.process.poll() is not None for pod in pods), "the first one's end", 60)
        assert offsets(world, crashed.group) == crashed.released
        ended = [pod.ends(0) for pod in pods]

    made = [document for one in ended for document in json.loads(one.stdout)["data"]]
    (plan,) = (document for document in made if document["plan_id"] is not None)
    assert plan["totals"]["offset_count"] == 80
    assert [each["unstarted_reason"] for each in made if each is not plan] == ["not-behind"] * (PODS - 1)
    listed = kgroup("catchup", "list", "-o", "json").data
    assert [(each["plan_id"], each["state"]) for each in listed] == [(plan["plan_id"], "released")]
    assert offsets(world, crashed.group) == crashed.released
    assert world.exact(bystander) == others


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_five_pods_whose_applications_start_after_it(
    kgroup: CommandLine, world: KafkaWorld, name: Name, ledger: str, tmp_path: Path, protocol: str
) -> None:
    """An application starts when its own init container has ended, while others still run."""
    topic, group = world.topic(name("orders"), PODS), name("svc")
    for partition in range(PODS):
        world.produce(topic, 150, partition)
    world.commit(group, {(topic, partition): 20 for partition in range(PODS)})
    if protocol == "consumer":
        to_consumer(world, group)
    words = ("catchup", "start", group, "--if-behind", "100", "--if-empty", *RELEASE)
    files = [tmp_path / f"processed-{number}" for number in range(PODS)]
    members: list[ListeningApplication] = []
    with ExitStack() as stack:
        inits = [stack.enter_context(running(*words)) for _ in range(PODS)]
        for file in files:
            ended = wait_for(lambda: next((one for one in inits if one.process.poll() is not None), None), "an end")
            ended.ends(0)
            inits.remove(ended)
            settings = settings_of(protocol, world.bootstrap, group)
            application = ListeningApplication(settings, topic, file, ledger, behind=1_000_000)
            members.append(stack.enter_context(application))
        wait_for(lambda: all(member.has_partitions for member in members), "a partition for each")
        for partition in range(PODS):
            world.produce(topic, 10, partition)
        wait_for(lambda: processed(*files).total() >= 10 * PODS, "all of the new records", 60)

    (plan,) = kgroup("catchup", "list", "-o", "json").data
    shown = kgroup("catchup", "show", plan["plan_id"], "-o", "json").data[0]
    assert [(row["start"], row["end"]) for row in shown["ranges"]] == [(20, 150)] * PODS
    assert processed(*files) == {f"{topic}:{partition} {150 + n}": 1 for partition in range(PODS) for n in range(10)}


@pytest.mark.soak
def test_a_pod_waits_for_the_release_of_another_one(proxied: ProxiedBroker, name: Name) -> None:
    """The other one has written its plan, and hangs at its commit."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    words = ("catchup", "start", crashed.group, "--if-behind", "49", *RELEASE, "--timeout", "60s")
    commit = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    with running(*words) as first:
        wait_for(commit.met.is_set, "its commit", 60)
        with running(*words) as second:
            second.says(f"WAIT      another start of {crashed.group} is under way")
            commit.go_on.set()
            won, waited = first.ends(0), second.ends(0)

    assert "RELEASED" in won.stderr
    assert "PLANNED" not in waited.stderr
    assert re.search(r"is not 49 behind on any partition: lag 0: nothing to do$", waited.stderr)
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert listed["state"] == "released"


@pytest.mark.soak
def test_a_start_that_was_killed_in_its_release_is_waited_for_and_then_refused(
    proxied: ProxiedBroker, name: Name
) -> None:
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    words = ("catchup", "start", crashed.group, "--if-behind", "49", *RELEASE)
    commit = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REQUEST))
    with running(*words) as first:
        wait_for(commit.met.is_set, "its commit", 60)
        first.process.kill()

    refused = kgroup(*words, exit_code=6)
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    kgroup("catchup", "resume", crashed.group, *RELEASE)
    after = kgroup(*words)

    assert "WAIT      another start of" in refused.stderr
    assert f"catchup resume {listed['plan_id']}" in refused.stdout + refused.stderr
    assert offsets(world, crashed.group) == crashed.released
    assert "lag 0: nothing to do" in after.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("svc", "--if-behind", "ten"), "--if-behind ten: neither a duration nor a number of records"),
        (("--range", "t:0=1-2", "--if-behind", "10m"), "--range and --if-behind are mutually exclusive"),
        (("--skipped-by", "ch-7k2f", "--if-empty"), "--skipped-by and --if-empty are mutually exclusive"),
    ],
)
def test_wrong_conditions(kgroup: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in kgroup("catchup", "start", *words, exit_code=2).stderr
