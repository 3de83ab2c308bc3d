"""Which ranges Spark's Kafka source is asked for, and with which options."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kgroup.catchup.spark.kafka_source import rounds, source_options
from kgroup.model.records import OffsetRange
from kgroup.support.errors import UsageError
from tests.helpers.manual import page


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([("orders", 0, 10, 20)], [[("orders", 0, 10, 20)]]),
        ([("orders", 0, 20, 30), ("orders", 0, 10, 20)], [[("orders", 0, 10, 30)]]),
        ([("orders", 0, 10, 20), ("orders", 1, 20, 30)], [[("orders", 0, 10, 20), ("orders", 1, 20, 30)]]),
        (
            [("orders", 0, 10, 20), ("orders", 0, 25, 30), ("clicks", 0, 5, 6)],
            [[("clicks", 0, 5, 6), ("orders", 0, 10, 20)], [("orders", 0, 25, 30)]],
        ),
    ],
    ids=["nothing", "one", "adjacent", "partitions", "with a hole"],
)
def test_one_range_of_a_partition_at_a_time(
    ranges: list[tuple[str, int, int, int]], expected: list[list[tuple[str, int, int, int]]]
) -> None:
    loads = rounds(OffsetRange(*one) for one in ranges)

    assert [list(load.values()) for load in loads] == [[OffsetRange(*one) for one in load] for load in expected]


def test_the_addresses_are_the_connections_unless_others_are_named() -> None:
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"}

    options = source_options(login, "broker:9092")

    assert options == {
        "kafka.bootstrap.servers": "broker:9092",
        **login,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }
    assert source_options({"kafka.bootstrap.servers": "k:1"}, "broker:9092")["kafka.bootstrap.servers"] == "k:1"


def test_the_options_of_the_manual() -> None:
    (code,) = re.findall(r"<!-- kafka-options -->\n```python\n(login = .*?\n)", page("catchup/notebook.md"))
    values: dict[str, Any] = {}
    exec(code, values)

    assert source_options(values["login"], "broker:9092").items() >= values["login"].items()


@pytest.mark.parametrize("name", ["assign", "SUBSCRIBE", "endingOffsets", "failondataloss", "kafka.isolation.level"])
def test_what_the_plan_decides_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"kafka_options: {name} is set by kgroup"):
        source_options({name: "x"}, "broker:9092")
