"""Every verb in every form: ``VERBS`` has a function a verb, that runs it on the stage; what it gives is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.contracts.stage import GONE, IDLE, LIVE, NEW_LIVE, NEXT, NO_BROKER, ORDERS, PAYMENTS, STREAMS, Stage, fill
from tests.helpers.command_line import CommandLine, Result

VERBS: dict[str, Callable[[Stage], None]] = {}
"""By the name of its file in ``data``."""

STANDING = f"--group {IDLE} --group {NEXT} --group {LIVE} --group {NEW_LIVE} --group {STREAMS}"
"""The groups that no verb changes."""


def verb(name: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Put a function into the table."""

    def put(function: Callable[[Stage], None]) -> Callable[[Stage], None]:
        VERBS[name] = function
        return function

    return put


def wrong(stage: Stage, verb: str, more: str = "") -> None:
    """A group that is not there, no broker, and an option that no verb has."""
    stage(f"{verb} c-missing {more}")
    stage(f"{verb} {IDLE} {more} {NO_BROKER}")
    stage(f"{verb} {IDLE} {more} --no-such-option")


@verb("list")
def list_(stage: Stage) -> None:
    stage.forms(f"list {STANDING}")
    stage("list --regex c-.*live")
    stage(f"list --regex c-.* --topic {PAYMENTS} --in-state Empty --type streams")
    stage(f"list {IDLE} --from-log")
    stage(f"list {IDLE} --expect 2")
    wrong(stage, "list")


@verb("describe")
def describe(stage: Stage) -> None:
    stage.forms(f"describe {IDLE}")
    for group in (NEXT, LIVE, NEW_LIVE, STREAMS):
        stage(f"describe {group}")
    for view in ("--members", "--state", "--offsets"):
        stage(f"describe {LIVE} {view}", "csv")
    stage(f"describe {STANDING}", "csv")
    stage(f"describe {IDLE} --from-log")
    stage(f"describe {IDLE} {IDLE} c-missing")
    wrong(stage, "describe")


@verb("lag")
def lag(stage: Stage) -> None:
    stage.forms(f"lag {IDLE}")
    for level in ("group", "topic"):
        stage(f"lag {STANDING} --by {level}")
        stage(f"lag {STANDING} --by {level}", "csv")
    stage(f"lag {LIVE} {NEW_LIVE} {IDLE}", "prometheus")
    stage(f"lag {IDLE} --no-time --scan-time 0s --isolation read_committed")
    stage(f"lag {IDLE} --max-lag 10")
    stage(f"lag {LIVE} --max-lag 10 --max-lag-time 1d")
    stage(f"lag {IDLE} --max-lag-time 1d --fail-on stop")
    wrong(stage, "lag")


@verb("peek")
def peek(stage: Stage) -> None:
    stage.forms(f"peek {IDLE} --topic {ORDERS}:0,1 -n 1")
    stage(f"peek {IDLE} --topic {ORDERS}:0 --before 1 -n 1 --value-format hex")
    stage(f"peek {ORDERS}:0 --offset 70 -n 1", "jsonl")
    stage(f"peek {ORDERS}:0 --offset 700")
    stage(f"peek {ORDERS}:9")
    stage(f"peek {ORDERS}")
    wrong(stage, "peek")


@verb("history")
def history(stage: Stage) -> None:
    stage.forms(f"history {LIVE}")
    for group in (NEW_LIVE, NEXT, STREAMS):
        stage(f"history {group}")
    stage.forms(f"history {IDLE} --commits", ("yaml", "csv", "markdown"))
    wrong(stage, "history")


@verb("doctor")
def doctor(stage: Stage) -> None:
    stage.forms(f"doctor {IDLE}")
    stage(f"doctor {LIVE} {NEW_LIVE}")
    stage("doctor --cluster")
    stage("doctor --explain rebalance-storm")
    stage("doctor --rules", "csv")
    stage(f"doctor {IDLE} --fail-on info")
    wrong(stage, "doctor")


