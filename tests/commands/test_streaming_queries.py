"""Streaming queries in the verbs that read groups, on a real broker, from checkpoints as Spark writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.streaming import QuerySpec, streaming_query, topic_source

Name = Callable[[str], str]
MINUTE = 60_000


def words(page: str) -> str:
    """A page without its line ends: a name as long as a test's is folded."""
    return " ".join(page.split())


def ago(*minutes: float) -> list[int]:
    now_ms = round(time.time() * 1000)
    return [now_ms - round(each * MINUTE) for each in minutes]


@pytest.fixture
def query(tmp_path: Path, orders: str) -> str:
    """A query that runs: it has read 10 and 20 of them."""
    ends = [{orders: (n, 2 * n)} for n in (4, 6, 8, 10)]
    return f"spark:{write_checkpoint(tmp_path / 'checkpoint', ends, ago(3, 2, 1, 0.1))}"


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``named(NAME=CHECKPOINT)``: the context's queries."""

    def write(**queries: str | Path) -> None:
        file = tmp_path / "config.yaml"
        lines = "".join(f"      {name}: {path}\n" for name, path in queries.items())
        file.write_text(f"contexts:\n  test:\n    queries:\n{lines}")
        monkeypatch.setenv("KGROUP_CONFIG", str(file))
        monkeypatch.setenv("KGROUP_CONTEXT", "test")

    return write


def test_lag_in_records_and_time(kgroup: CommandLine, orders: str, query: str) -> None:
    (document,) = kgroup("lag", query, "-o", "json").data

    assert (document["group"], document["state"], document["lag"]) == (query, "BatchDone", 30)
    assert {row["partition"]: (row["committed"], row["lag"]) for row in document["partitions"]} == {
        0: (10, 20),
        1: (20, 10),
    }
    assert all(row["time_lag_ms"] >= 0 for row in document["partitions"])


def test_its_page(kgroup: CommandLine, orders: str, query: str) -> None:
    page = words(kgroup("describe", query).stdout)

    assert "batch 3 done" in page
    assert f"streaming query {orders}" in page
    assert f"checkpoint {query.removeprefix('spark:')}, query 5d0c3b3e" in page
    assert "batches 0 to 3 kept" in page
    assert "member" not in page


def test_its_document(kgroup: CommandLine, orders: str, query: str) -> None:
    (document,) = kgroup("describe", query, "-o", "json").data

    assert (document["type"], document["source"], document["members"]) == ("query", "checkpoint", None)
    found = document["query"]
    assert (found["last_batch"]["number"], found["planned_batch"], found["topics"]) == (3, None, [orders])
    assert (found["stateful"], found["has_gaps"], found["log_version"]) == (False, False, 1)


@pytest.mark.soak
def test_the_context_names_queries(
    kgroup: CommandLine, orders: str, query: str, named: Callable[..., None], tmp_path: Path
) -> None:
    named(bronze="checkpoint", gone="no-such")  # relative to the file
    listed = kgroup("list", "--type", "query", "-o", "json", exit_code=7)

    assert [(row["group"], row["type"], row["state"]) for row in listed.data] == [
        ("spark:bronze", "query", "BatchDone")
    ]
    assert [(error["group"], error["code"]) for error in listed.json["errors"]] == [("spark:gone", "not-found")]
    assert listed.data[0]["last_activity_at"] is not None
    assert kgroup("lag", "--regex", "spark:b.*", "-o", "name").stdout == "spark:bronze\n"
    assert 'group="spark:bronze"' in kgroup("lag", "spark:bronze", "-o", "prometheus").stdout
    everything = kgroup("lag", "--topic", orders, "-o", "json", exit_code=7)
    assert [(row["group"], row["lag"]) for row in everything.data] == [("spark:bronze", 30)]


def test_a_name_that_the_context_lacks(kgroup: CommandLine, query: str, named: Callable[..., None]) -> None:
    named(bronze="checkpoint")

    assert "Near: bronze" in kgroup("lag", "spark:bronce", exit_code=5).stderr


def test_wait_until_it_has_read(kgroup: CommandLine, world: KafkaWorld, orders: str, query: str) -> None:
    (done,) = kgroup("wait", query, "--for", "lag=30", "--within", "5s", "-o", "json").data
    assert (done["group"], done["lag"]) == (query, 30)
    late = kgroup("wait", query, "--for", "lag=29", "--within", "1s", exit_code=8)
    assert "lag 30" in late.stderr


@pytest.mark.parametrize("condition", ["empty", "stable", "members=1", "type=consumer"])
def test_it_has_no_members_to_wait_for(kgroup: CommandLine, query: str, condition: str) -> None:
    refused = kgroup("wait", query, "--for", condition, "--within", "1s", exit_code=2)

    assert "is a streaming query, which has no members" in refused.stderr


def test_a_pattern_waits_for_groups_alone(
    kgroup: CommandLine, world: KafkaWorld, orders: str, query: str, named: Callable[..., None]
) -> None:
    world.commit(f"svc-{orders}", {(orders, 0): 30})
    named(**{f"svc-{orders}": query.removeprefix("spark:")})

    kgroup("wait", "--regex", f".*svc-{orders}", "--expect", "1", "--for", "empty", "--within", "5s")


def test_a_group_beside_it_in_one_table(kgroup: CommandLine, world: KafkaWorld, orders: str, query: str) -> None:
    world.commit(orders, {(orders, 0): 30, (orders, 1): 25})

    lines = kgroup("lag", orders, query).stdout
    assert "spark:" in lines
    rows = kgroup("lag", orders, query, "-o", "json").data
    assert {row["group"]: row["lag"] for row in rows} == {orders: 5, query: 30}


