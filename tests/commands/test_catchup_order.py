"""What ``--order`` keeps, by sink: chunks are worked by several tasks, each of them slow now and then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.helpers.catchup.catchups import LOCAL
from tests.helpers.catchup.replays import seen
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]

Name = Callable[[str], str]
Handled = Sequence[tuple[int, int, str]]
"""(partition, offset, key) as they were handled, one after the other."""

PARTITIONS, RECORDS, CHUNK, KEYS = 2, 600, 50, 12

HANDLER = """
import fcntl, os, random, time

def handle(records):
    lines = []
    for record in records:
        time.sleep(random.random() * 0.002)
        lines.append(f'{record["partition"]} {record["offset"]} {record["key"].decode()}\\n')
    with open(os.environ["HANDLED"], "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # lanes are threads and tasks are processes
        file.write("".join(lines))
"""
COMMAND = """
import fcntl, json, random, sys, time

for line in sys.stdin:
    record = json.loads(line)
    time.sleep(random.random() * 0.002)
    with open(sys.argv[1], "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{record['partition']} {record['offset']} {record['key']}\\n")
    print("ok {topic}:{partition}:{offset}".format(**record), flush=True)
"""


@pytest.fixture
def source(world: KafkaWorld, name: Name) -> str:
    """Keys in no order; a key is always in the same partition."""
    topic, chance = world.topic(name("orders"), PARTITIONS), random.Random(6)
    producer = Producer({"bootstrap.servers": world.bootstrap, "linger.ms": 5})
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, b"p%dk%d" % (partition, chance.randrange(KEYS)), partition)
    assert producer.flush(30) == 0
    return topic


def ranges(topic: str) -> str:
    """Each of them is a chunk by itself."""
    return ",".join(
        f"{topic}:{partition}={start}-{start + CHUNK}"
        for partition in range(PARTITIONS)
        for start in range(0, RECORDS, CHUNK)
    )


def disordered(handled: Handled, order: str) -> int:
    """How many came after a later one of the same partition, or of the same key."""
    newest: dict[object, int] = {}
    wrong = 0
    for partition, offset, key in handled:
        unit = partition if order == "partition" else key
        wrong += newest.get(unit, -1) > offset
        newest[unit] = offset
    return wrong


def whole(handled: Handled) -> bool:
    """All came, and each once."""
    return sorted((partition, offset) for partition, offset, _ in handled) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)
    ]


@pytest.mark.parametrize(
    ("order", "lanes", "sink"),
    [
        ("key", 4, "python"),
        ("partition", 1, "python"),
        ("none", 4, "python"),
        ("partition", 1, "command"),
        ("key", 4, "command"),
        ("none", 4, "command"),
    ],
)
def test_handlers_get_records_in_the_order_that_was_asked_for(
    kgroup: CommandLine,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    lanes: int,
    sink: str,
    bystander: str,
) -> None:
    out = tmp_path / "handled"
    monkeypatch.setenv("HANDLED", str(out))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    (tmp_path / "orderly.py").write_text(HANDLER)
    (tmp_path / "orderly_command.py").write_text(COMMAND)
    to = {
        "python": ("--to-python", "orderly:handle"),
        "command": (
            *("--to-command", f"python3 {tmp_path / 'orderly_command.py'} {out}"),
            *("--ack", "line"),
        ),
    }[sink]
    how = ("--order", order, *(("--lanes", str(lanes)) if lanes > 1 else ()), *LOCAL, "--execute")

    done = kgroup.process("catchup", "start", "--range", ranges(source), *to, *how, "-o", "json")

    (plan,) = done.data
    handled = [
        (int(partition), int(offset), key)
        for partition, offset, key in (line.split() for line in out.read_text().splitlines())
    ]
    assert (plan["totals"]["chunk_count"], plan["order"]) == (PARTITIONS * RECORDS // CHUNK, order)
    assert whole(handled)
    assert disordered(handled, order) == 0 or order == "none"
    if order == "key":
        assert disordered(handled, "partition") > 0, "keys of a partition were handled at the same time"
    if order == "none":
        assert disordered(handled, "key") > 0
        assert plan["task_count"] > 1
    assert plan["task_count"] == (PARTITIONS if order != "none" else 2)


@pytest.mark.parametrize(
    ("order", "partitions", "target"),
    [
        ("partition", "keep", 2),
        ("key", "key", 3),
        ("none", "keep", 2),
    ],
)
def test_a_topic_gets_records_in_the_order_that_was_asked_for(
    kgroup: CommandLine, world: KafkaWorld, source: str, name: Name, order: str, partitions: str, target: int
) -> None:
    copy = world.topic(name("copy"), target)
    how = ("--to-topic", copy, "--partitions", partitions, "--order", order, *LOCAL, "--execute")

    (plan,) = kgroup.process("catchup", "start", "--range", ranges(source), *how, "-o", "json").data

    found = seen(world.bootstrap, copy)
    handled = []
    for record in found:
        where = str(record.header("kgroup.source")).rsplit(":", 2)
        handled.append((int(where[1]), int(where[2]), (record.key or b"").decode()))
    assert whole(handled)
    assert plan["totals"]["verified"]
    # What stands in one partition of the target is in its order; between them there is none.
    assert order == "none" or disordered(handled, order) == 0
    of_key: dict[bytes | None, set[int]] = {}
    for record in found:
        of_key.setdefault(record.key, set()).add(record.partition)
    assert all(len(places) == 1 for places in of_key.values())
