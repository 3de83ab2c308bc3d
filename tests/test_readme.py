"""README is true: its transcripts, recipes, exit codes and configuration are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kgroup.errors import EXIT_MEANINGS
from kgroup.sandbox.demo import Crashed, crash
from kgroup.table import VERBS
from tests.command_line import CommandLine, QuietReporter

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
TRANSCRIPTS = [
    (command, output)
    for block in re.findall(r"```console\n(.*?)```", README, re.S)
    for command, output in re.findall(r"\$ kgroup (.*?)\n(.*?)(?=\n\$ |\Z)", block, re.S)
]
RECIPES = re.findall(r"<!-- recipe -->\n```sh\n(.*?)```", README, re.S)
_CHANGING = (
    (re.compile(r"\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r" {2,}"), "  "),
)


@pytest.fixture(scope="module")
def crashed(bootstrap: str) -> Crashed:
    """The group of the demo, on the shared broker."""
    return crash(bootstrap, QuietReporter())


def _steady(text: str, crashed: Crashed) -> str:
    """The text without what differs from run to run: times, ports, the number of the demo, padding."""
    text = text.replace(crashed.group, "demo-order-service").replace(crashed.topic, "demo-orders")
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize(("command", "output"), TRANSCRIPTS, ids=[command for command, _ in TRANSCRIPTS])
def test_transcript(kgroup: CommandLine, crashed: Crashed, command: str, output: str) -> None:
    words = [word.replace("demo-order-service", crashed.group) for word in shlex.split(command)]
    assert _steady(kgroup(*words).stdout, crashed) == _steady(output, crashed)


@pytest.mark.parametrize("script", RECIPES)
def test_recipe(crashed: Crashed, tmp_path: Path, script: str) -> None:
    kgroup = tmp_path / "kgroup"
    kgroup.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kgroup "$@"\n')
    kgroup.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parent.parent,
        env=os.environ
        | {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "KGROUP_BOOTSTRAP_SERVER": crashed.bootstrap_servers,
            "GROUP": crashed.group,
            "TOPIC": crashed.topic,
            "SNAPSHOT": str(tmp_path / "snapshot.csv"),
        },
    )
    assert (done.returncode, "kgroup:" in done.stderr) == (0, False), done.stderr
    shown = done.stdout or (tmp_path / "snapshot.csv").read_text()
    assert crashed.group in shown


def test_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|$", README, re.M)
    assert {int(code): meaning for code, meaning in rows} == {int(c): text for c, text in EXIT_MEANINGS.items()}


def test_every_verb_has_an_example() -> None:
    for verb in VERBS:
        if verb.section:
            assert f"### `kgroup {verb.name}`" in README


def test_every_flag_and_file_it_names_exists(kgroup_cli: CommandLine) -> None:
    pages = "".join(kgroup_cli(*words).stdout for words in (["list", "-h"], ["describe", "-h"], ["help", "connection"]))
    pages += "".join(kgroup_cli("sandbox", name, "-h").stdout for name in ("up", "down", "demo", "status"))
    named = set(re.findall(r"`(--[a-z-]+)", README)) - {"--execute"}
    assert not {flag for flag in named if flag not in pages}
    top = Path(__file__).parent.parent / "kgroup"
    listed = re.findall(r"^ {2}(\w+(?:\.py|/)) ", README.partition("## Map of the code")[2], re.M)
    assert listed
    assert all((top / name).exists() for name in listed)


def test_contexts(kgroup_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.S)
    (tmp_path / "config.yaml").write_text(block)
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    names = {document["name"] for document in kgroup_cli("context", "list", "-o", "json").data}
    assert names == set(yaml.safe_load(block)["contexts"])
    assert "hunter2" not in kgroup_cli("context", "show", "prod").stdout
