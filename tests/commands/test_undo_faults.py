"""Changes that are killed, signalled, cut off or raced: what the journal says is true, and ``undo`` restores it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kgroup.sandbox import Sandbox
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.journals import WAITS, documents, locked
from tests.helpers.kafka_proxy import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Fault,
    Loss,
    ProxiedBroker,
)
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import delivered, running
from tests.helpers.three_brokers import RECORDS, busy_partitions, replicated
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Commits = dict[tuple[str, int], tuple[int, str, int | None]]
Hundreds = Callable[[str, int], list[str]]


def journal(tmp_path: Path) -> list[Path]:
    """The journal's changes so far."""
    return sorted((tmp_path / "state" / "journal").glob("ch-*"), key=lambda path: path.stat().st_mtime_ns)


def change_id(text: str) -> str:
    """The id in the line that takes a change back."""
    (found,) = set(re.findall(r"kgroup undo (ch-\w+) --execute", text))
    return str(found)


def filled(world: KafkaWorld, topic: str, partitions: int) -> str:
    """A topic with records in each partition."""
    world.topic(topic, partitions=partitions)
    for partition in range(partitions):
        world.produce(topic, RECORDS, partition)
    return topic


def committed(world: KafkaWorld, groups: Sequence[str], topic: str, partitions: int) -> dict[str, Commits]:
    """Commits of all kinds: with metadata, with a leader epoch, plain; the last partition has none."""
    kinds: tuple[tuple[str, int | None], ...] = (("", None), ("kept ä\n", 0), ("", 0), ("x" * 200, None))
    for number, group in enumerate(groups):
        world.commit(
            group,
            {
                (topic, partition): ((number + partition) % RECORDS, *kinds[(number + partition) % len(kinds)])
                for partition in range(partitions - 1)
            },
        )
    return everything(world, groups)


def everything(world: KafkaWorld, groups: Sequence[str]) -> dict[str, Commits]:
    return {group: world.exact(group) for group in groups}


def ended(process: subprocess.Popen[str]) -> Result:
    """Wait for the end of a process."""
    stdout, stderr = process.communicate(timeout=90)
    return Result(process.returncode, stdout, stderr)


# --- answers and requests that get lost


@pytest.fixture
def svc(proxied: ProxiedBroker, name: Name) -> tuple[str, str, Commits]:
    """A group, its topic of three partitions, and its commits."""
    topic, group = filled(proxied.world, name("orders"), 3), name("svc")
    before = committed(proxied.world, [group], topic, 3)[group]
    return group, topic, before


def rows_of(result: Result) -> dict[int, Mapping[str, Any]]:
    """The rows of a group by partition."""
    return {row["partition"]: row for row in result.data}


@pytest.mark.soak
def test_a_coordinator_that_loads_for_ever(proxied: ProxiedBroker, svc: tuple[str, str, Commits], name: Name) -> None:
    """Nothing that asks it gets an answer; the log tells the group, and its offsets are rescued whole."""
    (group, _, before), new = svc, name("new")
    for api in (DESCRIBE_GROUPS, OFFSET_FETCH, CONSUMER_GROUP_DESCRIBE):
        proxied.proxy.expect(Fault(api, Loss.LOADING, always=True, having=group.encode()))

    asked = CommandLine()("describe", group, "--timeout", "2s", exit_code=3)
    assert "its coordinator is still loading" in asked.stderr
    assert "--from-log" in asked.stderr
    document = CommandLine()("describe", group, "--from-log", "-o", "json").data[0]
    assert (document["group"], document["state"], document["totals"]["lag"] is not None) == (group, "Empty", True)
    CommandLine()("reset", new, "--create", "--from-group", group, "--from-log", "--execute")
    assert proxied.world.exact(new) == before == proxied.world.exact(group)


VERBS: dict[str, int] = {"reset": OFFSET_COMMIT, "delete-offsets": OFFSET_DELETE, "delete": DELETE_GROUPS}


def command(verb: str, group: str, topic: str) -> tuple[str, ...]:
    what = {"reset": ("--topic", topic, "--to-latest"), "delete-offsets": ("--topic", topic), "delete": ()}[verb]
    return verb, group, *what, "--execute"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
def test_lost_once(proxied: ProxiedBroker, svc: tuple[str, str, Commits], verb: str, loss: Loss) -> None:
    """An answer: read back, reported as done, not sent again. A request: sent again. ``undo`` is as good as ever."""
    group, topic, before = svc
    wanted = {(topic, number): RECORDS for number in range(3)} if verb == "reset" else {}
    fault = proxied.proxy.expect(Fault(VERBS[verb], loss))
    done = CommandLine()(*command(verb, group, topic), "-o", "json")
    assert fault.met.is_set()
    assert [row["error_code"] for row in done.data] == [None] * len(done.data)
    assert done.json["executed"] is True
    assert done.json["errors"] == []
    assert {place: found[0] for place, found in proxied.world.exact(group).items()} == wanted
    assert proxied.proxy.forwarded[VERBS[verb]] == 1, "not applied twice"
    CommandLine()("undo", "--execute")
    assert proxied.world.exact(group) == before


