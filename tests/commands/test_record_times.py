"""Records whose timestamps are of 1970, of the future, or in seconds, as every verb that tells an age sees them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaProducer

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]

HOUR = 3_600_000
YEAR = 365 * 24 * HOUR


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    """A topic that keeps what producers say: 0, seconds, seven years ahead, and on the last partition the truth."""
    config = {"message.timestamp.after.max.ms": f"{2**63 - 1}", "retention.ms": "-1"}
    topic, now_ms = world.topic(name("orders"), 4, config), round(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=world.bootstrap)  # librdkafka replaces a timestamp of 0
    for _ in range(3):
        producer.send(topic, b"x", partition=0, timestamp_ms=0)
    producer.close(30)
    for partition, time_ms in ((1, now_ms // 1000), (2, now_ms + 7 * YEAR), (3, now_ms)):
        world.produce_at(topic, partition, [time_ms] * 3)
    return topic


@pytest.mark.soak
def test_no_age_is_told_from_them(
    kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str, bystander: str
) -> None:
    group, healthy, clicks = name("svc"), name("healthy"), world.topic(name("clicks"))
    world.produce(clicks, 3)
    world.commit(healthy, {(clicks, 0): 2})
    world.commit(group, {(orders, number): 2 for number in range(4)})
    before = world.exact(group), world.exact(bystander)

    (document,) = kgroup("lag", group, "-o", "json").data
    rows = document["partitions"]
    assert [row["lag"] for row in rows] == [1] * 4
    assert [row["time_lag_ms"] is None for row in rows] == [True, True, True, False]
    assert [row["in_per_s"] is None for row in rows] == [True, True, True, False]
    assert [row["retention_left_ms"] for row in rows] == [None] * 4
    whys = [row["time_lag_unknown_reason"] for row in rows]
    assert whys[0] == f"timestamps of {orders}:0 are of 1970 (1970-01-01T00:00:00Z): the producer's clock"
    assert whys[1].startswith(f"timestamps of {orders}:1 are of 1970 (1970-01-")
    assert whys[1].endswith(", probably in seconds): the producer's clock")
    assert " in the future (" in whys[2]
    assert whys[3] is None
    assert (document["time_lag_ms"], document["oldest_partition"]) == (None, {"topic": orders, "partition": 3})

    page = kgroup("describe", group).stdout
    assert f"CLOCK  timestamps of {orders}:0 are of 1970 (1970-01-01T00:00:00Z) and of {orders}:1 are " in page
    assert "(and 1 more partition): the producer's clock\n" in page
    assert "retention may delete" not in page
    assert "oldest unread record at least " in page
    many = kgroup("lag", group, healthy)
    assert f"note: {group}: ages and rates are unknown: timestamps of {orders}:0 are of 1970 " in many.stderr

    failed = kgroup("lag", group, "--max-lag-time", "1h", "-o", "json", exit_code=8).data[0]["violations"]
    assert failed == [
        {
            "subject": group,
            "text": f"age of the oldest unread record unknown ({whys[0]}), the limit is 1h",
            "known": False,
        }
    ]
    assert kgroup("lag", healthy, "--max-lag-time", "1h").exit_code == 0
    waited = kgroup("wait", group, "--for", "lag-time=1h", "--within", "0s", exit_code=8)
    assert f"age of the oldest unread record of {orders}:0 unknown" in waited.stdout
    (unstarted,) = kgroup(
        "catchup", "start", group, "--if-behind", "1h", "--release-only", "--execute", "-o", "json"
    ).data
    assert unstarted["unstarted_reason"] == "lag-unknown"

    (checked,) = (each for each in kgroup("doctor", group, "-o", "json").data if each["group"] == group)
    (finding,) = (each for each in checked["findings"] if each["rule"] == "unusable-timestamps")
    assert (finding["severity"], finding["affected"]) == ("info", [f"{orders}:{number}" for number in range(3)])
    assert "unusable-timestamps" not in kgroup("doctor", healthy).stdout
    assert "CLOCK" not in kgroup("describe", healthy).stdout
    metrics = kgroup("lag", group, "--by", "partition", "-o", "prometheus").stdout
    ages = [line for line in metrics.splitlines() if line.startswith("kafka_consumergroup_group_lag_seconds{")]
    assert [f'partition="{number}"' in "".join(ages) for number in range(4)] == [False, False, False, True]
    assert (world.exact(group), world.exact(bystander)) == before


def test_what_is_read_to_the_end_has_no_wrong_rates(
    kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str, bystander: str
) -> None:
    """Nothing is unread, so no record is read: the newest timestamp of each log shows it."""
    group = name("svc")
    world.commit(group, {(orders, number): 3 for number in range(4)})

    (document,) = kgroup("lag", group, "-o", "json").data

    assert [row["in_per_s"] is None for row in document["partitions"]] == [True, True, True, False]
    assert [row["time_lag_ms"] for row in document["partitions"]] == [0] * 4
    assert kgroup("lag", group, "--max-lag-time", "1h").exit_code == 0
    assert f"CLOCK  timestamps of {orders}:0 are " in kgroup("describe", group).stdout