@verb("simulate")
def simulate(stage: Stage) -> None:
    stage.forms(f"simulate {LIVE} --add 1 --rebalance-time 3s")
    stage(f"simulate {NEW_LIVE} --add 1 --rebalance-time 3s")
    stage(f"simulate {LIVE} --restart-rolling --static --rebalance-time 3s")
    stage(f"simulate {IDLE} --add 1")
    stage(f"simulate {LIVE} --assignor no-such")
    stage(f"simulate {LIVE}")
    wrong(stage, "simulate", "--add 1")


@verb("export")
def export(stage: Stage) -> None:
    stage.forms(f"export {IDLE}", ("yaml", "csv", "kcg", "table"))
    stage(f"export {IDLE} {LIVE} {NEXT}", "kcg")
    stage(f"export {IDLE} {LIVE} {NEXT} --topic {ORDERS}")
    stage(f"export {IDLE} --from-log")
    wrong(stage, "export")


@verb("wait")
def wait(stage: Stage) -> None:
    stage.forms(f"wait {IDLE} --for empty")
    stage(f"wait {LIVE} {NEW_LIVE} --for stable --for members=1 --for lag=0 --for lag-time=1s")
    stage(f"wait {NEXT} --for type=consumer")
    stage(f"wait {LIVE} --for empty --for type=consumer --within 1s")
    stage(f"wait {IDLE}")
    wrong(stage, "wait", "--for empty")


@verb("reset")
def reset(stage: Stage) -> None:
    classic, new = stage.commit("c-reset", 70, 50), stage.commit("c-reset-new", 70, 500, kind="consumer")
    stage.forms(f"reset {classic} --all-topics --to-latest")
    for where in (
        "--to-earliest",
        "--to-current",
        "--to-offset 80",
        "--shift-by -5",
        "--to-datetime 2026-01-01T00:10Z",
        f"--from-group {IDLE}",
    ):
        stage(f"reset {classic} --topic {stage.topic}:0 {where}", "csv" if where == "--to-earliest" else "json")
    stage(f"reset {classic} --topic {stage.topic}:0 --shift-by 1")
    stage(f"reset {new} --all-topics --only out-of-range")
    stage(f"reset {classic} {new} --all-topics --to-offset 999")
    stage(f"reset {classic} --topic no-such-topic --to-latest")
    stage(f"reset {classic} --all-topics --to-latest --expect 7")
    stage(f"reset {LIVE} --all-topics --to-earliest")
    stage(f"reset {STREAMS} --topic {PAYMENTS} --to-earliest")
    stage("reset c-created --create --from-group c-idle")
    stage(f"reset {classic} --to-latest")
    backup, skipped = stage.directory / "backup.json", stage.directory / "skipped.json"
    stage(f"reset {classic} --topic {stage.topic}:1 --shift-by -5 --execute --reason INC-1 --backup {backup}")
    stage.file(backup)
    stage(f"reset {classic} --topic {stage.topic}:0 --shift-by 1 --save-skipped {skipped} --execute")
    stage.lines(skipped)
    stage(f"reset {classic} {new} --all-topics --to-offset 60 --execute")
    stage(f"reset {LIVE} {new} --all-topics --to-earliest --execute")
    stage(f"reset {LIVE} {new} --all-topics --to-earliest --partial --execute")
    stage(f"reset {classic} --from-file {backup} --execute", "csv")
    wrong(stage, "reset", "--all-topics --to-latest")


@verb("undo")
def undo(stage: Stage) -> None:
    kgroup = CommandLine()
    group = stage.commit("c-undo", 70, 50)
    stage("undo")
    reset = kgroup("reset", group, "--all-topics", "--to-earliest", "--reason", "INC-1", "--execute")
    moved = change_id(reset)
    kgroup("reset", stage.commit("c-undo-second", 70), "--topic", f"{stage.topic}:0", "--shift-by", "1", "--execute")
    stage.forms("undo")
    stage.forms(f"undo {moved}")
    stage(f"undo {group} --as-of 2020-01-01T00:00Z")
    stage(f"undo {moved} --execute")
    stage(f"undo {moved}")
    deleted = change_id(kgroup("delete", group, "--execute"))
    stage(f"undo {deleted}")
    stage(f"undo {deleted} --execute")
    offsets = change_id(kgroup("delete-offsets", group, "--topic", f"{stage.topic}:0", "--execute"))
    stage(f"undo {offsets} --execute")
    migrated = change_id(kgroup("migrate", group, "--client", "java:4.4.0", "--execute"))
    stage(f"undo {migrated}")
    stage(f"undo {migrated} --execute")
    stage.commit(group, 1, 2)
    stage(f"undo {offsets}")
    stage("undo ch-0000")  # no change id has a 0, so none is near enough to be suggested
    stage(f"undo {NO_BROKER}")
    stage("undo --no-such-option")


