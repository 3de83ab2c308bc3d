"""What a forward move skips: kept in files and topics, and shown in the plan."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kgroup.changes import save_skipped as skipped
from kgroup.changes.save_skipped import check_target, preview, save_skipped
from kgroup.model.records import ConsumerRecord, OffsetRange
from kgroup.settings.model import Setting, Settings
from kgroup.support.errors import ExitCode, NotFound, Refused, Unreachable, UsageError
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
HOUR_MS = 3_600_000


def settings_for(address: str, timeout_s: float = 10.0) -> Settings:
    return Settings({"bootstrap.servers": Setting("bootstrap.servers", address, "-b")}, timeout_s=timeout_s)


@pytest.fixture
def settings(bootstrap: str) -> Settings:
    return settings_for(bootstrap)


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 10_000_000})
    yield producer
    assert producer.flush(30) == 0


def read_back(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord]:
    """The records of a topic, through a plain client."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    )
    try:
        consumer.assign([ClientPartition(topic, number, 0) for number in range(partitions)])
        found: list[ConsumerRecord] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 0.2):
                assert message.error() is None, message.error()
                found.append(
                    ConsumerRecord(
                        topic,
                        message.partition() or 0,
                        message.offset() or 0,
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
        assert consumer.poll(0.2) is None
        return found
    finally:
        consumer.close()


# Files.


def test_a_file_has_every_record(settings: Settings, world: KafkaWorld, name: Name, tmp_path: Path) -> None:
    one, other = world.topic(name("one"), partitions=2), world.topic(name("other"))
    world.produce(one, 10)
    world.produce(one, 10, partition=1, value=b"\xff")
    world.produce(other, 2500)
    ranges = [OffsetRange(one, 0, 2, 5), OffsetRange(one, 1, 9, 10), OffsetRange(other, 0, 0, 2500)]
    ranges.append(ranges[0])
    target = tmp_path / "kept.ndjson"

    assert save_skipped(settings, ranges, str(target), QuietReporter()) == 2504

    found = [json.loads(text) for text in target.read_text().splitlines()]
    assert {(row["topic"], row["partition"], row["offset"]) for row in found} == {
        (item.topic, item.partition, offset) for item in ranges for offset in range(item.start, item.end)
    }
    assert len(found) == 2504
    assert {str(row["value"]) for row in found if row["partition"] == 1} == {"{'base64': '/w=='}"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_to_keep_makes_an_empty_file(settings: Settings, tmp_path: Path) -> None:
    assert save_skipped(settings, [OffsetRange("t", 0, 5, 5)], str(tmp_path / "kept"), QuietReporter()) == 0
    assert (tmp_path / "kept").read_bytes() == b""


def test_a_file_that_is_there_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("precious")

    with pytest.raises(UsageError, match="is there already") as raised:
        save_skipped(settings_for("127.0.0.1:1"), [OffsetRange("t", 0, 0, 5)], str(tmp_path / "kept"), QuietReporter())

    assert raised.value.exit_code is ExitCode.USAGE
    assert (tmp_path / "kept").read_text() == "precious"


def test_no_file_is_left_where_records_are_missing(
    settings: Settings, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    topic = world.topic(name("orders"), partitions=2)
    world.produce(topic, 10)
    world.produce(topic, 10, partition=1)
    world.delete_records(topic, 1, 5)

    with pytest.raises(Refused) as raised:
        save_skipped(
            settings,
            [OffsetRange(topic, number, 0, 10) for number in range(2)],
            str(tmp_path / "kept"),
            QuietReporter(),
        )

    assert raised.value.code == "records-gone"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("target", "message"), [("topic:", "names no topic"), ("", "requires the name of a file")])
def test_targets_that_mean_nothing(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        save_skipped(settings_for("127.0.0.1:1"), [], target, QuietReporter())


def test_stdout_needs_no_check() -> None:
    check_target("-")


@pytest.mark.parametrize("target", ["/dev/stdout", "-"])
def test_a_pipe_is_written_to(bootstrap: str, world: KafkaWorld, name: Name, target: str) -> None:
    topic = world.topic(name("orders"))
    world.produce(topic, 3)
    program = (
        "from tests.changes.test_save_skipped import *\n"
        f"save_skipped(settings_for({bootstrap!r}), [OffsetRange({topic!r}, 0, 0, 3)], {target!r}, QuietReporter())"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.stderr == ""
    assert [json.loads(text)["offset"] for text in done.stdout.splitlines()] == [0, 1, 2]


# Topics.


def test_a_topic_gets_every_record_as_it_was(
    settings: Settings, world: KafkaWorld, producer: Producer, name: Name
) -> None:
    topic, kept = world.topic(name("orders"), partitions=2), world.topic(name("kept"), partitions=3)
    now_ms = int(time.time() * 1000)
    headers = [("type", b"refund"), ("type", None), ("empty", b"")]
    producer.produce(topic, b"\x00\xff", b"\xff", partition=1, timestamp=now_ms - HOUR_MS, headers=headers)
    producer.produce(topic, None, b"key", partition=1, timestamp=now_ms)
    producer.produce(topic, b"", b"", partition=1, timestamp=now_ms)
    producer.produce(topic, b"no key", None, partition=1, timestamp=now_ms)
    assert producer.flush(30) == 0
    reporter = QuietReporter()

    assert save_skipped(settings, [OffsetRange(topic, 1, 0, 4)], f"topic:{kept}", reporter) == 4

    found = sorted(read_back(world.bootstrap, kept, 4, partitions=3), key=lambda item: item.headers[-1])
    assert [(item.key, item.value, item.timestamp_ms) for item in found] == [
        (b"\xff", b"\x00\xff", now_ms - HOUR_MS),
        (b"key", None, now_ms),
        (b"", b"", now_ms),
        (None, b"no key", now_ms),
    ]
    places = [
        (("kgroup.topic", topic.encode()), ("kgroup.partition", b"1"), ("kgroup.offset", str(offset).encode()))
        for offset in range(4)
    ]
    assert [item.headers for item in found] == [(*headers, *places[0]), *places[1:]]
    assert reporter.lines == []


def test_records_of_a_key_stay_in_order(settings: Settings, world: KafkaWorld, producer: Producer, name: Name) -> None:
    topic, kept = world.topic(name("orders")), world.topic(name("kept"), partitions=3)
    for number in range(3000):
        producer.produce(topic, str(number), f"key-{number % 7}")
    assert producer.flush(30) == 0

    assert save_skipped(settings, [OffsetRange(topic, 0, 0, 3000)], f"topic:{kept}", QuietReporter()) == 3000

    by_key: dict[bytes | None, list[tuple[int, int]]] = {}
    for item in read_back(world.bootstrap, kept, 3000, partitions=3):
        by_key.setdefault(item.key, []).append((item.partition, int(item.value or b"")))
    assert len(by_key) == 7
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1
        assert [number for _, number in places] == sorted(number for _, number in places)


def test_a_topic_is_never_made(settings: Settings, world: KafkaWorld, name: Name) -> None:
    topic, missing = world.topic(name("orders")), name("missing")
    world.produce(topic, 3)

    with pytest.raises(NotFound, match=f"{missing} does not exist"):
        save_skipped(settings, [OffsetRange(topic, 0, 0, 3)], f"topic:{missing}", QuietReporter())

    assert missing not in AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(timeout=10).topics


def test_records_are_not_put_back_where_they_are_skipped(settings: Settings, world: KafkaWorld, name: Name) -> None:
    topic = world.topic(name("orders"))
    world.produce(topic, 3)

    with pytest.raises(UsageError, match="would read the copies at its end"):
        save_skipped(settings, [OffsetRange(topic, 0, 0, 3)], f"topic:{topic}", QuietReporter())


def test_a_topic_that_would_delete_them_is_refused(
    settings: Settings, world: KafkaWorld, producer: Producer, name: Name
) -> None:
    topic, kept = world.topic(name("orders")), world.topic(name("kept"), config={"retention.ms": str(HOUR_MS)})
    old_ms = int(time.time() * 1000) - 2 * HOUR_MS
    producer.produce(topic, b"old", timestamp=old_ms)
    assert producer.flush(30) == 0

    with pytest.raises(Refused) as raised:
        save_skipped(settings, [OffsetRange(topic, 0, 0, 1)], f"topic:{kept}", QuietReporter())

    assert raised.value.code == "retention"
    assert f"{kept} keeps records for 1h, and {topic}:0 offset 0 is 2h old" in raised.value.message


@pytest.mark.parametrize(
    "config",
    [{"retention.ms": "-1"}, {"retention.ms": str(HOUR_MS), "message.timestamp.type": "LogAppendTime"}],
)
def test_a_topic_that_keeps_them_takes_old_ones(
    settings: Settings, world: KafkaWorld, producer: Producer, name: Name, config: dict[str, str]
) -> None:
    topic, kept = world.topic(name("orders")), world.topic(name("kept"), config=config)
    producer.produce(topic, b"old", timestamp=int(time.time() * 1000) - 2 * HOUR_MS)
    assert producer.flush(30) == 0

    assert save_skipped(settings, [OffsetRange(topic, 0, 0, 1)], f"topic:{kept}", QuietReporter()) == 1


def test_a_large_record_is_kept_where_the_topic_takes_it(
    settings: Settings, world: KafkaWorld, producer: Producer, name: Name
) -> None:
    topic = world.topic(name("orders"), config={"max.message.bytes": "5000000"})
    large = world.topic(name("large"), config={"max.message.bytes": "5000000"})
    small = world.topic(name("small"))
    value = os.urandom(3_000_000)
    producer.produce(topic, b"first")
    assert producer.flush(30) == 0
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    ranges = [OffsetRange(topic, 0, 0, 2)]

    assert save_skipped(settings, ranges, f"topic:{large}", QuietReporter()) == 2
    assert read_back(world.bootstrap, large, 2)[1].value == value

    with pytest.raises(Refused) as raised:
        save_skipped(settings, ranges, f"topic:{small}", QuietReporter())
    assert raised.value.code == "too-large"


def test_a_compacted_topic_is_warned_of_and_refuses_records_without_a_key(
    settings: Settings, world: KafkaWorld, producer: Producer, name: Name
) -> None:
    topic, kept = world.topic(name("orders")), world.topic(name("kept"), config={"cleanup.policy": "compact"})
    producer.produce(topic, b"value", b"key")
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
    reporter = QuietReporter()

    assert save_skipped(settings, [OffsetRange(topic, 0, 0, 1)], f"topic:{kept}", reporter) == 1
    assert reporter.lines == [
        f"WARNING {kept} is compacted: it keeps only the last of several records with the same key"
    ]

    with pytest.raises(Refused) as raised:
        save_skipped(settings, [OffsetRange(topic, 0, 1, 2)], f"topic:{kept}", QuietReporter())
    assert raised.value.code == "not-accepted"


@pytest.mark.soak
def test_what_a_topic_has_by_then_is_said(settings: Settings, world: KafkaWorld, name: Name) -> None:
    topic, kept = world.topic(name("orders")), world.topic(name("kept"))
    world.produce(topic, 40_000)
    settings = settings_for(settings.bootstrap_servers, timeout_s=5.0)
    with pytest.raises(Refused) as raised:
        save_skipped(settings, [OffsetRange(topic, 0, 0, 40_001)], f"topic:{kept}", QuietReporter())

    assert raised.value.code == "beyond-log-end"
    assert re.fullmatch(r"At least \d+ records had been written to .* before that\.", raised.value.details[-1])


def test_a_cluster_that_does_not_answer(capfd: pytest.CaptureFixture[str]) -> None:
    dead = settings_for("127.0.0.1:1", timeout_s=1.0)

    with pytest.raises(Unreachable):
        save_skipped(dead, [OffsetRange("t", 0, 0, 5)], "topic:kept", QuietReporter())

    assert capfd.readouterr().err == ""


# The preview.


def test_a_few_records_are_shown(
    settings: Settings, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipped, "_PREVIEW_S", 30.0)
    topic = world.topic(name("orders"), partitions=2)
    world.produce(topic, 5)
    world.produce(topic, 5, partition=1)
    began = time.monotonic()

    found = preview(settings, [OffsetRange(topic, 1, 2, 4), OffsetRange(topic, 0, 0, 3)])

    assert found is not None
    assert [(item.partition, item.offset) for item in found] == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3)]
    assert time.monotonic() - began < 15, "no longer than it takes to read them"


def test_no_preview_of_many(settings: Settings) -> None:
    assert preview(settings, [OffsetRange("t", 0, 0, 6)]) is None
    assert preview(settings, [OffsetRange("t", 0, 0, 3)], limit=2) is None
    assert preview(settings, []) == ()


def test_a_preview_fails_quietly_and_soon(settings: Settings, world: KafkaWorld, name: Name) -> None:
    topic = world.topic(name("orders"))
    world.produce(topic, 5)
    world.delete_records(topic, 0, 2)
    patient = settings_for(settings.bootstrap_servers, timeout_s=120.0)
    gssapi = Settings(
        {
            "bootstrap.servers": Setting("bootstrap.servers", "127.0.0.1:1", "-b"),
            "security.protocol": Setting("security.protocol", "SASL_PLAINTEXT", "-X"),
            "sasl.mechanism": Setting("sasl.mechanism", "GSSAPI", "-X"),
        },
        timeout_s=120.0,
    )
    for given, wanted in (
        (patient, OffsetRange(topic, 0, 0, 3)),
        (patient, OffsetRange(topic, 0, 4, 8)),
        (patient, OffsetRange(topic, 9, 0, 3)),
        (patient, OffsetRange(name("missing"), 0, 0, 3)),
        (settings_for("127.0.0.1:1", timeout_s=120.0), OffsetRange(topic, 0, 2, 5)),
        (gssapi, OffsetRange(topic, 0, 2, 5)),
    ):
        began = time.monotonic()
        assert preview(given, [wanted]) is None
        assert time.monotonic() - began < 60, "not as long as --timeout"


def test_loading_it_loads_no_client() -> None:
    loaded = "', '.join({'confluent_kafka', 'kafka'} & set(sys.modules))"
    program = f"import sys, kgroup.changes.save_skipped; sys.exit({loaded} or 0)"

    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