@pytest.mark.parametrize("verb", ["reset", "delete"])
@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
def test_lost_once_in_an_undo(proxied: ProxiedBroker, svc: tuple[str, str, Commits], verb: str, loss: Loss) -> None:
    group, topic, before = svc
    CommandLine()(*command(verb, group, topic))
    proxied.proxy.reset()
    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, loss))
    CommandLine()("undo", "--execute")
    assert fault.met.is_set()
    assert proxied.world.exact(group) == before
    assert proxied.proxy.forwarded[OFFSET_COMMIT] == 1


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
def test_moved_by_somebody_after_the_loss(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits], tmp_path: Path, loss: Loss
) -> None:
    """While kgroup did not know whether its commit had been stored, a consumer went on: that is not overwritten."""
    group, topic, before = svc
    went_on = (9, "went on", 0)
    fault = Fault(OFFSET_COMMIT, loss, then=lambda: proxied.world.commit(group, {(topic, 1): went_on}))
    proxied.proxy.expect(fault)
    result = CommandLine()(*command("reset", group, topic), "-o", "json", exit_code=7)
    assert fault.met.is_set()
    found = proxied.world.exact(group)
    assert found[topic, 1] == went_on
    rows = rows_of(result)
    assert rows[1]["error_code"]
    assert any("committed offset 9" in error["message"] and error["partition"] == 1 for error in result.json["errors"])
    for number in (0, 2):
        is_there = found.get((topic, number), (None,))[0] == RECORDS
        assert is_there is (rows[number]["error_code"] is None), "what is said of the other partitions is true"
    refused = CommandLine()("undo", "--execute", exit_code=6)
    assert "[active-committer]" in refused.stderr
    CommandLine()("undo", "--execute", "--accept", "moved-since", "--accept", "active-committer")
    assert {place: given for place, given in proxied.world.exact(group).items() if place[1] != 1} == {
        place: given for place, given in before.items() if place[1] != 1
    }


