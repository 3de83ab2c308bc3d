"""The scripts in the real shells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.commands.completion import SCRIPTS
from tests.helpers.completion import GROUPS, NASTY, Asker, Prompt
from tests.helpers.kafka_world import KafkaWorld


@pytest.fixture
def prompt(request: pytest.FixtureRequest, ask: Asker, tmp_path: Path) -> Prompt:
    return Prompt(request.param, tmp_path)


def in_shells(*shells: str) -> pytest.MarkDecorator:
    of_each = [pytest.param(shell, marks=pytest.mark.programs(shell, "mv")) for shell in shells]
    return pytest.mark.parametrize("prompt", of_each, indirect=True)


in_zsh, in_all = in_shells("zsh"), in_shells(*SCRIPTS)


@in_all
def test_keys_complete_verbs_flags_and_values(prompt: Prompt, tmp_path: Path) -> None:
    """One of each kind that the script treats by itself; what may stand where is in test_candidates.py."""
    (tmp_path / "lonely.properties").write_text("")
    (tmp_path / "config.yaml").write_text(json.dumps({"contexts": {"my $(touch hacked) own": {}}}))
    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup -b x:1 cont\tuse", ["-b", "x:1", "context", "use"])
        prompt.completes(terminal, "kgroup list --output=mark\t", ["list", "--output=markdown"])
        prompt.completes(terminal, "kgroup wait --for mem\t3", ["wait", "--for", "members=3"])
        prompt.completes(terminal, "kgroup wait --for=type=\t", ["wait", "--for=type=consumer"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])
        wanted = ["list", "--command-config", "lonely.properties"]
        prompt.completes(terminal, "kgroup list --command-config lone\t", wanted)
        prompt.completes(terminal, "kgroup describe pay\tments", ["describe", "payments"])
        assert "rror" not in terminal.screen
        assert "no cluster" not in terminal.screen
        prompt.names(terminal, "kgroup list --context my\t", ["list", "--context", "my $(touch hacked) own"])
    assert not (tmp_path / "hacked").exists()


@in_all
def test_names_from_the_cluster_are_inserted_unharmed(
    prompt: Prompt, ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = world.topic(name("t"))
    stem = name("g").replace("-", "")
    groups = [f"{stem}{chr(ord('a') + number)}{nasty}" for number, nasty in enumerate(NASTY)]
    steering = f"{stem}zz\x1b[31m\nred"
    for group in (*groups, steering):
        world.commit(group, {(topic, 0): 1})
    found = ask.until(groups[-1], GROUPS)
    assert set(groups) <= set(found)
    assert "red" not in found

    with prompt.terminal() as terminal:
        for group in groups:
            start = group[: len(stem) + 1]
            prompt.names(terminal, f"kgroup describe {start}\t", ["describe", group])
        special = groups[4]
        start = special[: len(stem) + 1]
        prompt.names(terminal, f"kgroup describe --group {start}\t", ["describe", "--group", special])
        prompt.names(terminal, f"kgroup describe --group={start}\t", ["describe", f"--group={special}"])
        prompt.names(terminal, f"kgroup describe '{start}\t", ["describe", special])
        prompt.names(terminal, f'kgroup describe "{start}\t', ["describe", special])
        colons = groups[6]
        prompt.names(terminal, f"kgroup describe {colons[:-1]}\t", ["describe", colons])
        prompt.names(terminal, f"kgroup list --topic {topic[:-2]}\t", ["list", "--topic", topic])
    assert not (tmp_path / "hacked").exists()


@in_zsh
def test_zsh_finds_the_script_in_its_path(prompt: Prompt) -> None:
    prompt.before = prompt.before.replace("autoload", f"fpath+=({shlex.quote(str(prompt.script.parent))}); autoload", 1)
    prompt.before = prompt.before.replace(f"source {shlex.quote(str(prompt.script))}", "")

    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])
