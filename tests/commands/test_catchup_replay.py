"""``kgroup catchup start --to-...`` and ``resume``: the gap replayed on Spark, and proved."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kgroup.catchup.sinks.files import MANIFEST
from kgroup.catchup.worker.provenance_headers import MAYBE_PROCESSED
from kgroup.support.user import whoami
from tests.helpers.catchup.catchups import LOCAL, Crash, copied, offsets, plan_id, released, written
from tests.helpers.catchup.replays import seen
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.terminals import Terminal
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]


def gap_of(crashed: Crash) -> set[str]:
    return {f"{crashed.topic}:0:{offset}" for offset in range(70, 120)} | {
        f"{crashed.topic}:1:{offset}" for offset in range(20, 50)
    }


@contextmanager
def running(kgroup: CommandLine, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = kgroup.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], word: str) -> list[str]:
    """The lines of stderr up to the first one with this word."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"no {word} in {lines}")


def test_kip_333(
    kgroup: CommandLine, world: KafkaWorld, name: Name, members: Members, tmp_path: Path, bystander: str
) -> None:
    """It crashed at 100, had committed 70, and the log is at 120: the head at once, [70, 120) beside it, once.

    While that is replayed the group reads what is new, from 120 on. What it may have handled, 70 to 99, says so.
    """
    by_broker = {"message.timestamp.type": "LogAppendTime"}  # a producer's clock proves nothing
    topic, group, copy = world.topic(name("orders"), 2, by_broker), name("svc"), world.topic(name("copy"), 2)
    crashed, report = Crash(topic, group), tmp_path / "report.json"
    world.produce(topic, 100)
    world.produce(topic, 50, 1)
    world.commit(group, {(topic, 0): (70, "the app's own", 0), (topic, 1): 20})
    member = members.classic(group, topic, session_timeout_ms=1000, heartbeat_interval_ms=300)
    members.stable(member, partitions=2)
    member.kill()
    wait_for(lambda: world.groups()[group][1] == "empty", "the crash is noticed")
    world.produce(topic, 20)
    words = ("catchup", "start", group, "--to-topic", copy, "--master", "local[2]", "--rate", "40/s", "--execute")

    with running(kgroup, *words, "--report", str(report), "--reason", "INC-4711") as process:
        said = until(process, "RELEASED")
        world.produce(topic, 5)
        live = read_live(world, group, topic, 5)
        assert process.poll() is None, "the replay is still under way"
        stdout, stderr = process.communicate(timeout=90)

    assert live == [(0, offset) for offset in range(120, 125)]
    assert process.returncode == 0, stderr
    assert "PLANNED" in said[-2]
    assert "VERIFIED" in stderr
    assert "VERIFIED" in stdout
    assert "Done." in stdout
    assert offsets(world, group) == crashed.released
    found = copied(world, copy)
    assert len(found) == 80
    assert set(found) == gap_of(crashed)
    maybe = {str(one.header("kgroup.source")) for one in seen(world.bootstrap, copy) if one.header(MAYBE_PROCESSED)}
    assert maybe == {f"{topic}:0:{offset}" for offset in range(70, 100)} | {f"{topic}:1:{n}" for n in range(20, 50)}
    (written,) = json.loads(report.read_text())["data"]
    assert (written["state"], written["comment"], written["totals"]["verified"]) == ("done", "INC-4711", True)
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert (listed["state"], listed["totals"]["delivered_count"], listed["sink"]) == ("done", 80, "topic")
    assert "PENDING" not in kgroup("describe", group).stdout


