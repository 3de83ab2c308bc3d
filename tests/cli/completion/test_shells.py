"""The scripts in the real shells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.cli.verbs import VERBS
from kgroup.commands.completion import SCRIPTS
from tests.helpers.completion import GROUPS, NASTY, Asker, Prompt
from tests.helpers.kafka_world import KafkaWorld


@pytest.fixture
def prompt(request: pytest.FixtureRequest, ask: Asker, tmp_path: Path) -> Prompt:
    return Prompt(request.param, tmp_path)


def in_shells(*shells: str) -> pytest.MarkDecorator:
    of_each = [pytest.param(shell, marks=pytest.mark.programs(shell, "mv")) for shell in shells]
    return pytest.mark.parametrize("prompt", of_each, indirect=True)


in_bash, in_fish, in_zsh, in_all = in_shells("bash"), in_shells("fish"), in_shells("zsh"), in_shells(*SCRIPTS)


@in_all
def test_the_script_loads_without_a_word(prompt: Prompt) -> None:
    assert prompt.run("true") == []


@in_all
def test_keys_complete_verbs_flags_and_values(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "lonely.properties").write_text("")
    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup -b x:1 cont\tuse", ["-b", "x:1", "context", "use"])
        prompt.completes(terminal, "kgroup list -o mark\t", ["list", "-o", "markdown"])
        prompt.completes(terminal, "kgroup list --output=mark\t", ["list", "--output=markdown"])
        prompt.completes(terminal, "kgroup list --in-state Prep\t", ["list", "--in-state", "PreparingRebalance"])
        prompt.completes(terminal, "kgroup wait --for mem\t3", ["wait", "--for", "members=3"])
        prompt.completes(terminal, "kgroup wait --for type=\t", ["wait", "--for", "type=consumer"])
        prompt.completes(terminal, "kgroup wait --for=type=\t", ["wait", "--for=type=consumer"])
        prompt.completes(terminal, "kgroup mig\t--protocol cons\t", ["migrate", "--protocol", "consumer"])
        prompt.completes(terminal, "kgroup migrate --only=r\t", ["migrate", "--only=ready"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])
        prompt.completes(terminal, "kgroup help exit\t", ["help", "exit-codes"])
        prompt.completes(terminal, "kgroup completion fi\t", ["completion", "fish"])
        wanted = ["list", "--command-config", "lonely.properties"]
        prompt.completes(terminal, "kgroup list --command-config lone\t", wanted)


@in_all
def test_keys_complete_contexts(prompt: Prompt, tmp_path: Path) -> None:
    contexts = {name: {"bootstrap.servers": "x:1"} for name in ("prod", "my $(touch hacked) own", "a:b c")}
    (tmp_path / "config.yaml").write_text(json.dumps({"contexts": contexts}))

    with prompt.terminal() as terminal:
        prompt.names(terminal, "kgroup context use pr\t", ["context", "use", "prod"])
        prompt.names(terminal, "kgroup list --context my\t", ["list", "--context", "my $(touch hacked) own"])
        prompt.names(terminal, "kgroup list --context=a:\t", ["list", "--context=a:b c"])
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


@in_all
def test_a_key_without_a_cluster_leaves_the_line_alone(prompt: Prompt) -> None:
    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup describe pay\tments", ["describe", "payments"])
        assert "rror" not in terminal.screen
        assert "no cluster" not in terminal.screen


@in_zsh
def test_zsh_shows_the_help_of_flags(prompt: Prompt) -> None:
    with prompt.terminal() as terminal:
        terminal.type("kgroup describe --\t")
        terminal.expect("Show the members only.")
        assert "--offsets" in terminal.screen


@in_zsh
def test_zsh_finds_the_script_in_its_path(prompt: Prompt) -> None:
    prompt.before = prompt.before.replace("autoload", f"fpath+=({shlex.quote(str(prompt.script.parent))}); autoload", 1)
    prompt.before = prompt.before.replace(f"source {shlex.quote(str(prompt.script))}", "")

    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])


COMPREPLY = """
COMP_LINE=$0 COMP_POINT=${#0}
_kgroup kgroup
printf '%s\\n' "${COMPREPLY[@]}"
"""


@in_bash
def test_bash_offers_all_that_may_stand_there(prompt: Prompt) -> None:
    def offers(line: str) -> list[str]:
        return prompt.run(COMPREPLY, line)

    assert offers("kgroup ") == [verb.name for verb in VERBS]
    assert offers("kgroup list --type=c") == ["classic", "consumer"]
    assert offers("kgroup wait --for lag") == ["lag=", "lag-time="]
    assert offers("kgroup list --no-such-flag=c") == [""]


@in_fish
def test_fish_offers_all_that_may_stand_there(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars.txt").write_text("")

    def offers(line: str) -> dict[str, str]:
        rows = prompt.run("complete -C $argv[1]", line)
        return {word: text for word, _, text in (row.partition("\t") for row in rows)}

    assert offers("kgroup ") == {verb.name: verb.help for verb in VERBS}
    assert set(offers("kgroup list --type=c")) == {"--type=classic", "--type=consumer"}
    assert offers("kgroup describe --mem") == {"--members": "Show the members only."}
    assert set(offers("kgroup sandbox up --jars j")) == {"jars/"}
    assert set(offers("kgroup sandbox up --jars=j")) == {"--jars=jars/"}
    assert {"--command-config=jars/", "--command-config=jars.txt"} <= set(offers("kgroup list --command-config=j"))