@verb("migrate")
def migrate(stage: Stage) -> None:
    group = stage.commit("c-migrate", 70, 50)
    stage.forms(f"migrate {group} --client java:4.4.0")
    stage(f"migrate {group}")
    stage(f"migrate {IDLE} {NEXT} {LIVE} {NEW_LIVE} --client java:4.4.0")
    stage(f"migrate {IDLE} {NEXT} {LIVE} {NEW_LIVE} --client java:4.4.0", "csv")
    stage(f"migrate {group} --client java:3.0.0")
    stage(f"migrate {STREAMS}")
    stage(f"migrate {group} --client java:4.4.0 --session-timeout 12s --execute")
    stage(f"migrate {group} --client java:4.4.0 --execute")
    stage(f"migrate {group} --protocol classic")
    stage(f"migrate {group} --protocol classic --execute")
    wrong(stage, "migrate")


@verb("evict")
def evict(stage: Stage) -> None:
    stage.forms(f"evict {GONE} --instance gone-1")
    stage(f"evict {LIVE} --all-members")
    stage(f"evict {GONE} --instance no-such")
    stage(f"evict {IDLE} --all-members")
    stage(f"evict {NEW_LIVE} --instance new-1")
    stage(f"evict {GONE}")
    stage(f"evict {GONE} --instance gone-1 --execute --reason INC-1")
    wrong(stage, "evict", "--all-members")


@verb("delete")
def delete(stage: Stage) -> None:
    one, two = stage.commit("c-delete", 70, 50), stage.commit("c-delete-new", 10, kind="consumer")
    stage.forms(f"delete {one} {two}")
    stage(f"delete {one} --idle-for 30d")
    stage(f"delete {LIVE} {STREAMS}")
    stage(f"delete {LIVE} {one} --execute")
    stage(f"delete {LIVE} {one} --partial --execute")
    backup = stage.directory / "backup.json"
    stage(f"delete {two} --execute --backup {backup}")
    stage.file(backup)
    wrong(stage, "delete")


@verb("delete-offsets")
def delete_offsets(stage: Stage) -> None:
    group = stage.commit("c-forget", 70, 50)
    stage.forms(f"delete-offsets {group} --topic {stage.topic}:0")
    stage(f"delete-offsets {LIVE} --topic {PAYMENTS}")
    stage(f"delete-offsets {group} --topic {PAYMENTS}")
    stage(f"delete-offsets {group}")
    backup = stage.directory / "backup.json"
    stage(f"delete-offsets {group} --topic {stage.topic}:0 --execute --backup {backup}")
    stage.file(backup)
    stage(f"delete-offsets {group} --topic {stage.topic} --execute", "csv")
    wrong(stage, "delete-offsets", f"--topic {stage.topic}")