@pytest.mark.parametrize("verb", ["reset", "delete-offsets"])
def test_what_could_not_be_read_back_is_said(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done, since the broker has said so; that it stands there is not known, and no commit is not "no commit"."""
    group, topic, before = svc
    monkeypatch.setenv("COLUMNS", "160")
    proxied.proxy.expect(Fault(OFFSET_FETCH, Loss.LOADING, skip=2, always=True))
    done = CommandLine()(*command(verb, group, topic), "--timeout", "2s")
    assert proxied.world.exact(group) != before
    rows = [line for line in done.stdout.splitlines() if f"{topic}:" in line]
    assert rows
    assert all("not read back" in row and " yes " not in row for row in rows), done.stdout


@pytest.mark.parametrize("verb", ["reset", "delete-offsets", "delete", "migrate"])
def test_what_could_not_be_read_again_before_it_is_said(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits], tmp_path: Path, verb: str
) -> None:
    """Nothing is changed; that the group was not read again does not mean that somebody has committed."""
    group, topic, before = svc
    words = ("migrate", group, "--execute") if verb == "migrate" else command(verb, group, topic)
    proxied.proxy.expect(Fault(OFFSET_FETCH, Loss.LOADING, skip=1, always=True, having=group.encode()))
    result = CommandLine()(*words, "--timeout", "2s", "-o", "json", exit_code=3)
    assert {error["code"] for error in result.json["errors"]} == {"no-coordinator"}
    assert result.json["executed"] is False
    assert proxied.world.exact(group) == before
    assert journal(tmp_path) == []


def test_group_that_came_back_after_the_lost_answer_to_its_deletion(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits]
) -> None:
    """Deleting it again would delete what somebody has committed since."""
    group, topic, _ = svc
    fault = Fault(DELETE_GROUPS, Loss.ANSWER, then=lambda: proxied.world.commit(group, {(topic, 0): (9, "new", 0)}))
    proxied.proxy.expect(fault)
    CommandLine()("delete", group, "--execute", exit_code=6)
    assert fault.met.is_set()
    assert proxied.world.exact(group) == {(topic, 0): (9, "new", 0)}


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_lost_among_many_groups(proxied: ProxiedBroker, name: Name, skip: int) -> None:
    """One lost answer costs no group its row."""
    topic, stem = filled(proxied.world, name("orders"), 3), name("svc")
    groups = [f"{stem}-{number}" for number in range(6)]
    before = committed(proxied.world, groups, topic, 3)
    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.ANSWER, skip=skip))
    done = CommandLine()("reset", *groups, "--topic", topic, "--to-latest", "--execute", "-o", "json")
    assert fault.met.is_set()
    assert len(done.data) == 18
    assert {row["error_code"] for row in done.data} == {None}
    assert all(found[0] == RECORDS for given in everything(proxied.world, groups).values() for found in given.values())
    CommandLine()("undo", "--execute")
    assert everything(proxied.world, groups) == before


@pytest.mark.soak
def test_no_answer_in_time(proxied: ProxiedBroker, svc: tuple[str, str, Commits]) -> None:
    """The commit hangs on its way until the time is over, and arrives after all: not called done, and undone."""
    group, topic, before = svc
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    result = CommandLine()(*command("reset", group, topic), "--timeout", "2s", "-o", "json", exit_code=3)
    assert held.met.is_set()
    assert proxied.world.exact(group) == before, "still on its way"
    assert [(row["error_code"], row["done"]) for row in result.data] == [("outcome-unknown", None)] * 3
    held.go_on.set()
    wait_for(lambda: proxied.world.exact(group) != before, "the commit that was held")
    CommandLine()("undo", "--execute")
    assert proxied.world.exact(group) == before


# --- the journal comes first


def test_journal_is_on_disk_before_the_first_byte(proxied: ProxiedBroker, name: Name, tmp_path: Path) -> None:
    """The first commit is held on its way: the journal has before and after of every partition already."""
    topic, stem = filled(proxied.world, name("orders"), 3), name("svc")
    groups = [f"{stem}-{number}" for number in range(4)]
    before = committed(proxied.world, groups, topic, 3)
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    process = CommandLine().start("reset", *groups, "--topic", topic, "--to-latest", "--execute")
    try:
        assert held.met.wait(30)
        (path,) = journal(tmp_path)
        text = path.read_text()
    finally:
        process.kill()
        ended(process)
    assert everything(proxied.world, groups) == before, "still on its way when kgroup died"
    for group in groups:
        assert group in text
    for given in before.values():
        for _, metadata, _ in given.values():
            assert json.dumps(metadata) in text or json.dumps(metadata, ensure_ascii=False) in text
    held.go_on.set()  # a dead client's request arrives after all
    wait_for(lambda: everything(proxied.world, groups) != before, "the held commit")
    CommandLine()("undo", "--execute")
    assert everything(proxied.world, groups) == before


def test_killed_before_anything_was_changed(proxied: ProxiedBroker, name: Name, tmp_path: Path) -> None:
    topic, group = filled(proxied.world, name("orders"), 3), name("svc")
    before = committed(proxied.world, [group], topic, 3)
    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REQUEST, then=lambda: process.kill()))
    process = CommandLine().start(*command("reset", group, topic))
    ended(process)
    assert fault.met.is_set(), "the commit was not seen"
    assert len(journal(tmp_path)) == 1
    CommandLine()("undo", "--execute", exit_code=5)  # nothing was changed, so there is nothing to take back
    assert everything(proxied.world, [group]) == before
    CommandLine()(*command("reset", group, topic))
    CommandLine()("undo", "--execute")
    assert everything(proxied.world, [group]) == before


SIGNALLED, STOPPED = 300, 120
"""Groups; more than are on their way at a time."""


@pytest.fixture
def hundreds(proxied: ProxiedBroker) -> Iterator[Hundreds]:
    """Names of so many groups, which go with the test: with over 2,000 in a cluster ``lag`` reads no other groups."""
    made: list[str] = []

    def names(stem: str, count: int) -> list[str]:
        made.extend(f"{stem}-{place:03}" for place in range(count))
        return made

    yield names
    proxied.world.delete_groups(made)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 143),
    ],
)
def test_signal_in_the_middle(
    proxied: ProxiedBroker, hundreds: Hundreds, name: Name, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    """The row that is on its way is finished and journaled; what was not done is said, and really was not."""
    topic, stem = filled(proxied.world, name("orders"), 3), name("svc")
    groups = hundreds(stem, SIGNALLED)
    before = committed(proxied.world, groups, topic, 3)
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING, skip=2))
    process = CommandLine().start("reset", *groups, "--topic", topic, "--to-latest", "--execute", "-o", "json")
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
    after = everything(proxied.world, groups)
    changed = [group for group in groups if after[group] != before[group]]
    assert 0 < len(changed) < len(groups), "the rest was not begun"
    rows = {(row["group"], row["partition"]): row for row in result.data}
    assert len(rows) == 3 * len(groups)
    for group in groups:
        for partition in range(3):
            is_there = after[group].get((topic, partition), (None,))[0] == RECORDS
            said_done = rows[group, partition]["error_code"] is None
            same_anyway = before[group].get((topic, partition), (None,))[0] == RECORDS
            assert is_there is said_done or same_anyway, rows[group, partition]
    undone = CommandLine()("undo", "--execute")
    assert undone.exit_code == 0
    assert everything(proxied.world, groups) == before


@pytest.mark.soak
def test_signal_on_the_screen(proxied: ProxiedBroker, hundreds: Hundreds, name: Name) -> None:
    """The table too says how far it came, and how that is taken back."""
    topic, stem = filled(proxied.world, name("orders"), 1), name("svc")
    groups = hundreds(stem, SIGNALLED)
    for group in groups:
        proxied.world.commit(group, {(topic, 0): 1})
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING, skip=2))
    process = CommandLine().start("reset", *groups, "--topic", topic, "--to-latest", "--execute", "--verbose")
    try:
        assert held.met.wait(30)
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: delivered(process, signal.SIGTERM), "the signal handled")
        held.go_on.set()
        result = ended(process)
    finally:
        process.kill()
    assert result.exit_code == 143, result
    assert "not done" in result.stdout + result.stderr
    CommandLine()("undo", change_id(result.stdout + result.stderr), "--execute")
    assert {found for group in groups for found in proxied.world.exact(group).values()} == {(1, "", None)}


@pytest.mark.programs("mount", "rm", "unshare")
@pytest.mark.soak
def test_journal_whose_disk_is_full_in_mid_change(
    proxied: ProxiedBroker, hundreds: Hundreds, name: Name, tmp_path: Path
) -> None:
    """What is under way is done, and said; that results are missing is said, and ``undo`` restores all the same.

    The journal is on a small disk of its own, which is full from the first commit on.
    """
    topic, stem = filled(proxied.world, name("orders"), 3), name("svc")
    groups = hundreds(stem, SIGNALLED)
    before = committed(proxied.world, groups, topic, 3)
    state = tmp_path / "state"
    state.mkdir()
    script = f"""
        mount -t tmpfs -o size=512k none {state} && "$@" reset {" ".join(groups)} --topic {topic} --to-latest --execute
        echo "exit $?"
        rm {state}/filler
        "$@" undo --execute
    """
    words = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-m",
        "kgroup",
    ]
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert held.met.wait(60)
        # The disk is only there for those who are in its namespace.
        with suppress(OSError), Path(f"/proc/{process.pid}/root{state}/filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x")
    finally:
        held.go_on.set()
        result = ended(process)
    assert "exit 0" in result.stdout, result
    assert "could not be written completely (No space left on device)" in " ".join(result.stderr.split())
    assert result.exit_code == 0, "undo, in the same namespace"
    assert everything(proxied.world, groups) == before


def test_journal_is_synced_before_the_first_byte(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and the directory that it was made in: what a power cut leaves, and not what the page cache shows."""
    group, topic, _ = svc
    synced: list[tuple[Path, int]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), proxied.proxy.forwarded[OFFSET_COMMIT]))

    monkeypatch.setattr(os, "fsync", fsync)
    before = proxied.proxy.forwarded[OFFSET_COMMIT]
    CommandLine()(*command("reset", group, topic))
    assert proxied.proxy.forwarded[OFFSET_COMMIT] > before

    assert [path.suffix for path, _ in synced] == [".jsonl", "", ".jsonl"], "the plan, its directory, the results"
    assert synced[1][0].name == "journal"
    assert [commits - before > 0 for _, commits in synced] == [False, False, True]


