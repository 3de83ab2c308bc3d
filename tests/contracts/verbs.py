"""``VERBS`` has a function a verb, that runs it on the stage; what it gives is recorded.

Of each verb a success, a refusal, an empty answer and an error, with the headings of csv and of the table once. All
other documents of the tests have the fields of the schema too (``tests/helpers/command_line.py`` checks them); a
broker that is not there and a wrong option are in ``test_schemas.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.contracts.stage import FORMATS, GONE, IDLE, LIVE, NEW_LIVE, NEXT, ORDERS, PAYMENTS, STREAMS, Stage, fill
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


@verb("list")
def list_(stage: Stage) -> None:
    stage.forms(f"list {STANDING}")
    stage(f"list --regex c-.* --topic {PAYMENTS} --in-state Empty --type streams")
    stage(f"list {IDLE} --from-log")
    stage(f"list {IDLE} --expect 2")
    stage("list c-missing")


@verb("describe")
def describe(stage: Stage) -> None:
    stage.forms(f"describe {LIVE}")
    for group in (IDLE, NEW_LIVE, STREAMS, "c-missing"):
        stage(f"describe {group}")
    for view in ("--members", "--state", "--offsets"):
        stage(f"describe {LIVE} {view}", "csv")


@verb("lag")
def lag(stage: Stage) -> None:
    stage.forms(f"lag {IDLE}")
    for level in ("group", "topic"):
        stage(f"lag {LIVE} --by {level}", "csv")
    stage(f"lag {LIVE} {NEW_LIVE} {IDLE}", "prometheus")
    for group in (STREAMS, "c-missing"):
        stage(f"lag {group}")


@verb("peek")
def peek(stage: Stage) -> None:
    stage.forms(f"peek {IDLE} --topic {ORDERS}:0,1 -n 1")
    stage(f"peek {ORDERS}:0 --offset 70 -n 1", "jsonl")
    stage(f"peek {ORDERS}:0 --offset 700")
    stage(f"peek {ORDERS}:9")
    stage("peek c-missing")


@verb("history")
def history(stage: Stage) -> None:
    stage.forms(f"history {LIVE}")
    stage(f"history {IDLE} --commits")
    stage(f"history {IDLE} --commits", "csv")
    stage(f"history {IDLE} --expect 2")
    for group in (STREAMS, "c-missing"):
        stage(f"history {group}")


@verb("doctor")
def doctor(stage: Stage) -> None:
    stage.forms(f"doctor {IDLE}")
    stage("doctor --cluster")
    stage("doctor --explain rebalance-storm")
    stage("doctor --rules", "csv")
    stage("doctor c-missing")


@verb("simulate")
def simulate(stage: Stage) -> None:
    stage.forms(f"simulate {LIVE} --restart-rolling --static --rebalance-time 3s")
    stage(f"simulate {LIVE} --assignor no-such")
    stage("simulate c-missing --add 1")


@verb("export")
def export(stage: Stage) -> None:
    stage.forms(f"export {IDLE}", ("csv", "kcg", "table"))
    stage(f"export {IDLE} {LIVE} {NEXT}", "kcg")
    stage("export c-missing")


@verb("wait")
def wait(stage: Stage) -> None:
    stage.forms(f"wait {LIVE} --for stable --for members=1 --for lag=0 --for lag-time=1s")
    stage(f"wait {LIVE} --for empty --for type=consumer --within 1s")
    stage("wait c-missing --for empty")


@verb("reset")
def reset(stage: Stage) -> None:
    classic, new = stage.commit("c-reset", 70, 50), stage.commit("c-reset-new", 70, 500, kind="consumer")
    stage.forms(f"reset {classic} --all-topics --to-latest")
    stage(f"reset {new} --all-topics --only out-of-range")
    stage(f"reset {new} --topic {stage.topic}:0 --to-offset 999")
    stage(f"reset {classic} --topic no-such-topic --to-latest")
    stage(f"reset {LIVE} --all-topics --to-earliest")
    stage("reset c-missing --all-topics --to-latest")
    backup, skipped = stage.directory / "backup.json", stage.directory / "skipped.json"
    stage(f"reset {classic} --topic {stage.topic}:1 --shift-by -5 --execute --reason INC-1 --backup {backup}")
    stage.file(backup)
    stage(f"reset {classic} --topic {stage.topic}:0 --shift-by 1 --save-skipped {skipped} --execute")
    stage.lines(skipped)
    stage(f"reset {LIVE} {new} --all-topics --to-earliest --partial --execute")


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
    stage(f"undo {moved} --execute")
    stage(f"undo {moved}")
    offsets = change_id(kgroup("delete-offsets", group, "--topic", f"{stage.topic}:0", "--execute"))
    migrated = change_id(kgroup("migrate", group, "--client", "java:4.4.0", "--execute"))
    stage(f"undo {migrated} --execute")
    stage.commit(group, 1, 2)
    stage(f"undo {offsets}")
    stage("undo ch-0000")  # no change id has a 0, so none is near enough to be suggested


@verb("migrate")
def migrate(stage: Stage) -> None:
    group = stage.commit("c-migrate", 70, 50)
    stage.forms(f"migrate {group} --client java:4.4.0")
    stage(f"migrate {group} --client java:4.4.0 --session-timeout 12s --execute")
    stage(f"migrate {group} --client java:4.4.0 --execute")
    for wrong in (STREAMS, "c-missing"):
        stage(f"migrate {wrong}")


@verb("evict")
def evict(stage: Stage) -> None:
    stage.forms(f"evict {GONE} --instance gone-1")
    stage(f"evict {GONE} --instance no-such")
    stage(f"evict {IDLE} --all-members")
    stage("evict c-missing --all-members")
    stage(f"evict {GONE} --instance gone-1 --execute --reason INC-1")


@verb("delete")
def delete(stage: Stage) -> None:
    one, two = stage.commit("c-delete", 70, 50), stage.commit("c-delete-new", 10, kind="consumer")
    stage.forms(f"delete {one} {two}")
    stage(f"delete {one} --idle-for 30d")
    stage(f"delete {LIVE} {STREAMS}")
    stage(f"delete {LIVE} {one} --partial --execute")
    backup = stage.directory / "backup.json"
    stage(f"delete {two} --execute --backup {backup}")
    stage.file(backup)
    stage("delete c-missing")


@verb("delete-offsets")
def delete_offsets(stage: Stage) -> None:
    group = stage.commit("c-forget", 70, 50)
    stage.forms(f"delete-offsets {group} --topic {stage.topic}:0")
    stage(f"delete-offsets {LIVE} --topic {PAYMENTS}")
    stage(f"delete-offsets {group} --topic {PAYMENTS}")
    backup = stage.directory / "backup.json"
    stage(f"delete-offsets {group} --topic {stage.topic}:0 --execute --backup {backup}")
    stage.file(backup)


@verb("catchup")
def catchup(stage: Stage) -> None:
    for listed in ("catchup list", "catchup prune", "catchup show cu-zzzz"):
        stage(listed)
    copy = fill(stage.world, f"copy-of-{stage.topic}", 0, 0, 0)
    group = stage.commit("c-gap", 70, 20, 0)
    stage.forms(f"catchup start {group}")
    stage(f"catchup start {group} --topic {stage.topic}:0 --skip-before 2026-01-01T01:15Z")
    stage(f"catchup start --range {stage.topic}:0=10-20 --to-topic {copy}")
    stage(f"catchup start {STREAMS}")
    stage(f"catchup start {group} --topic {stage.topic}:0 --if-behind 100k --execute --release-only")
    stage("catchup start c-missing --if-behind 10m --execute --release-only")
    plan = plan_id(stage(f"catchup start {group} --release-only --execute --reason INC-1"))
    stage.forms("catchup list")
    for output in FORMATS:
        stage(f"catchup show {plan}", output)
    stage(f"catchup stop {plan} --execute", "csv")
    stage(f"catchup throttle {plan} 5MiB/s --yield-to lag-time=5s --execute")
    stage(f"catchup resume {plan}")
    stage(f"catchup cancel {plan} --execute")
    stage(f"catchup prune {plan} --execute")
    told = plan_id(stage(f"catchup start --range {stage.topic}:0=10-20 --release-only --execute"))
    stage(f"catchup done {told} --by job-1")
    stage(f"catchup done {told} --by job-1 --execute")


@verb("replay")
def replay(stage: Stage) -> None:
    """A catch-up to its end, with Spark."""
    copy = fill(stage.world, f"copy-of-{stage.topic}", 0, 0, 0)
    group, report = stage.commit("c-replay", 90, 45, 0), stage.directory / "report.json"
    stage(f"catchup check --to-topic {copy} --master local[2]")
    words = f"catchup start {group} --to-topic {copy} --master local[1] --report {report} --execute -o json".split()
    stage.record(words, CommandLine().process(*words))
    stage.file(report)


@verb("context")
def context(stage: Stage) -> None:
    stage("context list")
    write_contexts(stage.directory / "config.yaml")
    stage.forms("context list")
    stage.forms("context show prod")
    stage("context show broken")
    stage.forms("context use audit", ("csv",))
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
    stage("sandbox down")
    CommandLine()("sandbox", "down", "--wipe")
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
