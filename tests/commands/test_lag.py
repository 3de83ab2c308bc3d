"""``kgroup lag`` on a real broker: records, time, status, transactions, checks, metrics; the verdict of describe."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
At = Callable[[int], None]
MINUTE, HOUR = 60_000, 3_600_000


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """``at(moment_ms)``: it is that moment for kgroup, as if a test had waited until then."""

    def set_clock(moment_ms: int) -> None:
        monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: moment_ms)

    return set_clock


def now_ms() -> int:
    return round(time.time() * 1000)


def lag_of(kgroup: CommandLine, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    (document,) = kgroup("lag", *arguments, "-o", "json", exit_code=exit_code).data
    return document


@contextmanager
def transaction(world: KafkaWorld, topic: str, count: int, transactional_id: str) -> Iterator[Producer]:
    """An open transaction with so many records that the log has."""
    producer = Producer(
        {"bootstrap.servers": world.bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0
    yield producer


# Records, time, rows


def test_groups_topics_partitions(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, other = world.topic(name("orders"), partitions=2), world.topic(name("other"))
    world.produce(topic, 10, 0)
    world.produce(topic, 4, 1)
    world.produce(other, 1000)
    behind, near, there = (name(stem) for stem in ("behind", "near", "there"))
    world.commit(behind, {(topic, 0): 0, (topic, 1): 1})
    world.commit(near, {(topic, 0): 9, (topic, 1): 4, (other, 0): 0})
    world.commit(there, {(topic, 0): 10, (topic, 1): 4})

    lines = kgroup("lag", "--topic", topic).stdout.splitlines()
    assert lines[0].startswith(f"{topic}  2 ")
    assert [line.split()[:3] for line in lines if line.startswith((behind, near, there))] == [
        [behind, "Empty", "13"],
        [near, "Empty", "1"],
        [there, "Empty", "0"],
    ], "worst first, the other topic's lag left out"
    found = kgroup("lag", "--topic", topic, "-o", "json").data
    assert [(each["group"], each["lag"], each["largest_partition"], each["verdict"]) for each in found] == [
        (behind, 13, {"topic": topic, "partition": 0}, None),
        (near, 1, {"topic": topic, "partition": 0}, None),
        (there, 0, None, None),
    ]
    found = kgroup("lag", "-t", f"{topic}:1", "-o", "json").data
    assert [(row["group"], row["lag"]) for row in found if row["group"] in (behind, near, there)] == [
        (behind, 3),
        (near, 0),
        (there, 0),
    ], "of a partition, its own lag"
    by_topic = kgroup("lag", near, "--by", "topic", "--sort", "lag", "-o", "csv").rows
    assert [(row["topic"], row["lag"]) for row in by_topic] == [(other, "1000"), (topic, "1")]
    by_name = kgroup("lag", behind, near, "--by", "partition", "--sort", "name", "--topic", topic, "-o", "csv").rows
    assert [(row["group"], row["partition"], row["lag"]) for row in by_name] == [
        (behind, "0", "10"), (behind, "1", "3"), (near, "0", "1"), (near, "1", "0"),
    ]  # fmt: skip
    top = kgroup("lag", "--topic", topic, "--top", "1").stdout
    assert kgroup("lag", "--topic", topic, "-n", "2", "-o", "name").stdout.split() == [behind, near]
    assert behind in top
    assert near not in top
    assert "2 more" in top
    assert "LAG    10 on " in kgroup("lag", behind).stdout
    assert kgroup("lag", behind + "z", exit_code=5).stderr.count(behind) >= 2, "a near miss"
    assert [each["group"] for each in kgroup("lag", behind, name("no"), "-o", "json", exit_code=7).data] == [behind]


def test_a_batch_job_that_waits_for_its_next_run_comes_last(
    kgroup: CommandLine, world: KafkaWorld, name: Name, at: At, bystander: str
) -> None:
    """It has no reader, but no records arrive; ``--top`` has the largest lag all the same."""
    daily, orders, moment = world.topic(name("daily")), world.topic(name("orders")), now_ms() + 20 * MINUTE
    nightly, left = name("nightly"), name("left")
    world.produce_at(daily, 0, [moment - HOUR] * 24)
    world.produce_at(orders, 0, [moment - n * MINUTE for n in reversed(range(1, 9))])
    world.commit(nightly, {(daily, 0): 0})
    world.commit(left, {(orders, 0): 3})
    at(moment)

    lines = kgroup("lag", nightly, left).stdout.splitlines()

    assert [line.split()[0] for line in lines[2:4]] == [left, nightly]
    assert all("NO-READER" in line for line in lines[2:4])
    assert lines[4:] == ["1 of 2 groups has no reader while records arrive.", f"-> kgroup describe {left}"]
    assert kgroup("lag", nightly, left, "--top", "1", "-o", "name").stdout.split() == [nightly]
    assert kgroup("lag", nightly, left, "--sort", "name", "--top", "1", "-o", "name").stdout.split() == [left]


@pytest.mark.parametrize("form", ["csv", "name", "json"])
def test_groups_that_are_read_in_parts_have_the_same_rows(
    kgroup: CommandLine, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """In which order, and what a page has of them, is in output/pages/test_lag.py."""
    topic, stem = world.topic(name("orders"), partitions=2), name("g")
    world.produce(topic, 4, 1)
    for number in range(6):
        world.commit(f"{stem}-{number}", {(topic, 0): 0, (topic, 1): number % 3})
    of_these = ("lag", "--regex", f"{stem}-.*", "--no-time", "--scan-time", "0s", "--by", "partition", "-o", form)

    def rows() -> list[str]:
        result = kgroup(*of_these)
        return sorted(map(str, result.data if form == "json" else result.stdout.splitlines()))

    together = rows()
    monkeypatch.setattr("kgroup.queries.snapshots.GROUPS_AT_A_TIME", 1)
    assert rows() == together


def test_time_is_that_of_the_first_unread_record(
    kgroup: CommandLine, world: KafkaWorld, name: Name, at: At, bystander: str
) -> None:
    topic, group, moment = world.topic(name("orders"), partitions=2), name("svc"), now_ms() + 5 * MINUTE
    world.produce_at(topic, 0, [moment - 3 * HOUR, moment - HOUR, moment - MINUTE])
    world.produce_at(topic, 1, [moment - 2 * MINUTE])
    world.commit(group, {(topic, 0): 1, (topic, 1): 1})
    at(moment + 10_000)

    document = lag_of(kgroup, group)
    assert [row["time_lag_ms"] for row in document["partitions"]] == [HOUR + 10_000, 0]
    assert (document["lag"], document["time_lag_ms"], document["oldest_partition"]) == (
        2,
        HOUR + 10_000,
        {"topic": topic, "partition": 0},
    )
    other = name("other")
    world.commit(other, {(topic, 0): 0})
    ages = {each["group"]: each["time_lag_ms"] for each in kgroup("lag", group, other, "-o", "json").data}
    assert ages == {group: HOUR + 10_000, other: 3 * HOUR + 10_000}, "two offsets of one partition"
    page = kgroup("lag", group).stdout
    assert f"LAG    2 on {topic}:0, 100% of 2 over 1 of 2 partitions; oldest unread record 1h\n" in page

    without = lag_of(kgroup, group, "--no-time")
    assert (without["lag"], without["time_lag_ms"]) == (2, None)
    assert "age unknown: --no-time" in kgroup("lag", group, "--no-time").stdout

    assert kgroup("lag", group, "--max-lag-time", "2h", "--max-lag", "2").exit_code == 0
    broken = kgroup("lag", group, "--max-lag-time", "30m", "--max-lag", "1", exit_code=8).stdout
    assert [line for line in broken.splitlines() if line.startswith("FAILED")] == [
        f"FAILED  {group}: lag 2 is over 1, 100% of it on {topic}:0",
        f"FAILED  {group}: oldest unread record on {topic}:0 is 1h old, over 30m",
    ]
    (violation,) = lag_of(kgroup, group, "--by", "partition", "--max-lag", "1", exit_code=8)["violations"]
    assert violation == {"subject": f"{group} {topic}:0", "text": "lag 2 is over 1", "known": True}
    told = kgroup("lag", group, "--max-lag", "1", "-o", "csv", exit_code=8)
    assert "check failed: " in told.stderr
    assert "check failed" not in told.stdout
    both = kgroup("lag", group, "--max-lag-time", "1m", "--no-time", exit_code=2).stderr
    assert "--no-time" in both
    for wrong in (("--fail-on", "ok"), ("--max-lag-time", "5"), ("--top", "0"), ("--max-lag", "-1"), ("--by", "x")):
        kgroup("lag", group, *wrong, exit_code=2)


def test_what_holds_no_record_is_no_lag(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Emptied ranges, transaction markers, aborted records."""
    emptied, marked, aborted = (world.topic(name(stem)) for stem in ("emptied", "marked", "aborted"))
    group = name("svc")
    world.produce(emptied, 10)
    world.delete_records(emptied, 0, 10)
    with transaction(world, marked, 3, name("tx")) as producer:
        producer.commit_transaction(30)
    with transaction(world, aborted, 5, name("tx")) as producer:
        producer.abort_transaction(30)
    # The end of a transaction is answered a moment before its marker is in the log.
    wait_for(lambda: (world.end(marked), world.end(aborted)) == (4, 6), "markers")
    world.commit(group, {(emptied, 0): 4, (marked, 0): 3, (aborted, 0): 0})

    def lags(*arguments: str) -> dict[str, tuple[int, int]]:
        rows = lag_of(kgroup, group, *arguments)["partitions"]
        return {row["topic"]: (row["lag"], row["phantom_count"]) for row in rows}

    assert lags() == {emptied: (0, 0), marked: (0, 1), aborted: (6, 0)}
    assert lags("--isolation", "read_committed") == {emptied: (0, 0), marked: (0, 1), aborted: (0, 6)}
    committed = kgroup("lag", group, "--isolation", "read_committed").stdout
    assert "LAG    0 on 3 partitions; 7 more offsets hold no record\n" in committed