def test_journal_that_cannot_grow(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """A full disk: no journal, no change."""
    topic, stem = filled(world, name("orders"), 20), name("svc")
    groups = [f"{stem}-{place}" for place in range(4)]
    before = committed(world, groups, topic, 20)
    line = ['ulimit -f 2 && exec "$@"', "sh", sys.executable, "-m", "kgroup"]
    done = subprocess.run(
        ["/bin/sh", "-c", *line, "reset", *groups, "--topic", topic, "--to-latest", "--execute"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 6, done
    assert "[no-journal]" in done.stderr
    assert f"{groups[0]}  " in done.stdout, "the plan"
    assert "Nothing was changed." in done.stdout
    assert everything(world, groups) == before


# --- kill -9


GROUPS, PARTITIONS = 60, 20


@pytest.fixture
def many(world: KafkaWorld) -> tuple[str, list[str], dict[str, Commits]]:
    """60 groups with 19 commits each."""
    suffix = f"{random.randrange(16**6):06x}"
    topic = filled(world, f"kills-{suffix}", PARTITIONS)
    groups = sorted(f"killed-{suffix}-{number:02}" for number in range(GROUPS))
    return topic, groups, committed(world, groups, topic, PARTITIONS)


def killed(arguments: Sequence[str], ready: Callable[[], bool], delay_s: float) -> bool:
    """Run a command, and kill it this long after ``ready``; whether it was still running."""
    process = CommandLine().start(*arguments)
    try:
        while process.poll() is None and not ready():
            time.sleep(0.001)
        time.sleep(delay_s)
        was_running = process.poll() is None
        process.kill()
    finally:
        ended(process)
    return was_running


def kill_many_times(
    world: KafkaWorld, many: tuple[str, list[str], dict[str, Commits]], tmp_path: Path, turns: int, seed: int
) -> None:
    topic, groups, before = many
    sys.stdout.write(f"seed {seed}\n")
    chosen = random.Random(seed)
    stem = groups[0].rpartition("-")[0]
    reset = ("reset", "--regex", f"{stem}-.*", "--topic", topic, "--to-latest", "--execute")
    cli = CommandLine()
    # How long it takes from the journal to the end, for moments that hit.
    started = time.monotonic()
    process = cli.start(*reset)
    wait_for(lambda: bool(journal(tmp_path)), "a journal")
    written = time.monotonic()
    assert ended(process).exit_code == 0
    whole_s, applying_s = time.monotonic() - started, time.monotonic() - written
    assert all(found[0] == RECORDS for given in everything(world, groups).values() for found in given.values())
    cli("undo", "--execute")
    assert everything(world, groups) == before
    in_the_middle = 0
    for turn in range(turns):
        known = len(journal(tmp_path))
        early = turn % 4 == 3
        if early:
            killed(reset, lambda: True, chosen.uniform(0, whole_s))
        else:
            delay_s = chosen.choice((0.0, 0.0, chosen.uniform(0, applying_s)))
            killed(reset, lambda: world.exact(groups[0]) != before[groups[0]], delay_s)
        note = f"seed {seed}, turn {turn}"
        after = everything(world, groups)
        changed = [group for group in groups if after[group] != before[group]]
        in_the_middle += 0 < len(changed) < GROUPS
        if changed:
            assert len(journal(tmp_path)) == known + 1, note
        if chosen.random() < 0.3:  # the undo is killed too
            killed(("undo", "--execute"), lambda: True, chosen.uniform(0.2, whole_s))
        # Nothing is left to take back where the kill came before the first commit, or the undo was through.
        cli("undo", "--execute", exit_code=5 if everything(world, groups) == before else 0)
        assert everything(world, groups) == before, note
        if turn % 5 == 0:
            cli(*reset)
            assert all(
                found[0] == RECORDS for given in everything(world, groups).values() for found in given.values()
            ), note
            cli("undo", "--execute")
            assert everything(world, groups) == before, note
    assert in_the_middle, f"seed {seed}"


@pytest.mark.soak
def test_killed_at_many_moments(
    kgroup: CommandLine,
    world: KafkaWorld,
    many: tuple[str, list[str], dict[str, Commits]],
    tmp_path: Path,
    bystander: str,
) -> None:
    kill_many_times(world, many, tmp_path, turns=16, seed=random.randrange(10**6))


@pytest.mark.parametrize("skip", [0, 7, *(pytest.param(skip, marks=pytest.mark.soak) for skip in (1, 30, 59))])
def test_killed_at_each_stage(proxied: ProxiedBroker, name: Name, skip: int, tmp_path: Path) -> None:
    """Killed when its n-th commit has been stored and not been answered; a rerun completes it, undo restores."""
    topic, stem = filled(proxied.world, name("orders"), 3), name("svc")
    groups = sorted(f"{stem}-{place:02}" for place in range(60))
    before = committed(proxied.world, groups, topic, 3)
    reset = ("reset", *groups, "--topic", topic, "--to-latest", "--execute")
    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.ANSWER, skip=skip, then=lambda: process.kill()))
    process = CommandLine().start(*reset)
    ended(process)
    assert fault.met.is_set()
    assert everything(proxied.world, groups) != before
    first = journal(tmp_path)[-1].stem
    if skip % 2:  # a rerun, then both taken back
        CommandLine()(*reset)
        reached = everything(proxied.world, groups)
        assert {found[0] for given in reached.values() for found in given.values()} == {RECORDS}
        CommandLine()("undo", "--execute")
        CommandLine()("undo", first, "--execute")
    else:
        CommandLine()("undo", "--execute")
    assert everything(proxied.world, groups) == before


# --- two at a time


def test_two_at_once(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Different groups: both wait for their turn with the journal, and both are done."""
    topic = filled(world, name("orders"), 3)
    ours, theirs = ([f"{name(stem)}-{place}" for place in range(10)] for stem in ("ours", "theirs"))
    before = committed(world, [*ours, *theirs], topic, 3)
    running = [
        kgroup.start("reset", *groups, "--topic", topic, "--to-latest", "--execute") for groups in (ours, theirs)
    ]
    results = [ended(process) for process in running]
    assert [result.exit_code for result in results] == [0, 0], results
    reached = everything(world, [*ours, *theirs])
    assert {found[0] for given in reached.values() for found in given.values()} == {RECORDS}
    for result in results:
        kgroup("undo", change_id(result.stdout), "--execute")
    assert everything(world, [*ours, *theirs]) == before


@pytest.mark.soak
@pytest.mark.parametrize("held_s", [0.0, 1.5])
def test_two_at_once_on_the_same_groups(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, bystander: str, held_s: float
) -> None:
    """Both have read the same offsets when the lock becomes free: one shifts them, the other finds them moved."""
    topic, stem = filled(world, name("orders"), 3), name("svc")
    groups = [f"{stem}-{place}" for place in range(5)]
    for group in groups:
        world.commit(group, {(topic, partition): (1, "kept", 0) for partition in range(3)})
    before = everything(world, groups)
    shift = ("reset", *groups, "--topic", topic, "--shift-by", "1", "--execute")
    with locked(tmp_path / "state") as release, running(*shift) as one, running(*shift) as other:
        one.says(WAITS)
        other.says(WAITS)
        threading.Timer(held_s, release).start()
        done, refused = sorted((one, other), key=lambda each: each.process.wait(60))
        done.ends(0)
        said = refused.ends(6).stderr
    assert "[moved-since]" in said
    assert groups[0] in said
    assert {found[0] for given in everything(world, groups).values() for found in given.values()} == {2}, "once"
    assert len(journal(tmp_path)) == 1, "what was refused is not in it"
    kgroup("undo", "--execute")
    assert everything(world, groups) == before


@pytest.mark.parametrize(("partial", "exit_code"), [((), 6), (("--partial",), 7)])
def test_moved_while_it_waits_for_its_turn(
    kgroup: CommandLine,
    world: KafkaWorld,
    name: Name,
    tmp_path: Path,
    bystander: str,
    partial: tuple[str, ...],
    exit_code: int,
) -> None:
    """One partition of one of two groups: nothing is done, or with --partial the rest, and each row says which."""
    topic, stem = filled(world, name("orders"), 2), name("svc")
    groups = [f"{stem}-{place}" for place in range(2)]
    for group in groups:
        world.commit(group, {(topic, 0): 1, (topic, 1): 1})
    shift = ("reset", *groups, "--topic", topic, "--shift-by", "1", "--execute", "-o", "json", *partial)
    with locked(tmp_path / "state") as release, running(*shift) as reset:
        reset.says(WAITS)
        world.commit(groups[0], {(topic, 0): 7})
        before = everything(world, groups)
        release()
        result = reset.ends(exit_code)
    assert result.json["executed"] is bool(partial)
    errors = {(error["group"], error["partition"]): error["code"] for error in result.json["errors"]}
    assert errors == {(groups[0], 0): "moved-since"}
    after = {(group, place[1]): found[0] for group in groups for place, found in world.exact(group).items()}
    if not partial:
        assert everything(world, groups) == before
        assert journal(tmp_path) == []
        return
    assert after == {(groups[0], 0): 7, (groups[0], 1): 2, (groups[1], 0): 2, (groups[1], 1): 2}
    assert {(row["group"], row["partition"]): bool(row["done"]) for row in result.data} == {
        place: place != (groups[0], 0) for place in after
    }
    kgroup("undo", "--execute")
    assert everything(world, groups) == before


@pytest.mark.soak
def test_second_waits_while_the_first_is_held(proxied: ProxiedBroker, name: Name) -> None:
    """The first one's commit is on its way when the second begins: the second waits, and finds its plan outdated."""
    topic, group = filled(proxied.world, name("orders"), 3), name("svc")
    proxied.world.commit(group, {(topic, partition): 1 for partition in range(3)})
    before = everything(proxied.world, [group])
    shift = ("reset", group, "--topic", topic, "--shift-by", "1", "--execute")
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    with running(*shift) as first:
        assert held.met.wait(30)
        with running(*shift) as second:
            second.says(WAITS)
            held.go_on.set()
            first.ends(0)
            assert "[moved-since]" in second.ends(6).stderr
    assert {found[0] for found in proxied.world.exact(group).values()} == {2}
    CommandLine()("undo", "--execute")
    assert everything(proxied.world, [group]) == before


# --- an undo that did not come to its end


@pytest.mark.soak
@pytest.mark.parametrize("how", ["killed before its first write", "interrupted"])
def test_undo_that_was_stopped(
    proxied: ProxiedBroker, hundreds: Hundreds, name: Name, tmp_path: Path, how: str
) -> None:
    """The next bare undo goes for the same change again, not for the one before it, until it is back whole."""
    topic, stem = filled(proxied.world, name("orders"), 1), name("svc")
    groups = hundreds(stem, STOPPED)
    for group in groups:
        proxied.world.commit(group, {(topic, 0): (1, "kept", 0)})
    reset = ("reset", "--regex", f"{stem}-.*", "--topic", topic, "--execute")
    first = change_id(CommandLine()(*reset, "--to-offset", "5").stdout)
    after_first = everything(proxied.world, groups)
    second = change_id(CommandLine()(*reset, "--to-latest").stdout)
    loss = Loss.REQUEST if how.startswith("killed") else Loss.NOTHING
    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, loss, then=lambda: process.kill()))
    process = CommandLine().start("undo", "--execute")
    try:
        assert fault.met.wait(30)
        if how == "interrupted":
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: delivered(process, signal.SIGTERM), "the signal handled")
            fault.go_on.set()
        assert ended(process).exit_code == (143 if how == "interrupted" else -signal.SIGKILL)
    finally:
        process.kill()
    back = sum(proxied.world.exact(group) == after_first[group] for group in groups)
    assert (0 < back < len(groups)) if how == "interrupted" else back == 0
    plan = CommandLine()("undo").stdout
    assert change_id(plan) == second
    assert any(first in line and "can undo" in line for line in plan.splitlines())
    CommandLine()("undo", "--execute")
    assert everything(proxied.world, groups) == after_first
    plan = CommandLine()("undo").stdout
    assert change_id(plan) == first
    assert any(second in line and "undone" in line for line in plan.splitlines())


