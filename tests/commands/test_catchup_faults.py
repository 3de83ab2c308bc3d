"""What goes wrong while ``kgroup catchup`` replays: retention, handlers, disks, topics that change meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.catchup.catchups import (
    LOCAL,
    Crash,
    copied,
    frozen,
    offsets,
    plan_said,
    released,
    replaying,
)
from tests.helpers.catchup.replays import seen
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("ledger")


@pytest.mark.soak
def test_what_is_deleted_while_it_runs_is_reported_lost_exactly(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, tmp_path: Path
) -> None:
    """The second partition is not begun when its oldest records go; of the first those go that are delivered.

    Partitions that are added meanwhile are no part of it.
    """
    topic, group, copy = world.topic(name("orders"), 2), name("svc"), world.topic(name("copy"), 2)
    report = tmp_path / "report.json"
    world.produce(topic, 400)
    world.produce(topic, 100, 1)
    world.commit(group, {(topic, 0): 0, (topic, 1): 10})
    start = ("start", group, "--to-topic", copy, "--master", "local[1]", "--rate", "40/s", "--report", str(report))
    with replaying(world, copy, *start, "--execute", "-o", "json") as process:
        with frozen(process):  # else a broker that takes its time does it too late
            world.delete_records(topic, 1, 60)
            world.delete_records(topic, 0, 1)
            world.add_partitions(topic, 3)
            with KafkaWorld(world.bootstrap) as anew:  # whose producer does not remember two
                anew.produce(topic, 4, 2)
        result = process.ends(8)

    assert f"{topic}:1 [10, 60)" in process.says("LOST")
    (plan,) = result.data
    (reported,) = json.loads(report.read_text())["data"]
    for document in (plan, reported):
        lost = [(row["partition"], row["lost"]) for row in document["ranges"]]
        assert [(number, [(gone["start"], gone["end"]) for gone in rows]) for number, rows in lost] == [
            (0, []),
            (1, [(10, 60)]),
        ]
        assert document["totals"]["lost_offset_count"] == 50
    assert copied(world, copy) == sorted(
        [f"{topic}:0:{offset}" for offset in range(400)] + [f"{topic}:1:{offset}" for offset in range(60, 100)]
    )
    assert "[10, 60)" in kgroup("catchup", "show", group).stdout
    assert offsets(world, group) == {(topic, 0): 400, (topic, 1): 100}


HANDLER = """
import json, os, signal, sys, time
name = "{topic}:{partition}:{offset}".format_map
def handle(record):
    if record["value"] != "poison":
        with open(sys.argv[2], "a") as file:
            file.write(f"{record['partition']}:{record['offset']}\\n")
        return f"ok {name(record)}"
    match record["partition"]:
        case 0: return f"error {name(record)}: no such account"
        case 1: signal.pause()
        case 2: os.kill(os.getpid(), signal.SIGKILL)
        case 3: return "\\x00 maybe"
if sys.argv[1] == "line":
    for line in sys.stdin:
        print(handle(json.loads(line)), flush=True)
else:
    for answer in map(handle, map(json.loads, sys.stdin)):
        if not answer.startswith("ok "):
            sys.stderr.write(answer)
            sys.exit(3)
