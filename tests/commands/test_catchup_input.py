"""What ``kgroup catchup`` is told wrongly, where there is no cluster, and what it answers in every format."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.catchup.catchups import Crash, released
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]

TOPIC = ("--to-topic", "copy")
PYTHON = ("--to-python", "handlers:handle")

BAD = [
    # start: which part
    ((), "a GROUP is required"),
    (("",), "GROUP is empty"),
    (("g", "h"), "unexpected extra argument"),
    (("g", "--topic", ""), "--topic is empty"),
    (("g", "--topic", "t:x"), "'x' is not a partition number"),
    (("g", "--missing", "first"), "is not one of"),
    (("g", "--skip-before", "then"), "not a date"),
    (("g", "--until", ""), "--until is empty"),
    (("g", "--range", "t:0=1-2"), "--range and GROUP"),
    (("--range", "t"), "not TOPIC:PARTITION=START-END"),
    (("--range", "t:0=-1-3"), "not TOPIC:PARTITION=START-END"),
    (("--range", "t:0=5-5"), "START must be below END"),
    (("--range", "t:0=1-5,t:0=4-9"), "overlap"),
    (("--range", "t:0=1-5", "--until", "2026-01-01"), "--range and --until"),
    (("--range", "t:0=1-2", "--missing", "latest"), "--range and --missing"),
    (("--skipped-by", "ch-7k2f", "--range", "t:0=1-2"), "--range and --skipped-by"),
    (("--skipped-by", "ch-7k2f", "--missing", "latest"), "--skipped-by and --missing"),
    (("g", "--skipped-by", "ch-7k2f", "--until", "now"), "--skipped-by and --until"),
    (("--skipped-by", "ch-7k2f", "--skip-before", "now"), "--skipped-by and --skip-before"),
    # ... where to
    (("g", "--execute"), "a destination is required"),
    (("g", *TOPIC, "--to-files", "x"), "mutually exclusive"),
    (("g", "--to-topic", ""), "--to-topic is empty"),
    (("g", "--to-topic", "a b"), "not a valid topic name"),
    (("g", "--to-topic", "--execute"), "--execute for its value"),
    (("g", *TOPIC, "--timestamps", "old"), "--timestamps old: choose one of keep or now"),
    (("g", *TOPIC, "--partitions", "3"), "--partitions 3: choose one of keep or key"),
    (("g", "--to-files", ""), "--to-files is empty"),
    (("g", "--to-files", "s3a://lake/gap"), "--to-files s3a://lake/gap: a URL, and not a path of this machine"),
    (("g", "--to-files", "dbfs:/gap", "--execute"), "--to-spark parquet --option path=dbfs:/gap"),
    (("g", "--to-files", "file:///gap"), "Name a path of this machine, without a scheme."),
    (("g", "--to-files", "x", "--format", "csv"), "--format csv: choose one of parquet or json"),
    (("g", "--to-files", "x", "--timestamps", "now"), "--timestamps requires --to-topic"),
    (("g", "--to-command", ""), "--to-command is empty"),
    (("g", "--to-command", "cat", "--ack", "maybe"), "--ack maybe: choose one of exit or line"),
    (("g", "--to-command", "cat", "--value-format", "xml"), "text, json, hex or base64"),
    (("g", *TOPIC, "--ack", "line"), "--ack requires --to-command"),
    (("g", *TOPIC, "--format", "json"), "--format requires --to-files"),
    (("g", "--to-python", ""), "--to-python is empty"),
    # ... how
    (("g", *TOPIC, "--order", "time"), "is not one of"),
    (("g", *TOPIC, "--lanes", "4"), "--lanes requires"),
    (("g", *PYTHON, "--lanes", "0"), "--lanes must be at least 1"),
    (("g", *PYTHON, "--lanes", "4"), "--order partition processes one record at a time"),
    (("g", *PYTHON, "--lanes", "4", "--order", "partition"), "--order partition processes one record at a time"),
    (("g", *TOPIC, "--rate", "500"), "not a rate"),
    (("g", *TOPIC, "--rate", "0/s"), "not a rate"),
    (("g", *TOPIC, "--rate", "-5/s"), "not a rate"),
    (("g", *TOPIC, "--rate", "5/m"), "not a rate"),
    (("g", *PYTHON, "--retries", "-1"), "must be 0 or greater"),
    (("g", *PYTHON, "--backoff", "5"), "the unit is missing"),
    (("g", *PYTHON, "--handler-timeout", "0s"), "--handler-timeout must be greater than 0"),
    (("g", *TOPIC, "--dead-letter-topic", ""), "--dead-letter-topic is empty"),
    (("g", *TOPIC, "--dead-letter-topic", "a/b"), "not a valid topic name"),
    (("g", *TOPIC, "--master", "yes"), "not a Spark master"),
    (("g", *TOPIC, "--master", "local-cluster[2,1,1024]"), "not a Spark master that kgroup can use"),
    (("g", *TOPIC, "--master", "local[0]"), "must be at least 1"),
    (("g", *TOPIC, "--master", "sc://host"), "--master sc://host"),
    (("g", *TOPIC, "--conf", "spark.x"), "spark.KEY=VALUE"),
    (("g", *TOPIC, "--conf", "spark.master=local"), "use --master"),
    (("g", *TOPIC, "--conf", "spark.speculation=true"), "fence each other"),
    (("g", *TOPIC, "--parallelism", "0"), "must be at least 1"),
    (("g", *TOPIC, "--report", "/nowhere/report.json"), "there is no directory /nowhere"),
    (("g", *TOPIC, "--report", "s3a://lake/report.json"), "a URL, and not a path of this machine"),
    (("g", "--release-only", *TOPIC), "--release-only and --to-topic are mutually exclusive"),
    (("g", "--release-only", "--order", "key"), "--release-only and --order are mutually exclusive"),
    (("g", "--release-only", "--rate", "5/s"), "--release-only and --rate are mutually exclusive"),
    (("g", "--release-only", "--report", "r"), "--release-only and --report are mutually exclusive"),
    # ... care
    (("g", "--execute", "--dry-run", *TOPIC), "mutually exclusive"),
    (("g", "--accept", "anything"), "no such refusal"),
    (("g", "--accept", "not-empty"), "the broker refuses"),
    (
        ("g", "--accept", "moved-since"),
        "choose one of: active-committer, foreign-owner, in-flight, not-in-ledger, possible-duplicates, skip",
    ),
    (("g", "--expect", "-1"), "must be 0 or greater"),
    (("g", "--within", "5m"), "--wait-empty"),
    (("g", "--wait-empty", "--within", "5"), "the unit is missing"),
    (("g", "--reason", ""), "--reason is empty"),
    (("g", "--ledger-topic", ""), "--ledger-topic is empty"),
    (("g", "--ledger-topic", "a b"), "not a valid topic name"),
    (("g", "-o", "kcg"), "kgroup export"),
]
"""Words of ``start``, and what is said of them."""

BAD_OF_OTHERS = [
    (("list", "--execute"), "no option --execute"),
    (("list", ""), "GROUP is empty"),
    (("list", "--ledger-topic", ".."), "not a valid topic name"),
    (("show",), "Missing argument"),
    (("show", ""), "PLAN|GROUP is empty"),
    (("show", "a", "b"), "unexpected extra argument"),
    (("show", "a", "--execute"), "no option --execute"),
    (("stop",), "Missing argument"),
    (("stop", "a", "--execute", "--dry-run"), "mutually exclusive"),
    (("resume",), "a PLAN or a GROUP is required"),
    (("resume", "a", "b"), "a PLAN or a GROUP is required"),
    (("resume", "a", *TOPIC, "--release-only"), "mutually exclusive"),
    (("resume", "a", "--master", "local[1]", "--release-only"), "--release-only and --master are mutually exclusive"),
    (("resume", "a", "--accept", "possible-duplicates"), "kgroup catchup resume has no such refusal"),
    (("resume", "a", "--to-files", "s3a://lake/gap"), "a URL, and not a path of this machine"),
    (("resume", "a", "--rate", "fast"), "not a rate"),
    (("resume", "a", "--execute", "--dry-run"), "mutually exclusive"),
    (("cancel",), "Missing argument"),
    (("cancel", "a", "--accept", "skip"), "no such refusal"),
    (("cancel", "a", "--execute", "--dry-run"), "mutually exclusive"),
    (("prune", "a", "--execute", "--dry-run"), "mutually exclusive"),
    (("prune", ""), "PLAN is empty"),
    (("undo",), "no verb 'undo'"),
]


def test_words_without_meaning_are_refused_before_a_broker_is_asked(
    kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    cases = [(("start", *words), said) for words, said in BAD] + BAD_OF_OTHERS

    for words, said in cases:
        result = kgroup_cli("catchup", *words, exit_code=2)

        assert said in result.stderr, words
        assert result.stdout == "", words
        assert "[usage]" in result.stderr, words


@pytest.mark.soak
def test_what_is_not_there_is_5(kgroup: CommandLine, crashed: Crash, name: Name) -> None:
    """With a ledger and without one; each says what is not there, and nothing is changed."""
    nobody, nowhere = name("nobody"), name("nowhere")
    for _ in range(2):
        for words, said in [
            (("start", nobody), nobody),
            (("start", crashed.group, "--topic", nowhere), nowhere),
            (("start", crashed.group, "--topic", f"{crashed.topic}:7"), f"{crashed.topic}"),
            (("start", "--range", f"{nowhere}:0=1-2"), nowhere),
            *(
                ((verb, "cu-2222"), 'neither a plan "cu-2222"')
                for verb in ("show", "stop", "resume", "cancel", "prune")
            ),
        ]:
            for execute in ((), ("--release-only", "--execute")) if words[0] == "start" else ((),):
                result = kgroup("catchup", *words, *execute, "-o", "json", exit_code=5)
                assert said in " ".join(map(str, result.json["errors"][0].values())), words
        assert f"Near: {crashed.group}" in kgroup("catchup", "start", crashed.group[:-1], exit_code=5).stderr
        plan = released(kgroup, crashed)
        assert f"Similar: {crashed.group}" in kgroup("catchup", "show", crashed.group[:-1], exit_code=5).stderr
        for words in (("--assume", "gone"), ("--assume", "orders:0=perhaps")):
            kgroup("catchup", "cancel", plan, *words, exit_code=2)
            kgroup("catchup", "resume", plan, "--release-only", *words, exit_code=2)
        kgroup("catchup", "cancel", plan, "--execute")


def test_a_read_only_context_refuses_all_that_changes(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, monkeypatch: pytest.MonkeyPatch, bystander: str
) -> None:
    plan = released(kgroup, crashed)
    before = world.exact(crashed.group)
    Path(os.environ["KGROUP_CONFIG"]).write_text(
        f"contexts:\n  prod:\n    bootstrap.servers: {world.bootstrap}\n    read_only: true\n"
    )
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER")

    for words in (
        ("start", crashed.group, "--release-only"),
        ("resume", plan, *TOPIC),
        ("resume", plan, "--release-only"),
        ("stop", plan),
        ("cancel", plan),
        ("cancel", plan, "--abandon"),
        ("prune",),
    ):
        refused = kgroup("catchup", *words, "--execute", "--context", "prod", "-o", "json", exit_code=6)
        assert [error["code"] for error in refused.json["errors"]] == ["read-only"], words
    plan_alone = kgroup("catchup", "start", crashed.group, "--context", "prod", exit_code=6)
    assert "[read-only]" in plan_alone.stderr
    for words in (("list",), ("show", plan)):
        assert kgroup("catchup", *words, "--context", "prod", "-o", "json").data[0]["state"] == "released"
    assert world.exact(crashed.group) == before


@pytest.mark.soak
def test_the_context_has_where_and_how_fast_it_is_replayed(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """In the plan of ``start`` and of ``resume``; a plan keeps its rate, and what is typed wins."""
    copy, dead = world.topic(name("copy"), 2), world.topic(name("dead"))
    file = Path(os.environ["KGROUP_CONFIG"])

    def context(rate: str) -> None:
        file.write_text(
            f"contexts:\n  prod:\n    bootstrap.servers: {world.bootstrap}\n    catchup:\n      master: local[1]\n"
            f"      rate: {rate}\n      dead-letter-topic: {dead}\n"
        )

    context("200/s")
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER")
    prod, to = ("--context", "prod"), ("--to-topic", copy)

    planned = kgroup("catchup", "start", crashed.group, *to, *prod).stdout
    assert f'--master local[1], from context "prod" ({file}:5)' in planned
    assert f'--rate 200/s, from context "prod" ({file}:6)' in planned
    assert f'--dead-letter-topic {dead}, from context "prod" ({file}:7)' in planned
    typed = kgroup("catchup", "start", crashed.group, *to, "--rate", "off", "--master", "local[2]", *prod).stdout
    assert re.findall("--(.+), from context", typed) == [f"dead-letter-topic {dead}"]

    plan = released(kgroup, crashed, *prod)
    resumed = kgroup("catchup", "resume", plan, *to, *prod).stdout
    assert f'--rate 200/s, from context "prod" ({file}:6)' in resumed
    kgroup("catchup", "resume", plan, *to, "--execute", *prod)
    (shown,) = kgroup("catchup", "show", plan, "-o", "json", *prod).data
    assert shown["totals"]["verified"]

    context("fast")
    broken = kgroup("catchup", "start", crashed.group, *to, *prod, exit_code=2)
    assert f'context "prod" ({file}:6): --rate fast: not a rate' in broken.stderr


@pytest.mark.soak
def test_where_records_can_not_go_is_said_before_anything_moves(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, ledger: str, name: Name
) -> None:
    """By the plan and by --execute alike; and what is only unwise is a warning."""
    kgroup("catchup", "cancel", released(kgroup, crashed), "--execute")  # so that there is a ledger
    before = world.exact(crashed.group)
    copy = world.topic(name("copy"), 2)
    local = ("--master", "local[1]")

    for words, said in [
        (("--to-topic", "__consumer_offsets"), "an internal topic of Kafka"),
        (("--to-topic", ledger), "the ledger of all catch-ups"),
        (("--to-topic", copy, "--dead-letter-topic", ledger), "the ledger of all catch-ups"),
        (
            ("--to-topic", copy, "--dead-letter-topic", "__transaction_state"),
            "does not exist|an internal topic of Kafka",
        ),
        (("--to-files", "/dev/null/out"), "/dev/null is not a directory"),
    ]:
        for execute in ((), ("--execute",)):
            refused = kgroup("catchup", "start", crashed.group, *words, *local, *execute, "-o", "json", exit_code=6)
            (error,) = refused.json["errors"]
            assert error["code"] == "sink"
            assert re.search(said, error["message"]), words
    warned = kgroup("catchup", "start", crashed.group, "--to-topic", copy, "--dead-letter-topic", crashed.topic, *local)
    assert "the gap is in this topic" in warned.stderr
    assert world.exact(crashed.group) == before
    assert {plan["state"] for plan in kgroup("catchup", "list", "-o", "json").data} == {"cancelled"}
