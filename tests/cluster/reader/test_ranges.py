"""Ranges of offsets read to their end on a real broker: all of a range, or an error that says what is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.admin import ACLOperation, ResourceType

from kgroup.cluster.producer import TopicWriter
from kgroup.cluster.reader.ranges import check_topic, read_ranges
from kgroup.model.records import OffsetRange
from kgroup.support.errors import AuthenticationFailed, KgroupError, NotAuthorized, NotFound, Refused, Unreachable
from tests.commands.test_rights import Bob, topic
from tests.helpers import programs
from tests.helpers.access_rules import rule, rules_admin, set_rules
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import USERS, SecureBroker, secure_broker
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0
SHORT_S = 1.0
AMPLE_S = 120.0
"""What is not to be waited for."""


@pytest.fixture
def config(bootstrap: str) -> Config:
    return {"bootstrap.servers": bootstrap, "log_level": "0"}


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """One with users, that makes topics when it is asked for them."""
    with secure_broker(tmp_path_factory.mktemp("reading"), QuietReporter()) as running:
        yield running


@pytest.fixture(scope="module")
def secured(broker: SecureBroker) -> Iterator[KafkaWorld]:
    with KafkaWorld(broker.addresses["ADMIN"]) as world:
        yield world


def offsets(config: Config, *ranges: OffsetRange, timeout_s: float = TIMEOUT_S, **more: Any) -> list[int]:
    return [record.offset for record in read_ranges(config, ranges, timeout_s=timeout_s, **more)]


def refusal(config: Config, *ranges: OffsetRange) -> Refused:
    """Why they can't be read, as soon as nothing came for a moment."""
    with pytest.raises(Refused) as raised:
        offsets(config, *ranges, timeout_s=2.0)
    return raised.value


@contextmanager
def transactions(bootstrap: str, name: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    yield producer


def transaction(producer: Producer, topic: str, count: int, *, commit: bool, partition: int = 0) -> None:
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_range_is_read_whatever_it_is_compressed_with(
    config: Config, world: KafkaWorld, name: Name, codec: str
) -> None:
    place = world.topic(name("orders"))
    producer = Producer(config | {"compression.type": codec, "linger.ms": 50})
    for number in range(100):
        producer.produce(place, f"value {number}".encode(), f"key {number}".encode(), partition=0)
    assert producer.flush(30) == 0

    found = list(read_ranges(config, [OffsetRange(place, 0, 10, 90)], timeout_s=TIMEOUT_S))

    assert [record.offset for record in found] == list(range(10, 90))
    assert [record.value for record in found] == [f"value {number}".encode() for number in range(10, 90)]
    assert [record.key for record in found] == [f"key {number}".encode() for number in range(10, 90)]


def test_a_record_is_read_as_it_was_written(config: Config, world: KafkaWorld, name: Name) -> None:
    place = world.topic(name("orders"))
    headers = [("type", b"refund"), ("type", b"\xff\x00"), ("none", None), ("empty", b""), ("größe", "groß".encode())]
    producer = Producer(config)
    producer.produce(place, b"\x00\xff", b"\xc3\x28", timestamp=1_600_000_000_123, headers=headers)
    producer.produce(place, b"", b"", timestamp=1)
    producer.produce(place, None, None, timestamp=2)
    assert producer.flush(30) == 0

    first, second, third = read_ranges(config, [OffsetRange(place, 0, 0, 3)], timeout_s=TIMEOUT_S)

    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == (place, 0, 0, 1_600_000_000_123)
    assert (first.key, first.value, first.headers) == (b"\xc3\x28", b"\x00\xff", tuple(headers))
    assert (second.key, second.value, second.headers, second.timestamp_ms) == (b"", b"", (), 1)
    assert (third.key, third.value) == (None, None)


def test_several_topics_and_partitions_and_ranges_that_overlap(config: Config, world: KafkaWorld, name: Name) -> None:
    one, other = world.topic(name("one"), partitions=3), world.topic(name("other"))
    for partition in range(3):
        world.produce(one, 20, partition)
    world.produce(other, 10)
    ranges = [
        OffsetRange(one, 0, 5, 12),
        OffsetRange(one, 0, 0, 6),
        OffsetRange(one, 0, 18, 20),
        OffsetRange(one, 2, 3, 4),
        OffsetRange(one, 1, 7, 7),
        OffsetRange(other, 0, 0, 10),
        OffsetRange(other, 0, 0, 10),
    ]

    found: dict[tuple[str, int], list[int]] = {}
    for record in read_ranges(config, ranges, timeout_s=TIMEOUT_S):
        found.setdefault((record.topic, record.partition), []).append(record.offset)

    assert found == {(one, 0): [*range(12), 18, 19], (one, 2): [3], (other, 0): [*range(10)]}


def test_empty_ranges_need_no_broker() -> None:
    dead = {"bootstrap.servers": "127.0.0.1:1"}

    assert offsets(dead) == []
    assert offsets(dead, OffsetRange("t", 0, 5, 5), OffsetRange("t", 1, 5, 3)) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 21, [*range(10), 17, 18, 19]),
        (0, 14, [*range(10)]),  # ends among aborted records
        (12, 14, []),  # aborted ones alone
        (5, 11, [5, 6, 7, 8, 9]),  # ends with a control record
        (10, 11, []),  # a control record alone
        (5, 10, [5, 6, 7, 8, 9]),
        (16, 18, [17]),
        (20, 21, []),  # the last of the log, a control record
    ],
)
def test_transactions(config: Config, aborted: str, start: int, end: int, expected: list[int]) -> None:
    assert offsets(config, OffsetRange(aborted, 0, start, end)) == expected


