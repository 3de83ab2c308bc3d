"""``kgroup catchup resume --all-pending``: replays without an operator, by one machine and by several."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable

import pytest
import yaml

from tests.helpers.catchup.catchups import LOCAL, Crash, copied, crash, gap_of, released
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]
ALL = ("catchup", "resume", "--all-pending")


@pytest.fixture
def crashes(world: KafkaWorld, name: Name) -> list[Crash]:
    return [crash(world, name(f"orders{number}"), name(f"svc{number}")) for number in range(3)]


def states(kgroup: CommandLine) -> dict[str, str]:
    return {row["plan_id"]: row["phase"] for row in kgroup("catchup", "list", "-o", "json").data}


@pytest.mark.soak
def test_what_would_be_resumed(kgroup: CommandLine, world: KafkaWorld, crashes: list[Crash], bystander: str) -> None:
    others = world.exact(bystander)
    plans = [released(kgroup, one) for one in crashes[:2]]

    nowhere = kgroup(*ALL)
    planned = kgroup(*ALL, crashes[1].group, "--to-topic", "copy", "-o", "json")
    none = kgroup(*ALL, crashes[2].group, "--to-topic", "copy", "--execute")

    for plan in plans:
        assert f"note: {plan} is left out: it has no destination" in nowhere.stderr
    assert "no plan can be continued: nothing to do" in nowhere.stderr
    assert [row["plan_id"] for row in planned.data] == [plans[1]]
    assert "no plan can be continued: nothing to do" in none.stderr
    assert set(states(kgroup).values()) == {"pending"}
    assert world.exact(bystander) == others


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("catchup", "resume"), "a PLAN or a GROUP is required"),
        (("catchup", "resume", "a", "b"), "a PLAN or a GROUP is required"),
        (("catchup", "resume", "a", "--follow"), "--follow requires --all-pending"),
        ((*ALL, "--release-only"), "--all-pending and --release-only are mutually exclusive"),
        ((*ALL, "--assume", "released"), "--all-pending and --assume are mutually exclusive"),
        ((*ALL, "--report", "report.json"), "--all-pending and --report are mutually exclusive"),
    ],
)
def test_what_does_not_go_together(kgroup: CommandLine, words: tuple[str, ...], said: str) -> None:
    assert said in kgroup(*words, exit_code=2).stderr


@pytest.mark.soak
def test_all_plans_one_after_the_other(
    kgroup: CommandLine, world: KafkaWorld, crashes: list[Crash], name: Name, bystander: str
) -> None:
    """A plan whose target is gone fails, and the next one is replayed."""
    copy, target, others = world.topic(name("copy"), 2), world.topic(name("target"), 2), world.exact(bystander)
    fails, *works = [released(kgroup, one) for one in crashes]
    with running("catchup", "resume", fails, "--to-topic", target, "--rate", "1/s", *LOCAL, "--execute") as one:
        one.says("REPLAY")
        listed = wait_for(lambda: kgroup(*ALL, "--to-topic", copy), "a list", 20)
        assert f"{fails} is left out: another run works on it" in listed.stderr
        one.process.send_signal(signal.SIGTERM)
        one.ends(143)
    world.delete_topic(target)

    done = kgroup.process(*ALL, "--to-topic", copy, *LOCAL, "--execute", "-o", "json", exit_code=7)

    envelope = json.loads(done.stdout)
    assert {row["plan_id"]: row["phase"] for row in envelope["data"]} == {
        fails: "stopped",
        **dict.fromkeys(works, "done"),
    }
    (error,) = envelope["errors"]
    assert (error["group"], target in error["message"]) == (crashes[0].group, True)
    assert copied(world, copy) == sorted(gap_of(crashes[1]) + gap_of(crashes[2]))
    assert world.exact(bystander) == others


@pytest.mark.soak
def test_followers_share_what_comes(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """The pods of the manual's Deployment: one is killed in the middle, and SIGTERM ends the other one.

    A plan that is stopped stays so.
    """
    copy, others = world.topic(name("copy"), 2), world.exact(bystander)
    (text,) = re.findall(r"<!-- replayer -->\n```yaml\n(.*?)```", page("kubernetes.md"), re.S)
    (pod,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    words = [*({"backfill": copy, "5MiB/s": "8/s"}.get(word, word) for word in pod["command"][1:]), *LOCAL]
    crashes = [crash(world, name(f"orders{number}"), name(f"svc{number}")) for number in range(5)]
    plans = [released(kgroup, one) for one in crashes[:2]]
    with running(*words) as first, running(*words) as second:
        first.says("REPLAY", 120)
        first.process.kill()
        plans += [released(kgroup, one) for one in crashes[2:4]]
        wait_for(lambda: [*states(kgroup).values()] == ["done"] * 4, "all of them", 180)
        stopped = released(kgroup, crashes[4])
        wait_for(lambda: states(kgroup)[stopped] == "replaying", "the last one", 120)
        kgroup("catchup", "stop", stopped, "--execute")
        second.says("was stopped by")
        assert states(kgroup)[stopped] == "stopped"
        second.process.send_signal(signal.SIGTERM)
        ended = second.ends(143)
    assert "TAKEN OVER" not in "".join((*first.lines, *second.lines)), "each is left alone by the other"
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {row["plan_id"] for result in results for row in result["data"]} <= set(plans)
    done = [place for one in crashes[:4] for place in gap_of(one)]
    found = copied(world, copy)
    assert len(found) == len(set(found)), "none twice"
    assert set(done) <= set(found)
    assert world.exact(bystander) == others