@verb("catchup")
def catchup(stage: Stage) -> None:
    for listed in ("catchup list", "catchup prune", "catchup show cu-zzzz"):
        stage(listed)
    copy = fill(stage.world, f"copy-of-{stage.topic}", 0, 0, 0)
    group, other = stage.commit("c-gap", 70, 20, 0), stage.commit("c-gap-new", 70, 500, kind="consumer")
    stage.forms(f"catchup start {group}")
    stage(f"catchup start {group} --to-topic {copy} --dead-letter-topic {copy}")
    stage(f"catchup start {group} --topic {stage.topic}:0 --until 2026-01-01T01:25Z")
    stage(f"catchup start {group} --skip-before 2026-01-01T01:15Z")
    stage(f"catchup start {group} --topic {stage.topic} --missing earliest")
    stage(f"catchup start --range {stage.topic}:0=10-20 --to-topic {copy}")
    stage(f"catchup start {other}")
    stage(f"catchup start {LIVE}")
    stage(f"catchup start {STREAMS}")
    stage("catchup start c-missing")
    stage(f"catchup start {group} {NO_BROKER}")
    stage(f"catchup start {group} --execute")
    plan = plan_id(stage(f"catchup start {group} --release-only --execute --reason INC-1"))
    stage(f"catchup start {group}")
    stage(f"describe {group}")
    stage(f"reset {group} --topic {stage.topic}:0 --shift-by -5")
    stage.forms("catchup list", ("yaml", "csv", "markdown", "table"))
    stage.forms(f"catchup show {plan}")
    stage(f"catchup stop {plan}")
    stage(f"catchup stop {plan} --execute")
    stage(f"catchup resume {plan}")
    stage(f"catchup resume {plan} --release-only --execute")
    stage(f"catchup resume {plan} --to-topic {copy}")
    stage(f"catchup resume {plan} --to-topic no-such-topic --execute")
    stage(f"catchup prune {plan}")
    stage(f"catchup cancel {plan}")
    stage(f"catchup cancel {plan} --execute")
    stage(f"catchup cancel {plan}")
    stage(f"catchup show {plan}")
    second = plan_id(stage(f"catchup start {other} --partial --release-only --execute"))
    stage(f"catchup cancel {second} --abandon --execute")
    stage.forms(f"catchup prune {plan} {second}", ("csv",))
    stage(f"catchup prune {plan} --execute")
    for each in ("show", "stop", "resume", "cancel", "prune"):
        stage(f"catchup {each} cu-zzzz")
        stage(f"catchup {each} {plan} {NO_BROKER}")


@verb("replay")
def replay(stage: Stage) -> None:
    """A catch-up to its end, with Spark."""
    copy = fill(stage.world, f"copy-of-{stage.topic}", 0, 0, 0)
    group, report = stage.commit("c-replay", 90, 45, 0), stage.directory / "report.json"
    words = f"catchup start {group} --to-topic {copy} --master local[1] --report {report} --execute -o json".split()
    done = stage.record(words, CommandLine().process(*words))
    stage.file(report)
    plan = plan_id(done)
    stage(f"catchup show {plan}")
    stage(f"catchup list {group}", "csv")
    stage(f"catchup cancel {plan}")
    stage(f"catchup resume {plan}")
    stage("catchup prune")
    stage("catchup prune --execute")


@verb("context")
def context(stage: Stage) -> None:
    stage("context list")
    write_contexts(stage.directory / "config.yaml")
    stage.forms("context list")
    stage.forms("context show prod")
    stage("context show broken")
    stage("context show -b b1:9092 -X security.protocol=SSL")
    stage.forms("context use audit", ("yaml", "csv"))
    stage("context list")
    stage("context show")
    stage("context use no-such")
    stage("context show no-such")
    stage(f"reset {IDLE} --all-topics --to-latest --context audit --execute")
    stage("context --no-such-option")


@verb("sandbox")
def sandbox(stage: Stage) -> None:
    """The last: it takes the broker away from the others."""
    stage.forms("sandbox status")
    stage("sandbox up")
    stage("sandbox up --brokers 3")
    stage("sandbox up --brokers 2")
    stage("sandbox down")
    stage("sandbox status")
    stage("sandbox down --wipe")
    stage("sandbox status")
    stage("sandbox down --wipe")


def write_contexts(path: Path) -> None:
    """Clusters: one with a password, one whose password is not set, and one that takes no change."""
    contexts = {
        "prod": {
            "bootstrap.servers": "b1.prod:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "oncall",
            "sasl.password": "hunter2",
            "explicit": True,
        },
        "broken": {"bootstrap.servers": "b1.broken:9092", "sasl.password": "${env:CONTRACTS_NOT_SET}"},
        "audit": {"bootstrap.servers": "b1.audit:9092", "read_only": True, "timeout": "20s"},
    }
    path.write_text(json.dumps({"contexts": contexts}), encoding="utf-8")
    path.chmod(0o600)


def change_id(result: Result) -> str:
    """The change that was made."""
    return str(re.findall(r"\bch-[2-9a-z]{4}\b", result.stdout + result.stderr)[0])


def plan_id(result: Result) -> str:
    """The plan that was made."""
    return str(re.findall(r"\bcu-[2-9a-z]{4}\b", result.stderr + result.stdout)[0])
