"""``kgroup lag`` on a real broker: records, time, status, transactions, checks, metrics; the verdict of describe."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members, commit_to
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


def commits_apart(world: KafkaWorld, group: str, commits: list[Mapping[tuple[str, int], int]]) -> None:
    """Commits that a rhythm can be read from: those within a second count once. A second has passed after the last."""
    for offsets in commits:
        world.commit(group, offsets)
        made_s = time.monotonic()
        wait_for(partial(_is_over, made_s + 1.05), "a second")


def _is_over(until_s: float) -> bool:
    return time.monotonic() > until_s


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


@pytest.mark.parametrize("form", ["csv", "name", "table", "json"])
def test_groups_that_are_read_in_parts_have_the_same_rows_and_all_rows_come_part_by_part(
    kgroup: CommandLine, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    topics = [world.topic(name(stem), partitions=2) for stem in ("orders", "audit")]
    for topic in topics:
        world.produce(topic, 10, 0)
        world.produce(topic, 4, 1)
    stem = name("g")
    for number in range(6):
        committed = {(topic, partition): number % 3 for topic in topics for partition in (0, 1)}
        world.commit(f"{stem}-{number}", committed)
    of_these = ("lag", "--regex", f"{stem}-.*", "--no-time", "--scan-time", "0s", "-o", form)
    cases = [
        (*of_these, "--by", by, "--sort", order, *top)
        for by in ("partition", "topic", "group")
        for order in ("status", "lag", "name")
        for top in ((), ("--top", "5"))
    ]

    together = [_rows(kgroup(*case), form) for case in cases]
    monkeypatch.setattr("kgroup.queries.snapshots.GROUPS_AT_A_TIME", 1)
    for case, expected in zip(cases, together, strict=True):
        rows = _rows(kgroup(*case), form)
        if form == "table" or (form != "json" and "--top" in case):
            assert rows == expected, case
        else:
            assert sorted(rows, key=_group_of) == sorted(expected, key=_group_of), case


def _rows(result: Result, form: str) -> list[Any]:
    """The rows in their order: of a page the lines without the first, which has the time."""
    if form == "json":
        return result.data
    return result.stdout.splitlines()[form == "table" :]


def _group_of(row: dict[str, str] | str) -> str:
    return row.split(",")[0] if isinstance(row, str) else row["group"]


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


def test_open_transaction_is_named(kgroup: CommandLine, world: KafkaWorld, name: Name, at: At, bystander: str) -> None:
    topic, group, transactional_id = world.topic(name("orders")), name("svc"), name("pay-tx")
    world.produce(topic, 2)
    world.commit(group, {(topic, 0): 0})
    with transaction(world, topic, 3, transactional_id) as producer:
        document = lag_of(kgroup, group, "--isolation", "read_committed")
        (row,) = document["partitions"]
        assert (document["isolation"], document["lag"]) == ("read_committed", 2)
        assert (row["measured_against"], row["held_back_count"]) == (2, 3)
        assert row["open_transaction"]["transactional_id"] == transactional_id
        assert row["open_transaction"]["start_offset"] == 2
        assert abs(row["open_transaction"]["began_at_ms"] - now_ms()) < 60_000
        assert lag_of(kgroup, group)["lag"] == 5
        at(now_ms() + 2 * MINUTE)
        page = kgroup("lag", group, "--isolation", "read_committed").stdout
        assert re.search(rf"^TXN +3 offsets of {topic}:0 lie behind an open transaction of .*{transactional_id}", page,
                         re.MULTILINE | re.DOTALL)  # fmt: skip
        producer.commit_transaction(30)
    assert wait_for(lambda: lag_of(kgroup, group, "--isolation", "read_committed")["lag"] == 6 or None, "its end")


# Status


def test_consumer_that_reads_is_ok_and_one_that_hangs_is_not(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, at: At, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 5, 0)
    member = members.classic(group, topic, max_poll_interval_ms=3_600_000)
    members.stable(member, partitions=2)

    def read_all() -> dict[str, Any] | None:
        member.commit()
        document = lag_of(kgroup, group)
        return document if document["lag"] == 0 else None

    document = wait_for(read_all, "a consumer at the end")
    assert document["lag_status"] == "ok"
    assert document["pace"] == "keeps-up"
    assert document["verdict"]["next"] is None

    member.hold()
    world.produce(topic, 7, 0)
    at(now_ms() + 20 * MINUTE)
    document = lag_of(kgroup, group, "--fail-on", "stop", exit_code=8)
    assert document["lag_status"] == "stop"
    assert document["verdict"]["stuck_partitions"] == [{"topic": topic, "partition": 0}]
    page = kgroup("lag", group).stdout
    assert re.search(rf"^STUCK  {topic}:0 at 5: no commit for (19|20)m", page, re.MULTILINE)
    assert re.search(r"^-> rdkafka \(127\.0\.0\.1\) owns .* max\.poll\.interval\.ms is 1h", page, re.MULTILINE | re.S)
    assert re.search(rf"^{topic}:0 +5 +12 +7 .* STOP (19|20)m", page, re.MULTILINE)
    several = kgroup("lag", "--topic", topic, "--fail-on", "warn", exit_code=8).stdout
    assert re.search(rf"^FAILED  {group}: STOP (19|20)m on {topic}:0$", several, re.MULTILINE)


def test_commits_of_one_offset_are_no_stall_any_more_where_they_have_ended(
    kgroup: CommandLine, world: KafkaWorld, name: Name, at: At, bystander: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce_at(topic, 0, [now_ms() - HOUR] * 5)
    commits_apart(world, group, [{(topic, 0): 2}] * 4)
    (row,) = lag_of(kgroup, group)["partitions"]
    at(row["last_commit_at_ms"] + 29_000)  # a little less than what would be a STOP if it had read on until then

    assert lag_of(kgroup, group)["lag_status"] == "stop"
    page = kgroup("lag", group).stdout
    assert f"STUCK  {topic}:0 at 2: no commit for 29s" in page
    assert "it polls" not in page
    assert kgroup("lag", group, "--fail-on", "stop", exit_code=8)


def test_a_consumer_that_goes_back_is_a_rewind(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 50)
    commits_apart(world, group, [{(topic, 0): offset} for offset in (40, 50, 20, 21, 22)])

    document = lag_of(kgroup, group, "--fail-on", "REWIND", exit_code=8)
    assert (document["lag"], document["lag_status"]) == (28, "rewind")
    assert re.search(rf"^REWOUND +{topic}:0 was rewound by 30 offsets", kgroup("lag", group).stdout, re.MULTILINE)
    assert kgroup("lag", group, "--fail-on", "stall").exit_code == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_last_member_left_in_order_has_no_reader_at_once(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, protocol: str
) -> None:
    """lag, describe and doctor agree from the first second, and name the plan of a catch-up."""
    topic, group = world.topic(name("orders")), name("svc")
    member = getattr(members, protocol)(group, topic)
    members.stable(member, partitions=1)
    for offset in (5, 10):
        world.produce(topic, 5)
        commit_to(world, member, offset)
        made_s = time.monotonic()
        wait_for(partial(_is_over, made_s + 1.05), "a second")
    member.close()
    wait_for(lambda: world.groups()[group][1] == "empty", f"{group} Empty")
    world.produce(topic, 10_000)

    document = lag_of(kgroup, group, "--fail-on", "no-reader", exit_code=8)
    assert (document["lag"], document["lag_status"]) == (10_000, "no-reader")
    assert document["verdict"]["commands"] == [f"kgroup catchup start {group}"]
    for verb in ("lag", "describe"):
        page = kgroup(verb, group).stdout
        arrow = (
            rf"^-> no member reads; the group does not catch up at .*, its last rate\n   kgroup catchup start {group}$"
        )
        assert re.search(arrow, page, re.MULTILINE), page
    summary = kgroup("lag", "--topic", topic).stdout
    assert re.search(rf"^{group} +Empty +10000 .*NO-READER \d+s$", summary, re.MULTILINE)
    doctor = kgroup("doctor", group).stdout
    assert re.search(r"no-reader: no member for less than 1m, which may be a\s+restart", doctor)
    assert f"-> kgroup lag {group} shows its status, lag and rates now" in doctor


def test_a_group_that_was_reset_has_no_reader_at_once(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 50)
    commits_apart(world, group, [{(topic, 0): 40}, {(topic, 0): 50}])
    kgroup("reset", group, "--topic", topic, "--to-offset", "20", "--execute", "--accept", "active-committer")

    document = lag_of(kgroup, group, "--fail-on", "no-reader", exit_code=8)
    assert (document["lag"], document["lag_status"], document["pace"]) == (30, "no-reader", "not-at-this-rate")
    assert re.search(rf"^REWOUND +{topic}:0 was rewound by 30 offsets", kgroup("lag", group).stdout, re.MULTILINE)


def test_without_the_log_status_is_unknown_and_no_pass(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 2})
    document = lag_of(kgroup, group, "--scan-time", "0s", "--fail-on", "stop", exit_code=8)
    assert (document["lag"], document["lag_status"]) == (3, None)
    assert document["violations"][0]["known"] is False
    assert "STUCK  unknown: --scan-time 0s" in kgroup("lag", group, "--scan-time", "0s").stdout


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


def test_describe_has_the_verdict(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, group, other = world.topic(name("orders"), partitions=2), name("svc"), name("other")
    moment = now_ms()
    world.produce_at(topic, 0, [moment - HOUR] * 3)
    member = members.classic(group, topic, max_poll_interval_ms=600_000)
    members.stable(member, partitions=2)

    def read_all() -> bool:
        member.commit()
        return bool(lag_of(kgroup, group)["lag"] == 0)

    wait_for(read_all, "a consumer at the end")
    member.hold()
    world.produce_at(topic, 0, [moment - HOUR] * 2)
    world.commit(other, {(topic, 0): 5})

    (document,) = kgroup("describe", group, "-o", "json").data
    verdict = document["verdict"]
    assert [line["word"] for line in verdict["lines"]] == ["lag", "stuck", "rate", "retention", "shape"]
    assert abs(document["partitions"][0]["time_lag_ms"] - HOUR) < 60_000
    assert verdict["shape"]["pattern"] == "one-partition"
    assert verdict["other_groups"]["keeping_up"] == [other]
    assert abs(verdict["retention_left_ms"] - (7 * 24 * HOUR - HOUR)) < 60_000
    assert document["generation"] is not None
    assert document["leader_member_id"] == member_id_of(document)
    page = kgroup("describe", group).stdout
    assert re.match(
        rf"{group} Stable for .*\d+s classic generation {document['generation']} LAG ", " ".join(page.split())
    )
    assert re.search(r"^RETENTION +retention \(7d\) deletes the first unread record of .* in 6d23h", page, re.MULTILINE)
    assert re.search(
        rf"^SHAPE  one partition of 2, {topic}:0 \(rdkafka\); 1 of 1 other group of .* keeps up", page, re.MULTILINE
    )
    assert re.search(r"^MEMBER .* MAX-POLL\n.* 10m", page, re.MULTILINE)

    blind = kgroup("describe", group, "--no-generation")
    assert blind.stderr == ""
    assert "STUCK  unknown: --no-generation" in blind.stdout
    assert "generation -" in blind.stdout


def member_id_of(document: dict[str, Any]) -> str:
    (member,) = document["members"]
    return str(member["member_id"])


def test_describe_of_many_groups_has_none(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, stem = world.topic(name("orders")), name("g")
    for number in range(21):
        world.commit(f"{stem}-{number}", {(topic, 0): 0})
    found = kgroup("describe", "--regex", f"{stem}-.*", "-o", "json").data
    assert len(found) == 21
    assert {each["verdict"] for each in found} == {None}
    assert all(each["verdict"] for each in kgroup("describe", f"{stem}-1", f"{stem}-2", "-o", "json").data)