"""
"""A handler that cannot stand some records: it refuses one, hangs, dies, or answers what means nothing."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("ack", "reasons"),
    [
        ("line", ("no such account", "handler-timeout", "handler-died", "handler-answer")),
        ("exit", ("status 3", "handler-timeout", "handler-died", "status 3")),
    ],
)
def test_a_handler_that_fails_hangs_dies_or_answers_garbage(
    kgroup: CommandLine,
    world: KafkaWorld,
    name: Name,
    bystander: str,
    tmp_path: Path,
    ack: str,
    reasons: tuple[str, ...],
) -> None:
    topic, group, dead = world.topic(name("orders"), 5), name("svc"), world.topic(name("dead"))
    for partition in range(5):
        world.produce(topic, 3, partition)
        world.produce(topic, 1, partition, b"poison" if partition < 4 else b"x")
        world.produce(topic, 2, partition)
    world.commit(group, {(topic, partition): 0 for partition in range(5)})
    script, out = tmp_path / "handler.py", tmp_path / "out"
    script.write_text(HANDLER)
    command = f"{sys.executable} {script} {ack} {out}"
    sink = ("--to-command", command, "--ack", ack, "--dead-letter-topic", dead)
    how = ("--handler-timeout", "5s", "--retries", "0", *LOCAL, "--execute", "-o", "json")

    done = kgroup.process("catchup", "start", group, *sink, *how)

    (plan,) = done.data
    assert (plan["totals"]["record_count"], plan["totals"]["dead_lettered_count"], plan["totals"]["verified"]) == (
        30,
        4,
        True,
    )
    letters = {record.header("kgroup.source"): record.header("kgroup.error") for record in seen(world.bootstrap, dead)}
    assert letters.keys() == {f"{topic}:{partition}:3" for partition in range(4)}
    for partition, reason in enumerate(reasons):
        assert reason in (letters[f"{topic}:{partition}:3"] or ""), letters
    handled = set(out.read_text().split())
    expected = {f"{partition}:{offset}" for partition in range(5) for offset in range(6)}
    assert handled == expected - {f"{partition}:3" for partition in range(4)}
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_disk_that_is_full_ends_the_task_and_resume_ends_the_rest(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, tmp_path: Path
) -> None:
    """No file may grow beyond 200 kB, which the files of one partition do."""
    topic, group, out = world.topic(name("orders"), 2), name("svc"), tmp_path / "out"
    world.produce(topic, 60, 0, b"x" * 40_000)
    world.produce(topic, 10, 1)
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    words = ("catchup", "start", group, "--to-files", str(out), "--format", "json", *LOCAL, "--execute")
    limit = 'ulimit -f 400; exec "$@"'  # blocks of 512
    limited = ("/bin/sh", "-c", limit, "sh", sys.executable, "-m", "kgroup", *words)

    full = subprocess.run(limited, capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL)
    left = [path.name for path in out.rglob("*.part")]
    of_small = lines_of(out)
    done = kgroup.process("catchup", "resume", group, *LOCAL, "--execute")

    assert full.returncode == 1, full.stderr
    assert "[disk-full]" in full.stderr
    assert "the disk is full: " in full.stderr
    assert "Traceback" not in full.stderr
    assert f"kgroup catchup resume {plan_in(full.stderr)}" in full.stdout + full.stderr
    assert left == []
    assert of_small == [(1, offset) for offset in range(10)]
    assert "VERIFIED" in done.stdout
    assert lines_of(out) == [(0, offset) for offset in range(60)] + of_small
    (manifest,) = out.rglob("_manifest.json")
    assert json.loads(manifest.read_text())["complete"] is True


def plan_in(text: str) -> str:
    return next(word for word in text.split() if word.startswith("cu-"))


def lines_of(directory: Path) -> list[tuple[int, int]]:
    """(partition, offset) of every record in finished files, in order."""
    paths = [path for path in directory.rglob("*.json") if path.name[0] not in "_."]
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return sorted((record["partition"], record["offset"]) for record in records)


# --- topics that change


@pytest.mark.soak
def test_a_topic_that_was_made_anew_before_the_replay_is_not_read(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    """Its offsets are those of other records."""
    copy, plan = world.topic(name("copy"), 2), released(kgroup, crashed)
    world.delete_topic(crashed.topic)
    world.topic(crashed.topic, 2)
    with KafkaWorld(world.bootstrap) as anew:
        anew.produce(crashed.topic, 130)
        anew.produce(crashed.topic, 60, 1)

    resume = ("catchup", "resume", plan, "--to-topic", copy, *LOCAL)
    dry = kgroup(*resume, exit_code=6)
    refused = kgroup.process(*resume, "--execute", exit_code=6)

    for result in (dry, refused):
        assert "[topic-recreated]" in result.stderr
    assert copied(world, copy) == []
    shown = kgroup("catchup", "show", plan, "-o", "json").data[0]
    assert (shown["state"], shown["totals"]["delivered_count"]) == ("released", 0)
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")


@pytest.mark.soak
def test_a_topic_that_is_made_anew_during_the_replay_is_never_proved(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic, group, copy = world.topic(name("orders"), 2), name("svc"), world.topic(name("copy"), 2)
    world.produce(topic, 400)
    world.produce(topic, 100, 1)
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})
    start = ("start", group, "--to-topic", copy, "--master", "local[1]", "--rate", "50/s", "--execute")
    with replaying(world, copy, *start) as process:
        plan = plan_said(process)
        world.delete_topic(topic)
        world.topic(topic, 2)
        with KafkaWorld(world.bootstrap) as anew:
            anew.produce(topic, 400)
            anew.produce(topic, 100, 1)
        code = process.process.wait(240)

    assert code == 6, process.lines
    wait_for(lambda: any("[topic-recreated]" in line for line in process.lines) or None, "why")
    assert not any("VERIFIED" in line for line in process.lines)
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "released"
