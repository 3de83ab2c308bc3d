"""Workers that die by SIGKILL, in the middle of a transaction, over and over, until all is delivered: exactly once."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kgroup.catchup.sinks.files import write_manifest
from kgroup.catchup.worker.task_spec import Handling, TaskSpec, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from tests.helpers.catchup.replays import Replay, producer, replay, seen, sources
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT

Name = Callable[[str], str]
RECORDS = 4000


@pytest.fixture
def source(world: KafkaWorld, bootstrap: str, name: Name) -> str:
    """Two partitions, in transactions of 100 of which each fourth was aborted."""
    topic = world.topic(name("orders"), partitions=2)
    writer = producer(bootstrap, transactional_id=name("writer"), linger_ms=5)
    writer.init_transactions(30)
    for partition in range(2):
        for start in range(0, RECORDS, 100):
            writer.begin_transaction()
            for number in range(start, start + 100):
                writer.produce(topic, b"%d" % number, b"k%d" % number, partition, headers=[("n", b"%d" % number)])
            assert writer.flush(30) == 0
            (writer.abort_transaction if start % 400 == 0 else writer.commit_transaction)(30)
    return topic


def start(spec: TaskSpec, directory: Path) -> subprocess.Popen[str]:
    path = directory / f"spec-{spec.number}"
    path.write_bytes(pickle.dumps(spec))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.catchup.worker_process", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def run_until_killed(spec: TaskSpec, directory: Path, telling: int) -> bool:
    """Kill it when it has told so often; whether it had finished before."""
    with start(spec, directory) as process:
        assert process.stdout
        with closing(process.stdout):
            for number, line in enumerate(process.stdout):
                if line.strip() == "finished":
                    return True
                if number >= telling:
                    process.kill()
                    return False
        raise AssertionError(f"ended by itself: {process.wait()}")


def killed_over_and_over(
    plan: Replay,
    spec: Callable[[int, RateLimit | None], TaskSpec],
    directory: Path,
    kills: int,
    rate: float,
    enough: Callable[[], bool] = lambda: True,
) -> int:
    """Kill tasks, slowed down to a rate, then let each end by itself; how many died.

    More kills follow, up to four times as many, until they were ``enough``.
    """
    chance, left, died = random.Random(6), set(range(len(plan.tasks))), 0
    while left and (died < kills or (died < 4 * kills and not enough())):
        number = chance.choice(sorted(left))
        if run_until_killed(spec(number, RateLimit(records_per_s=rate)), directory, chance.randrange(1, 4)):
            left.discard(number)
        else:
            died += 1
    for number in left:
        assert run_until_killed(spec(number, None), directory, 10**6)
    return died


@pytest.mark.soak
def test_copied_exactly_once_however_often_the_worker_dies(
    world: KafkaWorld, bootstrap: str, source: str, name: Name, tmp_path: Path
) -> None:
    target = world.topic(name("copy"), partitions=2)
    ends = [len(seen(bootstrap, source, "read_uncommitted")) // 2 + RECORDS // 100] * 2
    spans = [
        (source, partition, end * part // 4, end * (part + 1) // 4)
        for partition, end in enumerate(ends)
        for part in range(4)
    ]
    with replay(bootstrap, name("ledger"), spans, [[0, 1, 2, 3], [4, 5, 6, 7]]) as plan:

        def spec(number: int, limit: RateLimit | None) -> TaskSpec:
            return plan.spec("topic", {"topic": target}, number, rate=limit, bounds=TransactionBounds(records=400))

        assert killed_over_and_over(plan, spec, tmp_path, 30, 500) == 30
        proof = plan.proof()

    expected = seen(bootstrap, source)
    found = seen(bootstrap, target)
    assert [(one.partition, one.key, one.value, one.own) for one in found] == [
        (one.partition, one.key, one.value, one.own) for one in expected
    ]
    assert sources(found) == [f"{source}:{one.partition}:{one.offset}" for one in expected]
    assert proof.complete
    assert proof.records == len(expected)
    assert len(seen(bootstrap, target, "read_uncommitted")) > len(found), "no kill hit an open transaction"


@pytest.mark.soak
def test_many_small_partitions_of_one_task_are_copied_exactly_once(
    world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    """Their records are fetched at the same time, and several of them are in each transaction."""
    many, each = 80, 25
    topic, target = world.topic(name("many"), partitions=many), world.topic(name("copy"), partitions=many)
    writer = producer(bootstrap, linger_ms=5)
    for number in range(many * each):
        writer.produce(topic, b"%d" % number, b"k%d" % number, number % many)
    assert writer.flush(30) == 0
    with replay(bootstrap, name("ledger"), [(topic, partition, 0, each) for partition in range(many)]) as plan:

        def spec(number: int, limit: RateLimit | None) -> TaskSpec:
            return plan.spec("topic", {"topic": target}, number, rate=limit, bounds=TransactionBounds(records=130))

        def hit() -> bool:
            return len(seen(bootstrap, target, "read_uncommitted")) > len(seen(bootstrap, target))

        killed_over_and_over(plan, spec, tmp_path, 6, 300, hit)
        proof = plan.proof()

    found = sources(seen(bootstrap, target))
    assert Counter(found) == Counter(
        f"{topic}:{partition}:{offset}" for partition in range(many) for offset in range(each)
    )
    assert proof.complete
    assert proof.records == many * each
    assert hit(), "no kill hit an open transaction"


@pytest.mark.soak
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_files_are_whole_however_often_the_worker_dies(
    world: KafkaWorld, bootstrap: str, source: str, name: Name, tmp_path: Path, form: str
) -> None:
    end = len(seen(bootstrap, source, "read_uncommitted")) // 2 + RECORDS // 100
    spans = [(source, 0, end * part // 6, end * (part + 1) // 6) for part in range(6)]
    options = {"dir": str(tmp_path / "out"), "format": form}
    with replay(bootstrap, name("ledger"), spans) as plan:

        def spec(number: int, limit: RateLimit | None) -> TaskSpec:
            return plan.spec("files", options, number, rate=limit)

        assert killed_over_and_over(plan, spec, tmp_path, 4, 1000) == 4
        assert plan.proof().complete
        found = plan.ledger.read(plan.runner.plan_id)
        write_manifest(options, found.plan, found.progress)

    expected = [one.offset for one in seen(bootstrap, source) if one.partition == 0]
    paths = sorted((tmp_path / "out" / plan.runner.plan_id / source / "0").iterdir())
    assert [path.suffix for path in paths if not path.name.startswith(".")] == [f".{form}"] * 6
    assert offsets_in([path for path in paths if not path.name.startswith(".")]) == expected


def offsets_in(paths: list[Path]) -> list[int]:
    if paths[0].suffix == ".parquet":
        import pyarrow.parquet

        return [offset for path in paths for offset in pyarrow.parquet.read_table(path)["offset"].to_pylist()]
    return [json.loads(line)["offset"] for path in paths for line in path.read_bytes().splitlines()]


@pytest.mark.programs("cat")
def test_a_handler_gets_all_and_no_more_twice_than_was_said(
    world: KafkaWorld, bootstrap: str, source: str, name: Name, tmp_path: Path
) -> None:
    got = tmp_path / "got"
    end = len(seen(bootstrap, source, "read_uncommitted")) // 2 + RECORDS // 100
    spans = [(source, 0, end * part // 3, end * (part + 1) // 3) for part in range(3)]
    with replay(bootstrap, name("ledger"), spans) as plan:

        def spec(number: int, limit: RateLimit | None) -> TaskSpec:
            return plan.spec(
                "command",
                {"command": f"cat >> {got}", "value-format": "json"},
                number,
                handling=Handling(batch=50, window=300),
                rate=limit,
            )

        def times() -> Counter[int]:
            lines = got.read_text().splitlines(keepends=True)  # an orphan may still write the last one
            return Counter(json.loads(line)["offset"] for line in lines if line.endswith("\n"))

        def repeated() -> int:
            return sum(number - 1 for number in times().values())

        assert killed_over_and_over(plan, spec, tmp_path, 4, 1000, lambda: repeated() > 0) >= 4
        proof = plan.proof()

    assert sorted(times()) == [one.offset for one in seen(bootstrap, source) if one.partition == 0]
    (row,) = proof.partitions
    assert 0 < repeated() <= row.may_repeat
    assert proof.complete
