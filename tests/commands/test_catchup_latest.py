"""``--latest-per-key``: the newest record of each key of a gap, on Spark, exactly once though its runner is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.commands.test_catchup_replay import _state, plan_id_of, running, until
from tests.helpers.catchup.catchups import offsets
from tests.helpers.catchup.latest import newest
from tests.helpers.catchup.replays import Seen, producer, seen, sources
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]

COUNT = 600
KEYS = 80


@pytest.fixture
def gap(world: KafkaWorld, bootstrap: str, name: Name) -> tuple[str, str, list[Seen]]:
    """A group that has handled 100 of 600 records of each of two partitions: topic, group, and what its gap holds."""
    topic, group = world.topic(name("orders"), 2), name("svc")
    plain, now_ms = producer(bootstrap), time.time_ns() // 1_000_000
    for partition in range(2):
        for number in range(COUNT):
            key = None if number % 100 == 99 else f"k{(number * 7 + 3 * partition) % KEYS}".encode()
            value = None if number % 11 == 5 else f"{partition}/{number}".encode()
            plain.produce(topic, value, key, partition, timestamp=now_ms - 10_000 + (number * 37) % 101)
    plain.flush()
    world.commit(group, {(topic, partition): 100 for partition in range(2)})
    return topic, group, [record for record in seen(bootstrap, topic) if record.offset >= 100]


@pytest.mark.soak
def test_a_runner_that_is_killed_leaves_what_resume_delivers(
    kgroup: CommandLine, world: KafkaWorld, bootstrap: str, name: Name, gap: tuple[str, str, list[Seen]]
) -> None:
    topic, group, records = gap
    copy = world.topic(name("copy"), 2)
    sink = ("--to-topic", copy, "--latest-per-key", "--master", "local[2]")
    page = kgroup("catchup", "start", group, *sink).stdout
    assert "the newest record of each key, exactly once" in page

    with running(kgroup, "catchup", "start", group, *sink, "--rate", "2/s", "--execute") as process:
        plan = plan_id_of(until(process, "RELEASED"))
        wait_for(lambda: _state(kgroup, plan)["totals"]["delivered_count"], "a record", 240)  # type: ignore[index]
        process.kill()
        process.communicate()

    state = _state(kgroup, plan)
    assert (state["order"], state["state"]) == ("none", "released")
    assert "the newest of each key" in kgroup("catchup", "show", plan).stdout
    refused = kgroup("catchup", "cancel", plan, exit_code=6)
    assert "[possible-duplicates]" in refused.stdout + refused.stderr
    other = kgroup("catchup", "resume", plan, "--to-topic", topic, "--execute", exit_code=6)
    assert "[sink-set]" in other.stderr
    (owed,) = kgroup("catchup", "list", "-o", "json").data
    assert 0 < owed["totals"]["undelivered_offset_count"] < 1000
    # The ledger's word: what stands in the topic may wait for the transaction that the runner has left open there.
    delivered = owed["totals"]["delivered_count"]
    assert delivered > 0

    go_on = ("--master", "local[2]", "--rate", "none", "--execute", "-o", "json")
    done = kgroup.process("catchup", "resume", plan, *go_on)

    wanted = newest(records, topic=topic)
    found = sources(seen(bootstrap, copy))
    assert set(found) == wanted
    assert len(found) == len(wanted) > delivered
    totals = _state(kgroup, plan)["totals"]
    assert isinstance(totals, dict)
    assert (totals["record_count"], totals["delivered_count"], totals["filtered_count"]) == (
        1000,
        len(wanted),
        1000 - len(wanted),
    )
    assert totals["verified"]
    assert "VERIFIED" in done.stderr
    assert offsets(world, group) == {(topic, 0): COUNT, (topic, 1): COUNT}
    assert _state(kgroup, plan)["state"] == "done"


@pytest.mark.soak
def test_with_where_to_files(
    kgroup: CommandLine, bootstrap: str, gap: tuple[str, str, list[Seen]], tmp_path: Path
) -> None:
    """What is not wanted is no key's newest: it is left out first."""
    topic, group, records = gap
    where = "value is not null and (partition = 0 or offset < 500)"

    done = kgroup.process(
        *("catchup", "start", group, "--to-files", str(tmp_path), "--latest-per-key", "--where", where),
        *("--master", "local[2]", "--execute"),
    )

    some = [one for one in records if one.value is not None and (one.partition == 0 or one.offset < 500)]
    wanted = newest(some, topic=topic)
    rows = [row for path in tmp_path.rglob("*.parquet") for row in parquet.read_table(path).to_pylist()]
    assert {f"{row['topic']}:{row['partition']}:{row['offset']}" for row in rows} == wanted
    assert len(rows) == len(wanted)
    assert "VERIFIED" in done.stderr
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    totals = listed["totals"]
    assert (totals["record_count"], totals["delivered_count"], totals["filtered_count"]) == (
        1000,
        len(wanted),
        1000 - len(wanted),
    )
