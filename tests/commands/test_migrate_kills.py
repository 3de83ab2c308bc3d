"""Migrations that are killed, signalled or cut off: the offsets are complete, and the same command ends them."""

from __future__ import annotations

import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.test_undo_faults import Commits, committed, ended, everything, filled, killed
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.conversion import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, to_consumer
from tests.helpers.journals import changes
from tests.helpers.kafka_proxy import LEAVE_GROUP, OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import delivered
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

INCREMENTAL_ALTER_CONFIGS = 44
OTHER = {"classic": "consumer", "consumer": "classic"}
STEPS = [
    ("consumer", OFFSET_COMMIT, Loss.ANSWER),
    ("consumer", CONSUMER_GROUP_HEARTBEAT, Loss.ANSWER),
    ("consumer", CONSUMER_GROUP_HEARTBEAT, Loss.REQUEST),
    ("classic", JOIN_GROUP, Loss.ANSWER),
    ("classic", LEAVE_GROUP, Loss.REQUEST),
    *(
        pytest.param(*step, marks=pytest.mark.soak)
        for step in (
            ("consumer", OFFSET_COMMIT, Loss.REQUEST),
            ("classic", OFFSET_COMMIT, Loss.ANSWER),
            ("classic", OFFSET_COMMIT, Loss.REQUEST),
            ("classic", JOIN_GROUP, Loss.REQUEST),
            ("classic", LEAVE_GROUP, Loss.ANSWER),
        )
    ),
]
"""What a conversion to this protocol writes (its heartbeats come in pairs), and how far that comes."""


def migrate(target: str, *groups: str) -> tuple[str, ...]:
    return "migrate", *groups, "--protocol", target, "--execute"


def kinds(world: KafkaWorld, groups: list[str]) -> set[tuple[str, str]]:
    """(type, state) of these groups."""
    listed = world.groups()
    return {listed[group] for group in groups}


def groups_of(world: KafkaWorld, name: Name, count: int, kind: str = "classic") -> tuple[list[str], dict[str, Commits]]:
    """Empty groups of this type with commits of all kinds, and those."""
    topic, stem = filled(world, name("orders"), 3), name("svc")
    groups = sorted(f"{stem}-{place:03}" for place in range(count))
    before = committed(world, groups, topic, 3)
    if kind == "consumer":
        to_consumer(world, *groups)
    return groups, before


def killed_at(proxied: ProxiedBroker, api_key: int, loss: Loss, skip: int, *arguments: str) -> None:
    """Run a command, and kill it when the (``skip`` + 1)-th request of this kind is on its way, or answered."""
    fault = proxied.proxy.expect(Fault(api_key, loss, skip=skip, then=lambda: process.kill()))
    process = CommandLine().start(*arguments)
    try:
        wait_for(lambda: fault.met.is_set() or process.poll() is not None, "the moment")
        if fault.met.is_set():
            wait_for(lambda: process.poll() is not None, "its end")
        result = ended(process)
    finally:
        process.kill()
    assert fault.met.is_set(), result
    assert result.exit_code == -signal.SIGKILL, result
    proxied.proxy.reset()


def goes_on(world: KafkaWorld, target: str, groups: list[str], before: dict[str, Commits]) -> Result:
    """The offsets are complete, and the same command again does the rest."""
    assert everything(world, groups) == before
    result = CommandLine()(*migrate(target, *groups))
    assert kinds(world, groups) == {(target, "empty")}
    assert everything(world, groups) == before
    again = CommandLine()(*migrate(target, *groups), "-o", "json")
    assert {row["readiness"] for row in again.data} == {"done"}
    return result


# --- kill -9 at chosen moments


@pytest.mark.parametrize(("target", "api_key", "loss"), STEPS)
def test_killed_at_each_step(proxied: ProxiedBroker, name: Name, target: str, api_key: int, loss: Loss) -> None:
    """At the fourth such request of several groups: stored and not answered, or never arrived."""
    groups, before = groups_of(proxied.world, name, 6, OTHER[target])
    killed_at(proxied, api_key, loss, 3, *migrate(target, *groups))
    goes_on(proxied.world, target, groups, before)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["the first is not answered", "the second does not arrive"])
def test_killed_between_the_two_heartbeats(proxied: ProxiedBroker, name: Name, tmp_path: Path, how: str) -> None:
    """The group holds kgroup's own member: the next run, also a dry one, says so and for how long, and goes on."""
    groups, before = groups_of(proxied.world, name, 1)
    skip, loss = (0, Loss.ANSWER) if how.startswith("the first") else (1, Loss.REQUEST)
    killed_at(proxied, CONSUMER_GROUP_HEARTBEAT, loss, skip, *migrate("consumer", *groups))
    ((kind, state),) = kinds(proxied.world, groups)
    assert (kind, state != "empty") == ("consumer", True), "it has a member"
    assert len(changes(tmp_path / "state")) == 1, "written down before"
    look = CommandLine()(*migrate("consumer", *groups)[:-1])
    done = goes_on(proxied.world, "consumer", groups, before)
    for result in (look, done):
        said = result.stdout + result.stderr
        assert "a member that a killed kgroup run left behind" in said
        assert re.search(r"\b\d+ ?s\b", said), "for how long"
        assert groups[0] in said


