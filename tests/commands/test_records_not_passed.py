"""A record that no member gets past: ``lag``, ``peek``, ``history`` and ``doctor`` conclude the same from one log."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

import pytest

from tests.commands.test_doctor import rules_of
from tests.support.command_line import CommandLine
from tests.support.kafka_world import KafkaWorld
from tests.support.members import Member, Members
from tests.support.waiting import wait_for

Name = Callable[[str], str]


@pytest.mark.parametrize(
    ("protocol", "end"),
    [
        ("classic", Member.kill),
        ("consumer", Member.close),
        pytest.param("classic", Member.close, marks=pytest.mark.soak),
        pytest.param("consumer", Member.kill, marks=pytest.mark.soak),
    ],
)
def test_members_that_die_again_and_again_are_a_crash_loop(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    name: Name,
    bystander: str,
    protocol: str,
    end: Callable[[Member], None],
) -> None:
    """Killed, or caught and left: the process that replaces it reads the same record."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 20)
    world.commit(group, {(topic, 0): 10})

    for _ in range(3):
        if protocol == "classic":
            member = members.classic(group, topic, session_timeout_ms=5000)
        else:
            member = members.consumer(group, topic)
        members.stable(member, partitions=1)
        end(member)
        wait_for(lambda: world.groups()[group][1] == "empty", "that it is gone")

    (lag,) = kgroup("lag", group, "-o", "json").data
    loop = f"crash loop at {topic}:0 offset 10: 3 members came and went in "
    assert lag["verdict"]["next"].startswith(loop)
    look, skip, past = lag["verdict"]["commands"]
    assert look.startswith(f"kgroup peek {group}")
    assert f"reset {group} --to-offset {topic}:0=11 --save-skipped {topic}-0-10.jsonl" in skip
    assert past.startswith(f"kgroup history {group}")
    page = kgroup("history", group).stdout
    assert f"-> {loop}" in " ".join(page.split())
    assert f"   {look}\n   {skip}\n" in page
    (history,) = kgroup("history", group, "-o", "json").data
    (signature,) = history["signatures"]
    assert (signature["signature"], signature["text"].partition(":")[0]) == ("crash-loop", topic)
    found = rules_of(kgroup, group)[group]
    assert found["rebalance-storm"]["evidence"].startswith(loop)
    assert found["rebalance-storm"]["commands"][:2] == [look, skip]
    assert "not-static" not in found
    shown = " ".join(kgroup("peek", group, "-o", "table").stdout.split())
    assert loop in shown
    assert f"reset {group} --to-offset {topic}:0=11 --save-skipped {topic}-0-10.jsonl" in shown
    assert kgroup(*shlex.split(skip)[1:]).stdout.startswith("PLAN  reset ")

    world.commit(group, {(topic, 0): 11})
    (lag,) = kgroup("lag", group, "-o", "json").data
    assert "crash loop" not in lag["verdict"]["next"]
    assert kgroup("history", group, "-o", "json").data[0]["signatures"] == []


def test_a_live_member_that_tries_one_record_for_ever(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    name: Name,
    bystander: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It committed once; five minutes later, no verb calls that unknown."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    member = members.classic(group, topic, max_poll_interval_ms=60_000)
    members.stable(member, partitions=1)
    member.commit()
    member.hold()
    committed = world.committed(group)[topic, 0][0]
    world.produce(topic, 120)
    later_ms = round(time.time() * 1000) + 310_000
    monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: later_ms)

    (lag,) = kgroup("lag", group, "-o", "json").data

    assert lag["lag_status"] == "stop"
    assert lag["verdict"]["next"].endswith(f"it polls, and does not get past offset {committed}")
    look, skip = lag["verdict"]["commands"]
    assert look.startswith(f"kgroup peek {group}")
    past_it = f"reset {group} --to-offset {topic}:0={committed + 1} --save-skipped {topic}-0-{committed}.jsonl"
    assert past_it in skip
    stall = rules_of(kgroup, group)[group]["stalled-commits"]
    assert "no commit since" in stall["evidence"]
    assert {look, skip} <= set(stall["commands"])
    shown = " ".join(kgroup("peek", group, "-o", "table").stdout.split())
    assert f" stuck {topic}:0 " in shown
    assert past_it in shown


def test_a_group_that_no_member_reads_is_no_cause(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lags for ever, whatever the topic's other groups do."""
    topic, group, other = world.topic(name("orders")), name("svc"), name("left")
    world.produce(topic, 20)
    world.commit(group, {(topic, 0): 10})
    world.commit(other, {(topic, 0): 0})
    later_ms = round(time.time() * 1000) + 60_000
    monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: later_ms)

    (lag,) = kgroup("lag", group, "-o", "json").data

    assert lag["verdict"]["other_groups"]["without_reader"] == [other]
    assert lag["verdict"]["other_groups"]["lagging"] == []
    assert "lag too" not in kgroup("lag", group).stdout