# --- what was surely not done, and what was done and can't be looked at


@pytest.mark.soak
def test_coordinator_that_is_not_found_any_more(
    proxied: ProxiedBroker, name: Name, svc: tuple[str, str, Commits]
) -> None:
    """The broker has refused the commit, and nobody keeps the group until the time is over: surely nothing is stored.

    So it is said what is the matter, and not that it may have been done; there is nothing to take back.
    """
    group, topic, before = svc
    older = change_id(CommandLine()("reset", group, "--topic", topic, "--to-offset", "2", "--execute").stdout)
    moved = proxied.world.exact(group)
    refused = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REFUSED, always=True))
    proxied.proxy.expect(Fault(FIND_COORDINATOR, Loss.REQUEST, after=refused, always=True))
    proxied.proxy.forwarded.clear()
    result = CommandLine()(*command("reset", group, topic), "--timeout", "2s", "-o", "json", exit_code=3)
    assert refused.met.is_set()
    assert proxied.proxy.forwarded[OFFSET_COMMIT] == 0
    assert {error["code"] for error in result.json["errors"]}.isdisjoint({"outcome-unknown"})
    assert "unknown" not in result.stderr
    assert [row["done"] for row in result.data] == [False] * 3
    proxied.proxy.reset()
    assert proxied.world.exact(group) == moved
    assert change_id(CommandLine()("undo").stdout) == older, "the one before it"
    CommandLine()("undo", "--execute")
    assert proxied.world.exact(group) == before


