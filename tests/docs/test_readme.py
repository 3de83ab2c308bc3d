"""README is true: its transcripts are run, its tables compared. Its recipes are in test_recipes.py."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from kgroup.changes.journal import whoami
from kgroup.cli.help_topics import TOPICS
from kgroup.cli.rights import RIGHTS
from kgroup.cli.verbs import SET_UP, VERBS
from kgroup.groups.migration.check import CheckStatus
from kgroup.groups.migration.readiness import CHECKS
from kgroup.queries.rollout import GroupRollout
from kgroup.sandbox.demo import Crashed, crash
from kgroup.support.errors import EXIT_MEANINGS, SandboxError
from tests.cli.test_app import COMMANDS
from tests.support import by_hand
from tests.support.catchup.catchups import own_ledger
from tests.support.command_line import CommandLine, QuietReporter
from tests.support.deployments import Deployments
from tests.support.kafka_world import KafkaWorld
from tests.support.places import ROOT
from tests.support.waiting import wait_for

README = (ROOT / "README.md").read_text(encoding="utf-8")
_MADE_ID = r"\bc[hu]-[2-9a-z]{4}\b"
_CHANGING = (
    (re.compile(r'"timestamp_ms": \d+'), '"timestamp_ms": MS'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ"), "MINUTE"),
    (re.compile(r"^[\d:]+Z  REPLAY .*\n", re.M), ""),  # one every ten seconds
    (re.compile(r"\n {9,}(?=\S)"), " "),  # where a paragraph breaks is a matter of the names in it
    (re.compile(r"(?:The gap grows by .*|To do it):$", re.M), "To do it:"),
    (re.compile(r"(?<= )(\d+m)?\d+s(?= |$)", re.M), "SECONDS"),
    (re.compile(r"\b[\d.]+ (B|KiB)\b"), "SIZE"),
    (re.compile(r"\b[\d.]+(k|M)?/s\b"), "RATE"),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d{3}Z|Z?)"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\d\d-\d\d (TIME|\d\d:\d\d$)", re.M), "DAY TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """What is typed (lines that end in a backslash are one), and what comes out on stdout."""

    command: str
    output: str


TRANSCRIPTS = [
    Transcript(command, output)
    for block in re.findall(r"```console\n(.*?)```", README, re.S)
    for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
]


@dataclass
class Stage:
    """Where the transcripts play: README's names and those they have here, and the directory they run in."""

    names: dict[str, str]
    directory: Path
    environ: dict[str, str]
    deployments: Deployments
    ids: dict[str, str] = field(default_factory=dict)

    def play(self, transcript: Transcript) -> str:
        """What comes out, in README's words."""
        command = transcript.command
        for there, here in (self.names | self.ids).items():
            command = re.sub(rf"(?<![\w-]){re.escape(there)}(?![\w]|-order)", here, command)
        done = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            cwd=self.directory,
            env=self.environ,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: exited {done.returncode}\n{done.stderr}"
        if command.startswith("kubectl"):
            self.deployments.settle()
        made = zip(re.findall(_MADE_ID, transcript.output), re.findall(_MADE_ID, done.stdout), strict=False)
        for there, here in made:
            self.ids.setdefault(there, here)
        text = done.stdout.replace(whoami(), "maria@jump-1")
        for there, here in (self.names | self.ids).items():
            text = text.replace(here, there)
        return text