@pytest.fixture(scope="module")
def aborted(world: KafkaWorld, bootstrap: str) -> str:
    """0-9 and a commit at 10; 11-15, aborted at 16; 17-19 and a commit at 20."""
    place = world.topic(f"aborted-{os.getpid()}-{time.monotonic_ns()}")
    with transactions(bootstrap, place) as producer:
        transaction(producer, place, 10, commit=True)
        transaction(producer, place, 5, commit=False)
        transaction(producer, place, 3, commit=True)
    return place


def test_an_aborted_tail_is_read_to_its_end(config: Config, world: KafkaWorld, name: Name) -> None:
    place = world.topic(name("orders"))
    with transactions(world.bootstrap, place) as producer:
        transaction(producer, place, 4, commit=True)
        transaction(producer, place, 6, commit=False)

    assert offsets(config, OffsetRange(place, 0, 0, 12)) == [0, 1, 2, 3]
    assert offsets(config, OffsetRange(place, 0, 0, 12), isolation="read_uncommitted") == [0, 1, 2, 3, *range(5, 11)]


@pytest.mark.soak
def test_an_open_transaction_is_named(config: Config, world: KafkaWorld, name: Name) -> None:
    place = world.topic(name("orders"), partitions=2)
    world.produce(place, 3)
    world.produce(place, 3, partition=1)
    with transactions(world.bootstrap, place) as producer:
        producer.begin_transaction()
        producer.produce(place, b"open", partition=0)
        assert producer.flush(30) == 0
        world.produce(place, 2)
        ranges = [OffsetRange(place, 0, 1, 6), OffsetRange(place, 1, 0, 3)]

        refused = refusal(config, *ranges)
        assert refused.code == "open-transaction"
        assert f"{place}:0: an open transaction hides the records from offset 3 to 6" in refused.message
        assert offsets(config, OffsetRange(place, 0, 0, 3)) == [0, 1, 2]

        # One that ends in time is waited for.
        threading.Timer(0.5, producer.commit_transaction, [30]).start()
        assert offsets(config, *ranges[:1]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("times", [1, pytest.param(100, marks=pytest.mark.soak)])
def test_records_that_are_gone_are_named(config: Config, world: KafkaWorld, name: Name, times: int) -> None:
    """Often: librdkafka's client did not always close after it."""
    place = world.topic(name("orders"))
    world.produce(place, 10)
    world.delete_records(place, 0, 4)

    for end, last in ((10, 3), (3, 2)) * times:
        with pytest.raises(Refused) as raised:
            offsets(config, OffsetRange(place, 0, 1, end))
        assert raised.value.code == "records-gone"
        assert raised.value.message == f"{place}:0: offsets 1 to {last} are gone, the log starts at 4 now"
    assert offsets(config, OffsetRange(place, 0, 4, 10)) == [*range(4, 10)]


def test_records_that_go_while_they_are_read_are_named(config: Config, world: KafkaWorld, name: Name) -> None:
    place = world.topic(name("orders"))
    world.produce(place, 4000, value=b"x" * 10_000)
    small = config | {
        "queued.max.messages.kbytes": 64,
        "fetch.message.max.bytes": 65_536,
        "fetch.max.bytes": 65_536,
        "message.max.bytes": 65_536,
        "queued.min.messages": 1,
    }
    records = read_ranges(small, [OffsetRange(place, 0, 0, 4000)], timeout_s=TIMEOUT_S)
    found = [next(records).offset]
    world.delete_records(place, 0, 3990)

    with pytest.raises(Refused, match="are gone, the log starts at 3990 now") as raised:
        found.extend(record.offset for record in records)

    assert found == [*range(len(found))]
    assert len(found) < 3990
    assert f"offsets {len(found)} to 3989" in raised.value.message


@pytest.mark.parametrize(("start", "end"), [(0, 8), (5, 8), (6, 8)])
def test_a_range_beyond_the_log_is_refused(config: Config, world: KafkaWorld, name: Name, start: int, end: int) -> None:
    place = world.topic(name("orders"))
    world.produce(place, 5)

    refused = refusal(config, OffsetRange(place, 0, start, end))

    assert refused.code == "beyond-log-end"
    assert refused.message == f"{place}:0 ends at 5 and cannot be read up to {end}"


def test_what_does_not_exist_is_not_found_and_not_made(secured: KafkaWorld, name: Name) -> None:
    config = {"bootstrap.servers": secured.bootstrap}  # where topics are made by asking for them
    place, missing = secured.topic(name("orders")), name("missing")

    with pytest.raises(NotFound, match=f"{missing} does not exist"):
        offsets(config, OffsetRange(missing, 0, 0, 5))
    with pytest.raises(NotFound, match=f"{missing} does not exist"):
        check_topic(config, missing, timeout_s=TIMEOUT_S)
    with pytest.raises(NotFound, match=f"{place}:7 does not exist"):
        offsets(config, OffsetRange(place, 7, 0, 5))

    check_topic(config, place, timeout_s=TIMEOUT_S)
    assert missing not in AdminClient(config).list_topics(timeout=10).topics


def test_a_compacted_log_is_read_over_its_holes(secured: KafkaWorld, name: Name) -> None:
    config = {"bootstrap.servers": secured.bootstrap}
    admin = AdminClient(config)
    often = ConfigResource(
        ConfigResource.Type.BROKER,
        "1",
        incremental_configs=[ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([often])[often].result(30)
    place = secured.topic(
        name("table"),
        config={
            "cleanup.policy": "compact",
            "segment.ms": "50",
            "min.cleanable.dirty.ratio": "0.0",
            "max.compaction.lag.ms": "50",
            "delete.retention.ms": "0",
        },
    )
    producer = Producer(config)

    def produce(key: str, value: bytes | None) -> None:
        producer.produce(place, value, key.encode())
        assert producer.flush(30) == 0

    for number in range(60):
        produce(f"k{number % 3}", b"old")
    log_end = 60

    def compacted() -> bool:
        nonlocal log_end
        produce("roll", b"new")  # a segment is rolled, and cleaned, only when the next record comes
        log_end += 1
        return len(offsets(config, OffsetRange(place, 0, 0, 60))) <= 3

    wait_for(compacted, "compaction", within_s=60)

    assert offsets(config, OffsetRange(place, 0, 2, 40)) == []
    assert offsets(config, OffsetRange(place, 0, 0, 60)) == [57, 58, 59]
    assert offsets(config, OffsetRange(place, 0, 0, log_end))[-1] == log_end - 1


def test_no_group_comes_into_being(config: Config, world: KafkaWorld, name: Name, bystander: str) -> None:
    place = world.topic(name("orders"))
    world.produce(place, 5)
    before = world.groups()

    assert offsets(config, OffsetRange(place, 0, 0, 5)) == [*range(5)]

    assert "kgroup-reader" not in world.groups()
    assert set(world.groups()) == set(before)


def test_a_cluster_that_does_not_answer(capfd: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()

    with pytest.raises(Unreachable) as raised:
        offsets({"bootstrap.servers": "127.0.0.1:1"}, OffsetRange("t", 0, 0, 5), timeout_s=SHORT_S)

    assert raised.value.code == "timed-out"
    assert "Connection refused" in raised.value.details[0]
    assert time.monotonic() - began < 30, "no longer than it may take"
    assert capfd.readouterr().err == ""


def test_ctrl_c_is_heard() -> None:
    def interrupted() -> None:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        offsets({"bootstrap.servers": "127.0.0.1:1"}, OffsetRange("t", 0, 0, 5), timeout_s=AMPLE_S)

    began = time.monotonic()

    with pytest.raises(KeyboardInterrupt):  # around the timer too: what is not caught would end the whole run
        interrupted()

    assert time.monotonic() - began < AMPLE_S / 2


def login(broker: SecureBroker, user: str = "bob", **changes: str) -> Config:
    return {
        "bootstrap.servers": broker.addresses["SCRAM"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.location": broker.certificates.certificate("ca"),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }


def test_a_refused_login_is_not_waited_for(broker: SecureBroker, capfd: pytest.CaptureFixture[str]) -> None:
    wrong = login(broker, sasl_password="not-the-password")
    began = time.monotonic()

    with pytest.raises(AuthenticationFailed) as raised:
        offsets(wrong, OffsetRange("t", 0, 0, 5), timeout_s=AMPLE_S)

    assert "SCRAM-SHA-512" in raised.value.details[0]
    assert "not-the-password" not in str(raised.value.details)
    assert time.monotonic() - began < AMPLE_S / 2
    assert capfd.readouterr().err == ""


def test_a_foreign_certificate_is_not_waited_for(broker: SecureBroker) -> None:
    began = time.monotonic()

    with pytest.raises(Unreachable) as raised:
        offsets(
            login(broker, ssl_ca_location=broker.certificates.certificate("otherca")),
            OffsetRange("t", 0, 0, 5),
            timeout_s=AMPLE_S,
        )

    assert raised.value.code == "tls"
    assert "certificate verify failed" in raised.value.details[0]
    assert time.monotonic() - began < AMPLE_S / 2


def test_rights(broker: SecureBroker, secured: KafkaWorld, name: Name, capfd: pytest.CaptureFixture[str]) -> None:
    place = secured.topic(name("orders"))
    secured.produce(place, 5)
    wanted, bob = OffsetRange(place, 0, 0, 5), Bob(broker)

    bob.may()
    with pytest.raises(NotAuthorized, match="no READ on Topic") as raised:
        offsets(login(broker), wanted)
    assert raised.value.hint is not None
    assert f"--operation Read --topic {place}" in raised.value.hint

    bob.may(topic(place))  # and no group at all
    assert offsets(login(broker), wanted) == [*range(5)]

    with TopicWriter(login(broker), place, timeout_s=TIMEOUT_S) as writer:
        writer.add(b"key", b"value", None, ())
        with pytest.raises(NotAuthorized, match="no WRITE on Topic") as raised:
            writer.finish()
    assert raised.value.hint is not None
    assert f"--operation Write --topic {place}" in raised.value.hint
    assert capfd.readouterr().err == ""
    assert offsets(login(broker), wanted) == [*range(5)]


def test_describe_alone_is_not_enough(broker: SecureBroker, secured: KafkaWorld, name: Name) -> None:
    place = secured.topic(name("orders"))
    secured.produce(place, 5)
    with rules_admin(broker.addresses["ADMIN"]) as admin:
        set_rules(admin, [rule(ACLOperation.DESCRIBE, ResourceType.TOPIC, place)], beside=True)

    def refusal() -> KgroupError | None:
        with pytest.raises(KgroupError) as raised:
            offsets(login(broker), OffsetRange(place, 0, 0, 5))
        # Until the rule is known, it is DESCRIBE that is missing.
        return raised.value if "DESCRIBE" not in raised.value.message else None

    found = wait_for(refusal, "the rule")
    assert isinstance(found, NotAuthorized)
    assert found.message == f"no READ on Topic {place}:0"


def test_it_can_be_imported_without_kafka_python(tmp_path: Path) -> None:
    program = (
        "import sys, kgroup.cluster.reader.ranges, kgroup.cluster.producer\n"
        "heavy = {'kafka', 'rich', 'typer', 'kgroup.cluster.coordinator', 'kgroup.settings'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_many_records_take_seconds(config: Config, world: KafkaWorld, name: Name) -> None:
    place, count = world.topic(name("many"), partitions=2), 100_000
    producer = Producer(config | {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for partition in range(2):
        for _ in range(count):
            producer.produce(place, b"x" * 50, partition=partition)
    assert producer.flush(60) == 0
    began = time.monotonic()

    found = 0
    for _ in read_ranges(config, [OffsetRange(place, number, 0, count) for number in range(2)], timeout_s=TIMEOUT_S):
        found += 1

    assert found == 2 * count
    assert time.monotonic() - began < 20  # a second or two; the bound is for a machine that is busy