@pytest.mark.soak
def test_what_compaction_took_is_no_lag(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic, group = world.topic(name("orders"), config=settings), name("svc")
    world.produce_at(topic, 0, [now_ms() - HOUR] * 10, key=b"k")
    world.commit(group, {(topic, 0): 2})

    def compacted() -> bool:
        world.produce_at(topic, 0, [now_ms()], key=b"k")
        (row,) = lag_of(kgroup, group)["partitions"]
        return bool(row["phantom_count"] >= 8)

    wait_for(compacted, "compaction", within_s=90)
    assert lag_of(kgroup, group)["time_lag_ms"] < HOUR, "the record at the commit is gone, and so is its age"


# Transactions


# Status


# Metrics

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?[0-9.e+-]+)')


def metrics(text: str) -> dict[str, dict[str, float]]:
    """name -> labels -> value, of a text that the textfile collector would take."""
    found: dict[str, dict[str, float]] = {}
    typed = set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, metric, kind = line.split()
            assert kind == "gauge"
            typed.add(metric)
        elif not line.startswith("# HELP "):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            metric, labels, value = match.groups()
            assert metric in typed
            series = found.setdefault(metric, {})
            assert labels not in series
            series[labels] = float(value)
    return found


def one(found: dict[str, dict[str, float]], metric: str, *parts: str) -> float:
    (value,) = (v for labels, v in found[metric].items() if all(part in labels for part in parts))
    return value