@pytest.mark.soak
def test_evicted_and_then_not_seen(proxied: ProxiedBroker, name: Name, tmp_path: Path) -> None:
    """The members are gone; that the group can't be looked at afterwards hides neither the result nor the journal."""
    world, group, instance = proxied.world, name("svc"), "pay-0"
    topic = world.topic(name("orders"))
    with Members(world.bootstrap) as members:
        member = members.classic(group, topic, group_instance_id=instance, session_timeout_ms=30_000)
        members.stable(member, partitions=1)
        member.kill()
        left = proxied.proxy.expect(Fault(LEAVE_GROUP, Loss.NOTHING))
        left.go_on.set()
        for api_key in (DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE):
            proxied.proxy.expect(Fault(api_key, Loss.REQUEST, after=left, always=True))
        done = CommandLine()("evict", group, "--all-members", "--execute", "--timeout", "4s")
        assert left.met.is_set()
        assert world.groups()[group] == ("classic", "empty")
    assert done.stdout.startswith("DONE  evict")
    assert instance in done.stdout
    assert f"The state of {group} after that is unknown" in done.stdout, "nobody knows how the group stands"
    (path,) = journal(tmp_path)
    (result,) = (line["done"] for line in documents(path) if "done" in line)
    assert instance in json.dumps(result)


