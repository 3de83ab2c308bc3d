"""``kgroup migrate`` and the application: ``--client``, which can't be seen from outside, and ``--client-config``."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgroup.settings.java_properties import parse_properties
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture(scope="module")
def group(world: KafkaWorld) -> str:
    """An Empty group that had cooperative-sticky members; no test of this module converts it."""
    topic = world.topic("orders-of-clients", partitions=2)
    world.commit("clients-svc", {(topic, 0): 3})
    by_hand.join(world, "clients-svc", {topic: [0, 1]}, assignors=["cooperative-sticky"], session_ms=15_000).leave()
    return "clients-svc"


@pytest.fixture(autouse=True)
def untouched(world: KafkaWorld, group: str) -> Any:
    yield
    assert world.groups()[group] == ("classic", "empty")


def client_check(kgroup: CommandLine, group: str, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    """The check of the client in the group's row."""
    (row,) = kgroup("migrate", group, *arguments, "-o", "json", exit_code=exit_code).data
    (check,) = (check for check in row["checks"] if "client" in check["id"] and "config" not in check["id"])
    worst = check["status"] if check["status"] in ("blocked", "warning") else None
    assert worst in (None, row["readiness"])
    return dict(check)


# --client

CLIENTS = [
    ("java:3.9", "blocked", ("4.0",)),
    ("java:3.9.1", "blocked", ("4.0",)),
    ("java:4.0.0", "warning", ("4.4.0",)),
    ("java:4.2.1", "warning", ("4.4.0",)),
    ("java:4.4.0", "ok", ()),
    ("java:4.10.0", "ok", ()),
    ("java:5.0", "ok", ()),
    ("librdkafka:2.11", "blocked", ("2.12",)),
    ("librdkafka:2.11.1", "blocked", ("2.12",)),
    ("librdkafka:2.12.0", "warning", ("2.15",)),
    ("librdkafka:2.15.0", "ok", ()),
    ("confluent-kafka-python:2.11.1", "blocked", ("2.12",)),
    ("confluent-kafka-python:2.12.0", "warning", ("2.15",)),
    ("confluent-kafka-javascript:1.5.0", "blocked", ("1.6",)),
    ("spring-kafka:3.3.0", "blocked", ("4.0",)),
    ("kafka-python:3.0.12", "blocked", ()),
    ("sarama:1.45.0", "blocked", ()),
    ("kafka-go:0.4.47", "blocked", ()),
    ("kafkajs:2.2.4", "blocked", ()),
]


@pytest.mark.parametrize(("client", "status", "words"), CLIENTS, ids=[client for client, *_ in CLIENTS])
def test_client(kgroup: CommandLine, group: str, client: str, status: str, words: tuple[str, ...]) -> None:
    """Checked against the table: what is needed, what is advised, and where that is from."""
    check = client_check(kgroup, group, "--client", client, exit_code=6 if status == "blocked" else 0)
    assert check["status"] == status, check
    for word in words:
        assert word in f"{check['evidence']} {check['remedy']}"
    assert check["source"]


def test_client_that_is_not_able_is_not_converted(kgroup: CommandLine, group: str) -> None:
    result = kgroup("migrate", group, "--client", "java:3.9", "--execute", exit_code=6)
    assert "[blocked]" in result.stderr
    assert "3.9" in result.stdout + result.stderr
    kgroup("migrate", group, "--client", "java:3.9", "--only", "ready", "--execute")


def test_without_client_the_minimum_versions_are_listed(kgroup: CommandLine, group: str) -> None:
    check = client_check(kgroup, group)
    assert check["status"] == "unknown"
    screen = " ".join(kgroup("migrate", group).stdout.split())
    for words in ("4.0", "4.4.0", "2.12", "2.15", "librdkafka", "--client"):
        assert words in screen


def test_the_way_back_asks_nothing_of_the_client(kgroup: CommandLine, group: str) -> None:
    (row,) = kgroup("migrate", group, "--protocol", "classic", "--client", "java:3.9", "-o", "json").data
    assert row["readiness"] == "done"


def test_unknown_client(kgroup: CommandLine, group: str) -> None:
    """2 with the names that are known."""
    result = kgroup("migrate", group, "--client", "jvaa:4.0", exit_code=2)
    for known in ("java", "librdkafka", "franz-go", "spring-kafka"):
        assert known in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "client", ["java", "java:", ":4.0", "", "java:new", "java:4.x", "=java:4.0", "clients-svc=", "clients-svc=java"]
)
def test_bad_form(kgroup: CommandLine, group: str, client: str) -> None:
    result = kgroup("migrate", group, "--client", client, exit_code=2)
    assert "--client" in result.stderr
    assert result.stdout == ""