def read_live(world: KafkaWorld, group: str, topic: str, number: int) -> list[tuple[int, int]]:
    """So many records, (partition, offset), as a member of the group gets them; it commits nothing."""
    settings = {"bootstrap.servers": world.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[tuple[int, int]] = []

        def come() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append((message.partition(), message.offset()))
            return len(found) >= number

        wait_for(come, f"{number} records for {group}")
        return found
    finally:
        consumer.close()


@pytest.mark.soak
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_cleanly_and_it_is_gone_on_with_to_the_same_sink(
    kgroup: CommandLine,
    world: KafkaWorld,
    crashed: Crash,
    name: Name,
    number: signal.Signals,
    code: int,
    tmp_path: Path,
) -> None:
    copy, other, report = world.topic(name("copy"), 2), world.topic(name("other"), 2), tmp_path / "report.json"
    words = ("catchup", "start", crashed.group, "--to-topic", copy, "--master", "local[2]", "--execute", "--rate")
    with running(kgroup, *words, "4/s", "--report", str(report)) as process:
        plan = plan_id_of(until(process, "RELEASED"))
        # Until something is delivered, the sink may be another.
        wait_for(lambda: written(world, copy) > 0, "the first record", 60)

        process.send_signal(number)

        stderr = process.communicate(timeout=60)[1]
    assert process.returncode == code, stderr
    assert "[sink-set]" in kgroup("catchup", "resume", plan, "--to-topic", other, "--execute", exit_code=6).stderr
    assert "STOPPED" in stderr
    # The plan keeps its rate.
    assert f"kgroup catchup resume {plan} --execute --master 'local[2]' --report {report}" in stderr
    assert "stopped" in kgroup("catchup", "show", plan).stdout.splitlines()[0]

    dry = kgroup("catchup", "resume", plan)
    done = kgroup.process("catchup", "resume", plan, "--master", "local[2]", "--rate", "off", "--execute")

    assert "Nothing was changed. To deliver to topic" in dry.stdout
    assert "VERIFIED" in done.stdout
    found = copied(world, copy)
    assert len(found) == 80
    assert set(found) == gap_of(crashed)


def _state(kgroup: CommandLine, plan: str) -> dict[str, object]:
    (found,) = kgroup("catchup", "show", plan, "-o", "json").data
    return found


def plan_id_of(lines: list[str]) -> str:
    import re

    return str(re.findall(r"\bcu-[2-9a-z]{4}\b", "".join(lines))[0])


@pytest.mark.soak
def test_stop_from_elsewhere_ends_the_replay(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    copy = world.topic(name("copy"), 2)
    words = ("catchup", "start", crashed.group, "--to-topic", copy, "--master", "local[2]", "--execute", "--rate")
    with running(kgroup, *words, "4/s") as process:
        plan = plan_id_of(until(process, "RELEASED"))
        wait_for(lambda: _state(kgroup, plan)["sink"] is not None, "the replay", 60)

        with Terminal.kgroup("catchup", "show", plan, "--watch", "--every", "500ms") as watching:
            watching.says("replaying")
            watching.shows(lambda page: any("/s over" in line for line in page), "the rate")
            kgroup("catchup", "stop", plan, "--execute")
            watched = watching.ends(0)
        stderr = process.communicate(timeout=60)[1]
    assert watched.lstrip().startswith(f"{plan}  stopped")
    assert process.returncode == 6, stderr
    assert "superseded" in stderr
    by = rf"stopped by {re.escape(whoami())} at \S+Z"
    resume = f"kgroup catchup resume {plan} --execute --master 'local\\[2\\]'"
    assert re.search(rf"STOPPED .*{plan}: {by}; nothing is lost; to continue: {resume}", stderr)
    assert re.search(rf"kgroup: {plan} was {by} \[superseded\]", stderr)
    assert "may have moved offsets" not in stderr
    (state,) = kgroup("catchup", "show", plan, "-o", "json").data
    assert (state["state"], state["tuning"]) == ("released", {"rate": "4/s"}), "resume keeps the rate of the plan"


@pytest.mark.soak
def test_released_first_and_replayed_later_to_files(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, tmp_path: Path
) -> None:
    plan = released(kgroup, crashed)
    nowhere = kgroup("catchup", "resume", plan, "--where", "offset > 1", "--order", "key", "--execute", exit_code=6)
    manifest = tmp_path / plan / MANIFEST
    manifest.mkdir(parents=True)

    unlisted = kgroup.process(
        "catchup",
        "resume",
        plan,
        "--to-files",
        str(tmp_path),
        "--format",
        "json",
        "--master",
        "local[2]",
        "--execute",
        exit_code=1,
    )
    state = _state(kgroup, plan)["state"]
    manifest.rmdir()
    done = kgroup("catchup", "resume", plan, "--execute")

    assert "[no-sink]" in nowhere.stderr
    assert f"kgroup catchup resume {plan} --where 'offset > 1' --order key --execute --to-topic TOPIC" in nowhere.stderr
    assert "could not be written" in unlisted.stderr
    assert state == "released"  # it is not done before its files are listed
    assert "VERIFIED" in done.stdout
    assert json.loads(manifest.read_bytes())["complete"]
    lines = [
        line for path in tmp_path.rglob("*.json") if path.name[0] not in "_." for line in path.read_text().splitlines()
    ]
    assert len({(json.loads(line)["partition"], json.loads(line)["offset"]) for line in lines}) == len(lines) == 80
    assert "nothing to do" in kgroup("catchup", "resume", plan, "--execute").stderr


@pytest.mark.soak
def test_a_handler_that_refuses_a_record_stops_its_partition(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    topic, group, dead = world.topic(name("orders")), name("svc"), world.topic(name("dead"))
    world.produce(topic, 5)
    world.produce(topic, 1, value=b"poison")
    world.produce(topic, 4)
    world.commit(group, {(topic, 0): 0})
    out = tmp_path / "out"
    script = tmp_path / "handler.py"
    script.write_text(
        "import sys, json, base64\n"
        "for line in sys.stdin:\n"
        "    record = json.loads(line)\n"
        "    value, name = record['value'], '{topic}:{partition}:{offset}'.format(**record)\n"
        "    if value == 'poison': print(f'error {name}: bad', flush=True)\n"
        f"    else: open({str(out)!r}, 'a').write(value + chr(10)); print(f'ok {{name}}', flush=True)\n"
    )
    sink = ("--to-command", f"{sys.executable} {script}", "--ack", "line")
    more = ("--retries", "1", "--backoff", "10ms", "--master", "local[1]", "--execute")

    stopped = kgroup.process("catchup", "start", group, *sink, *more, exit_code=8)
    assert len(out.read_text().splitlines()) == 5
    done = kgroup.process("catchup", "resume", group, "--dead-letter-topic", dead, *more)

    assert "[record-refused]" in stopped.stderr
    assert "offset 5 was refused 2 times" in stopped.stderr
    resume = stopped.stderr.split("to deliver the other records:  ")[1].splitlines()[0]
    assert re.match(r"kgroup catchup resume cu-\w+ --dead-letter-topic TOPIC .*--execute", resume), resume
    assert "not delivered" in stopped.stdout
    assert len(out.read_text().splitlines()) == 9
    assert copied(world, dead) == [f"{topic}:0:5"]
    assert "VERIFIED" in done.stdout


@pytest.mark.soak
def test_what_forbids_the_replay_is_found_before_anything_moves(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    before = world.exact(crashed.group)
    start = ("catchup", "start", crashed.group)
    copy = world.topic(name("copy"), 2)
    short = world.topic(name("short"), 2, {"retention.ms": "1000"})
    few = world.topic(name("few"), 1)

    for words, code, said in [
        (("--to-topic", name("nope")), 6, "the topic does not exist"),
        (("--to-topic", short), 6, "would be deleted at once"),
        (("--to-topic", few, "--partitions", "keep"), 6, "2 are needed to keep the partition"),
        (("--to-topic", copy, "--master", "spark://127.0.0.1:1"), 3, "no Spark master answers"),
        (("--to-topic", copy, "--dead-letter-topic", "nope"), 6, "the topic does not exist"),
        (("--to-python", "nope:f"), 6, "could not be imported"),
        (("--to-command", "curl -H 'Authorization: Bearer abcdefgh1234' -d @- http://x"), 2, "environment variable"),
        (("--to-python", "nope"), 2, "not MODULE:FUNCTION"),
        (("--to-topic", copy, "--report", "/"), 2, "is a directory"),
    ]:
        for execute in ((), ("--execute",)):
            assert said in kgroup(*start, *words, *execute, exit_code=code).stderr, words
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.soak
def test_nothing_moves_before_a_worker_has_tried(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, tmp_path: Path
) -> None:
    """A Python of the workers without any package, and a program that no machine has."""
    venv.create(tmp_path / "venv")
    bare = ("--conf", f"spark.pyspark.python={tmp_path}/venv/bin/python", "--to-command", "no-such-program --fast")
    before = world.exact(crashed.group)
    released = plan_id(kgroup("catchup", "start", "--range", f"{crashed.topic}:0=0-30", "--release-only", "--execute"))

    for what in (("start", crashed.group), ("resume", released)):
        refused = kgroup.process("catchup", *what, *bare, "--master", "local[2]", "--execute", exit_code=6)

        assert "[spark-workers]" in refused.stderr
        assert not {"Traceback", "PLANNED", "RELEASED"} & set(re.split(r"\W+", refused.stderr))
        if what[0] == "start":
            assert "no Python package" in refused.stderr
            assert "no-such-program" in refused.stderr
    assert world.exact(crashed.group) == before
    assert [plan["plan_id"] for plan in kgroup("catchup", "list", "-o", "json").data] == [released]


@pytest.mark.soak
def test_the_trial_alone(kgroup: CommandLine, name: Name, world: KafkaWorld, tmp_path: Path) -> None:
    """It needs no group and leaves nothing; it fails as the start would."""
    to_files = ("--to-files", str(tmp_path / "gap"), "--format", "json")
    passed = kgroup.process("catchup", "check", *to_files, *LOCAL)
    table = ("--to-spark", "json", "--option", f"path={tmp_path / 'table'}")
    by_spark = kgroup.process("catchup", "check", *table, *LOCAL)
    failed = kgroup.process("catchup", "check", "--to-command", "no-such-program", *LOCAL, exit_code=6)
    blocked = kgroup("catchup", "check", "--to-topic", name("nope"), "-o", "json", exit_code=6)
    kgroup("catchup", "check", "--master", "spark://127.0.0.1:1", exit_code=3)
    kgroup("catchup", "check", "--report", "x.json", exit_code=2)

    assert "A replay with these options can start." in passed.stdout
    assert "they reach 1 broker" in passed.stdout
    assert "not tried: Spark's writer" in by_spark.stdout
    assert list(tmp_path.iterdir()) == [], "neither files nor a table"
    assert "do not find no-such-program [spark-workers]" in failed.stdout
    assert (blocked.data[0]["passed"], blocked.json["errors"][0]["code"]) == (False, "sink")
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.soak
def test_killed_before_its_replay_it_is_gone_on_with_as_it_was_asked_for(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, tmp_path: Path
) -> None:
    """All that decides what is delivered, and how fast, is in the ledger with the plan's first record."""
    asked = ("--to-files", str(tmp_path), "--format", "json", "--where", "partition = 0", "--order", "none")
    slow = ("--rate", "50/s", "--retries", "1")
    with running(kgroup, "catchup", "start", crashed.group, *asked, *slow, *LOCAL, "--execute") as process:
        plan = plan_id_of(until(process, "PLANNED"))
        process.kill()
        process.communicate()
    (killed,) = kgroup("catchup", "show", plan, "-o", "json").data
    shown = kgroup("catchup", "show", plan).stdout

    done = kgroup.process("catchup", "resume", plan, *LOCAL, "--execute", "-o", "json")

    assert (killed["sink"], killed["order"]) == ("files", "none")
    assert killed["tuning"] == {"rate": "50/s", "retries": "1"}
    assert f"-> kgroup catchup resume {plan} --execute" in shown
    (proved,) = done.data
    assert (proved["totals"]["delivered_count"], proved["totals"]["filtered_count"], proved["state"]) == (
        50,
        30,
        "done",
    )
    files = [path for path in (tmp_path / plan).rglob("*.json") if path.name[0] not in "_."]
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert sorted((line["partition"], line["offset"]) for line in lines) == [(0, offset) for offset in range(70, 120)]