def test_evicted_and_the_answer_is_lost(proxied: ProxiedBroker, name: Name) -> None:
    """The second try finds no such member: the first one has removed it, and that is no failure."""
    world, group = proxied.world, name("svc")
    topic = world.topic(name("orders"))
    with Members(world.bootstrap) as members:
        member = members.classic(group, topic, group_instance_id="pay-0", session_timeout_ms=30_000)
        members.stable(member, partitions=1)
        member.kill()
        lost = proxied.proxy.expect(Fault(LEAVE_GROUP, Loss.ANSWER))
        done = CommandLine()("evict", group, "--all-members", "--execute", "-o", "json")
        assert lost.met.is_set()
        assert world.groups()[group] == ("classic", "empty")
    assert [(row["instance_id"], row["removed"], row["error_code"]) for row in done.data] == [("pay-0", True, None)]


# --- large commits


LARGE: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "all": lambda group, topic: ("reset", group, "--topic", topic, "--to-earliest", "--expect", "400"),
    "half": lambda group, topic: (
        "reset",
        group,
        "--topic",
        f"{topic}:{','.join(map(str, range(0, 400, 2)))}",
        "--to-latest",
    ),
    "delete": lambda group, topic: ("delete", group),
    "delete-offsets": lambda group, topic: ("delete-offsets", group, "--topic", topic),
}


@pytest.mark.soak
def test_large_commits(kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, bystander: str) -> None:
    """400 partitions with 4,096 bytes of metadata each, too large for one request: split, and all comes back."""
    topic, group = world.topic(name("large"), partitions=400), name("large")
    for partition in range(0, 400, 2):
        world.produce(topic, 3, partition)
    for first in (0, 200):
        world.commit(
            group,
            {
                (topic, partition): (
                    0 if partition % 2 else 1,
                    f"{partition:04}" + chr(33 + partition % 90) * 4092,
                    partition % 5,
                )
                for partition in range(first, first + 200)
            },
        )
    before = world.exact(group)
    assert len(before) == 400
    for what, arguments in LARGE.items():
        kgroup(*arguments(group, topic), "--execute")
        after = world.exact(group)
        assert after != before, what
        if what == "half":
            assert {place: given for place, given in after.items() if place[1] % 2} == {
                place: given for place, given in before.items() if place[1] % 2
            }, "what is not reset stays byte for byte"
        kgroup("undo", "--execute")
        assert world.exact(group) == before, what
    file = tmp_path / "backup.json"
    kgroup("delete", group, "--execute", "--backup", str(file))
    kgroup("reset", group, "--create", "--from-file", str(file), "--execute")
    assert world.exact(group) == before


