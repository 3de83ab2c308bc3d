"""What comes out of a catch-up is what an independent reader finds in the gap, whatever the log holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgroup.model.topic_partition import TopicPartition
from tests.catchup.sinks.test_topic import eager_cleaner
from tests.helpers.catchup.catchups import LOCAL, offsets
from tests.helpers.catchup.content import Spans, copied_whole, everything, in_json, in_parquet, read
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

pytestmark = pytest.mark.usefixtures("ledger")

__all__ = ("eager_cleaner",)

Name = Callable[[str], str]

RECORDS = 1_000_000


def spans_of(plan: dict[str, Any]) -> Spans:
    return {TopicPartition(row["topic"], row["partition"]): (row["start"], row["end"]) for row in plan["ranges"]}


@pytest.mark.soak
def test_all_that_a_log_can_hold(
    kgroup: CommandLine,
    world: KafkaWorld,
    name: Name,
    tmp_path: Path,
    eager_cleaner: None,
    bystander: str,
) -> None:
    """To a topic by the group's plan, and the same offsets once more to files; both equal a plain read of the gap."""
    report = tmp_path / "report.json"
    with everything(world, name, RECORDS) as gap:
        to_topic = ("--to-topic", gap.target, *LOCAL, "--execute", "--report", str(report))
        started = kgroup.process("catchup", "start", gap.group, *to_topic, "-o", "json")
        (plan,) = started.data
        spans = spans_of(plan)
        expected, with_kinds = read(world, spans), read(world, spans, kind=True)

        copies = copied_whole(world, gap.target)

        assert (plan["state"], plan["totals"]["verified"]) == ("done", True)
        assert copies.times == len(copies.found) == plan["totals"]["delivered_count"] == plan["totals"]["record_count"]
        assert copies.found == expected
        assert copies.plans == {plan["plan_id"].encode()}
        assert (copies.moved, copies.disordered) == (0, 0)
        assert offsets(world, gap.group) == {place: end for place, (_, end) in spans.items()}
        assert len(expected) < sum(end - start for start, end in spans.values()), "nothing was aborted or compacted"
        assert len(expected) > RECORDS * 0.75
        (written,) = json.loads(report.read_text())["data"]
        assert written["totals"] == plan["totals"]

        ranges = ",".join(f"{topic}:{number}={start}-{end}" for (topic, number), (start, end) in spans.items())
        for form in ("parquet", "json"):
            directory = tmp_path / form
            to_files = ("--to-files", str(directory), "--format", form, *LOCAL, "--execute")
            (files,) = kgroup.process("catchup", "start", "--range", ranges, *to_files, "-o", "json").data
            found, rows = (in_parquet if form == "parquet" else in_json)(directory)
            assert rows == len(found) == files["totals"]["delivered_count"]
            assert found == (with_kinds if form == "parquet" else expected)
            assert json.loads((directory / files["plan_id"] / "_manifest.json").read_text())["records"] == rows
        assert offsets(world, gap.group) == {place: end for place, (_, end) in spans.items()}
