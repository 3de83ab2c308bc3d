"""A smoke of every verb, on a broker of any version. Truth is that version's own tool, and plain clients.

``SMOKE`` has a function for each verb of the table; ``test_smoke.py`` says so, and every file of a version runs all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.catchup.catchups import Crash, copied, crash, gap_of, offsets, plan_id
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.versions.kafka import Cell, Kafka

WITHOUT_A_CLUSTER = {"context list", "context use", "context show", "completion", "help"}
"""Verbs that ask no broker anything."""

SMOKE: dict[str, Callable[[Stage], None]] = {}
"""A function for each other verb, as it is typed."""

MINUTE_MS = 60_000
RECORDS = 100
IDLE = ("g-a", "g-b")
LIVE = "g-live"
NEW = ("c-a", "c-b", "c-c", "c-d")
"""Four: Kafka 4.0.0 answers for such groups once for each offsets partition, and wrongly but for one of them."""
NEW_LIVE = "c-live"

kgroup = CommandLine()


@dataclass(frozen=True)
class Stage:
    """A broker with ``topic``: three partitions of 100 records, the newest two minutes old, one a minute."""

    kafka: Kafka
    topic: str
    newest_ms: int

    @property
    def world(self) -> KafkaWorld:
        return self.kafka.world

    @property
    def cells(self) -> set[tuple[str, int]]:
        return {(self.topic, partition) for partition in range(3)}

    @property
    def idle(self) -> tuple[str, ...]:
        """The groups that nobody is in and that nothing changes."""
        return (*IDLE, *NEW) if self.kafka.new_protocol else IDLE

    @property
    def groups(self) -> tuple[str, ...]:
        """These, and those with two members each."""
        return (*self.idle, *self.live)

    @property
    def live(self) -> tuple[str, ...]:
        return (LIVE, NEW_LIVE) if self.kafka.new_protocol else (LIVE,)

    def own(self, group: str, kind: str = "classic") -> str:
        """A group of a test's own at 10, 20 and 30."""
        self.world.commit(group, {(self.topic, partition): 10 * partition + 10 for partition in range(3)})
        if kind == "consumer":
            to_consumer(self.world, group)
        return group

    def kinds(self) -> Iterator[str]:
        yield "classic"
        if self.kafka.new_protocol:
            yield "consumer"

    def at(self, group: str) -> list[int]:
        """What is committed on the three partitions, by a plain client; those without a commit are left out."""
        return [offset for _, offset in sorted(offsets(self.world, group).items())]


def staged(kafka: Kafka) -> Stage:
    """Put the topic and the groups there."""
    world, members = kafka.world, kafka.members
    stage = Stage(kafka, world.topic("t3", 3), int(time.time() * 1000) - 2 * MINUTE_MS)
    for partition in range(3):
        times = [stage.newest_ms - MINUTE_MS * back for back in reversed(range(RECORDS))]
        world.produce_at(stage.topic, partition, times)
    for group in IDLE:
        stage.own(group)
    live = _joined_in_turn(members, partial(members.classic, LIVE, stage.topic), "app")
    if kafka.new_protocol:
        for group in NEW:
            stage.own(group, "consumer")
        live += _joined_in_turn(members, partial(members.consumer, NEW_LIVE, stage.topic), "new")
    for member in live:
        member.commit()
    return stage


def _joined_in_turn(members: Members, start: Callable[..., Member], name: str) -> list[Member]:
    """Two members, the second of which joins a group that is stable."""
    first = start(client_id=f"{name}-0")
    members.stable(first, partitions=3)
    both = [first, start(client_id=f"{name}-1")]
    members.stable(*both, partitions=3)
    return both