def test_it_ended_an_hour_ago(kgroup: CommandLine, tmp_path: Path, orders: str) -> None:
    ends = [{orders: (n, n)} for n in (4, 6, 8, 10)]
    query = f"spark:{write_checkpoint(tmp_path / 'c', ends, ago(63, 62, 61, 60))}"
    diagnosis = kgroup("doctor", query, "-o", "json").data[0]

    assert [finding["rule"] for finding in diagnosis["findings"]] == []  # its records are seconds old
    assert "batch 3 done 1h" in words(kgroup("lag", query).stdout)


def test_numbers_with_holes_make_its_lag_an_upper_bound(kgroup: CommandLine, tmp_path: Path, orders: str) -> None:
    root = write_checkpoint(tmp_path / "c", [{orders: (n, n)} for n in (4, 6, 8, 10)], ago(3, 2, 1, 0.1))
    for log in ("offsets", "commits"):
        (root / log / "2").unlink()
    (document,) = kgroup("lag", f"spark:{root}", "-o", "json").data
    page = words(kgroup("lag", f"spark:{root}").stdout)

    assert document["is_upper_bound"]
    assert "LAG at most 20" in page
    assert "(asynchronous progress)" in page
    assert "<=20" in page


def test_its_next_batch_fails(kgroup: CommandLine, world: KafkaWorld, orders: str, query: str) -> None:
    world.delete_records(orders, 0, before=25)
    failed = kgroup("doctor", query, "--fail-on", "critical", "-o", "json", exit_code=8).data[0]

    (finding,) = [each for each in failed["findings"] if each["rule"] == "query-fails"]
    assert (finding["severity"], finding["affected"]) == ("critical", [f"{orders}:0"])
    assert finding["numbers"]["deleted_offset_count"] == 15
    assert f"{orders}:0 committed 10 lies below the log start 25" in words(kgroup("describe", query).stdout)


def test_a_batch_that_is_planned_for_hours(kgroup: CommandLine, tmp_path: Path, orders: str) -> None:
    planned = (ago(120)[0], {orders: (30, 30)})
    query = f"spark:{write_checkpoint(tmp_path / 'c', [{orders: (5, 5)}], ago(121), planned=planned)}"
    (finding,) = kgroup("doctor", query, "-o", "json").data[0]["findings"]

    assert finding["rule"] == "query-long-batch"
    assert "batch 1 planned 2h" in words(kgroup("describe", query).stdout)


def test_a_partition_that_came_later(kgroup: CommandLine, world: KafkaWorld, orders: str, query: str) -> None:
    world.add_partitions(orders, 3)
    with KafkaWorld(world.bootstrap) as later:  # a producer that knows of it
        later.produce(orders, 5, partition=2)
    findings = kgroup("doctor", query, "-o", "json").data[0]["findings"]

    assert [(each["rule"], each["affected"]) for each in findings] == [("query-new-partitions", [f"{orders}:2"])]


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete",),
        ("migrate", "--protocol", "consumer"),
        ("history",),
        ("peek",),
        ("export",),
        ("evict", "--all-members"),
        ("delete-offsets", "--topic", "x"),
    ],
)
def test_other_verbs_refuse_it(kgroup: CommandLine, query: str, arguments: tuple[str, ...], bystander: str) -> None:
    refused = kgroup(arguments[0], query, *arguments[1:], "-o", "json", exit_code=6)

    assert [error["code"] for error in refused.json["errors"]] == ["streaming-query"]


@pytest.mark.soak
@pytest.mark.programs("bash", "dirname")
def test_a_real_query_is_seen_in_its_batch_and_fails_where_kgroup_says_so(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    topic, target = world.topic(name("orders")), world.topic(name("copy"))
    world.produce(topic, 6)
    sink = {"kafka.bootstrap.servers": world.bootstrap, "topic": target}
    spec = QuerySpec(str(tmp_path / "checkpoint"), [topic_source(world.bootstrap, topic, 4)], "kafka", sink)
    query = f"spark:{tmp_path}/checkpoint"
    with streaming_query(replace(spec, hold_before=1)) as running:
        running.says("1 begins")
        (document,) = kgroup("describe", query, "-o", "json").data
        assert (document["state"], document["totals"]["lag"]) == ("InBatch", 2)
        assert document["query"]["last_batch"]["number"] == 0
        running.kill()
    world.produce(topic, 6)
    world.delete_records(topic, 0, before=9)
    (finding,) = kgroup("doctor", query, "-o", "json").data[0]["findings"]

    assert (finding["rule"], finding["numbers"]["deleted_offset_count"]) == ("query-fails", 5)
    with streaming_query(spec) as again:
        assert again.ends().startswith("failed ")


def test_no_checkpoint_there(kgroup: CommandLine, tmp_path: Path) -> None:
    gone = kgroup("lag", f"spark:{tmp_path}/none", exit_code=5)

    assert f"there is no checkpoint at {tmp_path}/none" in gone.stderr


@pytest.mark.parametrize(
    "uri", ["s3a://me:hush-hush@lake/orders", "s3a://lake/orders?sig=hush-hush", "http://lake/orders"]
)
@pytest.mark.parametrize("verb", [("lag",), ("reset", "--all-topics", "--to-latest")], ids=lambda verb: verb[0])
def test_a_secret_in_a_uri_is_not_repeated(kgroup: CommandLine, verb: tuple[str, ...], uri: str) -> None:
    done = kgroup(verb[0], f"spark:{uri}", *verb[1:], exit_code=2)

    assert "checkpoint" in done.stderr
    assert "hush-hush" not in done.stdout + done.stderr