def test_undo_after_a_kill_between_the_two_heartbeats(proxied: ProxiedBroker, name: Name) -> None:
    """The change is in the journal, so it can be taken back; the member is kgroup's own, which nobody could stop."""
    groups, before = groups_of(proxied.world, name, 1)
    killed_at(proxied, CONSUMER_GROUP_HEARTBEAT, Loss.ANSWER, 0, *migrate("consumer", *groups))
    CommandLine()("undo", "--execute")
    assert kinds(proxied.world, groups) == {("classic", "empty")}
    assert everything(proxied.world, groups) == before


@pytest.mark.parametrize(("api_key", "loss"), [(JOIN_GROUP, Loss.REQUEST), (LEAVE_GROUP, Loss.ANSWER)])
def test_undo_that_is_killed(proxied: ProxiedBroker, name: Name, api_key: int, loss: Loss) -> None:
    """The next bare undo ends it, if it had not come to its end."""
    groups, before = groups_of(proxied.world, name, 3)
    CommandLine()(*migrate("consumer", *groups))
    killed_at(proxied, api_key, loss, 1, "undo", "--execute")
    assert everything(proxied.world, groups) == before
    all_back = kinds(proxied.world, groups) == {("classic", "empty")}
    assert not all_back or loss is Loss.ANSWER
    CommandLine()("undo", "--execute", exit_code=5 if all_back else 0)
    assert kinds(proxied.world, groups) == {("classic", "empty")}
    assert everything(proxied.world, groups) == before


@pytest.mark.soak
@pytest.mark.parametrize("skip", [0, 1])
def test_killed_between_the_parts_of_a_large_commit(proxied: ProxiedBroker, name: Name, skip: int) -> None:
    world, group = proxied.world, name("svc")
    topic = world.topic(name("large"), partitions=300)
    for first in range(0, 300, 100):
        world.commit(
            group,
            {(topic, number): (number, f"{number:04}" + "m" * 4092, None) for number in range(first, first + 100)},
        )
    before = everything(world, [group])
    killed_at(proxied, OFFSET_COMMIT, Loss.ANSWER, skip, *migrate("consumer", group))
    goes_on(world, "consumer", [group], before)


@pytest.mark.parametrize(
    ("api_key", "loss", "skip"),
    [(INCREMENTAL_ALTER_CONFIGS, Loss.REQUEST, 0), (CONSUMER_GROUP_HEARTBEAT, Loss.ANSWER, 1)],
    ids=["before the settings", "right after the conversion"],
)
def test_settings_after_a_kill(proxied: ProxiedBroker, name: Name, api_key: int, loss: Loss, skip: int) -> None:
    """The same command again makes good what was left of them too."""
    groups, before = groups_of(proxied.world, name, 1)
    command = (*migrate("consumer", *groups), "--session-timeout", "60s", "--heartbeat-interval", "5s")
    killed_at(proxied, api_key, loss, skip, *command)
    CommandLine()(*command)
    assert kinds(proxied.world, groups) == {("consumer", "empty")}
    assert everything(proxied.world, groups) == before
    assert proxied.world.group_config(groups[0]) == {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "5000",
    }


# --- answers and requests that get lost, while kgroup lives


@pytest.mark.parametrize(
    ("target", "api_key", "skip", "loss"),
    [
        ("consumer", CONSUMER_GROUP_HEARTBEAT, 0, Loss.ANSWER),
        ("consumer", CONSUMER_GROUP_HEARTBEAT, 1, Loss.ANSWER),
        ("consumer", CONSUMER_GROUP_HEARTBEAT, 1, Loss.REQUEST),
        ("classic", JOIN_GROUP, 0, Loss.ANSWER),
        ("classic", JOIN_GROUP, 0, Loss.REQUEST),
        ("classic", LEAVE_GROUP, 0, Loss.ANSWER),
    ],
)
def test_lost_once(proxied: ProxiedBroker, name: Name, target: str, api_key: int, skip: int, loss: Loss) -> None:
    """Looked up or sent again, and reported as done."""
    groups, before = groups_of(proxied.world, name, 1, OTHER[target])
    fault = proxied.proxy.expect(Fault(api_key, loss, skip=skip))
    done = CommandLine()(*migrate(target, *groups), "-o", "json")
    assert fault.met.is_set()
    (row,) = done.data
    assert (row["converted"], row["error_code"], row["read_back_count"]) == (True, None, len(before[groups[0]]))
    assert kinds(proxied.world, groups) == {(target, "empty")}
    assert everything(proxied.world, groups) == before


@pytest.mark.soak
def test_no_answer_in_time(proxied: ProxiedBroker, name: Name) -> None:
    """The conversion hangs on its way until the time is over: not called done, and the next run looks."""
    groups, before = groups_of(proxied.world, name, 1)
    held = proxied.proxy.expect(Fault(CONSUMER_GROUP_HEARTBEAT, Loss.NOTHING))
    result = CommandLine()(*migrate("consumer", *groups), "--timeout", "4s", "-o", "json", exit_code=3)
    assert held.met.is_set()
    assert (result.data[0]["error_code"], result.data[0]["converted"]) == ("outcome-unknown", None)
    held.go_on.set()
    wait_for(lambda: kinds(proxied.world, groups) != {("classic", "empty")}, "the heartbeat that was held")
    goes_on(proxied.world, "consumer", groups, before)


