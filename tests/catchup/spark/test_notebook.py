"""The source of a notebook, and the notebook of the manual, on a session as a user has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from kgroup.catchup.sinks.run_task import run_task
from kgroup.catchup.spark.notebook import parse, ranges_of
from kgroup.support.errors import NotFound
from tests.catchup.sinks.test_topic import SHAPES, produce_shapes
from tests.helpers.catchup import handler_functions
from tests.helpers.catchup.plans import NOW_MS
from tests.helpers.catchup.replays import producer, replay, seen
from tests.helpers.catchup.spark_in_process import spark_in_process
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_in_process("local[2]") as spark:
        yield spark


def test_a_range_of_no_partition_is_not_found(world: KafkaWorld, bootstrap: str, name: Name) -> None:
    source, config = world.topic(name("orders"), 2), {"bootstrap.servers": bootstrap}
    ranges = parse({"range": f"{source}:1=5-9 {source}:7=5-9"})

    assert ranges_of(replace(ranges, ranges=ranges.ranges[:1]), config, timeout_s=15) == ranges.ranges[:1]
    with pytest.raises(NotFound, match=f"{source}:7"):
        ranges_of(ranges, config, timeout_s=15)


@pytest.mark.soak
def test_read_in_a_notebook(spark: Any, world: KafkaWorld, bootstrap: str, name: Name) -> None:
    from kgroup.spark import register

    source = world.topic(name("orders"), 2, {"retention.ms": "-1"})
    produce_shapes(bootstrap, source)
    world.produce(source, 20)
    register(spark, bootstrap, properties={"client.id": "hunter2"})

    def read(**options: str) -> Any:
        return spark.read.format("kgroup").options(**options).load()

    shapes = read(range=f"{source}:1=0-{len(SHAPES)}")
    assert shapes.columns[-2:] == ["timestampType", "headers"]
    found = shapes.orderBy("offset").collect()
    assert [(row.key, row.value) for row in found] == [(key, value) for key, value, _, _ in SHAPES]
    assert [(one.key, one.value) for one in found[5].headers] == SHAPES[5][2]
    some = read(range=f"{source}:0=5-9", minPartitions="2")
    assert (some.rdd.getNumPartitions(), sorted(row.offset for row in some.collect())) == (2, [5, 6, 7, 8])
    with replay(bootstrap, name("ledger"), [(source, 0, 10, 20)]) as plan:
        run_task(plan.spec("python", {"function": f"{handler_functions.__name__}:keep"}))
        of_plan = {"plan": plan.runner.plan_id, "ledgerTopic": plan.ledger.topic}
        assert read(**of_plan).count() == 10
        assert read(**of_plan, pending="true").count() == 0
    world.delete_records(source, 0, 4)
    gone = {"range": f"{source}:0=0-20"}
    assert read(**gone, failOnDataLoss="false").count() == 16
    with pytest.raises(Exception, match="cannot be read"):
        read(**gone).count()
    with pytest.raises(AnalysisException) as raised:  # Java's stack would be an error of a task
        read(range=f"{source}:0=5-9 {source}:7=5-9").count()
    said = str(raised.value)
    assert f"{source}:7 does not exist" in said
    assert "Traceback" not in said
    plan_text = some._jdf.queryExecution().toString()
    assert "hunter2" not in plan_text


@pytest.mark.soak
def test_the_notebook_of_the_manual(spark: Any, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path) -> None:
    """The newest record of each key too: times are in another order than offsets; a key may be null, and a value."""
    text, out = page("catchup/notebook.md"), tmp_path / "out"
    code = "".join(re.findall(r"<!-- (?:notebook|newest) -->\n```python\n(.*?)```", text, re.S))
    source, writer = world.topic(name("source"), 2, {"retention.ms": "-1"}), producer(bootstrap)
    for number in range(300):
        key = None if number % 20 == 7 else b"k%d" % (number * 7 % 31)
        value = None if number % 13 == 3 else b"%d" % number
        writer.produce(source, value, key, number * 7 % 31 % 2, timestamp=NOW_MS - number * 37 % 101)
    writer.flush(10)
    newest = {(one.partition, one.key or one.offset): one.offset for one in seen(bootstrap, source)}
    notebook: dict[str, Any] = {"spark": spark}

    with replay(bootstrap, name("ledger"), [(source, p, 0, world.end(source, p)) for p in range(2)]) as plan:
        of_plan = f'"{plan.runner.plan_id}").option("ledgerTopic", "{plan.ledger.topic}"'
        code = code.replace('"cu-7f3a"', of_plan).replace("broker:9092", bootstrap)
        exec(code.replace("orders", source).replace("/lake/newest", str(out)), notebook)

        assert (notebook["records"].count(), notebook["some"].count()) == (300, 50)
    rows = notebook["spark"].read.parquet(str(out)).collect()
    assert sorted((row.partition, row.offset) for row in rows) == sorted((p, o) for (p, _), o in newest.items())
    assert any(row.value is None for row in rows)
    assert len([row for row in rows if row.key is None]) == 15
