"""Named clusters: the file, the choice, and the verbs."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.commands.context import SUBCOMMANDS, list_, show, use
from kgroup.settings import contexts, paths
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.settings.sources import resolve
from kgroup.support.errors import ConfigError, NotFound, UsageError
from tests.helpers.command_line import CommandLine
from tests.helpers.json_documents import documents
from tests.helpers.places import ROOT
from tests.helpers.settings_cases import Notes

GOOD = """\
# clusters
contexts:
  prod:
    bootstrap.servers: b1.prod:9093,b2.prod:9093
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: oncall
    sasl.password: ${env:PROD_PASSWORD}
    ssl.ca.location: ca.pem
    explicit: true
    timeout: 20s
    catchup:
      master: spark://spark:7077
      spark.ssl.keyPassword: geheim
  staging:
    bootstrap.servers: ${env:STAGING}
    sasl.jaas.config: x.PlainLoginModule required username="u" password="${file:pw}";
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    read_only: yes
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "state"))
    for name in ("KGROUP_CONTEXT", "KGROUP_BOOTSTRAP_SERVER", "KGROUP_COMMAND_CONFIG", "KGROUP_PROPERTIES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def run(**flags: str) -> Invocation:
    return Invocation(Connection(**flags), Presentation(), Notes())  # type: ignore[arg-type]


def test_no_file_is_no_context() -> None:
    assert contexts.load() == {}


@pytest.mark.parametrize("text", ["", "# nothing\n", "contexts:\n", "contexts: {}\n"])
def test_an_empty_file_is_no_context(text: str, write: Callable[[str], Path]) -> None:
    write(text)
    assert contexts.load() == {}


def test_references_are_replaced_when_used(write: Callable[[str], Path], tmp_path: Path) -> None:
    write(GOOD)
    (tmp_path / "pw").write_text("file-secret\n")
    prod = resolve(Connection(context="prod"), Notes(), {"PROD_PASSWORD": "env-secret"})
    assert prod.get("sasl.password") == "env-secret"
    assert prod.get("ssl.ca.location") == str(tmp_path / "ca.pem")
    assert (prod.timeout_s, prod.explicit, prod.read_only) == (20.0, True, False)
    staging = resolve(Connection(context="staging"), Notes(), {"STAGING": "s:1"})
    assert (staging.bootstrap_servers, staging.get("sasl.password")) == ("s:1", "file-secret")
    assert (staging.explicit, staging.read_only) == (False, True)
    assert "file-secret" in staging.secrets


@pytest.mark.parametrize(
    ("context", "environ", "words"),
    [
        ("prod", {}, "sasl.password from context"),
        ("prod", {}, "the variable PROD_PASSWORD is not set"),
        ("staging", {"STAGING": "s:1"}, "sasl.jaas.config from context"),
        ("staging", {"STAGING": "s:1"}, "No such file"),
    ],
)
def test_references_to_nothing(context: str, environ: dict[str, str], words: str, write: Callable[[str], Path]) -> None:
    path = write(GOOD)
    with pytest.raises(ConfigError) as raised:
        resolve(Connection(context=context), Notes(), environ)
    assert words in raised.value.message
    assert f"{path}:" in raised.value.message


def test_a_password_in_the_place_of_a_reference_is_not_repeated(write: Callable[[str], Path]) -> None:
    for value in ("${env:S3cr3t}", "${env:GEHEIM}", "${file:S3cr3t}"):
        write(f"contexts:\n  a:\n    bootstrap.servers: a:1\n    sasl.password: {value}\n")
        with pytest.raises(ConfigError) as raised:
            resolve(Connection(context="a"), Notes(), {})
        assert "S3cr3t" not in raised.value.message
        assert "GEHEIM" not in raised.value.message
        assert ":4" in raised.value.message


def test_a_password_in_a_file_that_all_may_read_warns(write: Callable[[str], Path]) -> None:
    text = "contexts:\n  a:\n    bootstrap.servers: a:1\n    security.protocol: SASL_SSL\n" \
        "    sasl.mechanism: PLAIN\n    sasl.username: u\n    sasl.password: "  # fmt: skip
    for value, mode, warned in [("geheim", 0o644, 1), ("geheim", 0o600, 0), ("${env:HOME}", 0o644, 0)]:
        path = write(text + value + "\n")
        path.chmod(mode)
        notes = Notes()
        resolve(Connection(context="a"), notes, {"HOME": "x"})
        assert [f"chmod 600 {path}" in said for said in notes.warnings] == [True] * warned


def test_the_list_has_the_user_of_a_jaas_line_and_no_password(
    write: Callable[[str], Path], kgroup_cli: CommandLine
) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ana" password="geheim";'
    write(f"contexts:\n  a:\n    bootstrap.servers: u:geheim@h:1\n    sasl.jaas.config: '{jaas}'\n")
    (row,) = kgroup_cli("context", "list", "-o", "json").data
    assert (row["sasl_username"], row["bootstrap_servers"]) == ("ana", "[hidden]")


BROKEN: dict[str, tuple[str, int, str]] = {
    "yaml": ("contexts:\n  prod:\n    a: [geheim\n", 4, "not YAML"),
    "tab": ("contexts:\n  prod:\n\ta: geheim\n", 3, "not YAML"),
    "colon-in-value": ("contexts:\n  prod:\n    client.id: a: geheim\n", 3, "not YAML"),
    "list": ("- a\n", 1, "the file must be a mapping"),
    "contexts-list": ("contexts:\n- a\n", 2, "contexts must be a mapping"),
    "context-text": ("contexts:\n  prod: geheim\n", 2, 'context "prod" must be a mapping'),
    "top-level": ("contexts: {}\nother: 1\n", 2, 'unknown key "other"'),
    "nested": ("contexts:\n  prod:\n    sasl:\n      password: geheim\n", 3, '"sasl" must have a single value'),
    "twice": (
        "contexts:\n  prod:\n    sasl.password: geheim\n    x: 1\n    sasl.password: geheim\n", 5,
        '"sasl.password" is twice in context "prod", first in line 3',
    ),
    "context-twice": ("contexts:\n  a: {}\n  a: {}\n", 3, '"a" is twice'),
    "read-only": ("contexts:\n  a:\n    read_only: maybe\n", 3, '"read_only" is true or false'),
    "catchup-text": ("contexts:\n  a:\n    catchup: geheim\n", 3, '"catchup" must be a mapping'),
    "catchup-key": ("contexts:\n  a:\n    catchup:\n      rates: geheim\n", 4, 'spark.*, not "rates"'),
    "queries-text": ("contexts:\n  a:\n    queries: geheim\n", 3, '"queries" must be a mapping'),
    "query-name": ("contexts:\n  a:\n    queries:\n      a/b: /geheim\n", 4, "the name of a streaming query"),
    "query-key": ("contexts:\n  a:\n    queries:\n      b:\n        path: geheim\n", 5, 'and every, not "path"'),
    "query-nowhere": ("contexts:\n  a:\n    queries:\n      b:\n        every: 1h\n", 4, '"b" has no checkpoint'),
    "query-every": (
        "contexts:\n  a:\n    queries:\n      b:\n        every: geheim\n", 5, '"every" of "b" is a duration, as 1h',
    ),
    "key-list": ("contexts:\n  a:\n    [x]: 1\n", 3, "must be plain text"),
    "unsafe-tag": ("contexts:\n  a: !!python/object:os.system {}\n  b: 1\n", 3, 'context "b"'),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_told_by_line(case: str, write: Callable[[str], Path]) -> None:
    text, line, words = BROKEN[case]
    path = write(text)
    with pytest.raises(ConfigError) as raised:
        contexts.load()
    said = "\n".join((raised.value.message, *raised.value.details))
    assert f"{path}:{line}: " in said
    assert words in said
    assert "geheim" not in said


def test_a_broken_file_names_the_key(write: Callable[[str], Path]) -> None:
    write("contexts:\n  prod:\n    client.id: a: b\n")
    with pytest.raises(ConfigError) as raised:
        contexts.load()
    assert '"client.id"' in raised.value.details[0]


def test_a_bad_timeout_is_told_by_line(write: Callable[[str], Path]) -> None:
    path = write("contexts:\n  a:\n    bootstrap.servers: a:1\n    timeout: soon\n")
    with pytest.raises(ConfigError, match="timeout=soon") as raised:
        resolve(Connection(context="a"), Notes(), {})
    assert f"{path}:4" in raised.value.message


CHANGING = {
    "reset": ["reset", "g", "--topic", "t", "--to-latest"],
    "undo": ["undo"],
    "migrate": ["migrate", "g"],
    "evict": ["evict", "g", "--member", "m"],
    "delete": ["delete", "g"],
    "delete-offsets": ["delete-offsets", "g", "--topic", "t"],
    "catchup start": ["catchup", "start", "g", "--to-topic", "t"],
    "catchup resume": ["catchup", "resume", "cu-2222"],
    "catchup stop": ["catchup", "stop", "cu-2222"],
    "catchup throttle": ["catchup", "throttle", "cu-2222", "off"],
    "catchup done": ["catchup", "done", "cu-2222", "--by", "job"],
    "catchup cancel": ["catchup", "cancel", "cu-2222"],
    "catchup prune": ["catchup", "prune"],
}
"""A command line of every verb that has --execute."""


def test_every_verb_with_execute_is_tried_with_an_unknown_setting() -> None:
    verbs = json.loads((ROOT / "kgroup" / "data" / "completion.json").read_text(encoding="utf-8"))["verbs"]
    assert CHANGING.keys() == {name for name, verb in verbs.items() if "--execute" in verb["options"]}


@pytest.mark.parametrize("execute", [False, True], ids=["plan", "execute"])
@pytest.mark.parametrize("verb", CHANGING)
def test_an_unknown_setting_stops_every_verb_that_changes_something(
    verb: str, execute: bool, write: Callable[[str], Path], kgroup_cli: CommandLine
) -> None:
    path = write("contexts:\n  audit:\n    bootstrap.servers: 127.0.0.1:1\n    readonly: true\n    geheim: x\n")
    words = [*CHANGING[verb], *(["--execute"] if execute else [])]
    result = kgroup_cli(*words, "--context", "audit", exit_code=2)
    assert f'unknown setting readonly from context "audit" ({path}:4); did you mean read_only' in result.stderr
    assert f'unknown setting [hidden] from context "audit" ({path}:5)' in result.stderr
    assert "Correct or remove" in result.stderr
    assert "WARNING" not in result.stderr


@pytest.mark.parametrize("source", ["--command-config", "KGROUP_COMMAND_CONFIG", "KGROUP_PROPERTIES", "-X"])
def test_so_does_one_of_any_other_source(
    source: str, tmp_path: Path, kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("read.only=true\n")
    given = "read.only=true" if source in ("-X", "KGROUP_PROPERTIES") else str(file)
    if source.startswith("KGROUP"):
        monkeypatch.setenv(source, given)
    options = [] if source.startswith("KGROUP") else [source, given]
    result = kgroup_cli(*CHANGING["reset"], "-b", "127.0.0.1:1", *options, exit_code=2)
    assert f"unknown setting read.only from {source}" in result.stderr


def test_a_reading_verb_only_warns_of_an_unknown_setting(write: Callable[[str], Path], kgroup_cli: CommandLine) -> None:
    write("contexts:\n  audit:\n    bootstrap.servers: 127.0.0.1:1\n    readonly: true\n")
    result = kgroup_cli("list", "--context", "audit", "--timeout", "2s", exit_code=3)
    assert "unknown setting readonly" in result.stderr
    assert "has no effect; did you mean read_only" in result.stderr


def test_use_remembers_and_never_writes_the_user_s_file(write: Callable[[str], Path], tmp_path: Path) -> None:
    path = write(GOOD)
    path.chmod(0o444)
    before = path.read_bytes()
    first = use(run(), "prod")
    second = use(run(), "staging")
    assert [documents(outcome)[0]["previous"] for outcome in (first, second)] == [None, "prod"]
    assert contexts.load_choice() == "staging"
    assert path.read_bytes() == before
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["context"]
    assert stat.S_IMODE((tmp_path / "state" / "context").stat().st_mode) == 0o600


def test_use_of_an_unknown_context_changes_nothing(write: Callable[[str], Path]) -> None:
    write(GOOD)
    use(run(), "prod")
    with pytest.raises(NotFound) as raised:
        use(run(), "stagin")
    assert raised.value.details == ("Near: staging",)
    assert contexts.load_choice() == "prod"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [("KGROUP_CONTEXT", "prod", "KGROUP_CONTEXT is set"), ("KGROUP_BOOTSTRAP_SERVER", "a:1", "do not use the context")],
)
def test_use_warns_where_it_has_no_effect(
    variable: str, value: str, words: str, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv(variable, value)
    notes = Notes()
    use(Invocation(Connection(), Presentation(), notes), "staging")
    assert words in notes.warnings[0]


def test_a_state_directory_that_cannot_be_written(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv("KGROUP_STATE_DIR", "/proc/no")
    with pytest.raises(ConfigError, match="cannot write") as raised:
        use(run(), "prod")
    assert "KGROUP_STATE_DIR" in (raised.value.hint or "")


def test_a_chosen_context_that_is_gone(write: Callable[[str], Path]) -> None:
    write(GOOD)
    use(run(), "prod")
    write("contexts:\n  other:\n    bootstrap.servers: a:1\n")
    with pytest.raises(ConfigError) as raised:
        resolve(Connection(), Notes(), {})
    assert raised.value.message == 'the chosen context "prod" does not exist any more'
    assert "other" in raised.value.details[0]
    assert resolve(Connection(bootstrap_server="a:1"), Notes(), {}).context is None


def test_list_needs_no_reference(write: Callable[[str], Path]) -> None:
    write(GOOD)
    use(run(), "staging")
    outcome = list_(run())
    listed = documents(outcome)
    assert [(one["name"], one["chosen"], one["read_only"], one["explicit"]) for one in listed] == [
        ("prod", False, False, True),
        ("staging", True, True, False),
    ]
    assert listed[0]["bootstrap_servers"] == "b1.prod:9093,b2.prod:9093"
    assert [row[0] for row in outcome.records().rows] == ["prod", "staging"]


def test_list_says_where_it_looked() -> None:
    notes = Notes()
    assert list_(Invocation(Connection(), Presentation(), notes)).data == ()
    assert str(paths.config_file()) in notes.notes[0] or "~" in notes.notes[0]


def test_show_hides_secrets_and_names_sources(write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GOOD)
    monkeypatch.setenv("PROD_PASSWORD", "env-secret")
    outcome = show(run(), "prod")
    text = json.dumps(documents(outcome)) + repr(outcome.screen()) + repr(list(outcome.records().rows))
    assert not {"env-secret", "geheim"} & set(re.findall(r"[\w-]+", text))
    rows = {row[0]: (row[1], row[2]) for row in outcome.records().rows}
    assert rows["sasl.password"] == ("[hidden]", f'context "prod" ({path}:8)')
    assert rows["timeout"] == ("20s", f'context "prod" ({path}:11)')
    assert rows["explicit"][0] == "true"
    assert rows["catchup.master"] == ("spark://spark:7077", f'context "prod" ({path}:13)')
    assert rows["catchup.spark.ssl.keyPassword"][0] == "[hidden]"


def test_queries_are_named_with_paths_relative_to_the_file(write: Callable[[str], Path]) -> None:
    path = write(
        "contexts:\n  prod:\n    bootstrap.servers: b:1\n    queries:\n      far: s3a://lake/c\n"
        "      near: checkpoints/near\n      hourly:\n        checkpoint: /lake/hourly\n        every: 90m\n"
    )
    rows = {row[0]: row[1] for row in show(run(), "prod").records().rows}

    assert rows["queries.far"] == "s3a://lake/c"
    assert rows["queries.near"] == str(path.parent / "checkpoints/near")
    assert contexts.load()["prod"].queries["hourly"].every_s == 5400
    (document,) = documents(show(run(), "prod"))
    assert [query["name"] for query in document["queries"]] == ["far", "near", "hourly"]


def test_show_of_two_contexts_is_refused(write: Callable[[str], Path]) -> None:
    write(GOOD)
    with pytest.raises(UsageError):
        show(run(context="staging"), "prod")


def test_the_verbs() -> None:
    assert [verb.__name__.strip("_") for verb in SUBCOMMANDS] == ["list", "use", "show"]
    for verb in SUBCOMMANDS:
        assert "Examples:\n" in (verb.__doc__ or "")