def verb(name: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Put a function into the table."""

    def put(function: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SMOKE[name] = function
        return function

    return put


@verb("list")
def list_groups(stage: Stage) -> None:
    groups = kgroup("list", "-o", "json").data
    ours = {(row["group"], row["state"].lower()) for row in groups}
    assert ours == stage.kafka.listed()
    by_name = {row["group"]: row for row in groups}
    for group in stage.groups:
        assert by_name[group]["member_count"] == (2 if group in stage.live else 0)
        assert by_name[group]["type"] == ("consumer" if group.startswith("c-") else "classic")
    if stage.kafka.version >= "4.4":
        stage.world.share_group("g-share", stage.topic)
        listed = kgroup("list", "-o", "json").data
        assert {(row["group"], row["type"], row["protocol_type"]) for row in listed} == stage.kafka.of_all_kinds()
        for kind in ("share", "streams"):
            assert {row["group"] for row in listed if row["type"] == kind} == stage.kafka.of_kind(kind)
    logged = kgroup("list", "--coordinator", "1", "--from-log", "-o", "json").data
    assert {row["group"] for row in logged} >= set(stage.groups)


def compared(stage: Stage, *arguments: str) -> None:
    """Every partition of every group that is described, against the own tool."""
    theirs = stage.kafka.described()
    ours = {
        (group["group"], row["topic"], row["partition"]): row
        for group in kgroup("describe", *arguments, "-o", "json").data
        if group["type"]
        != "share"  # of which that tool knows nothing; tests/commands/test_share_groups.py has their own
        for row in group["partitions"]
    }
    assert ours.keys() == {cell for cell in theirs if not arguments[1:] or cell[0] in arguments}
    for cell, row in ours.items():
        told = theirs[cell]
        found = (row["committed"], row["log_end"], row["lag"], row["client_id"])
        assert tuple("-" if value is None else str(value) for value in found) == (
            told.committed,
            told.end,
            told.lag,
            told.client_id,
        ), cell


@verb("describe")
def describe(stage: Stage) -> None:
    compared(stage, "--all-groups")
    states = stage.kafka.states()
    assert states.keys() >= set(stage.live)
    for found in kgroup("describe", *states, "-o", "json").data:
        shown = (found["state"].lower(), found["assignor"] or "-", len(found["members"]))
        assert shown == states[found["group"]], found["group"]
    named = kgroup("describe", *stage.groups, "--members", "-o", "json").data
    for live in (group for group in named if group["group"] in stage.live):
        members = {
            (
                m["member_id"],
                f"/{m['host']}",
                m["client_id"],
                sum(len(topic["partitions"]) for topic in m["assignment"]),
            )
            for m in live["members"]
        }
        assert members == stage.kafka.members_of(live["group"])
    assert {group["group"]: len(group["members"]) for group in named} == {
        group: 2 if group in stage.live else 0 for group in stage.groups
    }
    for group in stage.groups:
        (logged,) = kgroup("describe", group, "--from-log", "-o", "json").data
        committed = {(row["topic"], row["partition"]): row["committed"] for row in logged["partitions"]}
        assert committed == offsets(stage.world, group)


@verb("lag")
def lag(stage: Stage) -> None:
    theirs: dict[str, int] = {}
    for (group, _, _), row in stage.kafka.described().items():
        theirs[group] = theirs.get(group, 0) + int(row.lag)
    ours = {row["group"]: row["lag"] for row in kgroup("lag", "--all-groups", "-o", "json").data}
    share = stage.kafka.of_kind("share") if stage.kafka.version >= "4.4" else set()
    assert {group: behind for group, behind in ours.items() if group not in share} == theirs
    assert share <= ours.keys()
    for group in stage.idle:
        assert theirs[group] == 3 * RECORDS - 60
        kgroup("lag", group, "--max-lag", "240")
        kgroup("lag", group, "--max-lag", "239", exit_code=8)
    assert "kafka_consumergroup_group_lag" in kgroup("lag", "--all-groups", "-o", "prometheus").stdout


@verb("doctor")
def doctor(stage: Stage) -> None:
    document = kgroup("doctor", "--all-groups", "-o", "json").json
    assert {row["group"] for row in document["data"] if row["scope"] == "group"} >= set(stage.groups)
    assert document["errors"] == []
    assert [row["scope"] for row in kgroup("doctor", "--cluster", "-o", "json").data] == ["cluster"]


@verb("history")
def history(stage: Stage) -> None:
    documents = {row["group"]: row for row in kgroup("history", *stage.groups, "-o", "json").data}
    assert documents.keys() == set(stage.groups)
    for group in stage.live:
        assert {cause["cause"] for cause in documents[group]["totals"]["causes"]} >= {"join"}
        assert documents[group]["scan"]["complete"] is True
    (one,) = kgroup("history", "g-a", "--commits", "-o", "json").data
    assert one["commits"] is not None


@verb("wait")
def wait(stage: Stage) -> None:
    for group in stage.idle:
        conditions = ("--for", "empty", "--for", "lag=240", "--for", f"type={kind_of(group)}")
        kgroup("wait", group, *conditions, "--within", "30s")
    kgroup("wait", *stage.idle, "--for", "empty", "--within", "30s")
    kgroup("wait", *stage.live, "--for", "stable", "--for", "members=2", "--within", "30s")
    kgroup("wait", *stage.live, "--for", "empty", "--within", "0s", exit_code=8)


def kind_of(group: str) -> str:
    return "consumer" if group.startswith("c-") else "classic"


@verb("simulate")
def simulate(stage: Stage) -> None:
    for group in stage.live:
        (document,) = kgroup("simulate", group, "--add", "1", "-o", "json").data
        assert document["group"] == group


@verb("peek")
def peek(stage: Stage) -> None:
    for group in stage.idle:
        peeked = kgroup("peek", group, "--topic", f"{stage.topic}:0,1,2", "-n", "2", "-o", "json").data
        found = {row["partition"]: [(r["offset"], r["timestamp_ms"]) for r in row["records"]] for row in peeked}
        assert found == {
            partition: [
                (offset, stage.newest_ms - MINUTE_MS * (RECORDS - 1 - offset))
                for offset in (10 * partition + 10, 10 * partition + 11)
            ]
            for partition in range(3)
        }


@verb("export")
def export(stage: Stage) -> None:
    rows = kgroup("export", "--all-groups").stdout.splitlines()
    ours = {(group, topic, int(number)): offset for group, topic, number, offset in (row.split(",") for row in rows)}
    theirs = {cell: row.committed for cell, row in stage.kafka.described().items() if row.committed != "-"}
    assert ours == theirs
    assert set(kgroup("export", "--all-groups", "--from-log").stdout.splitlines()) >= {
        row for row in rows if row.startswith(stage.groups)
    }


SCENARIOS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--shift-by", "5"),
    ("--to-datetime", "{moment}"),
    ("--by-duration", "{ago}"),
)


def between_two_records(stage: Stage) -> str:
    """A duration that ends half a minute from the records around it, for both tools, one after the other."""
    return f"PT{round(time.time() - stage.newest_ms / 1000) + 57 * 60 + 30}S"


@verb("reset")
def reset(stage: Stage) -> None:
    middle = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime((stage.newest_ms - 30 * MINUTE_MS) / 1000))
    groups = [stage.own(f"reset-{kind}", kind) for kind in stage.kinds()]
    for scenario in SCENARIOS:
        for group in groups:
            words = [word.format(moment=middle, ago=between_two_records(stage)) for word in scenario]
            theirs = stage.kafka.planned(group, stage.topic, *words)
            assert set(theirs) == {(group, *cell) for cell in stage.cells}
            planned = kgroup("reset", group, "--topic", stage.topic, *words, "-o", "json").data
            assert targets(planned) == theirs, words
            assert stage.at(group) == [10, 20, 30]
            kgroup("reset", group, "--topic", stage.topic, *words, "--execute")
            assert {(group, *cell): offset for cell, offset in offsets(stage.world, group).items()} == theirs
            source = ("--from-group", "g-a", *(["--from-log"] if scenario == SCENARIOS[0] else []))
            kgroup("reset", group, *source, "--execute")
    exported = Path(os.environ["KGROUP_STATE_DIR"]).parent / "offsets.csv"
    exported.write_text(kgroup("export", *groups).stdout)
    kgroup("reset", *groups, "--to-earliest", "--all-topics", "--execute")
    kgroup("reset", *groups, "--from-file", str(exported), "--execute")
    assert [stage.at(group) for group in groups] == [[10, 20, 30]] * len(groups)
    matching = kgroup("reset", "--regex", "reset-.*|c-[abcd]", "--all-topics", "--to-latest", "-o", "json").data
    assert {row["group"] for row in matching} == {*groups, *(NEW if stage.kafka.new_protocol else ())}
    kgroup("reset", LIVE, "--to-earliest", "--all-topics", "--execute", exit_code=9)


def targets(rows: list[dict[str, object]]) -> dict[Cell, int]:
    return {
        (str(row["group"]), str(row["topic"]), int(str(row["partition"]))): int(str(row["new_offset"])) for row in rows
    }


@verb("undo")
def undo(stage: Stage) -> None:
    for kind in stage.kinds():
        group = stage.own(f"undo-{kind}", kind)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime(_next_second()))
        kgroup("reset", group, "--to-latest", "--all-topics", "--execute")
        kgroup("undo", "--execute")
        assert stage.at(group) == [10, 20, 30]
        kgroup("reset", group, "--to-earliest", "--all-topics", "--execute")
        kgroup("undo", group, "--as-of", moment, "--execute")
        assert stage.at(group) == [10, 20, 30]


def _next_second() -> float:
    """Wait until the second that it is now is over, and say which it was."""
    second = int(time.time())
    while time.time() < second + 1:
        pass
    return float(second)


@verb("delete")
def delete(stage: Stage) -> None:
    groups = [stage.own(f"delete-{kind}-{number}", kind) for kind in stage.kinds() for number in range(2)]
    planned = kgroup("delete", "--regex", "delete-.*", "-o", "json").data
    assert {row["group"] for row in planned} == set(groups)
    kgroup("delete", "--regex", "delete-.*", "--execute")
    assert not set(groups) & stage.world.groups().keys()
    assert not set(groups) & {group for group, _ in stage.kafka.listed()}
    kgroup("undo", "--execute")
    assert [stage.at(group) for group in groups] == [[10, 20, 30]] * len(groups)
    kgroup("delete", LIVE, "--execute", exit_code=9)


@verb("delete-offsets")
def delete_offsets(stage: Stage) -> None:
    for kind in stage.kinds():
        group = stage.own(f"forget-{kind}", kind)
        kgroup("delete-offsets", group, "--topic", f"{stage.topic}:1", "--execute")
        assert stage.at(group) == [10, 30]
        assert {cell[2] for cell, row in stage.kafka.described().items() if cell[0] == group} == {0, 2}
        kgroup("undo", "--execute")
        assert stage.at(group) == [10, 20, 30]
    kgroup("delete-offsets", LIVE, "--topic", stage.topic, "--execute", exit_code=9)


@verb("evict")
def evict(stage: Stage) -> None:
    for kind in stage.kinds():
        group = stage.own(f"static-{kind}", kind)
        if kind == "classic":
            member = stage.kafka.members.classic(
                group, stage.topic, group_instance_id="pay-0", session_timeout_ms=120_000
            )
        else:
            stage.world.configure_group(group, consumer_session_timeout_ms="60000")
            member = stage.kafka.members.consumer(group, stage.topic, group_instance_id="pay-0")
        stage.kafka.members.stable(member, partitions=3)
        member.kill()
        kgroup("reset", group, "--to-earliest", "--all-topics", exit_code=9)
        kgroup("evict", group, "--instance", "pay-0", "--execute")
        kgroup("wait", group, "--for", "empty", "--within", "10s")
        kgroup("reset", group, "--to-earliest", "--all-topics", "--execute")
        assert stage.at(group) == [0, 0, 0]


@verb("migrate")
def migrate(stage: Stage) -> None:
    group = stage.own("moving")
    (row,) = kgroup("migrate", group, "-o", "json", exit_code=0 if stage.kafka.new_protocol else 6).data
    if not stage.kafka.new_protocol:
        (check,) = (check for check in row["checks"] if check["status"] == "blocked")
        assert check["id"] == "protocol-available"
        release = ".".join(stage.kafka.version.split(".")[:2])
        brokers = f"brokers of {release}; the protocol" if stage.kafka.kraft else "brokers of 3.x on ZooKeeper"
        assert check["evidence"].startswith(brokers)
        assert "upgrade the brokers to 4.0 or newer" in check["remedy"]
        assert "kafka-features" not in check["remedy"], "which fails there"
        kgroup("migrate", group, "--execute", exit_code=6)
        watched = kgroup("migrate", group, "--watch", "--within", "60s", exit_code=6)
        assert f"{group} cannot move to the consumer protocol: {brokers}" in watched.stderr
        assert "ROLLOUT" not in watched.stderr, "it says so at once"
        kgroup("migrate", group, "--protocol", "classic")
        return
    kgroup("migrate", group, "--execute")
    assert stage.world.groups()[group] == ("consumer", "empty")
    assert stage.at(group) == [10, 20, 30]
    kgroup("migrate", NEW_LIVE, "--watch", "--within", "10s")
    kgroup("migrate", group, "--protocol", "classic", "--execute")
    assert stage.world.groups()[group] == ("classic", "empty")
    assert stage.at(group) == [10, 20, 30]
    rows = kgroup("migrate", "--regex", "moving|c-[abcd]", "-o", "json").data
    assert {row["group"]: row["readiness"] for row in rows} == {group: "ready", **dict.fromkeys(NEW, "done")}


@contextmanager
def _released(stage: Stage, name: str) -> Iterator[tuple[Crash, str]]:
    """A crashed group of its own ledger that is released, and its plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGROUP_LEDGER_TOPIC", f"ledger-{name}")
        crashed = crash(
            stage.world, f"orders-{name}", f"svc-{name}", "consumer" if stage.kafka.new_protocol else "classic"
        )
        plan = plan_id(kgroup("catchup", "start", crashed.group, "--release-only", "--execute"))
        assert offsets(stage.world, crashed.group) == crashed.released
        yield crashed, plan


@verb("catchup start")
def catchup_start(stage: Stage) -> None:
    kgroup("catchup", "start", "g-a", "--release-only")
    assert stage.at("g-a") == [10, 20, 30]
    with _released(stage, "start") as (crashed, _):
        (document,) = kgroup("describe", crashed.group, "-o", "json").data
        assert [pending["pending_offset_count"] for pending in document["pending_catchups"]] == [80]


@verb("catchup check")
def catchup_check(stage: Stage) -> None:
    copy = stage.world.topic("copy-check", 2)
    assert "can start" in kgroup("catchup", "check", "--to-topic", copy, "--master", "local[2]").stdout


@verb("catchup list")
def catchup_list(stage: Stage) -> None:
    with _released(stage, "list") as (_, plan):
        assert [row["plan_id"] for row in kgroup("catchup", "list", "-o", "json").data] == [plan]


@verb("catchup show")
def catchup_show(stage: Stage) -> None:
    with _released(stage, "show") as (_, plan):
        assert plan in kgroup("catchup", "show", plan).stdout


@verb("catchup stop")
def catchup_stop(stage: Stage) -> None:
    with _released(stage, "stop") as (_, plan):
        assert plan in kgroup("catchup", "stop", plan).stdout


@verb("catchup throttle")
def catchup_throttle(stage: Stage) -> None:
    with _released(stage, "throttle") as (_, plan):
        assert plan in kgroup("catchup", "throttle", plan, "5MiB/s", "--execute").stdout


@verb("catchup resume")
def catchup_resume(stage: Stage) -> None:
    with _released(stage, "resume") as (crashed, plan):
        copy = stage.world.topic("copy-resume", 2)
        arguments = ("--to-topic", copy, "--master", "local[2]", "--execute")
        result = kgroup("catchup", "resume", plan, *arguments)
        assert "VERIFIED" in result.stdout
        assert copied(stage.world, copy) == gap_of(crashed)


@verb("catchup done")
def catchup_done(stage: Stage) -> None:
    with _released(stage, "done") as (_, plan):
        assert f"CLOSED  {plan}" in kgroup("catchup", "done", plan, "--by", "job 1", "--execute").stdout


@verb("catchup cancel")
def catchup_cancel(stage: Stage) -> None:
    with _released(stage, "cancel") as (crashed, plan):
        kgroup("catchup", "cancel", plan, "--execute")
        assert offsets(stage.world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


@verb("catchup prune")
def catchup_prune(stage: Stage) -> None:
    with _released(stage, "prune") as (_, plan):
        kgroup("catchup", "cancel", plan, "--execute")
        kgroup("catchup", "prune", plan, "--execute")
        assert kgroup("catchup", "list", "-o", "json").data == []


@verb("sandbox up")
def sandbox_up(stage: Stage) -> None:
    with _sandbox_of(stage):
        (status,) = kgroup("sandbox", "up", "-o", "json").data
        assert status["bootstrap_servers"] == stage.kafka.bootstrap
    # Another sandbox, whose broker ends at once: why is in its log, which older versions write through Log4j 1.
    jars = str(stage.kafka.distribution.classpath[0].parent)
    wrong = ("--set", "offsets.topic.num.partitions=many")
    assert "offsets.topic.num.partitions" in kgroup("sandbox", "up", "--jars", jars, *wrong, exit_code=1).stderr


@verb("sandbox status")
def sandbox_status(stage: Stage) -> None:
    with _sandbox_of(stage):
        (status,) = kgroup("sandbox", "status", "-o", "json").data
    assert (status["state"], status["version"]) == ("running", stage.kafka.version)
    log = Path(status["brokers"][0]["log_file"]).read_text(encoding="utf-8")
    assert "INFO" in log, "a broker that cannot start says why"


@verb("sandbox demo")
def sandbox_demo(stage: Stage) -> None:
    with _sandbox_of(stage):
        assert "demo-orders:0         70      120   50" in kgroup("sandbox", "demo", "--crash-only").stdout


@verb("sandbox down")
def sandbox_down(stage: Stage) -> None:
    """The module's own is stopped at its end; here there is none."""
    kgroup("sandbox", "down")


@contextmanager
def _sandbox_of(stage: Stage) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGROUP_STATE_DIR", str(stage.kafka.state_directory))
        yield
