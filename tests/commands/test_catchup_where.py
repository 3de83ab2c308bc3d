"""``kgroup catchup --where`` and ``--to-spark``: looked at before anything moves, and counted to the last record."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.test_catchup_replay import gap_of, running, until
from tests.helpers.catchup.catchups import Crash, copied, offsets, plan_id
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]


@pytest.mark.soak
def test_a_condition_that_is_none_moves_nothing(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name
) -> None:
    copy, before = world.topic(name("copy"), 2), world.exact(crashed.group)
    words = ("catchup", "start", crashed.group, "--to-topic", copy, "--where", "amount > 3")

    plan = kgroup(*words)
    done = kgroup(*words, "--master", "local[1]", "--execute", exit_code=2)

    assert f"topic {copy} where amount > 3, exactly once" in plan.stdout
    assert "`amount` cannot be resolved" in done.stderr
    assert "cast(value as string)" in done.stderr
    assert "PLANNED" not in done.stderr
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.soak
def test_broken_off_and_gone_on_with(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    copy, report = world.topic(name("copy"), 2), tmp_path / "report.json"
    where = ("--where", "offset % 2 = 0 and partition = 0")
    words = ("catchup", "start", crashed.group, "--to-topic", copy, *where, "--master", "local[2]", "--execute")
    with running(kgroup, *words, "--rate", "3/s") as process:
        said = until(process, "RELEASED")
        assert process.stderr is not None
        next(line for line in process.stderr if re.search(r" [1-9]\d* records", line))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=90)
    assert process.returncode == 130, stderr
    (plan,) = {word for line in said for word in line.split() if word.startswith("cu-")}
    assert len(copied(world, copy)) < 25, stderr

    other = kgroup("catchup", "resume", plan, "--where", "partition = 1", "--execute", exit_code=6)
    go_on = ("--master", "local[2]", "--rate", "off", "--report", str(report), "--execute")
    kgroup("catchup", "resume", plan, *go_on)

    assert "[sink-set]" in other.stderr
    wanted = {place for place in gap_of(crashed) if ":0:" in place and int(place.rpartition(":")[2]) % 2 == 0}
    assert sorted(copied(world, copy)) == sorted(wanted)
    (written,) = json.loads(report.read_text())["data"]
    totals = written["totals"]
    assert (
        totals["record_count"],
        totals["delivered_count"],
        totals["filtered_count"],
        totals["dead_lettered_count"],
    ) == (80, 25, 55, 0)
    assert totals["verified"]


def to_spark(crashed: Crash, *words: str) -> tuple[str, ...]:
    return ("catchup", "start", crashed.group, "--master", "local[2]", "--execute", "--to-spark", *words)


@pytest.mark.soak
def test_a_writer_of_spark(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, before = tmp_path / "out", world.exact(crashed.group)

    told = kgroup(*to_spark(crashed, "jdbc", "--option", "password=hunter2"), exit_code=2)
    monkeypatch.setenv("CODEC", "gzip")
    assert world.exact(crashed.group) == before
    options = ("--option", f"path={out}", "--option", "compression=$CODEC")
    done = kgroup(*to_spark(crashed, "parquet", *options, "--where", "offset >= 40"))

    assert "hunter2" not in told.stderr + told.stdout
    assert offsets(world, crashed.group) == crashed.released
    assert list(out.glob("*.gz.parquet"))
    (listed,) = kgroup("catchup", "show", plan_id(done), "-o", "json").data
    assert (listed["state"], listed["sink"], listed["totals"]["delivered_count"]) == ("done", "spark", 60)
    assert (listed["totals"]["record_count"], listed["totals"]["possible_duplicate_count"]) == (80, 0)


@pytest.mark.soak
def test_a_writer_that_spark_does_not_know_moves_nothing(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash
) -> None:
    before = world.exact(crashed.group)

    refused = kgroup(*to_spark(crashed, "nosuch"), exit_code=6)

    assert "nosuch" in refused.stderr
    assert world.exact(crashed.group) == before
