"""What may stand at the cursor, and that the data file is that of the commands."""

from __future__ import annotations

import re

import pytest

from kgroup.cli.completion.candidates import DATA, find_candidates
from kgroup.cli.verbs import VERBS
from tests.helpers.command_line import CommandLine
from tests.helpers.completion_tree import read_tree, text_of
from tests.helpers.manual import read
from tests.helpers.places import ROOT


def test_the_tree_is_that_of_the_commands() -> None:
    command = "python -m tests.generate"

    assert command in read(ROOT / "CONTRIBUTING.md")
    assert text_of(read_tree()) == DATA.read_text(encoding="utf-8"), f"make the file again: {command}"


def candidates(line: str) -> tuple[str, list[str], str]:
    """Kind, words and what precedes them at the end of a line without quotes."""
    *words, current = line.split(" ")
    found = find_candidates(words, current)
    return found.kind, list(found.words), found.before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kgroup ", [verb.name for verb in VERBS]),
        ("kgroup -b x:9092 -X a=b --timeout=5s ", [verb.name for verb in VERBS]),
        ("kgroup context ", ["list", "use", "show"]),
        ("kgroup -b x:1 context -X a=b ", ["list", "use", "show"]),
        ("kgroup list -o ", ["table", "wide", "json", "yaml", "csv", "markdown", "name"]),
        ("kgroup reset -o ", ["table", "wide", "json", "yaml", "csv", "markdown"]),
        ("kgroup evict --accept ", ["foreign-owner"]),
        ("kgroup undo --accept ", ["active-committer", "foreign-owner", "hidden-commits", "in-flight", "moved-since"]),
        ("kgroup lag --fail-on ", ["warn", "rewind", "stall", "stop", "no-reader"]),
        ("kgroup doctor --fail-on ", ["info", "warning", "critical"]),
        ("kgroup lag --isolation ", ["read_uncommitted", "read_committed"]),
        ("kgroup simulate --assignor ", ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform"]),
        ("kgroup migrate --only ", ["ready"]),
        ("kgroup reset --only ", ["out-of-range"]),
        ("kgroup sandbox up --brokers ", ["1", "3"]),
        ("kgroup completion ", ["bash", "zsh", "fish"]),
        ("kgroup list --no-such-flag=c", []),
        ("kgroup list --all-groups=c", []),
        ("kgroup completion bash ", []),
        ("kgroup completion -- --", ["bash", "zsh", "fish"]),
    ],
)
def test_words_that_may_stand_at_the_cursor(line: str, words: list[str]) -> None:
    assert candidates(line) == ("words", words, "")


@pytest.mark.parametrize(
    ("line", "kind", "before"),
    [
        ("kgroup undo ", "changes", ""),
        ("kgroup catchup start --skipped-by ", "changes", ""),
        ("kgroup catchup show ", "plans", ""),
        ("kgroup catchup prune cu-7f3a ", "plans", ""),
        ("kgroup catchup list ", "plans", ""),
        ("kgroup describe a b ", "groups", ""),
        ("kgroup describe --group=", "groups", "--group="),
        ("kgroup --context ", "contexts", ""),
        ("kgroup context use ", "contexts", ""),
        ("kgroup describe --topic ", "topics", ""),
        ("kgroup history --since ", "text", ""),  # DURATION|TIME is a placeholder
        ("kgroup reset --save-skipped ", "files", ""),
        ("kgroup list --command-config=", "files", "--command-config="),
        ("kgroup sandbox up --jars ", "directories", ""),
        ("kgroup list --output=", "words", "--output="),
        ("kgroup list -ojs", "words", "-o"),
    ],
)
def test_values_that_may_stand_at_the_cursor(line: str, kind: str, before: str) -> None:
    found = candidates(line)

    assert (found[0], found[2]) == (kind, before)


def test_only_options_that_may_be_repeated_are_offered_again() -> None:
    offered = candidates("kgroup -b x:1 list --group a -X a=b -o json -")[1]

    assert {"--group", "-X", "--property", "--in-state"} <= set(offered)
    assert not {"-b", "--bootstrap-server", "-o", "--output"} & set(offered)


def test_every_flag_of_every_verb_is_offered(kgroup_cli: CommandLine) -> None:
    for verb in VERBS:
        page = kgroup_cli(verb.name, "--help").stdout
        named = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", page, re.M))
        assert named <= set(candidates(f"kgroup {verb.name} -")[1]), verb.name
