"""The manual is true: its transcripts are run, its tables compared. Its recipes are in test_recipes.py."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from kgroup.cli.error_codes import ERRORS
from kgroup.cli.help_topics import RIGHTS, RIGHTS_FILE, TOPICS
from kgroup.cli.refusals import REFUSALS
from kgroup.cli.verbs import BY_NAME, SET_UP, VERBS
from kgroup.output.pages.lag_metrics import lag_metrics
from kgroup.sandbox.demo import Crashed, crash
from kgroup.support import errors
from kgroup.support.errors import SandboxError
from kgroup.support.user import whoami
from tests.cli.test_app import COMMANDS, help_flag
from tests.docs.generated import regenerate
from tests.docs.picture import PICTURE, page_lines, text_of
from tests.helpers import by_hand, programs
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.deployments import Deployments
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import FRONT, INDEX, MANUAL, PAGES, anchors, links, page, prose, read, section
from tests.helpers.parsing import product
from tests.helpers.places import ROOT
from tests.helpers.refusal_codes import declared
from tests.helpers.verb_rights import data_file
from tests.helpers.waiting import wait_for

_MADE_ID = r"\bc[hu]-[2-9a-z]{4}\b"
_CHANGING = (
    (re.compile(r'"timestamp_ms": \d+'), '"timestamp_ms": MS'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ"), "MINUTE"),
    (re.compile(r"^[\d:]+Z  REPLAY .*\n", re.M), ""),  # one every ten seconds
    (re.compile(r"\n {9,}(?=\S)"), " "),  # where a paragraph breaks is a matter of the names in it
    (re.compile(r"(?:The gap grew by .*|To do it):$", re.M), "To do it:"),
    (re.compile(r"(?<= )((\d+m)?\d+s|\d+ms|[1-4]m)(?= |$)", re.M), "SECONDS"),
    (re.compile(r"\b[\d.]+ (B|KiB)\b"), "SIZE"),
    (re.compile(r"\b[\d.]+(k|M)?/s\b"), "RATE"),
    (re.compile(r"\bin 0 \(1m\)"), "in RATE (1m)"),  # a minute later
    (re.compile(r"\(10?m\) arrive"), "(SPAN) arrive"),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d{3}Z|Z?)|\b\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"DATE \d\d:\d\dZ"), "DATE TIME"),
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
    for block in re.findall(r"```console\n(.*?)```", MANUAL, re.S)
    for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
]


@dataclass
class Stage:
    """Where the transcripts play: the manual's names and those they have here, and the directory they run in."""

    names: dict[str, str]
    directory: Path
    environ: dict[str, str]
    deployments: Deployments
    ids: dict[str, str] = field(default_factory=dict)

    def play(self, transcript: Transcript) -> str:
        """What comes out, in the manual's words."""
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
@programs.needs("cat", "mkfifo")
def played(bootstrap: str, world: KafkaWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What came out of all transcripts, played one after the other, as the manual has them."""
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
            found = ("describe", crashed.group, "-b", world.bootstrap, "--scan-time", "30s", "-o", "json")
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
    (properties,) = re.findall(r"^\$ cat pay\.properties\n((?:(?!\$ ).*\n)*)", MANUAL, re.M)
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


@pytest.mark.parametrize("path", [FRONT, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page(path: Path) -> None:
    """Its links lead somewhere, and its generated parts are those of the code."""
    text = read(path)

    assert [link for link in links(path) if not _leads_somewhere(path, link)] == []
    assert text == regenerate(text), "write it again: python -m tests.generate"


def _leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    return target.exists() and (not anchor or anchor in anchors(read(target)))


def test_every_page_is_in_the_index() -> None:
    assert {*INDEX.parent.rglob("*.md")} - {INDEX, *PAGES} == set()


def test_the_front_page_is_short_and_shows_what_the_manual_shows() -> None:
    text = read(FRONT)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    shown = [line for language, block in blocks if not language for line in block.splitlines()]

    assert len(text.encode()) <= 12_000
    assert len(shown) > 10
    assert [line for line in shown if line not in MANUAL.splitlines()] == []


def test_the_picture_is_a_page_of_describe() -> None:
    lines = ["$ kgroup describe orders-enrich", *page_lines()]

    assert text_of(read(PICTURE)) == [line for line in lines if line]


def test_alerts_use_every_metric() -> None:
    (block,) = re.findall(r"<!-- alerts -->\n```yaml\n(.*?)```", page("reference/metrics.md"), re.S)
    rules = yaml.safe_load(block)["groups"][0]["rules"]
    used = {name for rule in rules for name in re.findall(r"\b(?:kafka|kgroup)_\w+", rule["expr"])}

    assert used == {metric.name for metric in lag_metrics((), "", 0)}


def test_every_word_in_capitals_is_explained() -> None:
    sources = "".join(read(path) for path in (ROOT / "kgroup").rglob("*.py"))
    used = set(re.findall(r"\b(?:LabelledLine|Title|event)\(f?\"([A-Z][A-Z ]*[A-Z])\b", sources))
    explained = re.findall(r"^\| (`.*?`) \|", page("reference/words.md"), re.M)

    assert {"STUCK", "PLAN", "RELEASED", "REFUSED"} <= used
    assert used - set(re.findall(r"`([A-Z ]+)`", " ".join(explained))) == set()


def test_every_variable_is_in_the_table() -> None:
    told = set(re.findall(r"^\| `(KGROUP_\w+)`", page("connect.md"), re.M))
    sources = "".join(read(path) for path in (ROOT / "kgroup").rglob("*.py"))

    assert told == set(re.findall(r"\bKGROUP_[A-Z_]+[A-Z]\b", sources)) - {"KGROUP_LINE"}
    assert told == set(re.findall(r"^  (KGROUP_\w+)", TOPICS["environment"], re.M))


def test_every_verb_has_an_example() -> None:
    for verb in VERBS:
        assert f"kgroup {verb.name} " in page(f"commands/{verb.name}.md").replace("`", " ")


def test_every_refusal_is_explained() -> None:
    assert "not-empty" in REFUSALS
    assert sorted(set(REFUSALS) - anchors(page("reference/refusals.md"))) == []
    assert sorted(code for code in REFUSALS if not re.search(rf"\b{code}\b", TOPICS["refusals"])) == []


def error_codes() -> dict[str, set[str]]:
    """All codes of errors in the product, and the classes that are made with them."""
    trees = product().values()
    named = {name: {each["code"]} for name, each in declared().items()}
    for assigned in (each for tree in trees for each in tree.body if isinstance(each, ast.Assign)):
        for target, value in zip(
            *(getattr(side, "elts", [side]) for side in (assigned.targets[0], assigned.value)), strict=False
        ):
            if re.fullmatch("[a-z]+(-[a-z]+)*", str(getattr(value, "value", ""))):
                named.setdefault(ast.unparse(target), set()).add(value.value)
    found: dict[str, set[str]] = {}
    for node in (each for tree in trees for each in ast.walk(tree)):
        name, codes = "", list[ast.expr]()
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            codes += node.args[:1] if name == "RowError" else []
        elif isinstance(node, ast.ClassDef):
            name = node.name
            codes = [
                field.value
                for field in node.body
                if isinstance(field, ast.Assign | ast.AnnAssign) and field.value
                for target in (field.targets if isinstance(field, ast.Assign) else [field.target])
                if getattr(target, "id", "").startswith("code")
            ]
        for code in codes:
            for value in named.get(ast.unparse(code), {getattr(code, "value", None)}):
                if isinstance(value, str):
                    found.setdefault(value, set()).add(name)
    return found


def test_every_error_code_is_explained(kgroup_cli: CommandLine) -> None:
    codes = error_codes()

    assert {"usage", "commits-missing", "interrupted", "not-empty"} <= set(codes)
    assert sorted(set(codes) - {*REFUSALS, *ERRORS}) == []
    assert sorted(set(ERRORS) - set(codes)) == []
    assert set(ERRORS) & set(REFUSALS) == set()
    assert sorted(set(ERRORS) - anchors(page("reference/refusals.md"))) == []
    for code, error in ERRORS.items():
        if code not in {*BY_NAME, *TOPICS}:  # output is a topic, sandbox a command
            assert f"(exit code {error.exit_code:d})" in kgroup_cli("help", code).stdout
        made = [getattr(errors, name).exit_code for name in codes[code] if hasattr(errors, name)]
        assert set(made) <= {error.exit_code}, code


def test_every_verb_has_its_rights() -> None:
    assert data_file() == RIGHTS_FILE.read_text(encoding="utf-8"), "make the file again: python -m tests.generate"
    named = {verb.strip() for verbs, _, _ in RIGHTS for verb in verbs.split(",")}
    assert {verb.name for verb in VERBS if verb.section != SET_UP and verb.name != "catchup"} <= named
    assert {words[1] for words in COMMANDS if words[0] == "catchup"} <= {name.split()[-1] for name in named}


def test_every_flag_and_file_it_names_exists(kgroup_cli: CommandLine) -> None:
    pages = "".join(kgroup_cli(*words, help_flag(words)).stdout for words in COMMANDS) + TOPICS["connection"]
    about = prose(MANUAL + read(FRONT))
    in_blocks = [
        word
        for line in re.findall(r"^ *(?:\$ )?(kgroup [a-z](?:.*\\\n)*.*)$", MANUAL, re.M)
        for word in re.findall(r"(?<=\s)(--[a-z-]+)", line)
    ]
    named = {flag for code in re.findall(r"`([^`\n]+)`", about) for flag in re.findall(r"(--[a-z-]+)", code)}
    known = set(re.findall(r"--[a-z-]+", pages))
    assert {"--execute", "--save-skipped", "--instance"} <= named | set(in_blocks)
    assert sorted((named | set(in_blocks)) - known) == []
    top = ROOT / "kgroup"
    map_of_code = section("Map of the code", page("architecture.md"))
    listed = dict(re.findall(r"^ {2}(\w+(?:\.py|/)) +(.*(?:\n {10}.*)*)", map_of_code, re.M))
    assert {"commands/", "support/", "spark.py"} <= set(listed)
    for name, what in listed.items():
        assert (top / name).exists(), name
        below = {path.relative_to(top / name).as_posix() for path in (top / name).rglob("*")}
        named = {found.rstrip("/") for found in re.findall(r"\b\w+(?:\.py\b|/)", what)}
        assert named - {Path(path).name for path in below} == set(), name


CONTEXTS = re.findall(r"```yaml\n(contexts:.*?)```", MANUAL, re.S)


@pytest.mark.parametrize("block", CONTEXTS, ids=range(len(CONTEXTS)))
def test_contexts(block: str, kgroup_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text(block)
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    names = {document["name"] for document in kgroup_cli("context", "list", "-o", "json").data}
    assert names == set(yaml.safe_load(block)["contexts"])
    shown = kgroup_cli("context", "show", "prod").stdout
    assert "hunter2" not in shown
    assert "catchup.master" in shown or "queries.orders-bronze" in shown
