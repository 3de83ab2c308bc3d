"""What is typed: help, version, flags before and after the verb, hints, the table of exit codes, what is imported."""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import kgroup as package
from kgroup.cli import app, help_pages, hints
from kgroup.cli.help_parts import LONG_PAGES
from kgroup.cli.help_topics import SUMMARIES, TOPICS
from kgroup.cli.refusals import REFUSALS
from kgroup.cli.typer_adapter import verb_name
from kgroup.cli.verbs import VERBS
from kgroup.groups.lag.status import LagStatus
from kgroup.model.accept_codes import ACCEPTED
from kgroup.model.blocks import Records, Screen
from kgroup.model.outcome import Outcome, Outcomes
from kgroup.model.output_format import Format
from kgroup.output import present, streams
from kgroup.output.reporter import StderrReporter
from kgroup.queries.json_schemas import field_table, schema
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.errors import EXIT_MEANINGS, ExitCode, KgroupError
from kgroup.support.signals import Terminated
from tests.helpers.command_line import CommandLine
from tests.helpers.places import ROOT

NAMES = [verb.name for verb in VERBS]


def commands() -> Iterator[list[str]]:
    """Every verb that does something, those below another verb too."""
    for verb in VERBS:
        module, _, function = verb.target.partition(":")
        if function:
            yield [verb.name]
        else:
            yield from ([verb.name, verb_name(sub)] for sub in importlib.import_module(module).SUBCOMMANDS)


COMMANDS = list(commands())
GROUPS = sorted({command[0] for command in COMMANDS if len(command) == 2})
named = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


def help_flag(command: Sequence[str]) -> str:
    """The flag of the page with all options of a verb."""
    return "--help-all" if " ".join(command) in help_pages.COMMON else "--help"


def lines_too_long(text: str) -> list[str]:
    return [line for line in text.splitlines() if cell_len(line) > 80]


# Help


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []], ids=str)
def test_the_overview(kgroup_cli: CommandLine, arguments: list[str]) -> None:
    result = kgroup_cli(*arguments)

    assert result.stdout.startswith("Usage: kgroup COMMAND [GROUP...] [OPTIONS]\n")
    assert result.stderr == ""
    assert lines_too_long(result.stdout) == []
    for verb in VERBS:
        assert verb.section in result.stdout
        assert re.search(rf"^  {verb.name} +{re.escape(verb.help)}$", result.stdout, re.M)
    for said in (
        "Start here: kgroup doctor GROUP",
        "--context NAME",
        "-b, --bootstrap-server HOST:PORT",
        "KGROUP_BOOTSTRAP_SERVER",
        "table, wide, json, yaml, csv, markdown",
        "-V, --version",
        "kgroup help COMMAND",
        "kgroup help CODE",
        *TOPICS,
    ):
        assert said in result.stdout


