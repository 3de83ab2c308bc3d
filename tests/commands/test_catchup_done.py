"""``kgroup catchup done``: a job of the user's own has delivered the gap, and kgroup is told so."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.groups.catchup.elsewhere import BY, ELSEWHERE
from kgroup.groups.catchup.model import ChunkProgress, Delivery, Order
from kgroup.support.user import whoami
from tests.commands.test_catchup_end import broken_off, delivered, engine, found, planned
from tests.helpers.catchup.catchups import Crash, offsets, plan_id, released
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.streaming import kafka_source

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]
JOB = ("--by", "job 123")
BY_JOB = Delivery(ELSEWHERE, Order.PARTITION, (), {BY: "job 123"})
BY_ANOTHER = replace(BY_JOB, options={BY: "job 122"})
TO_COMMAND = Delivery(
    "command", Order.KEY, (), {"command": "cat", "where": "partition = 3"}, {"lanes": "4", "rate": "5/s"}
)
SPARK_OPTIONS = ("startingOffsets", "endingOffsets")
BATCH = """
import json, sys
from tests.helpers.streaming_job import session
jars, options = json.loads(sys.argv[1])
rows = session(jars, {}).read.format("kafka").options(**options).load().select("partition", "offset").collect()
print(sorted(map(tuple, rows)))
"""
"""What a batch job of Spark reads with these jars and options, on the last line."""


def a_minute_ago(now: CatchupEngine) -> CatchupEngine:
    """A run whose heartbeats are as old as those of one that was killed."""
    return replace(now, now_ms=lambda: round(time.time() * 1000) - 60_000)


def phase(kgroup: CommandLine, plan: str) -> tuple[str, str | None]:
    (listed,) = kgroup("catchup", "list", plan, "-o", "json").data
    return listed["phase"], listed["destination"]


def test_a_job_of_ones_own_has_delivered_the_gap(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bystander: str
) -> None:
    plan, others, topic = released(kgroup, crashed), world.exact(bystander), crashed.topic

    shown = kgroup("catchup", "show", plan).stdout
    dry = kgroup("catchup", "done", crashed.group, *JOB)
    before = phase(kgroup, plan)
    done = kgroup("catchup", "done", crashed.group, *JOB, "--execute", "-o", "json")
    page = kgroup("catchup", "show", plan).stdout
    again = kgroup("catchup", "done", plan, *JOB, "--execute")
    elsewhere = kgroup("catchup", "resume", plan, "--to-topic", topic, "--execute", exit_code=6)

    assert f'  assign {{"{topic}":[0,1]}}\n' in shown
    assert f'  startingOffsets {{"{topic}":{{"0":70,"1":20}}}}\n' in shown
    assert f'  endingOffsets {{"{topic}":{{"0":120,"1":50}}}}\n' in shown
    assert f"-> kgroup catchup done {plan} --by TEXT --execute   closes the plan after it" in shown
    assert "kgroup does not check what job 123 did. To close the plan:" in dry.stdout
    assert f"kgroup catchup done {crashed.group} --by 'job 123' --execute" in dry.stdout
    assert before == ("pending", None)
    said = f"all 80 offsets: delivered by job 123, in the words of {whoami()}; kgroup has checked nothing"
    assert f"CLOSED    {plan}  {said}" in done.stderr
    (document,) = done.data
    assert done.json["executed"]
    assert (document["state"], document["sink"], document["destination"]) == ("done", "job", "job 123")
    unknown = ("verified", "record_count", "delivered_count", "read_to_end_count", "lost_offset_count")
    assert [document["totals"][field] for field in unknown] == [None] * len(unknown)
    assert [(row["verified"], row["lost"], row["undelivered"]) for row in document["ranges"]] == [(None, None, [])] * 2
    assert (document["totals"]["pending_offset_count"], document["totals"]["undelivered_offset_count"]) == (0, 0)
    assert "RECORDS    not counted: kgroup has not read them" in page
    assert said in " ".join(page.split())
    assert not any(word in page + done.stderr for word in ("VERIFIED", "LOST", "startingOffsets"))
    assert phase(kgroup, plan) == ("done", "job 123")
    assert f"{plan} is done: nothing to do" in again.stderr
    assert "it was delivered to job 123, so nothing of it is left for topic" in elsewhere.stdout + elsewhere.stderr
    assert offsets(world, crashed.group) == crashed.released
    assert world.exact(bystander) == others


def test_a_plan_that_moves_no_group_is_closed_with_its_page(kgroup: CommandLine, crashed: Crash) -> None:
    words = ("--range", f"{crashed.topic}:0=10-20", "--range", f"{crashed.topic}:0=30-40")
    plan = plan_id(kgroup("catchup", "start", *words, "--release-only", "--execute"))

    shown = kgroup("catchup", "show", plan).stdout
    done = kgroup("catchup", "done", plan, *JOB, "--execute")

    assert "startingOffsets" not in shown, "Spark reads one range of a partition"
    assert f"CLOSED  {plan}" in done.stdout
    assert "all 20 offsets: delivered by job 123" in done.stdout


@pytest.mark.parametrize(
    ("known", "taken"), [(None, False), (BY_JOB, False), (BY_JOB, True), (BY_ANOTHER, False), (TO_COMMAND, False)]
)
def test_killed_on_the_way_it_is_closed_by_the_next_one(
    bootstrap: str, ledger: str, kgroup: CommandLine, crashed: Crash, known: Delivery | None, taken: bool
) -> None:
    """Also a replay that was killed before it delivered anything: its filter, its lanes and its rate mean nothing."""
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as now, a_minute_ago(now).take_over(found(now, plan)) as runner:
        if known is not None:
            runner.write(known)
        if taken:
            chunks = runner.snapshot.plan.chunks
            runner.write(*(ChunkProgress(one.number, one.end, 0, 0, 0, 0, 5, runner.epoch.number) for one in chunks))

    done = kgroup("catchup", "done", plan, *JOB, "--execute", "-o", "json")

    assert f"CLOSED    {plan}" in done.stderr
    assert done.data[0]["tuning"] == {}
    assert phase(kgroup, plan) == ("done", "job 123")


def test_killed_on_the_way_it_may_be_resumed_but_not_at_a_rate(
    bootstrap: str, ledger: str, kgroup: CommandLine, crashed: Crash
) -> None:
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as now, a_minute_ago(now).take_over(found(now, plan)) as runner:
        runner.write(BY_JOB)

    refused = kgroup("catchup", "resume", plan, "--rate", "5/s", exit_code=2)
    done = kgroup("catchup", "resume", plan, "--execute")

    assert "--rate requires a plan that kgroup delivers" in refused.stderr
    assert f"CLOSED  {plan}" in done.stdout


@pytest.mark.soak
def test_what_is_not_released_at_work_or_begun_is_refused(
    bootstrap: str, ledger: str, kgroup: CommandLine, world: KafkaWorld, crashed: Crash
) -> None:
    def refused(plan: str, code: str, hint: str) -> None:
        for execute in ((), ("--execute",)):
            answer = kgroup("catchup", "done", plan, *JOB, *execute, "-o", "json", exit_code=6)
            (error,) = answer.json["errors"]
            assert (error["code"], answer.json["executed"]) == (code, False)
            assert hint in error["hint"]

    with engine(bootstrap, ledger) as now:
        plan = planned(kgroup, world, crashed, now)
        refused(plan, "not-released", f"kgroup catchup resume {plan} --release-only --execute")
        broken_off(now, plan, (crashed.topic, 0))
        refused(plan, "not-released", f"kgroup catchup resume {plan} --release-only --execute")
        kgroup("catchup", "resume", plan, "--release-only", "--execute")
        delivered(bootstrap, now, plan)
        refused(plan, "superseded", f"kgroup catchup stop {plan} --execute")
        assert "startingOffsets" not in kgroup("catchup", "show", plan).stdout
        assert "startingOffsets" in kgroup("catchup", "show", plan, "--verbose").stdout
        delivered(bootstrap, a_minute_ago(now), plan, 80)
        refused(plan, "sink-set", f"kgroup catchup resume {plan}")
    assert "startingOffsets" not in kgroup("catchup", "show", plan, "--verbose").stdout
    assert phase(kgroup, plan) == ("stopped", "topic copy")
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    refused(plan, "closed", "makes a new plan")


@pytest.mark.soak
@pytest.mark.programs("bash", "dirname")
def test_a_batch_of_spark_reads_what_show_prints(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    """One partition of two, while new records are written: without ``assign``, Spark requires offsets of both."""
    plan = released(kgroup, crashed, "--topic", f"{crashed.topic}:0")
    world.produce(crashed.topic, 5)
    lines = (line.split() for line in kgroup("catchup", "show", plan).stdout.splitlines())
    options = {words[0]: words[1] for words in lines if words and words[0] in (*SPARK_OPTIONS, "assign")}

    def read(**options: str) -> subprocess.CompletedProcess[str]:
        arguments = json.dumps(
            [list(map(str, kafka_source())), {"kafka.bootstrap.servers": world.bootstrap, **options}]
        )
        command = [sys.executable, "-c", BATCH, arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)

    batch = read(**options)
    both = read(subscribe=crashed.topic, **{name: options[name] for name in SPARK_OPTIONS})

    assert batch.returncode == 0, batch.stderr
    assert batch.stdout.splitlines()[-1] == str([(0, offset) for offset in range(70, 120)])
    assert "start offsets don't match what are assigned" in both.stderr


@pytest.mark.parametrize("text", ["", "  ", "x" * 201])
def test_the_text_is_neither_empty_nor_long(kgroup: CommandLine, text: str) -> None:
    refused = kgroup("catchup", "done", "cu-2222", "--by", text, exit_code=2)

    assert "--by" in refused.stderr