@pytest.mark.soak
@pytest.mark.parametrize("stored", [1, 2])
def test_large_commit_cut_between_its_parts(proxied: ProxiedBroker, name: Name, stored: int) -> None:
    """kgroup dies when one of both parts is stored: undo takes back the whole; with both there is nothing left to."""
    topic, group = proxied.world.topic(name("large"), partitions=300), name("large")
    commits = {(topic, number): (0, f"{number:04}" + "m" * 4092, None) for number in range(300)}
    for first in range(0, 300, 100):
        proxied.world.commit(group, {place: commits[place] for place in list(commits)[first : first + 100]})
    before = proxied.world.exact(group)
    CommandLine()("delete", group, "--execute")
    proxied.proxy.reset()
    fault = Fault(OFFSET_COMMIT, Loss.ANSWER, skip=stored - 1, then=lambda: process.kill())
    proxied.proxy.expect(fault)
    proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REQUEST, always=True, after=fault))
    process = CommandLine().start("undo", "--execute")
    ended(process)
    assert fault.met.is_set()
    proxied.proxy.reset()
    assert (proxied.world.exact(group) == before) is (stored == 2)
    CommandLine()("undo", "--execute", exit_code=0 if stored == 1 else 5)
    assert proxied.world.exact(group) == before


# --- three brokers


@pytest.mark.soak
def test_coordinator_killed_while_it_runs(three: KafkaWorld, sandbox: Sandbox, name: Name, tmp_path: Path) -> None:
    """Each row that is reported done is there, each that is reported failed says so; undo restores all."""
    topic, stem = replicated(three, name("orders")), name("svc")
    groups = sorted(f"{stem}-{number:03}" for number in range(200))
    before = committed(three, groups, topic, 2)
    victim = three.coordinator(groups[3])
    process = CommandLine().start("reset", "--regex", f"{stem}-.*", "--topic", topic, "--to-latest", "--execute",
                                  "--timeout", "60s", "-o", "json")  # fmt: skip
    wait_for(lambda: bool(journal(tmp_path)) or process.poll() is not None, "a journal")
    time.sleep(0.06)
    with busy_partitions(three, victim, topic):
        sandbox.kill(victim)
        result = ended(process)
    # Which rows fail is the broker's affair; the exit code is that of the rows.
    assert result.exit_code == (7 if any(row["error_code"] for row in result.data) else 0), result
    done = [(row["group"], (topic, row["partition"])) for row in result.data if row["error_code"] is None]

    def stored() -> bool:
        after = everything(three, groups)
        return all(after[group].get(place, (None,))[0] == RECORDS for group, place in done)

    wait_for(stored, "what was reported done, at those who took over")
    sandbox.restart(victim, reporter=QuietReporter())
    CommandLine()("undo", "--execute", "--timeout", "60s")
    assert everything(three, groups) == before


# --- two machines


def test_two_machines_change_one_group(
    proxied: ProxiedBroker, svc: tuple[str, str, Commits], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock is shared: the later commit wins, and an undo takes back nothing that it did not do without saying so."""
    group, topic, before = svc
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    slow = CommandLine().start("reset", group, "--topic", topic, "--to-latest", "--execute")
    try:
        assert held.met.wait(30)
        monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "other-machine"))
        CommandLine()("reset", group, "--topic", topic, "--to-offset", "5", "--execute")
        assert {offset for offset, _, _ in proxied.world.exact(group).values()} == {5}
    finally:
        held.go_on.set()
        later = ended(slow)
    assert later.exit_code == 0, later
    moved = proxied.world.exact(group)
    assert {offset for offset, _, _ in moved.values()} == {RECORDS}

    refused = CommandLine()("undo", "--execute", exit_code=6)
    assert "[moved-since]" in refused.stderr
    assert proxied.world.exact(group) == moved
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "state"))
    CommandLine()("undo", "--execute")
    assert proxied.world.exact(group) == before


@pytest.mark.parametrize("second", ["undo", "delete", "migrate"])
def test_another_machine_changes_what_a_plan_has_seen(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, second: str,
) -> None:  # fmt: skip
    """What another machine has changed since is no longer what ``undo`` is about: refused, and as it was left."""
    topic, group = filled(world, name("orders"), 3), name("svc")
    committed(world, [group], topic, 3)
    kgroup("reset", group, "--topic", topic, "--to-offset", "5", "--execute")
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "other-machine"))
    kgroup("reset", group, "--topic", topic, "--to-latest", "--execute")
    if second == "delete":
        kgroup("delete", group, "--execute")
    elif second == "migrate":
        kgroup("migrate", group, "--execute")
    left, kind = world.exact(group), world.groups().get(group)
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "state"))

    refused = kgroup("undo", "--execute", exit_code=6)

    assert "[moved-since]" in refused.stderr
    assert (world.exact(group), world.groups().get(group)) == (left, kind)