def _steady(text: str) -> str:
    """The text without what differs from run to run: times, ports, padding, the line break of a long title."""
    text = re.sub(r"^(\S.*?)( {2,}127\S+  [\d:]+Z)\n {3}(\S.*)$", r"\1 \3\2", text, flags=re.M)
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.fixture(scope="module")
def played(bootstrap: str, world: KafkaWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What came out of all transcripts, played one after the other, as README has them."""
    directory = tmp_path_factory.mktemp("readme")
    crashed = _crashed(world)
    suffix = secrets.token_hex(2)
    names = {"demo-order-service": crashed.group, "demo-orders": crashed.topic}
    names |= {name: f"{name}-{suffix}" for name in ("pay-svc", "pay-green", "ship-svc", "connect-s3", "orders-svc")}
    names["payments"] = _payments(world, bootstrap, f"payments-{suffix}")
    _to_be_migrated(world, names, directory)
    _to_be_caught_up(world, names, suffix)
    with Deployments(directory, bootstrap) as deployments:
        for name in ("pay-svc", "ship-svc"):
            deployments.add(names[name], names[name], names["payments"], replicas=1, static=name == "ship-svc")
        done = 3 * 20 + 17
        wait_for(lambda: all(len(deployments.processed(names[n])) == done for n in ("pay-svc", "ship-svc")), "work")
        kgroup = deployments.bin / "kgroup"
        kgroup.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kgroup "$@"\n')
        kgroup.chmod(0o755)
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith("KGROUP_") and key != "COLUMNS"
        } | {
            "PATH": f"{deployments.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KGROUP_BOOTSTRAP_SERVER": bootstrap,
            "KGROUP_STATE_DIR": str(directory / "state"),
            "KGROUP_CONFIG": str(directory / "config.yaml"),
        }
        stage = Stage(names, directory, environ, deployments)
        yield [stage.play(transcript) for transcript in TRANSCRIPTS]


def _crashed(world: KafkaWorld) -> Crashed:
    """As the demo leaves it; once more where the machine stood still for the 2 s of its consumer's session."""
    for _ in range(3):
        before = world.groups().keys()
        with contextlib.suppress(SandboxError):
            crashed = crash(world.bootstrap, QuietReporter())
            found = ("describe", crashed.group, "-b", world.bootstrap, "--generation-budget", "30s", "-o", "json")
            if CommandLine()(*found).data[0]["generation"] == 2:  # it joined once, and went
                return crashed
        for group in world.groups().keys() - before:  # which transcripts would list
            world.delete_group(group)
    raise AssertionError("no crash as the demo's in three tries")


def _payments(world: KafkaWorld, bootstrap: str, name: str) -> str:
    """Four partitions of 20 records; the application can't take 17 of the last one."""
    world.topic(name, partitions=4)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(4):
        for offset in range(20):
            value = b"poison" if (partition, offset) == (3, 17) else b"refund"
            producer.produce(name, value, f"ord-{5504 + offset}", partition)
    assert producer.flush(30) == 0
    return name


def _to_be_migrated(world: KafkaWorld, names: dict[str, str], directory: Path) -> None:
    """A session timeout as of brokers with their defaults; a group of Connect; what pay-svc's deployment is made of."""
    for name in ("pay-svc", "ship-svc"):
        world.configure_group(names[name], consumer_session_timeout_ms="45000")
    worker = by_hand.joined_as(world, names["connect-s3"], b"", ["sessioned"], protocol_type="connect")
    by_hand.ClassicMember(world, names["connect-s3"], worker.member_id, worker.generation_id).leave()
    world.commit(names["connect-s3"], {(names["payments"], 0): 1})  # without any, brokers delete Empty groups
    (properties,) = re.findall(r"^\$ cat pay\.properties\n((?:(?!\$ ).*\n)*)", README, re.M)
    (directory / "pay.properties").write_text(properties)
    (directory / "pay-848").mkdir()
    generated = [{"name": names["pay-svc"], "files": ["pay.properties"]}]
    (directory / "pay-848" / "kustomization.yaml").write_text(yaml.safe_dump({"configMapGenerator": generated}))


def _to_be_caught_up(world: KafkaWorld, names: dict[str, str], suffix: str) -> None:
    """A topic for the copies of the demo's gap; a group that is behind on two partitions."""
    world.topic(f"{names['demo-orders']}-backfill")
    names["events"] = world.topic(f"events-{suffix}", partitions=2)
    for partition, count in ((0, 120), (1, 90)):
        world.produce(names["events"], count, partition)
    world.commit(names["orders-svc"], {(names["events"], 0): 70, (names["events"], 1): 60})


@pytest.mark.parametrize("at", range(len(TRANSCRIPTS)), ids=[t.command.splitlines()[0] for t in TRANSCRIPTS])
def test_transcript(played: list[str], at: int) -> None:
    assert _steady(played[at]) == _steady(TRANSCRIPTS[at].output)


def test_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|$", README, re.M)
    assert {int(code): meaning for code, meaning in rows} == {int(c): text for c, text in EXIT_MEANINGS.items()}


def test_checks_of_a_migration() -> None:
    table = README.partition("| check | what is looked at |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|$", table, re.M)
    assert rows == [(subject.id, subject.meaning) for subject in CHECKS]


def test_fields_of_a_migration(kgroup: CommandLine, world: KafkaWorld, name: Callable[[str], str]) -> None:
    told = set(re.findall(r"`([a-z_]+)`", README.partition("In json each group has")[2].partition("\n\n")[0]))
    group = name("json")
    world.commit(group, {(world.topic(name("json")), 0): 1})
    (row,) = kgroup("migrate", group, "--execute", "-o", "json").data
    (taken_back,) = kgroup("undo", "-o", "json").data
    rollout = GroupRollout(group, None, False, {}, (), None, 0, 0, 0.0).document()

    assert {*row, *row["checks"][0], *rollout} <= told
    assert {str(status) for status in CheckStatus} <= told
    (back,) = re.findall(r"`kgroup undo` of a migration has ([^.]*)\.", " ".join(README.split()))
    assert re.findall(r"`([a-z_]+)`", back) == list(taken_back)


def test_fields_of_a_catch_up(
    kgroup: CommandLine, world: KafkaWorld, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = set(re.findall(r"`([a-z_]+)`", README.partition("#### In json")[2].partition("\n### ")[0]))
    own_ledger(monkeypatch, name("ledger"))
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 3)
    world.commit(group, {(topic, 0): 1})
    kgroup("catchup", "start", group, "--release-only", "--execute")
    (plan,) = kgroup("catchup", "show", group, "-o", "json").data

    assert {"plan_id", "delivered_to", "totals"} <= told
    assert told - {*plan, *plan["ranges"][0]} == {"list", "show"}


def test_every_verb_has_an_example() -> None:
    for verb in VERBS:
        if verb.section:
            assert f"### `kgroup {verb.name}`" in README


def refusals() -> set[str]:
    """The codes of every Refused in the product, but for those of the sandbox."""
    found: set[str] = set()
    for path in (ROOT / "kgroup").rglob("*.py"):
        if "sandbox" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refused":
                codes = [k.value.value for k in node.keywords if k.arg == "code" and isinstance(k.value, ast.Constant)]
                found.update(str(code) for code in codes)
    return found


def test_every_refusal_is_explained() -> None:
    table = README.partition("### What is refused")[2].partition("\n### ")[0]
    codes = refusals()

    assert "not-empty" in codes
    assert sorted(code for code in codes if f"`{code}`" not in table) == []
    assert sorted(code for code in codes if not re.search(rf"\b{code}\b", TOPICS["refusals"])) == []


def test_the_table_of_rights_is_the_help_s() -> None:
    table = README.partition("## Rights")[2].partition("\n## ")[0]
    for verbs, least, more in RIGHTS:
        assert f"| {verbs} | {least} | {more or '-'} |" in table
    named = {verb.strip() for verbs, _, _ in RIGHTS for verb in verbs.split(",")}
    assert {verb.name for verb in VERBS if verb.section not in (None, SET_UP) and verb.name != "catchup"} <= named


def test_every_flag_and_file_it_names_exists(kgroup_cli: CommandLine) -> None:
    pages = "".join(kgroup_cli(*words, "-h").stdout for words in COMMANDS) + TOPICS["connection"]
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
    in_blocks = [
        word
        for line in re.findall(r"^ *(?:\$ )?(kgroup [a-z](?:.*\\\n)*.*)$", README, re.M)
        for word in re.findall(r"(?<=\s)(--[a-z-]+)", line)
    ]
    named = {flag for code in re.findall(r"`([^`\n]+)`", prose) for flag in re.findall(r"(--[a-z-]+)", code)}
    known = set(re.findall(r"--[a-z-]+", pages))
    assert {"--execute", "--save-skipped", "--instance"} <= named | set(in_blocks)
    assert sorted((named | set(in_blocks)) - known) == []
    top = ROOT / "kgroup"
    map_of_code = README.partition("## Map of the code")[2]
    listed = dict(re.findall(r"^ {2}(\w+(?:\.py|/)) +(.*(?:\n {10}.*)*)", map_of_code, re.M))
    assert {"commands/", "support/", "spark.py"} <= set(listed)
    for name, what in listed.items():
        assert (top / name).exists(), name
        below = {path.relative_to(top / name).as_posix() for path in (top / name).rglob("*")}
        named = {found.rstrip("/") for found in re.findall(r"\b\w+(?:\.py\b|/)", what)}
        assert named - {Path(path).name for path in below} == set(), name


def test_contexts(kgroup_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```yaml\n(contexts:.*?)```", README, re.S)
    (tmp_path / "config.yaml").write_text(block)
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    names = {document["name"] for document in kgroup_cli("context", "list", "-o", "json").data}
    assert names == set(yaml.safe_load(block)["contexts"])
    assert "hunter2" not in kgroup_cli("context", "show", "prod").stdout