# --- the journal comes first


@pytest.mark.soak
@pytest.mark.parametrize("target", ["consumer", "classic"])
def test_journal_is_on_disk_before_the_first_byte(
    proxied: ProxiedBroker, name: Name, tmp_path: Path, target: str
) -> None:
    """While the first commit is on its way: every group, and that its type is about to change."""
    groups, before = groups_of(proxied.world, name, 3, OTHER[target])
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    process = CommandLine().start(*migrate(target, *groups))
    try:
        assert held.met.wait(30)
        (path,) = changes(tmp_path / "state")
        text = path.read_text()
    finally:
        process.kill()
        ended(process)
    assert all(group in text for group in groups)
    assert target in text
    held.go_on.set()
    goes_on(proxied.world, target, groups, before)


# --- signals


SIGNALLED = 120
"""Groups; more than are on their way at a time."""


@pytest.mark.parametrize(
    ("target", "api_key", "number", "exit_code"),
    [
        ("consumer", CONSUMER_GROUP_HEARTBEAT, signal.SIGINT, 130),
        pytest.param("classic", JOIN_GROUP, signal.SIGTERM, 143, marks=pytest.mark.soak),
    ],
)
def test_signal_in_the_middle(
    proxied: ProxiedBroker, name: Name, target: str, api_key: int, number: signal.Signals, exit_code: int
) -> None:
    """What is on its way is finished, no group keeps a member of kgroup's; what is said of each is true."""
    groups, before = groups_of(proxied.world, name, SIGNALLED, OTHER[target])
    held = proxied.proxy.expect(Fault(api_key, Loss.NOTHING, skip=4))
    process = CommandLine().start(*migrate(target, *groups), "-o", "json")
    try:
        assert held.met.wait(30)
        process.send_signal(number)
        wait_for(lambda: delivered(process, number), "the signal handled, while the answer is out")
        held.go_on.set()
        result = ended(process)
    finally:
        process.kill()
    assert result.exit_code == exit_code, result
    assert "Traceback" not in result.stderr
    listed = proxied.world.groups()
    assert {listed[group][1] for group in groups} == {"empty"}
    turned = {group for group in groups if listed[group][0] == target}
    assert 0 < len(turned) < len(groups), "the rest was not begun"
    assert {row["group"] for row in result.data if row["converted"]} == turned
    assert all(bool(row["error_code"]) is (row["group"] not in turned) for row in result.data)
    goes_on(proxied.world, target, groups, before)


# --- kill -9 at random moments


@pytest.mark.soak
def test_killed_at_many_moments(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, bystander: str
) -> None:
    """There and back by turns, each of them killed somewhere, and each ended by the same command again.

    More turns follow, up to four times as many, until one of the kills has come in the middle.
    """
    seed = random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    chosen = random.Random(seed)
    groups, before = groups_of(world, name, 150)
    stem = groups[0].rpartition("-")[0]
    state, cli = tmp_path / "state", CommandLine()

    def fleet(target: str) -> tuple[str, ...]:
        return (*migrate(target), "--regex", f"{stem}-.*")

    # When after the journal it converts, for moments that hit.
    started = time.monotonic()
    process = cli.start(*fleet("consumer"))
    wait_for(lambda: bool(changes(state)), "a journal")
    written = time.monotonic()
    wait_for(lambda: kinds(world, groups) != {("classic", "empty")}, "the first conversion")
    first_s = time.monotonic() - written
    wait_for(lambda: kinds(world, groups) == {("consumer", "empty")}, "the last conversion")
    last_s = time.monotonic() - written
    assert ended(process).exit_code == 0
    whole_s = time.monotonic() - started

    in_the_middle, target, turn = 0, "consumer", 0
    while turn < 12 or (not in_the_middle and turn < 50):
        target, note = OTHER[target], f"seed {seed}, turn {turn}"
        if turn % 5 == 4:
            killed(fleet(target), lambda: True, chosen.uniform(0, whole_s))
        else:
            delay_s = chosen.choice((0.0, chosen.uniform(0, last_s - first_s)))
            killed(fleet(target), lambda: len(kinds(world, groups)) > 1, delay_s)
        in_the_middle += len(kinds(world, groups)) > 1
        assert everything(world, groups) == before, note
        done = cli(*fleet(target), "-o", "json")
        assert {row["error_code"] for row in done.data} == {None}, note
        assert kinds(world, groups) == {(target, "empty")}, note
        assert everything(world, groups) == before, note
        known = changes(state)
        assert {row["readiness"] for row in cli(*fleet(target), "-o", "json").data} == {"done"}, note
        assert changes(state) == known, note
        turn += 1
    assert in_the_middle, "no kill came in the middle"


# --- two at a time
