"""What kgroup takes for granted of checkpoints, of a real query of the PySpark that the tests have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.streaming import QuerySpec, streaming_query, topic_source

pytestmark = [pytest.mark.soak, pytest.mark.programs("bash", "dirname")]


def ends(checkpoint: Path, number: int) -> dict[str, dict[str, int]]:
    """Where batch ``number`` ends, by the one source of the query."""
    version, _, line = (checkpoint / "offsets" / str(number)).read_text().split("\n")
    assert version == "v1"
    found: dict[str, dict[str, int]] = json.loads(line)
    return found


def numbers(checkpoint: Path, log: str) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / log).iterdir() if not path.name.startswith("."))


def test_offsets_are_planned_and_commits_are_done(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, target = world.topic(name("orders"), 2), world.topic(name("copy"))
    world.produce(topic, 6, 0)
    checkpoint = tmp_path / "checkpoint"
    sink = {"kafka.bootstrap.servers": world.bootstrap, "topic": target}
    spec = QuerySpec(str(checkpoint), [topic_source(world.bootstrap, topic, 4)], "kafka", sink)

    with streaming_query(replace(spec, hold_before=1)) as query:
        query.says("1 begins")
        done = checkpoint / "commits" / "0"
        assert (numbers(checkpoint, "offsets"), numbers(checkpoint, "commits")) == ([0, 1], [0])
        assert (ends(checkpoint, 0), ends(checkpoint, 1)) == ({topic: {"0": 4, "1": 0}}, {topic: {"0": 6, "1": 0}})
        assert world.end(target) == 4
        assert (checkpoint / "offsets" / "0").stat().st_mtime < done.stat().st_mtime
        assert done.stat().st_mtime <= (checkpoint / "offsets" / "1").stat().st_mtime
        query.kill()

    world.produce(topic, 3, 1)
    with streaming_query(replace(spec, hold_after=1)) as query:
        query.says("1 written")
        assert (world.end(target), numbers(checkpoint, "commits")) == (6, [0]), "the same batch, and no other"
        query.kill()

    with streaming_query(replace(spec, hold_after=1)) as query:
        query.says("1 written")
        before = time.time()
        query.go_on()
        assert query.ends() == "ended"
        before -= 0.05  # the clock of files may be a little behind
        assert before <= (checkpoint / "commits" / "1").stat().st_mtime <= time.time()

    assert (numbers(checkpoint, "offsets"), numbers(checkpoint, "commits")) == ([0, 1, 2], [0, 1, 2])
    assert ends(checkpoint, 2) == {topic: {"0": 6, "1": 3}}
    assert world.end(target) == 4 + 2 + 2 + 3, "batch 1 was written twice: the kill was before its commit"