def test_client_of_a_group_that_is_not_chosen(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    """A mistyped name would leave the group unchecked; a file may well speak of the whole fleet."""
    result = kgroup("migrate", group, "--client", "clients-svcc=java:3.9", exit_code=2)
    assert "clients-svcc" in result.stderr
    file = tmp_path / "clients"
    file.write_text(f"orders-svc=java:3.9\n{group}=java:4.4.0\n")
    assert client_check(kgroup, group, "--client", f"@{file}")["status"] == "ok"


def test_clients_by_group(kgroup: CommandLine, group: str, bystander: str, tmp_path: Path) -> None:
    """GROUP=NAME:VERSION is for that one, and wins over the one for all; the same out of a file."""
    file = tmp_path / "clients"
    file.write_text(f"# what runs where\njava:4.4.0\n\n{group}=librdkafka:2.11.0\n")
    for given in (("--client", "java:4.4.0", "--client", f"{group}=librdkafka:2.11.0"), ("--client", f"@{file}")):
        rows = kgroup("migrate", group, bystander, *given, "-o", "json", exit_code=6).data
        verdicts = {row["group"]: row["readiness"] for row in rows}
        assert verdicts[group] == "blocked"
        assert verdicts[bystander] == "ready"
    one = kgroup("migrate", group, bystander, "--client", f"{bystander}=java:3.9", "-o", "json", exit_code=6)
    assert {row["group"]: row["readiness"] for row in one.data}[group] == "ready"


def test_several_clients_in_one_group(kgroup: CommandLine, group: str) -> None:
    """The worst of them counts."""
    given = ("--client", f"{group}=java:4.4.0", "--client", f"{group}=java:3.9")
    (row,) = kgroup("migrate", group, *given, "-o", "json", exit_code=6).data
    assert row["readiness"] == "blocked"


def test_client_file_that_is_no_such(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "wrong").write_text("java:4.4.0\nnonsense\n")
    for name, word in (("missing", "missing"), (".", str(tmp_path)), ("binary", "binary"), ("wrong", "2")):
        result = kgroup("migrate", group, "--client", f"@{tmp_path / name}", exit_code=2)
        assert word in result.stderr
        assert result.stdout == ""


# --client-config

SECRET = "hunter2-;x"
JAVA = f"""\
# pay-svc
bootstrap.servers=localhost:9092
group.id=clients-svc
session.timeout.ms = 30000
heartbeat.interval.ms: 3000
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
max.poll.interval.ms=600000
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="pay" password="{SECRET}";
ssl.keystore.password={SECRET}
client.id=pay\\u00e9
"""
LIBRDKAFKA = f"""\
bootstrap.servers=localhost:9092
group.id=clients-svc
session.timeout.ms=30000
heartbeat.interval.ms=3000
partition.assignment.strategy=cooperative-sticky
sasl.password={SECRET}
"""
YAML = f"""\
contexts:
  pay:
    bootstrap.servers: localhost:9092
    group.id: clients-svc
    session.timeout.ms: 30000
    partition.assignment.strategy: cooperative-sticky
    sasl.password: "{SECRET}"
"""
GONE = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
FORMS = {"pay.properties": JAVA, "pay.conf": LIBRDKAFKA, "pay.yaml": YAML}


def settings_of(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(text)}


def configured(kgroup: CommandLine, group: str, file: Path, *arguments: str, exit_code: int = 0) -> Result:
    return kgroup("migrate", group, "--client-config", str(file), *arguments, exit_code=exit_code)


def changes(kgroup: CommandLine, group: str, file: Path, *arguments: str) -> dict[str, str | None]:
    """The new value of each setting that has to change, by its key in the file; None: it is removed."""
    (row,) = configured(kgroup, group, file, *arguments, "-o", "json").data
    return {change["key"]: change["new_value"] for change in row["client_config"]["changes"]}


@pytest.mark.parametrize("form", FORMS)
def test_changes_are_listed(kgroup: CommandLine, group: str, tmp_path: Path, form: str) -> None:
    """What to remove and what to set, in each format; no password on any stream in any output; the file stays."""
    text, file = FORMS[form], tmp_path / form
    file.write_text(text)
    prefix = "contexts.pay." if form == "pay.yaml" else ""
    assert changes(kgroup, group, file) == {
        f"{prefix}group.protocol": "consumer",
        f"{prefix}group.remote.assignor": "uniform",
        **{f"{prefix}{key}": None for key in GONE if key in text},
    }
    for output in ("table", "json", "yaml", "markdown", "csv"):
        said = configured(kgroup, group, file, "-o", output)
        assert SECRET.partition(";")[0] not in said.stdout + said.stderr
    page = configured(kgroup, group, file).stdout
    assert f"  set     {prefix}group.remote.assignor=uniform: " in page
    assert f"  remove  {prefix}session.timeout.ms (line " in page
    assert "max.poll.interval" in page, "what else changes in behaviour"
    assert "enforceRebalance" in page or form != "pay.properties"
    assert file.read_text() == text


@pytest.mark.parametrize("form", ["pay.properties", "pay.conf"])
def test_write(kgroup: CommandLine, group: str, tmp_path: Path, form: str) -> None:
    """The whole file, passwords too, for its owner alone; never over another file."""
    text = FORMS[form]
    file, new = tmp_path / form, tmp_path / f"new-{form}"
    file.write_text(text)
    result = configured(kgroup, group, file, "--write", str(new))
    assert str(new) in result.stdout + result.stderr
    assert SECRET not in result.stdout + result.stderr
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    written = new.read_text()
    assert settings_of(written) == {key: value for key, value in settings_of(text).items() if key not in GONE} | {
        "group.protocol": "consumer",
        "group.remote.assignor": "uniform",
    }
    kept = [line for line in text.splitlines() if not line.startswith(GONE)]
    assert [line for line in written.splitlines() if not line.startswith(("group.protocol", "group.remote"))] == kept
    again = configured(kgroup, group, file, "--write", str(new), exit_code=2)
    assert str(new) in again.stderr
    assert new.read_text() == written
    configured(kgroup, group, file, "--write", str(file), exit_code=2)
    assert file.read_text() == text


def test_yaml_is_not_written(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    file, new = tmp_path / "pay.yaml", tmp_path / "new.yaml"
    file.write_text(YAML)
    refused = configured(kgroup, group, file, "--write", str(new), exit_code=2)
    assert "--write writes properties files only" in refused.stderr
    assert not new.exists()


@pytest.mark.parametrize("text", [JAVA, "group.id=clients-svc\nkey.deserializer=x\n"], ids=["strategy", "none"])
def test_configuration_that_is_there_already(kgroup: CommandLine, group: str, tmp_path: Path, text: str) -> None:
    """Where the file names no strategy, that of the group's last generation is mapped."""
    file, new = tmp_path / "pay.properties", tmp_path / "new"
    file.write_text(text)
    configured(kgroup, group, file, "--write", str(new))
    assert re.search(r"(?m)^group\.remote\.assignor ?= ?uniform$", new.read_text())
    assert changes(kgroup, group, new) == {}


def test_custom_assignor_in_the_configuration(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    """It can't be mapped: nothing is made up in its place."""
    file = tmp_path / "pay.properties"
    file.write_text(JAVA.replace("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "com.acme.Geo"))
    (row,) = configured(kgroup, group, file, "-o", "json", exit_code=6).data
    assert "com.acme.Geo" in str(row["checks"])
    assert row["readiness"] == "blocked"


def test_assignor_of_the_configuration_that_the_group_does_not_use(
    kgroup: CommandLine, group: str, tmp_path: Path
) -> None:
    """The group's last generation used cooperative-sticky, the file says range: which one counts is said."""
    file = tmp_path / "pay.conf"
    file.write_text(LIBRDKAFKA.replace("cooperative-sticky", "range"))
    said = " ".join(configured(kgroup, group, file).stdout.split())
    _, _, client = said.partition(str(file))
    assert "cooperative-sticky" in client
    assert "range" in client


def test_minimum_versions_beside_the_configuration(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    file = tmp_path / "pay.properties"
    file.write_text(JAVA)
    assert "4.0" in configured(kgroup, group, file).stdout
    assert "4.4.0" in configured(kgroup, group, file).stdout


def test_back_to_classic(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    """The other way round: what the consumer protocol alone knows goes."""
    file = tmp_path / "pay.properties"
    file.write_text("group.id=clients-svc\ngroup.protocol=consumer\ngroup.remote.assignor=uniform\n")
    listed = changes(kgroup, group, file, "--protocol", "classic")
    assert (listed["group.protocol"], listed["group.remote.assignor"]) == ("classic", None)
    file.write_text("group.id=clients-svc\ngroup.protocol=consumer\nkey.deserializer=x\n")
    strategy = changes(kgroup, group, file, "--protocol", "classic")["partition.assignment.strategy"]
    assert strategy == "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "the group's own"


def test_files_that_are_no_configuration(
    kgroup: CommandLine, world: KafkaWorld, group: str, tmp_path: Path, name: Name
) -> None:
    """2 before anything is done, with --execute too."""
    (tmp_path / "binary").write_bytes(b"\x00\xff\xfe group.id")
    idle = name("idle")
    world.commit(idle, {("orders-of-clients", 0): 1})
    for bad in ("missing", ".", "binary"):
        result = configured(kgroup, idle, tmp_path / bad, "--execute", exit_code=2)
        assert str(tmp_path) in result.stderr
        assert world.groups()[idle] == ("classic", "empty")
    good = tmp_path / "pay.properties"
    good.write_text(JAVA)
    configured(kgroup, idle, good, "--write", str(tmp_path / "nowhere" / "new"), "--execute", exit_code=2)
    configured(kgroup, idle, good, "--write", str(good), "--execute", exit_code=2)
    assert world.groups()[idle] == ("classic", "empty")
    kgroup("migrate", idle, "--write", str(tmp_path / "new"), exit_code=2)


def test_one_group_only(kgroup: CommandLine, group: str, bystander: str, tmp_path: Path) -> None:
    file = tmp_path / "pay.properties"
    file.write_text(JAVA)
    result = kgroup("migrate", group, bystander, "--client-config", str(file), exit_code=2)
    assert "--client-config" in result.stderr
    kgroup("migrate", "--regex", f"{group}|{bystander}", "--client-config", str(file), exit_code=2)
    kgroup("migrate", "--all-groups", "--client-config", str(file), exit_code=2)