@named
def test_a_verbs_page(
    kgroup_cli: CommandLine, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does, examples, usage, its formats, the connection in one place, its exit codes; in 80 columns.

    Neither a cluster nor a valid context is needed.
    """
    broken = tmp_path / "broken.yaml"
    broken.write_text("contexts: [")
    monkeypatch.setenv("KGROUP_CONFIG", str(broken))
    monkeypatch.setenv("KGROUP_CONTEXT", "nowhere")
    result = kgroup_cli(*command, "--help")

    assert result.stderr == ""
    assert lines_too_long(result.stdout) == []
    first, second, *rest = result.stdout.splitlines()
    assert re.fullmatch(r"[A-Z].*\.", first), "one line that says what it does"
    assert not first.startswith("Usage")
    assert second == ""
    examples = rest[: rest.index("")]
    assert examples
    assert all(example.startswith(("  # ", "  ")) for example in examples)
    assert all("kgroup " in example for example in examples if not example.startswith("  # "))
    assert any(f"kgroup {' '.join(command)}" in example for example in examples)
    assert any(line.startswith(f"Usage: kgroup {' '.join(command)}") for line in rest)

    folded = " ".join(result.stdout.split())
    own = {"jsonl": ["peek"], "kcg": ["export"], "prometheus": ["lag"]}
    assert ("-o, --output" in folded) == (command != ["completion"])
    for name, verb in own.items():
        assert bool(re.search(rf"Output format: [a-z, ]*\b{name}\b", folded)) == (command == verb)
    assert "|wide|" not in folded

    connects = command == ["context", "show"] or command[0] not in ("completion", "context", "help", "sandbox")
    assert ("\nConnection\n" in result.stdout) == connects
    if connects:
        folded = " ".join(result.stdout[result.stdout.index("\nConnection\n") :].split())
        for option in ("--bootstrap-server", "--command-config", "-X", "--context", "--timeout", "--debug"):
            assert option in folded
            assert result.stdout.count(f"  {option} ") <= 1

    last = result.stdout.rstrip().splitlines()[-1]
    assert last.startswith("Exit codes: 0 ")
    codes = [int(word) for word in re.findall(r"\d+", last)]
    assert codes == sorted(set(codes))
    assert set(codes) <= set(ExitCode)
    assert ExitCode.USAGE in codes, "any command line can be wrong"
    assert {3, 4, 7}.isdisjoint(codes) or command[0] not in ("help", "context"), "which ask no cluster"


@named
def test_other_ways_to_a_verbs_page(kgroup_cli: CommandLine, command: list[str]) -> None:
    page = kgroup_cli(*command, "--help").stdout

    assert kgroup_cli(*command, "-h").stdout == page
    assert kgroup_cli("help", *command).stdout == page
    assert kgroup_cli("help", *command, "-o", "json").data[0]["topic"] == " ".join(command)
    assert lines_too_long(kgroup_cli(*command, help_flag(command)).stdout) == []


def test_catchup_alone_lists(kgroup_cli: CommandLine) -> None:
    alone = kgroup_cli("catchup", "-b", "127.0.0.1:1", "-o", "json", exit_code=3)

    assert alone.json == kgroup_cli("catchup", "list", "-b", "127.0.0.1:1", "-o", "json", exit_code=3).json
    assert alone.json["kind"] == "kgroup.catchup.list/v1"


def test_the_verbs_with_two_pages_are_known_without_the_pages() -> None:
    assert set(help_pages.COMMON) == LONG_PAGES


@pytest.mark.parametrize("verb", help_pages.COMMON)
def test_a_page_with_the_common_options_and_one_with_all(kgroup_cli: CommandLine, verb: str) -> None:
    page, whole = (kgroup_cli(*verb.split(), flag).stdout for flag in ("--help", "--help-all"))

    common, every = (set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M)) for text in (page, whole))
    assert common < every
    assert {"--to-topic", "--help-all"} <= common
    assert ("--execute" in common) == ("--execute" in every)
    assert {"--order", "--conf", "--ledger-topic", "--ack"} <= every - common
    assert len(page.splitlines()) < 80
    names = {param.lstrip("-").replace("-", "_") for param in every}
    assert help_pages.COMMON[verb] <= names | {"no_headers", "no_color", "quiet"}, "names of options that exist"


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_of_a_verb_with_verbs(kgroup_cli: CommandLine, group: str) -> None:
    text = kgroup_cli(group, "--help").stdout

    assert lines_too_long(text) == []
    assert re.match(r"[A-Z].*\.\n\n  # .*\n  kgroup ", text), "a summary and an example"
    for command in COMMANDS:
        if command[0] == group:
            assert re.search(rf"^  {command[1]} +\S", text, re.M)
    assert kgroup_cli("help", group).stdout == text
    result = kgroup_cli(group, exit_code=2)
    assert "list" in result.stdout + result.stderr or "up" in result.stdout + result.stderr
    assert "[usage]" in result.stderr
    assert "Missing command" in result.stderr or group == "catchup", "which alone lists"


@pytest.mark.parametrize("topic", TOPICS)
def test_help_topics(kgroup_cli: CommandLine, topic: str) -> None:
    text = kgroup_cli("help", topic).stdout.rstrip("\n")

    assert lines_too_long(text) == []
    if topic == "json":  # all kinds follow
        assert text.startswith(TOPICS[topic])
        kinds = text.removeprefix(TOPICS[topic]).strip().splitlines()
        assert [line.split()[0] for line in kinds] == list(field_table().kinds)
    else:
        assert text == TOPICS[topic]


def test_help_json_prints_schemas(kgroup_cli: CommandLine) -> None:
    one = json.loads(kgroup_cli("help", "json", "lag").stdout)
    by_kind = json.loads(kgroup_cli("help", "json", "kgroup.lag/v1").stdout)
    below = kgroup_cli("help", "json", "sandbox").stdout

    assert one == by_kind == schema("kgroup.lag/v1")
    assert [json.loads(text)["title"] for text in below.replace("}\n{", "}\0{").split("\0")] == [
        "kgroup.sandbox.up/v1",
        "kgroup.sandbox.status/v1",
        "kgroup.sandbox.down/v1",
        "kgroup.sandbox.demo/v1",
        "kgroup.sandbox/v1",
    ]
    assert kgroup_cli("help", "json", "catchup", "show").stdout.count('"$schema"') == 1


def test_help_alone_is_the_overview(kgroup_cli: CommandLine) -> None:
    assert kgroup_cli("help").stdout == kgroup_cli("--help").stdout
    assert SUMMARIES.keys() == TOPICS.keys()
    assert [row["topic"] for row in kgroup_cli("help", "-o", "json").data] == list(TOPICS)


def test_help_on_exit_codes_has_all_of_them(kgroup_cli: CommandLine) -> None:
    text = kgroup_cli("help", "exit-codes").stdout

    assert [int(line.split()[0]) for line in text.splitlines()] == [int(code) for code in ExitCode]


@pytest.mark.parametrize("code", REFUSALS)
def test_help_on_a_refusal(kgroup_cli: CommandLine, code: str) -> None:
    text = kgroup_cli("help", code).stdout

    assert text.startswith(f"{code}: a refusal (exit code {REFUSALS[code].exit_code:d}) of ")
    assert f"--accept {code} passes it." in text or "No --accept passes it." in text
    assert lines_too_long(text) == []


def test_help_names_what_accept_passes() -> None:
    accepted = {code for codes in ACCEPTED.values() for code in codes}
    assert {code for code, refusal in REFUSALS.items() if refusal.accepted} == accepted


@pytest.mark.parametrize("status", [*LagStatus, "no-reader"])
def test_help_on_a_status(kgroup_cli: CommandLine, status: str) -> None:
    text = kgroup_cli("help", status).stdout

    assert text == kgroup_cli("help", "status").stdout
    assert [line.split()[0] for line in text.splitlines()[: len(LagStatus)]] == [*LagStatus]


@pytest.mark.parametrize("code", [str(int(code)) for code in ExitCode])
def test_help_on_an_exit_code(kgroup_cli: CommandLine, code: str) -> None:
    assert kgroup_cli("help", code).stdout == f"{code}: {EXIT_MEANINGS[ExitCode(int(code))]}\n"


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["descirbe"], 5, "kgroup help describe"),
        (["not-emty"], 5, "kgroup help not-empty"),
        (["conection"], 5, "kgroup help connection"),
        (["runbook"], 5, "kgroup help runbooks"),
        (["poison"], 5, "kgroup help peek"),
        (["reset-offsets"], 5, "kgroup help reset"),
        (["not-static"], 5, "kgroup doctor --explain not-static"),
        (["xyzzy"], 5, "kgroup help"),
        (["runbooks", "poison"], 5, "Near: poison-pill"),
        (["runbooks", "lags", "ticket"], 2, "kgroup help runbooks NAME"),
        (["output", "csv"], 2, "kgroup help output"),
        (["json", "no-such"], 5, "kgroup help json"),
        (["catchup", "strat"], 2, "kgroup catchup start"),
    ],
)
def test_help_on_an_unknown_word_names_the_nearest(
    kgroup_cli: CommandLine, words: list[str], code: int, hint: str
) -> None:
    assert kgroup_cli("help", *words, exit_code=code).stderr.splitlines()[-1] == f"  {hint}"


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(kgroup_cli: CommandLine, flag: str) -> None:
    result = kgroup_cli(flag)

    assert re.fullmatch(r"kgroup \d+\.\d+\S* .*\n", result.stdout)
    assert package.__version__ in result.stdout
    assert "kafka-python 3" in result.stdout
    assert "confluent-kafka 2" in result.stdout
    assert result.stderr == ""


# Flags before and after the verb


def shown(kgroup_cli: CommandLine, *arguments: str) -> dict[str, Any]:
    (document,) = kgroup_cli(*arguments, "-o", "json").data
    return {row["key"]: row["value"] for row in document["settings"]} | {"timeout_ms": document["timeout_ms"]}


@pytest.mark.parametrize(
    "flags",
    [
        ["-b", "b1:9092"],
        ["--bootstrap-server", "b1:9092,b2:9092"],
        ["--bootstrap-server=b1:9092"],
        ["-b", "b1:9092", "--timeout", "7s"],
        ["-b", "b1:9092", "--timeout=7000"],
        ["-X", "bootstrap.servers=b1:9092"],
        ["-b", "b1:9092", "-X", "client.id=mine"],
        ["-b", "b1:9092", "--property", "client.id=mine", "-X", "socket.timeout.ms=5000"],
    ],
    ids=" ".join,
)
def test_connection_flags_before_and_after_the_verb_are_equal(kgroup_cli: CommandLine, flags: list[str]) -> None:
    assert shown(kgroup_cli, *flags, "context", "show") == shown(kgroup_cli, "context", "show", *flags)


def test_command_config_and_context_before_and_after_the_verb_are_equal(
    kgroup_cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("contexts:\n  prod:\n    bootstrap.servers: prod:9092\n")
    properties = tmp_path / "client.properties"
    properties.write_text("client.id=from-file\n")
    flags = ["--context", "prod", "--command-config", str(properties)]

    before, after = shown(kgroup_cli, *flags, "context", "show"), shown(kgroup_cli, "context", "show", *flags)

    assert before == after
    assert (before["bootstrap.servers"], before["client.id"]) == ("prod:9092", "from-file")


def test_the_verbs_own_flag_wins_over_the_one_before_it(kgroup_cli: CommandLine) -> None:
    settings = shown(kgroup_cli, "-b", "a:1", "--timeout", "1s", "context", "show", "-b", "b:2", "--timeout", "2s")

    assert (settings["bootstrap.servers"], settings["timeout_ms"]) == ("b:2", 2000)


def test_single_settings_merge_and_the_last_one_wins(kgroup_cli: CommandLine) -> None:
    settings = shown(
        kgroup_cli,
        *("-b", "a:1", "-X", "client.id=first", "-X", "socket.timeout.ms=4000"),
        *("context", "show", "-X", "client.id=second", "-X", "metadata.max.age.ms=5000"),
    )

    assert settings["client.id"] == "second"
    assert settings["socket.timeout.ms"] == "4000"


def test_the_format_before_and_after_the_verb_is_the_same(kgroup_cli: CommandLine) -> None:
    assert kgroup_cli("-o", "csv", "help").stdout == kgroup_cli("help", "-o", "csv").stdout
    assert kgroup_cli("-o", "csv", "help", "-o", "json").json["kind"] == "kgroup.help/v1"


@pytest.mark.parametrize("group", GROUPS)
def test_flags_between_a_verb_and_its_verb_are_taken_too(kgroup_cli: CommandLine, group: str) -> None:
    """``kgroup sandbox -o json status``: accepted before the verb, wherever that is."""
    sub, code = {"context": ("list", 0), "sandbox": ("status", 0)}.get(group, ("start", 2))

    assert kgroup_cli(group, "-o", "json", sub, exit_code=code).json["kind"] == f"kgroup.{group}.{sub}/v1"


def test_group_may_follow_a_double_dash(kgroup_cli: CommandLine) -> None:
    result = kgroup_cli("describe", "-b", "127.0.0.1:1", "--", "-odd-name", exit_code=3)

    assert "[unreachable]" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["help", "output", "--no-headers", "-o", "json"], "--no-headers and -o json are mutually exclusive"),
        (["help", "-o", "name"], "-o name is a format of verbs that list groups or plans"),
        (["reset", "g", "--to-latest", "--all-topics", "-b", "x:1", "-o", "name"], "-o name is a format of"),
        (["list", "-b", "x:1", "-o", "kcg"], "-o kcg is a format of kgroup export only"),
    ],
)
def test_a_format_that_the_verb_does_not_have(kgroup_cli: CommandLine, arguments: list[str], says: str) -> None:
    assert says in kgroup_cli(*arguments, exit_code=2).stderr


@pytest.mark.parametrize("before", [True, False])
def test_headers_are_left_out(kgroup_cli: CommandLine, before: bool) -> None:
    flag = ["--no-headers"]
    words = [*flag, "help", "-o", "csv"] if before else ["help", "-o", "csv", *flag]

    assert kgroup_cli("help", "-o", "csv").stdout == "topic,text\n" + kgroup_cli(*words).stdout


@pytest.mark.parametrize("words", [["context", "list", "-q"], ["--quiet", "context", "list"]])
def test_quiet_hides_notes_but_not_from_documents(kgroup_cli: CommandLine, words: list[str]) -> None:
    assert "no contexts in" in kgroup_cli("context", "list").stderr
    assert kgroup_cli(*words).stderr == ""
    assert kgroup_cli(*words, "-o", "json").json["notes"]


def test_quiet_keeps_errors(kgroup_cli: CommandLine) -> None:
    assert "[usage]" in kgroup_cli("list", "-q", exit_code=2).stderr


def test_colour_can_be_left_out_by_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def run(arguments: list[str]) -> ExitCode:
        seen.append(os.environ.get("NO_COLOR"))
        return ExitCode.DONE

    monkeypatch.setattr(app, "_run", run)
    monkeypatch.delenv("NO_COLOR", raising=False)

    app.run(["list", "--no-color"])
    app.run(["list"])

    assert seen == ["1", None]
    assert "NO_COLOR" not in os.environ


# Hints


def hint_of(kgroup_cli: CommandLine, *arguments: str) -> str:
    """What stderr says, after checking that it is a usage error that would change nothing."""
    result = kgroup_cli(*arguments, exit_code=2)

    assert result.stdout == ""
    first, *rest = result.stderr.splitlines()
    assert first.startswith("kgroup: ")
    assert first.endswith("]")
    assert all(line.startswith("  ") for line in rest)
    for line in rest:
        if not line.strip().startswith("you typed"):
            assert not re.search(r"kgroup .*--execute", line), "a pasted hint must not change anything"
    return result.stderr


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("get", "list"),
        ("ls", "list"),
        ("lst", "list"),
        ("status", "describe"),
        ("descirbe", "describe"),
        ("discribe", "describe"),
        ("contexts", "context"),
        ("sandbx", "sandbox"),
        ("upgrade", "migrate"),
        ("downgrade", "migrate --protocol classic"),
        # By meaning, and not by letters: delete-offsets and reset-offsets are very similar words.
        ("reset-offsets", "reset"),
        ("reset_offsets", "reset"),
        ("delete-offset", "delete-offsets"),
        ("list-groups", "list"),
        ("describe-group", "describe"),
        ("delete-group", "delete"),
        ("snapshot", "export"),
        ("skip", "reset --shift-by 1"),
        ("replay", "catchup start"),
        ("pause", "catchup stop"),
        ("start", "catchup start"),
        ("lagg", "lag"),
        ("version", "--version"),
        ("explain", "help"),
        ("metrics", "lag -o prometheus"),
    ],
)
def test_a_verb_of_another_tool_gets_ours_as_a_hint(kgroup_cli: CommandLine, word: str, verb: str) -> None:
    said = hint_of(kgroup_cli, word, "orders")

    assert word in said
    assert f"  kgroup {verb}" in said.splitlines()


@pytest.mark.parametrize(
    ("path", "word", "verb"),
    [
        ("catchup", "abort", "cancel"),
        ("catchup", "continue", "resume"),
        ("catchup", "status", "show"),
        ("catchup", "pause", "stop"),
        ("catchup", "kill", "stop"),
        ("catchup", "progress", "show"),
        ("catchup", "remove", "prune"),
        ("catchup", "retry", "resume"),
        ("catchup", "strat", "start"),
        ("context", "switch", "use"),
        ("sandbox", "stop", "down"),
        ("sandbox", "restart", "up"),
    ],
)
def test_a_word_for_a_verb_below_another(kgroup_cli: CommandLine, path: str, word: str, verb: str) -> None:
    assert f"  kgroup {path} {verb}" in hint_of(kgroup_cli, path, word).splitlines()


def test_every_verb_that_a_word_means_exists() -> None:
    assert {meant.split()[0] for meant in hints.VERBS.values()} <= set(NAMES)
    below = {f"kgroup {group}" for group in GROUPS}
    assert hints.SUBVERBS.keys() <= below
    for path, meanings in hints.SUBVERBS.items():
        own = {command[1] for command in COMMANDS if command[0] == path.removeprefix("kgroup ")}
        assert set(meanings.values()) <= own
        assert not meanings.keys() & own


@pytest.mark.parametrize(
    ("word", "verb"),
    [("top", "lag"), ("seek", "reset"), ("rollback", "undo"), ("pause", "catchup stop"), ("get", "list")],
)
def test_the_habits_of_the_reference_lead_to_verbs_as_they_come(word: str, verb: str) -> None:
    assert hints.verb_hint(word, ["list", "lag", "reset", "undo", "catchup"]) == f"kgroup {verb}"
    there = verb.split()[0] in NAMES
    assert (hints.verb_hint(word, NAMES) == f"kgroup {verb}") == there, "never a verb that is not there"


@pytest.mark.parametrize("word", ["zzz", "top", "seek", "rollback"])
def test_no_hint_names_a_verb_that_does_not_exist(kgroup_cli: CommandLine, word: str) -> None:
    said = hint_of(kgroup_cli, word)

    named_verbs = re.findall(r"kgroup ([a-z]+)", said)
    assert set(named_verbs) <= set(NAMES), said


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "b1:9092", "lst"],
        ["--timeout", "5s", "-X", "client.id=x", "lst"],
        ["-o", "csv", "lst", "orders"],
        ["--context", "prod", "lst"],
    ],
    ids=" ".join,
)
def test_the_unknown_verb_is_the_verb_and_not_a_flags_value(kgroup_cli: CommandLine, arguments: list[str]) -> None:
    said = hint_of(kgroup_cli, *arguments)

    assert "'lst'" in said
    assert "kgroup list" in said


KCG = [
    (["--list"], "kgroup list"),
    (["--describe", "--group", "pay"], "kgroup describe --group pay"),
    (["--describe", "--group", "pay", "--members", "--verbose"], "kgroup describe --group pay --members --verbose"),
    (["--bootstrap-server", "b1:9092", "--list"], "kgroup list --bootstrap-server b1:9092"),
    (["--bootstrap-server", "b1:9092", "--describe", "--all-groups"], "kgroup describe"),
    (["--describe", "--group", "a b"], "kgroup describe --group 'a b'"),
    (["--describe", "--group", "pay", "--execute"], "kgroup describe --group pay"),
    (["--list", "--yes", "-y", "--force", "--execute"], "kgroup list"),
]


@pytest.mark.parametrize(
    ("arguments", "form"), KCG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_command_line_of_kafka_consumer_groups_gets_the_kgroup_form(
    kgroup_cli: CommandLine, arguments: list[str], form: str
) -> None:
    said = hint_of(kgroup_cli, *arguments)

    assert "verbs have no dashes" in said
    here = next(line for line in said.splitlines() if "here it is" in line)
    assert form in here
    assert "--execute" not in here
    assert "-y" not in here.split()


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        (
            ["--reset-offsets", "--group", "pay", "--topic", "t", "--to-earliest", "--execute"],
            "kgroup reset --group pay --topic t --to-earliest",
        ),
        (
            ["--group", "pay", "--reset-offsets", "--all-topics", "--shift-by", "-5", "--export"],
            "kgroup export --group pay --all-topics --shift-by -5",
        ),
        (["--delete", "--group", "pay", "--execute"], "kgroup delete --group pay"),
        (["--delete-offsets", "--group", "pay", "--topic", "t"], "kgroup delete-offsets --group pay --topic t"),
    ],
)
def test_changing_habits_get_the_form_that_shows_the_plan(arguments: list[str], form: str) -> None:
    verbs = [*NAMES, "reset", "delete", "delete-offsets", "export"]

    assert hints.kcg_form(arguments, verbs) == form


@pytest.mark.parametrize("execute", ["--execute", "--execute=true"])
def test_no_habit_carries_execute(execute: str) -> None:
    verbs = [*NAMES, "reset", "delete", "delete-offsets", "export"]
    for word in hints.KCG_VERBS:
        form = hints.kcg_form([execute, word, execute, "--group", "pay", execute], verbs)
        assert form is None or "--execute" not in form


def test_a_group_called_like_a_forbidden_flag_is_the_only_word_that_goes_missing() -> None:
    assert hints.kcg_form(["--describe", "--group", "pay", "-y"], NAMES) == "kgroup describe --group pay"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--json"], "-o json"),
        (["list", "--state", "Empty"], "--in-state"),
        (["describe", "--stat"], "--state"),
        (["describe", "--verbos"], "--verbose"),
        (["describe", "--offset"], "--offsets"),
        (["list", "--zookeeper", "z:2181"], "bootstrap"),
        (["list", "--brokers", "b:9092"], "bootstrap"),
        (["list", "--format", "json"], "-o json"),
        (["list", "--timeou", "5s"], "--timeout"),
        (["list", "--validate-regex", "^orders"], "kafka-consumer-groups.sh does"),
        (["migrate", "--group-protocol", "consumer"], "--protocol consumer"),
        (["list", "--bogus"], "kgroup list --help"),
        (["migrate", "--to", "consumer"], "--protocol"),
        (["reset", "--partition", "3"], "--topic"),
        (["peek", "--from-beginning"], "--offset"),
        (["reset", "--from-beginning"], "--to-earliest"),
        (["reset", "--skip", "1"], "--shift-by"),
        (["undo", "--at", "03:05Z"], "--as-of"),
        (["catchup", "resume", "--throttle", "5/s"], "--rate"),
        (["history", "--last", "2h"], "--since"),
        (["lag", "--limit", "5"], "--top"),
        (["describe", "--wide"], "-o wide"),
        (["describe", "--csv"], "-o csv"),
        (["describe", "--name", "pay"], "--group"),
        (["list", "--broker", "2"], "--coordinator"),
        (["describe", "--server", "b:1"], "--bootstrap-server"),
        (["describe", "--color"], "--no-color"),
        (["describe", "--no-colour"], "--no-color"),
        (["describe", "--no-header"], "--no-headers"),
        (["describe", "--silent"], "--quiet"),
    ],
    ids=str,
)
def test_an_unknown_flag_is_named_with_what_it_is_here(
    kgroup_cli: CommandLine, arguments: list[str], says: str
) -> None:
    said = hint_of(kgroup_cli, *arguments)

    assert arguments[1] in said.splitlines()[0]
    assert says in "\n".join(said.splitlines()[1:])


@pytest.mark.parametrize("flag", ["--execute", "-y", "--yes", "--force", "--dry-run"])
def test_flags_of_changes_on_a_verb_that_looks_get_no_command_line_that_executes(
    kgroup_cli: CommandLine, flag: str
) -> None:
    hint_of(kgroup_cli, "describe", "pay", flag)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["describe", "--expect", "many"], "--expect"),
        (["describe", "--expect"], "--expect"),
        (["list", "-b"], "-b"),
        (["--context"], "--context"),
        (["context", "use"], "NAME"),
        (["context", "use", "a", "b"], "b"),
        (["context", "lst"], "lst"),
        (["sandbox", "up", "--port", "0"], "--port"),
        (["sandbox", "up", "--brokers", "2"], "--brokers"),
        (["describe", "--members", "--offsets", "-b", "x:1"], "--members"),
        (["describe", "a", "--all-groups", "-b", "x:1"], "--all-groups"),
        (["describe", "", "-b", "x:1"], "empty"),
        (["list", "--in-state", "Stabel", "-b", "x:1"], "Stable"),
        (["list", "--type", "clasic", "-b", "x:1"], "classic"),
        (["list", "--regex", "(", "-b", "x:1"], "--regex"),
        (["describe", "--scan-time", "5", "-b", "x:1"], "5s"),
        (["list", "-X", "novalue", "-b", "x:1"], "KEY=VALUE"),
        (["list", "-b", "b1:port"], "HOST:PORT"),
        (["list", "-b", ","], "-b"),
        (["list", "-b", "http://b1:9092"], "HOST:PORT"),
    ],
    ids=str,
)
def test_usage_errors_say_what_is_wrong(kgroup_cli: CommandLine, arguments: list[str], says: str) -> None:
    assert says in hint_of(kgroup_cli, *arguments)


def test_a_verb_below_a_verb_gets_a_hint_too(kgroup_cli: CommandLine) -> None:
    assert "kgroup context list" in hint_of(kgroup_cli, "context", "lst")


def test_a_debug_file_that_cannot_be_written_is_an_error_and_no_traceback(
    kgroup_cli: CommandLine, tmp_path: Path
) -> None:
    result = kgroup_cli.process("list", "-b", "127.0.0.1:1", "--debug", str(tmp_path / "no" / "x.log"), exit_code=2)

    assert "Traceback" not in result.stderr
    assert "x.log" in result.stderr


# Exit codes


def error_classes() -> list[type[KgroupError]]:
    found, left = [], [KgroupError]
    while left:
        cls = left.pop()
        found.append(cls)
        left += cls.__subclasses__()
    return found


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UsageError", 2),
        ("ConfigError", 2),
        ("Unreachable", 3),
        ("AuthenticationFailed", 4),
        ("NotAuthorized", 4),
        ("NotFound", 5),
        ("Refused", 6),
    ],
)
def test_every_error_carries_its_exit_code(name: str, code: int) -> None:
    (found,) = {cls for cls in error_classes() if cls.__name__ == name}

    assert found.exit_code == code
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", found("x").code)


# What is imported


HEAVY = ("pyspark", "pyarrow", "pandas", "numpy", "kafka", "confluent_kafka", "yaml", "requests", "pydantic")


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``code``."""
    script = f"{code}\nimport sys, json\nsys.stderr.write('MODULES ' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    found: list[str] = json.loads(done.stderr.partition("MODULES ")[2])
    return set(found)


def loaded(modules: set[str], *names: str) -> set[str]:
    return {module for module in modules for name in names if module == name or module.startswith(name + ".")}


def test_importing_the_command_line_imports_no_verb_and_no_client() -> None:
    modules = modules_after("import kgroup.cli.app")

    assert loaded(modules, *HEAVY) == set()
    assert loaded(modules, "kgroup.commands", "kgroup.cluster", "kgroup.sandbox", "kgroup.groups") == set()


@pytest.mark.parametrize("arguments", [["--help"], [], ["lst"], ["--list"]])
def test_the_overview_and_a_wrong_verb_import_no_verb(arguments: list[str]) -> None:
    modules = modules_after(f"from kgroup.cli.app import run\nrun({arguments!r})")

    assert loaded(modules, *HEAVY) == set()
    assert loaded(modules, "kgroup.commands", "kgroup.cluster", "kgroup.sandbox") == set()


@pytest.mark.parametrize("verb", [["describe", "g"], ["list"]])
def test_describe_imports_one_client_and_nothing_of_the_extras(verb: list[str]) -> None:
    modules = modules_after(f"from kgroup.cli.app import run\nrun({[*verb, '-b', '127.0.0.1:1']!r})")

    assert loaded(modules, "kafka")
    assert loaded(modules, "confluent_kafka", "pyspark", "yaml", "pandas", "pyarrow", "numpy") == set()
    assert loaded(modules, "kgroup.sandbox", "rich.table", "rich.progress") == set()


@pytest.mark.parametrize("arguments", [["help"], ["sandbox", "status"], ["context", "list"]])
def test_a_verb_that_asks_no_cluster_imports_no_client(arguments: list[str]) -> None:
    modules = modules_after(f"from kgroup.cli.app import run\nrun({arguments!r})")

    assert loaded(modules, "kafka", "confluent_kafka", "pyspark", "pandas") == set()


def test_a_notebook_and_the_making_of_changes_load_nothing_of_the_command_line() -> None:
    modules = modules_after(
        "import kgroup.spark, kgroup.queries.snapshots, kgroup.output.watch.request, kgroup.queries.from_log\n"
        "import kgroup.changes.execute, kgroup.catchup.service.options"
    )

    assert loaded(modules, "typer", "rich", "kgroup.cli.app", "kgroup.cli.options", "kgroup.cli.typer_adapter") == set()


@pytest.mark.parametrize("word", ["", "list x", " "])
def test_a_word_that_is_no_verb_is_no_crash(kgroup_cli: CommandLine, word: str) -> None:
    assert "there is no verb" in kgroup_cli(word, exit_code=2).stderr


def test_the_debug_log_is_opened_by_every_verb(
    kgroup_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kgroup_cli("help", "output", "--debug", str(tmp_path / "flag.log"))
    monkeypatch.setenv("KGROUP_DEBUG", str(tmp_path / "variable.log"))
    kgroup_cli("context", "list")
    assert (tmp_path / "flag.log").exists()
    assert (tmp_path / "variable.log").exists()


# How a verb ends


class Full(io.StringIO):
    """An output that fails with ``error`` when it is written."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ExitCode.DONE),
        (BrokenPipeError(), ExitCode.DONE),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.FAILED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (Terminated(), ExitCode.TERMINATED),
    ],
    ids=["read to the end", "closed pipe", "full disk", "ctrl-C", "SIGTERM"],
)
@pytest.mark.parametrize("fails", [False, True], ids=["", "the second outcome fails"])
def test_a_verb_is_closed_however_it_ends(
    monkeypatch: pytest.MonkeyPatch, error: BaseException | None, code: ExitCode, fails: bool
) -> None:
    """What it leaves open, a connection with a thread, would be closed while Python exits: 3.13 then never ends."""
    closed = []

    def outcomes() -> Outcomes:
        try:
            for _ in range(2):
                yield Outcome(data=(), screen=lambda: Screen(()), records=lambda: Records(("a",), [("1",)]))
                if fails:
                    raise KgroupError("in the middle")
        finally:
            closed.append(True)

    held = outcomes()
    monkeypatch.setattr(streams, "drop_stdout", lambda: None)
    monkeypatch.setattr(present, "drop_stdout", lambda: None)
    monkeypatch.setattr(sys, "stdout", io.StringIO() if error is None else Full(error))
    run = Invocation(Connection(), Presentation(output=Format.CSV), StderrReporter(io.StringIO()))

    found = app._execute("list", run, lambda run: held)

    assert closed == [True]
    assert found == (ExitCode.FAILED if fails and error is None else code)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "note: reset: interrupted; nothing was changed\n"),
        (Terminated(), ExitCode.TERMINATED, "note: reset: terminated; nothing was changed\n"),
        (KgroupError("no answer"), ExitCode.FAILED, "kgroup: no answer [failed]\n"),
    ],
)
def test_an_ended_change_says_what_it_left(error: BaseException, code: ExitCode, message: str) -> None:
    stderr = io.StringIO()
    run = Invocation(Connection(bootstrap_server="b1:9092"), Presentation(), StderrReporter(stderr))

    def ended(*effect: str) -> str:
        stderr.truncate(stderr.seek(0))

        def reset(run: Invocation) -> Outcome:
            run.reporter.note_effect(*effect)
            raise error

        assert app._execute("reset", run, reset) == code
        return stderr.getvalue()

    assert ended("nothing was changed") == message
    if isinstance(error, KgroupError):
        assert ended("what was done is in the journal", "ch-1") == (
            f"{message}  The change was made: ch-1. To take it back:  kgroup undo ch-1 -b b1:9092\n"
        )


@pytest.mark.parametrize(
    ("typed", "executing"),
    [
        (
            "-b x:1 catchup -o json stop cu-1 --dry-run",
            "kgroup -b x:1 catchup -o json stop cu-1 --execute",
        ),
        (
            "reset g --to-earliest --execute --backup - --shift-by=-3 -X ssl.key.password=geheim",
            "kgroup reset g --to-earliest --backup - --shift-by=-3 -X 'ssl.key.password=[hidden]' --execute",
        ),
        ("reset --bootstrap-server b:1 -A -- --odd b", "kgroup reset -b b:1 -A --execute -- --odd b"),
        (
            "catchup start --to-spark jdbc --option url=$U g",
            "kgroup catchup start g --to-spark jdbc --option 'url=$U' --execute",
        ),
    ],
)
def test_the_command_that_executes_a_plan(monkeypatch: pytest.MonkeyPatch, typed: str, executing: str) -> None:
    shown: list[str] = []

    def execute(name: str, run: Invocation, call: object) -> ExitCode:
        shown.append(str(run.command_line.executing()))
        return ExitCode.DONE

    monkeypatch.setattr(app.Root, "execute", staticmethod(execute))
    assert app.run(typed.split()) == ExitCode.DONE
    assert shown == [executing]
