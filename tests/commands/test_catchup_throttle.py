"""The rate of a replay: ``--rate``, ``kgroup catchup throttle`` and ``--yield-to``, by the bytes that arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kgroup.support.user import whoami
from tests.helpers.catchup.catchups import LOCAL, Crash, copied, plan_id, released
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.running import Running, running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]
KIB = b"x" * 1024


def replaying(*words: str) -> AbstractContextManager[Running]:
    return running("catchup", *words, "--master", "local[2]", "--execute")


def speed(world: KafkaWorld, copy: str, records: int) -> float:
    """Records per second, over as many: those of open transactions count."""

    def written() -> int:
        return sum(world.end(copy, partition) for partition in range(2))

    began, before = time.monotonic(), written()
    wait_for(lambda: written() >= before + records, f"{records} records more in {copy}", 120)
    return (written() - before) / (time.monotonic() - began)


def throttle_of(kgroup: CommandLine, group: str) -> dict[str, Any]:
    (shown,) = kgroup("catchup", "show", group, "-o", "json").data
    return dict(shown["throttle"])


def page(kgroup: CommandLine, plan: str) -> str:
    """The page of the plan as one line."""
    return " ".join(kgroup("catchup", "show", plan).stdout.split())


def in_force(kgroup: CommandLine, group: str, **expected: object) -> Callable[[], bool]:
    """Whether a run applies this."""

    def there() -> bool:
        now = throttle_of(kgroup, group)
        return bool(now["applied"]) and {name: now[name] for name in expected} == expected

    return there


def caught_up(world: KafkaWorld, member: Member, group: str, topic: str) -> bool:
    """Let it commit what it has polled; whether that is all."""
    member.commit()
    return all(offset == world.end(topic, number) for (_, number), (offset, _) in world.committed(group).items())


@pytest.mark.soak
def test_a_replay_is_throttled_while_it_runs_and_after_it_was_killed(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    """50/s, then 400 KiB/s of 1 KiB each, also for the run after a kill, then no limit. Tasks share the limit."""
    topic, group, copy = world.topic(name("orders"), 2), name("svc"), world.topic(name("copy"), 2)
    for partition in range(2):
        world.produce(topic, 15_000, partition, KIB)
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    with replaying("start", group, "--to-topic", copy, "--rate", "50/s") as process:
        process.says("RELEASED", 120)
        assert 10 < speed(world, copy, 150) < 120

        kgroup("catchup", "throttle", group, "400KiB/s", "--execute")
        wait_for(in_force(kgroup, group, bytes_per_second=400 * 1024, records_per_second=None), "the new rate", 20)
        assert 120 < speed(world, copy, 1200) < 800
    now = throttle_of(kgroup, group)
    assert (now["rate"], now["set_by"], now["halving_count"]) == (
        "400KiB/s",
        whoami(),
        None if not now["applied"] else 0,
    )

    with replaying("resume", group) as process:
        speed(world, copy, 1)  # what was copied and not committed is aborted, and copied again
        assert 120 < speed(world, copy, 1200) < 800

        kgroup("catchup", "throttle", group, "off", "--execute")
        began = time.monotonic()
        done = process.ends(0, 120)
        left = 30_000 - 2 * 2_000
        assert time.monotonic() - began < left / 400 / 2, "it took as long as at the rate before"
    assert "VERIFIED" in done.stdout
    assert len(copied(world, copy)) == 30_000


@pytest.mark.soak
def test_a_replay_yields_to_the_consumers_of_its_group(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members, bystander: str
) -> None:
    """While they are late by more than the bound, and later and later, its rate is halved. Then it is as before."""
    topic, group, copy = world.topic(name("orders"), 2), name("svc"), world.topic(name("copy"), 2)
    world.produce(topic, 12_000, 0)
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    words = ("--rate", "200/s", "--yield-to", "lag-time=3s")
    with replaying("start", group, "--to-topic", copy, *words) as process:
        process.says("RELEASED", 120)
        member = members.classic(group, topic)
        members.stable(member, partitions=2)
        wait_for(in_force(kgroup, group, halving_count=0, records_per_second=200.0), "it does not yield")
        for partition in range(2):
            world.produce(topic, 5, partition)

        wait_for(in_force(kgroup, group, halving_count=3, records_per_second=25.0), "it yields")
        assert speed(world, copy, 50) < 80
        assert "THROTTLE 200/s, yields to lag-time=3s; in force: " in page(kgroup, group)

        wait_for(lambda: caught_up(world, member, group, topic), "its consumers have read all")
        wait_for(in_force(kgroup, group, halving_count=0, records_per_second=200.0), "its rate again")
        assert speed(world, copy, 400) > 80
        kgroup("catchup", "throttle", group, "off", "--yield-to", "off", "--execute")
        process.ends(0, 120)
    assert len(copied(world, copy)) == 12_000


def test_it_is_used_at_the_next_resume(kgroup: CommandLine, crashed: Crash, bystander: str) -> None:
    """Nothing changes without --execute, and what it does not name stays; a resume with --rate replaces it."""
    plan = released(kgroup, crashed)
    planned = kgroup("catchup", "throttle", plan, "5MiB/s")
    assert "Nothing was changed. To set rate 5MiB/s:" in planned.stdout
    assert f"kgroup catchup throttle {plan} 5MiB/s --execute" in planned.stdout
    assert throttle_of(kgroup, plan)["rate"] is None

    done = kgroup("catchup", "throttle", crashed.group, "5MiB/s", "--execute")
    assert f"THROTTLED  {plan}: the next resume applies it" in done.stderr
    kgroup("catchup", "throttle", plan, "--yield-to", "lag-time=30s", "--execute")
    now = throttle_of(kgroup, plan)
    assert (now["rate"], now["yield_to"], now["set_by"]) == ("5MiB/s", "lag-time=30s", whoami())
    assert (now["applied"], now["bytes_per_second"]) == (False, None)
    assert "THROTTLE 5MiB/s, yields to lag-time=30s, set " in page(kgroup, plan)
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert listed["tuning"] == {"rate": "5MiB/s", "yield-to": "lag-time=30s"}

    kgroup("catchup", "throttle", plan, "off", "--execute")
    assert throttle_of(kgroup, plan)["rate"] is None
    kgroup("catchup", "cancel", plan, "--execute")
    ended = kgroup("catchup", "throttle", plan, "5MiB/s", "--execute")
    assert f"{plan} is cancelled: nothing to throttle" in ended.stderr


@pytest.mark.soak
def test_a_resume_replaces_what_was_throttled(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, bystander: str
) -> None:
    plan, copy = released(kgroup, crashed), world.topic(name("copy"), 2)
    kgroup("catchup", "throttle", plan, "1/s", "--yield-to", "lag-time=30s", "--execute")
    words = ("--to-topic", copy, "--rate", "500/s", "--master", "local[2]")
    done = kgroup("catchup", "resume", plan, *words, "--execute", "-o", "json")
    (data,) = json.loads(done.stdout)["data"]
    assert (data["state"], data["tuning"]) == ("done", {"rate": "500/s", "yield-to": "lag-time=30s"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a RATE or --yield-to is required"),
        (("5",), "RATE 5: not a rate"),
        (("none",), "RATE none: not a rate"),
        (("--yield-to", "5s"), "--yield-to 5s: unknown"),
        (("--yield-to", "lag=5"), "--yield-to lag=5: unknown"),
    ],
)
def test_what_is_no_rate(kgroup: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in kgroup("catchup", "throttle", "cu-2222", *words, exit_code=2).stderr


def test_a_plan_without_a_group_yields_to_none(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic = world.topic(name("orders"))
    world.produce(topic, 10)
    ranges = ("catchup", "start", "--range", f"{topic}:0=0-10")
    refused = "--yield-to requires a plan of a group"
    words = ("--to-files", "/tmp/x", "--yield-to", "lag-time=5s")
    assert refused in kgroup(*ranges, *words, exit_code=2).stderr
    plan = plan_id(kgroup(*ranges, "--release-only", "--execute"))
    assert refused in kgroup("catchup", "throttle", plan, "--yield-to", "lag-time=5s", exit_code=2).stderr


def test_the_plan_shows_the_quota_of_replays(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, bystander: str
) -> None:
    copy, client_id = world.topic(name("copy"), 2), name("ours")

    def planned() -> str:
        words = ("--to-topic", copy, *LOCAL, "-X", f"client.id={client_id}")
        return " ".join(kgroup("catchup", "start", crashed.group, *words).stdout.split())

    assert f"ok no quota limits client id {client_id}-catchup; to set one: kafka-configs.sh " in planned()
    world.quota(f"{client_id}-catchup", 5 * 1024 * 1024)
    limited = f"ok a quota of each broker limits client id {client_id}-catchup: consumer_byte_rate 5.0 MiB/s"
    wait_for(lambda: limited in planned(), "the quota")
    world.quota(f"{client_id}-catchup", None)
