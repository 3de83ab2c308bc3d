"""The gap of a real streaming query, read by its own job from a fork of its checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.streaming import QuerySpec, streaming_query, topic_source
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak
Name = Callable[[str], str]
JOB = ROOT / "tests" / "helpers" / "streaming_job.py"


@pytest.mark.programs("bash", "dirname")
def test_the_job_reads_the_gap_batch_by_batch_also_after_a_kill(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    topic, written = world.topic(name("orders"), partitions=2), tmp_path / "written"
    ledger = ("--ledger-topic", name("ledger"))
    for partition in (0, 1):
        world.produce(topic, 5, partition, value=b"before")
    source = topic_source(world.bootstrap, topic)
    spec = QuerySpec(str(tmp_path / "checkpoint"), [source], "text", {"path": str(written)})
    with streaming_query(spec) as query:
        assert query.ends() == "ended"
    world.produce(topic, 15_000, 0, value=b"gap")
    world.produce(topic, 7, 1, value=b"gap")
    subject = f"spark:{spec.checkpoint}"
    kgroup("catchup", "start", subject, *ledger, "--file-sink", "none", "--release-only", "--execute")
    world.produce(topic, 3, 1, value=b"after")
    with streaming_query(spec) as query:
        assert query.ends() == "ended"

    fork = tmp_path / "fork"
    job = json.dumps(asdict(replace(spec, checkpoint="{checkpoint}", trigger={"once": True})))
    words = ("--fork", str(fork), "--execute", "--", sys.executable, str(JOB), job)
    resume = ("catchup", "resume", subject, *ledger, *words)
    first = subprocess.Popen(
        [sys.executable, "-m", "kgroup", *resume],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def second_batch() -> bool:
        plans = sorted(int(path.name) for path in (fork / "offsets").glob("[0-9]*")) if fork.exists() else []
        return len(plans) == 4  # of the copy, where it begins, and two batches

    wait_for(second_batch, "its second batch", 120)
    os.killpg(first.pid, signal.SIGKILL)  # with its job, as by a machine that is gone
    first.wait(10)
    again = kgroup.start(*resume)
    stdout, stderr = again.communicate(timeout=300)

    assert "VERIFIED" in stdout, stderr
    counts = Counter(line for path in written.glob("*.txt") for line in path.read_text().split())
    assert (counts["before"], counts["after"]) == (10, 3)
    # The batch in which it was killed may have been written: its number is the same, and a table would have it once.
    assert 15_007 <= counts["gap"] <= 15_007 + 7_500
    (document,) = kgroup("describe", subject, "-o", "json").data
    assert document["totals"]["lag"] == 0