def test_a_partition_without_a_commit_hides_no_age(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce_at(topic, 0, [now_ms() - HOUR] * 3)
    world.commit(group, {(topic, 0): 1})
    members.stable(members.classic(group, topic), partitions=2)  # it commits nothing by itself

    (row,) = kgroup("lag", group, "-o", "json").data
    found = metrics(kgroup("lag", group, "-o", "prometheus").stdout)
    page = kgroup("lag", group, "--by", "group").stdout

    assert (row["time_lag_ms"], row["lag"]) == (None, 2)
    assert row["time_lag_at_least_ms"] == pytest.approx(HOUR, abs=MINUTE)
    assert one(found, "kafka_consumergroup_group_max_lag_seconds", group) == pytest.approx(3600, abs=60)
    assert one(found, "kafka_consumergroup_group_sum_lag", group) == 2
    assert re.search(r" 2\+ +1h\+", page), page


def test_metrics(kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, bystander: str) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 2, (topic, 1): 0})
    found = metrics(kgroup("lag", group, "-o", "prometheus").stdout)
    assert one(found, "kafka_consumergroup_group_lag", group, 'partition="0"') == 3
    assert one(found, "kafka_consumergroup_group_sum_lag", group) == 3
    assert one(found, "kafka_partition_latest_offset", topic, 'partition="0"') == 5
    assert one(found, "kgroup_consumergroup_status", group) == 5, "NO-READER"
    unread = metrics(kgroup("lag", group, "-o", "prometheus", "--scan-time", "0s").stdout)
    assert "kgroup_consumergroup_status" not in unread, "unknown is no sample"
    assert abs(one(found, "kgroup_last_success_timestamp_seconds") - time.time()) < 60

    file = tmp_path / "kgroup.prom"
    written = ("lag", group, "-o", "prometheus", "--metrics-file", str(file))
    file.write_text("what was there before")
    assert kgroup(*written).stdout == ""
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("kgroup.prom")] == ["kgroup.prom"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    first = one(metrics(file.read_text()), "kgroup_last_success_timestamp_seconds")
    kgroup(*written, name("no"), exit_code=7)
    partly = metrics(file.read_text())
    assert one(partly, "kafka_consumergroup_group_sum_lag", group) == 3
    assert one(partly, "kgroup_last_success_timestamp_seconds") == pytest.approx(first, abs=0.001)
    before = file.read_bytes()
    kgroup("lag", name("no"), *written[2:], exit_code=5)
    assert file.read_bytes() == before, "nothing could be read: the file stands, and grows old"

    assert "--metrics-file" in kgroup("lag", group, "--metrics-file", str(file), exit_code=2).stderr
    assert "of kgroup lag only" in kgroup("list", "-o", "prometheus", exit_code=2).stderr
    kgroup("lag", group, "-o", "prometheus", "--metrics-file", str(tmp_path / "no" / "x.prom"), exit_code=2)


# The verdict of describe


def test_describe_of_many_groups_has_none(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, stem = world.topic(name("orders")), name("g")
    for number in range(21):
        world.commit(f"{stem}-{number}", {(topic, 0): 0})
    found = kgroup("describe", "--regex", f"{stem}-.*", "-o", "json").data
    assert len(found) == 21
    assert {each["verdict"] for each in found} == {None}
    assert all(each["verdict"] for each in kgroup("describe", f"{stem}-1", f"{stem}-2", "-o", "json").data)


def test_a_topic_that_was_left_before_a_rebalance(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """Whether the member that joins reads it is not known before the rebalance ends."""
    topic, old, group = world.topic(name("orders")), world.topic(name("old")), name("svc")
    world.produce(topic, 10)
    world.produce(old, 10)
    former = by_hand.join(world, group, {topic: [0], old: [0]})
    former.commit(topic, 0, 1)
    former.commit(old, 0, 1)
    former.leave()
    by_hand.join(world, group, {topic: [0]})

    def status() -> tuple[str | None, str | None]:
        rows = kgroup("lag", group, "-o", "json").data[0]["partitions"]
        (row,) = (row for row in rows if row["topic"] == old)
        return row["lag_status"], row["lag_status_unknown_reason"]

    assert status() == ("unsubscribed", None)
    members.classic(group, topic)
    wait_for(lambda: world.groups()[group][1] == "preparingrebalance", "a member that joins")
    assert status() == (None, "no member subscribed to its topic before the rebalance that is under way")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_not_late_with_a_topic_that_it_has_left(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str, bystander: str
) -> None:
    topic, old, group = world.topic(name("orders")), world.topic(name("old")), name("svc")
    world.produce(topic, 5)
    world.produce(old, 10)
    world.commit(group, {(topic, 0): 5, (old, 0): 4})
    start = members.classic if protocol == "classic" else members.consumer
    members.stable(start(group, topic), partitions=1)

    (found,) = kgroup("lag", group, "--fail-on", "stop", "--max-lag-time", "1ms", "-o", "json").data
    assert (found["lag"], found["lag_status"]) == (6, "unsubscribed")
    assert (found["time_lag_ms"], found["oldest_partition"]) == (0, None)
    (row,) = (row for row in found["partitions"] if row["topic"] == old)
    assert row["time_lag_ms"] > 0
    page = kgroup("describe", group).stdout
    assert f"no member subscribes to {old}" in page
    assert "only of topics that the group has left" in page.replace("\n  ", " ")
    kgroup("lag", group, "--fail-on", "warn", exit_code=8)
    kgroup("wait", group, "--for", "lag-time=1ms", "--within", "30s")
