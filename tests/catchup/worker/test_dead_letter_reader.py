"""Tasks of plans of dead letters, without Spark: where each record goes, what stays, and workers that are killed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.catchup.worker.task_spec import TaskSpec, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.dead_letters import REDRIVE, Letters, Redrive
from kgroup.support.errors import NotFound
from tests.catchup.worker.test_kills import killed_over_and_over
from tests.helpers.catchup.replays import Replay, producer, replay, seen, sources
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
Make = Callable[..., Replay]


def feed(bootstrap: str, dead: str, source: str, count: int = 20) -> None:
    """Dead letters of partitions 0 to 3 of a topic; each fifth names no source."""
    writer = producer(bootstrap, linger_ms=5)
    for number in range(count):
        named = [
            ("kafka_dlt-original-topic", source.encode()),
            ("kafka_dlt-original-partition", struct.pack(">i", number % 4)),
            ("kafka_dlt-exception-fqcn", b"com.acme.Odd" if number % 2 else b"com.acme.Even"),
        ]
        headers = [("n", b"%d" % number), *(named if number % 5 else ())]
        writer.produce(dead, b"%d" % number, b"k%d" % number, 0, headers=headers)
    assert writer.flush(30) == 0


def options(dead: str, letters: Letters | None = None) -> dict[str, str]:
    return {REDRIVE: Redrive(dead, letters or Letters()).encode()}


def test_each_goes_to_its_own_topic_and_partition(world: KafkaWorld, bootstrap: str, name: Name, make: Make) -> None:
    dead, source = world.topic(name("dlt")), world.topic(name("orders"), partitions=3)
    feed(bootstrap, dead, source)
    plan = make((dead, 0, 0, 12), (dead, 0, 12, 20))

    plan.run("source", options(dead))

    proof, found = plan.proof(), seen(bootstrap, source)
    assert proof.complete
    assert (proof.records, proof.delivered, sum(row.filtered for row in proof.partitions)) == (20, 16, 4)
    assert sorted(map(str, sources(found))) == sorted(f"{dead}:0:{n}" for n in range(20) if n % 5)
    by_key = {one.key: one for one in found}
    assert {by_key[b"k%d" % n].partition for n in (2, 6, 14, 18)} == {2}
    assert by_key[b"k1"].header("kgroup.redrives") == "1"
    assert by_key[b"k1"].header("kgroup.dead-letter-of") == f"{source}:1"
    assert by_key[b"k1"].header("kafka_dlt-original-topic") is None
    assert by_key[b"k1"].header("n") == "1"


def test_another_topic_gets_also_what_names_no_source(
    world: KafkaWorld, bootstrap: str, name: Name, make: Make
) -> None:
    dead, other = world.topic(name("dlt")), world.topic(name("other"))
    feed(bootstrap, dead, "elsewhere")
    plan = make((dead, 0, 0, 20))

    plan.run("topic", {"topic": other, **options(dead)})

    assert sources(seen(bootstrap, other)) == [f"{dead}:0:{n}" for n in range(20)]
    assert plan.proof().complete


def test_a_handler_gets_what_is_chosen_with_its_error(
    world: KafkaWorld, bootstrap: str, name: Name, make: Make, tmp_path: Path
) -> None:
    dead, got = world.topic(name("dlt")), tmp_path / "got"
    feed(bootstrap, dead, "orders")
    plan = make((dead, 0, 0, 20))

    plan.run("command", {"command": f'read -r line && echo "$line" >> {got}', **options(dead, Letters(keys=("k7",)))})

    (line,) = [json.loads(text) for text in got.read_text().splitlines()]
    headers = {one["key"]: one["value"] for one in line["headers"]}
    assert (line["offset"], headers["kafka_dlt-exception-fqcn"]) == (7, "com.acme.Odd")
    assert headers["kgroup.redrives"] == "1"
    proof = plan.proof()
    assert (proof.complete, proof.delivered, proof.records) == (True, 1, 20)


def test_a_source_that_does_not_exist_is_not_created(world: KafkaWorld, bootstrap: str, name: Name, make: Make) -> None:
    dead, source = world.topic(name("dlt")), name("gone")
    feed(bootstrap, dead, source)
    plan = make((dead, 0, 0, 20))

    with pytest.raises(NotFound, match=source):
        plan.run("source", options(dead))

    assert source not in world.topics()
    assert plan.proof().delivered == 0


@pytest.mark.soak
def test_exactly_once_to_each_source_however_often_the_worker_dies(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    count, dead, source = 8000, world.topic(name("dlt")), world.topic(name("orders"), partitions=4)
    feed(bootstrap, dead, source, count)
    with replay(bootstrap, name("ledger"), [(dead, 0, 0, 3000), (dead, 0, 3000, count)]) as plan:

        def spec(number: int, limit: RateLimit | None) -> TaskSpec:
            bounds = TransactionBounds(records=130)
            return plan.spec("source", options(dead), number, rate=limit, bounds=bounds)

        def hit() -> bool:
            return len(seen(bootstrap, source, "read_uncommitted")) > len(seen(bootstrap, source))

        killed_over_and_over(plan, spec, tmp_path, 5, 400, hit)
        proof = plan.proof()

    found = seen(bootstrap, source)
    assert sorted(map(str, sources(found))) == sorted(f"{dead}:0:{n}" for n in range(count) if n % 5)
    assert (proof.complete, proof.records, proof.delivered) == (True, count, count * 4 // 5)
    assert hit(), "no kill hit an open transaction"
